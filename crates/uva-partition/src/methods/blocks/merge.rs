//! Merges small blocks with large ones and with each other.

use std::cmp::Reverse;

use crate::methods::blocks::block_graph::BlockGraph;
use crate::methods::blocks::search::{Blocks, Caps};

/// One block in this many is large.
const LARGE: usize = 10;

/// Merges small blocks. The largest tenth are large; between equal blocks, the smaller number decides.
///
/// Small blocks are processed in the order of their numbers. A small block with large neighbours joins one of them: the
/// one with the most edges to it, then with the smallest number, among those that then have at most twice `caps`. The
/// remaining small blocks are combined in the order of their numbers, each with the one before as long as both fit into
/// `caps`. That order is random, as that of their sources is. Merged blocks are numbered by the smallest number in
/// them.
pub(crate) fn merge(blocks: &Blocks, graph: &BlockGraph, caps: Caps) -> Blocks {
    let count = blocks.count();
    let mut by_size: Vec<u32> = (0..count as u32).collect();
    by_size.sort_unstable_by_key(|&block| (Reverse(blocks.nodes[block as usize]), block));
    let mut is_large = vec![false; count];
    by_size.iter().take(count.div_ceil(LARGE)).for_each(|&block| is_large[block as usize] = true);

    // For each block, the block whose number it takes.
    let mut joins: Vec<u32> = (0..count as u32).collect();
    let (mut nodes, mut train) = (blocks.nodes.clone(), blocks.train.clone());
    let mut last: Option<u32> = None;
    for small in (0..count as u32).filter(|&block| !is_large[block as usize]) {
        let (own_nodes, own_train) = (blocks.nodes[small as usize], blocks.train[small as usize]);
        let fits = |into: u32, times: u64, nodes: &[u64], train: &[u64]| {
            nodes[into as usize] + own_nodes <= times.saturating_mul(caps.nodes)
                && train[into as usize] + own_train <= times.saturating_mul(caps.train)
        };
        let large = graph.neighbours(small).filter(|&(other, _)| is_large[other as usize]);
        let best = large
            .filter(|&(other, _)| fits(other, 2, &nodes, &train))
            .max_by_key(|&(other, edges)| (edges, Reverse(other)));
        let into = match (best, last) {
            (Some((large, _)), _) => large,
            (None, Some(last)) if fits(last, 1, &nodes, &train) => last,
            (None, _) => {
                last = Some(small);
                continue;
            }
        };
        joins[small as usize] = into;
        nodes[into as usize] += own_nodes;
        train[into as usize] += own_train;
    }
    renumbered(blocks, &joins)
}

/// The merged blocks, renumbered in the order of the smallest old number.
fn renumbered(blocks: &Blocks, joins: &[u32]) -> Blocks {
    let mut numbers = vec![u32::MAX; joins.len()];
    let mut merged = Blocks { of: Vec::new(), nodes: Vec::new(), train: Vec::new() };
    for (block, &into) in joins.iter().enumerate() {
        let number = &mut numbers[into as usize];
        if *number == u32::MAX {
            *number = merged.count() as u32;
            merged.nodes.push(0);
            merged.train.push(0);
        }
        merged.nodes[*number as usize] += blocks.nodes[block];
        merged.train[*number as usize] += blocks.train[block];
    }
    merged.of = blocks.of.iter().map(|&block| numbers[joins[block as usize] as usize]).collect();
    merged
}
