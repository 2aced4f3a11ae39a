//! The state of a filler, and the work it enqueues.

use std::sync::Arc;

use uva_cuda::kernels::gather::{GatherKernels, GatherReport, IdWidth};
use uva_cuda::memory::{PinnedBuffer, SharedBuffer, device_to_host, host_to_device};
use uva_cuda::{Context, CudaError, Event, Stream};

use super::fill::{Fill, SlotPlace};
use crate::cuda::error::FillError;
use crate::cuda::place::{DevicePlace, DeviceSource};
use crate::cuda::slot::{Plan, SlotShape};
use crate::source::{Origin, Ticket};

pub(super) struct Held<S> {
    /// Dropped before the stream and the buffer that its work uses. None of its work is in flight then.
    pub source: S,
    pub stream: Stream,
    pub kernels: GatherKernels,
    pub slots: Vec<Slot>,
    /// Completed fills that have not been collected yet, by their numbers.
    pub finished: Vec<(u64, Fill)>,
    pub fills: u64,
    pub shape: SlotShape,
    pub row_bytes: usize,
    pub context: Arc<Context>,
    pub buffer: Arc<SharedBuffer>,
}

/// The host's side of a slot.
pub(super) struct Slot {
    /// The arrays on their way to the device: `SlotFiller::reserve` makes it.
    pub staging: Option<PinnedBuffer>,
    /// The copy of the report.
    pub report: PinnedBuffer,
    /// Recorded behind the last thing that a fill enqueues.
    pub done: Event,
    pub pending: Option<Pending>,
}

/// A fill that was enqueued.
#[derive(Clone, Copy)]
pub(super) struct Pending {
    number: u64,
    stamp: u64,
    rows: usize,
    ticket: Ticket,
}

impl<S: DeviceSource> Held<S> {
    /// Enqueues a fill. Returns its number.
    pub fn submit(&mut self, ids: &[i64], place: &SlotPlace<'_>, plan: &Plan) -> Result<u64, FillError> {
        let slot = place.slot;
        self.reclaim(slot)?;
        self.source.check(ids)?;
        debug_assert_eq!(
            bytemuck::cast_slice::<i64, u8>(ids),
            &place.payload[plan.ids_at..][..size_of_val(ids)]
        );
        let Self { source, stream, kernels, slots, .. } = self;
        let Slot { staging, report, done, pending } = &mut slots[slot];
        // `check_room` has seen to it that there is a buffer of that size. From here on nothing may go wrong but the
        // driver, after which nothing is filled any more.
        let staged = staging.as_mut().map_or(&mut [][..], PinnedBuffer::as_mut_slice);
        for (array, at) in &plan.arrays {
            staged[*at..][..array.len()].copy_from_slice(&place.payload[array.clone()]);
        }
        for ((to, at), (_, bytes)) in plan.beside.iter().zip(place.beside) {
            staged[*at..][..to.len()].copy_from_slice(bytes);
        }
        let base = self.buffer.address() + (slot * self.shape.stride) as u64;
        let report_address = base + self.shape.report_at as u64;
        let ids_address = base + plan.ids_at as u64;
        let features = base + place.features_at as u64;
        self.fills += 1;

        if let Some(after) = place.after {
            after.wait(stream)?;
        }
        for (array, at) in plan.arrays.iter().chain(&plan.beside) {
            let from = &staged[*at..][..array.len()];
            // SAFETY: the slot's own bytes, within its stride (`Plan::new`), which nobody else uses between `after` and
            // `ready`: that is what the caller's events say. The staging buffer is written again only once `done`
            // has been reached (`reclaim`), and lives as long as the stream is in use (`SlotFiller::drop`).
            unsafe { host_to_device(stream, from, base + array.start as u64)? };
        }
        // SAFETY: the report's bytes in the slot, as above.
        unsafe { kernels.begin(stream, report_address)? };
        // SAFETY: the ids were copied to their place before, in this stream. The rows are the slot's own and end within
        // it (`Plan::new`). The report was prepared just now. A slot is its own lane, reused only after `reclaim`.
        let on_device = unsafe { DevicePlace::new(slot, stream, ids_address, features, report_address) };
        let ticket = source.submit(ids, on_device).map_err(|error| match error {
            FillError::Cuda(error) => error,
            // Work is already in flight.
            error => CudaError::System(error.to_string()),
        })?;
        *pending = Some(Pending { number: self.fills, stamp: place.stamp, rows: plan.count, ticket });
        // SAFETY: report and ids as above.
        unsafe { kernels.finish(stream, IdWidth::I64, report_address, ids_address, place.stamp)? };
        place.ready.record(stream)?;
        // Behind `ready`, so that nobody waits for it. The next fill of this slot is on this stream, after it.
        // SAFETY: the report stays in the slot until then; the buffer is read only once `done` has been reached.
        unsafe { device_to_host(stream, report_address, report.as_mut_slice())? };
        done.record(stream)?;
        Ok(self.fills)
    }

