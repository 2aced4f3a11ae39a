//! Linear deterministic greedy (Stanton and Kliot 2012): nodes one after the other.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use uva_graph::Progress;

use crate::graphs::graph::OriginalGraph;

/// Not assigned yet.
const NONE: u16 = u16::MAX;

/// Nodes between two reports of progress.
const STEP: usize = 1 << 16;

/// The part of each node. Nodes are assigned in the order of their ids. Each goes to the part with the largest
/// `neighbours(i) · (1 − nodes(i) / (N / k))`, both directions counted; ties go to the smallest part, then to the
/// first. The same holds for a node without neighbours in any part.
pub(crate) fn assign(graph: &OriginalGraph<'_>, parts: u32, progress: &dyn Fn(Progress)) -> Vec<u16> {
    let nodes = graph.nodes();
    let mut of = vec![NONE; nodes];
    let mut sizes = vec![0_u64; parts as usize];
    // Parts ordered by size, so that the smallest is found quickly for any number of parts.
    let mut by_size: BTreeSet<(u64, u16)> = (0..parts as u16).map(|part| (0, part)).collect();
    let (mut neighbours, mut touched) = (vec![0_u64; parts as usize], Vec::new());
    for node in 0..nodes {
        if node.is_multiple_of(STEP) {
            progress(Progress { stage: "stream", done: node as u64, total: nodes as u64 });
        }
        for neighbour in graph.neighbours(node as u32) {
            let part = of[neighbour as usize];
            if part != NONE {
                if neighbours[usize::from(part)] == 0 {
                    touched.push(part);
                }
                neighbours[usize::from(part)] += 1;
            }
        }
        let score = |part: u16| {
            let (size, found) = (sizes[usize::from(part)], neighbours[usize::from(part)]);
            u128::from(found) * u128::from((nodes as u64).saturating_sub(u64::from(parts) * size))
        };
        let best = touched
            .iter()
            .map(|&part| (score(part), Reverse((sizes[usize::from(part)], part))))
            .max()
            .filter(|(score, _)| *score > 0);
        let (size, part) = match (best, by_size.first()) {
            (Some((_, Reverse(best))), _) => best,
            (None, Some(&smallest)) => smallest,
            (None, None) => (0, 0),
        };
        for part in touched.drain(..) {
            neighbours[usize::from(part)] = 0;
        }
        of[node] = part;
        by_size.remove(&(size, part));
        by_size.insert((size + 1, part));
        sizes[usize::from(part)] = size + 1;
    }
    of
}
