//! Random orders. Sources of blocks, refinement, the method `random` and a shuffled scan follow that of the nodes.

use rayon::prelude::*;
use uva_graph::Split;
use uva_sample::philox::{RandomPurpose, StreamKey, philox4x32};

/// The layer of the order's random words; layers 0 and 1 of the purpose are orders of seeds.
const LAYER: u32 = 2;

/// All nodes by (key, id): the key is the first 64 bits of the node's stream. Uses the current rayon pool.
pub(crate) fn by_key(nodes: usize, seed: u64) -> Vec<u32> {
    another(nodes, seed, 0)
}

/// Another such order for each `number`; number 0 is the order of the nodes.
pub(crate) fn another(nodes: usize, seed: u64, number: u32) -> Vec<u32> {
    // Not truncated: graphs of more nodes are refused.
    let mut keyed: Vec<(u64, u32)> =
        (0..nodes as u32).into_par_iter().map(|node| (key(seed, node, number), node)).collect();
    // No two pairs are equal, so an unstable sort has one result.
    keyed.par_sort_unstable();
    keyed.into_iter().map(|(_, node)| node).collect()
}

fn key(seed: u64, node: u32, number: u32) -> u64 {
    let stream = StreamKey {
        seed,
        node: u64::from(node),
        purpose: RandomPurpose::Proximity,
        layer: LAYER,
        batch: number,
        epoch: 0,
        split: Split::Train,
    };
    let [low, high, ..] = philox4x32(stream.key(), stream.counter(0));
    u64::from(high) << 32 | u64::from(low)
}
