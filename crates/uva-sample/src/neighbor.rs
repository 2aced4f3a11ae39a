//! Uniform neighbour sampling, hop by hop.
//!
//! A hop goes over its destinations in groups, and over each group in waves: where their lists lie; the random words
//! of all of them; the positions picked; the ids at those positions; their local ids. Within a wave no access waits
//! for another one, so a core keeps many cache misses in flight, which is what counts on a graph larger than its
//! caches; between waves everything stays in the first two cache levels.

use uva_graph::{Csc, Indices};

use crate::local_ids::{LocalIds, RelabelError};
use crate::options::{GROUP, GROUP_PICKS, MAX_EPOCH, MAX_PICKS, batch_of_picks};
use crate::philox::{BlockBatch, Purpose, StreamKey};
use crate::pick::{Picker, with_replacement};
use crate::{
    BatchCounts, BatchKey, BatchMut, BlockMut, BlockRef, Capacity, Expand, HopShape, InvalidOption,
    LayerCounts, ListReads, MiniBatch, SampleError, SamplerOptions, hash,
};

/// Samples the neighbours of batches of seeds.
///
/// Its own memory is 8 bytes a node and some scratch, all of it allocated by [`new`](Self::new). Samplers share
/// nothing: for several threads, make several.
pub struct NeighborSampler<'g> {
    csc: Csc<'g>,
    options: SamplerOptions,
    /// Lists of nodes below this are cached.
    cached_lists: usize,
    local_ids: LocalIds,
    scratch: Scratch,
}

/// What the waves of one group hand to each other.
struct Scratch {
    lists: Box<[List; GROUP]>,
    blocks: BlockBatch,
    picker: Picker,
    /// Positions picked, in the graph's `indices`.
    positions: Vec<usize>,
    /// The ids found there.
    ids: Vec<i64>,
}

/// One destination's part in its group.
#[derive(Clone, Copy, Default)]
struct List {
    /// Original id: what the random words are keyed by.
    key: u64,
    /// The batch that they are keyed by: [`batch_of_picks`].
    batch: u32,
    begin: usize,
    degree: usize,
}

/// An id in one of the two widths that a file may have.
trait NodeId: Copy {
    fn widen(self) -> i64;
}

impl NodeId for i32 {
    #[inline(always)]
    fn widen(self) -> i64 {
        self.into()
    }
}

impl NodeId for i64 {
    #[inline(always)]
    fn widen(self) -> i64 {
        self
    }
}

impl<'g> NeighborSampler<'g> {
    /// A sampler over `csc`.
    ///
    /// # Errors
    /// [`SampleError::InvalidOption`] for fanouts that mean nothing, that pick more than 65,536 out of a list, and
    /// for graphs beyond what the random keys can name.
    pub fn new(csc: Csc<'g>, options: SamplerOptions) -> Result<Self, SampleError> {
        options.check(&csc)?;
        let most =
            options.fanouts.iter().map(|&fanout| usize::try_from(fanout).unwrap_or(0).min(MAX_PICKS)).max();
        let most = most.unwrap_or(0);
        // A group holds GROUP_PICKS picks, or one destination's where those are more.
        let group_picks = most.max(GROUP_PICKS);
        Ok(Self {
            local_ids: LocalIds::new(csc.nodes()),
            scratch: Scratch {
                lists: Box::new([List::default(); GROUP]),
                // Words come in blocks of four: up to three are left over for each destination.
                blocks: BlockBatch::with_capacity(group_picks / 4 + GROUP),
                picker: Picker::new(most),
                positions: vec![0; group_picks],
                ids: vec![0; group_picks],
            },
            csc,
            options,
            cached_lists: 0,
        })
    }

    /// The same, with the lists of nodes `0..lists` counted as cached. In host memory a cache of lists is where the graph
    /// itself begins, once it is ordered by how often lists are read, so only the counting differs.
    #[must_use]
    pub fn with_cached_lists(mut self, lists: usize) -> Self {
        self.cached_lists = lists;
        self
    }

    /// The options that the sampler was made with.
    #[must_use]
    pub fn options(&self) -> &SamplerOptions {
        &self.options
    }

    /// Samples the batch `key` around `seeds` (dataset-internal ids, each once) into the caller's memory.
    ///
    /// # Errors
    /// [`SampleError::BatchTooLarge`] where `out` is too short for the batch, and a precise error for seeds or a
    /// graph that cannot be. The content of `out` is unspecified then, and the sampler can be used on.
    pub fn sample(
        &mut self,
        key: BatchKey,
        seeds: &[i64],
        out: &mut BatchMut<'_>,
    ) -> Result<BatchCounts, SampleError> {
        match self.csc.indices {
            Indices::I32(indices) => self.sample_ids(indices, key, seeds, out),
            Indices::I64(indices) => self.sample_ids(indices, key, seeds, out),
        }
    }

