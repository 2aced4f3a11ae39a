//! The contract of parts: a batch on a part is the batch that the whole dataset gives for the same seeds, epoch and
//! number, value for value, with the same hash.

use std::path::Path;

use uva_graph::npy::{NpyType, write_array};
use uva_graph::part::{PartOptions, directory_name, write_parts};
use uva_graph::ranges::{RangeParts, write_ranges};
use uva_graph::{Csc, Dataset, PartitionMap, Split, Verify, mix};
use uva_sample::{
    BatchBounds, BatchKey, Expand, GraphView, InvalidOption, MiniBatch, SampleError, SamplerKind,
    SamplerOptions, Walks, sampler,
};

const NODES: usize = 90;
const BATCH: usize = 8;

/// A random graph with hubs, empty lists, repeated edges, weights of 0 and unsorted training nodes, in `directory`.
fn random(seed: u64, directory: &Path) -> Dataset {
    std::fs::create_dir(directory).unwrap();
    let mut state = seed;
    let mut below = |bound: usize| {
        state = mix(state.wrapping_add(0x9E37_79B9_7F4A_7C15));
        (state % bound as u64) as usize
    };
    let (mut ends, mut ids) = (vec![0_i64], Vec::new());
    for node in 0..NODES {
        let entries = if node % 17 == 3 { 40 } else { [0, 1, 2, 5][below(4)] };
        // Most neighbours are near, so that parts differ.
        ids.extend((0..entries).map(|_| match below(3) {
            0 => below(NODES) as i64,
            _ => ((node + below(12)) % NODES) as i64,
        }));
        ends.push(ids.len() as i64);
    }
    let weights: Vec<f32> = ids.iter().map(|_| below(4) as f32).collect();
    let mut train: Vec<i64> = (0..NODES as i64).filter(|_| below(2) == 0).collect();
    (1..train.len()).for_each(|at| train.swap(at, below(at + 1)));
    let write =
        |name: &str, values: &[i64]| write_array(&directory.join(name), NpyType::I64, &[], values).unwrap();
    write("indptr.npy", &ends);
    write("indices.npy", &ids);
    write("train_idx.npy", &train);
    write("valid_idx.npy", &[]);
    write("test_idx.npy", &[]);
    if seed % 2 == 1 {
        // A dataset that was reordered before.
        let original: Vec<i64> = (0..NODES as i64).map(|node| (node * 37 + 11) % NODES as i64).collect();
        write("orig_id.npy", &original);
    }
    write_array(&directory.join("weight.npy"), NpyType::F32, &[], &weights).unwrap();
    write_array(&directory.join("feat.npy"), NpyType::F32, &[1], &[0_f32; NODES]).unwrap();
    Dataset::open(directory).unwrap()
}

/// The content of a batch, independent of the dataset's own ids: hash, original ids, blocks with the bits of their
/// weights.
type Content = (u64, Vec<i64>, Vec<(Vec<i32>, Vec<i32>, Vec<u32>)>);

fn batches(
    dataset: &Dataset,
    keys: &[BatchKey],
    seeds: &[Vec<i64>],
    options: &SamplerOptions,
) -> Vec<Content> {
    batches_in((dataset.csc(), dataset.weights()), keys, seeds, options)
}

