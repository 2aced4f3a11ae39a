//! Page-locked host memory. A copy engine reads it at full speed without the CPU, and a kernel reads it without a copy.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::CU_MEMHOSTALLOC_DEVICEMAP;

use crate::devices::context::Context;
use crate::error::{CudaError, OUT_OF_MEMORY};
use crate::memory::bytes::ByteCount;
use crate::slice::DeviceSlice;

/// Host memory that the driver has page-locked, initially zeroed. It begins on a page boundary.
///
/// Not write-combined: the CPU reads it too, and some links are slower with it.
#[derive(Debug)]
pub struct PinnedBuffer {
    context: Arc<Context>,
    host: *mut u8,
    address: u64,
    bytes: usize,
}

// SAFETY: the memory belongs to the process, not to a thread; only `&mut self` lends it for writing.
unsafe impl Send for PinnedBuffer {}
// SAFETY: as above: `&self` only reads.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    /// Allocates `bytes` bytes of page-locked memory. `what` names the buffer in messages.
    ///
    /// # Errors
    /// [`CudaError::System`] if the machine can't lock this much; [`CudaError::Call`].
    pub fn new(context: &Arc<Context>, bytes: usize, what: &str) -> Result<Self, CudaError> {
        let mut buffer = Self::unwritten(context, bytes, what).map_err(|error| match error {
            CudaError::System(lack) => {
                CudaError::System(format!("{lack}, or take fewer `slots` or a smaller `batch_size`"))
            }
            error => error,
        })?;
        buffer.as_mut_slice().fill(0);
        Ok(buffer)
    }

    /// Allocates page-locked memory with undefined content, to be written by the caller.
    pub(super) fn unwritten(context: &Arc<Context>, bytes: usize, what: &str) -> Result<Self, CudaError> {
        context.bind()?;
        let mut host: *mut c_void = std::ptr::null_mut();
        // The driver refuses allocations of 0 bytes.
        let asked = bytes.max(1);
        // SAFETY: writes one pointer; the context is current.
        unsafe {
            driver_call!(
                cuMemHostAlloc(&mut host, asked, CU_MEMHOSTALLOC_DEVICEMAP),
                "allocating {} of page-locked memory for {what}",
                ByteCount(bytes as u64)
            )
        }
        .map_err(|error| host_lack(what, bytes, error))?;
        let mut buffer = Self { context: Arc::clone(context), host: host.cast(), address: 0, bytes };
        // From here on `buffer` frees it on an error.
        // SAFETY: writes one address; the pointer is from cuMemHostAlloc with DEVICEMAP.
        unsafe {
            driver_call!(
                cuMemHostGetDevicePointer_v2(&mut buffer.address, host, 0),
                "asking the device address of {what}"
            )
        }?;
        Ok(buffer)
    }

    /// The device address of the first byte.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The requested number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The whole buffer, for the device.
    pub fn slice(&self) -> DeviceSlice<'_> {
        // SAFETY: page-locked and mapped for the device for the duration of the borrow.
        unsafe { DeviceSlice::from_raw(self.address, self.bytes, self.context.device().ordinal() as i32) }
    }

    /// The first byte on the host.
    pub fn as_ptr(&self) -> *const u8 {
        self.host
    }

    /// The bytes. Callers that let a device write them wait for it first.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `bytes` bytes of our own, which the driver made and so have values; writers need `&mut self`, or `unsafe` with a promise.
        unsafe { std::slice::from_raw_parts(self.host, self.bytes) }
    }

    /// The bytes, for writing. Callers that let a device read or write them wait for it first.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.host, self.bytes) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        // Without the context the driver has nothing to unlock, and the pages are freed with the process. Errors are
        // ignored.
        if self.context.bind().is_ok() {
            // SAFETY: allocated by us, freed once.
            let _ = unsafe { driver_call!(cuMemFreeHost(self.host.cast()), "freeing page-locked memory") };
        }
    }
}

/// The driver returns the same "out of memory" code for host memory as for device memory; the remedy differs.
fn host_lack(what: &str, bytes: usize, error: CudaError) -> CudaError {
    if error.code() != Some(OUT_OF_MEMORY) {
        return error;
    }
    CudaError::System(format!(
        "cuMemHostAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (2): this machine has no {} of memory to page-lock for {what}: \
         free memory, or take fewer `slots` or a smaller `batch_size`",
        ByteCount(bytes as u64)
    ))
}
