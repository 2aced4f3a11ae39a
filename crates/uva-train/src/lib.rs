//! GNN models over sampled blocks, their loss, their optimiser, and checkpoints of both.
//!
//! A [`Trainer`] takes one mini-batch at a time as borrowed memory ([`BatchInput`]: feature rows, labels and blocks
//! as they lie in a slot) and trains on it. Nothing is copied out of the slot that does not have to be converted.
//!
//! This crate must not know where a batch comes from: no rings, processes, samplers or signals. It reads a dataset's
//! tables only to evaluate on full neighbourhoods ([`Trainer::evaluate_full`]), and it knows libtorch, which no
//! other crate does.
//!
//! # Repeatable runs
//!
//! On the CPU the losses of a run are equal bit for bit when the options, the batches and the number of threads are:
//! parameters come from a generator of this crate, libtorch's own generator (dropout) is seeded from (seed, epoch,
//! batch) before each batch, and every operation used sums in a fixed order for a given number of threads. MKL adds
//! two conditions that belong to whoever starts the process: `MKL_CBWR` and `MKL_DYNAMIC=FALSE` set before libtorch
//! is loaded, and feature rows that start on 64-byte boundaries.

#![deny(unsafe_code)]

mod adam;
mod aggregate;
mod borrowed;
pub mod checkpoint;
pub mod cuda;
mod device;
mod device_input;
mod durable;
mod error;
mod evaluate;
mod input;
mod layer;
mod model;
mod options;
mod prepared;
mod random;
mod tensor_block;
mod trainer;

#[cfg(test)]
mod tests;

pub use checkpoint::{Checkpoint, CheckpointError};
pub use device::TrainDevice;
pub use device_input::{DeviceBatch, DeviceBlock};
pub use error::TrainError;
pub use evaluate::Evaluation;
pub use input::{Batch, BatchInput, BlockInput};
pub use options::{FeatureNorm, ModelKind, TrainerOptions};
pub use trainer::{Confirm, Step, Trainer};
