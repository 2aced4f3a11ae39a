//! Sampling hop by hop: the loop shared by all kinds of sampler.
//!
//! A hop goes over its destinations in groups, and over each group in waves: bounds of lists, random words, positions
//! picked, ids at those positions, local ids. Within a wave no access waits for another one, so a core keeps many cache
//! misses in flight. That determines the speed on a graph larger than the caches. Between waves everything stays in the
//! first two cache levels. The kind ([`Picks`]) decides which positions are picked.

mod by_id;
mod divided_lists;
mod draws;
mod identity;
mod in_trees;
mod list;
mod picks;
mod sink;

use uva_graph::{Indices, NodeType, Relation};

pub use self::by_id::ById;
pub use self::divided_lists::{Divided, ListCounts};
use self::draws::Drawing;
use self::identity::{Destinations, Identity};
pub use self::in_trees::InTrees;
use self::sink::BlockRoom;
use crate::batches::hash;
use crate::limits::MAX_EPOCH;
use crate::{
    BatchCounts, BatchKey, BatchMut, BatchSampler, BlockMut, BlockRef, BlockSize, Capacity, Expand,
    GraphView, InvalidOption, ListReads, RelationEnds, SampleError, SamplerOptions, Seeds, TypeSize,
    TypedView,
};

pub use self::list::{Hop, List, NodeId};
pub use self::picks::{KindSetup, PickResult, Picks, WordsOf};
pub use self::sink::PickSink;

/// Samples batches hop by hop, with the picks of `P`, of nodes that are known by `N`.
///
/// Its own memory is that of `N` (for [`ById`] 4 bytes per node), the memory of its kind and some scratch, all allocated
/// on construction, except that the memory of [`InTrees`] grows to the largest batch. Samplers share nothing: make one
/// per thread.
pub struct HopSampler<'g, P, N> {
    identity: N,
    /// Nodes of each type: before the current hop, and so far.
    known: Vec<usize>,
    so_far: Vec<usize>,
    drawing: Drawing<'g, P>,
}

impl<'g, P: Picks<'g>> HopSampler<'g, P, ById<'g>> {
    /// Sets the access to lists that are divided among ranks. The kind must pick list by list.
    pub(crate) fn among(self, divided: Option<Divided<'g>>) -> Self {
        Self { identity: self.identity.among(divided), ..self }
    }
}

impl<'g, P: Picks<'g>, N: Identity<'g>> HopSampler<'g, P, N> {
    /// A sampler with options that have been checked.
    ///
    /// # Errors
    /// If the system lacks memory for it, and if the graph lacks data that the kind picks by.
    pub(crate) fn unchecked(graph: TypedView<'g>, options: SamplerOptions) -> Result<Self, SampleError> {
        let types = graph.types.len();
        Ok(Self {
            identity: N::new(&graph, &options)?,
            known: vec![0; types],
            so_far: vec![0; types],
            drawing: Drawing::new(graph, options)?,
        })
    }

    /// Counts the lists of nodes `0..lists` as cached ([`GraphView::cached_lists`](crate::GraphView::cached_lists)).
    #[must_use]
    pub fn with_cached_lists(mut self, lists: usize) -> Self {
        for relation in &mut self.drawing.relations {
            relation.view.lists.cached_lists = lists;
        }
        self
    }

