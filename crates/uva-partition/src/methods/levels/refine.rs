//! Refinement: label propagation with limits on the sizes of parts.

use std::cmp::Reverse;

use rayon::prelude::*;
use uva_graph::Progress;

use crate::graphs::limits::PartSizes;
use crate::graphs::tally::LabelTally;
use crate::graphs::weighted::{Size, WeightedGraph};

/// The number of groups of nodes in a pass.
const GROUPS: usize = 64;

/// A pass that moves fewer than one node in this many is the last.
const FEWEST: usize = 1000;

/// Moves nodes to the parts of their neighbours, in at most `passes` passes.
///
/// A pass processes the nodes in `order`, cut into 64 groups. The nodes of a group are compared with the parts before
/// the group, so the number of threads changes nothing:
///
/// 1. A node goes to the part that has most of its neighbours, of those with room for it, if that has more of them than
///    its own part. Both directions count; of equal parts the first.
/// 2. Else, if its part has too many nodes, or too many training nodes and it is one, it goes to the part with room
///    that has most of its neighbours, and if none has one to the part with room that has the fewest (training) nodes.
///
/// Moves are carried out in order, each if there is still room, and one of the second kind if its part still has too
/// many. Uses the current rayon pool.
pub(crate) fn refine(
    graph: &impl WeightedGraph,
    order: &[u32],
    of: &mut [u16],
    parts: u32,
    passes: u32,
    progress: &dyn Fn(Progress),
) {
    let mut sizes = PartSizes::of(of, parts, |node| graph.size(node));
    let group = order.len().div_ceil(GROUPS).max(1);
    for pass in 0..passes {
        let mut moved = 0;
        for (done, nodes) in order.chunks(group).enumerate() {
            let done = u64::from(pass) * GROUPS as u64 + done as u64;
            progress(Progress { stage: "refine", done, total: u64::from(passes) * GROUPS as u64 });
            let judge = Judge::of(graph, of, &sizes);
            let wishes: Vec<ProposedMove> = nodes
                .par_iter()
                .map_init(LabelTally::new, |tally, &node| judge.wish(node, tally))
                .flatten_iter()
                .collect();
            for wish in wishes {
                let (from, size) = (usize::from(of[wish.node as usize]), graph.size(wish.node));
                let to = usize::from(wish.to);
                if sizes.has_room(to, size) && (wish.gains || sizes.is_over(from, size)) {
                    of[wish.node as usize] = wish.to;
                    sizes.move_one(from, to, size);
                    moved += 1;
                }
            }
        }
        if moved * FEWEST < order.len() {
            return;
        }
    }
}

/// A proposed move of a node.
struct ProposedMove {
    node: u32,
    to: u16,
    /// Whether the node has more neighbours there; otherwise its part has too many nodes.
    gains: bool,
}

/// The parts before a group.
struct Judge<'j, G> {
    graph: &'j G,
    of: &'j [u16],
    sizes: &'j PartSizes,
    /// The part with room and the fewest nodes, and that with room for a training node and the fewest of them.
    emptiest: [Option<u16>; 2],
}

impl<'j, G: WeightedGraph> Judge<'j, G> {
    fn of(graph: &'j G, of: &'j [u16], sizes: &'j PartSizes) -> Judge<'j, G> {
        let emptiest = |train| emptiest(sizes, Size { nodes: 1, train });
        Judge { graph, of, sizes, emptiest: [emptiest(0), emptiest(1)] }
    }

    fn wish(&self, node: u32, tally: &mut LabelTally) -> Option<ProposedMove> {
        let (own, size) = (self.of[node as usize], self.graph.size(node));
        for (neighbour, edges) in self.graph.edges_of(node) {
            tally.add(u32::from(self.of[neighbour as usize]), edges);
        }
        // Parts are u16.
        let others = tally.sums().map(|(part, _)| part as u16).filter(|part| *part != own);
        let sum = |part: u16| tally.sum(u32::from(part));
        let best = others
            .filter(|part| self.sizes.has_room(usize::from(*part), size))
            .max_by_key(|part| (sum(*part), Reverse(*part)));
        let gains = best.is_some_and(|best| sum(best) > sum(own));
        tally.clear();
        if gains {
            return best.map(|to| ProposedMove { node, to, gains });
        }
        if !self.sizes.is_over(usize::from(own), size) {
            return None;
        }
        let with_room = || match size {
            Size { nodes: 1, train } => self.emptiest[usize::from(train > 0)],
            size => emptiest(self.sizes, size),
        };
        let to = best.or_else(with_room)?;
        Some(ProposedMove { node, to, gains })
    }
}

/// The part with room for this size and the fewest nodes, or the fewest training nodes for a size with training nodes.
fn emptiest(sizes: &PartSizes, size: Size) -> Option<u16> {
    let with_room = (0..sizes.nodes.len()).filter(|part| sizes.has_room(*part, size));
    let having = |part: &usize| if size.train > 0 { sizes.train[*part] } else { sizes.nodes[*part] };
    with_room.min_by_key(|part| (having(part), *part)).map(|part| part as u16)
}
