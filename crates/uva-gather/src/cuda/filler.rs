//! Slots of device memory, filled one after another: what a producer does with each batch.

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

use uva_cuda::kernels::gather::{GatherArguments, GatherKernels, GatherReport, GridBound, IdWidth, Kernel};
use uva_cuda::memory::{PinnedBuffer, SharedBuffer, device_to_host, host_to_device};
use uva_cuda::{Context, CudaError, ErrorKind, Event, Stream};

use crate::GatherError;
use crate::cuda::balance::{Balance, Measured};
use crate::cuda::copy_path::CopyPath;
use crate::cuda::gather::report_of;
use crate::cuda::slot::Plan;
use crate::cuda::{GatherTable, SlotShape, grid};

/// Who reads the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GatherMode {
    /// The GPU, over the link.
    #[default]
    ZeroCopy,
    /// The CPU; a copy engine takes the rows over.
    Dma,
    /// Both, a share of each batch's rows each. The share follows what both were measured to do: [`Balance`].
    Split,
}

/// How slots are filled.
#[derive(Clone, Copy, Debug)]
pub struct FillOptions {
    /// Who reads the table.
    pub mode: GatherMode,
    /// The kernel of the GPU's part.
    pub kernel: Kernel,
    /// Multiprocessors that the kernel's grid is bounded to; `None`: all that this process may use.
    pub multiprocessors: Option<u32>,
    /// Threads of the CPU's part; 0 counts as 1.
    pub threads: usize,
}

/// Why a slot was not filled.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// Slots, arrays, ids or features lie where they can't.
    #[error("a slot cannot be filled so: {0}")]
    Layout(String),
    /// An id is no row of the table, found by the CPU before anything was enqueued.
    #[error(transparent)]
    Rows(#[from] GatherError),
    /// A call of the driver failed.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// An earlier fill failed half way, so that nothing is known of what the device does with the slots.
    #[error("no slot can be filled any more since an earlier one failed: {0}")]
    Broken(String),
}

impl FillError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Cuda(error) => error.kind(),
            Self::Layout(_) | Self::Rows(_) | Self::Broken(_) => ErrorKind::Failed,
        }
    }
}

/// A fill that has completed.
#[derive(Clone, Debug, PartialEq)]
pub struct Fill {
    /// The slot.
    pub slot: usize,
    /// What it was stamped with.
    pub stamp: u64,
    /// Rows gathered.
    pub rows: usize,
    /// How many of them the GPU read itself.
    pub zero_copy_rows: usize,
    /// The device's clock when the gather began, nanoseconds.
    pub began_ns: u64,
    /// The same when the last row was there.
    pub ended_ns: u64,
    /// The first position whose id is no row of the table, and that id: found by a kernel. Its row was not written.
    pub bad: Option<(u64, i64)>,
}

/// Fills slots of device memory: a batch's arrays, copied, and the rows of its ids, gathered.
///
/// Everything is enqueued, on streams whose order the device keeps; the host goes on at once. It waits for the GPU only
/// where what it must write next (a staging buffer) is still being read. In the modes with copies it does gather rows
/// itself before it goes on.
///
/// Dropping it waits until all that was enqueued has run: see [`SlotFiller::abandon`] for when that may be never.
pub struct SlotFiller {
    /// Everything that the GPU may still use.
    held: ManuallyDrop<Held>,
    /// Why it was given up.
    broken: Option<String>,
}

struct Held {
    stream: Stream,
    /// In the modes with copies.
    copies: Option<CopyPath>,
    balance: Balance,
    kernels: GatherKernels,
    kernel: Kernel,
    bound: GridBound,
    mode: GatherMode,
    slots: Vec<Slot>,
    /// Fills whose slot was filled again before anybody asked.
    finished: Vec<(u64, Fill)>,
    fills: u64,
    shape: SlotShape,
    rows: usize,
    row_bytes: usize,
    context: Arc<Context>,
    buffer: Arc<SharedBuffer>,
    table: GatherTable,
}

