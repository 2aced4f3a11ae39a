//! The state of a filler, and the work it enqueues.

use std::ops::Range;
use std::sync::Arc;

use uva_cuda::kernels::copies::DeviceCopy;
use uva_cuda::kernels::gather::{GatherKernels, GatherReport, IdWidth};
use uva_cuda::memory::{PinnedBuffer, SharedBuffer, device_to_host, host_to_device};
use uva_cuda::{Context, CudaError, CudaEvent, CudaStream};

use super::fill::{BroughtRows, CACHE_LINE, Fill, OnDevice, SlotPlace};
use crate::cuda::error::FillError;
use crate::cuda::place::{DevicePlace, DeviceSource};
use crate::cuda::slots::continued_sums::{Continued, ContinuedBatch};
use crate::cuda::slots::slot::{Plan, REPORT, SlotShape};
use crate::cuda::slots::sums::Scratch;
use crate::cuda::sources::table_set::TableSet;
use crate::cuda::store::tables::DeviceTables;
use crate::source::{RowOrigin, RowsRead, Ticket};

pub(super) struct FillerState<S> {
    /// The source, dropped before the stream and the buffer that its work uses. No work is in flight then.
    pub source: S,
    /// The stream of gathers.
    pub stream: CudaStream,
    /// The stream of uploads: an upload need not wait for the previous batch's gather.
    pub uploads: CudaStream,
    pub kernels: GatherKernels,
    /// Memory for the rows of a fill that are summed.
    pub scratch: Option<Scratch>,
    /// The tables for fills that request their rows.
    pub tables: Option<DeviceTables>,
    /// The tables for fills with ids for each of them.
    pub set: Option<TableSet>,
    /// The cache for sums that a kernel continues.
    pub continued: Option<Continued>,
    pub slots: Vec<HostSlot>,
    /// Completed fills that have not been collected yet, by their numbers.
    pub finished: Vec<(u64, Fill)>,
    pub fills: u64,
    pub shape: SlotShape,
    pub row_bytes: usize,
    pub context: Arc<Context>,
    pub buffer: Arc<SharedBuffer>,
}

/// The host's side of a slot.
pub(super) struct HostSlot {
    /// Report and arrays being sent to the device; allocated by `SlotFiller::reserve_room`.
    pub staging: Option<PinnedBuffer>,
    /// Rows or begun sums of the host, being sent to the device; allocated by `SlotFiller::reserve_made` and
    /// `SlotFiller::continue_sums`.
    pub made: Option<PinnedBuffer>,
    /// Memory that the fill in flight copies arrays from.
    pub lent: Option<Arc<SharedBuffer>>,
    /// The copy of the report.
    pub report: PinnedBuffer,
    /// Recorded after the upload.
    pub uploaded: CudaEvent,
    /// Recorded after the last work of a fill.
    pub done: CudaEvent,
    pub pending: Option<Pending>,
}

/// An enqueued fill.
#[derive(Clone, Copy)]
pub(super) struct Pending {
    number: u64,
    stamp: u64,
    rows: usize,
    /// The source's ticket, unless the host made the rows or began their sums.
    ticket: Option<Ticket>,
}

