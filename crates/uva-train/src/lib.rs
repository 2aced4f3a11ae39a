//! GNN models over sampled blocks, their loss, their optimiser, and checkpoints of both.
//!
//! A [`Trainer`] takes one mini-batch at a time as borrowed memory (feature rows, labels and blocks as they lie in a
//! slot: [`BatchInput`] on the host, [`DeviceBatch`] on a CUDA device; of a hop set [`HopBatch`] and [`DeviceHopBatch`]) and trains on it there. Only data that needs
//! conversion is copied out of the slot. From a device, only a batch's loss and counts are copied back: at once, or with
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
mod batch;
mod block_kernel;
mod borrowed;
pub mod checkpoint;
pub mod cuda;
mod device;
mod device_input;
mod dispatcher;
mod dropout;
mod error;
mod evaluate;
mod evaluation;
mod full_layer;
mod full_pass;
mod full_table;
mod hop_batch;
mod hops;
mod host;
mod initial;
mod input;
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

pub use batch::Batch;
pub use device::TrainDevice;
pub use device_input::{DeviceBatch, DeviceBlock, DeviceEdgeRows, DeviceProof};
pub use error::TrainError;
pub use evaluation::Evaluation;
pub use full_layer::WholeGraph;
pub use full_table::Tables;
pub use hop_batch::{DeviceHopBatch, DeviceHopRows, HopBatch, HopRows};
pub use input::{BatchInput, BlockInput, EdgeRows};
pub use late::{ReadBatch, Reading};
pub use predict::{Answered, Questions, Take};
pub use trainer::{Confirm, Step, Trainer};
pub use wanted::Wanted;
