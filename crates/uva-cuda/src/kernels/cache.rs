//! Launches of the kernel by which a FIFO cache of rows takes in what a gather missed.

use uva_kernels::cache::INSERTIONS_AT_ONCE;

use crate::error::CudaError;
use crate::kernels::gather::{GatherKernels, GridBound, pointer};
use crate::stream::Stream;

pub use uva_kernels::cache::{CacheInsertion, InsertArguments};

impl GatherKernels {
    /// Enqueues that a cache takes rows in: each insertion's row is copied from among the gathered ones to its slot,
    /// and the slot map follows. No insertions: nothing is enqueued. Returns without waiting.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for arguments that no memory can satisfy; [`CudaError::Call`] if the launch fails.
    ///
    /// # Safety
    /// From this call until the stream has passed it, on the stream's device: `insertions` is `count` readable
    /// [`CacheInsertion`]s that stay as they are, `slot_map` and `cache` are as large as these say, writable, and
    /// nobody else uses them, and each position is a row of `gathered`, which was written before in stream order and
    /// which nobody writes. No slot is named twice, nor any row, be it as evicted or as inserted. These kernels' module
    /// lives until then, and the stream is as [`GatherKernels::enqueue`] has it.
    pub unsafe fn insert(
        &self,
        stream: &Stream,
        arguments: &InsertArguments,
        bound: GridBound,
    ) -> Result<(), CudaError> {
        if arguments.count == 0 {
            return Ok(());
        }
        arguments.check().map_err(CudaError::Refused)?;
        let shape = self.shape(&self.insert, bound, arguments.count.div_ceil(INSERTIONS_AT_ONCE));
        let mut copy = *arguments;
        // SAFETY: one parameter, the arguments by value, whose layout the header shares; the caller promises all that
        // they name.
        unsafe { self.insert.function.launch(stream, shape, &mut [pointer(&mut copy)]) }
    }
}
