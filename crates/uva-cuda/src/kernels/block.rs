//! Launches of the kernel that prepares blocks for training.

use uva_kernels::block::{BLOCK_PREPARE, BLOCK_THREADS};

use crate::error::CudaError;
use crate::kernels::gather::pointer;
use crate::module::{Function, Module, Shape};
use crate::stream::Stream;

pub use uva_kernels::block::{BlockArguments, EdgeWeights};

/// The kernel, ready to be launched. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BlockKernel {
    function: Function,
}

impl BlockKernel {
    /// The kernel of [`Module::block`].
    ///
    /// # Errors
    /// [`CudaError::Call`] if the module lacks it.
    pub fn new(module: &Module) -> Result<Self, CudaError> {
        Ok(Self { function: module.function(BLOCK_PREPARE)? })
    }

    /// Enqueues the preparation of a block. Returns without waiting.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for arguments that no memory can satisfy; [`CudaError::Call`] if the launch fails.
    ///
    /// # Safety
    /// The following holds from this call until the stream has passed it, on the stream's device:
    /// - The arrays of the arguments are as [`BlockArguments`] describes them. The block's own are readable, and nobody
    ///   writes them. The prepared ones are writable, disjoint, and used by nobody else.
    /// - A clone of this kernel lives. The stream is of its context, or of a green context of its device.
    pub unsafe fn prepare(&self, stream: &Stream, arguments: &BlockArguments) -> Result<(), CudaError> {
        arguments.check().map_err(CudaError::Refused)?;
        let blocks = u32::try_from(arguments.useful_blocks()).unwrap_or(u32::MAX);
        let mut copy = *arguments;
        let shape = Shape { blocks, threads: BLOCK_THREADS };
        // SAFETY: one parameter, the arguments by value, whose layout the header shares; the caller promises everything
        // that they name.
        unsafe { self.function.launch(stream, shape, &mut [pointer(&mut copy)]) }
    }
}
