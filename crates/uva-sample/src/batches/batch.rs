//! A mini-batch: its memory, and views of it.
//!
//! `nodes` holds dataset-internal ids: the seeds first, then every other node in the order of its first pick. Layer 0
//! is the hop at the seeds. The sources of a layer are the first `sources` of `nodes`, its destinations the first
//! `destinations`. The destinations of layer `l + 1` are the sources of layer `l`. A block is in CSC form over local
//! ids (positions in `nodes`): the picks of destination `d` are `indices[indptr[d]..indptr[d + 1]]`.

use std::ops::AddAssign;

use crate::{BatchBounds, MAX_LAYERS};

/// Memory for a batch, provided by the caller. After sampling, its content beyond the counts is unspecified.
pub struct BatchMut<'a> {
    /// Room for the node ids.
    pub nodes: &'a mut [i64],
    /// Room for the blocks, one per fanout.
    pub layers: &'a mut [BlockMut<'a>],
}

/// Memory for one block.
#[derive(Default)]
pub struct BlockMut<'a> {
    /// Room for `destinations + 1` offsets.
    pub indptr: &'a mut [i32],
    /// Room for the local ids of `edges` picks.
    pub indices: &'a mut [i32],
    /// Room for as many edge ids, if [`SamplerOptions::edge_ids`](crate::SamplerOptions::edge_ids) requests them.
    pub edge_ids: &'a mut [i64],
    /// Room for as many weights, if the kind of sampler [weighs edges](crate::SamplerKind::weighs_edges).
    pub weights: &'a mut [f32],
}

impl BlockMut<'_> {
    /// The block of these counts in this memory.
    pub(crate) fn used(&self, counts: &LayerCounts) -> BlockRef<'_> {
        let LayerCounts { destinations, sources, edges } = *counts;
        let (indptr, indices) = (&self.indptr[..=destinations], &self.indices[..edges]);
        let (edge_ids, weights) = (used(self.edge_ids, edges), used(self.weights, edges));
        BlockRef { destinations, sources, indptr, indices, edge_ids, weights }
    }
}

/// The edge ids or weights of a block with this many edges; none if there is no room for them.
fn used<T>(of_edges: &[T], edges: usize) -> &[T] {
    of_edges.get(..edges).unwrap_or_default()
}

/// The used sizes of a batch's memory, and the batch's hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchCounts {
    /// Seeds: the first of the nodes.
    pub seeds: usize,
    /// All nodes, seeds included.
    pub nodes: usize,
    /// One entry per layer; the first `layer_count` are valid.
    pub layers: [LayerCounts; MAX_LAYERS],
    /// Layers in the batch.
    pub layer_count: usize,
    /// The batch's hash: see [`batch_hash`](crate::batch_hash).
    pub hash: u64,
    /// Entries of the graph that were read.
    pub list_reads: ListReads,
}

/// Reads of lists, visit by visit ([`VisitReads`](crate::VisitReads)): of bounds and picks, and of weights if picks are
/// by weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListReads {
    /// All reads.
    pub all: u64,
    /// Reads of cached lists ([`GraphView::cached_lists`](crate::GraphView::cached_lists)), of their weights only if these
    /// are cached too.
    pub cached: u64,
}

impl AddAssign for ListReads {
    fn add_assign(&mut self, other: Self) {
        self.all += other.all;
        self.cached += other.cached;
    }
}

impl BatchCounts {
    /// The counts of each layer, from the seeds outward.
    #[must_use]
    pub fn layers(&self) -> &[LayerCounts] {
        &self.layers[..self.layer_count]
    }

    /// Edges of all layers.
    #[must_use]
    pub fn edges(&self) -> usize {
        self.layers().iter().map(|layer| layer.edges).sum()
    }
}

/// The size of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerCounts {
    /// Nodes that aggregate (destinations): the first of the batch's nodes.
    pub destinations: usize,
    /// Sources, destinations included.
    pub sources: usize,
    /// Picks.
    pub edges: usize,
}