impl<S: DeviceSource> FillerState<S> {
    /// Enqueues a fill. Returns its number, and the origins of its rows as far as known.
    pub fn submit(
        &mut self,
        ids: &[i64],
        place: &SlotPlace<'_>,
        plan: &Plan,
    ) -> Result<(u64, RowsRead), FillError> {
        let slot = place.slot;
        self.reclaim(slot)?;
        if place.tables_at.is_none() {
            self.source.check(ids)?;
        }
        let Self { source, stream, uploads, kernels, scratch, tables, set, continued, slots, .. } = self;
        let HostSlot { staging, made, lent, report, uploaded, done, pending } = &mut slots[slot];
        // The host's part of the sums, its memory, and its destination.
        let mut begun = None;
        // `SlotFiller::submit` has checked the size.
        let made = match (made, &place.made) {
            (Some(room), None) => {
                if let (Some(continued), Some(on_host)) = (&*continued, &place.begun) {
                    let (to, device_room) = continued.part(slot);
                    let of_host = (on_host.begin)(room.as_mut_slice())?;
                    if of_host.bytes() > room.bytes().min(device_room) {
                        let (bytes, room) = (of_host.bytes(), room.bytes());
                        return Err(FillError::Layout(format!("{bytes} bytes of begun sums in {room}")));
                    }
                    begun = Some((of_host, &*room, to));
                }
                None
            }
            (Some(room), Some(rows)) => {
                let mut rest = room.as_mut_slice();
                let mut parts = Vec::with_capacity(rows.ranges.len());
                for range in rows.ranges {
                    let (part, behind) = rest.split_at_mut(range.len().next_multiple_of(CACHE_LINE));
                    parts.push(&mut part[..range.len()]);
                    rest = behind;
                }
                (rows.make)(&mut parts)?;
                Some(parts.into_iter().zip(rows.ranges))
            }
            _ => None,
        };
        if let Some(BroughtRows { by, runs, ranges, took }) = place.brought {
            // These writes are not ordered by a stream, so the consumer's last use of the slot must be over. Earlier
            // enqueued uploads do not depend on later work of this host.
            if let Some(after) = place.after {
                after.wait(uploads)?;
            }
            uploads.synchronize()?;
            // SAFETY: ranges within the slot, without overlaps (`Plan::new`), in the memory of the slots
            // (`SlotFiller::submit`). The last fill of the slot has run (`reclaim`), its consumer is done with it
            // (above), and this fill enqueues its work only afterwards.
            took.set(unsafe { by.borrow_mut().read(runs, slot * self.shape.stride, ranges) }?);
        }
        // `check_room` has checked that there is a buffer of that size. From here on only the driver may fail, after
        // which no slot is filled any more.
        let staged = staging.as_mut().map_or(&mut [][..], PinnedBuffer::as_mut_slice);
        let staged = &mut staged[..plan.upload.len()];
        let mut write = |at: usize, bytes: &[u8]| {
            staged[at - plan.upload.start..][..bytes.len()].copy_from_slice(bytes);
        };
        // Without a gather kernel, only the host has the number of hits.
        let hits = begun.as_ref().map_or(0, |(begun, ..)| begun.kept);
        write(REPORT.start, GatherReport { hits, ..GatherReport::PREPARED }.bytes());
        place.arrays.iter().for_each(|(at, bytes)| write(*at, bytes));
        debug_assert!(
            place.on_device.is_some()
                || staged[plan.ids_at.saturating_sub(plan.upload.start)..]
                    .starts_with(bytemuck::cast_slice(ids)),
            "the ids are not where they should be"
        );
        let base = self.buffer.address() + (slot * self.shape.stride) as u64;
        let report_address = base + REPORT.start as u64;
        let ids_address = base + plan.ids_at as u64;
        // `SlotFiller::submit` has checked that there are sums if and only if there is a scratch.
        let rows = scratch.as_ref().map_or(base + place.features_at as u64, Scratch::address);
        self.fills += 1;

        if let Some(after) = place.after {
            after.wait(uploads)?;
        }
        // SAFETY: the slot's own bytes, within its stride (`Plan::new`), which no other code uses between `after` and
        // `ready`, by the caller's events. The staging buffer is written again only once `done` has been reached
        // (`reclaim`), and lives as long as the streams are in use (`SlotFiller::drop`).
        unsafe { host_to_device(uploads, staged, base + plan.upload.start as u64)? };
        let by_host = made.is_some() || begun.is_some() || place.brought.is_some();
        if let Some((begun, room, to)) = &begun {
            // SAFETY: the slot's part of the device memory, which is large enough (above), and which only this slot's
            // fills use. The last kernel that read it ran before `done`, as did the last copy from the page-locked
            // memory, and `reclaim` waited for that.
            unsafe { host_to_device(uploads, &room.as_slice()[..begun.bytes()], *to)? };
        }
        for (rows, range) in made.into_iter().flatten().filter(|(rows, _)| !rows.is_empty()) {
            // SAFETY: as above; the room is written again only once `done` has been reached, too.
            unsafe { host_to_device(uploads, rows, base + range.start as u64)? };
        }
        if let Some(OnDevice { memory, arrays, taken, .. }) = place.on_device {
            // Held until the copies have run: `harvest` releases it.
            *lent = Some(Arc::clone(memory));
            let copy = |(to, from): &(usize, Range<usize>)| DeviceCopy {
                from: memory.address() + from.start as u64,
                to: base + *to as u64,
                bytes: from.len() as u64,
            };
            let copies: Vec<DeviceCopy> = arrays.iter().map(copy).collect();
            // SAFETY: the slot's bytes as above, and none of the upload's (`Plan::new`). The sources are within their
            // memory (`SlotFiller::submit`), which is held; the caller keeps others from writing it until `taken`.
            unsafe { kernels.copy(uploads, &copies)? };
            taken.record(uploads)?;
        }
        uploaded.record(uploads)?;
        stream.wait(uploaded)?;
        // SAFETY: the copies, which the stream waits for, brought the ids and a prepared report. The rows are the
        // slot's own and end within it (`Plan::new`), or those of the scratch, which is large enough
        // (`SlotFiller::submit`) and is only used by this stream's work. A slot is its own lane, reused only after
        // `reclaim`.
        let on_device = unsafe {
            DevicePlace::new(slot, stream, kernels, (ids_address, plan.count), rows, report_address)
        };
        let mut from_set = None;
        let ticket = match (place.tables_at.zip(tables.as_ref()), by_host) {
            _ if let Some((places, set)) = place.of_set.zip(set.as_ref()) => {
                // SAFETY: report and stream as above. Ids and rows of every table have their ranges in the slot
                // (`Plan::new`), and the tables live as long as the stream is in use.
                let enqueued = unsafe { set.enqueue(stream, kernels, (base, places), report_address) };
                enqueued.map(|(rows, read)| {
                    from_set = Some((set, rows));
                    Some(Ticket::of(slot, read))
                })
            }
            (Some((places, tables)), _) => {
                let outs = places.iter().map(|at| base + *at as u64);
                let ids = (ids_address, plan.count);
                // SAFETY: ids, report and stream as above. Rows of every table have their range in the slot
                // (`Plan::new`), and the tables live as long as the stream is in use.
                unsafe { tables.enqueue(stream, kernels, ids, outs, report_address) }?;
                Ok(None)
            }
            (None, false) => source.submit(ids, on_device).map(Some),
            // A kernel that continues sums records the beginning itself.
            (None, true) if begun.is_some() => Ok(None),
            (None, true) => on_device.note_beginning().map(|()| None),
        };
        let ticket = ticket.map_err(|error| match error {
            FillError::Cuda(error) => error,
            // Work is already in flight.
            error => CudaError::System(error.to_string()),
        })?;
        if let (Some(scratch), Some(sums)) = (scratch, &place.sums) {
            // SAFETY: the rows were gathered just now. The lists are in the slot's arrays, and own rows and sums are
            // within it, without overlaps (`Plan::new`).
            let summed = unsafe { scratch.sum(stream, kernels, (base, place.features_at), plan.count, sums) };
            summed.map_err(|error| match error {
                FillError::Cuda(error) => error,
                error => CudaError::System(error.to_string()),
            })?;
        }
        if let (Some(continued), Some(sums), Some((begun, ..))) = (&*continued, &place.sums, &begun) {
            let batch = ContinuedBatch {
                slot,
                base,
                features_at: place.features_at,
                ids: ids_address,
                count: plan.count,
                report: report_address,
                sums,
                begun,
            };
            // SAFETY: the uploads, which the stream waits for, brought ids, lists, a prepared report and the host's
            // part. Own rows and sums are within the slot, without overlaps (`Plan::new`).
            let summed = unsafe { continued.sum(stream, kernels, &batch) };
            summed.map_err(|error| match error {
                FillError::Cuda(error) => error,
                error => CudaError::System(error.to_string()),
            })?;
        }
        // Rows that the source has not read are not included.
        let rows = match &from_set {
            Some(_) => ticket.map_or(0, |ticket| ticket.read.total() as usize),
            None if ticket.is_some() => plan.count,
            None => 0,
        };
        *pending = Some(Pending { number: self.fills, stamp: place.stamp, rows, ticket });
        // SAFETY: report and ids as above.
        unsafe {
            match from_set {
                Some((set, rows)) => set.finish(stream, kernels, &rows, report_address, place.stamp)?,
                None => kernels.finish(stream, IdWidth::I64, report_address, ids_address, place.stamp)?,
            }
        }
        place.ready.record(stream)?;
        // Enqueued after `ready`, so that no consumer waits for it. SAFETY: the report stays in the slot until the next
        // fill of this slot is enqueued, and `reclaim` waits for `done` before that. The buffer is read only once
        // `done` has been reached, too.
        unsafe { device_to_host(stream, report_address, report.as_mut_slice())? };
        done.record(stream)?;
        Ok((self.fills, ticket.map_or_else(RowsRead::default, |ticket| ticket.read)))
    }

    /// Whether a kernel sums the rows of fills.
    pub fn sums_rows(&self) -> bool {
        self.scratch.is_some() || self.continued.is_some()
    }

    /// Waits, if necessary, until the slot's last fill has run, so that its buffers may be written again.
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

    /// Checks that the slot's staging buffer is large enough for that batch. It is not allocated here: allocating or
    /// freeing page-locked memory may wait for all queued work, on other streams too, and that work may wait for this
    /// host.
    pub fn check_room(&self, slot: usize, plan: &Plan) -> Result<(), FillError> {
        let room = self.slots[slot].staging.as_ref().map(PinnedBuffer::bytes);
        let needed = plan.upload.len();
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
        state.lent = None;
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
        let read = match pending.ticket {
            Some(ticket) if self.set.is_some() => ticket.read,
            // Only the kernel has the number of hits among the rows that it read.
            Some(ticket) => {
                self.source.wait(ticket)?.with_hits(RowOrigin::ZeroCopy, RowOrigin::DeviceCache, report.hits)
            }
            None => RowsRead::default(),
        };
        let fill = Fill {
            slot,
            stamp: pending.stamp,
            rows: pending.rows,
            read,
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
