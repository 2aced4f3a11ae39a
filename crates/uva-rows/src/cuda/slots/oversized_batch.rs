//! A batch that exceeds a slot on a GPU.

use std::ops::Range;
use std::sync::Arc;

use uva_cuda::memory::{DeviceBuffer, PinnedBuffer, host_to_device};
use uva_cuda::{Context, CudaError, CudaStream, DeviceSlice};

use super::slot::REPORT;

/// Memory of one batch, with the content of a slot: report, arrays and rows. It is device memory or, if that is full,
/// page-locked host memory, which the device reads over the link.
///
/// Wait for the work on it before dropping it, as [`SlotReader::put_away`](crate::cuda::SlotReader::put_away) does.
#[derive(Debug)]
pub struct OversizedMemory {
    memory: Memory,
}

#[derive(Debug)]
enum Memory {
    Device(DeviceBuffer),
    Host(PinnedBuffer),
}

impl OversizedMemory {
    /// Allocates memory for this batch, to be filled by [`bring`](Self::bring).
    pub(crate) fn new(context: &Arc<Context>, image: &[u8]) -> Result<Self, CudaError> {
        const WHAT: &str = "a batch that is larger than its feature slot";
        let memory = match DeviceBuffer::new(context, image.len(), WHAT) {
            Err(CudaError::OutOfMemory { .. }) => {
                let mut buffer = PinnedBuffer::new(context, image.len(), WHAT)?;
                buffer.as_mut_slice().copy_from_slice(image);
                Memory::Host(buffer)
            }
            made => Memory::Device(made?),
        };
        Ok(Self { memory })
    }

    /// Copies the batch to the device on this stream, and waits for that. The host has its own copy already.
    pub(crate) fn bring(&self, stream: &CudaStream, image: &[u8]) -> Result<(), CudaError> {
        let Memory::Device(buffer) = &self.memory else { return Ok(()) };
        let to = buffer.slice().sub(0..image.len())?.address();
        // SAFETY: as many bytes of our own memory, which is not shared yet. The image is borrowed until the copy has
        // been waited for, below, whether or not it was enqueued.
        let enqueued = unsafe { host_to_device(stream, image, to) };
        let waited = stream.synchronize();
        enqueued.and(waited)
    }

    /// Bytes of the batch, for work on the stream on which it was taken.
    ///
    /// # Errors
    /// [`CudaError::Refused`] if they are out of range.
    pub fn slice(&self, range: Range<usize>) -> Result<DeviceSlice<'_>, CudaError> {
        let whole = match &self.memory {
            Memory::Device(buffer) => buffer.slice(),
            Memory::Host(buffer) => buffer.slice(),
        };
        whole.sub(range)
    }

    /// The report, for work on the same stream.
    ///
    /// # Errors
    /// As [`OversizedMemory::slice`].
    pub fn report_slice(&self) -> Result<DeviceSlice<'_>, CudaError> {
        self.slice(REPORT)
    }
}
