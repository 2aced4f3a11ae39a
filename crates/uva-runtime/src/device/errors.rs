//! Errors of the GPU as errors of a run.

use uva_cuda::{CudaError, ErrorKind};
use uva_rows::cuda::FillError;

use crate::RuntimeError;

impl From<CudaError> for RuntimeError {
    fn from(error: CudaError) -> Self {
        of_kind(error.kind(), error.to_string())
    }
}

impl From<FillError> for RuntimeError {
    fn from(error: FillError) -> Self {
        let message = match &error {
            FillError::Rows(_) => format!("feat.npy: {error}"),
            _ => error.to_string(),
        };
        of_kind(error.kind(), message)
    }
}

pub(super) fn of_kind(kind: ErrorKind, message: String) -> RuntimeError {
    match kind {
        ErrorKind::Missing => RuntimeError::Missing(message),
        ErrorKind::Usage => RuntimeError::Usage(message),
        ErrorKind::Failed => RuntimeError::Failed(message),
    }
}
