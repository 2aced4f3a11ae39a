//! Launches of the gather kernels: they copy rows of a table in host memory, selected by id, to device memory.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute;
use serde::Serialize;
use uva_kernels::cache::CACHE_INSERT;
use uva_kernels::copies::COPY_ARRAYS;
use uva_kernels::gather::{GATHER_BEGIN, SPIN_UNTIL, finish_entry};
use uva_kernels::order::ORDER_STEPS;
use uva_kernels::sums::SummedType;
use uva_kernels::tables::FINISH_TABLES;

use crate::code::module::{Function, LaunchShape, Module};
use crate::devices::context::Context;
use crate::error::CudaError;
use crate::stream::CudaStream;

pub use uva_kernels::gather::{BLOCK_THREADS, BadId, GatherArguments, GatherReport, IdWidth, Kernel};

/// Threads of a warp.
const WARP: u32 = 32;

/// The maximum number of blocks of a gather, which bounds its share of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GridBound {
    /// As many as fit at once on the multiprocessors that this process may use.
    Device,
    /// As many as fit at once on this many multiprocessors. The device chooses which ones.
    Multiprocessors(u32),
    /// This number of blocks.
    Blocks(u32),
}

/// A kernel's resource use on a multiprocessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct KernelResources {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread: nonzero if registers spill.
    pub local_bytes: u32,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// Blocks of [`BLOCK_THREADS`] that a multiprocessor holds at once.
    pub blocks_per_multiprocessor: u32,
}

/// A kernel that runs with any grid.
#[derive(Debug, Clone)]
pub(super) struct GatherEntry {
    pub(super) function: Function,
    blocks_per_multiprocessor: u32,
}

/// The gather kernels, ready to be launched. Cheap to clone.
#[derive(Debug, Clone)]
pub struct GatherKernels {
    begin: Function,
    finish: [Function; 2],
    spin_until: Function,
    /// By kernel, width, and whether there is a cache.
    gather: Arc<[[[GatherEntry; 2]; 2]]>,
    /// By kernel.
    pub(super) tables: Arc<[GatherEntry]>,
    pub(super) finish_tables: Function,
    pub(super) insert: GatherEntry,
    pub(super) copies: GatherEntry,
    pub(super) order: Arc<[GatherEntry]>,
    /// By type of values.
    pub(super) sums: Arc<[GatherEntry]>,
    /// By type of values, for sums that the host began.
    pub(super) continued_sums: Arc<[GatherEntry]>,
    multiprocessors: u32,
}

/// The launch configuration of `gather_begin` and `gather_finish`.
pub(super) const SINGLE: LaunchShape = LaunchShape { blocks: 1, threads: 1 };

impl GatherKernels {
    /// The kernels of [`Module::gather`].
    ///
    /// # Errors
    /// [`CudaError::Call`] if the module lacks one, or the device cannot run it.
    pub fn new(module: &Module) -> Result<Self, CudaError> {
        let entry = |name| {
            let function = module.function(name)?;
            let blocks_per_multiprocessor = function.blocks_per_multiprocessor(BLOCK_THREADS)?;
            if blocks_per_multiprocessor == 0 {
                return Err(CudaError::Unsupported(format!(
                    "a multiprocessor of {} holds no block of {BLOCK_THREADS} threads of {name}",
                    module.context().device().name()
                )));
            }
            Ok(GatherEntry { function, blocks_per_multiprocessor })
        };
        let forms = |kernel: Kernel, width| {
            Ok::<_, CudaError>([entry(kernel.entry(width, false))?, entry(kernel.entry(width, true))?])
        };
        let gather = Kernel::ALL
            .into_iter()
            .map(|kernel| Ok([forms(kernel, IdWidth::I32)?, forms(kernel, IdWidth::I64)?]))
            .collect::<Result<Vec<_>, CudaError>>()?;
        let finish = |width| module.function(finish_entry(width));
        Ok(Self {
            begin: module.function(GATHER_BEGIN)?,
            finish: [finish(IdWidth::I32)?, finish(IdWidth::I64)?],
            spin_until: module.function(SPIN_UNTIL)?,
            gather: gather.into(),
            tables: Kernel::ALL
                .into_iter()
                .map(|kernel| entry(kernel.tables_entry()))
                .collect::<Result<_, _>>()?,
            finish_tables: module.function(FINISH_TABLES)?,
            insert: entry(CACHE_INSERT)?,
            copies: entry(COPY_ARRAYS)?,
            order: ORDER_STEPS.into_iter().map(entry).collect::<Result<_, _>>()?,
            sums: SummedType::ALL
                .into_iter()
                .map(|values| entry(values.entry()))
                .collect::<Result<_, _>>()?,
            continued_sums: SummedType::ALL
                .into_iter()
                .map(|values| entry(values.continuing_entry()))
                .collect::<Result<_, _>>()?,
            multiprocessors: module.context().device().multiprocessors(),
        })
    }

