//! Errors of the sampler on a GPU.

use crate::{InvalidOption, SampleError};
use uva_cuda::CudaError;

/// The reason why a batch was not sampled on the GPU.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CudaSampleError {
    /// An error that the sampler on the CPU reports too.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// An error of the device or the driver.
    #[error(transparent)]
    Cuda(#[from] CudaError),
}

impl From<InvalidOption> for CudaSampleError {
    fn from(error: InvalidOption) -> Self {
        Self::Sample(error.into())
    }
}
