//! One number that names a batch's content.
//!
//! The hash is a sum over all values, each mixed with its place, so it has no order: a GPU, or several threads, can
//! compute it in any order and get the same.

use uva_graph::mix;

use crate::BlockRef;

const TAG_SEEDS: u64 = 0;
const TAG_NODES: u64 = 1;
/// The first layer's; the blocks have 16 to 79.
const TAG_WEIGHTS: u64 = 128;

/// The sum of one array: `mix(mix(tag · 2⁵⁶ + i) xor value)` over its positions `i`, modulo 2⁶⁴.
#[inline]
fn array(tag: u64, values: impl Iterator<Item = u64>) -> u64 {
    (tag << 56..).zip(values).map(|(place, value)| mix(mix(place) ^ value)).fold(0, u64::wrapping_add)
}

/// What the node ids add: the seeds, then all nodes. Both are original ids.
pub(crate) fn nodes(original_ids: impl Iterator<Item = u64> + Clone, seeds: usize) -> u64 {
    array(TAG_SEEDS, original_ids.clone().take(seeds)).wrapping_add(array(TAG_NODES, original_ids))
}

/// What the block of one layer adds.
pub(crate) fn block(layer: usize, indptr: &[i32], indices: &[i32]) -> u64 {
    let tag = 16 + 2 * layer as u64;
    // Local ids and offsets are never negative, so widening keeps their value.
    let value = |&value: &i32| u64::from(value as u32);
    array(tag, indptr.iter().map(value)).wrapping_add(array(tag + 1, indices.iter().map(value)))
}

/// What the weights of one layer's edges add: nothing where there are none.
pub(crate) fn weights(layer: usize, weights: &[f32]) -> u64 {
    array(TAG_WEIGHTS + layer as u64, weights.iter().map(|weight| u64::from(weight.to_bits())))
}

/// The hash of a batch: `nodes` are the *original* ids of its nodes, the first `seeds` of them its seeds; `blocks`
/// start at the seeds. Printed as 16 hexadecimal digits.
///
/// [`BatchCounts::hash`](crate::BatchCounts::hash) is this number; call it to check a batch that came from elsewhere.
#[must_use]
pub fn batch_hash(original_ids: &[i64], seeds: usize, blocks: &[BlockRef<'_>]) -> u64 {
    let nodes = nodes(original_ids.iter().map(|&id| id as u64), seeds);
    blocks.iter().enumerate().fold(nodes, |sum, (layer, of_layer)| {
        sum.wrapping_add(block(layer, of_layer.indptr, of_layer.indices))
            .wrapping_add(weights(layer, of_layer.weights))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixer_is_that_of_splitmix64() {
        // The first outputs of splitmix64 seeded with 0, as published with the generator.
        let step = 0x9E37_79B9_7F4A_7C15_u64;
        assert_eq!(mix(step), 0xE220_A839_7B1D_CDAF);
        assert_eq!(mix(step.wrapping_mul(2)), 0x6E78_9E6A_A1B9_65F4);
        assert_eq!(mix(step.wrapping_mul(3)), 0x06C4_5D18_8009_454F);
    }

    #[test]
    fn every_value_and_every_place_counts() {
        let indptr = [0, 2];
        let block = |indices| {
            let (edge_ids, weights) = (&[][..], &[][..]);
            BlockRef { destinations: 1, sources: 3, indptr: &indptr, indices, edge_ids, weights }
        };
        let base = batch_hash(&[5, 6, 7], 1, &[block(&[1, 2])]);
        assert_ne!(base, batch_hash(&[5, 7, 6], 1, &[block(&[1, 2])]));
        assert_ne!(base, batch_hash(&[5, 6, 7], 2, &[block(&[1, 2])]));
        assert_ne!(base, batch_hash(&[5, 6, 7], 1, &[block(&[2, 1])]));
        let weighed = |weights| batch_hash(&[5, 6, 7], 1, &[BlockRef { weights, ..block(&[1, 2]) }]);
        let hashes = [base, weighed(&[0.0, 0.0]), weighed(&[0.5, 1.0]), weighed(&[1.0, 0.5])];
        assert!((1..4).all(|at| !hashes[..at].contains(&hashes[at])));
        assert_ne!(
            batch_hash(&[5], 1, &[block(&[]), block(&[1])]),
            batch_hash(&[5], 1, &[block(&[1]), block(&[])])
        );
    }
}
