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
//!   computed on an unfinished batch, and throws the result away ([`DeviceSlots::confirm`]).
//! - The producer outlives the consumer's last wait: it leaves when the consumer has given back the slot of the end.
//!   So does the consumer's memory of the slots: it holds them by itself (by its own mapping, or an opened handle).

mod consumer;
mod link;
mod producer;

use std::sync::Arc;
use std::time::Duration;

use uva_cuda::kernels::gather::GatherReport;
use uva_cuda::{Context, CudaError, ErrorKind, Event};
use uva_rows::cuda::{FillError, SlotShape};

pub use consumer::DeviceSlots;
pub(crate) use consumer::Loan;
use link::one_process;
pub(crate) use link::{consumer_side, producer_side};
pub(crate) use producer::{DeviceGather, DeviceSetup, FeatureBytes, cache_on_gpu, zero_copy};

use crate::RuntimeError;
use crate::plan::RunPlan;

/// The events of all slots.
#[derive(Clone, Debug)]
pub(crate) struct SlotEvents {
    ready: Vec<Arc<Event>>,
    free: Vec<Arc<Event>>,
}

/// The two ends of a plan's feature slots on a GPU, for roles that are threads of this process. `None` where the slots
/// are in host memory.
pub(crate) fn in_this_process(plan: &RunPlan) -> Result<Option<(DeviceSetup, DeviceSlots)>, RuntimeError> {
    let Some(cuda) = plan.backend.device_slots() else { return Ok(None) };
    let context = Context::primary(cuda.ordinal)?;
    one_process(&context, cuda, plan).map(Some)
}

/// The GPU that a sampler of this plan works on, in this process; `None` where the CPU samples.
pub(crate) fn sampler_context(plan: &RunPlan) -> Result<Option<Arc<Context>>, RuntimeError> {
    Ok(plan.backend.gpu_sampler().map(|cuda| Context::primary(cuda.ordinal)).transpose()?)
}

fn slot_shape(plan: &RunPlan) -> SlotShape {
    SlotShape {
        slots: plan.options.feature_slots,
        stride: plan.layout.device_slot_bytes(),
        report_at: plan.layout.report_at(),
    }
}

fn out_of_range(position: u64, id: i64, rows: usize) -> RuntimeError {
    RuntimeError::Failed(format!(
        "feat.npy: id {id} at position {position} is outside the table of {rows} rows"
    ))
}

/// How a gather went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathered {
    /// How long it took on the device.
    pub time: Duration,
    /// Rows that came from the feature cache.
    pub hits: u64,
}

impl Gathered {
    fn of(report: &GatherReport) -> Self {
        Self {
            time: Duration::from_nanos(report.ended_ns.saturating_sub(report.began_ns)),
            hits: report.hits,
        }
    }
}

/// The value a gather's report carries when the batch of this sequence number is whole.
fn stamp(sequence: u64) -> u64 {
    sequence + 1
}

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