    /// The context of their module.
    pub fn context(&self) -> &Arc<Context> {
        self.begin.context()
    }

    /// Enqueues a gather of three launches, and returns without waiting:
    /// - The report is reset.
    /// - Row `ids[i]` of the table goes to row `i` of the output. If both `slot_map` and `cache` are given and the row
    ///   has a slot, it is read from the cache instead.
    /// - The report is completed and gets `stamp`, which should be nonzero.
    ///
    /// An invalid id is recorded in the report, and its output row stays unchanged.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for arguments that no memory can satisfy (a row of no bytes, a size beyond 64 bits, a
    /// wrong alignment, a cache without a map). [`CudaError::Call`] if a launch fails: launches enqueued before it
    /// still run.
    ///
    /// # Safety
    /// The following holds from this call until the stream has passed the gather, on the stream's device:
    /// - `table` is `rows * row_bytes` readable bytes including the aligned pieces of 16 around them, which are not
    ///   written.
    /// - `ids` is `count` readable ids. They were written before (in stream order) and are not written during the
    ///   gather.
    /// - `out` is `count * row_bytes` writable bytes and `report` 64. They are not read or written by other code, and
    ///   do not overlap other memory.
    /// - `slot_map`, `cache` and `order`, unless 0, are readable as [`GatherArguments`] requires. Every slot in the map
    ///   is a row of the cache; the order has each position below `count` once.
    /// - A clone of these kernels, or the module, exists until then.
    /// - The stream is of the module's context, or of a green context of its device.
    pub unsafe fn enqueue(
        &self,
        stream: &CudaStream,
        kernel: Kernel,
        width: IdWidth,
        arguments: &GatherArguments,
        stamp: u64,
        bound: GridBound,
    ) -> Result<(), CudaError> {
        arguments.check(width).map_err(CudaError::Refused)?;
        // SAFETY: the caller's promise, in each.
        unsafe {
            self.begin(stream, arguments.report)?;
            self.rows(stream, kernel, width, arguments, bound)?;
            self.finish(stream, width, arguments.report, arguments.ids, stamp)
        }
    }

    /// Enqueues only the first step of [`GatherKernels::enqueue`]: resets the report at that device address. For
    /// callers that enqueue other work between the steps, or have no rows.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    ///
    /// # Safety
    /// As [`GatherKernels::enqueue`] requires for the report.
    pub unsafe fn begin(&self, stream: &CudaStream, report: u64) -> Result<(), CudaError> {
        let mut report = report;
        // SAFETY: one parameter, the report's address; the caller promises the report.
        unsafe { self.begin.launch(stream, SINGLE, &mut [pointer(&mut report)]) }
    }

    /// Enqueues only the middle step of [`GatherKernels::enqueue`]: the rows. Without rows no work is enqueued. The
    /// report must have been reset before each call, in stream order.
    ///
    /// # Errors
    /// As [`GatherKernels::enqueue`].
    ///
    /// # Safety
    /// As [`GatherKernels::enqueue`].
    pub unsafe fn rows(
        &self,
        stream: &CudaStream,
        kernel: Kernel,
        width: IdWidth,
        arguments: &GatherArguments,
        bound: GridBound,
    ) -> Result<(), CudaError> {
        arguments.check(width).map_err(CudaError::Refused)?;
        if arguments.count == 0 {
            return Ok(());
        }
        let cached = arguments.slot_map != 0;
        let entry = &self.gather[kernel as usize][width as usize][usize::from(cached)];
        let shape = self.shape(entry, bound, arguments.count);
        let mut copy = *arguments;
        // SAFETY: one parameter, the arguments by value, whose layout the header shares; the caller promises everything
        // that they name.
        unsafe { entry.function.launch(stream, shape, &mut [pointer(&mut copy)]) }
    }

    /// Enqueues only the last step of [`GatherKernels::enqueue`]: the report is completed, `stamp` last.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    ///
    /// # Safety
    /// As [`GatherKernels::enqueue`] requires for the report; `ids` are those of the rows step, unchanged.
    pub unsafe fn finish(
        &self,
        stream: &CudaStream,
        width: IdWidth,
        report: u64,
        ids: u64,
        stamp: u64,
    ) -> Result<(), CudaError> {
        let (mut report, mut ids, mut stamp) = (report, ids, stamp);
        let mut parameters = [pointer(&mut report), pointer(&mut ids), pointer(&mut stamp)];
        // SAFETY: three parameters of 8 bytes, as the kernel has them; the caller promises report and ids.
        unsafe { self.finish[width as usize].launch(stream, SINGLE, &mut parameters) }
    }

