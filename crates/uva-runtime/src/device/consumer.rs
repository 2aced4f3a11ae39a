//! The consumer's side of feature slots on a GPU.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use uva_cuda::memory::SharedBuffer;
use uva_cuda::{Context, DeviceSlice, Stream};
use uva_gather::cuda::SlotReader;

use super::{Gathered, SlotEvents, out_of_range, slot_shape, stamp};
use crate::RuntimeError;
use crate::plan::RunPlan;

/// The slots as the consumer has them.
#[derive(Debug)]
pub struct DeviceSlots {
    reader: SlotReader,
    events: SlotEvents,
    /// How long the stream stood still for batches that were given back, since this was last asked.
    waited: Cell<Duration>,
    rows: usize,
    /// What giving a slot back could not report: said when the next one is asked for.
    failed: Option<RuntimeError>,
}

impl DeviceSlots {
    pub(super) fn new(
        context: &Arc<Context>,
        plan: &RunPlan,
        buffer: Arc<SharedBuffer>,
        events: SlotEvents,
    ) -> Result<Self, RuntimeError> {
        Ok(Self {
            reader: SlotReader::new(context, buffer, slot_shape(plan))?,
            events,
            waited: Cell::new(Duration::ZERO),
            rows: plan.table_rows,
            failed: None,
        })
    }

    /// The context of the slots' GPU.
    pub fn context(&self) -> &Arc<Context> {
        self.reader.context()
    }

    /// Uses batches on this stream from now on: they are handed out before they are complete, and what is enqueued on
    /// the stream meanwhile finds them so.
    pub fn use_stream(&mut self, stream: Stream) {
        self.reader.use_stream(stream);
    }

    /// What giving a slot back could not report.
    pub(crate) fn failure(&mut self) -> Result<(), RuntimeError> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Takes a slot whose `ready` the ring has shown. Where the host waits for it, it is confirmed too.
    pub(crate) fn take(&mut self, slot: usize, sequence: u64) -> Result<(), RuntimeError> {
        self.reader.take(slot, &self.events.ready[slot])?;
        if self.reader.waits_on_the_host() {
            self.confirm(slot, sequence)?;
        }
        Ok(())
    }

    /// Whether the batch was whole when the stream came to it, and how its gather went on the device. To be asked
    /// when the work on it has been waited for; before that the answer may be that it was not.
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

    /// How long the stream stood still for producers since this was last asked.
    pub(crate) fn waited(&self) -> Duration {
        self.waited.take()
    }

    /// Lends a slot that was taken; dropping the loan gives it back.
    pub(crate) fn lend(&mut self, slot: usize, sequence: u64) -> Loan<'_> {
        Loan { slots: self, slot, sequence }
    }
}

/// A taken slot. Given back before the ring's slot is, so that `free` is recorded before it is seen.
#[derive(Debug)]
pub(crate) struct Loan<'a> {
    slots: &'a mut DeviceSlots,
    slot: usize,
    sequence: u64,
}

impl Loan<'_> {
    /// Bytes of the slot.
    ///
    /// # Panics
    /// When they are not within it: a header that was held against the layout names no others.
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

    /// Gives the slot back. False: that was not possible, and the ring must not give it away either, since the GPU may
    /// still read it.
    pub fn give_back(self) -> bool {
        let slots = self.slots;
        // A batch that was dropped before its work was waited for has no time yet: that is no failure.
        if slots.confirm(self.slot, self.sequence).is_ok() {
            match slots.reader.waited(self.slot) {
                Ok(waited) => slots.waited.set(slots.waited.get() + waited),
                Err(error) => slots.failed = Some(error.into()),
            }
        }
        match slots.reader.give_back(&slots.events.free[self.slot]) {
            Ok(()) => true,
            Err(error) => {
                slots.failed.get_or_insert(error.into());
                false
            }
        }
    }
}
