//! Launches of the kernel that copies arrays within the device.

use uva_kernels::copies::{COPIES_AT_ONCE, CopyArguments};

use crate::error::CudaError;
use crate::kernels::gather::{GatherKernels, GridBound, pointer};
use crate::stream::CudaStream;

pub use uva_kernels::copies::DeviceCopy;

/// Maximum number of blocks that copy. They have 512 KiB in flight at once, and leave nearly all multiprocessors free.
const MOST_BLOCKS: GridBound = GridBound::Blocks(16);

impl GatherKernels {
    /// Enqueues copies within the device, by one launch for each 32 of them. Returns without waiting.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for copies that no memory can satisfy; [`CudaError::Call`] if a launch fails.
    ///
    /// # Safety
    /// The following holds from this call until the stream has passed it, on the stream's device:
    /// - The sources are readable and not written. The targets are writable, not used by other code, and do not overlap
    ///   each other or a source.
    /// - The module of these kernels stays loaded, and the stream is as [`GatherKernels::enqueue`] requires.
    pub unsafe fn copy(&self, stream: &CudaStream, copies: &[DeviceCopy]) -> Result<(), CudaError> {
        for copies in copies.chunks(COPIES_AT_ONCE) {
            let mut arguments = CopyArguments::new(copies);
            arguments.check().map_err(CudaError::Refused)?;
            let warps = arguments.useful_warps();
            if warps == 0 {
                continue;
            }
            let shape = self.shape(&self.copies, MOST_BLOCKS, warps);
            // SAFETY: one parameter, the arguments by value, whose layout the header shares; the caller promises
            // everything that they name.
            unsafe { self.copies.function.launch(stream, shape, &mut [pointer(&mut arguments)]) }?;
        }
        Ok(())
    }
}
