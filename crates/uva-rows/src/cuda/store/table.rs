//! A whole table in device memory.

use std::sync::Arc;

use uva_cuda::memory::DeviceBuffer;
use uva_cuda::{Context, CudaError};

use super::upload::{PIECE, Upload};

/// A whole table in device memory, for tables that fit there, and as the baseline for the cost of a gather over the
/// link.
#[derive(Debug)]
pub struct DeviceTable {
    buffer: DeviceBuffer,
}

impl DeviceTable {
    /// Copies a table to the device. `what` names it in messages.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`] if the device has too little free memory; [`CudaError::Call`].
    pub fn new(context: &Arc<Context>, bytes: &[u8], what: &str) -> Result<Self, CudaError> {
        let buffer = DeviceBuffer::new(context, bytes.len(), what)?;
        let mut upload = Upload::new(context, PIECE)?;
        // SAFETY: our own buffer of the same size, which is not shared yet. The upload is finished below, or waited for
        // when it is dropped, which is before the buffer.
        unsafe { upload.send_all(buffer.address(), bytes) }?;
        upload.finish()?;
        Ok(Self { buffer })
    }
}

impl DeviceTable {
    /// The address of the first row.
    pub(crate) fn address(&self) -> u64 {
        self.buffer.address()
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        self.buffer.bytes()
    }
}
