//! The hash of a batch's content.
//!
//! The hash is a sum over all values, each mixed with its position, so it does not depend on their order. A GPU or
//! several threads can compute it in any order with the same result.

use uva_graph::{NodeType, Relation, mix};
use uva_ops::{Vectors, vectorized};

use crate::BlockRef;

const TAG_SEEDS: u64 = 0;
const TAG_NODES: u64 = 1;
const TAG_TREES: u64 = 2;
const TAG_SEED_TIMES: u64 = 3;
/// The tag of the first layer; the blocks have 16 to 79.
const TAG_WEIGHTS: u64 = 128;

/// The place of an array's first value: its tag, and its scope (the node type or relation that it belongs to).
/// Positions are below 2³², so no two arrays share a place.
const fn first_place(tag: u64, scope: u16) -> u64 {
    tag << 56 | (scope as u64) << 32
}

/// The sum of one array: `mix(mix(tag · 2⁵⁶ + scope · 2³² + i) xor value)` over its positions `i`, modulo 2⁶⁴.
#[inline(always)]
fn array<const LANES: usize, T: Copy>(first: u64, values: &[T], widened: impl Fn(T) -> u64) -> u64 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut place = first;
    // One sum per lane: otherwise the chain of additions would be as long as the array.
    let mut sums = [0_u64; LANES];
    for chunk in chunks {
        for lane in 0..LANES {
            let mixed = mix(mix(place.wrapping_add(lane as u64)) ^ widened(chunk[lane]));
            sums[lane] = sums[lane].wrapping_add(mixed);
        }
        place = place.wrapping_add(LANES as u64);
    }
    let mut sum = sums.into_iter().fold(0, u64::wrapping_add);
    for &value in rest {
        sum = sum.wrapping_add(mix(mix(place) ^ widened(value)));
        place = place.wrapping_add(1);
    }
    sum
}

vectorized! {
    /// The sum of an array of ids, or of times as 64-bit two's complement.
    fn ids<const LANES: usize>(first: u64, ids: &[i64]) -> u64 {
        array::<LANES, _>(first, ids, |id| id as u64)
    }
}

vectorized! {
    /// The sum of an array of local ids or offsets. They are never negative, so widening keeps their value.
    fn local_ids<const LANES: usize>(first: u64, values: &[i32]) -> u64 {
        array::<LANES, _>(first, values, |value| u64::from(value as u32))
    }
}

vectorized! {
    /// The sum of an array of weights.
    fn weight_bits<const LANES: usize>(first: u64, weights: &[f32]) -> u64 {
        array::<LANES, _>(first, weights, |weight| u64::from(weight.to_bits()))
    }
}

/// The summand of the node ids of a type: its seeds, then all its nodes. Both are original ids.
pub(crate) fn nodes(of: NodeType, original_ids: &[i64], seeds: usize) -> u64 {
    let vectors = Vectors::widest();
    let seeds = &original_ids[..seeds.min(original_ids.len())];
    ids(vectors, first_place(TAG_SEEDS, of.0), seeds).wrapping_add(ids(
        vectors,
        first_place(TAG_NODES, of.0),
        original_ids,
    ))
}

/// The summand of node ids for nodes with other ids in this graph: `original_ids[node]` is the original id of `node`.
pub(crate) fn nodes_by_original_id(of: NodeType, nodes: &[i64], original_ids: &[i64], seeds: usize) -> u64 {
    let named = |node: i64| original_ids[node as usize] as u64;
    array::<4, _>(first_place(TAG_SEEDS, of.0), &nodes[..seeds], named).wrapping_add(array::<4, _>(
        first_place(TAG_NODES, of.0),
        nodes,
        named,
    ))
}

/// The summand of the tree of each node of a type.
pub(crate) fn trees(of: NodeType, trees: &[i32]) -> u64 {
    local_ids(Vectors::widest(), first_place(TAG_TREES, of.0), trees)
}

/// The summand of the times of a type's seeds.
pub(crate) fn seed_times(of: NodeType, times: &[i64]) -> u64 {
    ids(Vectors::widest(), first_place(TAG_SEED_TIMES, of.0), times)
}

