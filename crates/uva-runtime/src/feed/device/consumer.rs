//! The consumer's side of feature slots on a GPU.

use std::mem::offset_of;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use uva_batch::Proof;
use uva_cuda::kernels::gather::GatherReport;
use uva_cuda::memory::SharedBuffer;
use uva_cuda::{Context, CudaStream, DeviceSlice};
use uva_rows::cuda::{OversizedMemory, SlotLease, SlotReader};

use super::slots::{Gathered, SlotSignals, TableFiles, slot_shape, stamp};
use crate::RuntimeError;
use crate::plan::RunPlan;

/// The consumer's handle to the slots.
#[derive(Debug)]
pub struct DeviceSlots {
    reader: SlotReader,
    signals: SlotSignals,
    /// Nanoseconds that the stream waited for batches returned since the last reading.
    waited: AtomicU64,
    tables: TableFiles,
    /// A failure to return a slot, which the request for the next batch reports.
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
            tables: TableFiles::of(plan),
            failed: Mutex::new(None),
        })
    }

    /// The context of the slots' GPU.
    pub fn context(&self) -> &Arc<Context> {
        self.reader.context()
    }

    /// Uses this stream for all batches taken from now on. Batches are handed out before they are complete, and work
    /// enqueued on the stream runs after their completion.
    pub fn use_stream(&self, stream: impl Into<Arc<CudaStream>>) {
        self.reader.use_stream(stream);
    }

    /// A failure to return a slot.
    pub(crate) fn failure(&self) -> Result<(), RuntimeError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// Keeps the first failure for [`DeviceSlots::failure`].
    fn fail(&self, error: impl Into<RuntimeError>) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.into());
    }

    /// Signals that a slot is free which was not taken. A wait for an event passes even if the event is not recorded
    /// again, but a wait for a stamp requires that stamp.
    pub(crate) fn pass_over(&self, slot: usize, sequence: u64) -> Result<(), RuntimeError> {
        if let SlotSignals::Stamps { .. } = self.signals {
            self.reader.give_back(slot, &*self.signals.free(slot, sequence)?)?;
        }
        Ok(())
    }

    /// Takes a slot whose `ready` state the ring has shown, until [`Loan::give_back`]. If the host waits for it, this
    /// confirms it too.
    pub(crate) fn take(slots: &Arc<Self>, slot: usize, sequence: u64) -> Result<Loan, RuntimeError> {
        let taking = slots.reader.take(slot, &*slots.signals.ready(slot, sequence)?)?;
        Self::lend(slots, slot, sequence, (taking, None))
    }

    /// Takes a batch that does not fit its slot. `image` is the content that the slot would have; it is copied.
    pub(crate) fn take_aside(
        slots: &Arc<Self>,
        slot: usize,
        sequence: u64,
        image: &[u8],
    ) -> Result<Loan, RuntimeError> {
        let (taking, aside) = slots.reader.take_aside(slot, image)?;
        Self::lend(slots, slot, sequence, (taking, Some(aside)))
    }

    fn lend(
        slots: &Arc<Self>,
        slot: usize,
        sequence: u64,
        (taking, aside): (SlotLease, Option<OversizedMemory>),
    ) -> Result<Loan, RuntimeError> {
        let waited = taking.waited_on_the_host();
        let receipt =
            Receipt { slots: Arc::clone(slots), taking: Some(taking), slot, sequence, hits_on_host: None };
        if waited {
            receipt.confirm()?;
        }
        Ok(Loan { receipt: Arc::new(receipt), aside })
    }

    /// The time that the stream waited for producers since the last reading.
    pub(crate) fn waited(&self) -> Duration {
        // Relaxed, as where it is added to: a sum for people, which orders nothing.
        Duration::from_nanos(self.waited.swap(0, Ordering::Relaxed))
    }
}

/// Access to the report on a batch on a GPU. Up to [`Receipt::LATE`] receipts may be kept beyond their batches: the
/// consumer runs ahead of its GPU, and confirms a batch once the work on it has run.
#[derive(Debug)]
pub struct Receipt {
    slots: Arc<DeviceSlots>,
    /// Present until it is dropped.
    taking: Option<SlotLease>,
    slot: usize,
    sequence: u64,
    /// Rows that hit a cache in which the host looks up rows, and which are not in the report.
    hits_on_host: Option<u64>,
}

impl Receipt {
    /// Maximum number of receipts that may be kept beyond their batches.
    pub const LATE: usize = SlotReader::LATE;

    /// Checks that the batch was complete when the stream reached it. Call it after waiting for the work on the batch;
    /// an earlier call may report an unfinished batch.
    ///
    /// # Errors
    /// See [`Batch::confirm`](crate::Batch::confirm).
    pub fn confirm(&self) -> Result<(), RuntimeError> {
        self.gathered().map(drop)
    }

