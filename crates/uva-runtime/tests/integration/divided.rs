//! Batches whose destinations the producer divides: which it sums, the rows that the others take, and what that counts.

use crate::common;
use std::path::Path;
use std::sync::Arc;

use uva_batch::Aggregation::{self, Degrees, Mean};
use uva_graph::{Dataset, ElementType};
use uva_io::generate::{self, Citation, Common};
use uva_plan::{MissedLists, OwnRows, SumCosts};
use uva_runtime::cache::CacheContents;
use uva_runtime::options::Prepare;
use uva_runtime::plan::RunPlan;
use uva_runtime::{
    AggregateAmounts, AggregateCounts, Batch, Features, LoaderOptions, Passes, Runtime, SamplerKind, SumsMade,
};

/// An epoch of batches.
fn start(dataset: &Arc<Dataset>, options: &LoaderOptions) -> Runtime {
    let plan = RunPlan::new(dataset, options, Passes { epochs: 1, ..Passes::default() }).unwrap();
    Runtime::start_with(Arc::clone(dataset), plan, CacheContents::default()).unwrap()
}

/// Compares a divided batch with those that have all rows and all sums, and returns bytes of the three in slots and how many
/// destinations are summed, of how many.
fn compared(how: Aggregation, divided: &Batch, plain: &Batch, sums: &Batch) -> ([u64; 3], [usize; 2]) {
    assert_eq!((divided.hash(), divided.hash()), (plain.hash(), sums.hash()));
    let block = divided.block(divided.layers() - 1);
    let (nodes, row_bytes) = (divided.input_nodes(), divided.layout().row_bytes() as u64);
    let sum_bytes = 4 * divided.layout().dim() as u64;
    let own_rows = if how == Mean { OwnRows::Beside } else { OwnRows::Within };
    let costs = SumCosts { row_bytes, sum_bytes, cpu: 0.0 };
    let best = MissedLists::of(nodes, block.indptr, block.indices, own_rows, |_| false).divide(costs);
    let mask = divided.sum_mask().unwrap();
    assert_eq!(mask, best.iter().map(|&summed| u8::from(summed)).collect::<Vec<_>>());

    let list = |v: usize| &block.indices[block.indptr[v] as usize..block.indptr[v + 1] as usize];
    let marked: Vec<usize> = (0..block.destinations).filter(|&v| mask[v] == 1).collect();
    let all = sums.aggregated().unwrap();
    let bits = |rows: &mut dyn Iterator<Item = &[f32]>| {
        rows.flat_map(|row| row.iter().map(|value| value.to_bits())).collect::<Vec<_>>()
    };
    let found = bits(&mut divided.aggregated().unwrap().iter());
    assert!(found == bits(&mut marked.iter().map(|&v| all.row(v))), "other sums than of all destinations");
    let mut needed = vec![false; nodes.len()];
    for v in 0..block.destinations {
        needed[v] |= how == Mean || mask[v] == 0;
        if mask[v] == 0 {
            list(v).iter().for_each(|&node| needed[node as usize] = true);
        }
    }
    let kept: Vec<usize> = (0..nodes.len()).filter(|&node| needed[node]).collect();
    let row = |node: usize| &plain.features().bytes[node * row_bytes as usize..][..row_bytes as usize];
    let rows: Vec<u8> = kept.iter().flat_map(|&node| row(node)).copied().collect();
    assert!(divided.features().bytes == rows, "other rows than the destinations that are left take");

    let counts = AggregateCounts::of(divided.layout(), divided.header(), SumsMade::Host, 0).unwrap();
    let own = if how == Mean { block.destinations } else { 0 };
    let entries: usize = marked.iter().map(|&v| list(v).len()).sum();
    let summed_own = if how == Mean { 0 } else { marked.len() };
    let expected = AggregateAmounts {
        own_rows: own as u64,
        sum_rows: marked.len() as u64,
        left_rows: (block.destinations - marked.len()) as u64,
        neighbor_rows: (kept.len() - own) as u64,
        entries: entries as u64,
        rows_read: (entries + summed_own + kept.len()) as u64,
        slot_bytes: kept.len() as u64 * row_bytes + marked.len() as u64 * sum_bytes + mask.len() as u64,
        raw_slot_bytes: nodes.len() as u64 * row_bytes,
        ..AggregateAmounts::default()
    };
    assert_eq!((counts.way.as_str(), counts.amounts), ("host", expected));
    let of_sums = AggregateCounts::of(sums.layout(), sums.header(), SumsMade::Host, 0).unwrap().amounts;
    let [raw, sums] = [expected.raw_slot_bytes, of_sums.slot_bytes];
    assert!(expected.slot_bytes <= raw.min(sums) + mask.len() as u64, "{expected:?} {of_sums:?}");
    ([expected.slot_bytes, raw, sums], [marked.len(), mask.len()])
}

