//! Arrays computed once and copied to the device.

use uva_cuda::memory::{DeviceBuffer, PinnedBuffer, host_to_device};
use uva_cuda::{CudaError, CudaStream};

/// Bytes that are staged and copied at a time; a multiple of every entry's size.
const PIECE: usize = 16 << 20;

/// Allocates and fills `bytes` bytes of device memory. `write` supplies them piece by piece, each from the given offset
/// on. `what` names them in messages.
///
/// All bytes pass through a separate staging buffer, including those of pinned tables: a table may be pinned in several
/// parts, and a copy must not cross from one into the next.
///
/// # Errors
/// [`CudaError::OutOfMemory`] with the free memory; [`CudaError::Call`].
pub(crate) fn upload(
    stream: &CudaStream,
    bytes: usize,
    what: &str,
    mut write: impl FnMut(usize, &mut [u8]),
) -> Result<DeviceBuffer, CudaError> {
    let buffer = DeviceBuffer::new(stream.context(), bytes, what)?;
    let mut staging = PinnedBuffer::new(stream.context(), PIECE.min(bytes), what)?;
    let mut begin = 0;
    while begin < bytes {
        let staged = &mut staging.as_mut_slice()[..PIECE.min(bytes - begin)];
        write(begin, staged);
        // SAFETY: the copy has the size of a buffer that is owned by this function and not shared yet. The staging
        // buffer is not touched before the stream has been waited for, whether or not the copy was enqueued.
        let copied = unsafe { host_to_device(stream, staged, buffer.address() + begin as u64) };
        copied.and(stream.synchronize())?;
        begin += staged.len();
    }
    Ok(buffer)
}

/// A copy of `from`.
///
/// # Errors
/// As [`upload`].
pub(crate) fn copy_of(stream: &CudaStream, from: &[u8], what: &str) -> Result<DeviceBuffer, CudaError> {
    upload(stream, from.len(), what, |begin, to| to.copy_from_slice(&from[begin..begin + to.len()]))
}
