//! Launches of the kernel that inserts missed rows into a FIFO cache.

use uva_kernels::cache::INSERTIONS_AT_ONCE;

use crate::error::CudaError;
use crate::kernels::gather::{GatherKernels, GridBound, pointer};
use crate::stream::CudaStream;

pub use uva_kernels::cache::{CacheInsertion, InsertArguments};

impl GatherKernels {
    /// Enqueues the insertions into a cache: each insertion's row is copied from the gathered rows to its slot, and the
    /// slot map is updated. Without insertions no work is enqueued. Returns without waiting.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for arguments that no memory can satisfy; [`CudaError::Call`] if the launch fails.
    ///
    /// # Safety
    /// The following holds from this call until the stream has passed it, on the stream's device:
    /// - `insertions` is `count` readable [`CacheInsertion`]s, which do not change.
    /// - `slot_map` and `cache` have the sizes that the arguments state. Both are writable, and not used by other code.
    /// - Each position is a row of `gathered`, which was written before in stream order and is not written again.
    /// - No slot occurs twice. No row occurs twice either, neither as evicted nor as inserted.
    /// - The module of these kernels stays loaded, and the stream is as [`GatherKernels::enqueue`] requires.
    pub unsafe fn insert(
        &self,
        stream: &CudaStream,
        arguments: &InsertArguments,
        bound: GridBound,
    ) -> Result<(), CudaError> {
        if arguments.count == 0 {
            return Ok(());
        }
        arguments.check().map_err(CudaError::Refused)?;
        let shape = self.shape(&self.insert, bound, arguments.count.div_ceil(INSERTIONS_AT_ONCE));
        let mut copy = *arguments;
        // SAFETY: one parameter, the arguments by value, whose layout the header shares; the caller promises everything
        // that they name.
        unsafe { self.insert.function.launch(stream, shape, &mut [pointer(&mut copy)]) }
    }
}
