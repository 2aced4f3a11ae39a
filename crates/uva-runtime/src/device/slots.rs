//! What both sides of feature slots on a GPU share: events, shape, and the report stamp of a whole batch.

use std::sync::Arc;
use std::time::Duration;

use uva_cuda::Event;
use uva_cuda::kernels::gather::GatherReport;
use uva_rows::cuda::SlotShape;

use crate::RuntimeError;
use crate::plan::RunPlan;

/// The events of all slots.
#[derive(Clone, Debug)]
pub(crate) struct SlotEvents {
    pub ready: Vec<Arc<Event>>,
    pub free: Vec<Arc<Event>>,
}

pub(super) fn slot_shape(plan: &RunPlan) -> SlotShape {
    SlotShape {
        slots: plan.options.feature_slots,
        stride: plan.layout.device_slot_bytes(),
        report_at: plan.layout.report_at(),
    }
}

pub(super) fn out_of_range(position: u64, id: i64, rows: usize) -> RuntimeError {
    RuntimeError::Failed(format!(
        "feat.npy: id {id} at position {position} is outside the table of {rows} rows"
    ))
}

/// The result of a gather.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathered {
    /// How long it took on the device.
    pub time: Duration,
    /// Rows that came from the feature cache.
    pub hits: u64,
}

impl Gathered {
    pub fn of(report: &GatherReport) -> Self {
        Self {
            time: Duration::from_nanos(report.ended_ns.saturating_sub(report.began_ns)),
            hits: report.hits,
        }
    }
}

/// The report stamp that a gather writes when the batch of this sequence number is whole.
pub(super) fn stamp(sequence: u64) -> u64 {
    sequence + 1
}
