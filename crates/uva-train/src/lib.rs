//! GNN models over sampled blocks, their loss, their optimiser, and checkpoints of both.
//!
//! A [`Trainer`] takes one mini-batch at a time as borrowed memory: its arrays by column, as they lie in a slot in host
//! memory or on a CUDA device ([`uva_batch::BatchColumns`]). It trains on them there, and copies only data that needs
//! conversion. From a device, only a batch's loss and counts are copied back: at once, or with
//! [`Trainer::enqueue_batch`] while the host goes on.
//!
//! This crate must not know where a batch comes from: no rings, processes, samplers, signals or events. It reads a
//! dataset's tables only to evaluate and predict on full neighbourhoods ([`Trainer::evaluate_full`],
//! [`Trainer::predict_full`]), and it knows libtorch, which no other crate does. A program that trains on a CUDA device calls [`cuda::TorchCuda::load`] before anything else
//! here.
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

mod activation;
mod adam;
mod aggregate;
mod block_kernel;
mod borrowed;
mod check;
pub mod checkpoint;
pub mod cuda;
mod device;
mod dispatcher;
mod dropout;
mod error;
mod evaluate;
mod evaluation;
mod full_layer;
mod full_pass;
mod full_table;
mod hops;
mod host;
mod initial;
mod input_settings;
mod late;
mod layer;
#[doc(hidden)]
pub mod measured;
mod model;
mod predict;
mod prepared;
mod random;
mod rehearsal;
mod rowwise;
mod sums;
mod targets;
mod tensor_block;
mod trainer;
mod wanted;

#[cfg(test)]
mod tests;

pub use device::TrainDevice;
pub use error::TrainError;
pub use evaluation::Evaluation;
pub use full_layer::WholeGraph;
pub use full_table::Tables;
pub use late::{ReadBatch, Reading};
pub use predict::{Answered, Questions, Take};
pub use trainer::{Confirm, Step, Trainer};
pub use wanted::Wanted;
