//! What a gather for a GPU reads: a table in host memory, pinned or not, or a copy of it on the device.

use std::sync::Arc;

use uva_cuda::memory::{DeviceBuffer, PinnedTable, TableBytes};
use uva_cuda::{Context, CudaError};

use crate::cuda::upload::{PIECE, Upload};

/// A whole table in device memory: for one that fits there, and to know what a gather over the link costs more.
#[derive(Debug)]
pub struct DeviceTable {
    buffer: DeviceBuffer,
}

impl DeviceTable {
    /// Copies a table to the device. `what` names it in messages.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`] when the device has not so much free; [`CudaError::Call`].
    pub fn new(context: &Arc<Context>, bytes: &[u8], what: &str) -> Result<Self, CudaError> {
        let buffer = DeviceBuffer::new(context, bytes.len(), what)?;
        let mut upload = Upload::new(context, PIECE)?;
        // SAFETY: our own buffer, as large, that nobody else knows yet; the upload is finished below, or waited for
        // when it is dropped, which is before the buffer.
        unsafe { upload.send_all(buffer.address(), bytes) }?;
        upload.finish()?;
        Ok(Self { buffer })
    }
}

/// Where the rows are.
#[derive(Clone)]
pub enum GatherTable {
    /// In pinned host memory, for the device and the CPU to read.
    Pinned(Arc<PinnedTable>),
    /// In host memory that is not pinned, for the CPU alone.
    Host(Arc<dyn TableBytes>),
    /// On the device.
    Device(Arc<DeviceTable>),
}

impl GatherTable {
    /// Where the device finds the first row, if it can read it.
    pub(super) fn address(&self) -> Option<u64> {
        match self {
            Self::Pinned(table) => Some(table.address()),
            Self::Host(_) => None,
            Self::Device(table) => Some(table.buffer.address()),
        }
    }

    /// The rows, if the CPU can read them. They stay in place while the table is held.
    pub(super) fn host(&self) -> Option<&[u8]> {
        match self {
            Self::Pinned(table) => Some(table.host()),
            Self::Host(table) => Some(table.bytes()),
            Self::Device(_) => None,
        }
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Pinned(table) => table.bytes(),
            Self::Host(table) => table.bytes().len(),
            Self::Device(table) => table.buffer.bytes(),
        }
    }
}

impl From<Arc<PinnedTable>> for GatherTable {
    fn from(table: Arc<PinnedTable>) -> Self {
        Self::Pinned(table)
    }
}

impl From<Arc<DeviceTable>> for GatherTable {
    fn from(table: Arc<DeviceTable>) -> Self {
        Self::Device(table)
    }
}