/// The same in a graph with these weights.
fn batches_in(
    (csc, weights): (Csc<'_>, Option<&[f32]>),
    keys: &[BatchKey],
    seeds: &[Vec<i64>],
    options: &SamplerOptions,
) -> Vec<Content> {
    let bounds = BatchBounds::for_options(options, BATCH, csc.nodes(), csc.edges(), Some(1 << 24)).unwrap();
    let mut batch = MiniBatch::with_bounds(&bounds);
    let view = GraphView { weights, ..csc.into() };
    let mut sampler = sampler(view, options).unwrap();
    let one = |(key, seeds): (&BatchKey, &Vec<i64>)| {
        sampler.sample_into(*key, seeds, &mut batch).unwrap();
        let named = |&node: &i64| csc.original_ids.map_or(node, |ids| ids[node as usize]);
        let bits = |weights: &[f32]| weights.iter().map(|weight| weight.to_bits()).collect();
        let blocks =
            batch.blocks().map(|block| (block.indptr.into(), block.indices.into(), bits(block.weights)));
        (batch.hash(), batch.nodes().iter().map(named).collect(), blocks.collect())
    };
    keys.iter().zip(seeds).map(one).collect()
}

/// Kinds with fanouts of `layers` hops, in every way that may change a batch, for parts of `hops` hops.
fn all_options(hops: u32, seed: u64) -> Vec<SamplerOptions> {
    let mut all = Vec::new();
    for kind in SamplerKind::ALL.into_iter().filter(|kind| kind.reach(1, 1).is_some()) {
        let walks = Walks { length: 1 + seed as u32 % 2, ..Walks::default() };
        // As deep as the part allows, and shallower.
        for layers in [hops as usize, 1] {
            let layers = if kind.walks() { layers / walks.length as usize } else { layers };
            for (expand, batch_dependency, replace) in
                [(Expand::All, 1, false), (Expand::New, 3, false), (Expand::All, 3, true)]
            {
                let fits = (expand == Expand::All || kind.expands_new()) && (!replace || kind.replaces());
                if layers == 0 || !fits {
                    continue;
                }
                let fanouts =
                    (0..layers).map(|layer| if kind.draws_together() { 12 } else { 3 - layer as i32 });
                all.push(SamplerOptions {
                    kind,
                    fanouts: fanouts.collect::<Vec<_>>().into(),
                    replace,
                    seed,
                    batch_dependency,
                    expand,
                    walks,
                    ..SamplerOptions::default()
                });
            }
        }
    }
    all
}

#[test]
fn batches_on_a_part_are_those_on_the_graph_for_kinds_within_its_hops() {
    // In memory if possible: a disk would take longer to flush the small files of all these parts than all the rest.
    let memory = Path::new("/dev/shm");
    let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let directory = directory.unwrap();
    let (mut compared, mut smaller) = (0, 0);
    for seed in 0..10 {
        let whole = random(seed, &directory.path().join(format!("whole-{seed}")));
        // By original id: ranges of these.
        let of: Vec<u16> = (0..NODES).map(|node| (node * 3 / NODES) as u16).collect();
        let map = PartitionMap { parts: 3, of, summary: None };
        let owners = map.by_node(&whole).unwrap();
        for hops in 1..=3 {
            let out = directory.path().join(format!("parts-{seed}-{hops}"));
            let options = PartOptions { map: &map, hops, split_eval: false };
            write_parts(&whole, &options, &out, &|_| ()).unwrap();
            for number in 0..3 {
                let part = Dataset::open(&out.join(directory_name(number))).unwrap();
                smaller += usize::from(part.nodes() < NODES);
                let here: Vec<Vec<i64>> =
                    part.split(Split::Train).chunks(BATCH).map(<[i64]>::to_vec).collect();
                // The same nodes by the whole dataset's ids, as the part has them in ascending order.
                let train = whole.split(Split::Train).iter().copied();
                let there: Vec<i64> =
                    train.filter(|&node| usize::from(owners[node as usize]) == number).collect();
                let there: Vec<Vec<i64>> = there.chunks(BATCH).map(<[i64]>::to_vec).collect();
                let key = |batch: usize| BatchKey { split: Split::Train, epoch: 4, batch: batch as u32 };
                let keys: Vec<BatchKey> = (0..here.len()).map(key).collect();
                for options in all_options(hops, seed) {
                    options.check_reach(hops as usize).unwrap();
                    let expected = batches(&whole, &keys, &there, &options);
                    assert_eq!(
                        batches(&part, &keys, &here, &options),
                        expected,
                        "{options:?} of part {number}"
                    );
                    compared += expected.len();
                }
            }
        }
    }
    assert!(compared > 2000 && smaller > 30, "{compared} batches, {smaller} parts are not the whole");
}

#[test]
fn batches_in_the_graph_of_a_partition_in_ranges_are_those_of_the_dataset() {
    let directory = tempfile::tempdir().unwrap();
    for seed in 0..2 {
        let whole = random(seed, &directory.path().join(format!("whole-{seed}")));
        // Parts that are not ranges of ids.
        let of: Vec<u16> = (0..NODES).map(|node| (node * 7 % 3) as u16).collect();
        let map = PartitionMap { parts: 3, of, summary: None };
        let out = directory.path().join(format!("ranges-{seed}"));
        write_ranges(&whole, &map, &out, &|_| ()).unwrap();
        let ranges = RangeParts::open(&out, &[1], Verify::Full).unwrap();
        assert_ne!(ranges.csc().indptr, whole.csc().indptr);
        let seeds = |ids: &[i64]| ids.chunks(BATCH).map(<[i64]>::to_vec).collect::<Vec<_>>();
        let (here, there) = (seeds(ranges.split(Split::Train)), seeds(whole.split(Split::Train)));
        let key = |batch: usize| BatchKey { split: Split::Train, epoch: 2, batch: batch as u32 };
        let keys: Vec<BatchKey> = (0..here.len()).map(key).collect();
        for options in all_options(2, seed) {
            let expected = batches(&whole, &keys, &there, &options);
            let found = batches_in((ranges.csc(), ranges.graph().weights()), &keys, &here, &options);
            assert_eq!(found, expected, "{options:?}");
        }
    }
}

#[test]
fn options_that_reach_beyond_a_part_are_refused_with_its_depth() {
    let refused = |kind: SamplerKind, layers: usize, length: u32, hops: usize| {
        let walks = Walks { length, ..Walks::default() };
        let options =
            SamplerOptions { kind, fanouts: vec![2; layers].into(), walks, ..SamplerOptions::default() };
        options.check_reach(hops).map_err(|error| SampleError::from(error).to_string())
    };
    assert_eq!(refused(SamplerKind::NEIGHBOR, 2, 4, 2), Ok(()));
    let message = refused(SamplerKind::LADIES, 3, 4, 2).unwrap_err();
    assert!(message.contains("reach 3 in-hops") && message.contains("within 2 in-hops"), "{message}");
    assert_eq!(refused(SamplerKind::WALK, 2, 2, 4), Ok(()));
    let message = refused(SamplerKind::WALK, 2, 3, 4).unwrap_err();
    assert!(message.contains("`walk_length`") && message.contains("reach 6 in-hops"), "{message}");
    for kind in [SamplerKind::FASTGCN, SamplerKind::SAINT_NODE, SamplerKind::SAINT_EDGE, SamplerKind::PPR] {
        let message = refused(kind, 1, 1, 32).unwrap_err();
        assert!(message.contains(kind.name()) && message.contains("ladies"), "{message}");
        assert_eq!(kind.reach(1, 1), None);
    }
    let far = InvalidOption::BeyondPart { kind: SamplerKind::NEIGHBOR, reach: 3, hops: 2 };
    assert_eq!(far.field(), Some("fanouts"));
}
