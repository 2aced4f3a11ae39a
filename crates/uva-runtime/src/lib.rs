//! Mini-batches for GNN training, prepared ahead of their use: samplers → batch slots → producer → feature slots → consumer.
//!
//! ```no_run
//! use uva_runtime::{Labels, Runtime};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut runtime = Runtime::builder("data/graph").fanouts([15, 10]).batch_size(1024).epochs(1).build()?;
//! while let Some(batch) = runtime.next_batch()? {
//!     let x = batch.features_f32()?; // one row for each of batch.input_nodes()
//!     let hop = batch.block(0); // the hop at the seeds, as CSC
//!     let Labels::Single(labels) = batch.labels() else { continue };
//!     println!("{} seeds, {} rows of {}, {} edges", labels.len(), x.iter().len(), x.dim(), hop.indices.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! **A tour.** [`Runtime::builder`] takes the options by name; [`LoaderOptions`] lists them all. [`Runtime`] runs
//! samplers and producer as threads and returns each [`Batch`], which owns its slot until it is dropped. Methods read
//! the batch's columns (`input_nodes`, `labels`, `block`, `features_f32`), or [`BatchView::column`] by name.
//! [`consumer::BatchStream`] serves a loop that picks its own passes. [`planning`] measures what to cache and where to
//! sample. `uva-launch` runs the same roles as processes, and joins such a run; there, a batch has the same bytes.
//!
//! | module | holds |
//! |---|---|
//! | [`options`], [`part`], [`schedule`], [`plan`] | the options, who has which batch, the sequence numbers of batches, the memory they need |
//! | [`hop_options`] | in which order epochs visit the rows of a hop set, and where these lie |
//! | [`input_nodes`] | nodes that a user gives in place of a split |
//! | [`seed_order`], [`order_making`] | the order of the training seeds, where that follows the graph |
//! | [`batch`] | a batch and its slot; columns and layout are `uva-batch`'s |
//! | [`backend`], [`device`] | where rows are gathered and batches used; feature slots on a GPU |
//! | [`ranks`] | the other ranks, where the feature table is divided among them |
//! | [`cache`] | cached lists and rows, as the roles use them |
//! | [`roles`] | sampler, producer and the receiving end of the consumer |
//! | [`pipeline`] | the roles as threads: the library's front end |
//! | [`measurement`] | gathers timed at the first start on a GPU: what `auto` options choose by |
//! | [`planning`] | what to cache and where to sample: measured before a run |
//! | [`consumer`] | batches for a consumer that chooses its passes |
//! | [`metrics`], [`trace`], [`gauges`] | telemetry: lines, a timeline, live counts of a run |
//! | [`topology`], [`wiring`] | which stages a run has and where they are; connecting those of one process |
//! | [`clock`] | the clock of all processes of a run |
//! | [`rows`] | where the rows of batches come from: the tree of a run |
//! | [`machine`], [`memory`] | limits of the machine, memory of a process and of a run |
//!
//! What it must not know: command lines, terminals and other processes. `uva-launch` starts those.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod aggregate_counts;
pub mod backend;
pub mod batch;
pub mod cache;
mod cache_counts;
mod checked_files;
pub mod clock;
pub mod consumer;
pub mod control;
pub mod cores;
pub mod device;
mod disk_counts;
pub mod dry_run;
mod error;
mod feature_choice;
pub mod first_layer;
pub mod gauges;
mod hop_files;
pub mod hop_options;
mod hop_rows;
pub mod input_nodes;
mod lane;
mod look_ahead;
pub mod machine;
pub mod measurement;
pub mod memory;
pub mod metrics;
pub mod options;
pub mod order_making;
pub mod part;
mod peer;
pub mod pin_cores;
pub mod pipeline;
pub mod plan;
pub mod planning;
mod presample;
pub mod ranks;
mod reader;
mod role_times;
pub mod roles;
pub mod rows;
mod sampler_turns;
pub mod schedule;
pub mod seed_order;
mod stage;
mod steps;
mod sums;
mod sums_chooser;
mod sums_climb;
mod sums_share;
mod sums_trial;
pub mod topology;
pub mod trace;
mod widening;
pub mod wiring;

pub use aggregate_counts::{AggregateAmounts, AggregateCounts, AggregateTotals, SumsMade};
pub use batch::Batch;
pub use checked_files::CheckedFiles;
pub use disk_counts::{DiskCounts, DiskTotals};
pub use error::{RuntimeError, signal_name};
pub use feature_choice::{FeatureChoice, gather_by_cpu};
pub use hop_files::HopFiles;
pub use input_nodes::InputNodes;
pub use look_ahead::LookAhead;
pub use options::{Cursor, LoaderOptions, Passes};
pub use pipeline::{Runtime, RuntimeBuilder};
pub use reader::{Features, Reader};
pub use rows::RowTree;
pub use sums::{Obstacle, is_summed, obstacle_in_table};
pub use sums_chooser::SumsChoice;
pub use sums_share::SumsShare;
pub use sums_trial::Windows;
pub use uva_batch::{
    Aggregation, BatchView, Column, ColumnError, ColumnRef, FeatureRows, FeatureType, SlotRoom, StaticShapes,
};
pub use uva_graph::{Dataset, ElementType, FeatureTable, Labels, Split};
pub use uva_options as spec;
pub use uva_sample::{BatchKey, BlockRef, Expand, Fanouts, LayerCounts, SamplerKind, Walks};