/// What one slot needs on the host's side.
struct Slot {
    /// The arrays on their way to the device. Grown when a batch needs more.
    staging: Option<PinnedBuffer>,
    /// Where the report is copied to.
    report: PinnedBuffer,
    /// Recorded behind the last thing that a fill enqueues.
    done: Event,
    times: Option<Times>,
    pending: Option<Pending>,
}

/// Marks around both ways of a split, from which the balance learns.
struct Times {
    kernel_began: Event,
    kernel_ended: Event,
    copies_began: Event,
    copies_ended: Event,
}

/// A fill that was enqueued.
#[derive(Clone, Copy)]
struct Pending {
    number: u64,
    stamp: u64,
    rows: usize,
    zero_copy_rows: usize,
}

impl SlotFiller {
    /// A filler of the slots in `buffer`, with rows of `row_bytes` bytes (at least 1) of `table`, on `stream`, which
    /// may be one of a partition.
    ///
    /// # Errors
    /// [`FillError::Layout`] when the slots don't lie in the buffer; [`FillError::Rows`] unless the table is whole rows, or
    /// when the threads can't be had; [`FillError::Cuda`].
    #[allow(clippy::too_many_arguments, reason = "each is a thing of its own that the caller has anyway")]
    pub fn new(
        context: Arc<Context>,
        stream: Stream,
        kernels: GatherKernels,
        table: impl Into<GatherTable>,
        row_bytes: usize,
        buffer: Arc<SharedBuffer>,
        shape: SlotShape,
        options: FillOptions,
    ) -> Result<Self, FillError> {
        shape.check(buffer.bytes())?;
        let table = table.into();
        if row_bytes == 0 || !table.bytes().is_multiple_of(row_bytes) {
            return Err(GatherError::TableLength { length: table.bytes(), row_bytes }.into());
        }
        if options.mode != GatherMode::Dma && table.address().is_none() {
            return Err(FillError::Layout(
                "rows of a table that is not pinned are not the GPU's to read".into(),
            ));
        }
        let copies = match options.mode {
            GatherMode::ZeroCopy => None,
            GatherMode::Dma | GatherMode::Split => {
                Some(CopyPath::new(&context, &table, row_bytes, options.threads)?)
            }
        };
        let slots = (0..shape.slots)
            .map(|_| {
                let times = match options.mode {
                    GatherMode::Split => Some(Times::new(&context)?),
                    GatherMode::ZeroCopy | GatherMode::Dma => None,
                };
                Ok(Slot {
                    staging: None,
                    report: PinnedBuffer::new(&context, GatherReport::BYTES, "a slot's report")?,
                    done: Event::local(&context)?,
                    times,
                    pending: None,
                })
            })
            .collect::<Result<Vec<_>, CudaError>>()?;
        let held = Held {
            stream,
            copies,
            balance: Balance::default(),
            kernels,
            kernel: options.kernel,
            bound: grid(options.multiprocessors),
            mode: options.mode,
            slots,
            finished: Vec::new(),
            fills: 0,
            shape,
            rows: table.bytes() / row_bytes,
            row_bytes,
            context,
            buffer,
            table,
        };
        Ok(Self { held: ManuallyDrop::new(held), broken: None })
    }

    /// Makes room for arrays of so many bytes in every slot, so that no fill has to: taking page-locked memory may make
    /// the whole device wait.
    ///
    /// # Errors
    /// [`FillError::Cuda`].
    pub fn reserve(&mut self, bytes: usize) -> Result<(), FillError> {
        self.sound()?;
        let held = &mut *self.held;
        for slot in &mut held.slots {
            if slot.pending.is_none() && slot.staging.as_ref().is_none_or(|buffer| buffer.bytes() < bytes) {
                slot.staging = None;
                slot.staging = Some(PinnedBuffer::new(&held.context, bytes, "a slot's staging buffer")?);
            }
        }
        Ok(())
    }