    /// The duration of the producer's work on the batch; 0 until it is confirmed.
    pub fn gather_time(&self) -> Duration {
        self.gathered().map_or(Duration::ZERO, |gathered| gathered.time)
    }

    /// The number of the batch's rows from the feature cache; 0 until it is confirmed.
    pub fn rows_cached(&self) -> u64 {
        self.hits_on_host.unwrap_or_else(|| self.gathered().map_or(0, |gathered| gathered.hits))
    }

    fn gathered(&self) -> Result<Gathered, RuntimeError> {
        let Some(taking) = &self.taking else { unreachable!("present until it is dropped") };
        let (report, expected) = (self.slots.reader.report(taking), stamp(self.sequence));
        if report.stamp != expected {
            return Err(RuntimeError::peer_gone(format!(
                "feature slot {}: its producer had not finished it (stamp {}, not {expected}); what was computed from \
                 it is not used",
                self.slot, report.stamp
            ))
            .in_slot(self.slot as u32, Some(self.sequence)));
        }
        match report.bad() {
            Some(bad) => Err(self.slots.tables.out_of_range(bad)),
            None => Ok(Gathered::of(&report)),
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        let Some(taking) = self.taking.take() else { return };
        let report = self.slots.reader.report(&taking);
        // A batch that was dropped before its work was awaited has no time yet, which is not a failure.
        if report.stamp == stamp(self.sequence) {
            match self.slots.reader.waited(&taking) {
                // Relaxed: see `DeviceSlots::waited`.
                Ok(waited) => {
                    self.slots.waited.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
                }
                Err(error) => self.slots.fail(error),
            }
        }
        self.slots.reader.done(taking);
    }
}

/// A taken slot. It is returned before the ring's slot, so that `free` is recorded before it is visible.
#[derive(Debug)]
pub(crate) struct Loan {
    receipt: Arc<Receipt>,
    /// The batch, if it does not fit the slot.
    aside: Option<OversizedMemory>,
}

impl Loan {
    /// Sets the number of rows from a cache, for a batch whose hits the host counts.
    pub(crate) fn with_hits(mut self, hits: u64) -> Self {
        // The receipt has not been handed out yet.
        if let Some(receipt) = Arc::get_mut(&mut self.receipt) {
            receipt.hits_on_host = Some(hits);
        }
        self
    }

    fn reader(&self) -> &SlotReader {
        &self.receipt.slots.reader
    }

    /// The index of the slots' GPU.
    pub fn ordinal(&self) -> usize {
        self.receipt.slots.context().device().ordinal()
    }

    /// Whether the batch does not fit the slot.
    pub fn is_aside(&self) -> bool {
        self.aside.is_some()
    }

    /// Bytes of the slot, or of the content that it would have.
    ///
    /// # Panics
    /// If they are outside the slot. Ranges from a header that was checked against the layout are always inside.
    pub fn slice(&self, range: Range<usize>) -> DeviceSlice<'_> {
        let slice = match &self.aside {
            None => self.reader().slice(self.receipt.slot, range),
            Some(aside) => aside.slice(range),
        };
        slice.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The bytes in host memory, if device memory is host memory.
    ///
    /// # Panics
    /// As [`Loan::slice`].
    pub fn host_bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        let (reader, slot) = (self.reader(), self.receipt.slot);
        let bytes = match &self.aside {
            None => reader.host_bytes(slot, range),
            Some(aside) => reader.host_bytes_aside(slot, aside, range),
        };
        bytes.unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn receipt(&self) -> &Arc<Receipt> {
        &self.receipt
    }

    /// The proof on the device that the batch is complete.
    ///
    /// # Panics
    /// Never: every slot has a report.
    pub fn proof(&self) -> Proof<'_> {
        let words = match &self.aside {
            None => self.reader().report_slice(self.receipt.slot),
            Some(aside) => aside.report_slice(),
        };
        let words = words.unwrap_or_else(|error| panic!("{error}"));
        let (stamped, bad) =
            (offset_of!(GatherReport, stamp) / 8, offset_of!(GatherReport, bad_position) / 8);
        // All ones if every id was a row.
        Proof { words, expected: [(stamped, stamp(self.receipt.sequence) as i64), (bad, -1)] }
    }

    /// Returns the slot. Returns false on failure: the ring must then not release the slot either, since the GPU may
    /// still read it.
    pub fn give_back(self) -> bool {
        let Receipt { slots, slot, sequence, .. } = &*self.receipt;
        let free = slots.signals.free(*slot, *sequence);
        let given_back = free.and_then(|free| slots.reader.give_back(*slot, &*free));
        let put_away = self.aside.map_or(Ok(()), |aside| slots.reader.put_away(*slot, aside));
        match given_back.and(put_away) {
            Ok(()) => true,
            Err(error) => {
                slots.fail(error);
                false
            }
        }
    }
}
