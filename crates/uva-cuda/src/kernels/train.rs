//! Launches of the kernels of a training step: the preparation of a batch's blocks, and its verdict.

use uva_kernels::block::{BLOCK_PREPARE, BLOCK_THREADS, BatchBlocks};
use uva_kernels::verdict::BATCH_VERDICT;

use crate::code::module::{Function, LaunchShape, Module};
use crate::error::CudaError;
use crate::kernels::gather::pointer;
use crate::stream::CudaStream;

pub use uva_kernels::block::{BLOCKS_AT_ONCE, BlockArguments, EdgeWeights};
pub use uva_kernels::verdict::{self, VerdictArguments};

/// The kernels, ready to be launched. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TrainKernels {
    prepare: Function,
    verdict: Function,
}

impl TrainKernels {
    /// The kernels of [`Module::train`].
    ///
    /// # Errors
    /// [`CudaError::Call`] if the module lacks one.
    pub fn new(module: &Module) -> Result<Self, CudaError> {
        Ok(Self { prepare: module.function(BLOCK_PREPARE)?, verdict: module.function(BATCH_VERDICT)? })
    }

    /// Enqueues the preparation of blocks, by a launch for each [`BLOCKS_AT_ONCE`]. Returns without waiting.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for arguments that no memory can satisfy; [`CudaError::Call`] if a launch fails.
    ///
    /// # Safety
    /// The following holds from this call until the stream has passed it, on the stream's device:
    /// - The arrays of the arguments are as [`BlockArguments`] describes them. Arrays of the blocks are readable and
    ///   not written. Prepared arrays are writable, disjoint, and not used by other code.
    /// - A clone of these kernels exists. The stream is of their context, or of a green context of its device.
    pub unsafe fn prepare(&self, stream: &CudaStream, blocks: &[BlockArguments]) -> Result<(), CudaError> {
        for blocks in blocks.chunks(BLOCKS_AT_ONCE) {
            blocks.iter().try_for_each(BlockArguments::check).map_err(CudaError::Refused)?;
            let mut batch = BatchBlocks::new(blocks);
            let grid = u32::try_from(batch.grid());
            let blocks =
                grid.map_err(|_| CudaError::Refused("blocks for more than 2³² launches".to_owned()))?;
            let shape = LaunchShape { blocks, threads: BLOCK_THREADS };
            // SAFETY: one parameter, the arguments by value, whose layout the header shares; the caller promises
            // everything that they name.
            unsafe { self.prepare.launch(stream, shape, &mut [pointer(&mut batch)]) }?;
        }
        Ok(())
    }

    /// Enqueues the verdict on a batch. Returns without waiting.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for arguments that no memory can satisfy; [`CudaError::Call`] if the launch fails.
    ///
    /// # Safety
    /// The following holds from this call until the stream has passed it, on the stream's device:
    /// - The arrays of the arguments are as [`VerdictArguments`] describes them. Input arrays are not written. Output
    ///   arrays are writable, disjoint, and not used by other code.
    /// - A clone of these kernels exists. The stream is of their context, or of a green context of its device.
    pub unsafe fn judge(&self, stream: &CudaStream, arguments: &VerdictArguments) -> Result<(), CudaError> {
        arguments.check().map_err(CudaError::Refused)?;
        let mut copy = *arguments;
        let shape = LaunchShape { blocks: 1, threads: 1 };
        // SAFETY: one parameter, the arguments by value, whose layout the header shares; the caller promises everything
        // that they name.
        unsafe { self.verdict.launch(stream, shape, &mut [pointer(&mut copy)]) }
    }
}