    /// Enqueues one batch into a slot.
    ///
    /// In this order on the device: wait for `after`, as it was last recorded before this call; copy `arrays` of `payload` to
    /// the same offsets of the slot; gather the rows of the int64 ids, which lie at the bytes `ids` within one of the
    /// arrays, to `features_at`; complete the report, `stamp` last; record `ready`. The rows begin at `features_at` without
    /// gaps. `payload` is free when this returns, since its arrays are copied into a staging buffer of the slot first.
    ///
    /// An id that is no row of the table: with [`GatherMode::ZeroCopy`] the kernel finds it, and it's in the report and in
    /// [`Fill::bad`]; in the other modes all ids are checked here, and it's [`FillError::Rows`] before anything is
    /// enqueued.
    ///
    /// # Errors
    /// [`FillError::Layout`] and [`FillError::Rows`] with nothing enqueued: the slot can be filled otherwise.
    /// [`FillError::Cuda`] when the driver fails; after that only [`FillError::Broken`].
    #[allow(clippy::too_many_arguments, reason = "a slot's layout is what a fill is")]
    pub fn fill(
        &mut self,
        slot: usize,
        payload: &[u8],
        arrays: &[Range<usize>],
        ids: Range<usize>,
        features_at: usize,
        stamp: u64,
        after: Option<&Event>,
        ready: &Event,
    ) -> Result<(), FillError> {
        self.sound()?;
        let held = &mut *self.held;
        if slot >= held.shape.slots {
            return Err(FillError::Layout(format!("slot {slot} of {}", held.shape.slots)));
        }
        let plan = Plan::new(&held.shape, payload.len(), arrays, &ids, features_at, held.row_bytes)?;
        let result = held.fill(slot, payload, &plan, features_at, stamp, after, ready);
        self.note(result)
    }

    /// The fills that have completed since the last call, in the order in which they were enqueued. Waits for nothing.
    ///
    /// # Errors
    /// [`FillError::Cuda`]: also an error of something enqueued earlier, such as a fault on the device.
    pub fn finished(&mut self) -> Result<Vec<Fill>, FillError> {
        self.sound()?;
        let result = self.held.collect(false);
        self.note(result)
    }

    /// Waits for all that was enqueued, and gives the fills that have completed since the last call, in order.
    ///
    /// Only where whoever records the events waited for is alive: see [`SlotFiller::abandon`].
    ///
    /// # Errors
    /// As [`SlotFiller::finished`].
    pub fn drain(&mut self) -> Result<Vec<Fill>, FillError> {
        self.sound()?;
        let result = self.held.collect(true);
        self.note(result)
    }

    /// The share of the rows that the GPU reads itself: 1 with zero-copy alone, 0 with copies alone.
    pub fn share(&self) -> f64 {
        match self.held.mode {
            GatherMode::ZeroCopy => 1.0,
            GatherMode::Dma => 0.0,
            GatherMode::Split => self.held.balance.share(),
        }
    }

    /// Sets the share of the rows that the GPU reads itself in a split, as a sweep or an earlier run found it; it's adjusted
    /// from there on.
    pub fn set_share(&mut self, share: f64) {
        self.held.balance = Balance::new(share);
    }

    /// Lets go of everything without a word to the driver, and without freeing it: for the death of the process that
    /// records the events which fills wait for. The device may wait for such an event for ever, and a wait for the device
    /// as well. What is let go comes back when this process ends, which should be soon.
    pub fn abandon(mut self) {
        self.broken = Some("it was abandoned".to_owned());
    }

    fn sound(&self) -> Result<(), FillError> {
        match &self.broken {
            Some(why) => Err(FillError::Broken(why.clone())),
            None => Ok(()),
        }
    }

