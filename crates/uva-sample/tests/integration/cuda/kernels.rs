//! Single kernels, compiled for the host, over memory that no real graph here could have: lists of billions of entries,
//! and a cache that differs from its original.

use std::ffi::c_void;

use proptest::prelude::*;
use uva_cuda::kernels::sample::{SampleArguments, SampleReport};
use uva_graph::Split;
use uva_sample::batch_of_picks;
use uva_sample::philox::{RandomPurpose, StreamKey};

/// Runs a kernel on three blocks of two warps.
fn launch(name: &str, arguments: &SampleArguments) {
    let mut copy = *arguments;
    let pointer: *mut c_void = std::ptr::from_mut(&mut copy).cast();
    // SAFETY: one parameter, the kernel's own arguments; these refer to vectors that outlive the call and are large
    // enough, by the callers below.
    unsafe { uva_kernel_sim::launch(name, [3, 1, 1], [64, 1, 1], 0, &pointer) }.unwrap();
}

fn address<T>(values: &[T]) -> u64 {
    values.as_ptr() as u64
}

/// Lists to pick from: the node, the beginning and the length of each.
type Lists<'l> = &'l [(i64, i64, u32)];

fn picks_of_kernel(lists: Lists<'_>, fanout: u32, replace: bool, kappa: u32) -> Vec<Vec<i64>> {
    let nodes: Vec<i64> = lists.iter().map(|list| list.0).collect();
    let begins: Vec<i64> = lists.iter().map(|list| list.1).collect();
    let degrees: Vec<u32> = lists.iter().map(|list| list.2).collect();
    let mut indptr = vec![0_i32];
    for degree in &degrees {
        let drawn = if replace { *degree > 0 } else { *degree > fanout };
        indptr.push(indptr.last().unwrap() + if drawn { fanout } else { *degree } as i32);
    }
    let mut slots = vec![-7_i64; *indptr.last().unwrap() as usize + 1];
    let report = [SampleReport { picking: lists.len() as u64, ..SampleReport::default() }];
    launch(
        "sample_picks",
        &SampleArguments {
            seed: SEED,
            batch: BATCH,
            epoch_and_split: 5 | 2 << 30,
            batch_dependency: kappa,
            layer: LAYER,
            fanout,
            replace: replace.into(),
            batch_nodes: address(&nodes),
            block_indptr: address(&indptr),
            begins: address(&begins),
            degrees: address(&degrees),
            slots: slots.as_mut_ptr() as u64,
            report: address(&report),
            ..SampleArguments::default()
        },
    );
    assert_eq!(slots.pop(), Some(-7), "something is written past the picks");
    indptr.windows(2).map(|ends| slots[ends[0] as usize..ends[1] as usize].to_vec()).collect()
}

const SEED: u64 = 0xfedc_ba98_7654_3210;
const BATCH: u32 = 0xdead_beef;
const LAYER: u32 = 31;

/// Picks by the textbook method.
fn picks(list: (i64, i64, u32), fanout: u32, replace: bool, kappa: u32) -> Vec<i64> {
    let (node, begin, degree) = list;
    if degree == 0 || (degree <= fanout && !replace) {
        return (0..i64::from(degree)).map(|at| begin + at).collect();
    }
    let batch = batch_of_picks(BATCH, node as u64, kappa);
    let like = StreamKey {
        seed: SEED,
        node: node as u64,
        purpose: RandomPurpose::Neighbors,
        layer: LAYER,
        batch,
        epoch: 5,
        split: Split::Test,
    };
    let mut stream = like.stream();
    if replace {
        return (0..fanout).map(|_| begin + i64::from(stream.bounded(degree))).collect();
    }
    let mut taken = std::collections::HashSet::new();
    let draw = |j: u32| {
        let drawn = stream.bounded(j + 1);
        let position = if taken.contains(&drawn) { j } else { drawn };
        taken.insert(position);
        position
    };
    (degree - fanout..degree).map(draw).map(|position| begin + i64::from(position)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]
    #[test]
    fn picks_are_those_of_the_plain_method_out_of_lists_of_any_length(
        lists in proptest::collection::vec((
            0_i64..1 << 40,
            0_i64..1 << 50,
            // Slightly longer than the fanout makes draws repeat; three quarters of 2^32 cause rejections.
            prop_oneof![0..80_u32, 0..400_u32, Just(3 << 30), (1 << 31)..u32::MAX],
        ), 1..12),
        fanout in prop_oneof![1..36_u32, 36..200_u32],
        replace in any::<bool>(),
        kappa in 1..5_u32,
    ) {
        let expected: Vec<Vec<i64>> =
            lists.iter().map(|&list| picks(list, fanout, replace, kappa)).collect();
        prop_assert_eq!(picks_of_kernel(&lists, fanout, replace, kappa), expected);
    }
}

