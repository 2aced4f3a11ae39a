//! Neighbours found by random walks: PinSAGE (Ying et al., "Graph Convolutional Neural Networks for Web-Scale
//! Recommender Systems", KDD 2018, section 3.1).
//!
//! From each destination, several walks follow the lists. The nodes that they visit most are its neighbours, however
//! far they are. An edge weighs its node's share of the visits, which is the paper's importance pooling.

use std::cmp::Reverse;

use super::find_sampler::Find;
use crate::hops::{Hop, KindSetup, List, NodeId, PickResult};
use crate::kind::{Fanout, KindRow};
use crate::options::GROUP;
use crate::philox::{PhiloxStream, RandomPurpose, StreamKey};
use crate::{SamplerKind, Walks};

impl SamplerKind {
    /// A node's neighbours are the nodes most visited by random walks from it, near or far (PinSAGE: Ying et al.,
    /// "Graph Convolutional Neural Networks for Web-Scale Recommender Systems", KDD 2018).
    pub const WALK: Self = Self::of(&KindRow {
        name: "walk",
        help: "The nodes that random walks visit most: `fanouts` are their numbers (PinSAGE)",
        fanout: Fanout::Found,
        walks: true,
        ..KindRow::LIST_BY_LIST
    });
}

/// Steps buffered at a time. The walks of several destinations, with about this many steps in total, advance together,
/// so no step waits for another one's memory access. With 40 steps per node this is a whole group:
/// `bench sample --sampler-kind walk --fanouts 10,5` on the demo's graph takes 19.6 ms per batch on one core, and 24.9
/// ms with one destination at a time.
const STEPS: usize = 1 << 14;

/// Marks a step without a visit, and a walk that has ended.
const NOWHERE: usize = usize::MAX;

/// Samples the nodes that walks visit.
pub struct Walk {
    walks: Walks,
    /// Random words of each destination of the piece.
    streams: Vec<PhiloxStream>,
    /// The current node of each destination's walk.
    at: Vec<usize>,
    /// The entry that each step followed, or [`NOWHERE`]; the destinations are concatenated.
    entries: Vec<usize>,
    /// Nodes visited from one destination, each with its step.
    visits: Vec<(i64, u32)>,
    /// The number of visits and the first step of each visited node.
    counted: Vec<(Reverse<u32>, u32)>,
}

impl Find for Walk {
    const KIND: SamplerKind = SamplerKind::WALK;
    const PURPOSE: RandomPurpose = RandomPurpose::Walks;

    fn new(setup: &KindSetup<'_, '_>) -> Self {
        let walks = setup.options.walks;
        let steps = walks.steps();
        let piece = piece(steps);
        Self {
            walks,
            streams: Vec::with_capacity(piece),
            at: Vec::with_capacity(piece),
            entries: Vec::with_capacity(piece * steps),
            visits: Vec::with_capacity(steps),
            counted: Vec::with_capacity(steps),
        }
    }

    fn find<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        nodes: &[i64],
        lists: &mut [List],
        found: &mut Vec<(usize, f32)>,
    ) -> PickResult {
        let piece = piece(self.walks.steps());
        for (nodes, lists) in nodes.chunks(piece).zip(lists.chunks_mut(piece)) {
            self.walk(hop, nodes, lists)?;
            for (number, (list, &node)) in lists.iter_mut().zip(nodes).enumerate() {
                list.picks = self.most_visited(hop, number, node, found);
            }
        }
        Ok(())
    }
}

/// Number of destinations whose walks advance together.
fn piece(steps: usize) -> usize {
    (STEPS / steps.max(1)).clamp(1, GROUP)
}

impl Walk {
    /// Walks from each node of a piece.
    fn walk<I: NodeId>(&mut self, hop: &Hop<'_, I>, nodes: &[i64], lists: &[List]) -> PickResult {
        let Self { walks, streams, at, entries, .. } = self;
        let steps = walks.steps();
        let key = |list: &List| StreamKey { node: list.key, batch: list.batch, ..hop.like };
        streams.clear();
        streams.extend(lists.iter().map(|list| key(list).stream()));
        entries.clear();
        entries.resize(nodes.len() * steps, NOWHERE);
        for step in 0..steps {
            let first = step % walks.length as usize == 0;
            if first {
                at.clear();
                at.extend(nodes.iter().map(|&node| node as usize));
            }
            let places = entries.iter_mut().skip(step).step_by(steps);
            for ((at, stream), entry) in at.iter_mut().zip(&mut *streams).zip(places) {
                if *at == NOWHERE {
                    continue;
                }
                if !first && walks.stop > 0 && stream.bounded(100) < walks.stop {
                    *at = NOWHERE;
                    continue;
                }
                let (begin, degree) = hop.place_of_list(*at)?;
                if degree == 0 {
                    *at = NOWHERE;
                    continue;
                }
                // Lists have fewer than 2^32 entries, checked before the first batch.
                let drawn = stream.bounded(u32::try_from(degree).unwrap_or(u32::MAX));
                *entry = begin + drawn as usize;
                let node = hop.indices[*entry].widen();
                match usize::try_from(node) {
                    Ok(next) if next + 1 < hop.indptr.len() => *at = next,
                    _ => return Err(hop.no_node(*entry)),
                }
            }
        }
        Ok(())
    }

    /// Picks the nodes visited most from `node`, the piece's destination with this number; ties go to the node visited
    /// first. Returns their number.
    fn most_visited<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        number: usize,
        node: i64,
        found: &mut Vec<(usize, f32)>,
    ) -> usize {
        let steps = self.walks.steps();
        let entries = &self.entries[number * steps..(number + 1) * steps];
        self.visits.clear();
        let there = (0..).zip(entries).filter(|(_, entry)| **entry != NOWHERE);
        let visits = there.map(|(step, &entry)| (hop.indices[entry].widen(), step));
        self.visits.extend(visits.filter(|&(visited, _)| visited != node));
        self.visits.sort_unstable();
        self.counted.clear();
        let same = self.visits.chunk_by(|one, other| one.0 == other.0);
        self.counted.extend(same.map(|visits| (Reverse(visits.len() as u32), visits[0].1)));
        self.counted.sort_unstable();
        self.counted.truncate(hop.fanout);
        let all: u32 = self.counted.iter().map(|(count, _)| count.0).sum();
        let weight = |count: u32| (f64::from(count) / f64::from(all)) as f32;
        found.extend(self.counted.iter().map(|&(count, step)| (entries[step as usize], weight(count.0))));
        self.counted.len()
    }
}
