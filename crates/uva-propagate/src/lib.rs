//! Features multiplied by graph operators, and stored: *hop sets*, which models are trained on without the graph.
//!
//! [`propagate`] computes `B^r X` for operators `B` and hops `r`, and keeps the rows of the splits. Columns of features
//! do not depend on each other, so it processes a *panel*, as many columns as memory holds, through all hops, and then
//! the next. A journal next to the result records the finished work, from which an interrupted run resumes. The bytes
//! of the result do not depend on threads, memory or interruptions. [`HopSet`] opens and checks a result.
//!
//! This crate must not depend on models, batches, processes, or any GPU. `uva-ops` implements the sums, `uva-graph` the
//! datasets.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod checks;
mod estimate;
mod hop_set;
mod hop_sets;
mod operator;
mod options;
mod panel;
mod product;
mod resumption;
mod row_nodes;
mod run;

pub use estimate::Estimate;
pub use hop_sets::description::{AppliedOperator, FileFacts, HopSet, SourceDataset, TrainingOrder};
pub use operator::{OPERATORS, Operator, parse_operators};
pub use options::{HopType, KeptNodes, Layout, MOST_HOPS, MOST_OPERATORS, PropagateOptions, RowOrder};
pub use resumption::lock::folder_of;
pub use run::{FinishedHopSet, PropagateOutcome, PropagateProgress, PropagateWatch, propagate};