    /// Waits, if need be, until the slot's last fill has run, so that its buffers may be written again.
    pub fn reclaim(&mut self, slot: usize) -> Result<(), FillError> {
        if self.slots[slot].pending.is_none() {
            return Ok(());
        }
        let done = &self.slots[slot].done;
        if !done.query()? {
            done.synchronize()?;
        }
        self.harvest(slot)
    }

    /// Whether the slot's staging buffer has room for that batch. It is not allocated here: allocating or freeing
    /// page-locked memory may wait for all queued work, on other streams too, and that work may wait for this host.
    pub fn check_room(&self, slot: usize, plan: &Plan) -> Result<(), FillError> {
        let room = self.slots[slot].staging.as_ref().map(PinnedBuffer::bytes);
        let needed = plan.staged;
        if room.is_some_and(|room| needed <= room) {
            return Ok(());
        }
        Err(FillError::Layout(format!(
            "a batch needs {needed} bytes of slot {slot}'s staging buffer, and {} were reserved: reserve for the largest \
             batch before the first fill",
            room.unwrap_or(0)
        )))
    }

    /// Reads the report of a completed fill, whose `done` has been reached.
    fn harvest(&mut self, slot: usize) -> Result<(), FillError> {
        let state = &mut self.slots[slot];
        let Some(pending) = state.pending.take() else { return Ok(()) };
        let mut bytes = [0; GatherReport::BYTES];
        bytes.copy_from_slice(&state.report.as_slice()[..GatherReport::BYTES]);
        let report = GatherReport::from_bytes(&bytes);
        if report.stamp != pending.stamp {
            return Err(CudaError::System(format!(
                "the report of slot {slot} is stamped {} where {} was enqueued: something else writes to the slot",
                report.stamp, pending.stamp
            ))
            .into());
        }
        let read = self.source.wait(pending.ticket)?;
        let fill = Fill {
            slot,
            stamp: pending.stamp,
            rows: pending.rows,
            // Only the kernel knows the hits of the rows that it read.
            read: read.with_hits(Origin::ZeroCopy, Origin::DeviceCache, report.hits),
            began_ns: report.began_ns,
            ended_ns: report.ended_ns,
            bad: report.bad(),
        };
        self.finished.push((pending.number, fill));
        Ok(())
    }

    pub fn collect(&mut self, wait: bool) -> Result<Vec<Fill>, FillError> {
        for slot in 0..self.slots.len() {
            if self.slots[slot].pending.is_none() {
                continue;
            }
            if wait {
                self.slots[slot].done.synchronize()?;
            } else if !self.slots[slot].done.query()? {
                continue;
            }
            self.harvest(slot)?;
        }
        self.finished.sort_by_key(|(number, _)| *number);
        Ok(self.finished.drain(..).map(|(_, fill)| fill).collect())
    }

    /// Waits for the fill of that number, which is the slot's last or has been harvested, and takes it out.
    pub fn wait_for(&mut self, slot: usize, number: u64) -> Result<Option<Fill>, FillError> {
        self.slots[slot].done.synchronize()?;
        self.harvest(slot)?;
        let found = self.finished.iter().position(|(finished, _)| *finished == number);
        Ok(found.map(|at| self.finished.remove(at).1))
    }
}
