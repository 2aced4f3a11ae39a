//! A mini-batch: its memory, and views of it.
//!
//! The `nodes` of a type are dataset-internal ids: the seeds first, then every other node in the order of its first
//! pick. Layer 0 is the hop at the seeds. A layer has a block for each relation, whose sources are the first `sources`
//! nodes of the relation's source type, and its destinations the first `destinations` of its destination type. The
//! destinations of layer `l + 1` are the sources of layer `l`. A block is in CSC form over local ids (positions in
//! `nodes`): the picks of destination `d` are `indices[indptr[d]..indptr[d + 1]]`.
//!
//! A homogeneous graph has one type and one relation. Methods that name no type or relation are those of the first.

use std::ops::AddAssign;

use smallvec::SmallVec;
use uva_graph::{NodeType, Relation};

use super::bounds::BatchBounds;
use super::sizes::{BlockSize, TypeSize};
use crate::MAX_LAYERS;

/// Memory for a batch, provided by the caller. After sampling, its content beyond the counts is unspecified.
pub struct BatchMut<'b, 'a> {
    /// Room for the node ids of each type.
    pub nodes: &'b mut [&'a mut [i64]],
    /// Room for the blocks: layer by layer, in each a block for each relation.
    pub blocks: &'b mut [BlockMut<'a>],
    /// Room for the tree of each node of each type, as long as that for its nodes; empty if it is not read.
    pub trees: &'b mut [&'a mut [i32]],
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
    /// The block of this size in this memory.
    pub(crate) fn used(&self, size: &BlockSize) -> BlockRef<'_> {
        let BlockSize { destinations, sources, edges } = *size;
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchCounts {
    /// Seeds and nodes of each type.
    types: SmallVec<[TypeSize; 1]>,
    /// Blocks of a layer.
    relations: usize,
    /// Layer by layer, in each a block for each relation.
    blocks: SmallVec<[BlockSize; MAX_LAYERS]>,
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
    /// The counts of a batch of a homogeneous graph, with a block for each layer.
    #[must_use]
    pub fn of_blocks(seeds: usize, blocks: impl IntoIterator<Item = BlockSize>) -> Self {
        let blocks: SmallVec<_> = blocks.into_iter().collect();
        let nodes = blocks.last().map_or(seeds, |last: &BlockSize| last.sources);
        Self { types: SmallVec::from([TypeSize { seeds, nodes }]), blocks, ..Self::default() }
    }

    /// The counts of a batch with these seeds and nodes of each type, and for each layer a block for each of `relations`
    /// relations.
    #[must_use]
    pub fn of_sizes(
        types: impl IntoIterator<Item = TypeSize>,
        relations: usize,
        blocks: impl IntoIterator<Item = BlockSize>,
    ) -> Self {
        let (types, blocks) = (types.into_iter().collect(), blocks.into_iter().collect());
        Self { types, relations, blocks, ..Self::default() }
    }

    /// The counts of a batch that has only these seeds yet, of each type, in a graph with this many relations.
    pub(crate) fn of_seeds(seeds: impl Iterator<Item = usize>, relations: usize) -> Self {
        let types = seeds.map(|seeds| TypeSize { seeds, nodes: seeds }).collect();
        Self { types, relations, ..Self::default() }
    }

    /// Adds a layer's block. Their sources are counted by [`end_layer`](Self::end_layer).
    pub(crate) fn push(&mut self, block: BlockSize) {
        self.blocks.push(block);
    }

    /// Sets the nodes of each type after a layer, and with them the sources of its blocks.
    pub(crate) fn end_layer(&mut self, nodes: &[usize], source_of: impl Fn(usize) -> NodeType) {
        let first = self.blocks.len() - self.relations;
        for (relation, block) in self.blocks[first..].iter_mut().enumerate() {
            block.sources = nodes[source_of(relation).index()];
        }
        for (size, &nodes) in self.types.iter_mut().zip(nodes) {
            size.nodes = nodes;
        }
    }

    /// Seeds of all types.
    #[must_use]
    pub fn seeds(&self) -> usize {
        self.types.iter().map(|size| size.seeds).sum()
    }

    /// Nodes of all types, seeds included.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.types.iter().map(|size| size.nodes).sum()
    }

    /// Seeds and nodes of each type.
    #[must_use]
    pub fn types(&self) -> &[TypeSize] {
        &self.types
    }

    /// The number of layers.
    #[must_use]
    pub fn layers(&self) -> usize {
        self.blocks.len().checked_div(self.relations).unwrap_or(0)
    }

    /// The sizes of the blocks, from the seeds outward: in each layer one for each relation.
    #[must_use]
    pub fn blocks(&self) -> &[BlockSize] {
        &self.blocks
    }

    /// The size of a block.
    ///
    /// # Panics
    /// If the layer or relation does not exist.
    #[must_use]
    pub fn block(&self, layer: usize, relation: Relation) -> BlockSize {
        assert!(relation.index() < self.relations, "one of the graph's relations");
        self.blocks[layer * self.relations + relation.index()]
    }

    /// Edges of all blocks.
    #[must_use]
    pub fn edges(&self) -> usize {
        self.blocks.iter().map(|block| block.edges).sum()
    }
}