    fn sample_batch(
        &mut self,
        key: BatchKey,
        of_batch: Seeds<'_>,
        out: &mut BatchMut<'_, '_>,
    ) -> Result<BatchCounts, SampleError> {
        let seeds = of_batch.ids;
        let (layers, relations) = (self.drawing.options.fanouts.hops(), self.drawing.relations.len());
        if out.blocks.len() != layers * relations {
            let (expected, given) = (layers, out.blocks.len() / relations.max(1));
            return Err(SampleError::LayerMismatch { expected, given });
        }
        let types = self.drawing.types.len();
        if seeds.len() != types || out.nodes.len() != types {
            return Err(SampleError::TypeMismatch {
                expected: types,
                given: seeds.len().min(out.nodes.len()),
            });
        }
        if key.epoch > MAX_EPOCH {
            return Err(InvalidOption::Epoch { epoch: key.epoch }.into());
        }
        self.identity.begin(of_batch)?;
        for (of_type, seeds) in seeds.iter().enumerate() {
            self.take_seeds(key, of_type, seeds, out.nodes[of_type])?;
        }
        let mut counts = BatchCounts::of_seeds(seeds.iter().map(|seeds| seeds.len()), relations);
        for layer in 0..layers {
            self.known.copy_from_slice(&self.so_far);
            for relation in (0..relations as u16).map(Relation) {
                let at = layer * relations + relation.index();
                let (before, block) = out.blocks.split_at_mut(at);
                let block = &mut block[0];
                let kept = match (self.drawing.options.expand, at.checked_sub(relations)) {
                    (Expand::New, Some(before_at)) => before[before_at].used(&counts.blocks()[before_at]),
                    _ => NOTHING_KEPT,
                };
                let (size, reads) = match self.drawing.relations[relation.index()].view.lists.csc.indices {
                    Indices::I32(ids) => {
                        let hop = self.drawing.hop(relation, key, layer, ids);
                        self.sample_hop(relation, hop, out.nodes, kept, block)?
                    }
                    Indices::I64(ids) => {
                        let hop = self.drawing.hop(relation, key, layer, ids);
                        self.sample_hop(relation, hop, out.nodes, kept, block)?
                    }
                };
                let indptr = &block.indptr[..=size.destinations];
                let picked = hash::block(layer, relation, indptr, &block.indices[..size.edges]);
                counts.hash = counts.hash.wrapping_add(picked);
                if P::KIND.weighs_edges() {
                    let weighed = hash::weights(layer, relation, &block.weights[..size.edges]);
                    counts.hash = counts.hash.wrapping_add(weighed);
                }
                counts.list_reads += reads;
                counts.push(size);
            }
            let of_relations = &self.drawing.relations;
            counts.end_layer(&self.so_far, |relation| of_relations[relation].view.ends.source);
        }
        let of_types = (0..).map(NodeType).zip(out.nodes.iter()).zip(&self.drawing.types);
        for ((of, nodes), view) in of_types {
            let TypeSize { seeds, nodes: count } = counts.types()[of.index()];
            let named = match view.original_ids {
                Some(ids) => hash::nodes_by_original_id(of, &nodes[..count], ids, seeds),
                None => hash::nodes(of, &nodes[..count], seeds),
            };
            counts.hash = counts.hash.wrapping_add(named);
        }
        counts.hash = counts.hash.wrapping_add(self.identity.finish(of_batch, out)?);
        Ok(counts)
    }

    /// Ends the exchange after a failure, since the ranks are then at different calls and must not wait for this one.
    fn or_give_up<T>(&self, made: Result<T, SampleError>) -> Result<T, SampleError> {
        if let Err(error) = &made {
            self.identity.give_up(error);
        }
        made
    }

    /// Makes the seeds the first nodes of a type in a new batch.
    fn take_seeds(&mut self, key: BatchKey, of: usize, seeds: &[i64], nodes: &mut [i64]) -> PickResult {
        let room = usable(nodes);
        let Some(first) = nodes[..room].get_mut(..seeds.len()) else {
            return Err(SampleError::BatchTooLarge { key, what: Capacity::Nodes, capacity: room });
        };
        first.copy_from_slice(seeds);
        self.so_far[of] = seeds.len();
        let count = self.drawing.types[of].nodes;
        for (position, &seed) in seeds.iter().enumerate() {
            if usize::try_from(seed).map_or(true, |node| node >= count) {
                return Err(SampleError::SeedOutOfRange { key, position, seed, nodes: count });
            }
        }
        self.identity.take_seeds(of, seeds, first)
    }