    /// [`sample`](Self::sample) into a batch that owns its memory.
    ///
    /// # Errors
    /// As [`sample`](Self::sample); the batch is empty then.
    pub fn sample_into(
        &mut self,
        key: BatchKey,
        seeds: &[i64],
        batch: &mut MiniBatch,
    ) -> Result<BatchCounts, SampleError> {
        batch.fill(|out| self.sample(key, seeds, out))
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
        // Local ids are 32 bits, so memory beyond them is no use.
        let room = out.nodes.len().min(i32::MAX as usize);
        let nodes = &mut out.nodes[..room];
        self.take_seeds(key, seeds, nodes)?;

        let mut counts = BatchCounts { seeds: seeds.len(), nodes: seeds.len(), ..BatchCounts::default() };
        for layer in 0..layers {
            let hop = Hop {
                batch: key,
                layer,
                indptr: self.csc.indptr,
                indices,
                original_ids: self.csc.original_ids,
                batch_dependency: self.options.batch_dependency,
            };
            let (before, block) = out.layers.split_at_mut(layer);
            let block = &mut block[0];
            let kept = match (self.options.expand, before.last()) {
                (Expand::New, Some(before)) => {
                    let LayerCounts { destinations, sources, edges } = counts.layers[layer - 1];
                    let (indptr, indices) = (&before.indptr[..=destinations], &before.indices[..edges]);
                    BlockRef { destinations, sources, indptr, indices }
                }
                _ => BlockRef { destinations: 0, sources: 0, indptr: &[0], indices: &[] },
            };
            let (counted, reads) = self.sample_hop(&hop, nodes, counts.nodes, kept, block)?;
            let indptr = &block.indptr[..=counted.destinations];
            let picked = hash::block(layer, indptr, &block.indices[..counted.edges]);
            counts.hash = counts.hash.wrapping_add(picked);
            counts.nodes = counted.sources;
            counts.list_reads.all += reads.all;
            counts.list_reads.cached += reads.cached;
            counts.layers[layer] = counted;
            counts.layer_count += 1;
        }

        let nodes = &nodes[..counts.nodes];
        let named = match self.csc.original_ids {
            Some(original) => {
                hash::nodes(nodes.iter().map(|&node| original[node as usize] as u64), counts.seeds)
            }
            None => hash::nodes(nodes.iter().map(|&node| node as u64), counts.seeds),
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
        let count = self.csc.nodes();
        for (position, &seed) in seeds.iter().enumerate() {
            let Some(node) = usize::try_from(seed).ok().filter(|&node| node < count) else {
                return Err(SampleError::SeedOutOfRange { key, position, seed, nodes: count });
            };
            if !self.local_ids.insert(node, position as u32) {
                return Err(SampleError::SeedRepeated { key, position, seed });
            }
        }
        Ok(())
    }

    /// Samples for the first `destinations` of `nodes`, and appends the nodes found. Those that are destinations of `kept`
    /// have their picks of there.
    fn sample_hop<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        nodes: &mut [i64],
        destinations: usize,
        kept: BlockRef<'_>,
        block: &mut BlockMut<'_>,
    ) -> Result<(LayerCounts, ListReads), SampleError> {
        let capacity = block.indptr.len();
        // The block before has at least the offset that is 0, and no more destinations than there are nodes by now.
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
        // Offsets are 32 bits, so memory beyond them is no use.
        let room = block.indices.len().min(i32::MAX as usize);
        let too_many = SampleError::BatchTooLarge {
            key: hop.batch,
            what: Capacity::Edges { layer: hop.layer },
            capacity: room,
        };
        match block.indices[..room].get_mut(..kept.indices.len()) {
            Some(indices) => indices.copy_from_slice(kept.indices),
            None => return Err(too_many),
        }
        let mut sink = Sink {
            local_ids: &mut self.local_ids,
            first: destinations,
            fresh: &mut [],
            found: 0,
            indices: &mut block.indices[..room],
            edges: kept.indices.len(),
            nodes_room: nodes.len(),
        };
        let (known, fresh) = nodes.split_at_mut(destinations);
        sink.fresh = fresh;

        let like = StreamKey {
            seed: self.options.seed,
            node: 0,
            purpose: Purpose::Neighbors,
            layer: hop.layer as u32,
            batch: hop.batch.batch,
            epoch: hop.batch.epoch,
            split: hop.batch.split,
        };
        // Without a limit every list is taken as it stands, in pieces of what the scratch holds.
        let HopShape { limit, group } = HopShape::of(self.options.fanouts[hop.layer]);
        let fanout = limit.unwrap_or(usize::MAX);
        let mut total = kept.indices.len();
        let mut reads = ListReads::default();
        for (group, offsets) in known[kept.destinations..].chunks(group).zip(offsets.chunks_mut(group)) {
            let lists = &mut self.scratch.lists[..group.len()];
            hop.find_lists(group, lists)?;

            self.scratch.blocks.clear();
            for ((list, node), offset) in lists.iter().zip(group).zip(offsets) {
                let of_list = 1 + list.degree.min(fanout) as u64;
                reads.all += of_list;
                reads.cached += if (*node as usize) < self.cached_lists { of_list } else { 0 };
                if list.degree > fanout {
                    self.scratch.blocks.push(&like, list.key, list.batch, fanout.div_ceil(4));
                }
                total += list.degree.min(fanout);
                if total > room {
                    return Err(too_many);
                }
                *offset = total as i32;
            }
            self.scratch.blocks.generate(&like);
            self.scratch.pick(&like, group.len(), fanout, self.options.replace, hop, &mut sink)?;
        }
        Ok((LayerCounts { destinations, sources: destinations + sink.found, edges: sink.edges }, reads))
    }
}

