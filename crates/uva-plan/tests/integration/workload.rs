//! The counted batches are the run's own, on any number of threads.

use std::sync::Mutex;

use uva_graph::Split;
use uva_plan::{CacheError, Hotness, Workload, count, count_batches};
use uva_sample::{
    BatchBounds, BatchKey, GraphView, MiniBatch, SamplerKind, SamplerOptions, SeedOrder, sampler,
};

use crate::common::{Stored, by_hand, options, stored};

const FANOUTS: [i32; 2] = [4, 3];

/// Batches of some epochs, sampled by the simplest method.
fn plainly(workload: &Workload<'_>, epochs: std::ops::Range<u32>, mut visitor: impl FnMut(&MiniBatch)) {
    let csc = workload.csc;
    let (options, size) = (&workload.options, workload.batch_size);
    let bounds = BatchBounds::for_options(options, size, csc.nodes(), csc.edges(), Some(usize::MAX)).unwrap();
    let mut batch = MiniBatch::with_bounds(&bounds);
    let graph = GraphView { weights: workload.weights, ..csc.into() };
    let mut sampler = sampler(graph, &workload.options).unwrap();
    let mut order = SeedOrder::new(
        workload.options.seed,
        Split::Train,
        workload.train.len(),
        true,
        workload.batch_size,
        workload.drop_last,
    )
    .unwrap();
    for epoch in epochs {
        order.prepare(epoch).unwrap();
        for number in 0..order.batches() {
            let seeds: Vec<i64> =
                order.batch(number).iter().map(|&position| workload.train[position as usize]).collect();
            let key = BatchKey { split: Split::Train, epoch, batch: number as u32 };
            sampler.sample_into(key, &seeds, &mut batch).unwrap();
            visitor(&batch);
        }
    }
}

#[test]
fn every_kind_of_sampler_is_counted_by_its_own_batches_and_reads() {
    let stored = stored(2000, 12.0, 1, 0.3, 1);
    let weights: Vec<f32> = (0..stored.dataset.edges()).map(|edge| (edge % 5) as f32).collect();
    for kind in SamplerKind::ALL {
        let fanouts = if kind.draws_one_subgraph() { [20, 20] } else { FANOUTS };
        let options = SamplerOptions { kind, ..options(&fanouts) };
        let mut workload = Workload::of(&stored.dataset, options, 100);
        workload.weights = Some(&weights);
        let (mut reads, mut rows) = (0, 0);
        plainly(&workload, 0..1, |batch| {
            reads += batch.counts().list_reads.all;
            rows += batch.nodes().len() as u64;
        });
        let counted = count(&workload, 0..1).unwrap();
        assert_eq!((counted.total_list_reads(), counted.total_feature_reads()), (reads, rows), "{kind}");
    }
}

#[test]
fn any_number_of_threads_counts_what_one_plain_loop_counts() {
    let stored = stored(3000, 12.0, 1, 0.3, 1);
    for replace in [false, true] {
        counts_of_any_number_of_threads(&stored, replace);
    }
}

fn counts_of_any_number_of_threads(stored: &Stored, replace: bool) {
    let options = SamplerOptions { replace, ..options(&FANOUTS) };
    let mut workload = Workload::of(&stored.dataset, options, 100);
    let mut expected =
        Hotness { feature_reads: vec![0; 3000], list_reads: vec![0; 3000], ..Hotness::default() };
    plainly(&workload, 0..2, |batch| {
        expected.batches += 1;
        expected.picks += batch.counts().edges() as u64;
        for &node in batch.nodes() {
            expected.feature_reads[node as usize] += 1;
        }
        for (layer, fanout) in batch.blocks().zip(FANOUTS) {
            for &node in &batch.nodes()[..layer.destinations] {
                let degree = workload.csc.degree(node as usize);
                let drawn = replace && degree > 0;
                let picks = if drawn { fanout as usize } else { degree.min(fanout as usize) };
                expected.list_reads[node as usize] += 1 + picks as u32;
            }
        }
    });
    let mut all = 0;
    plainly(&workload, 0..2, |batch| all += batch.counts().list_reads.all);
    assert_eq!(expected.total_list_reads(), all, "reads are those that the sampler itself counts");
    for threads in [1, 2, 5, 0] {
        workload.threads = threads;
        assert_eq!(count(&workload, 0..2).unwrap(), expected, "{threads} threads");
    }
}