    /// Samples a relation's block for the nodes known before the hop, and appends the nodes found to those of their
    /// type. Destinations of `kept` keep their picks from there. The block's sources are not counted yet: the relations
    /// that follow may find more.
    fn sample_hop<I: NodeId>(
        &mut self,
        relation: Relation,
        (hop, group): (Hop<'_, I>, usize),
        nodes: &mut [&mut [i64]],
        kept: BlockRef<'_>,
        block: &mut BlockMut<'_>,
    ) -> Result<(BlockSize, ListReads), SampleError> {
        let Self { identity, known, so_far, drawing } = self;
        let RelationEnds { source, destination } = drawing.relations[relation.index()].view.ends;
        let (source, destination) = (source.index(), destination.index());
        let destinations = known[destination];
        let capacity = block.indptr.len();
        // The block before has at least the offset 0, and at most as many destinations as there are nodes so far.
        let Some((kept_offsets, offsets)) = block
            .indptr
            .get_mut(..=destinations)
            .and_then(|indptr| indptr.split_at_mut_checked(kept.indptr.len()))
        else {
            let what = Capacity::Destinations { layer: hop.layer };
            return Err(SampleError::BatchTooLarge {
                key: hop.batch,
                what,
                capacity: capacity.saturating_sub(1),
            });
        };
        kept_offsets.copy_from_slice(kept.indptr);
        // Offsets are 32 bits, so memory beyond them is useless.
        let mut room = block.indices.len().min(i32::MAX as usize);
        let mut edge_ids: &mut [i64] = &mut [];
        let with_edge_ids = drawing.options.edge_ids;
        if with_edge_ids {
            room = room.min(block.edge_ids.len());
            edge_ids = block.edge_ids;
        }
        let mut weights: &mut [f32] = &mut [];
        if P::KIND.weighs_edges() {
            room = room.min(block.weights.len());
            weights = block.weights;
        }
        let what = Capacity::Edges { layer: hop.layer };
        let too_many = SampleError::BatchTooLarge { key: hop.batch, what, capacity: room };
        match block.indices[..room].get_mut(..kept.indices.len()) {
            Some(indices) => indices.copy_from_slice(kept.indices),
            None => return Err(too_many),
        }
        let (mut found, mut edges) = (0, kept.indices.len());
        let new = kept.destinations..destinations;
        let (new_nodes, fresh, nodes_room) = lists_and_room(nodes, (source, destination), so_far[source]);
        let new_nodes = &new_nodes[new.clone()];
        let room_of_picks = BlockRoom {
            first: so_far[source],
            fresh,
            found: &mut found,
            indices: &mut block.indices[..room],
            edges: &mut edges,
            edge_ids: &mut *edge_ids,
            nodes_room,
        };
        let mut total = kept.indices.len();
        let mut offsets = offsets.iter_mut();
        // The end of the next list in the block.
        let count = |picks: usize| {
            total += picks;
            if total > room {
                return Err(too_many.clone());
            }
            if let Some(offset) = offsets.next() {
                *offset = total as i32;
            }
            Ok(())
        };
        let lists = drawing.relations[relation.index()].view.lists;
        // Nothing is read for a fanout of 0.
        let reads = if hop.fanout == 0 {
            new_nodes.iter().map(|_| 0).try_for_each(count)?;
            ListReads::default()
        } else {
            let destinations = Destinations { nodes: new_nodes, first: new.start, destination, source };
            let weights = (&mut *weights, kept.indices.len());
            identity.draw(drawing, (relation, &hop, group), destinations, room_of_picks, weights, count)?
        };
        so_far[source] += found;
        weights[..kept.weights.len()].copy_from_slice(kept.weights);
        if with_edge_ids {
            edge_ids[..kept.edge_ids.len()].copy_from_slice(kept.edge_ids);
            if lists.home.is_some() {
                let offsets = &block.indptr[new.start..=new.end];
                at_home(&lists, new_nodes, offsets, edge_ids);
            }
        }
        Ok((BlockSize { destinations, sources: 0, edges }, reads))
    }
}

/// The usable room for nodes: local ids are 32 bits, so memory beyond them is useless.
fn usable(nodes: &[i64]) -> usize {
    nodes.len().min(i32::MAX as usize)
}

/// The nodes of the destination type, the room after the first `used` nodes of the source type, and the whole room of
/// the source type. If both are one type, only its first `used` nodes are destinations.
fn lists_and_room<'a>(
    nodes: &'a mut [&mut [i64]],
    (source, destination): (usize, usize),
    used: usize,
) -> (&'a [i64], &'a mut [i64], usize) {
    if source == destination {
        let room = usable(nodes[source]);
        let (known, fresh) = nodes[source][..room].split_at_mut(used);
        return (known, fresh, room);
    }
    match nodes.get_disjoint_mut([source, destination]) {
        Ok([sources, destinations]) => {
            let room = usable(sources);
            (&**destinations, &mut sources[used..room], room)
        }
        Err(_) => unreachable!("{source} and {destination} are two of the graph's types"),
    }
}

/// The beginning of a hop that keeps no picks of the hop before.
const NOTHING_KEPT: BlockRef<'static> =
    BlockRef { destinations: 0, sources: 0, indptr: &[0], indices: &[], edge_ids: &[], weights: &[] };

/// Translates positions in the graph's `indices` into those in the dataset's, list by list. The edges of `nodes` are
/// those between their `offsets`.
fn at_home(graph: &GraphView<'_>, nodes: &[i64], offsets: &[i32], edge_ids: &mut [i64]) {
    for (&node, ends) in nodes.iter().zip(offsets.windows(2)) {
        let node = node as usize;
        let (here, home) = (graph.csc.indptr[node], graph.begin_at_home(node) as i64);
        for edge_id in &mut edge_ids[ends[0] as usize..ends[1] as usize] {
            *edge_id = edge_id.wrapping_sub(here).wrapping_add(home);
        }
    }
}

impl<'g, P: Picks<'g>, N: Identity<'g>> BatchSampler for HopSampler<'g, P, N> {
    fn options(&self) -> &SamplerOptions {
        &self.drawing.options
    }

    fn sample_types(
        &mut self,
        key: BatchKey,
        seeds: Seeds<'_>,
        out: &mut BatchMut<'_, '_>,
    ) -> Result<BatchCounts, SampleError> {
        let sampled = self.sample_batch(key, seeds, out);
        self.or_give_up(sampled)
    }

    fn serve(&mut self) -> Result<(), SampleError> {
        let served = self.identity.serve(&mut self.drawing);
        self.or_give_up(served)
    }
}
