//! Conversion of errors of the GPU to errors of a run.

use uva_cuda::{CudaError, ErrorKind};
use uva_rows::GatherError;
use uva_rows::cuda::FillError;

use crate::RuntimeError;
use crate::feed::rows::failed as of_rows;

impl From<CudaError> for RuntimeError {
    fn from(error: CudaError) -> Self {
        of_kind(error.kind(), error.to_string())
    }
}

impl From<FillError> for RuntimeError {
    fn from(error: FillError) -> Self {
        let kind = error.kind();
        match error {
            // An error of rows and sums that the CPU makes.
            FillError::Rows(
                error @ (GatherError::Lists(_)
                | GatherError::Threads { .. }
                | GatherError::Disk(_)
                | GatherError::Exchange(_)),
            ) => of_rows(error),
            FillError::Rows(_) => of_kind(kind, format!("feat.npy: {error}")),
            _ => of_kind(kind, error.to_string()),
        }
    }
}

pub(super) fn of_kind(kind: ErrorKind, message: String) -> RuntimeError {
    match kind {
        ErrorKind::Missing => RuntimeError::missing(message),
        ErrorKind::Usage => RuntimeError::usage(message),
        ErrorKind::Failed => RuntimeError::failed(message),
    }
}
