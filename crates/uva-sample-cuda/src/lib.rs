//! Neighbour sampling on a GPU, out of a graph in pinned host memory.
//!
//! [`CudaSampler`] makes the batches that [`uva_sample::sampler`] makes, bit for bit (`docs/reproducible-batches.md`),
//! and says the same where a batch cannot be. The lists of the first nodes may be cached in device memory; all others
//! are read where they are, through the link, a neighbour at a time. A batch is sampled and relabelled on the device
//! without a wait for the host, and one small report comes back (`docs/kernels.md`).
//!
//! What this crate must not know: processes, slots and how a batch travels; features, labels and what is computed from
//! them; which lists are worth caching.

#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod arena;
mod batch;
mod cache;
mod error;
mod failure;
mod layout;
mod names;
mod options;
mod sampler;
mod source;
mod upload;

pub use batch::{DeviceBatch, DeviceBlock};
pub use error::CudaSampleError;
pub use options::{CudaSamplerOptions, DeviceBytes};
pub use sampler::CudaSampler;
pub use source::{DatasetArray, GraphSource, PinnedArray};
