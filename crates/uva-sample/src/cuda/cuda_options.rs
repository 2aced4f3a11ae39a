//! The options of a sampler on a GPU, and its device memory.

use crate::{BatchBounds, SamplerOptions};
use uva_cuda::kernels::gather::GridBound;

/// The options of a [`CudaSampler`](crate::cuda::CudaSampler).
#[derive(Clone, Debug)]
pub struct CudaSamplerOptions<'a> {
    /// The options that determine the batches.
    pub sampler: SamplerOptions,
    /// The maximum size of a batch, for which device memory is allocated.
    pub bounds: BatchBounds,
    /// The lists of nodes `0..cached_lists` are copied to device memory.
    pub cached_lists: usize,
    /// Whether their weights are copied too, if picks are by weight.
    pub cached_weights: bool,
    /// Whether the start of each list in the dataset is copied too, which leads to its edge ids. Used only if edge ids
    /// are requested and the graph is the dataset's in another order. Otherwise a position is its edge id.
    pub cached_edge_ids: bool,
    /// The original id of each node, if the graph has been reordered: the key of random words and hashes.
    pub original_ids: Option<&'a [i64]>,
    /// The id of each node in finished batches, if it differs. Seeds are still given as nodes of the sampled graph. If
    /// it is the same slice as `original_ids`, the device holds it once.
    pub dataset_ids: Option<&'a [i64]>,
    /// Whether to return the in-degree of each of a batch's nodes too.
    pub degrees: bool,
    /// These in-degrees by the dataset's ids, if its lists are truncated ([`Csc::degrees`](uva_graph::Csc::degrees)).
    /// Otherwise they are the lengths of the lists.
    pub whole_degrees: Option<&'a [i32]>,
    /// The maximum number of blocks of a launch.
    pub grid: GridBound,
    /// Whether it allocates device memory for its own batch. Otherwise it samples only [to given
    /// memory](crate::cuda::CudaSampler::sample_to).
    pub own_batch: bool,
}

impl CudaSamplerOptions<'_> {
    /// Options with nothing cached, every node under its own id, no degrees, and the whole device.
    pub fn new(sampler: SamplerOptions, bounds: BatchBounds) -> Self {
        Self {
            sampler,
            bounds,
            cached_lists: 0,
            cached_weights: false,
            cached_edge_ids: false,
            original_ids: None,
            dataset_ids: None,
            degrees: false,
            whole_degrees: None,
            grid: GridBound::Device,
            own_batch: true,
        }
    }
}

/// Bytes of device memory that a sampler has allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceBytes {
    /// The cached lists: 8 bytes per list, 8 more with edge ids; and for each entry its id, and 4 more bytes with
    /// weights.
    pub lists: usize,
    /// Original ids and the dataset's ids: 4 bytes per node each (8 if they do not fit), once if they are the same.
    /// In-degrees in the whole graph, if requested: 4 bytes per node.
    pub names: usize,
    /// The map from nodes to local ids: 8 bytes per node.
    pub local_ids: usize,
    /// The batch and scratch.
    pub batch: usize,
}
