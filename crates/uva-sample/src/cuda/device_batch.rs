//! A batch in device memory.

use uva_cuda::DeviceSlice;

/// The last batch, in device memory. It is complete: its sampler has waited for it.
#[derive(Clone, Debug)]
pub struct CudaBatch<'a> {
    /// int64 ids of all nodes, the seeds first.
    pub nodes: DeviceSlice<'a>,
    /// int32 in-degrees of these nodes, if the sampler's options request them.
    pub degrees: Option<DeviceSlice<'a>>,
    /// The blocks, from the seeds outward.
    pub blocks: Vec<CudaBlock<'a>>,
}

/// One block on the device.
#[derive(Clone, Copy, Debug)]
pub struct CudaBlock<'a> {
    /// int32, one offset per destination and one more.
    pub indptr: DeviceSlice<'a>,
    /// int32, the local id of each pick.
    pub indices: DeviceSlice<'a>,
    /// int64, the position of each pick in the dataset's `indices.npy`, if the sampler's options request them.
    pub edge_ids: Option<DeviceSlice<'a>>,
}
