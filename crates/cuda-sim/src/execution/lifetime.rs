//! The end of a context, and of all objects in it.

use crate::device_memory::memory;
use crate::execution::{event, modules, stream};
use crate::machine::codes::Outcome;
use crate::machine::{context, device};

/// Releases one count; the last release ends the context and all objects in it.
///
/// # Errors
/// `CUDA_ERROR_INVALID_CONTEXT` if it is not retained.
pub fn release_primary(ordinal: usize) -> Outcome {
    if let Some(context) = context::give_back_primary(ordinal)? {
        // In this order: no stream may start an operation on memory that is being taken away.
        stream::end_all_of(&context);
        event::end_all_of(&context);
        modules::end_all_of(&context);
        memory::end_all_of(&context);
    }
    Ok(())
}

pub fn primary_release(device: i32) -> Outcome {
    release_primary(device::ordinal(device)?)
}

pub fn synchronize() -> Outcome {
    let current = context::current()?;
    for queue in stream::all_of(&current) {
        queue.synchronize()?;
    }
    current.check()
}
