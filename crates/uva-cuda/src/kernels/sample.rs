//! Launches of the sampling kernels: batches of neighbours, sampled and relabelled on the device.

use std::ffi::c_void;
use std::sync::Arc;

use uva_kernels::sample::SampleKernel;

use crate::code::module::{Function, LaunchShape, Module};
use crate::error::CudaError;
use crate::kernels::gather::{GridBound, IdWidth};
use crate::stream::CudaStream;

pub use uva_kernels::sample::{
    BLOCK_THREADS, LAYERS, SampleArguments, SampleLayer, SampleReport, WHOLE_LISTS, failure,
};

/// Threads of a warp.
const WARP: u32 = 32;

/// The method of picking positions: the `SamplerKind`s that have kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PickKind {
    /// Each entry with equal probability, independently for each list.
    Neighbor,
    /// The entries with the smallest variates, which lists share.
    Labor,
    /// In proportion to weights.
    Weighted,
}

/// The sampling kernels, ready to be launched. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SampleKernels {
    /// In the order of [`SampleKernel::ALL`].
    functions: Arc<[Function]>,
    /// Resident blocks per multiprocessor, for the kernel with the fewest.
    blocks_per_multiprocessor: u32,
    multiprocessors: u32,
}

impl SampleKernels {
    /// The kernels of [`Module::sample`].
    ///
    /// # Errors
    /// [`CudaError::Call`] if the module lacks one; [`CudaError::Unsupported`] if the device cannot run it.
    pub fn new(module: &Module) -> Result<Self, CudaError> {
        let mut functions = Vec::with_capacity(SampleKernel::ALL.len());
        let mut blocks_per_multiprocessor = u32::MAX;
        for name in SampleKernel::ALL.map(SampleKernel::name) {
            let function = module.function(name)?;
            let blocks = function.blocks_per_multiprocessor(BLOCK_THREADS)?;
            if blocks == 0 {
                return Err(CudaError::Unsupported(format!(
                    "a multiprocessor of {} holds no block of {BLOCK_THREADS} threads of {name}",
                    module.context().device().name()
                )));
            }
            blocks_per_multiprocessor = blocks_per_multiprocessor.min(blocks);
            functions.push(function);
        }
        let multiprocessors = module.context().device().multiprocessors();
        Ok(Self { functions: functions.into(), blocks_per_multiprocessor, multiprocessors })
    }

    /// The maximum number of blocks of a launch within `bound`: `totals` must have this many entries. At least 1.
    pub fn blocks(&self, bound: GridBound) -> u32 {
        bound.blocks(self.blocks_per_multiprocessor, self.multiprocessors).max(1)
    }

    /// Enqueues the beginning of a batch: the report is reset, and the seeds become its first nodes. Like the other
    /// launches, it returns without waiting.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for arguments that no memory can satisfy. [`CudaError::Call`] if a launch fails: launches
    /// enqueued before it still run.
    ///
    /// # Safety
    /// The following holds from this call until the stream has passed the launches of the batch, on the stream's
    /// device:
    /// - The arrays of the arguments are as [`SampleArguments`] describes them.
    /// - Arrays of the graph and its names are readable and not written. The others are writable, disjoint, and not
    ///   used by other code.
    /// - `local_ids` has the content left by earlier batches. `batch_nodes` begins with `seeds` ids of any value.
    /// - Scratch has at least as many entries as the capacity of any layer, and `totals` as many as
    ///   [`SampleKernels::blocks`] returns for this bound.
    /// - A clone of these kernels, or the module, exists until then.
    /// - The stream is of the module's context, or of a green context of its device.
    pub unsafe fn begin(
        &self,
        stream: &CudaStream,
        arguments: &SampleArguments,
        bound: GridBound,
    ) -> Result<(), CudaError> {
        arguments.check(None).map_err(CudaError::Refused)?;
        let shape = self.shape(bound, arguments.seeds, BLOCK_THREADS);
        // SAFETY: the caller's promise.
        unsafe {
            self.launch(stream, SampleKernel::Begin, LaunchShape { blocks: 1, threads: 1 }, arguments)?;
            self.launch(stream, SampleKernel::Seeds, shape, arguments)
        }
    }