impl Default for BatchCounts {
    /// An empty batch of a homogeneous graph, without layers.
    fn default() -> Self {
        let (types, blocks) = (SmallVec::from([TypeSize::default()]), SmallVec::new());
        Self { types, relations: 1, blocks, hash: 0, list_reads: ListReads::default() }
    }
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
    /// Of each type.
    nodes: Vec<Vec<i64>>,
    /// Likewise; empty if nodes are in no trees.
    trees: Vec<Vec<i32>>,
    /// Layer by layer, in each a block for each relation.
    blocks: Vec<BlockBuffers>,
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
        let blocks = bounds.blocks.iter().map(|block| BlockBuffers {
            indptr: vec![0; block.destinations + 1],
            indices: vec![0; block.edges],
            edge_ids: vec![0; if bounds.edge_ids { block.edges } else { 0 }],
            weights: vec![0.0; if bounds.weights { block.edges } else { 0 }],
        });
        let nodes = bounds.types.iter().map(|size| vec![0; size.nodes]).collect();
        let in_trees = bounds.types.iter().filter(|_| bounds.trees);
        let trees = in_trees.map(|size| vec![0; size.nodes]).collect();
        Self { nodes, trees, blocks: blocks.collect(), counts: BatchCounts::default() }
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
        fill: impl FnOnce(&mut BatchMut<'_, '_>) -> Result<BatchCounts, E>,
    ) -> Result<BatchCounts, E> {
        self.counts = BatchCounts::default();
        // Inline for a homogeneous graph, whose batches allocate nothing.
        let mut nodes: SmallVec<[&mut [i64]; 1]> = self.nodes.iter_mut().map(Vec::as_mut_slice).collect();
        let blocks = self.blocks.iter_mut();
        let mut blocks: SmallVec<[BlockMut<'_>; MAX_LAYERS]> = blocks
            .map(|BlockBuffers { indptr, indices, edge_ids, weights }| BlockMut {
                indptr,
                indices,
                edge_ids,
                weights,
            })
            .collect();
        let mut trees: SmallVec<[&mut [i32]; 1]> = self.trees.iter_mut().map(Vec::as_mut_slice).collect();
        self.counts = fill(&mut BatchMut { nodes: &mut nodes, blocks: &mut blocks, trees: &mut trees })?;
        Ok(self.counts.clone())
    }

    /// Ids of all nodes, the seeds first.
    #[must_use]
    pub fn nodes(&self) -> &[i64] {
        self.nodes_of(NodeType::ONLY)
    }

    /// Ids of the seeds.
    #[must_use]
    pub fn seeds(&self) -> &[i64] {
        &self.nodes()[..self.counts.types()[0].seeds]
    }

    /// Ids of the nodes of a type, its seeds first; none if the batch is empty.
    ///
    /// # Panics
    /// If the type does not exist.
    #[must_use]
    pub fn nodes_of(&self, node_type: NodeType) -> &[i64] {
        let used = self.counts.types().get(node_type.index()).map_or(0, |size| size.nodes);
        &self.nodes[node_type.index()][..used]
    }

    /// The tree of each node of a type: trees number through the seeds of all types. Empty if nodes are in no trees.
    ///
    /// # Panics
    /// If the type does not exist.
    #[must_use]
    pub fn trees_of(&self, node_type: NodeType) -> &[i32] {
        let used = self.nodes_of(node_type).len();
        self.trees.get(node_type.index()).map_or(&[], |trees| &trees[..used])
    }

    /// The block of one layer, 0 being the one at the seeds; `None` if the batch has no such layer.
    #[must_use]
    pub fn block(&self, layer: usize) -> Option<BlockRef<'_>> {
        self.block_of(layer, Relation::ONLY)
    }

    /// The block of a relation in a layer; `None` if the batch has no such layer.
    #[must_use]
    pub fn block_of(&self, layer: usize, relation: Relation) -> Option<BlockRef<'_>> {
        let at = layer * self.counts.relations + relation.index();
        let size = self.counts.blocks().get(at)?;
        let buffers = self.blocks.get(at)?;
        Some(BlockRef {
            destinations: size.destinations,
            sources: size.sources,
            indptr: &buffers.indptr[..=size.destinations],
            indices: &buffers.indices[..size.edges],
            edge_ids: used(&buffers.edge_ids, size.edges),
            weights: used(&buffers.weights, size.edges),
        })
    }

    /// All blocks of a homogeneous graph, from the seeds outward.
    pub fn blocks(&self) -> impl Iterator<Item = BlockRef<'_>> {
        (0..self.counts.layers()).map_while(|layer| self.block(layer))
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
