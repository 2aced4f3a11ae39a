//! Clusters by label propagation with limits on their sizes (Meyerhenke, Sanders and Schulz 2014).

use rayon::prelude::*;

use crate::graphs::tally::LabelTally;
use crate::graphs::weighted::{Size, WeightedGraph};
use crate::methods::blocks::search::{Blocks, Caps};

/// Passes over the nodes.
const PASSES: usize = 5;

/// The number of groups of nodes in a pass.
const GROUPS: usize = 64;

/// A pass that moves fewer than one node in this many is the last. More passes find better clusters in some graphs and
/// worse ones in others. With the largest clusters assigned first, the share of lists of other parts that batches read
/// on oewn was 0.049 with one in 1000 and 0.063 with one in 20. On a graph with power-law degrees it was 0.48 and
/// 0.317.
const FEWEST: usize = 20;

/// Clusters of nodes that have many edges between them, at most `caps` each.
///
/// Every node begins as its own cluster. A pass processes the nodes in `order`, cut into 64 groups. The nodes of a
/// group are compared with the clusters before the group, so the number of threads changes nothing. A node proposes to
/// join the cluster to which it has the most edges, among those with room for it; ties go to the first. It must have
/// more edges to that cluster than to its own. With `within`, edges to nodes of another part do not count.
///
/// Proposals are carried out in order, each if there is still room and the cluster still has a node. A pass that moves
/// fewer than a twentieth of the nodes is the last. Clusters are numbered by the first of their nodes in `order`. Uses
/// the current rayon pool.
pub(crate) fn cluster(
    graph: &impl WeightedGraph,
    order: &[u32],
    caps: Caps,
    within: Option<&[u16]>,
) -> Blocks {
    let count = graph.count();
    let mut of: Vec<u32> = (0..count as u32).collect();
    let mut sizes: Vec<Size> = (0..count as u32).map(|node| graph.size(node)).collect();
    let group = order.len().div_ceil(GROUPS).max(1);
    for _ in 0..PASSES {
        let mut moved = 0;
        for nodes in order.chunks(group) {
            let judge = Judge { graph, of: &of, sizes: &sizes, caps, within };
            let wishes: Vec<(u32, u32)> = nodes
                .par_iter()
                .map_init(LabelTally::new, |tally, &node| judge.wish(node, tally).map(|to| (node, to)))
                .flatten_iter()
                .collect();
            for (node, to) in wishes {
                let (from, size, into) = (of[node as usize], graph.size(node), sizes[to as usize]);
                if into.nodes > 0 && has_room(into, size, caps) {
                    sizes[from as usize].nodes -= size.nodes;
                    sizes[from as usize].train -= size.train;
                    sizes[to as usize] =
                        Size { nodes: into.nodes + size.nodes, train: into.train + size.train };
                    of[node as usize] = to;
                    moved += 1;
                }
            }
        }
        if moved * FEWEST < count {
            break;
        }
    }
    numbered(order, &of, &sizes)
}

fn has_room(cluster: Size, size: Size, caps: Caps) -> bool {
    cluster.nodes + size.nodes <= caps.nodes && (size.train == 0 || cluster.train + size.train <= caps.train)
}

struct Judge<'j, G> {
    graph: &'j G,
    of: &'j [u32],
    sizes: &'j [Size],
    caps: Caps,
    within: Option<&'j [u16]>,
}

impl<G: WeightedGraph> Judge<'_, G> {
    /// The cluster that a node would join.
    fn wish(&self, node: u32, tally: &mut LabelTally) -> Option<u32> {
        let (own, size) = (self.of[node as usize], self.graph.size(node));
        for (other, edges) in self.graph.edges_of(node) {
            if self.within.is_none_or(|of| of[other as usize] == of[node as usize]) {
                tally.add(self.of[other as usize], edges);
            }
        }
        let (mut best, mut most) = (None, tally.sum(own));
        for (cluster, sum) in tally.sums().filter(|&(cluster, _)| cluster != own) {
            let is_better = sum > most || sum == most && best.is_some_and(|best| cluster < best);
            // Most clusters have too few edges: only the sizes of the others are read.
            if is_better && has_room(self.sizes[cluster as usize], size, self.caps) {
                (best, most) = (Some(cluster), sum);
            }
        }
        tally.clear();
        best
    }
}

fn numbered(order: &[u32], of: &[u32], sizes: &[Size]) -> Blocks {
    let mut numbers = vec![u32::MAX; of.len()];
    let mut blocks = Blocks { of: vec![0; of.len()], nodes: Vec::new(), train: Vec::new() };
    for &node in order {
        let cluster = of[node as usize] as usize;
        if numbers[cluster] == u32::MAX {
            numbers[cluster] = blocks.count() as u32;
            blocks.nodes.push(sizes[cluster].nodes);
            blocks.train.push(sizes[cluster].train);
        }
        blocks.of[node as usize] = numbers[cluster];
    }
    blocks
}
