//! What a filler holds, and what it enqueues.

use std::sync::Arc;

use uva_cuda::kernels::cache::CacheInsertion;
use uva_cuda::kernels::gather::{GatherArguments, GatherKernels, GridBound, IdWidth, Kernel};
use uva_cuda::memory::{PinnedBuffer, SharedBuffer, device_to_host, host_to_device};
use uva_cuda::{Context, CudaError, Event, Stream};

use super::{Fill, FillError, GatherMode};
use crate::cuda::balance::{Balance, Measured};
use crate::cuda::cache::{DeviceCache, write_insertions};
use crate::cuda::copy_path::CopyPath;
use crate::cuda::gather::report_of;
use crate::cuda::slot::Plan;
use crate::cuda::{GatherTable, SlotShape};

/// A kernel reads insertions a line at a time.
const LINE: usize = 128;

pub(super) struct Held {
    pub stream: Stream,
    /// In the modes with copies.
    pub copies: Option<CopyPath>,
    pub balance: Balance,
    pub kernels: GatherKernels,
    pub kernel: Kernel,
    pub bound: GridBound,
    pub mode: GatherMode,
    /// With zero-copy alone.
    pub cache: Option<DeviceCache>,
    pub slots: Vec<Slot>,
    /// Fills whose slot was filled again before anybody asked.
    pub finished: Vec<(u64, Fill)>,
    pub fills: u64,
    pub shape: SlotShape,
    pub rows: usize,
    pub row_bytes: usize,
    pub context: Arc<Context>,
    pub buffer: Arc<SharedBuffer>,
    pub table: GatherTable,
}

/// What one slot needs on the host's side.
pub(super) struct Slot {
    /// The arrays on their way to the device, and behind them what a FIFO cache takes in: `SlotFiller::reserve` makes
    /// it.
    pub staging: Option<PinnedBuffer>,
    /// Where the report is copied to.
    pub report: PinnedBuffer,
    /// Recorded behind the last thing that a fill enqueues.
    pub done: Event,
    pub times: Option<Times>,
    pub pending: Option<Pending>,
}

/// Marks around both ways of a split, from which the balance learns.
pub(super) struct Times {
    pub kernel_began: Event,
    pub kernel_ended: Event,
    pub copies_began: Event,
    pub copies_ended: Event,
}

/// A fill that was enqueued.
#[derive(Clone, Copy)]
pub(super) struct Pending {
    pub number: u64,
    pub stamp: u64,
    pub rows: usize,
    pub zero_copy_rows: usize,
}

impl Times {
    pub fn new(context: &Arc<Context>) -> Result<Self, CudaError> {
        let event = || Event::timing(context);
        Ok(Self {
            kernel_began: event()?,
            kernel_ended: event()?,
            copies_began: event()?,
            copies_ended: event()?,
        })
    }

    /// What both ways did, once all of it has run.
    fn measured(&self, fill: &Pending) -> Result<(Measured, Measured), CudaError> {
        let seconds = |began, ended| Ok::<_, CudaError>(f64::from(Event::elapsed_ms(began, ended)?) / 1e3);
        let kernel =
            Measured { rows: fill.zero_copy_rows, seconds: seconds(&self.kernel_began, &self.kernel_ended)? };
        let copies = Measured {
            rows: fill.rows - fill.zero_copy_rows,
            seconds: seconds(&self.copies_began, &self.copies_ended)?,
        };
        Ok((kernel, copies))
    }
}

