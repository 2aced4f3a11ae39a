//! Neighbour sampling on a GPU, out of a graph in pinned host memory.
//!
//! [`CudaSampler`] makes the batches that [`sampler`](crate::sampler()) makes, bit for bit
//! (`docs/reproducible-batches.md`), and returns the same errors. The lists of the first nodes may be cached in device
//! memory. All others are read where they are, through the link, a neighbour at a time. A batch is sampled and relabelled
//! on the device without a wait for the host, and one small report comes back (`docs/kernels.md`).
//!
//! Which lists are worth caching is decided elsewhere (`uva-plan`).

mod arena;
mod cached_lists;
mod cuda_error;
mod cuda_options;
mod cuda_sampler;
mod device_batch;
mod failure;
mod layout;
mod names;
mod source;
mod upload;

pub use cuda_error::CudaSampleError;
pub use cuda_options::{CudaSamplerOptions, DeviceBytes};
pub use cuda_sampler::CudaSampler;
pub use device_batch::{DeviceBatch, DeviceBlock};
pub use source::{DatasetArray, GraphSource, PinnedArray};