    /// Blocks the stream until a word of pinned host memory is nonzero, so that all timed work can be enqueued first.
    /// Occupies one thread of one multiprocessor in the meantime.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    ///
    /// # Safety
    /// `flag` is the device address of 4 aligned readable bytes until the stream has passed this. Another thread sets
    /// them to a nonzero value, without waiting for the stream first.
    pub unsafe fn spin_until(&self, stream: &CudaStream, flag: u64) -> Result<(), CudaError> {
        let mut flag = flag;
        // SAFETY: one parameter, the flag's address, which the caller promises.
        unsafe { self.spin_until.launch(stream, SINGLE, &mut [pointer(&mut flag)]) }
    }

    /// A kernel's resource use on a multiprocessor; `cached` selects the form with a slot map.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn resources(
        &self,
        kernel: Kernel,
        width: IdWidth,
        cached: bool,
    ) -> Result<KernelResources, CudaError> {
        let entry = &self.gather[kernel as usize][width as usize][usize::from(cached)];
        use CUfunction_attribute::*;
        Ok(KernelResources {
            registers: entry.function.attribute(CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: entry.function.attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            shared_bytes: entry.function.attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            blocks_per_multiprocessor: entry.blocks_per_multiprocessor,
        })
    }

    /// A grid for work that divides among `warps` warps.
    pub(super) fn shape(&self, entry: &GatherEntry, bound: GridBound, warps: u64) -> LaunchShape {
        let most = bound.blocks(entry.blocks_per_multiprocessor, self.multiprocessors);
        LaunchShape { blocks: blocks_for(warps, most), threads: BLOCK_THREADS }
    }
}

impl GridBound {
    /// Limits the bound to this many multiprocessors.
    #[must_use]
    pub fn at_most(self, multiprocessors: u32) -> Self {
        match self {
            Self::Device => Self::Multiprocessors(multiprocessors),
            Self::Multiprocessors(some) => Self::Multiprocessors(some.min(multiprocessors)),
            Self::Blocks(blocks) => Self::Blocks(blocks),
        }
    }

    /// The smaller of two bounds of the same kind. Bounds of different kinds are not compared: this one is kept, unless
    /// it is that of the whole device.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        match (self, other) {
            (Self::Device, other) => other,
            (Self::Multiprocessors(one), Self::Multiprocessors(other)) => {
                Self::Multiprocessors(one.min(other))
            }
            (Self::Blocks(one), Self::Blocks(other)) => Self::Blocks(one.min(other)),
            _ => self,
        }
    }

    /// The maximum number of blocks, if each of `multiprocessors` multiprocessors holds `each`.
    pub(crate) fn blocks(self, each: u32, multiprocessors: u32) -> u32 {
        match self {
            Self::Device => each.saturating_mul(multiprocessors),
            Self::Multiprocessors(some) => each.saturating_mul(some.min(multiprocessors)),
            Self::Blocks(blocks) => blocks,
        }
    }
}

/// At least one block; no more than the rows can occupy with their warps.
fn blocks_for(count: u64, most: u32) -> u32 {
    let useful = count.div_ceil(u64::from(BLOCK_THREADS / WARP));
    u32::try_from(useful).unwrap_or(u32::MAX).min(most).max(1)
}

pub(super) fn pointer<T>(value: &mut T) -> *mut c_void {
    std::ptr::from_mut(value).cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_counted_in_blocks_that_multiprocessors_hold() {
        assert_eq!(GridBound::Device.blocks(2, 132), 264);
        assert_eq!(GridBound::Multiprocessors(8).blocks(2, 132), 16);
        assert_eq!(GridBound::Blocks(5).blocks(2, 132), 5);
        assert_eq!(GridBound::Multiprocessors(u32::MAX).blocks(2, 132), 264);
        assert_eq!(GridBound::Device.blocks(u32::MAX, 132), u32::MAX);
    }

    #[test]
    fn a_bound_can_be_held_to_fewer_multiprocessors_but_is_never_raised() {
        let blocks = |bound: GridBound| bound.at_most(8).blocks(2, 132);
        assert_eq!(blocks(GridBound::Device), 16);
        assert_eq!(blocks(GridBound::Multiprocessors(40)), 16);
        assert_eq!(blocks(GridBound::Multiprocessors(3)), 6);
        assert_eq!(blocks(GridBound::Blocks(5)), 5);
        assert_eq!(GridBound::Device.at_most(8).blocks(2, 4), 8, "a process that may use four");
    }

    #[test]
    fn a_grid_is_no_larger_than_its_bound_and_its_rows() {
        assert_eq!(blocks_for(0, 100), 1);
        assert_eq!(blocks_for(16, 100), 1);
        assert_eq!(blocks_for(17, 100), 2);
        assert_eq!(blocks_for(u64::MAX, 100), 100);
        assert_eq!(blocks_for(1 << 40, u32::MAX), u32::MAX);
        assert_eq!(blocks_for(1000, 0), 1);
    }
}
