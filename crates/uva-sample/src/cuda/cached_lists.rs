//! The adjacency cache.

use crate::SampleError;
use uva_cuda::Stream;
use uva_cuda::memory::DeviceBuffer;

use crate::cuda::cuda_error::CudaSampleError;
use crate::cuda::source::GraphSource;
use crate::cuda::upload::copy_of;

/// The lists of the first nodes in device memory.
#[derive(Debug)]
pub(crate) struct CachedLists {
    pub(crate) indptr: DeviceBuffer,
    pub(crate) indices: DeviceBuffer,
    pub(crate) lists: usize,
    pub(crate) edges: usize,
}

impl CachedLists {
    /// Copies the lists of the first nodes to the device.
    pub(crate) fn new(stream: &Stream, graph: &GraphSource, lists: usize) -> Result<Self, CudaSampleError> {
        let csc = graph.csc();
        let end = csc.indptr[lists];
        let Some(edges) = usize::try_from(end).ok().filter(|&edges| edges <= csc.edges()) else {
            let (node, begin) = (lists as i64 - 1, csc.indptr[lists - 1]);
            return Err(SampleError::InvalidList { node, begin, end, edges: csc.edges() }.into());
        };
        let (indptr, indices) = (graph.indptr().host(), graph.indices().host());
        let ids = &indices[..edges * csc.indices.id_bytes()];
        Ok(Self {
            indptr: copy_of(stream, &indptr[..(lists + 1) * 8], "the places of the cached lists")?,
            indices: copy_of(stream, ids, "the cached adjacency lists")?,
            lists,
            edges,
        })
    }
}
