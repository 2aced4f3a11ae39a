//! The roles as threads: the behaviour on which embedding programs rely.

use crate::common;
use std::path::{Path, PathBuf};

use uva_graph::{Labels, Split};
use uva_runtime::{Cursor, LoaderOptions, Runtime, RuntimeError};
use uva_sample::{BatchKey, BatchSampler, MiniBatch, NeighborSampler, SamplerOptions};

fn graph(directory: &Path) -> PathBuf {
    common::graph(directory, 2000, 8.0)
}

fn options(samplers: usize) -> LoaderOptions {
    LoaderOptions { fanouts: [4, 3].into(), batch_size: 64, seed: 11, samplers, ..LoaderOptions::default() }
}

/// Split, epoch, batch and hash of all batches.
fn all(runtime: &mut Runtime) -> Vec<(Split, u32, u32, u64)> {
    let mut seen = Vec::new();
    while let Some(batch) = runtime.next_batch().expect("a batch") {
        seen.push((batch.split(), batch.epoch(), batch.index(), batch.hash()));
    }
    seen
}

#[test]
fn every_batch_comes_once_in_order_for_any_number_of_samplers() {
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    let run = |samplers, slots| {
        let options = LoaderOptions { feature_slots: slots, ..options(samplers) };
        let builder = Runtime::builder(&graph).options(options).epochs(2).validate(true).test(true);
        let mut runtime = builder.build().unwrap();
        let schedule = *runtime.schedule();
        (all(&mut runtime), schedule)
    };
    let (one, schedule) = run(1, 2);
    let expected = 2 * (schedule.train_batches() + schedule.valid_batches()) + schedule.test_batches();
    assert_eq!(one.len() as u64, expected);
    let order: Vec<_> = one.iter().map(|(split, epoch, batch, _)| (*split, *epoch, *batch)).collect();
    assert_eq!(order[0], (Split::Train, 0, 0));
    assert_eq!(order.last().map(|last| last.0), Some(Split::Test));
    for (samplers, slots) in [(2, 1), (3, 2), (4, 5)] {
        assert_eq!(one, run(samplers, slots).0, "{samplers} samplers, {slots} slots");
    }
}

#[test]
fn a_batch_holds_the_rows_and_labels_of_its_nodes_and_its_own_blocks() {
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    let mut runtime = Runtime::builder(&graph).options(options(2)).build().unwrap();
    let dataset = uva_graph::Dataset::open(&graph).unwrap();
    let sampler =
        SamplerOptions { fanouts: [4, 3].into(), replace: false, seed: 11, ..SamplerOptions::default() };
    let mut sampler = NeighborSampler::new(dataset.csc(), sampler).unwrap();
    let bounds = uva_sample::BatchBounds::new(64, [4, 3], dataset.nodes(), dataset.edges()).unwrap();
    let mut expected = MiniBatch::with_bounds(&bounds);
    let table = dataset.features();
    let Labels::Single(labels) = dataset.labels() else { panic!("single labels") };
    let mut batches = 0;
    while let Some(batch) = runtime.next_batch().unwrap() {
        let key = BatchKey { split: batch.split(), epoch: batch.epoch(), batch: batch.index() };
        sampler.sample_into(key, batch.seeds(), &mut expected).unwrap();
        assert_eq!(batch.input_nodes(), expected.nodes());
        assert_eq!(batch.hash(), expected.hash());
        for layer in 0..batch.layers() {
            assert_eq!(Some(batch.block(layer)), expected.block(layer));
        }
        let row = table.row_bytes();
        for (position, node) in batch.input_nodes().iter().enumerate() {
            let at = *node as usize * row;
            assert_eq!(&batch.features().bytes[position * row..][..row], &table.bytes[at..at + row]);
        }
        let seeds: Vec<i64> = batch.seeds().iter().map(|seed| labels[*seed as usize]).collect();
        let Labels::Single(batch_labels) = batch.labels() else { panic!("single labels") };
        assert_eq!(batch_labels, seeds);
        assert_eq!(batch.features().bytes.as_ptr() as usize % 64, 0, "rows start on a cache line");
        batches += 1;
    }
    assert_eq!(batches, runtime.schedule().train_batches());
}

#[test]
fn seeds_have_places_in_the_split_on_request_and_nothing_else_changes() {
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    let dataset = uva_graph::Dataset::open(&graph).unwrap();
    let start = |options| Runtime::builder(&graph).options(options).epochs(2).validate(true).build().unwrap();
    let mut runtime = start(LoaderOptions { input_id: true, ..options(2) });
    let mut plain = start(options(2));
    let mut shuffled = false;
    while let Some(batch) = runtime.next_batch().unwrap() {
        let split = dataset.split(batch.split());
        let named: Vec<i64> = batch.input_id().iter().map(|place| split[*place as usize]).collect();
        assert_eq!(named, batch.seeds());
        shuffled |= !batch.input_id().is_sorted();
        assert_eq!(batch.column("input_id").unwrap().i64().unwrap(), batch.input_id());
        let without = plain.next_batch().unwrap().expect("as many batches");
        assert_eq!(without.hash(), batch.hash());
        assert!(without.input_id().is_empty() && without.column("input_id").is_err());
    }
    assert!(shuffled && plain.next_batch().unwrap().is_none());
}

#[test]
fn a_runtime_started_at_a_cursor_gives_the_rest() {
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    let builder = || Runtime::builder(&graph).options(options(2)).epochs(2);
    let whole = all(&mut builder().build().unwrap());
    let cursor = Cursor { epoch: 1, batch: 2 };
    let rest = all(&mut builder().start_at(cursor).build().unwrap());
    assert_eq!(rest, whole[whole.len() / 2 + 2..]);
}

#[test]
fn a_batch_larger_than_its_slot_is_the_samplers_error_and_not_a_dead_peer() {
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    let options = LoaderOptions { slot_bytes: Some(3000), ..options(1) };
    let mut runtime = Runtime::builder(&graph).options(options).build().unwrap();
    let error = loop {
        match runtime.next_batch() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("no batch was too large"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, RuntimeError::Option(_)), "{error:?}");
    assert!(error.to_string().contains("slot_bytes"), "{error}");
}

#[test]
fn small_batches_have_eight_slots_and_large_ones_two_more_than_samplers() {
    let temp = tempfile::tempdir().unwrap();
    let graph = graph(temp.path());
    let slots = |options| {
        let runtime = Runtime::builder(&graph).options(options).build().unwrap();
        let (_, batch) = runtime.gauges().unwrap().slots()[0];
        batch.each().into_iter().map(|(_, slots)| slots).sum::<usize>()
    };
    // The bound of a batch is all edges for each layer: this graph's are a few MiB with this many layers, and not with
    // two.
    let large = vec![15; 32];
    for (samplers, fanouts, batch_slots, expected) in [
        (1, vec![4, 3], None, 8),
        (6, vec![4, 3], None, 8),
        (7, vec![4, 3], None, 9),
        (1, large.clone(), None, 3),
        (4, large.clone(), None, 6),
        (1, vec![4, 3], Some(3), 3),
        (1, large, Some(5), 5),
    ] {
        let options = LoaderOptions { fanouts: fanouts.into(), batch_slots, ..options(samplers) };
        assert_eq!(slots(options), expected, "{samplers} samplers, {batch_slots:?}");
    }
}
