//! Sequences of training nodes in which nodes that are near in the graph follow one another (BGL, Liu et al., NSDI 2023,
//! §3.2.2).

use std::collections::VecDeque;
use std::ops::Range;

use rayon::prelude::*;
use uva_graph::{Csc, Split};
use uva_options::named;

use super::out_lists::OutLists;
use crate::philox::{RandomPurpose, StreamKey, philox4x32};
use crate::{InvalidOption, SampleError};

named! {
    /// Edges along which nodes are near.
    pub enum OrderEdges = Both {
        /// All edges, in both directions; the lists of the other direction use 4 bytes per edge while the order is made.
        Both = "both",
        /// Edges from a node to the nodes of its list.
        In = "in",
    }
}

/// No position.
const NONE: u32 = u32::MAX;

/// Makes sequences of a training split's positions: breadth first through the whole graph, from roots that are drawn.
///
/// `docs/spec/reproducible-batches.md` defines them. They depend on the graph's original ids alone, so those of a reordered
/// dataset are the same.
pub struct Proximity<'g> {
    csc: Csc<'g>,
    /// The other direction, where edges of both count.
    out: Option<OutLists>,
    train: &'g [i64],
    seed: u64,
    /// For each node its first position in the split, or [`NONE`].
    first: Vec<u32>,
    /// For each position the next one of the same node, or [`NONE`]; empty where no node has two.
    next: Vec<u32>,
}

impl<'g> Proximity<'g> {
    /// For the nodes of a split of a graph.
    ///
    /// # Errors
    /// Refuses a split or a graph of 2³² − 1 nodes or more.
    ///
    /// # Panics
    /// If `train` or a list contains an id that is not a node.
    pub fn new(csc: Csc<'g>, train: &'g [i64], edges: OrderEdges, seed: u64) -> Result<Self, SampleError> {
        let (nodes, len) = (csc.nodes(), train.len());
        if len >= NONE as usize {
            return Err(InvalidOption::TooManySeeds { split: Split::Train, len }.into());
        }
        if nodes >= NONE as usize {
            return Err(InvalidOption::TooManyToFollow { nodes }.into());
        }
        let out = match edges {
            OrderEdges::In => None,
            OrderEdges::Both => {
                let order = csc.original_ids.map(in_original_order);
                Some(OutLists::new(&csc, order.as_deref()))
            }
        };
        let (mut first, mut next) = (vec![NONE; nodes], Vec::new());
        // From the last one, so that a node's first position is the one that is left.
        for position in (0..len as u32).rev() {
            let of_node = &mut first[train[position as usize] as usize];
            if *of_node != NONE {
                if next.is_empty() {
                    next = vec![NONE; len];
                }
                next[position as usize] = *of_node;
            }
            *of_node = position;
        }
        Ok(Self { csc, out, train, seed, first, next })
    }

    /// Maximum bytes that making sequences of `seeds` seeds uses in addition to the sequences, with `threads` threads.
    #[must_use]
    pub fn bytes(csc: &Csc<'_>, edges: OrderEdges, seeds: usize, threads: usize) -> u64 {
        let (nodes, seeds) = (csc.nodes() as u64, seeds as u64);
        // The out-lists are made in the order of original ids, which is there meanwhile.
        let in_order = if csc.original_ids.is_some() { 4 * nodes } else { 0 };
        let out = match edges {
            OrderEdges::In => 0,
            OrderEdges::Both => OutLists::bytes(csc.nodes(), csc.edges()).saturating_add(in_order),
        };
        // A thread has a mark and a place in the queue for each node, and its roots with their keys.
        let of_thread = nodes / 8 + 4 * nodes + size_of::<(u64, u32)>() as u64 * seeds;
        out.saturating_add(4 * nodes + 4 * seeds).saturating_add(of_thread.saturating_mul(threads as u64))
    }

    /// The sequences with these numbers, one after the other. Uses the current rayon pool; they do not depend on it.
    #[must_use]
    pub fn sequences(&self, numbers: Range<u32>) -> Vec<u32> {
        let len = self.train.len();
        let mut positions = vec![0; numbers.len() * len];
        // A split without nodes has sequences without positions.
        let rows = positions.par_chunks_mut(len.max(1));
        rows.zip(numbers.into_par_iter()).for_each(|(row, number)| self.sequence(number, row));
        positions
    }

    fn sequence(&self, number: u32, row: &mut [u32]) {
        let mut visited = Marks::new(self.csc.nodes());
        let mut queue = VecDeque::new();
        let mut given = 0;
        for root in self.roots(number) {
            let node = self.train[root as usize] as usize;
            if visited.mark(node) {
                queue.push_back(node as u32);
            }
            while let Some(node) = queue.pop_front() {
                let node = node as usize;
                let mut position = self.first[node];
                while position != NONE {
                    row[given] = position;
                    given += 1;
                    position = self.next.get(position as usize).copied().unwrap_or(NONE);
                }
                if given == row.len() {
                    return;
                }
                for entry in self.csc.indptr[node]..self.csc.indptr[node + 1] {
                    let neighbor = self.csc.indices.get(entry as usize) as usize;
                    if visited.mark(neighbor) {
                        queue.push_back(neighbor as u32);
                    }
                }
                for &neighbor in self.out.as_ref().map(|lists| lists.of(node)).unwrap_or_default() {
                    if visited.mark(neighbor as usize) {
                        queue.push_back(neighbor);
                    }
                }
            }
        }
    }

