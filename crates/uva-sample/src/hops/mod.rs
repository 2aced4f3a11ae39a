//! Sampling hop by hop: the loop shared by all kinds of sampler.
//!
//! A hop goes over its destinations in groups, and over each group in waves: bounds of lists, random words, positions
//! picked, ids at those positions, local ids. Within a wave no access waits for another one, so a core keeps many cache
//! misses in flight. That determines the speed on a graph larger than the caches. Between waves everything stays in the
//! first two cache levels. The kind ([`Picks`]) decides which positions are picked.

mod list;
mod sink;

use uva_graph::Indices;

use self::sink::Waiting;
use crate::limits::{MAX_EPOCH, MAX_PICKS};
use crate::local_ids::LocalIds;
use crate::options::{GROUP, GROUP_PICKS};
use crate::philox::{Purpose, StreamKey};
use crate::{
    BatchCounts, BatchKey, BatchMut, BatchSampler, BlockMut, BlockRef, Capacity, Expand, GraphView, HopShape,
    InvalidOption, LayerCounts, ListReads, SampleError, SamplerKind, SamplerOptions, VisitReads, hash,
};

pub use self::list::{Hop, List, NodeId};
pub use self::sink::Sink;

/// Early end of a step: it fails only on an invalid graph or a full batch.
pub type Sampled = Result<(), SampleError>;

/// The inputs that size a kind's memory.
pub struct Setup<'a, 'g> {
    /// The graph, checked against the options.
    pub(crate) graph: GraphView<'g>,
    pub(crate) options: &'a SamplerOptions,
    /// The most picks of a group.
    pub(crate) group_picks: usize,
    /// The most picks drawn from one list.
    pub(crate) most: usize,
}

impl Setup<'_, '_> {
    /// The largest fanout: for a kind that draws together, the most draws of a hop.
    pub(crate) fn largest_fanout(&self) -> usize {
        let fanouts = self.options.fanouts.iter();
        fanouts.map(|&fanout| usize::try_from(fanout).unwrap_or(0)).max().unwrap_or(0)
    }
}

/// The part that differs between kinds: which entries of each list are picked.
pub trait Picks<'g>: Send + Sized {
    /// The kind.
    const KIND: SamplerKind;

    /// The purpose of its random words.
    const PURPOSE: Purpose = Purpose::Neighbors;

    /// Allocates all memory.
    ///
    /// # Errors
    /// If the graph lacks data that the kind picks by.
    fn new(setup: &Setup<'_, 'g>) -> Result<Self, SampleError>;

    /// Looks at all destinations of a hop before any of their lists is picked from. `lists` is scratch for a group.
    ///
    /// # Errors
    /// An invalid graph.
    fn begin<I: NodeId>(&mut self, hop: &Hop<'_, I>, nodes: &[i64], lists: &mut [List]) -> Sampled {
        let _ = (hop, nodes, lists);
        Ok(())
    }

    /// Sets how many entries are picked for each list of a group ([`List::picks`]). `nodes` are the lists' nodes.
    ///
    /// A kind that does not draw together picks no more than the fanout. A kind that [picks in
    /// lists](SamplerKind::picks_in_lists) without replacement picks no more than the list has. The default is the
    /// smaller of the two.
    ///
    /// # Errors
    /// An invalid graph.
    #[inline]
    fn prepare<I: NodeId>(&mut self, hop: &Hop<'_, I>, nodes: &[i64], lists: &mut [List]) -> Sampled {
        let _ = nodes;
        for list in lists {
            list.picks = list.degree.min(hop.fanout);
        }
        Ok(())
    }

    /// Gives the sink the positions picked for a list: as many as [`prepare`](Self::prepare) set. If the kind [weighs
    /// edges](SamplerKind::weighs_edges), it gives as many weights too. The lists of a group come in order, each once.
    ///
    /// # Errors
    /// An invalid graph, and a full batch.
    fn pick<I: NodeId>(&mut self, hop: &Hop<'_, I>, list: &List, sink: &mut Sink<'_>) -> Sampled;

    /// The same for all lists of a group, one after the other.
    ///
    /// # Errors
    /// As [`pick`](Self::pick).
    #[inline]
    fn pick_group<I: NodeId>(&mut self, hop: &Hop<'_, I>, lists: &[List], sink: &mut Sink<'_>) -> Sampled {
        lists.iter().try_for_each(|list| self.pick(hop, list, sink))
    }
}

/// Samples batches hop by hop, with the picks of `P`.
///
/// Its own memory is 4 bytes a node, the memory of its kind and some scratch, all allocated when it is made. Samplers
/// share nothing: make one per thread.
pub struct HopSampler<'g, P> {
    graph: GraphView<'g>,
    options: SamplerOptions,
    local_ids: LocalIds,
    lists: Box<[List; GROUP]>,
    picks: P,
    waiting: Waiting,
}

