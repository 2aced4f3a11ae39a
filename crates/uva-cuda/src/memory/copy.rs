//! Copies enqueued on a stream. They return immediately, and the bytes are copied later. So each is unsafe: the
//! compiler can't see how long the GPU needs them.

use crate::error::CudaError;
use crate::stream::CudaStream;

/// Enqueues a copy of `from` to the device address `to`. Without bytes no work is enqueued.
///
/// # Errors
/// [`CudaError::Call`].
///
/// # Safety
/// `to` is `from.len()` bytes of memory that the stream's device may write. Until the copy has run, they are not used
/// by other code, and `from` is neither moved nor changed.
pub unsafe fn host_to_device(stream: &CudaStream, from: &[u8], to: u64) -> Result<(), CudaError> {
    if from.is_empty() {
        return Ok(());
    }
    stream.context().bind()?;
    // SAFETY: the caller's promise is the call's contract.
    unsafe {
        driver_call!(
            cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), from.len(), stream.handle()),
            "copying {} bytes to the device",
            from.len()
        )
    }
}

/// Enqueues a copy of the bytes at the device address `from` into `to`. Without bytes no work is enqueued.
///
/// # Errors
/// [`CudaError::Call`].
///
/// # Safety
/// `from` is `to.len()` bytes of memory that the stream's device may read. Until the copy has run, they are not
/// written, and `to` is neither moved nor used by other code.
pub unsafe fn device_to_host(stream: &CudaStream, from: u64, to: &mut [u8]) -> Result<(), CudaError> {
    if to.is_empty() {
        return Ok(());
    }
    stream.context().bind()?;
    // SAFETY: the caller's promise is the call's contract.
    unsafe {
        driver_call!(
            cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from, to.len(), stream.handle()),
            "copying {} bytes from the device",
            to.len()
        )
    }
}

/// Enqueues a copy of `bytes` bytes within the device. Without bytes no work is enqueued.
///
/// # Errors
/// [`CudaError::Call`].
///
/// # Safety
/// Both ranges are memory of the stream's device and don't overlap. Until the copy has run, neither is written by other
/// code, and `to` is not read.
pub unsafe fn device_to_device(
    stream: &CudaStream,
    from: u64,
    to: u64,
    bytes: usize,
) -> Result<(), CudaError> {
    if bytes == 0 {
        return Ok(());
    }
    stream.context().bind()?;
    // SAFETY: the caller's promise is the call's contract.
    unsafe {
        driver_call!(
            cuMemcpyDtoDAsync_v2(to, from, bytes, stream.handle()),
            "copying {bytes} bytes on the device"
        )
    }
}

/// Enqueues a fill of `bytes` bytes at the device address `to` with `value`. Without bytes no work is enqueued.
///
/// # Errors
/// [`CudaError::Call`].
///
/// # Safety
/// The range is memory of the stream's device, and is not used by other code until this has run.
pub unsafe fn fill(stream: &CudaStream, to: u64, value: u8, bytes: usize) -> Result<(), CudaError> {
    if bytes == 0 {
        return Ok(());
    }
    stream.context().bind()?;
    // SAFETY: the caller's promise is the call's contract.
    unsafe {
        driver_call!(
            cuMemsetD8Async(to, value, bytes, stream.handle()),
            "setting {bytes} bytes on the device"
        )
    }
}