/// One block, for reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockRef<'a> {
    /// Nodes that aggregate (destinations).
    pub destinations: usize,
    /// Sources, destinations included; every local id is below it.
    pub sources: usize,
    /// `destinations + 1` offsets into `indices`, the first 0.
    pub indptr: &'a [i32],
    /// Local ids of the picks.
    pub indices: &'a [i32],
    /// The position of each pick in the dataset's `indices.npy`; empty unless requested
    /// ([`SamplerOptions::edge_ids`](crate::SamplerOptions::edge_ids)).
    pub edge_ids: &'a [i64],
    /// The weight of each pick. The sum over a destination's picks of weight times row estimates the mean over its
    /// complete list. For kinds that do not [pick in lists](crate::SamplerKind::picks_in_lists) it is the mean over the
    /// nodes found. Empty if the kind [weighs no edges](crate::SamplerKind::weighs_edges): the plain mean of the picks
    /// is then the estimate.
    pub weights: &'a [f32],
}

/// A batch that owns its memory, for library users, tests and benches.
pub struct MiniBatch {
    nodes: Vec<i64>,
    layers: Vec<BlockBuffers>,
    counts: BatchCounts,
}

struct BlockBuffers {
    indptr: Vec<i32>,
    indices: Vec<i32>,
    edge_ids: Vec<i64>,
    weights: Vec<f32>,
}

impl MiniBatch {
    /// An empty batch with capacity for any batch within `bounds`. The system allocates the pages on first touch.
    #[must_use]
    pub fn with_bounds(bounds: &BatchBounds) -> Self {
        let layers = bounds.layers.iter().map(|layer| BlockBuffers {
            indptr: vec![0; layer.destinations + 1],
            indices: vec![0; layer.edges],
            edge_ids: vec![0; if bounds.edge_ids { layer.edges } else { 0 }],
            weights: vec![0.0; if bounds.weights { layer.edges } else { 0 }],
        });
        Self { nodes: vec![0; bounds.nodes], layers: layers.collect(), counts: BatchCounts::default() }
    }

    /// Passes the memory to `fill`, whose counts then describe the batch. After an error the batch is empty.
    ///
    /// # Errors
    /// Errors of `fill`.
    ///
    /// # Panics
    /// Later calls panic if the counts exceed the memory.
    pub fn fill<E>(
        &mut self,
        fill: impl FnOnce(&mut BatchMut<'_>) -> Result<BatchCounts, E>,
    ) -> Result<BatchCounts, E> {
        self.counts = BatchCounts::default();
        let layers = self.layers.len().min(MAX_LAYERS);
        let mut buffers = self.layers.iter_mut();
        let mut blocks: [BlockMut<'_>; MAX_LAYERS] = std::array::from_fn(|_| match buffers.next() {
            Some(BlockBuffers { indptr, indices, edge_ids, weights }) => {
                BlockMut { indptr, indices, edge_ids, weights }
            }
            None => BlockMut::default(),
        });
        self.counts = fill(&mut BatchMut { nodes: &mut self.nodes, layers: &mut blocks[..layers] })?;
        Ok(self.counts)
    }

    /// Ids of all nodes, the seeds first.
    #[must_use]
    pub fn nodes(&self) -> &[i64] {
        &self.nodes[..self.counts.nodes]
    }

    /// Ids of the seeds.
    #[must_use]
    pub fn seeds(&self) -> &[i64] {
        &self.nodes[..self.counts.seeds]
    }

    /// The block of one layer, 0 being the one at the seeds; `None` if the batch has no such layer.
    #[must_use]
    pub fn block(&self, layer: usize) -> Option<BlockRef<'_>> {
        let counts = self.counts.layers().get(layer)?;
        let buffers = self.layers.get(layer)?;
        Some(BlockRef {
            destinations: counts.destinations,
            sources: counts.sources,
            indptr: &buffers.indptr[..=counts.destinations],
            indices: &buffers.indices[..counts.edges],
            edge_ids: used(&buffers.edge_ids, counts.edges),
            weights: used(&buffers.weights, counts.edges),
        })
    }

    /// All blocks, from the seeds outward.
    pub fn blocks(&self) -> impl Iterator<Item = BlockRef<'_>> {
        (0..self.counts.layer_count).map_while(|layer| self.block(layer))
    }

    /// The used sizes.
    #[must_use]
    pub fn counts(&self) -> &BatchCounts {
        &self.counts
    }

    /// The batch's hash.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.counts.hash
    }
}
