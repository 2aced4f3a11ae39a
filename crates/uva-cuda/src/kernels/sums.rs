//! Launches of the kernel that sums listed rows in device memory.

use crate::error::CudaError;
use crate::kernels::gather::{GatherKernels, GridBound, pointer};
use crate::stream::CudaStream;

pub use uva_kernels::sums::{ContinuedArguments, SumArguments, SummedType};

impl GatherKernels {
    /// Enqueues the sums of a block's lists, and the copies of own rows if requested. Without destinations no work is
    /// enqueued. Returns without waiting.
    ///
    /// # Errors
    /// [`CudaError::Refused`] for arguments that no memory can satisfy; [`CudaError::Call`] if the launch fails.
    ///
    /// # Safety
    /// The following holds from this call until the stream has passed it, on the stream's device:
    /// - The arrays of the arguments are as [`SumArguments`] describes them. Input arrays were written before in stream
    ///   order, and are not written again. Output arrays are writable, disjoint, and not used by other code.
    /// - The module of these kernels stays loaded, and the stream is as [`GatherKernels::enqueue`] requires.
    pub unsafe fn sum(
        &self,
        stream: &CudaStream,
        values: SummedType,
        arguments: &SumArguments,
        bound: GridBound,
    ) -> Result<(), CudaError> {
        arguments.check(values).map_err(CudaError::Refused)?;
        if arguments.destinations == 0 {
            return Ok(());
        }
        let entry = &self.sums[values as usize];
        let shape = self.shape(entry, bound, arguments.useful_warps(values));
        let mut copy = *arguments;
        // SAFETY: one parameter, the arguments by value, whose layout the header shares; the caller promises everything
        // that they name.
        unsafe { entry.function.launch(stream, shape, &mut [pointer(&mut copy)]) }
    }

    /// Enqueues the rest of a block's sums, which the host began with the uncached rows, and its own rows if requested.
    /// Without destinations no work is enqueued. Returns without waiting.
    ///
    /// # Errors
    /// As [`GatherKernels::sum`].
    ///
    /// # Safety
    /// As [`GatherKernels::sum`], with the arrays of [`ContinuedArguments`]. Every slot in the map is a row of the
    /// cache, and every index of a begun sum or a missed row is valid. The report is a prepared one
    /// ([`GatherReport::PREPARED`](uva_kernels::gather::GatherReport::PREPARED)).
    pub unsafe fn continue_sums(
        &self,
        stream: &CudaStream,
        values: SummedType,
        arguments: &ContinuedArguments,
        bound: GridBound,
    ) -> Result<(), CudaError> {
        arguments.check(values).map_err(CudaError::Refused)?;
        if arguments.lists.destinations == 0 {
            return Ok(());
        }
        let entry = &self.continued_sums[values as usize];
        let shape = self.shape(entry, bound, arguments.useful_warps(values));
        let mut copy = *arguments;
        // SAFETY: one parameter, the arguments by value, whose layout the header shares; the caller promises everything
        // that they name.
        unsafe { entry.function.launch(stream, shape, &mut [pointer(&mut copy)]) }
    }
}