/// The summand of a relation's block in a layer.
pub(crate) fn block(layer: usize, of: Relation, indptr: &[i32], indices: &[i32]) -> u64 {
    let tag = 16 + 2 * layer as u64;
    let vectors = Vectors::widest();
    let offsets = local_ids(vectors, first_place(tag, of.0), indptr);
    offsets.wrapping_add(local_ids(vectors, first_place(tag + 1, of.0), indices))
}

/// The summand of the weights of a block's edges: 0 without weights.
pub(crate) fn weights(layer: usize, of: Relation, weights: &[f32]) -> u64 {
    weight_bits(Vectors::widest(), first_place(TAG_WEIGHTS + layer as u64, of.0), weights)
}

/// The hash of a batch of a homogeneous graph. `nodes` are the *original* ids of its nodes, the first `seeds` of them its seeds; `blocks`
/// start at the seeds. Printed as 16 hexadecimal digits.
///
/// [`BatchCounts::hash`](crate::BatchCounts::hash) is the same number. Call this function to check a batch from another
/// source.
#[must_use]
pub fn batch_hash(original_ids: &[i64], seeds: usize, blocks: &[BlockRef<'_>]) -> u64 {
    let nodes = nodes(NodeType::ONLY, original_ids, seeds);
    blocks.iter().enumerate().fold(nodes, |sum, (layer, of_layer)| {
        sum.wrapping_add(block(layer, Relation::ONLY, of_layer.indptr, of_layer.indices))
            .wrapping_add(weights(layer, Relation::ONLY, of_layer.weights))
    })
}

/// The hash of a batch of a hop set: the hash of its nodes' ids as seeds, without blocks.
#[must_use]
pub fn rows_hash(nodes: &[i64]) -> u64 {
    ids(Vectors::widest(), first_place(TAG_SEEDS, 0), nodes)
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
    fn every_set_of_instructions_gives_the_sum_that_the_contract_says() {
        for length in [0, 1, 7, 8, 15, 16, 17, 100, 1000] {
            let values: Vec<i64> = (0..length).map(|i| mix(i) as i64 >> 24 & 0xff_ffff_ffff).collect();
            let narrow: Vec<i32> = values.iter().map(|&value| (value & 0x7fff_ffff) as i32).collect();
            let weights: Vec<f32> = narrow.iter().map(|&value| f32::from_bits(value as u32)).collect();
            let sum = |values: &[u64]| {
                values.iter().zip(0..).fold(0_u64, |sum, (value, place)| {
                    sum.wrapping_add(mix(mix(7_u64 << 56 | place) ^ value))
                })
            };
            let wide = sum(&values.iter().map(|&value| value as u64).collect::<Vec<_>>());
            let of_narrow = sum(&narrow.iter().map(|&value| value as u64).collect::<Vec<_>>());
            for vectors in Vectors::available() {
                assert_eq!(ids(vectors, first_place(7, 0), &values), wide, "{vectors:?}, {length}");
                assert_eq!(
                    local_ids(vectors, first_place(7, 0), &narrow),
                    of_narrow,
                    "{vectors:?}, {length}"
                );
                assert_eq!(
                    weight_bits(vectors, first_place(7, 0), &weights),
                    of_narrow,
                    "{vectors:?}, {length}"
                );
            }
        }
    }

    #[test]
    fn every_value_and_every_place_counts() {
        let indptr = [0, 2];
        let block = |indices| {
            let (edge_ids, weights) = (&[][..], &[][..]);
            BlockRef { destinations: 1, sources: 3, indptr: &indptr, indices, edge_ids, weights }
        };
        let base = batch_hash(&[5, 6, 7], 1, &[block(&[1, 2])]);
        assert_eq!(
            rows_hash(&[5, 6]).wrapping_add(array::<1, _>(first_place(TAG_NODES, 0), &[5, 6], |id| id)),
            batch_hash(&[5, 6], 2, &[])
        );
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
