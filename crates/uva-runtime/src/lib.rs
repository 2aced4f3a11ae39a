//! Mini-batches for GNN training, prepared ahead of their use: samplers → batch slots → producer → feature slots →
//! consumer.
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
//! [`pipeline::consumer::BatchStream`] serves a loop that picks its own passes. [`tune::planning`] measures what to
//! cache and where to sample. `uva-launch` runs the same roles as processes, and joins such a run; there, a batch has
//! the same bytes.
//!
//! Rooms, from the bottom up:
//!
//! | module | holds |
//! |---|---|
//! | [`machine`] | limits of the machine, cores, the clock, memory |
//! | [`backend`] | the place where rows are gathered and batches used, as requested and as this machine allows |
//! | [`options`] | the options, and what follows from them: the ranks and the order of batches |
//! | [`control`] | the page that the processes of a run share, and their counts |
//! | [`sampler`] | graph, engine and cached lists of a sampler; the order of seeds |
//! | [`plan`] | options made concrete for a dataset: layout, rings, stages |
//! | [`feed`] | batches and their rows, on the host and on a GPU |
//! | [`tune`] | the measurements that determine choices of a run |
//! | [`telemetry`] | metrics, a timeline, live counts |
//! | [`pipeline`] | the stages at work; [`Runtime`] |
//!
//! This crate must not know command lines, terminals and other processes. `uva-launch` starts those.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod backend;
pub mod control;
mod error;
pub mod feed;
pub mod machine;
pub mod options;
pub mod pipeline;
pub mod plan;
pub mod sampler;
pub mod telemetry;
pub mod tune;

pub use backend::obstacle::{Obstacle, is_summed, obstacle_in_table};
pub use control::aggregate_counts::{AggregateAmounts, AggregateCounts, AggregateTotals, SumsMade};
pub use control::disk_counts::{DiskCounts, DiskTotals};
pub use error::{ErrorContext, RuntimeError, signal_name};
pub use feed::batch::Batch;
pub use feed::rows::RowTree;
pub use options::checked_files::CheckedFiles;
pub use options::hop_files::OpenHopFiles;
pub use options::input_nodes::{InputNodes, InputSeeds};
pub use options::look_ahead::LookAhead;
pub use options::reader::{DiskReader, Features, HostPages};
pub use options::{Cursor, LoaderOptions, Passes};
pub use pipeline::{Runtime, RuntimeBuilder};
pub use plan::feature_choice::{FeatureChoice, gather_by_cpu};
pub use plan::page_choice::PageChoice;
pub use tune::sums_chooser::SumsChoice;
pub use tune::sums_share::SumsShare;
pub use tune::sums_trial::Windows;
pub use uva_batch::{
    Aggregation, BatchView, Column, ColumnError, ColumnRef, FeatureRows, FeatureType, SlotRoom, StaticShapes,
};
pub use uva_graph::{Dataset, ElementType, FeatureTable, Labels, Split};
pub use uva_options as spec;
pub use uva_sample::{BatchKey, BlockRef, BlockSize, Expand, FanoutSpec, Fanouts, SamplerKind, Walks};