    /// Remembers a failure of the driver: whatever was enqueued before it may still run, on buffers that must stay.
    fn note<T>(&mut self, result: Result<T, FillError>) -> Result<T, FillError> {
        if let Err(FillError::Cuda(error)) = &result {
            self.broken = Some(error.to_string());
        }
        result
    }
}

impl Drop for SlotFiller {
    fn drop(&mut self) {
        // After a failure, or where a peer has died, the streams may never come to an end, and the device may yet use what is
        // held here: then it stays until the process ends.
        if self.broken.is_none() && self.held.wait().is_ok() {
            // SAFETY: dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.held) };
        }
    }
}

impl std::fmt::Debug for SlotFiller {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SlotFiller")
            .field("shape", &self.held.shape)
            .field("mode", &self.held.mode)
            .field("share", &self.share())
            .field("fills", &self.held.fills)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

impl Times {
    fn new(context: &Arc<Context>) -> Result<Self, CudaError> {
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
    fn fill(
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
        self.stage(slot, payload, plan)?;
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
        let arguments = GatherArguments {
            // With copies alone no kernel reads it.
            table: self.table.address().unwrap_or(0),
            rows: self.rows as u64,
            row_bytes: self.row_bytes as u64,
            ids: ids_address,
            count: zero_copy_rows as u64,
            out: features,
            report: report_address,
            slot_map: 0,
            cache: 0,
        };
        self.fills += 1;
        *pending = Some(Pending { number: self.fills, stamp, rows: plan.count, zero_copy_rows });

        if let Some(after) = after {
            stream.wait(after)?;
        }
        for (array, at) in &plan.arrays {
            let from = &staged[*at..][..array.len()];
            // SAFETY: the slot's own bytes, within its stride (`Plan::new`), which nobody else uses between `after` and
            // `ready`: that is what the caller's events say. The staging buffer is written again only once `done` has been
            // reached (`reclaim`), and lives as long as the stream is in use (`SlotFiller::drop`).
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
            // SAFETY: the table is pinned and held; the ids were copied to their place before, in this stream; the output
            // is the slot's own and ends within it (`Plan::new`), and of it only the rows that are the kernel's are written.
            unsafe { kernels.rows(stream, self.kernel, IdWidth::I64, &arguments, self.bound)? };
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
    fn reclaim(&mut self, slot: usize) -> Result<(), FillError> {
        if self.slots[slot].pending.is_none() {
            return Ok(());
        }
        let done = &self.slots[slot].done;
        if !done.query()? {
            done.synchronize()?;
        }
        self.harvest(slot)
    }

    /// Copies the arrays into the slot's staging buffer. A batch's arrays vary in size, so the buffer grows when it must.
    fn stage(&mut self, slot: usize, payload: &[u8], plan: &Plan) -> Result<(), FillError> {
        let staging = &mut self.slots[slot].staging;
        let buffer = match staging {
            Some(buffer) if buffer.bytes() >= plan.staged => buffer,
            _ => {
                // Half as much again, so that slowly growing batches don't pay for it each time.
                let bytes = plan.staged + plan.staged / 2;
                // The old one first: the two together may be more than can be locked.
                *staging = None;
                staging.insert(PinnedBuffer::new(&self.context, bytes, "a slot's staging buffer")?)
            }
        };
        let bytes = buffer.as_mut_slice();
        for (array, at) in &plan.arrays {
            bytes[*at..][..array.len()].copy_from_slice(&payload[array.clone()]);
        }
        Ok(())
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
            began_ns: report.began_ns,
            ended_ns: report.ended_ns,
            bad: report.bad(),
        };
        self.finished.push((pending.number, fill));
        Ok(())
    }

    fn collect(&mut self, wait: bool) -> Result<Vec<Fill>, FillError> {
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
    fn wait(&self) -> Result<(), CudaError> {
        if let Some(copies) = &self.copies {
            copies.stream.synchronize()?;
        }
        self.stream.synchronize()
    }
}