impl Scratch {
    /// Picks out of the group's lists, whose random words are generated, and writes the picks.
    fn pick<I: NodeId>(
        &mut self,
        like: &StreamKey,
        group: usize,
        fanout: usize,
        replace: bool,
        hop: &Hop<'_, I>,
        sink: &mut Sink<'_>,
    ) -> Result<(), SampleError> {
        let mut words = self.blocks.words();
        let mut used = 0;
        for list in &self.lists[..group] {
            if list.degree > fanout {
                let (of_list, rest) = words.split_at(4 * fanout.div_ceil(4));
                words = rest;
                // A group picks no more than the buffer holds: GROUP_PICKS, or one destination's fanout.
                let picks = &mut self.positions[used..used + fanout];
                used += fanout;
                let key = StreamKey { node: list.key, batch: list.batch, ..*like };
                // A list longer than that was refused when the sampler was made.
                let degree = u32::try_from(list.degree).unwrap_or(u32::MAX);
                if replace {
                    with_replacement(&key, of_list, list.begin, degree, picks);
                } else {
                    self.picker.without_replacement(&key, of_list, list.begin, degree, picks);
                }
                continue;
            }
            let mut next = list.begin;
            let end = list.begin + list.degree;
            while next < end {
                if used == self.positions.len() {
                    hop.write(&self.positions, &mut self.ids, sink)?;
                    used = 0;
                }
                let piece = (end - next).min(self.positions.len() - used);
                for (place, position) in self.positions[used..used + piece].iter_mut().zip(next..) {
                    *place = position;
                }
                used += piece;
                next += piece;
            }
        }
        hop.write(&self.positions[..used], &mut self.ids, sink)
    }
}

/// One hop's view of the graph.
struct Hop<'a, I> {
    batch: BatchKey,
    layer: usize,
    indptr: &'a [i64],
    indices: &'a [I],
    original_ids: Option<&'a [i64]>,
    batch_dependency: u32,
}

/// Where a hop's picks go.
struct Sink<'a> {
    local_ids: &'a mut LocalIds,
    /// The first local id of the hop's new nodes.
    first: usize,
    /// Room for the new nodes, and how many there are.
    fresh: &'a mut [i64],
    found: usize,
    /// Room for the block's local ids, and how many there are.
    indices: &'a mut [i32],
    edges: usize,
    /// Room for all nodes: for the message when there is no more.
    nodes_room: usize,
}

impl<I: NodeId> Hop<'_, I> {
    /// Finds the lists of a group of nodes, which are in range.
    fn find_lists(&self, group: &[i64], lists: &mut [List]) -> Result<(), SampleError> {
        let edges = self.indices.len() as u64;
        for (&node, list) in group.iter().zip(lists.iter_mut()) {
            let (begin, end) = (self.indptr[node as usize], self.indptr[node as usize + 1]);
            // One comparison each refuses negative numbers too: as unsigned they are beyond any length.
            if begin as u64 > end as u64 || end as u64 > edges {
                return Err(SampleError::InvalidList { node, begin, end, edges: self.indices.len() });
            }
            let (begin, degree) = (begin as usize, (end - begin) as usize);
            *list = List { key: node as u64, batch: self.batch.batch, begin, degree };
        }
        if let Some(original) = self.original_ids {
            for (&node, list) in group.iter().zip(lists.iter_mut()) {
                list.key = original[node as usize] as u64;
            }
        }
        if self.batch_dependency > 1 {
            for list in lists {
                list.batch = batch_of_picks(self.batch.batch, list.key, self.batch_dependency);
            }
        }
        Ok(())
    }

    /// Reads the ids at `positions`, and writes their local ids to the block.
    fn write(&self, positions: &[usize], ids: &mut [i64], sink: &mut Sink<'_>) -> Result<(), SampleError> {
        let ids = &mut ids[..positions.len()];
        for (&position, id) in positions.iter().zip(ids.iter_mut()) {
            *id = self.indices[position].widen();
        }
        let end = sink.edges + positions.len();
        let locals = &mut sink.indices[sink.edges..end];
        sink.edges = end;
        match sink.local_ids.relabel(ids, sink.first, sink.fresh, &mut sink.found, locals) {
            Ok(()) => Ok(()),
            Err(RelabelError::NotANode { at }) => Err(SampleError::InvalidNeighbor {
                position: positions[at],
                neighbor: ids[at],
                nodes: self.indptr.len().saturating_sub(1),
            }),
            Err(RelabelError::NoRoom) => {
                let (key, capacity) = (self.batch, sink.nodes_room);
                Err(SampleError::BatchTooLarge { key, what: Capacity::Nodes, capacity })
            }
        }
    }
}
