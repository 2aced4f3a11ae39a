//! `block_prepare` compared with plain loops: any numbers in the block, every way to weight edges, several thread
//! blocks.

use std::ffi::c_void;

use uva_kernel_sim::launch;
use uva_kernels::block::{
    BLOCK_PREPARE, BLOCK_THREADS, BLOCKS_AT_ONCE, BatchBlocks, BlockArguments, DESTINATIONS, EdgeWeights,
};

const UNTOUCHED: i32 = -77;

/// A block as a slot may hold it.
#[derive(Debug, Clone)]
struct Block {
    indptr: Vec<i32>,
    indices: Vec<i32>,
    degrees: Vec<i32>,
    sampled: Option<Vec<f32>>,
}

#[derive(Debug, PartialEq)]
struct Prepared {
    offsets: Vec<i32>,
    sources: Vec<i32>,
    destinations: Vec<i32>,
    /// Bits; 0 for any NaN, which the edges of an empty list may get.
    weights: Vec<u64>,
    own: Vec<u64>,
}

fn bits(number: f64) -> u64 {
    if number.is_nan() { 0 } else { number.to_bits() }
}

/// The results of crates/uva-train's tensor operations: see its tensor_block.rs.
fn expected(block: &Block, way: EdgeWeights, wide: bool) -> Prepared {
    let (edges, sources) = (block.indices.len() as i32, block.degrees.len() as i32);
    let mut largest = 0;
    let offsets: Vec<i32> = (block.indptr.iter())
        .map(|&offset| {
            largest = largest.max(offset.clamp(0, edges));
            largest
        })
        .collect();
    let of_edges: Vec<i32> = block.indices.iter().map(|&source| source.clamp(0, sources - 1)).collect();
    let lists = offsets.len() - 1;
    let destinations: Vec<i32> = (0..edges)
        .map(|edge| offsets[1..].partition_point(|&end| end <= edge).min(lists - 1) as i32)
        .collect();
    let rounded = |weight: f64| bits(if wide { weight } else { f64::from(weight as f32) });
    let root = |v: i32| 1.0 / (f64::from(block.degrees[v as usize]) + 1.0).sqrt();
    let weight = |edge: usize| {
        let v = destinations[edge];
        let picks = f64::from(offsets[v as usize + 1] - offsets[v as usize]);
        let sampled = block.sampled.as_ref().map(|weights| f64::from(weights[edge]));
        match way {
            EdgeWeights::None | EdgeWeights::Sum => 1.0,
            EdgeWeights::Mean => sampled.unwrap_or(1.0 / picks),
            EdgeWeights::Degrees => {
                let degree = f64::from(block.degrees[v as usize]);
                let scale = sampled.map_or(degree / picks, |weight| degree * weight);
                scale * root(v) * root(of_edges[edge])
            }
        }
    };
    let weighed = way != EdgeWeights::None;
    let by_degrees = way == EdgeWeights::Degrees;
    Prepared {
        weights: (0..block.indices.len()).filter(|_| weighed).map(|edge| rounded(weight(edge))).collect(),
        own: (0..lists as i32).filter(|_| by_degrees).map(|v| rounded(root(v) * root(v))).collect(),
        offsets,
        sources: of_edges,
        destinations,
    }
}

fn prepare(block: &Block, way: EdgeWeights, wide: bool, blocks: u32) -> Prepared {
    prepare_all(std::slice::from_ref(block), way, wide, blocks).swap_remove(0)
}

/// Several blocks by one launch, each by this many thread blocks.
fn prepare_all(batch: &[Block], way: EdgeWeights, wide: bool, blocks: u32) -> Vec<Prepared> {
    let bytes = if wide { 8 } else { 4 };
    let weighed = way != EdgeWeights::None;
    let by_degrees = way == EdgeWeights::Degrees;
    let mut arguments = Vec::new();
    let mut written = Vec::new();
    for block in batch {
        let (lists, edges) = (block.indptr.len() - 1, block.indices.len());
        // One element more than necessary, which must not change.
        let mut prepared = [lists + 1, edges, edges].map(|count| vec![UNTOUCHED; count + 1]);
        let mut numbers = [edges, lists].map(|count| vec![0xEE_u8; (count + 1) * bytes]);
        let address = |used: bool, address: *mut u8| if used { address as u64 } else { 0 };
        arguments.push(BlockArguments {
            indptr: block.indptr.as_ptr() as u64,
            indices: block.indices.as_ptr() as u64,
            sampled: block.sampled.as_ref().map_or(0, |weights| weights.as_ptr() as u64),
            degrees: if by_degrees { block.degrees.as_ptr() as u64 } else { 0 },
            destinations: lists as u64,
            edges: edges as u64,
            sources: block.degrees.len() as u64,
            weighting: way.number(),
            wide: wide.into(),
            offsets: prepared[0].as_mut_ptr() as u64,
            sources_of_edges: prepared[1].as_mut_ptr() as u64,
            destinations_of_edges: prepared[2].as_mut_ptr() as u64,
            weights: address(weighed, numbers[0].as_mut_ptr()),
            own: address(by_degrees, numbers[1].as_mut_ptr()),
        });
        written.push((prepared, numbers));
    }
    arguments.iter().try_for_each(BlockArguments::check).unwrap();
    let mut all = BatchBlocks::new(&arguments);
    let grid = [blocks * batch.len() as u32, 1, 1];
    let parameters = [std::ptr::from_mut(&mut all).cast::<c_void>()];
    // SAFETY: one parameter, of the kernel's type; all memory that it refers to has the given sizes.
    unsafe { launch(BLOCK_PREPARE, grid, [BLOCK_THREADS, 1, 1], 0, parameters.as_ptr()) }.unwrap();
    let read = |bytes: &[u8]| match wide {
        true => bits(f64::from_ne_bytes(bytes.try_into().unwrap())),
        false => bits(f64::from(f32::from_ne_bytes(bytes.try_into().unwrap()))),
    };
    let of_block = |(mut prepared, numbers): ([Vec<i32>; 3], [Vec<u8>; 2])| {
        for list in &mut prepared {
            assert_eq!(list.pop(), Some(UNTOUCHED), "something is written past the end");
        }
        let [weights, own] = [(0, weighed), (1, by_degrees)].map(|(which, used)| {
            let (written, behind) = numbers[which].split_at(numbers[which].len() - bytes);
            assert!(behind.iter().all(|&byte| byte == 0xEE), "a weight is written past the end");
            if used { written.chunks_exact(bytes).map(read).collect() } else { Vec::new() }
        });
        let [offsets, sources, destinations] = prepared;
        Prepared { offsets, sources, destinations, weights, own }
    };
    written.into_iter().map(of_block).collect()
}

