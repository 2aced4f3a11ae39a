//! Errors for a lack of device memory.

use crate::devices::context::Context;
use crate::error::{CudaError, OUT_OF_MEMORY};

/// Converts an out-of-memory error of the driver to an error with the buffer, its size, and the free and total memory.
pub(super) fn explain_lack(context: &Context, what: &str, bytes: u64, error: CudaError) -> CudaError {
    let CudaError::Call { call, code: OUT_OF_MEMORY, .. } = error else { return error };
    match context.memory() {
        Ok((free, total)) => CudaError::OutOfMemory { call, what: what.to_owned(), bytes, free, total },
        // The first error is the one that matters.
        Err(_) => error,
    }
}