impl Held {
    #[allow(clippy::too_many_arguments, reason = "as SlotFiller::fill")]
    pub fn fill(
        &mut self,
        slot: usize,
        payload: &[u8],
        plan: &Plan,
        features_at: usize,
        stamp: u64,
        after: Option<&Event>,
        ready: &Event,
    ) -> Result<(), FillError> {
        self.reclaim(slot)?;
        let insertions = self.stage(slot, payload, plan);
        let Self { stream, copies, kernels, slots, .. } = self;
        let Slot { staging, report, done, times, pending } = &mut slots[slot];
        let staged = staging.as_ref().map_or(&[][..], PinnedBuffer::as_slice);
        let ids: &[i64] = bytemuck::cast_slice(&staged[plan.ids_staged_at..][..plan.count * 8]);
        if let Some(copies) = copies {
            copies.check(ids)?;
        }
        let zero_copy_rows = match self.mode {
            GatherMode::ZeroCopy => plan.count,
            GatherMode::Dma => 0,
            GatherMode::Split => self.balance.first_of(plan.count),
        };
        let base = self.buffer.address() + (slot * self.shape.stride) as u64;
        let report_address = base + self.shape.report_at as u64;
        let ids_address = base + plan.ids_at as u64;
        let features = base + features_at as u64;
        let (slot_map, cached_rows) = self.cache.as_ref().map_or((0, 0), DeviceCache::addresses);
        let arguments = GatherArguments {
            // With copies alone no kernel reads it.
            table: self.table.address().unwrap_or(0),
            rows: self.rows as u64,
            row_bytes: self.row_bytes as u64,
            ids: ids_address,
            count: zero_copy_rows as u64,
            out: features,
            report: report_address,
            slot_map,
            cache: cached_rows,
        };
        self.fills += 1;
        *pending = Some(Pending { number: self.fills, stamp, rows: plan.count, zero_copy_rows });

        if let Some(after) = after {
            stream.wait(after)?;
        }
        for (array, at) in &plan.arrays {
            let from = &staged[*at..][..array.len()];
            // SAFETY: the slot's own bytes, within its stride (`Plan::new`), which nobody else uses between `after` and
            // `ready`: that is what the caller's events say. The staging buffer is written again only once `done`
            // has been reached (`reclaim`), and lives as long as the stream is in use (`SlotFiller::drop`).
            unsafe { host_to_device(stream, from, base + array.start as u64)? };
        }
        // SAFETY: the report's bytes in the slot, as above.
        unsafe { kernels.begin(stream, report_address)? };
        // The copies' stream goes on from here. Its own way to wait for `after`, without asking the peer's event twice.
        if let Some(copies) = copies.as_ref().filter(|_| zero_copy_rows < plan.count) {
            let opened = times.as_ref().map_or(&*done, |times| &times.kernel_began);
            opened.record(stream)?;
            copies.stream.wait(opened)?;
        }
        if zero_copy_rows > 0 {
            // SAFETY: the table is pinned and held; the ids were copied to their place before, in this stream; the
            // output is the slot's own and ends within it (`Plan::new`), and of it only the rows that are the
            // kernel's are written. The cache is for this table, by `SlotFiller::with_cache`, and held; only this
            // stream uses it.
            unsafe { kernels.rows(stream, self.kernel, IdWidth::I64, &arguments, self.bound)? };
        }
        if let (Some(cache), Some(staging)) = (&self.cache, &staging) {
            let at = staging.address() + insertions_at(plan.staged) as u64;
            // SAFETY: the insertions are in the staging buffer, which stays as the arrays in it do; what they name
            // was decided by the cache's own `take_in`, whose every batch is carried out in this stream, so slots
            // and rows are its own and none comes twice; the positions are rows that were gathered just now.
            unsafe { kernels.insert(stream, &cache.insertion(at, insertions, features), self.bound)? };
        }
        if let Some(copies) = copies.as_mut().filter(|_| zero_copy_rows < plan.count) {
            if let Some(times) = times {
                times.kernel_ended.record(stream)?;
                times.copies_began.record(&copies.stream)?;
            }
            let to = features + (zero_copy_rows * self.row_bytes) as u64;
            // SAFETY: the slot's own bytes behind the kernel's rows, ordered behind `after` by the wait above.
            unsafe { copies.enqueue(&ids[zero_copy_rows..], to)? };
            // Each wait takes the event as it was recorded last, so it may be recorded again further down.
            let closed = times.as_ref().map_or(&*done, |times| &times.copies_ended);
            closed.record(&copies.stream)?;
            stream.wait(closed)?;
        }
        // SAFETY: report and ids as above.
        unsafe { kernels.finish(stream, IdWidth::I64, report_address, ids_address, stamp)? };
        ready.record(stream)?;
        // Behind `ready`, so that nobody waits for it. Whoever fills this slot next does so on this stream, after it.
        // SAFETY: the report stays in the slot until then; the buffer is read only once `done` has been reached.
        unsafe { device_to_host(stream, report_address, report.as_mut_slice())? };
        done.record(stream)?;
        Ok(())
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

    /// Bytes of a staging buffer for arrays of `arrays` bytes, with `rows` ids among them.
    pub fn staging_bytes(&self, arrays: usize, rows: usize) -> usize {
        let most = self.cache.as_ref().map_or(0, |cache| cache.most_insertions(rows));
        if most == 0 { arrays } else { insertions_at(arrays) + most * CacheInsertion::BYTES }
    }

    /// Whether the slot's staging buffer has room for that batch. It is not made here: the driver may let whoever takes
    /// or frees page-locked memory wait for all that is queued, other streams' work too, and what is queued may wait for
    /// this host.
    pub fn check_room(&self, slot: usize, plan: &Plan) -> Result<(), FillError> {
        let room = self.slots[slot].staging.as_ref().map(PinnedBuffer::bytes);
        let needed = self.staging_bytes(plan.staged, plan.count);
        if room.is_some_and(|room| needed <= room) {
            return Ok(());
        }
        Err(FillError::Layout(format!(
            "a batch needs {needed} bytes of slot {slot}'s staging buffer, and {} were reserved: reserve for the largest \
             batch before the first fill",
            room.unwrap_or(0)
        )))
    }

    /// Copies the arrays into the slot's staging buffer, and behind them what a FIFO cache takes in, of which it
    /// gives the number: from then on nothing may go wrong but the driver, after which nothing is filled any more.
    fn stage(&mut self, slot: usize, payload: &[u8], plan: &Plan) -> usize {
        // `check_room` has seen to it that there is one, and of that size.
        let bytes = self.slots[slot].staging.as_mut().map_or(&mut [][..], PinnedBuffer::as_mut_slice);
        for (array, at) in &plan.arrays {
            bytes[*at..][..array.len()].copy_from_slice(&payload[array.clone()]);
        }
        let Some(cache) = &mut self.cache else { return 0 };
        let (arrays, behind) = bytes.split_at_mut(insertions_at(plan.staged).min(bytes.len()));
        let ids: &[i64] = bytemuck::cast_slice(&arrays[plan.ids_staged_at..][..plan.count * 8]);
        let insertions = cache.take_in(ids);
        write_insertions(insertions, behind);
        insertions.len()
    }

    /// Takes in the report of a fill that has run, whose `done` has been reached.
    fn harvest(&mut self, slot: usize) -> Result<(), FillError> {
        let state = &mut self.slots[slot];
        let Some(pending) = state.pending.take() else { return Ok(()) };
        let report = report_of(&state.report);
        if report.stamp != pending.stamp {
            return Err(CudaError::System(format!(
                "the report of slot {slot} is stamped {} where {} was enqueued: something else writes to the slot",
                report.stamp, pending.stamp
            ))
            .into());
        }
        let both_ways = (1..pending.rows).contains(&pending.zero_copy_rows);
        if let Some(times) = state.times.as_ref().filter(|_| both_ways) {
            let (kernel, copies) = times.measured(&pending)?;
            self.balance.measured(kernel, copies);
        }
        let fill = Fill {
            slot,
            stamp: pending.stamp,
            rows: pending.rows,
            zero_copy_rows: pending.zero_copy_rows,
            hits: report.hits,
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

    /// Waits until nothing that was enqueued is left to run.
    pub fn wait(&self) -> Result<(), CudaError> {
        if let Some(copies) = &self.copies {
            copies.stream.synchronize()?;
        }
        self.stream.synchronize()
    }
}

/// Where insertions begin behind arrays of so many bytes.
fn insertions_at(arrays: usize) -> usize {
    arrays.next_multiple_of(LINE)
}