impl<'g, P: Picks<'g>> HopSampler<'g, P> {
    /// A sampler with options that have been checked.
    ///
    /// # Errors
    /// If the system lacks memory for it, and if the graph lacks data that the kind picks by.
    pub(crate) fn unchecked(graph: GraphView<'g>, options: SamplerOptions) -> Result<Self, SampleError> {
        let most = options.fanouts.iter().map(|&fanout| options.picks_a_list(fanout).unwrap_or(0)).max();
        let most = most.unwrap_or(0).min(MAX_PICKS);
        // A group holds GROUP_PICKS picks, or, if that is more, those of one destination.
        let group_picks = most.max(GROUP_PICKS);
        Ok(Self {
            local_ids: LocalIds::new(graph.csc.nodes())?,
            lists: Box::new([List::default(); GROUP]),
            picks: P::new(&Setup { graph, options: &options, group_picks, most })?,
            waiting: Waiting::new(group_picks),
            graph,
            options,
        })
    }

    /// The same, with the lists of nodes `0..lists` counted as cached ([`GraphView::cached_lists`]).
    #[must_use]
    pub fn with_cached_lists(mut self, lists: usize) -> Self {
        self.graph.cached_lists = lists;
        self
    }

    fn sample_ids<I: NodeId>(
        &mut self,
        indices: &[I],
        key: BatchKey,
        seeds: &[i64],
        out: &mut BatchMut<'_>,
    ) -> Result<BatchCounts, SampleError> {
        let layers = self.options.fanouts.len();
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

        let csc = self.graph.csc;
        let mut counts = BatchCounts { seeds: seeds.len(), nodes: seeds.len(), ..BatchCounts::default() };
        for layer in 0..layers {
            let like = StreamKey {
                seed: self.options.seed,
                node: 0,
                purpose: P::PURPOSE,
                layer: layer as u32,
                batch: key.batch,
                epoch: key.epoch,
                split: key.split,
            };
            let shape = if P::KIND.draws_together() { HopShape::of_layer } else { HopShape::of };
            let HopShape { limit, group } = shape(self.options.fanouts[layer]);
            let hop = Hop {
                batch: key,
                layer,
                // Without a limit every list is taken whole.
                fanout: limit.unwrap_or(usize::MAX),
                like,
                indptr: csc.indptr,
                indices,
                original_ids: csc.original_ids,
                batch_dependency: self.options.batch_dependency,
            };
            let (before, block) = out.layers.split_at_mut(layer);
            let block = &mut block[0];
            let kept = match (self.options.expand, before.last()) {
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
            counts.list_reads.all += reads.all;
            counts.list_reads.cached += reads.cached;
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

    /// Makes the seeds the first nodes of a new batch.
    fn take_seeds(&mut self, key: BatchKey, seeds: &[i64], nodes: &mut [i64]) -> Result<(), SampleError> {
        let Some(first) = nodes.get_mut(..seeds.len()) else {
            return Err(SampleError::BatchTooLarge { key, what: Capacity::Nodes, capacity: nodes.len() });
        };
        first.copy_from_slice(seeds);
        self.local_ids.begin_batch();
        let count = self.graph.csc.nodes();
        for (position, &seed) in seeds.iter().enumerate() {
            let Some(node) = usize::try_from(seed).ok().filter(|&node| node < count) else {
                return Err(SampleError::SeedOutOfRange { key, position, seed, nodes: count });
            };
            // A seed that occurs again is a destination of its own; as a source, the first of them stands for all.
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
        let Self { graph, options, local_ids, lists, picks, waiting } = self;
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
        if options.edge_ids {
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
        let mut sink = Sink {
            local_ids,
            waiting,
            used: 0,
            first: destinations,
            fresh: &mut [],
            found: 0,
            indices: &mut block.indices[..room],
            edges: kept.indices.len(),
            edge_ids: &mut *edge_ids,
            weights: &mut *weights,
            weighed: kept.indices.len(),
            nodes_room: nodes.len(),
        };
        let (known, fresh) = nodes.split_at_mut(destinations);
        sink.fresh = fresh;

        let mut total = kept.indices.len();
        let mut reads = ListReads::default();
        let new = kept.destinations..destinations;
        picks.begin(hop, &known[new.clone()], &mut lists[..])?;
        for (group, offsets) in known[new.clone()].chunks(group).zip(offsets.chunks_mut(group)) {
            let lists = &mut lists[..group.len()];
            hop.find_lists(group, lists)?;
            picks.prepare(hop, group, lists)?;
            for ((list, node), offset) in lists.iter().zip(group).zip(offsets) {
                let visit = VisitReads::of(P::KIND, list.degree, list.picks, (hop.fanout, options.replace));
                reads.all += visit.all();
                let cached = (*node as usize) < graph.cached_lists;
                reads.cached += if cached { visit.cached(graph.cached_weights) } else { 0 };
                total += list.picks;
                if total > room {
                    return Err(too_many);
                }
                *offset = total as i32;
            }
            picks.pick_group(hop, lists, &mut sink)?;
            sink.write(hop)?;
        }
        let counts = LayerCounts { destinations, sources: destinations + sink.found, edges: sink.edges };
        weights[..kept.weights.len()].copy_from_slice(kept.weights);
        if options.edge_ids {
            edge_ids[..kept.edge_ids.len()].copy_from_slice(kept.edge_ids);
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
        &self.options
    }

    fn sample(
        &mut self,
        key: BatchKey,
        seeds: &[i64],
        out: &mut BatchMut<'_>,
    ) -> Result<BatchCounts, SampleError> {
        match self.graph.csc.indices {
            Indices::I32(indices) => self.sample_ids(indices, key, seeds, out),
            Indices::I64(indices) => self.sample_ids(indices, key, seeds, out),
        }
    }
}
