//! Slots of device memory, filled one after another: what a producer does with each batch.

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

use uva_cuda::kernels::gather::{GatherKernels, GatherReport, Kernel};
use uva_cuda::memory::{PinnedBuffer, SharedBuffer};
use uva_cuda::{Context, CudaError, ErrorKind, Event, Stream};

use crate::GatherError;
use crate::cuda::balance::Balance;
use crate::cuda::copy_path::CopyPath;
use crate::cuda::slot::Plan;
use crate::cuda::{DeviceCache, GatherTable, SlotShape, grid};
use held::{Held, Slot, Times};

mod held;

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
    /// The device has no room for a cache of rows.
    #[error(
        "a cache of {rows} rows needs {} bytes of the device ({bytes} for the rows, {map_bytes} for the slot of every row \
         of the table), and {free} of its {total} bytes are free: give the caches fewer bytes",
        bytes.saturating_add(*map_bytes)
    )]
    CacheTooLarge {
        /// Rows to be cached.
        rows: usize,
        /// Bytes of them.
        bytes: u64,
        /// Bytes of the slot map.
        map_bytes: u64,
        /// Bytes of device memory that were free.
        free: u64,
        /// Bytes of device memory in all.
        total: u64,
    },
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
            Self::CacheTooLarge { .. } => ErrorKind::Missing,
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
    /// How many of them the GPU read itself, cached ones among them.
    pub zero_copy_rows: usize,
    /// How many of them were in the cache.
    pub hits: u64,
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
            cache: None,
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

    /// Reads cached rows from the device from the first fill on. What is gathered stays the same, byte for byte.
    ///
    /// What a FIFO cache takes in is copied from the slot just filled, before that fill's `ready`: so whoever has the
    /// slot then may do with it as before.
    ///
    /// # Errors
    /// [`FillError::Layout`] unless the mode is [`GatherMode::ZeroCopy`] (in the others the CPU reads the table, and
    /// knows nothing of the cache) and the table is on the host, and after the first fill; [`FillError::Rows`] for a
    /// cache that was made for another table, or on another device.
    pub fn with_cache(mut self, cache: DeviceCache) -> Result<Self, FillError> {
        self.sound()?;
        let refuse = |what: &str| Err(FillError::Layout(what.to_owned()));
        let held = &mut *self.held;
        if held.mode != GatherMode::ZeroCopy {
            return refuse(
                "rows can be cached for the zero-copy gather only: in the other modes the CPU reads them",
            );
        }
        if matches!(held.table, GatherTable::Device(_)) {
            return refuse("a table that is on the device needs no cache");
        }
        if held.fills > 0 {
            return refuse("a cache comes before the first fill");
        }
        cache.check(&held.context, held.rows, held.row_bytes)?;
        held.cache = Some(cache);
        Ok(self)
    }

    /// Makes room in every slot for arrays of so many bytes in all, each rounded up to 64. It comes before the first fill
    /// and behind [`SlotFiller::with_cache`]: no fill takes page-locked memory, since that may make the whole device wait.
    ///
    /// # Errors
    /// [`FillError::Layout`] after the first fill; [`FillError::Cuda`].
    pub fn reserve(&mut self, bytes: usize) -> Result<(), FillError> {
        self.sound()?;
        let held = &mut *self.held;
        if held.fills > 0 {
            return Err(FillError::Layout("room is reserved before the first fill".to_owned()));
        }
        let most_rows = (bytes / size_of::<i64>()).min(held.shape.stride / held.row_bytes);
        let bytes = held.staging_bytes(bytes, most_rows);
        for slot in &mut held.slots {
            if slot.staging.as_ref().is_none_or(|buffer| buffer.bytes() < bytes) {
                // The old one first: the two together may be more than can be locked.
                slot.staging = None;
                slot.staging = Some(PinnedBuffer::new(&held.context, bytes, "a slot's staging buffer")?);
            }
        }
        Ok(())
    }

    /// Enqueues one batch into a slot.
    ///
    /// In this order on the device: wait for `after`, as it was last recorded before this call; copy `arrays` of
    /// `payload` to the same offsets of the slot; gather the rows of the int64 ids, which lie at the bytes `ids` within
    /// one of the arrays, to `features_at`; take into a FIFO cache what was missed; complete the report, `stamp` last;
    /// record `ready`. The rows begin at `features_at` without gaps. `payload` is free when this returns, since its
    /// arrays are copied into a staging buffer of the slot first.
    ///
    /// An id that is no row of the table: with [`GatherMode::ZeroCopy`] the kernel finds it, and it's in the report and
    /// in
    /// [`Fill::bad`]; in the other modes all ids are checked here, and it's [`FillError::Rows`] before anything is
    /// enqueued.
    ///
    /// # Errors
    /// [`FillError::Layout`], also where less was [reserved](SlotFiller::reserve), and [`FillError::Rows`] with nothing
    /// enqueued: the slot can be filled otherwise.
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
        held.check_room(slot, &plan)?;
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

    /// Sets the share of the rows that the GPU reads itself in a split, as a sweep or an earlier run found it; it's
    /// adjusted from there on.
    pub fn set_share(&mut self, share: f64) {
        self.held.balance = Balance::new(share);
    }

    /// Lets go of everything without a word to the driver, and without freeing it: for the death of the process that
    /// records the events which fills wait for. The device may wait for such an event for ever, and a wait for the
    /// device as well. What is let go comes back when this process ends, which should be soon.
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
        // After a failure, or where a peer has died, the streams may never come to an end, and the device may yet use
        // what is held here: then it stays until the process ends.
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
