//! Neighbour sampling on a GPU, from a graph in pinned host memory.
//!
//! [`CudaSampler`] makes the same batches as [`sampler`](crate::sampler()), bit for bit
//! (`docs/spec/reproducible-batches.md`), and returns the same errors. The lists of the first nodes may be cached in
//! device memory. All others are read in place, over the link, one neighbour at a time. A batch is sampled and
//! relabelled on the device without waiting for the host, and one small report is returned
//! (`docs/internals/kernels.md`).
//!
//! `uva-plan` determines which lists to cache.

mod arena;
mod batch_place;
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

pub use batch_place::{BatchPlace, BlockPlace};
pub use cuda_error::CudaSampleError;
pub use cuda_options::{CudaSamplerOptions, DeviceBytes};
pub use cuda_sampler::CudaSampler;
pub use device_batch::{CudaBatch, CudaBlock};
pub use source::{DatasetArray, GraphSource, PinnedArray};