    /// Enqueues one layer. Layers come in order, after [`SampleKernels::begin`]. Their arguments are the same except
    /// for the layer, its fanout, its group and its block.
    ///
    /// # Errors
    /// As [`SampleKernels::begin`].
    ///
    /// # Safety
    /// As [`SampleKernels::begin`]; `indices` have that width.
    pub unsafe fn layer(
        &self,
        stream: &CudaStream,
        kind: PickKind,
        width: IdWidth,
        arguments: &SampleArguments,
        bound: GridBound,
    ) -> Result<(), CudaError> {
        arguments.check(Some(width)).map_err(CudaError::Refused)?;
        let destinations = self.shape(bound, arguments.destinations_room, BLOCK_THREADS);
        let warps = self.shape(bound, arguments.destinations_room, BLOCK_THREADS / WARP);
        let edges = self.shape(bound, arguments.edges_room, BLOCK_THREADS);
        let weighted = kind == PickKind::Weighted;
        if weighted == (arguments.existing == 0) {
            return Err(CudaError::Refused(
                "room for what weights come to is for picks by weight, which need it".to_owned(),
            ));
        }
        let picks = match kind {
            PickKind::Neighbor => SampleKernel::Picks,
            PickKind::Labor => SampleKernel::labor(width),
            PickKind::Weighted => SampleKernel::Weighted,
        };
        let steps = [
            Some((SampleKernel::Lists, destinations)),
            weighted.then_some((SampleKernel::Weigh, warps)),
            weighted.then_some((SampleKernel::Totals, destinations)),
            Some((SampleKernel::Offsets, destinations)),
            Some((picks, warps)),
            (arguments.edge_ids != 0).then_some((SampleKernel::EdgeIds, warps)),
            Some((SampleKernel::ids(width), edges)),
            Some((SampleKernel::Fresh, edges)),
            Some((SampleKernel::Assign, edges)),
            Some((SampleKernel::Relabel, edges)),
        ];
        for (kernel, shape) in steps.into_iter().flatten() {
            // SAFETY: the caller's promise.
            unsafe { self.launch(stream, kernel, shape, arguments) }?;
        }
        Ok(())
    }

    /// Enqueues the end of a batch: names and degrees of its nodes, and the rest of the report, its stamp last. The
    /// arguments are those of the last layer.
    ///
    /// # Errors
    /// As [`SampleKernels::begin`].
    ///
    /// # Safety
    /// As [`SampleKernels::begin`].
    pub unsafe fn finish(
        &self,
        stream: &CudaStream,
        arguments: &SampleArguments,
        bound: GridBound,
    ) -> Result<(), CudaError> {
        arguments.check(None).map_err(CudaError::Refused)?;
        let shape = self.shape(bound, arguments.nodes_room, BLOCK_THREADS);
        // SAFETY: the caller's promise.
        unsafe { self.launch(stream, SampleKernel::Nodes, shape, arguments) }
    }

    /// Blocks for at most `count` items, `each` per block.
    fn shape(&self, bound: GridBound, count: u64, each: u32) -> LaunchShape {
        let useful = u32::try_from(count.div_ceil(each.into())).unwrap_or(u32::MAX);
        LaunchShape { blocks: useful.clamp(1, self.blocks(bound)), threads: BLOCK_THREADS }
    }

    /// Launches one kernel.
    ///
    /// # Safety
    /// As [`SampleKernels::begin`].
    unsafe fn launch(
        &self,
        stream: &CudaStream,
        kernel: SampleKernel,
        shape: LaunchShape,
        arguments: &SampleArguments,
    ) -> Result<(), CudaError> {
        let mut copy = *arguments;
        let pointer: *mut c_void = std::ptr::from_mut(&mut copy).cast();
        // SAFETY: one parameter, the arguments by value, whose layout the header shares; the caller promises everything
        // that they name.
        unsafe { self.functions[kernel as usize].launch(stream, shape, &mut [pointer]) }
    }
}