    /// The positions in the order in which a sequence takes them as roots.
    fn roots(&self, number: u32) -> impl Iterator<Item = u32> + use<> {
        let keyed = |position: u32| {
            let stream = StreamKey {
                seed: self.seed,
                node: u64::from(position),
                purpose: RandomPurpose::Proximity,
                layer: 0,
                batch: number,
                epoch: 0,
                split: Split::Train,
            };
            let [low, high, ..] = philox4x32(stream.key(), stream.counter(0));
            (u64::from(high) << 32 | u64::from(low), position)
        };
        // Not truncated: `new` refused more.
        let mut roots: Vec<_> = (0..self.train.len() as u32).map(keyed).collect();
        // No two pairs are equal, so an unstable sort has one result.
        roots.sort_unstable();
        roots.into_iter().map(|(_, position)| position)
    }
}

/// Nodes in the order of their original ids, of which each occurs once.
fn in_original_order(original_ids: &[i64]) -> Vec<u32> {
    // Not truncated: `Proximity::new` refused more.
    let mut order: Vec<u32> = (0..original_ids.len() as u32).collect();
    order.par_sort_unstable_by_key(|node| original_ids[*node as usize]);
    order
}

/// A mark for each node.
struct Marks(Vec<u64>);

impl Marks {
    fn new(nodes: usize) -> Self {
        Self(vec![0; nodes.div_ceil(64)])
    }

    /// Marks a node. Returns whether it had no mark.
    fn mark(&mut self, node: usize) -> bool {
        let (word, bit) = (&mut self.0[node / 64], 1 << (node % 64));
        let was_unmarked = *word & bit == 0;
        *word |= bit;
        was_unmarked
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uva_graph::Indices;

    use super::*;

    /// Lists as the arrays of a graph.
    fn arrays(lists: &[Vec<i64>]) -> (Vec<i64>, Vec<i64>) {
        let ends = lists.iter().scan(0, |end, list| {
            *end += list.len() as i64;
            Some(*end)
        });
        (std::iter::once(0).chain(ends).collect(), lists.concat())
    }

    const NO_LISTS: [Vec<i64>; 4] = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];

    fn sequences(lists: &[Vec<i64>], train: &[i64], edges: OrderEdges, numbers: Range<u32>) -> Vec<u32> {
        let (indptr, indices) = arrays(lists);
        let csc = Csc { indptr: &indptr, indices: Indices::I64(&indices), original_ids: None, degrees: None };
        Proximity::new(csc, train, edges, 7).unwrap().sequences(numbers)
    }

    #[test]
    fn nodes_follow_one_another_by_their_distance_from_a_root() {
        // A path of 40 nodes, each of which lists the one before it.
        let lists: Vec<Vec<i64>> =
            (0..40).map(|node| (node > 0).then_some(node - 1).into_iter().collect()).collect();
        let train: Vec<i64> = (0..40).collect();
        let both = sequences(&lists, &train, OrderEdges::Both, 0..1);
        let root = i64::from(both[0]);
        for (place, position) in both.iter().enumerate().skip(1) {
            let distance = |position: u32| (i64::from(position) - root).abs();
            assert!(distance(both[place - 1]) <= distance(*position), "{both:?}");
        }
        // Of two at the same distance, the one of the node's own list comes first.
        if root > 0 {
            assert_eq!(i64::from(both[1]), root - 1, "{both:?}");
        }
        // Along lists alone, a root is followed by all before it that are left.
        let lists_alone = sequences(&lists, &train, OrderEdges::In, 0..1);
        let root = lists_alone[0] as usize;
        assert!(lists_alone[..=root].iter().copied().eq((0..=root as u32).rev()), "{lists_alone:?}");
    }

    #[test]
    fn sequences_depend_on_neither_threads_nor_which_are_made_together() {
        let lists: Vec<Vec<i64>> =
            (0..500).map(|node: i64| vec![node * 7 % 500, node * node % 500]).collect();
        let train: Vec<i64> = (0..500).step_by(2).collect();
        let on = |threads, numbers: Range<u32>| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| sequences(&lists, &train, OrderEdges::Both, numbers))
        };
        let all = on(1, 0..6);
        assert_eq!(all, on(2, 0..6));
        assert_eq!(all, on(8, 0..6));
        assert_eq!(all[3 * 250..5 * 250], on(2, 3..5));
        assert_ne!(all[..250], all[250..500], "each has roots of its own");
    }

    #[test]
    fn a_repeated_node_gives_its_positions_one_after_the_other() {
        let train = [3, 1, 3, 0, 3];
        let made = sequences(&NO_LISTS, &train, OrderEdges::Both, 0..1);
        let at = made.iter().position(|position| *position == 0).unwrap();
        assert_eq!(made[at..at + 3], [0, 2, 4], "{made:?}");
        assert!(sequences(&NO_LISTS, &[], OrderEdges::Both, 0..3).is_empty());
    }

    proptest! {
        #[test]
        fn every_sequence_has_every_position_once(
            lists in (1_i64..40).prop_flat_map(|nodes| {
                prop::collection::vec(prop::collection::vec(0..nodes, 0..6), nodes as usize)
            }),
            share in 1_usize..4,
            both: bool,
        ) {
            let train: Vec<i64> = (0..lists.len() as i64).step_by(share).collect();
            let edges = if both { OrderEdges::Both } else { OrderEdges::In };
            for row in sequences(&lists, &train, edges, 0..3).chunks(train.len()) {
                let mut sorted = row.to_vec();
                sorted.sort_unstable();
                prop_assert!(sorted.into_iter().eq(0..train.len() as u32), "{:?}", row);
            }
        }
    }
}
