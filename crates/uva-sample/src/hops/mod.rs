//! Sampling hop by hop: the loop shared by all kinds of sampler.
//!
//! A hop goes over its destinations in groups, and over each group in waves: bounds of lists, random words, positions
//! picked, ids at those positions, local ids. Within a wave no access waits for another one, so a core keeps many cache
//! misses in flight. That determines the speed on a graph larger than the caches. Between waves everything stays in the
//! first two cache levels. The kind ([`Picks`]) decides which positions are picked.

mod divided_lists;
mod draws;
mod list;
mod picks;
mod sink;

use uva_graph::{Indices, Relation};

pub use self::divided_lists::{Divided, ListCounts};
use self::draws::Drawing;
use self::sink::{BlockTarget, PendingPositions, PickTarget};
use crate::batches::hash;
use crate::batches::local_ids::LocalIds;
use crate::limits::{MAX_EPOCH, MAX_PICKS};
use crate::options::{GROUP, GROUP_PICKS};
use crate::{
    BatchCounts, BatchKey, BatchMut, BatchSampler, BlockMut, BlockRef, Capacity, Expand, GraphView,
    InvalidOption, LayerCounts, ListReads, SampleError, SamplerOptions,
};

pub use self::list::{Hop, List, NodeId};
pub use self::picks::{KindSetup, PickResult, Picks};
pub use self::sink::PickSink;

/// Samples batches hop by hop, with the picks of `P`.
///
/// Its own memory is 4 bytes per node, the memory of its kind and some scratch, all allocated on construction. Samplers
/// share nothing: make one per thread.
pub struct HopSampler<'g, P> {
    local_ids: LocalIds,
    drawing: Drawing<'g, P>,
    /// Present if the lists are divided among ranks.
    divided: Option<Divided<'g>>,
}

