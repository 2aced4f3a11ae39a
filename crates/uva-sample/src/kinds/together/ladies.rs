//! Nodes of a layer drawn among the neighbours of its destinations: LADIES (Zou et al., "Layer-Dependent Importance
//! Sampling for Training Deep and Large Graph Convolutional Networks", NeurIPS 2019, algorithm 1 with the mean as the
//! aggregation).
//!
//! The importance of a candidate is the squared norm of its column in the layer's matrix: the sum of 1 / d² over the
//! entries that name it, d being the length of the entry's list. Nodes are drawn without replacement by exponential
//! keys, and each list's weights are normalised.

use super::draw::{Draw, importance};
use crate::batches::local_ids::{LocalIds, RelabelError};
use crate::hops::{Hop, KindSetup, List, NodeId};
use crate::kind::{Fanout, KindRow};
use crate::kinds::exponential;
use crate::kinds::smallest_keys::Smallest;
use crate::limits::LOCAL_ID_BYTES;
use crate::options::GROUP;
use crate::philox::first_longs;
use crate::{Capacity, SampleError, SamplerKind};

impl SamplerKind {
    /// A layer draws nodes for all of its destinations together. A neighbour is drawn in proportion to its influence on
    /// the destinations' means (Zou et al., "Layer-Dependent Importance Sampling for Training Deep and Large Graph
    /// Convolutional Networks", NeurIPS 2019).
    pub const LADIES: Self = Self::of(&KindRow {
        name: "ladies",
        help: "Nodes drawn per layer by importance, among the neighbours of its nodes: `fanouts` are nodes per layer (LADIES)",
        fanout: Fanout::Draws { nodes: 1 },
        reads_whole_lists: true,
        // Candidates and their importance.
        node_bytes: 2 * LOCAL_ID_BYTES + 16,
        ..KindRow::LIST_BY_LIST
    });
}

/// Entries of a list, and candidates, processed together.
const CHUNK: usize = 128;

/// The largest importance of a candidate: the largest integer that a double holds exactly.
const MOST: u64 = (1 << 53) - 1;

/// The candidates of a layer, and which of them are drawn. It uses 20 bytes per node, 16 of which are touched only if a
/// layer has that many candidates.
pub struct Ladies {
    /// Numbers of the candidates, by first appearance.
    numbers: LocalIds,
    /// Their ids.
    candidates: Vec<i64>,
    /// Their importance; 0 for those not drawn.
    importance: Vec<u64>,
    smallest: Smallest,
    ids: Box<[i64; CHUNK]>,
    locals: Box<[i32; CHUNK]>,
    names: Box<[u64; CHUNK]>,
    words: Box<[u64; CHUNK]>,
}

impl Draw for Ladies {
    const KIND: SamplerKind = SamplerKind::LADIES;

    fn new(setup: &KindSetup<'_, '_>) -> Result<Self, SampleError> {
        // Numbers are 32 bits.
        let nodes = setup.graph.csc.nodes();
        let room = nodes.min(i32::MAX as usize);
        Ok(Self {
            numbers: LocalIds::new(nodes)?,
            candidates: vec![0; room],
            importance: vec![0; room],
            smallest: Smallest::new(setup.largest_fanout().min(room)),
            ids: Box::new([0; CHUNK]),
            locals: Box::new([0; CHUNK]),
            names: Box::new([0; CHUNK]),
            words: Box::new([0; CHUNK]),
        })
    }

    fn draw<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        nodes: &[i64],
        lists: &mut [List],
    ) -> Result<bool, SampleError> {
        self.numbers.begin_batch();
        let mut found = 0;
        for group in nodes.chunks(GROUP) {
            let lists = &mut lists[..group.len()];
            hop.find_lists(group, lists)?;
            for list in lists.iter() {
                self.add(hop, list, &mut found)?;
            }
        }
        if found <= hop.fanout {
            return Ok(false);
        }
        self.smallest.begin(hop.fanout);
        let mut place = 0;
        for (candidates, importance) in
            self.candidates[..found].chunks(CHUNK).zip(self.importance.chunks(CHUNK))
        {
            let names = &mut self.names[..candidates.len()];
            for (name, &node) in names.iter_mut().zip(candidates) {
                // A candidate is a node: it has a number.
                *name = hop.original_ids.map_or(node, |ids| ids[node as usize]) as u64;
            }
            let words = &mut self.words[..candidates.len()];
            first_longs(&hop.like, names, |name| hop.batch_of(name), words);
            for (&word, &importance) in words.iter().zip(importance) {
                // The stream's first word is the low one.
                self.smallest.offer(exponential::key(word as u32, importance as f64), place);
                place += 1;
            }
        }
        let mut drawn = self.smallest.finish().iter().map(|&(_, place)| place as usize).peekable();
        for (number, importance) in self.importance[..found].iter_mut().enumerate() {
            if drawn.next_if_eq(&number).is_none() {
                *importance = 0;
            }
        }
        Ok(true)
    }

    #[inline]
    fn number(&self, node: i64) -> Result<Option<usize>, RelabelError> {
        Ok(self.numbers.get(node)?.filter(|&number| self.importance[number] > 0))
    }

    #[inline]
    fn share(&self, number: usize) -> f64 {
        1.0 / self.importance[number] as f64
    }

    #[inline]
    fn weight(&self, number: usize, _: usize, sum: f64) -> f32 {
        (self.share(number) / sum) as f32
    }
}

impl Ladies {
    /// Adds the importance that a list gives its entries.
    fn add<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        list: &List,
        found: &mut usize,
    ) -> Result<(), SampleError> {
        let more = importance(list.degree);
        let mut begin = list.begin;
        for chunk in hop.indices[begin..begin + list.degree].chunks(CHUNK) {
            let (ids, locals) = (&mut self.ids[..chunk.len()], &mut self.locals[..chunk.len()]);
            for (wide, id) in ids.iter_mut().zip(chunk) {
                *wide = id.widen();
            }
            let known = *found;
            self.numbers.relabel(ids, 0, &mut self.candidates, found, locals).map_err(
                |error| match error {
                    RelabelError::NotANode { at } => hop.no_node(begin + at),
                    RelabelError::NoRoom => {
                        let (key, capacity) = (hop.batch, self.importance.len());
                        SampleError::BatchTooLarge { key, what: Capacity::Nodes, capacity }
                    }
                },
            )?;
            self.importance[known..*found].fill(0);
            for &local in locals.iter() {
                let sum = &mut self.importance[local as usize];
                *sum = (*sum + more).min(MOST);
            }
            begin += chunk.len();
        }
        Ok(())
    }
}