/// Numbers without a pattern.
struct Noise(u64);

impl Noise {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        ((self.0 >> 33) as usize * bound) >> 31
    }
}

/// A block of lists of 0 to `longest` edges, and a hub.
fn block(lists: usize, longest: usize, seed: u64) -> Block {
    let mut noise = Noise(seed);
    let sources = lists + noise.below(lists + 3);
    let mut indptr = vec![0];
    for v in 0..lists {
        let length = if v == lists / 2 { 20 * longest } else { noise.below(longest + 1) };
        indptr.push(indptr[v] + length as i32);
    }
    let edges = indptr[lists] as usize;
    Block {
        indptr,
        indices: (0..edges).map(|_| noise.below(sources.max(1)) as i32).collect(),
        degrees: (0..sources).map(|_| noise.below(1000) as i32).collect(),
        sampled: None,
    }
}

/// Every way to weight, in both types of numbers, with and without weights of the sampler.
fn check(block: &Block, blocks: &[u32]) {
    let sampled = Some((0..block.indices.len()).map(|edge| (edge % 17) as f32 / 9.0).collect());
    for block in [block, &Block { sampled, ..block.clone() }] {
        for way in EdgeWeights::ALL {
            for wide in [false, true] {
                let expected = expected(block, way, wide);
                for &blocks in blocks {
                    let found = prepare(block, way, wide, blocks);
                    assert!(
                        found == expected,
                        "{way:?}, {wide}, {blocks}: {found:?} instead of {expected:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn prepared_blocks_are_those_of_plain_loops_around_each_share_size() {
    let share = DESTINATIONS as usize;
    for (lists, longest) in [(1, 0), (1, 3), (2, 5), (31, 4), (257, 0), (1000, 7)] {
        check(&block(lists, longest, lists as u64), &[1, 2]);
    }
    for lists in [share - 1, share, share + 1, 3 * share + 5] {
        let useful = (lists.div_ceil(share)) as u32;
        check(&block(lists, 2, lists as u64), &[1, useful, useful + 1]);
    }
}

#[test]
fn the_blocks_of_a_batch_are_prepared_by_one_launch_whatever_their_sizes() {
    let share = DESTINATIONS as usize;
    let sizes = [3, 2 * share + 5, 40, share, 1, 700, share + 1, 9];
    for count in [1, 3, BLOCKS_AT_ONCE] {
        let blocks: Vec<Block> =
            sizes[..count].iter().map(|&lists| block(lists, 3, lists as u64 + 5)).collect();
        for way in EdgeWeights::ALL {
            let expected: Vec<Prepared> = blocks.iter().map(|block| expected(block, way, true)).collect();
            // As launched, with fewer blocks than work, and with more.
            for blocks_each in [1, 3, 4] {
                assert!(
                    prepare_all(&blocks, way, true, blocks_each) == expected,
                    "{count} {way:?} {blocks_each}"
                );
            }
        }
    }
}

#[test]
fn no_destination_is_one_offset() {
    let nothing = Block { indptr: vec![9], indices: Vec::new(), degrees: Vec::new(), sampled: None };
    for way in EdgeWeights::ALL {
        let found = prepare(&nothing, way, false, 1);
        assert_eq!((&found.offsets[..], found.sources.len()), (&[0][..], 0));
    }
    // Sources that no destination picked.
    let alone = Block { degrees: vec![3; 5], ..nothing };
    assert_eq!(prepare(&alone, EdgeWeights::Degrees, true, 3).offsets, [0]);
}

#[test]
fn numbers_out_of_range_are_brought_into_it() {
    let share = DESTINATIONS as usize;
    for lists in [5, share + 7, 2 * share + 1] {
        for seed in 0..4 {
            let mut broken = block(lists, 3, seed);
            let mut noise = Noise(seed + 99);
            for _ in 0..lists / 3 + 2 {
                let at = noise.below(lists + 1);
                broken.indptr[at] =
                    [i32::MIN, -1, i32::MAX, 7, noise.below(3 * lists) as i32][noise.below(5)];
                if !broken.indices.is_empty() {
                    let at = noise.below(broken.indices.len());
                    broken.indices[at] = [i32::MIN, -1, i32::MAX, lists as i32 * 3][noise.below(4)];
                }
            }
            check(&broken, &[1, 3]);
        }
    }
    // The first offset above 0, and the last below the number of edges: edges of no list count to the ends.
    let open = Block {
        indptr: vec![2, 3, 3, 4],
        indices: vec![0, 1, 2, 3, 0, 1],
        degrees: vec![1; 4],
        sampled: None,
    };
    let found = prepare(&open, EdgeWeights::Mean, true, 1);
    assert_eq!(found.destinations, [0, 0, 0, 2, 2, 2]);
    check(&open, &[1]);
}
