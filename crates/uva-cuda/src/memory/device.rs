//! Device memory of this process only.

use std::sync::Arc;

use crate::devices::context::Context;
use crate::error::CudaError;
use crate::memory::bytes::ByteCount;
use crate::memory::lack::explain_lack;
use crate::slice::DeviceSlice;

/// Uninitialised device memory of this process only, aligned to at least 256 bytes.
///
/// Freed when dropped; the driver then waits for all work enqueued on the device.
#[derive(Debug)]
pub struct DeviceBuffer {
    context: Arc<Context>,
    address: u64,
    bytes: usize,
}

impl DeviceBuffer {
    /// Allocates `bytes` bytes of device memory. `what` names the buffer in messages.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`], with the free bytes; [`CudaError::Call`].
    pub fn new(context: &Arc<Context>, bytes: usize, what: &str) -> Result<Self, CudaError> {
        context.bind()?;
        let mut address = 0;
        // The driver refuses allocations of 0 bytes.
        let asked = bytes.max(1);
        // SAFETY: writes one address; the context is current.
        unsafe {
            driver_call!(
                cuMemAlloc_v2(&mut address, asked),
                "allocating {} for {what}",
                ByteCount(bytes as u64)
            )
        }
        .map_err(|error| explain_lack(context, what, bytes as u64, error))?;
        Ok(Self { context: Arc::clone(context), address, bytes })
    }

    /// Its device address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The requested number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The whole buffer.
    pub fn slice(&self) -> DeviceSlice<'_> {
        // SAFETY: our own allocation, which lives as long as the borrow.
        unsafe { DeviceSlice::from_raw(self.address, self.bytes, self.context.device().ordinal() as i32) }
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // Without the context the memory is already gone, so errors are ignored.
        if self.context.bind().is_ok() {
            // SAFETY: allocated by us, freed once.
            let _ = unsafe { driver_call!(cuMemFree_v2(self.address), "freeing device memory") };
        }
    }
}