impl<'g, P: Picks<'g>> HopSampler<'g, P> {
    /// A sampler with options that have been checked.
    ///
    /// # Errors
    /// If the system lacks memory for it, and if the graph lacks data that the kind picks by.
    pub(crate) fn unchecked(graph: GraphView<'g>, options: SamplerOptions) -> Result<Self, SampleError> {
        let fanouts = options.fanouts.of_relation(Relation::ONLY);
        let most = fanouts.map(|fanout| options.picks_a_list(fanout).unwrap_or(0)).max();
        let most = most.unwrap_or(0).min(MAX_PICKS);
        // A group holds GROUP_PICKS picks, or, if that is more, those of one destination.
        let group_picks = most.max(GROUP_PICKS);
        Ok(Self {
            local_ids: LocalIds::new(graph.csc.nodes())?,
            drawing: Drawing {
                lists: Box::new([List::default(); GROUP]),
                picks: P::new(&KindSetup { graph, options: &options, group_picks, most })?,
                waiting: PendingPositions::new(group_picks),
                graph,
                options,
            },
            divided: None,
        })
    }

    /// Sets the access to lists that are divided among ranks. The kind must pick list by list.
    pub(crate) fn among(self, divided: Option<Divided<'g>>) -> Self {
        Self { divided, ..self }
    }

    /// Counts the lists of nodes `0..lists` as cached ([`GraphView::cached_lists`]).
    #[must_use]
    pub fn with_cached_lists(mut self, lists: usize) -> Self {
        self.drawing.graph.cached_lists = lists;
        self
    }

    fn sample_ids<I: NodeId>(
        &mut self,
        indices: &[I],
        key: BatchKey,
        seeds: &[i64],
        out: &mut BatchMut<'_>,
    ) -> Result<BatchCounts, SampleError> {
        let layers = self.drawing.options.fanouts.hops();
        if out.layers.len() != layers {
            return Err(SampleError::LayerMismatch { expected: layers, given: out.layers.len() });
        }
        if key.epoch > MAX_EPOCH {
            return Err(InvalidOption::Epoch { epoch: key.epoch }.into());
        }
        // Local ids are 32 bits, so memory beyond them is useless.
        let room = out.nodes.len().min(i32::MAX as usize);
        let nodes = &mut out.nodes[..room];
        self.take_seeds(key, seeds, nodes)?;

        let csc = self.drawing.graph.csc;
        let mut counts = BatchCounts { seeds: seeds.len(), nodes: seeds.len(), ..BatchCounts::default() };
        for layer in 0..layers {
            let (hop, group) = self.drawing.hop(key, layer, indices);
            let (before, block) = out.layers.split_at_mut(layer);
            let block = &mut block[0];
            let kept = match (self.drawing.options.expand, before.last()) {
                (Expand::New, Some(before)) => before.used(&counts.layers[layer - 1]),
                _ => NOTHING_KEPT,
            };
            let (counted, reads) = self.sample_hop(&hop, group, nodes, counts.nodes, kept, block)?;
            let indptr = &block.indptr[..=counted.destinations];
            let picked = hash::block(layer, indptr, &block.indices[..counted.edges]);
            counts.hash = counts.hash.wrapping_add(picked);
            if P::KIND.weighs_edges() {
                let weighed = hash::weights(layer, &block.weights[..counted.edges]);
                counts.hash = counts.hash.wrapping_add(weighed);
            }
            counts.nodes = counted.sources;
            counts.list_reads += reads;
            counts.layers[layer] = counted;
            counts.layer_count += 1;
        }

        let nodes = &nodes[..counts.nodes];
        let named = match csc.original_ids {
            Some(original_ids) => hash::nodes_by_original_id(nodes, original_ids, counts.seeds),
            None => hash::nodes(nodes, counts.seeds),
        };
        counts.hash = counts.hash.wrapping_add(named);
        Ok(counts)
    }

    /// Draws the picks that other ranks request in the hops of a batch, if this rank has no batch.
    fn serve_ids<I: NodeId>(&mut self, indices: &[I]) -> PickResult {
        let Some(divided) = &mut self.divided else { return Ok(()) };
        (0..self.drawing.options.fanouts.hops())
            .try_for_each(|layer| divided.serve(&mut self.drawing, layer, indices))
    }

    /// Ends the exchange after a failure, since the ranks are then at different calls and must not wait for this one.
    fn or_give_up<T>(&self, made: Result<T, SampleError>) -> Result<T, SampleError> {
        if let (Err(error), Some(divided)) = (&made, &self.divided) {
            divided.give_up(error);
        }
        made
    }

    /// Makes the seeds the first nodes of a new batch.
    fn take_seeds(&mut self, key: BatchKey, seeds: &[i64], nodes: &mut [i64]) -> Result<(), SampleError> {
        let Some(first) = nodes.get_mut(..seeds.len()) else {
            return Err(SampleError::BatchTooLarge { key, what: Capacity::Nodes, capacity: nodes.len() });
        };
        first.copy_from_slice(seeds);
        self.local_ids.begin_batch();
        let count = self.drawing.graph.csc.nodes();
        for (position, &seed) in seeds.iter().enumerate() {
            let Some(node) = usize::try_from(seed).ok().filter(|&node| node < count) else {
                return Err(SampleError::SeedOutOfRange { key, position, seed, nodes: count });
            };
            // A repeated seed is a separate destination. As a source, its first occurrence stands for all.
            self.local_ids.insert(node, position as u32);
        }
        Ok(())
    }

    /// Samples for the first `destinations` of `nodes`, in groups of `group`, and appends the nodes found. Destinations
    /// of `kept` keep their picks from there.
    fn sample_hop<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        group: usize,
        nodes: &mut [i64],
        destinations: usize,
        kept: BlockRef<'_>,
        block: &mut BlockMut<'_>,
    ) -> Result<(LayerCounts, ListReads), SampleError> {
        let Self { local_ids, drawing, divided } = self;
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
        let nodes_room = nodes.len();
        let (known, fresh) = nodes.split_at_mut(destinations);
        let new = kept.destinations..destinations;
        let (mut found, mut edges) = (0, kept.indices.len());
        let block_of_picks = BlockTarget {
            local_ids,
            first: destinations,
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
        let new_nodes = &known[new.clone()];
        let reads = match divided {
            None => {
                let to = PickTarget::Block(block_of_picks);
                drawing.draw(hop, group, new_nodes, to, (&mut *weights, kept.indices.len()), count)?
            }
            Some(divided) => {
                divided.bring(drawing, hop, new_nodes)?;
                divided.hand_over(drawing, hop, new_nodes, block_of_picks, count)?
            }
        };
        let counts = LayerCounts { destinations, sources: destinations + found, edges };
        weights[..kept.weights.len()].copy_from_slice(kept.weights);
        if with_edge_ids {
            edge_ids[..kept.edge_ids.len()].copy_from_slice(kept.edge_ids);
            let graph = &drawing.graph;
            if graph.home.is_some() {
                let offsets = &block.indptr[new.start..=new.end];
                at_home(graph, &known[new], offsets, edge_ids);
            }
        }
        Ok((counts, reads))
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

impl<'g, P: Picks<'g>> BatchSampler for HopSampler<'g, P> {
    fn options(&self) -> &SamplerOptions {
        &self.drawing.options
    }

    fn sample(
        &mut self,
        key: BatchKey,
        seeds: &[i64],
        out: &mut BatchMut<'_>,
    ) -> Result<BatchCounts, SampleError> {
        let sampled = match self.drawing.graph.csc.indices {
            Indices::I32(indices) => self.sample_ids(indices, key, seeds, out),
            Indices::I64(indices) => self.sample_ids(indices, key, seeds, out),
        };
        self.or_give_up(sampled)
    }

    fn serve(&mut self) -> Result<(), SampleError> {
        let served = match self.drawing.graph.csc.indices {
            Indices::I32(indices) => self.serve_ids(indices),
            Indices::I64(indices) => self.serve_ids(indices),
        };
        self.or_give_up(served)
    }
}
