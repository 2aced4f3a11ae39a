//! GNN models over sampled blocks, their loss, their optimiser, and checkpoints of both.
//!
//! A [`Trainer`] takes one mini-batch at a time as borrowed memory: its arrays by column, as stored in a slot in host
//! memory or on a CUDA device ([`uva_batch::BatchColumns`]). It trains on them in place, and copies only data that
//! needs conversion. From a device, only a batch's loss and counts are copied back: at once, or with
//! [`Trainer::enqueue_batch`] while the host continues.
//!
//! This crate must not depend on the source of a batch: no rings, processes, samplers, signals or events. It reads a
//! dataset's tables only to evaluate and predict on full neighbourhoods ([`Trainer::evaluate_full`],
//! [`Trainer::predict_full`]). It is the only crate that depends on libtorch. A program that trains on a CUDA device
//! calls [`cuda::TorchCuda::load`] before anything else here.
//!
//! # Repeatable runs
//!
//! On the CPU, equal options, batches and number of threads give equal losses, bit for bit. Parameters and dropout come
//! from generators of this crate; that of dropout is seeded from (seed, epoch, batch) before each batch. Every
//! operation used sums in a fixed order for a given number of threads. MKL adds two conditions, which the program that
//! starts the process must meet: `MKL_CBWR` and `MKL_DYNAMIC=FALSE` are set before libtorch is loaded, and feature rows
//! start on 64-byte boundaries.
//!
//! On a CUDA device parameters and dropout are drawn from the same seeds. But matrix products and losses may differ in
//! their last bits from run to run and from the CPU's.

#![deny(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod block;
pub mod cuda;
mod error;
mod graph;
mod hops;
mod input;
mod layer;
mod model;
mod nn;
mod step;
mod torch;
mod train;
mod whole;

#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use block::measured;
pub use error::TrainError;
pub use graph::full_table::Tables;
pub use graph::whole_data::{WholeData, WholeType};
pub use graph::whole_graph::WholeGraph;
pub use input::evaluation::Evaluation;
pub use torch::device::TrainDevice;
pub use train::checkpoint;
pub use train::late::{ReadBatch, Reading};
pub use train::trainer::{Confirm, Step, Trainer};
pub use whole::predict::{Answered, Questions, Take};
pub use whole::wanted::Wanted;
