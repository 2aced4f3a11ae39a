//! The adjacency cache.

use crate::SampleError;
use uva_cuda::CudaStream;
use uva_cuda::memory::DeviceBuffer;

use crate::cuda::cuda_error::CudaSampleError;
use crate::cuda::cuda_options::CudaSamplerOptions;
use crate::cuda::source::{GraphSource, PinnedArray};
use crate::cuda::upload::{copy_of, upload};

/// Bytes of a weight.
const WEIGHT: usize = size_of::<f32>();

/// The lists of the first nodes in device memory.
#[derive(Debug)]
pub(crate) struct CachedLists {
    /// The start of each list. The last list ends at `edges`.
    pub(crate) indptr: DeviceBuffer,
    pub(crate) indices: DeviceBuffer,
    /// The weights of the entries, in the entries' order.
    pub(crate) weights: Option<DeviceBuffer>,
    /// The start of each list in the dataset's indices.
    pub(crate) homes: Option<DeviceBuffer>,
    pub(crate) lists: usize,
    pub(crate) edges: usize,
}

impl CachedLists {
    /// Copies the lists of the first `lists` nodes, at least one, to the device, with the arrays that these options
    /// request and cache.
    pub(crate) fn new(
        stream: &CudaStream,
        graph: &GraphSource,
        lists: usize,
        options: &CudaSamplerOptions<'_>,
    ) -> Result<Self, CudaSampleError> {
        let csc = graph.csc();
        let end = csc.indptr[lists];
        let Some(edges) = usize::try_from(end).ok().filter(|&edges| edges <= csc.edges()) else {
            let (node, begin) = (lists as i64 - 1, csc.indptr[lists - 1]);
            return Err(SampleError::InvalidList { node, begin, end, edges: csc.edges() }.into());
        };
        let (indptr, indices) = (graph.indptr().host(), graph.indices().host());
        let ids = &indices[..edges * csc.indices.id_bytes()];
        let homes =
            graph.home().zip(options.dataset_ids).map(|(indptr, ids)| homes_of(indptr, &ids[..lists]));
        let weights =
            graph.weights().filter(|_| options.cached_weights && options.sampler.kind.needs_weights());
        let weights = match weights {
            Some(weights) => Some(weights_of(stream, graph, weights, lists, homes.as_deref())?),
            None => None,
        };
        let homes = homes.filter(|_| options.cached_edge_ids && options.sampler.edge_ids);
        let homes = homes.map(|homes| {
            copy_of(stream, bytemuck::cast_slice(&homes), "the places of the cached lists in the dataset")
        });
        Ok(Self {
            indptr: copy_of(stream, &indptr[..lists * 8], "the places of the cached lists")?,
            indices: copy_of(stream, ids, "the cached adjacency lists")?,
            weights,
            homes: homes.transpose()?,
            lists,
            edges,
        })
    }

    /// Device memory of all arrays.
    pub(crate) fn bytes(&self) -> usize {
        let more = [&self.weights, &self.homes].map(|array| array.as_ref().map_or(0, DeviceBuffer::bytes));
        self.indptr.bytes() + self.indices.bytes() + more.iter().sum::<usize>()
    }
}

/// The start of each of these nodes' lists in the dataset's indices; −1 for a node that the dataset lacks.
fn homes_of(indptr: &PinnedArray, nodes: &[i64]) -> Vec<i64> {
    let indptr: &[i64] = bytemuck::cast_slice(indptr.host());
    let home =
        |&node: &i64| usize::try_from(node).ok().and_then(|node| indptr.get(node)).copied().unwrap_or(-1);
    nodes.iter().map(home).collect()
}

/// Copies the weights of the first `lists` lists to the device, in the order of the graph's own indices. `homes` are
/// the lists' places in the dataset, if they differ.
fn weights_of(
    stream: &CudaStream,
    graph: &GraphSource,
    weights: &PinnedArray,
    lists: usize,
    homes: Option<&[i64]>,
) -> Result<DeviceBuffer, CudaSampleError> {
    let csc = graph.csc();
    let weights = weights.host();
    // Bytes of each list in this graph, and of its weights in the dataset. Kernels do not look up the place of a list
    // whose weights are cached, so all are checked here.
    let mut places = Vec::with_capacity(lists);
    let mut behind = 0;
    for node in 0..lists {
        let (begin, end) = (csc.indptr[node], csc.indptr[node + 1]);
        let invalid =
            |begin, end| SampleError::InvalidList { node: node as i64, begin, end, edges: csc.edges() };
        let degree = usize::try_from(end).ok().filter(|&end| begin == behind && end <= csc.edges());
        let degree =
            degree.and_then(|end| end.checked_sub(begin as usize)).ok_or_else(|| invalid(begin, end))?;
        behind = end;
        let home = homes.map_or(begin, |homes| homes[node]);
        let home_end = usize::try_from(home).ok().and_then(|home| home.checked_add(degree));
        if home_end.is_none_or(|home_end| home_end > csc.edges()) {
            return Err(invalid(home, home.saturating_add(degree as i64)).into());
        }
        places.push((end as usize * WEIGHT, home as usize * WEIGHT));
    }
    let mut places = places.into_iter();
    // The end of the current list in this graph, and the next bytes of the dataset.
    let (mut end, mut from) = (0, 0);
    let copied = upload(stream, behind as usize * WEIGHT, "the weights of the cached lists", |begin, to| {
        let mut done = 0;
        while done < to.len() {
            if begin + done == end {
                let Some(next) = places.next() else { return };
                (end, from) = next;
                continue;
            }
            let count = (end - begin - done).min(to.len() - done);
            to[done..done + count].copy_from_slice(&weights[from..from + count]);
            done += count;
            from += count;
        }
    });
    Ok(copied?)
}
