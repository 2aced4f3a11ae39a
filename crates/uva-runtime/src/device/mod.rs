//! Feature slots on a GPU: one buffer that producer and consumer share, and two events a slot.
//!
//! The ring of the feature slots is the same as on the host ([`uva_mem::ring`]): its states say whose a slot is, and
//! its payload is the batch's header. The arrays and rows lie on the device, and there *work still under way* is handed
//! over: a side gives a slot away as soon as it has enqueued its last work on it, behind which it records an event.
//!
//! | event | created and recorded by | the other side |
//! |---|---|---|
//! | `ready` of a slot | producer, behind gather and report | waits for it on its stream, behind the acquire of `ready` |
//! | `free` of a slot | consumer, behind its last use | waits for it on its stream, behind the acquire of `free` |
//!
//! Invariants:
//! - A wait sees only what was recorded before it was enqueued. The ring's state is stored (release) after the record
//!   has returned, and the wait is enqueued after that state was seen (acquire): so it is always the right record.
//! - In a slot's first generation nobody has recorded `free`, and the producer doesn't wait for it.
//! - After a peer's death its events mean nothing. The report that a gather writes behind its rows carries a stamp
//!   of its own, the sequence number plus one: a consumer that has waited for its own work and finds another stamp has
//!   computed on an unfinished batch, and throws the result away (`DeviceSlots::confirm`).
//! - The producer outlives the consumer's last wait: it leaves when the consumer has given back the slot of the end.
//!   So does the consumer's memory of the slots: it holds them by itself (by its own mapping, or an opened handle).

mod consumer;
mod link;
mod open;
mod producer;
mod slots;

use uva_cuda::{CudaError, ErrorKind};
use uva_rows::cuda::FillError;

pub use consumer::DeviceSlots;
pub(crate) use consumer::Loan;
pub(crate) use link::{consumer_side, one_process, producer_side};
pub(crate) use open::open_device;
pub(crate) use producer::{DeviceGather, DeviceSetup, FeatureBytes, cache_on_gpu, zero_copy};

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

fn of_kind(kind: ErrorKind, message: String) -> RuntimeError {
    match kind {
        ErrorKind::Missing => RuntimeError::Missing(message),
        ErrorKind::Usage => RuntimeError::Usage(message),
        ErrorKind::Failed => RuntimeError::Failed(message),
    }
}