#[test]
fn thousands_of_picks_are_those_of_the_plain_method() {
    let lists = [(9, 1 << 41, 65_537), (10, 0, 1 << 17), (11, 3, 65_536), (12, 8, u32::MAX)];
    for fanout in [1 << 10, 3000] {
        let expected: Vec<Vec<i64>> = lists.iter().map(|&list| picks(list, fanout, false, 1)).collect();
        assert_eq!(picks_of_kernel(&lists, fanout, false, 1), expected);
    }
}

/// Draws by weight out of `degree` entries of equal weight, `each` as integers, and the draws of the plain method.
fn draws_of_kernel_and_plainly(node: i64, degree: u32, fanout: u32, power: u32) -> (Vec<i64>, Vec<i64>) {
    let weights = vec![1.0_f32; degree as usize];
    // The heaviest weight is given as smaller than it is, so that a few entries weigh as much as thousands of millions.
    let heaviest = [2_f32.powi(31 - power as i32).to_bits()];
    let (nodes, begins, degrees) = ([node], [0_i64], [degree]);
    let indptr = [0_i32, fanout as i32];
    let mut places = vec![-1_i32; fanout as usize];
    let mut slots = vec![-1_i64; fanout as usize];
    let report = [SampleReport { picking: 1, ..SampleReport::default() }];
    launch(
        "sample_weighted",
        &SampleArguments {
            weights: address(&weights),
            seed: SEED,
            batch: BATCH,
            epoch_and_split: 5 | 2 << 30,
            batch_dependency: 1,
            layer: LAYER,
            fanout,
            replace: 1,
            batch_nodes: address(&nodes),
            block_indptr: address(&indptr),
            block_indices: places.as_mut_ptr() as u64,
            begins: address(&begins),
            degrees: address(&degrees),
            existing: address(&degrees),
            heaviest: address(&heaviest),
            slots: slots.as_mut_ptr() as u64,
            report: address(&report),
            ..SampleArguments::default()
        },
    );
    let key = StreamKey {
        seed: SEED,
        node: node as u64,
        purpose: RandomPurpose::Weights,
        layer: LAYER,
        batch: BATCH,
        epoch: 5,
        split: Split::Test,
    };
    let mut stream = key.stream();
    let total = u64::from(degree) << power;
    (slots, (0..fanout).map(|_| (stream.bounded_u64(total) >> power) as i64).collect())
}

#[test]
fn draws_of_64_bits_that_are_rejected_are_drawn_again() {
    // Three quarters of 2^64: one draw in four is rejected. By a warp, and by a block.
    for (degree, fanout, power) in [(3, 2, 62), (48, 31, 58), (48, 40, 58), (192, 150, 56)] {
        for node in 0..20 {
            let (found, expected) = draws_of_kernel_and_plainly(node, degree, fanout, power);
            assert_eq!(found, expected, "{fanout} of {degree}, node {node}");
        }
    }
}

