//! The edges between parts, and their balance.

use rayon::prelude::*;

/// Nodes that one task goes over.
const TASK: usize = 1 << 14;

/// The lists of in-neighbours of nodes.
pub(crate) trait InLists {
    /// The entries of a node's list.
    fn in_list(&self, node: usize) -> impl Iterator<Item = usize>;
}

/// Entries of neighbour lists whose node is in another part than the list's. Uses the current rayon pool.
pub(crate) fn edge_cut(graph: &(impl InLists + Sync), of: &[u16]) -> u64 {
    let of_task = |(task, parts): (usize, &[u16])| {
        let nodes = task * TASK..;
        let cut = |(node, part): (usize, &u16)| {
            graph.in_list(node).filter(|neighbour| of[*neighbour] != *part).count() as u64
        };
        nodes.zip(parts).map(cut).sum::<u64>()
    };
    of.par_chunks(TASK).enumerate().map(of_task).sum()
}

/// The most over the mean: 1 where all are equal, or nothing is there.
#[must_use]
pub fn over_mean(counts: &[u64]) -> f64 {
    // Numbers of a file, which may be any.
    match (counts.iter().max(), counts.iter().map(|&count| u128::from(count)).sum::<u128>()) {
        (Some(&most), all) if all > 0 => most as f64 * counts.len() as f64 / all as f64,
        _ => 1.0,
    }
}
