//! The consumer's side of feature slots on a GPU.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use uva_cuda::memory::SharedBuffer;
use uva_cuda::{Context, DeviceSlice, Stream};
use uva_rows::cuda::SlotReader;

use super::slots::{Gathered, SlotSignals, out_of_range, slot_shape, stamp};
use crate::RuntimeError;
use crate::plan::RunPlan;

/// The slots as the consumer has them.
#[derive(Debug)]
pub struct DeviceSlots {
    reader: SlotReader,
    signals: SlotSignals,
    /// Nanoseconds that the stream waited for batches given back since the last reading.
    waited: AtomicU64,
    rows: usize,
    /// A failure to give a slot back, which the request for the next batch reports.
    failed: Mutex<Option<RuntimeError>>,
}

impl DeviceSlots {
    pub(super) fn new(
        context: &Arc<Context>,
        plan: &RunPlan,
        buffer: Arc<SharedBuffer>,
        signals: SlotSignals,
    ) -> Result<Self, RuntimeError> {
        Ok(Self {
            reader: SlotReader::new(context, buffer, slot_shape(plan))?,
            signals,
            waited: AtomicU64::new(0),
            rows: plan.table_rows,
            failed: Mutex::new(None),
        })
    }

    /// The context of the slots' GPU.
    pub fn context(&self) -> &Arc<Context> {
        self.reader.context()
    }

    /// Uses this stream for all batches taken from now on. They are handed out before they are complete, and work
    /// enqueued on the stream meanwhile runs after their completion.
    pub fn use_stream(&self, stream: Stream) {
        self.reader.use_stream(stream);
    }

    /// A failure to give a slot back.
    pub(crate) fn failure(&self) -> Result<(), RuntimeError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// Keeps the first failure for [`DeviceSlots::failure`].
    fn fail(&self, error: impl Into<RuntimeError>) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.into());
    }

    /// Takes a slot whose `ready` state the ring has shown. If the host waits for it, this confirms it too.
    pub(crate) fn take(&self, slot: usize, sequence: u64) -> Result<(), RuntimeError> {
        self.reader.take(slot, &*self.signals.ready(slot, sequence)?)?;
        if self.reader.waited_on_the_host(slot) {
            self.confirm(slot, sequence)?;
        }
        Ok(())
    }

    /// Says that a slot is free which was not taken. A wait for an event that nobody records again passes, but one for a
    /// stamp wants that stamp.
    pub(crate) fn pass_over(&self, slot: usize, sequence: u64) -> Result<(), RuntimeError> {
        if let SlotSignals::Stamps { .. } = self.signals {
            self.reader.give_back(slot, &*self.signals.free(slot, sequence)?)?;
        }
        Ok(())
    }

    /// Whether the batch was whole when the stream reached it, and the result of its gather on the device. Call it
    /// after waiting for the work on it; earlier it may report an unfinished batch.
    fn confirm(&self, slot: usize, sequence: u64) -> Result<Gathered, RuntimeError> {
        let report = self.reader.report(slot);
        if report.stamp != stamp(sequence) {
            return Err(RuntimeError::PeerGone(format!(
                "feature slot {slot}: its producer had not finished it (stamp {}, not {}); what was computed from it \
                 is not used",
                report.stamp,
                stamp(sequence)
            )));
        }
        match report.bad() {
            Some((position, id)) => Err(out_of_range(position, id, self.rows)),
            None => Ok(Gathered::of(&report)),
        }
    }

    /// How long the stream waited for producers since the last reading.
    pub(crate) fn waited(&self) -> Duration {
        // Relaxed, as where it is added to: a sum for people, which orders nothing.
        Duration::from_nanos(self.waited.swap(0, Ordering::Relaxed))
    }

    /// Lends a slot that was taken, until [`Loan::give_back`].
    pub(crate) fn lend(slots: &Arc<Self>, slot: usize, sequence: u64) -> Loan {
        Loan { slots: Arc::clone(slots), slot, sequence }
    }
}

/// A taken slot. It is given back before the ring's slot, so that `free` is recorded before it is seen.
#[derive(Debug)]
pub(crate) struct Loan {
    slots: Arc<DeviceSlots>,
    slot: usize,
    sequence: u64,
}

impl Loan {
    /// The index of the slots' GPU.
    pub fn ordinal(&self) -> usize {
        self.slots.context().device().ordinal()
    }

    /// Bytes of the slot.
    ///
    /// # Panics
    /// When they are outside the slot. Ranges from a header that was checked against the layout are always inside.
    pub fn slice(&self, range: Range<usize>) -> DeviceSlice<'_> {
        self.slots.reader.slice(self.slot, range).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The bytes themselves, where device memory is host memory.
    ///
    /// # Panics
    /// As [`Loan::slice`].
    pub fn host_bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        self.slots.reader.host_bytes(self.slot, range).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn confirm(&self) -> Result<Gathered, RuntimeError> {
        self.slots.confirm(self.slot, self.sequence)
    }

    /// Gives the slot back. False: that failed, and the ring must not give it away either, since the GPU may still read
    /// it.
    pub fn give_back(self) -> bool {
        let slots = self.slots;
        // A batch that was dropped before its work was awaited has no time yet: that is no failure.
        if slots.confirm(self.slot, self.sequence).is_ok() {
            match slots.reader.waited(self.slot) {
                // Relaxed: see `DeviceSlots::waited`.
                Ok(waited) => drop(slots.waited.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed)),
                Err(error) => slots.fail(error),
            }
        }
        let free = slots.signals.free(self.slot, self.sequence);
        match free.and_then(|free| slots.reader.give_back(self.slot, &*free)) {
            Ok(()) => true,
            Err(error) => {
                slots.fail(error);
                false
            }
        }
    }
}