#[test]
fn places_of_cached_lists_are_read_from_the_cache_and_known_ones_once() {
    let (indptr, cached_indptr) = ([0_i64, 1, 2, 3, 12, 13], [0_i64, 4]);
    let nodes = [3_i64, 1, 2, 0];
    // The first is known from an earlier layer.
    let (mut begins, mut degrees) = ([77_i64, -1, -1, -1], [6_u32, 0, 0, 0]);
    let mut totals = [0_u64; 3];
    let mut report =
        [SampleReport { destinations: 4, known: 1, bad_list: u64::MAX, ..SampleReport::default() }];
    launch(
        "sample_lists",
        &SampleArguments {
            indptr: address(&indptr),
            nodes: 5,
            edges: 13,
            cached_indptr: address(&cached_indptr),
            cached_lists: 2,
            cached_edges: 9,
            fanout: 4,
            batch_nodes: address(&nodes),
            destinations_room: 4,
            begins: begins.as_mut_ptr() as u64,
            degrees: degrees.as_mut_ptr() as u64,
            totals: totals.as_mut_ptr() as u64,
            report: report.as_mut_ptr() as u64,
            ..SampleArguments::default()
        },
    );
    assert_eq!((begins, degrees), ([77, 4, 2, 0], [6, 5, 1, 4]));
    // One for each place, one for each pick, at most four a list.
    let [report] = report;
    assert_eq!((report.reads, report.cached_reads, report.known), (4 + 4 + 4 + 1 + 4, 2 + 4 + 4, 4));
    // All four belong to the first block of three.
    assert_eq!(totals, [0, 13, 13]);
}

/// Three lists of three entries in the reverse order of the dataset's, of which two are cached, with weights and places
/// that differ from the originals.
struct WithCachedArrays {
    indptr: [i64; 4],
    cached_indptr: [i64; 2],
    cached_homes: [i64; 2],
    cached_weights: [f32; 6],
    dataset_ids: [i32; 3],
    weights: [f32; 9],
    nodes: [i64; 3],
    begins: [i64; 3],
    degrees: [u32; 3],
    homes: [i64; 3],
    existing: [u32; 3],
    heaviest: [u32; 3],
    totals: [u64; 3],
    report: [SampleReport; 1],
}

impl WithCachedArrays {
    fn new() -> Self {
        let report = SampleReport {
            destinations: 3,
            bad_list: u64::MAX,
            bad_home: u64::MAX,
            ..SampleReport::default()
        };
        Self {
            indptr: [0, 3, 6, 9],
            cached_indptr: [0, 3],
            cached_homes: [4, 5],
            cached_weights: [0.0, 5.0, 0.0, 0.0, 0.0, 0.0],
            dataset_ids: [2, 1, 0],
            weights: [1.0, 2.0, 3.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0],
            nodes: [2, 0, 1],
            begins: [-1; 3],
            degrees: [9; 3],
            homes: [-7; 3],
            existing: [9; 3],
            heaviest: [9; 3],
            totals: [0; 3],
            report: [report],
        }
    }

    /// Runs the kernels that find lists and weigh them, with or without edge ids.
    fn launch(&mut self, cached_homes: u64, edge_ids: bool) {
        let mut wanted = [0_i64; 1];
        let arguments = SampleArguments {
            indptr: address(&self.indptr),
            nodes: 3,
            edges: 9,
            cached_indptr: address(&self.cached_indptr),
            cached_lists: 2,
            cached_edges: 6,
            cached_homes,
            cached_weights: address(&self.cached_weights),
            dataset_ids: address(&self.dataset_ids),
            home_indptr: address(&self.indptr),
            weights: address(&self.weights),
            fanout: 2,
            batch_nodes: address(&self.nodes),
            destinations_room: 3,
            edge_ids: if edge_ids { wanted.as_mut_ptr() as u64 } else { 0 },
            begins: self.begins.as_mut_ptr() as u64,
            degrees: self.degrees.as_mut_ptr() as u64,
            homes: self.homes.as_mut_ptr() as u64,
            existing: self.existing.as_mut_ptr() as u64,
            heaviest: self.heaviest.as_mut_ptr() as u64,
            totals: self.totals.as_mut_ptr() as u64,
            report: self.report.as_mut_ptr() as u64,
            ..SampleArguments::default()
        };
        for kernel in ["sample_lists", "sample_weigh", "sample_totals"] {
            launch(kernel, &arguments);
        }
    }
}

