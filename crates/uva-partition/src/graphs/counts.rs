//! The edges between parts, and their balance.

use rayon::prelude::*;

/// Nodes per task.
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

/// The largest count divided by the mean: 1 if all are equal or there are none.
#[must_use]
pub fn over_mean(counts: &[u64]) -> f64 {
    // The numbers may come from a file, so any values are possible.
    match (counts.iter().max(), counts.iter().map(|&count| u128::from(count)).sum::<u128>()) {
        (Some(&most), all) if all > 0 => most as f64 * counts.len() as f64 / all as f64,
        _ => 1.0,
    }
}
