//! Classes: their weights in a loss, and the counts of an evaluation.

pub(crate) mod class_counts;
pub(crate) mod class_weights;