#[test]
fn only_weights_and_places_of_cached_lists_are_read_from_the_cache() {
    let mut all = WithCachedArrays::new();
    let cached_homes = address(&all.cached_homes);
    all.launch(cached_homes, true);
    // Node 2 is the dataset's node 0, whose list begins at 0.
    assert_eq!((all.begins, all.degrees, all.homes), ([6, 0, 3], [3; 3], [0, 4, 5]));
    assert_eq!((all.existing, all.heaviest), ([3, 1, 0], [3.0_f32, 5.0, 0.0].map(f32::to_bits)));
    // For each list its bounds, and one sector of weights in each of two passes; two picks, one and none.
    let [report] = all.report;
    assert_eq!((report.reads, report.cached_reads), (3 + 3 * 2 + 3, 2 + 2 * 2 + 1));

    // Uncached positions are looked up; without edge ids, only those of lists whose weights are not cached.
    for (edge_ids, homes) in [(true, [0, 6, 3]), (false, [0, -7, -7])] {
        let mut some = WithCachedArrays::new();
        some.launch(0, edge_ids);
        assert_eq!((some.homes, some.existing), (homes, [3, 1, 0]), "edge ids {edge_ids}");
    }
}

/// The ids at some positions, of which those below 5 are cached.
fn ids<Id: Copy>(name: &str, indices: &[Id], cached: &[Id], positions: &[i64]) -> (Vec<i64>, Vec<u64>, u64) {
    let mut slots = positions.to_vec();
    let mut local_ids = vec![u64::MAX; 10];
    let mut report =
        [SampleReport { edges: positions.len() as u64, bad_edge: u64::MAX, ..SampleReport::default() }];
    launch(
        name,
        &SampleArguments {
            indices: address(indices),
            nodes: 10,
            edges: indices.len() as u64,
            cached_indices: address(cached),
            cached_edges: cached.len() as u64,
            stamp: 1,
            slots: slots.as_mut_ptr() as u64,
            local_ids: local_ids.as_mut_ptr() as u64,
            report: report.as_mut_ptr() as u64,
            ..SampleArguments::default()
        },
    );
    (slots, local_ids, report[0].bad_edge)
}

#[test]
fn cached_lists_are_read_from_the_cache_and_others_are_not() {
    let positions = [4, 5, 0, 9, 4];
    let base = 0xffff_fffe_8000_0000_u64;
    for (slots, local_ids, bad) in [
        ids("sample_ids_i32", &[9_i32, 9, 9, 9, 9, 1, 1, 1, 1, 2], &[7, 7, 7, 7, 3], &positions),
        ids("sample_ids_i64", &[9_i64, 9, 9, 9, 9, 1, 1, 1, 1, 2], &[7, 7, 7, 7, 3], &positions),
    ] {
        assert_eq!((slots, bad), (vec![3, 1, 7, 2, 3], u64::MAX));
        // Each node's entry is its first pick.
        for (node, pick) in [(3, 0), (1, 1), (7, 2), (2, 3)] {
            assert_eq!(local_ids[node], base + pick);
        }
        assert!([0, 4, 5, 6, 8, 9].iter().all(|node| local_ids[*node as usize] == u64::MAX));
    }
}

#[test]
fn the_first_id_that_is_not_a_node_is_reported_and_never_looked_up() {
    for bad in [10, -1, i64::MIN, i64::MAX] {
        let indices = [1, bad, 2, bad, 3];
        let (slots, local_ids, first) = ids("sample_ids_i64", &indices, &[], &[0, 4, 3, 1, 2]);
        assert_eq!((slots, first), (vec![1, 3, !3, !1, 2], 2));
        assert_eq!(local_ids.iter().filter(|entry| **entry != u64::MAX).count(), 3);
    }
}
