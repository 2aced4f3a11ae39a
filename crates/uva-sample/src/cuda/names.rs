//! Other ids of the nodes, in device memory: four bytes per node if the ids fit.

use uva_cuda::memory::DeviceBuffer;
use uva_cuda::{CudaError, CudaStream};

use crate::cuda::upload::upload;

/// One id per node.
#[derive(Debug)]
pub(crate) struct Names {
    buffer: DeviceBuffer,
    wide: bool,
}

impl Names {
    /// Copies `ids` to the device. `what` names them in messages.
    pub(crate) fn new(stream: &CudaStream, ids: &[i64], what: &str) -> Result<Self, CudaError> {
        let wide = ids.iter().any(|&id| i32::try_from(id).is_err());
        let each = if wide { 8 } else { 4 };
        // The buffer is no larger than the ids.
        let buffer = upload(stream, ids.len() * each, what, |begin, to| {
            for (to, id) in to.chunks_exact_mut(each).zip(&ids[begin / each..]) {
                // Narrow ids were found to fit, and little-endian ones begin with their low bytes.
                to.copy_from_slice(&id.to_le_bytes()[..each]);
            }
        })?;
        Ok(Self { buffer, wide })
    }

    /// Their device address, and whether an id has eight bytes.
    pub(crate) fn place(&self) -> (u64, u64) {
        (self.buffer.address(), u64::from(self.wide))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.buffer.bytes()
    }
}
