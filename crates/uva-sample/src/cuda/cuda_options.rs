//! The options of a sampler on a GPU, and the device memory that it takes.

use crate::{BatchBounds, SamplerOptions};
use uva_cuda::kernels::gather::GridBound;

/// The options of a [`CudaSampler`](crate::cuda::CudaSampler).
#[derive(Clone, Debug)]
pub struct CudaSamplerOptions<'a> {
    /// The options that decide the batches.
    pub sampler: SamplerOptions,
    /// The most that a batch may hold: device memory is taken for all of it.
    pub bounds: BatchBounds,
    /// The lists of nodes `0..cached_lists` are copied to device memory.
    pub cached_lists: usize,
    /// The original id of each node if the graph has been reordered: the key of random words and hashes.
    pub original_ids: Option<&'a [i64]>,
    /// The id that each node goes by in finished batches, where that is another one. Seeds are still given as nodes of
    /// the graph sampled. If it is the slice that `original_ids` is, the device holds it once.
    pub dataset_ids: Option<&'a [i64]>,
    /// Whether the in-degree of each of a batch's nodes is wanted too.
    pub degrees: bool,
    /// How many blocks a launch may have at once.
    pub grid: GridBound,
}

impl CudaSamplerOptions<'_> {
    /// Nothing cached, every node under its own id, no degrees, all of the device.
    pub fn new(sampler: SamplerOptions, bounds: BatchBounds) -> Self {
        Self {
            sampler,
            bounds,
            cached_lists: 0,
            original_ids: None,
            dataset_ids: None,
            degrees: false,
            grid: GridBound::Device,
        }
    }
}

/// Bytes of device memory that a sampler has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceBytes {
    /// The cached lists: 8 a list and 8 more, and its ids.
    pub lists: usize,
    /// Original ids and the dataset's ids: 4 a node each (8 where they do not fit), once where they are the same.
    pub names: usize,
    /// The map from nodes to local ids: 8 a node.
    pub local_ids: usize,
    /// The batch and scratch.
    pub batch: usize,
}
