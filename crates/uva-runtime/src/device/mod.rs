//! Feature slots on a GPU: one buffer shared by producer and consumer, and two events a slot.
//!
//! The ring of the feature slots is the same as on the host ([`uva_mem::ring`]). Its states give the owner of a slot,
//! and its payload is the batch's header. The arrays and rows are on the device, and are handed over *while work is
//! still in flight*. A side enqueues its last work on a slot, records an event after that, and gives the slot away at
//! once.
//!
//! | event | created and recorded by | the other side |
//! |---|---|---|
//! | `ready` of a slot | producer, after gather and report | waits for it on its stream, after the acquire of `ready` |
//! | `free` of a slot | consumer, after its last use | waits for it on its stream, after the acquire of `free` |
//!
//! The producer works on two streams: uploads wait for `free`, gathers for their upload. Batches of a sampler on the GPU
//! need no upload of their columns where sampler and producer share a process (`batches`).
//!
//! Invariants:
//! - A wait sees only what was recorded before it was enqueued. The ring's state is stored (release) after the record
//!   has returned, and the wait is enqueued after that state was seen (acquire). So it is always the right record.
//! - In a slot's first generation nobody has recorded `free`, and the producer does not wait for it.
//! - After a peer's death its events mean nothing. The report that a gather writes after its rows carries a report
//!   stamp: the sequence number plus one. A consumer waits for its own work and then checks the stamp. If it differs,
//!   the consumer has computed on an unfinished batch, and discards the result (`DeviceSlots::confirm`).
//! - The producer outlives the consumer's last wait: it leaves when the consumer has given back the slot of the end.
//!   The consumer's memory of the slots outlives it too: the consumer holds it by itself (by its own mapping, or an
//!   opened handle).

mod batches;
mod consumer;
mod link;
mod open;
mod producer;
mod slots;

use uva_cuda::{CudaError, ErrorKind};
use uva_rows::cuda::FillError;

pub(crate) use batches::{DeviceBatches, bytes_on_gpu, stays_on_gpu};
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
