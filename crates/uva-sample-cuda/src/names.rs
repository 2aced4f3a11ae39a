//! Other ids of the nodes, in device memory: four bytes a node wherever the ids fit.

use uva_cuda::memory::{DeviceBuffer, PinnedBuffer, host_to_device};
use uva_cuda::{CudaError, Stream};

/// Ids that are turned and copied at a time.
const PIECE: usize = 2 << 20;

/// An id a node.
#[derive(Debug)]
pub(crate) struct Names {
    buffer: DeviceBuffer,
    wide: bool,
}

impl Names {
    /// Copies `ids` to the device. `what` names them in messages.
    pub(crate) fn new(stream: &Stream, ids: &[i64], what: &str) -> Result<Self, CudaError> {
        let wide = ids.iter().any(|&id| i32::try_from(id).is_err());
        let each = if wide { 8 } else { 4 };
        let bytes = ids.len().checked_mul(each).ok_or_else(|| {
            CudaError::Refused(format!("{what}: {} entries are more than memory can hold", ids.len()))
        })?;
        let buffer = DeviceBuffer::new(stream.context(), bytes, what)?;
        let mut staging = PinnedBuffer::new(stream.context(), PIECE.min(ids.len()) * each, what)?;
        for (piece, ids) in ids.chunks(PIECE).enumerate() {
            let staged = &mut staging.as_mut_slice()[..ids.len() * each];
            for (to, id) in staged.chunks_exact_mut(each).zip(ids) {
                // Narrow ids have been found to fit, and little-endian ones begin with their low bytes.
                to.copy_from_slice(&id.to_le_bytes()[..each]);
            }
            let to = buffer.address() + (piece * PIECE * each) as u64;
            // SAFETY: `to` is as many bytes of our own buffer, which nobody else knows yet; the staging buffer is not touched
            // before the stream has been waited for, which is done whether or not the copy was enqueued.
            let copied = unsafe { host_to_device(stream, staged, to) };
            copied.and(stream.synchronize())?;
        }
        Ok(Self { buffer, wide })
    }

    /// Where the device finds them, and whether they take eight bytes each.
    pub(crate) fn place(&self) -> (u64, u64) {
        (self.buffer.address(), u64::from(self.wide))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buffer.bytes()
    }
}