/// The same for all batches of an epoch, in total.
fn compared_all(dataset: &Arc<Dataset>, options: &LoaderOptions) -> ([u64; 3], [usize; 2]) {
    let how = options.aggregation;
    let mut divided = start(dataset, &LoaderOptions { divides_sums: true, ..options.clone() });
    let mut plain = start(dataset, &LoaderOptions { aggregation: Aggregation::None, ..options.clone() });
    let mut sums = start(dataset, options);
    let (mut bytes, mut summed, mut batches) = ([0; 3], [0; 2], 0);
    while let Some(batch) = divided.next_batch().unwrap() {
        let [plain, sums] = [&mut plain, &mut sums].map(|other| other.next_batch().unwrap().unwrap());
        assert!(plain.sum_mask().is_none() && sums.sum_mask().is_none());
        let (of_batch, of_destinations) = compared(how, &batch, &plain, &sums);
        bytes.iter_mut().zip(of_batch).for_each(|(all, more)| *all += more);
        summed.iter_mut().zip(of_destinations).for_each(|(all, more)| *all += more);
        batches += 1;
    }
    assert!(batches > 1);
    (bytes, summed)
}

fn options(aggregation: Aggregation, fanouts: &[i32]) -> LoaderOptions {
    LoaderOptions {
        aggregation,
        fanouts: fanouts.to_vec(),
        batch_size: 64,
        seed: 5,
        ..LoaderOptions::default()
    }
}

#[test]
fn batches_have_the_sums_of_the_best_division_and_the_rows_that_the_others_take_in_every_way_to_make_them() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = Arc::new(Dataset::open(&common::graph(temp.path(), 2000, 8.0)).unwrap());
    let kind = |name| SamplerKind::from_name(name).unwrap();
    for how in [Mean, Degrees] {
        let usual = options(how, &[4, 3]);
        for options in [
            LoaderOptions { gather_threads: 2, samplers: 2, ..options(how, &[15, 10, 5]) },
            LoaderOptions { sampler_kind: kind("labor"), ..usual.clone() },
            LoaderOptions { sampler_kind: kind("ladies"), ..usual.clone() },
            LoaderOptions { prepare: Prepare::Whole, samplers: 2, ..usual.clone() },
            LoaderOptions { features: Features::Disk, ..usual.clone() },
        ] {
            let ([divided, raw, sums], [summed, all]) = compared_all(&dataset, &options);
            assert!(divided > 0 && raw > 0 && sums > 0 && summed <= all, "{options:?}");
        }
        // Here some destinations share their rows, and are left; none whose own row would be needed in place of a sum that
        // is no larger.
        let (_, [summed, all]) = compared_all(&dataset, &options(how, &[5, 4]));
        assert!(0 < summed && (summed < all) == (how == Mean), "{how}: {summed} of {all}");
    }
    // Of half-precision rows a sum takes two.
    let temp = tempfile::tempdir().unwrap();
    let half = common::graph_of(temp.path(), 2000, 8.0, ElementType::F16);
    let half = Arc::new(Dataset::open(&half).unwrap());
    let (_, [summed, all]) = compared_all(&half, &options(Degrees, &[2]));
    assert!(0 < summed && summed < all, "{summed} of {all}");
}

/// Where destinations share many of their sources, both pure ways take more bytes.
#[test]
fn on_a_citation_graph_with_three_hops_a_divided_batch_takes_fewer_bytes_than_all_rows_or_all_sums() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("citation");
    let common = Common { nodes: 100_000, feature_dim: 8, classes: 4, seed: 3, ..Citation::default().common };
    generate::write(Path::new(&path), &Citation { common, ..Citation::default() }, &|_| {}).unwrap();
    let dataset = Arc::new(Dataset::open(&path).unwrap());
    let ([divided, raw, sums], [summed, all]) =
        compared_all(&dataset, &LoaderOptions { batch_size: 512, ..options(Mean, &[15, 10, 5]) });
    assert!(
        20 * divided <= 19 * raw.min(sums),
        "{divided} of {raw} and {sums}: {summed} of {all} are summed"
    );
}
