//! The sizes of the buffers that rows pass on the way to the slots.

use uva_graph::{Dataset, Split};
use uva_rows::PartialSumBytes;

use crate::plan::RunPlan;

/// Bytes of the training rows in all tables that batches have.
#[must_use]
pub fn training_bytes(dataset: &Dataset, plan: &RunPlan) -> u64 {
    dataset.split(Split::Train).len() as u64 * plan.layout.table_row_bytes() as u64
}

/// Maximum bytes of a batch's rows or sums that the CPU makes in page-locked memory for a slot.
pub(crate) fn upload_room(plan: &RunPlan) -> usize {
    plan.layout.features_bytes().min(plan.slot_room().bytes)
}

/// Maximum bytes of a batch's rows, and of their places, that are copied next to those of a cache on the GPU: once on
/// the GPU, and for each slot in page-locked memory.
pub(super) fn spliced_room(plan: &RunPlan) -> usize {
    plan.slot_room().nodes.saturating_mul(plan.layout.table_row_bytes() + size_of::<i64>())
}

/// The bytes of a sum that the CPU begins, and of its own row.
pub(crate) fn begun_bytes(plan: &RunPlan) -> PartialSumBytes {
    let own = if plan.layout.aggregation().keeps_own_rows() { plan.layout.row_bytes() } else { 0 };
    PartialSumBytes { sum: plan.layout.dim() * size_of::<f32>(), own }
}

/// Maximum bytes of the CPU's partial sums of a batch, in page-locked memory and on the GPU, for each slot.
pub(crate) fn begun_room(plan: &RunPlan) -> usize {
    let bytes = begun_bytes(plan);
    bytes.room(upload_room(plan).div_ceil((bytes.sum + bytes.own).max(1)))
}
