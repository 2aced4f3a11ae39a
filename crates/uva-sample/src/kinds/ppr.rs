//! Neighbours by personalised PageRank: PPRGo (Bojchevski et al., "Scaling Graph Neural Networks with Approximate
//! PageRank", KDD 2020, section 4.1).
//!
//! Consider a walk that starts at a destination and ends before each step with probability α. The PageRank of a node,
//! personalised for that destination, is the probability that the walk ends at the node. Forward push (Andersen, Chung
//! and Lang, "Local Graph Partitioning using PageRank Vectors", FOCS 2006) computes it in integers, so that every
//! implementation finds the same nodes in the same order. Nothing is random.

use std::cmp::Reverse;

use super::find_sampler::Find;
use crate::hops::{Hop, KindSetup, List, NodeId, PickResult};
use crate::kind::{Fanout, KindRow};
use crate::limits::LOCAL_ID_BYTES;
use crate::{SampleError, SamplerKind};

impl SamplerKind {
    /// A node's neighbours are the nodes of highest PageRank, personalised for it, near or far (PPRGo: Bojchevski et
    /// al., "Scaling Graph Neural Networks with Approximate PageRank", KDD 2020).
    pub const PPR: Self = Self::of(&KindRow {
        name: "ppr",
        help: "The nodes of highest personalised PageRank: `fanouts` are their numbers (PPRGo)",
        fanout: Fanout::Found,
        reads_whole_graph: true,
        // Place of each reached node.
        node_bytes: 2 * LOCAL_ID_BYTES,
        ..KindRow::LIST_BY_LIST
    });
}

/// The initial mass of a destination.
const ALL: u64 = 1 << 40;

/// The inverse of the share of a node's mass that stays there: α = 1/4.
const STAYS: u64 = 4;

/// A node passes its mass on if it has this much per entry of its list: ε = 2⁻¹⁰ of all mass.
const LEAST: u64 = ALL >> 10;

/// The maximum number of pushes in addition to the destination's own, and of entries that they follow. Each push
/// settles mass at its node permanently, at least `LEAST / STAYS` per entry.
const MOST_ENTRIES: usize = (ALL / (LEAST / STAYS)) as usize;

/// A node reached by mass.
struct Reached {
    node: usize,
    /// The entry by which mass first arrived.
    entry: usize,
    /// Mass to pass on, and mass that stays.
    waits: u64,
    stays: u64,
    /// The node passes its mass on once it has this much.
    least: u64,
    queued: bool,
}

/// Samples the nodes of highest PageRank. It uses 4 bytes per node, and memory for the nodes reached from one
/// destination.
pub struct Ppr {
    /// The place of each reached node; undefined for the others.
    places: Vec<u32>,
    /// By first arrival; the destination is the first.
    reached: Vec<Reached>,
    /// Places of the nodes that will pass their mass on, in that order.
    queue: Vec<u32>,
    /// For each reached node except the destination: its score, and its place.
    ranked: Vec<(Reverse<u64>, u32)>,
}

impl Find for Ppr {
    const KIND: SamplerKind = SamplerKind::PPR;

    fn new(setup: &KindSetup<'_, '_>) -> Self {
        let graph = &setup.graph;
        let nodes = graph.csc.nodes();
        let lengths = graph.csc.indptr.windows(2).map(|ends| ends[1].wrapping_sub(ends[0]));
        // An invalid length is an error once the list is read.
        let longest = lengths.filter_map(|length| usize::try_from(length).ok()).max().unwrap_or(0);
        let most = MOST_ENTRIES.saturating_add(longest).saturating_add(1).min(nodes);
        Self {
            places: vec![0; nodes],
            reached: Vec::with_capacity(most),
            queue: Vec::with_capacity(MOST_ENTRIES + 1),
            ranked: Vec::with_capacity(most),
        }
    }

    fn find<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        nodes: &[i64],
        lists: &mut [List],
        found: &mut Vec<(usize, f32)>,
    ) -> PickResult {
        for (list, &node) in lists.iter_mut().zip(nodes) {
            self.push(hop, node as usize)?;
            list.picks = self.highest(hop.fanout, found);
        }
        Ok(())
    }
}

impl Ppr {
    /// Passes mass on from `destination`, which is a node, until no other node has enough of it.
    fn push<I: NodeId>(&mut self, hop: &Hop<'_, I>, destination: usize) -> PickResult {
        self.reached.clear();
        self.queue.clear();
        // The destination is not reached by an entry, so its entry is never read.
        let start = self.place(hop, destination, usize::MAX)?;
        self.reached[start].waits = ALL;
        self.reached[start].queued = true;
        self.queue.push(start as u32);
        let mut next = 0;
        while let Some(&place) = self.queue.get(next) {
            next += 1;
            let from = &mut self.reached[place as usize];
            let mass = std::mem::take(&mut from.waits);
            from.queued = false;
            let (begin, degree) = hop.place_of_list(from.node)?;
            let share = (mass - mass / STAYS) / (degree as u64).max(1);
            // The remainder of the division stays, and all mass stays if the list is empty.
            from.stays += mass - share * degree as u64;
            for entry in begin..begin + degree {
                let node = hop.indices[entry].widen();
                let Some(node) = usize::try_from(node).ok().filter(|&node| node < self.places.len()) else {
                    return Err(hop.no_node(entry));
                };
                let place = self.place(hop, node, entry)?;
                let to = &mut self.reached[place];
                to.waits += share;
                if to.waits >= to.least && !to.queued {
                    to.queued = true;
                    self.queue.push(place as u32);
                }
            }
        }
        Ok(())
    }

    /// The place of a reached node. A node that was not reached before is added, along `entry`.
    #[inline]
    fn place<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        node: usize,
        entry: usize,
    ) -> Result<usize, SampleError> {
        let place = self.places[node] as usize;
        if self.reached.get(place).is_some_and(|reached| reached.node == node) {
            return Ok(place);
        }
        let (_, degree) = hop.place_of_list(node)?;
        let least = LEAST * (degree as u64).max(1);
        let place = self.reached.len();
        self.places[node] = place as u32;
        self.reached.push(Reached { node, entry, waits: 0, stays: 0, least, queued: false });
        Ok(place)
    }

    /// Picks the nodes of highest score except the destination; ties go to the node reached first. Returns their
    /// number.
    fn highest(&mut self, fanout: usize, found: &mut Vec<(usize, f32)>) -> usize {
        // Of the mass that still waits, α would stay.
        let score = |reached: &Reached| STAYS * reached.stays + reached.waits;
        self.ranked.clear();
        self.ranked.extend((0..).zip(&self.reached).skip(1).map(|(at, node)| (Reverse(score(node)), at)));
        if self.ranked.len() > fanout {
            self.ranked.select_nth_unstable(fanout);
            self.ranked.truncate(fanout);
        }
        self.ranked.sort_unstable();
        let all: u64 = self.ranked.iter().map(|(score, _)| score.0).sum();
        // Below 2⁴³: a double holds each exactly.
        let weight = |score: u64| (score as f64 / all as f64) as f32;
        found.extend(
            self.ranked.iter().map(|&(score, at)| (self.reached[at as usize].entry, weight(score.0))),
        );
        self.ranked.len()
    }
}