#[test]
fn batches_in_order_are_those_of_the_run_one_after_the_other() {
    let stored = stored(3000, 12.0, 1, 0.3, 1);
    let mut workload = Workload::of(&stored.dataset, options(&FANOUTS), 64);
    let mut expected = Vec::new();
    plainly(&workload, 3..5, |batch| expected.push(batch.hash()));
    for threads in [1, 3] {
        workload.threads = threads;
        let mut found = Vec::new();
        let batches = workload.visit_in_order(3..5, &mut |batch| found.push(batch.hash())).unwrap();
        assert_eq!(found, expected);
        assert_eq!(batches, expected.len() as u64);
    }
}

#[test]
fn some_batches_of_an_epoch_are_exactly_those() {
    let stored = stored(3000, 12.0, 1, 0.3, 1);
    let workload = Workload::of(&stored.dataset, options(&FANOUTS), 100);
    let mut expected = Vec::new();
    plainly(&workload, 1..2, |batch| expected.push(batch.hash()));
    for range in [0..3, 2..5, 7..100, 50..60, 4..4] {
        let found = Mutex::new(Vec::new());
        let visited = workload
            .visit_batches(1, range.clone(), &|batch| found.lock().unwrap().push(batch.hash()))
            .unwrap();
        let mut found = found.into_inner().unwrap();
        let mut expected = expected[range.start.min(expected.len())..range.end.min(expected.len())].to_vec();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "{range:?}");
        assert_eq!(visited, found.len() as u64);
    }
    assert_eq!(count_batches(&workload, 1, 0..3).unwrap().batches, 3);
}

#[test]
fn partial_batches_are_not_counted_where_the_run_drops_them() {
    let (indptr, indices, train) = ([0, 1, 2, 3], [1, 2, 0], [0, 1, 2]);
    let mut workload = by_hand(&indptr, &indices, &train, &[1], 2);
    assert_eq!(count(&workload, 0..4).unwrap().batches, 8);
    workload.drop_last = true;
    assert_eq!(count(&workload, 0..4).unwrap().batches, 4);
    workload.batch_size = 4;
    let refused = count(&workload, 0..1).unwrap_err();
    assert!(matches!(refused, CacheError::NoBatches { seeds: 3, batch_size: 4 }), "{refused}");
}

#[test]
fn an_empty_train_split_is_refused() {
    let workload = by_hand(&[0, 1], &[0], &[], &[1], 2);
    assert!(matches!(count(&workload, 0..1), Err(CacheError::EmptyTrainSplit)));
    assert!(matches!(workload.batches(), Err(CacheError::EmptyTrainSplit)));
}

#[test]
fn a_batch_that_cannot_be_sampled_ends_the_count_with_its_error() {
    // Node 2's neighbour does not exist; so does seed 9.
    let (indptr, indices) = ([0, 1, 2, 3], [1, 2, 7]);
    for train in [[0, 1, 2], [0, 1, 9]] {
        let workload = by_hand(&indptr, &indices, &train, &[1], 1);
        for error in
            [count(&workload, 0..50).unwrap_err(), workload.visit_in_order(0..50, &mut |_| {}).unwrap_err()]
        {
            assert!(matches!(error, CacheError::Sample(_)), "{error}");
            assert!(error.is_bad_input());
        }
    }
}

#[test]
fn all_neighbours_are_counted_without_a_bound_on_the_batch() {
    let stored = stored(500, 6.0, 1, 0.1, 1);
    let mut workload = Workload::of(&stored.dataset, options(&[-1, 3]), 20);
    let hotness = count(&workload, 0..1).unwrap();
    let seed_degrees: usize = workload.train.iter().map(|&seed| workload.csc.degree(seed as usize)).sum();
    assert!(hotness.picks as usize > seed_degrees);
    workload.batch_bytes = Some(600);
    assert!(matches!(count(&workload, 0..1), Err(CacheError::Sample(_))), "as in a run with such slots");
}

#[test]
fn progress_ends_at_the_total() {
    let stored = stored(500, 6.0, 1, 0.5, 1);
    let seen = Mutex::new(Vec::new());
    let tell = |progress: uva_graph::Progress| {
        seen.lock().unwrap().push((progress.done, progress.total));
    };
    let mut workload = Workload::of(&stored.dataset, options(&[2]), 50);
    workload.progress = Some(&tell);
    count(&workload, 0..3).unwrap();
    let mut seen = seen.into_inner().unwrap();
    seen.sort_unstable();
    assert_eq!(seen, (1..=15).map(|done| (done, 15)).collect::<Vec<_>>());
}
