//! A consumer that chooses during the run: the next pass, its own batches, and the batches that it keeps.

use crate::common;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use uva_batch::{ColumnError, Element};
use uva_graph::{Dataset, Split, Verify};
use uva_runtime::backend::Backend;
use uva_runtime::options::Prepare;
use uva_runtime::options::part::Part;
use uva_runtime::pipeline::consumer::{BatchStream, PassCursor, StreamSetup};
use uva_runtime::{Batch, LoaderOptions, Runtime, RuntimeError};

const SPLITS: [Split; 3] = [Split::Train, Split::Valid, Split::Test];

fn dataset(directory: &Path) -> Arc<Dataset> {
    let path = common::graph(directory, 1500, 6.0);
    Arc::new(Dataset::open_verified(&path, Verify::HeadersOnly).unwrap())
}

fn options(samplers: usize, feature_slots: usize) -> LoaderOptions {
    LoaderOptions {
        fanouts: [3, 2].into(),
        batch_size: 100,
        seed: 7,
        samplers,
        feature_slots,
        // The minimum number: batches in flight wait at each of them.
        batch_slots: Some(samplers + 2),
        ..LoaderOptions::default()
    }
}

fn stream(dataset: &Arc<Dataset>, options: &LoaderOptions) -> BatchStream {
    BatchStream::in_this_process(Arc::clone(dataset), options, Backend::Cpu, StreamSetup::of(Split::Train))
        .unwrap()
}

type Key = (Split, u32, u32);

fn key(batch: &Batch) -> Key {
    (batch.split(), batch.epoch(), batch.index())
}

/// Hashes of all batches of the first epochs in an unsteered run. The test split has epoch 0 only.
fn hashes(dataset: &Arc<Dataset>, epochs: u32) -> BTreeMap<Key, u64> {
    let builder = Runtime::builder(dataset.path()).options(options(1, 2)).epochs(epochs);
    let mut runtime = builder.validate(true).test(true).build().unwrap();
    let mut all = BTreeMap::new();
    while let Some(batch) = runtime.next_batch().unwrap() {
        all.insert(key(&batch), batch.hash());
    }
    all
}

fn pass(stream: &mut BatchStream, place: PassCursor) -> Vec<(Key, u64)> {
    stream.go_to(place);
    let mut seen = Vec::new();
    while let Some(batch) = stream.next_batch(&|| false).unwrap() {
        seen.push((key(&batch), batch.hash()));
    }
    seen
}

fn place(split: Split, epoch: u32, batch: u64) -> PassCursor {
    PassCursor { split, epoch, first: 0, batch }
}

#[test]
fn any_pass_can_be_requested_at_any_time_with_the_batches_of_a_plain_run() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let expected = hashes(&dataset, 4);
    let mut stream = stream(&dataset, &options(2, 2));
    let asked = [
        place(Split::Train, 0, 0),
        place(Split::Valid, 0, 0),
        place(Split::Train, 1, 0),
        place(Split::Test, 0, 0),
        place(Split::Train, 3, 2),
        place(Split::Train, 2, 0),
        place(Split::Valid, 3, 1),
        place(Split::Test, 0, 1),
        place(Split::Test, 0, 0),
    ];
    for asked in asked {
        let seen = pass(&mut stream, asked);
        assert_eq!(seen.len() as u64, stream.batches(asked.split) - asked.batch, "{asked:?}");
        for (at, (key, hash)) in seen.into_iter().enumerate() {
            assert_eq!(key, (asked.split, asked.epoch, asked.batch as u32 + at as u32));
            assert_eq!(expected[&key], hash, "{key:?}");
        }
    }
    stream.close().unwrap();
}

#[test]
fn passes_in_the_expected_order_cost_no_turn() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let mut stream = stream(&dataset, &options(1, 2));
    stream.expect_validation(true);
    let passes = [(Split::Train, 0), (Split::Valid, 0), (Split::Train, 1), (Split::Valid, 1)];
    for (split, epoch) in passes {
        pass(&mut stream, place(split, epoch, 0));
    }
    // After the first turn, which starts everything, the pipeline was never redirected: otherwise empty hand-overs
    // would have come between.
    assert_eq!(stream.skipped(), 2 + 3, "only those before the first batch");
    stream.close().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn however_a_consumer_jumps_it_gets_the_batches_it_requests(
        jumps in proptest::collection::vec((0..3_usize, 0..3_u32, 0..8_u64, 0..12_usize), 1..20),
        samplers in 1..4_usize,
        slots in 1..4_usize,
        spare in 0..6_usize,
        validate in any::<bool>(),
        whole in any::<bool>(),
    ) {
        static DATASET: std::sync::OnceLock<(tempfile::TempDir, Arc<Dataset>, BTreeMap<Key, u64>)> =
            std::sync::OnceLock::new();
        let (_, dataset, expected) = DATASET.get_or_init(|| {
            let temp = tempfile::tempdir().unwrap();
            let dataset = dataset(temp.path());
            let expected = hashes(&dataset, 3);
            (temp, dataset, expected)
        });
        let options = if whole {
            LoaderOptions { prepare: Prepare::Whole, ..options(samplers, slots.max(2)) }
        } else {
            LoaderOptions { batch_slots: Some(samplers + 2 + spare), ..options(samplers, slots) }
        };
        let mut stream = stream(dataset, &options);
        stream.expect_validation(validate);
        for (split, epoch, batch, take) in jumps {
            let split = SPLITS[split];
            let epoch = if split == Split::Test { 0 } else { epoch };
            stream.go_to(place(split, epoch, batch));
            for at in (batch..stream.batches(split)).take(take) {
                let taken = stream.next_batch(&|| false).unwrap().expect("there is one");
                prop_assert_eq!(key(&taken), (split, epoch, at as u32));
                prop_assert_eq!(taken.hash(), expected[&key(&taken)]);
            }
        }
    }
}

#[test]
fn parts_divide_an_epoch_and_do_not_change_its_batches() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let expected = hashes(&dataset, 2);
    for of in [2, 3] {
        let mut seen = BTreeMap::new();
        for index in 0..of {
            let options = LoaderOptions { part: Part { index, of }, ..options(2, 3) };
            let mut stream = stream(&dataset, &options);
            for (split, epoch) in [(Split::Train, 0), (Split::Train, 1), (Split::Valid, 1), (Split::Test, 0)]
            {
                for (key, hash) in pass(&mut stream, place(split, epoch, 0)) {
                    assert_eq!(key.2 % of, index);
                    assert!(seen.insert(key, hash).is_none(), "{key:?} came twice");
                }
            }
        }
        assert!(seen.iter().all(|(key, hash)| expected[key] == *hash));
        let count = |split, epoch| seen.keys().filter(|key| (key.0, key.1) == (split, epoch)).count() as u32;
        let whole =
            |split, epoch| expected.keys().filter(|key| (key.0, key.1) == (split, epoch)).count() as u32;
        assert_eq!(count(Split::Train, 1), whole(Split::Train, 1) / of * of);
        assert_eq!(count(Split::Valid, 1), whole(Split::Valid, 1));
        assert_eq!(count(Split::Test, 0), whole(Split::Test, 0));
    }
}

#[test]
fn a_rank_beyond_the_ranks_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let options = LoaderOptions { part: Part { index: 2, of: 2 }, ..options(1, 2) };
    let refused =
        BatchStream::in_this_process(dataset, &options, Backend::Cpu, StreamSetup::of(Split::Train))
            .unwrap_err();
    assert!(matches!(&refused, RuntimeError::Option(error) if error.field == "rank"), "{refused}");
}

#[test]
fn batches_can_be_kept_as_long_as_the_next_one_has_a_slot() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    for slots in 1..=3_usize {
        let mut stream = stream(&dataset, &options(2, slots));
        let mut kept = Vec::new();
        for _ in 0..slots {
            kept.push(stream.next_batch(&|| false).unwrap().unwrap());
        }
        let rows: Vec<u8> = kept[0].features().bytes.to_vec();
        let full = stream.next_batch(&|| false).unwrap_err();
        assert!(matches!(full, RuntimeError::SlotHeld(_)), "{full:?}");
        assert_eq!(kept[0].features().bytes, rows, "the held batch was overwritten");
        // In any thread and any order of drops: the same call then continues.
        let last = kept.pop().unwrap();
        std::thread::spawn(move || drop(last)).join().unwrap();
        if slots > 1 {
            let full = stream.next_batch(&|| false).unwrap_err();
            assert!(matches!(full, RuntimeError::SlotHeld(_)), "{full:?}");
        }
        kept.clear();
        let next = stream.next_batch(&|| false).unwrap().unwrap();
        assert_eq!(next.index() as usize, slots);
    }
}

#[test]
fn a_batch_outlives_the_roles_that_made_it() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let mut stream = stream(&dataset, &options(1, 2));
    let batch = stream.next_batch(&|| false).unwrap().unwrap();
    stream.close().unwrap();
    let table = dataset.features();
    let row = table.row_bytes();
    for (position, node) in batch.input_nodes().iter().enumerate() {
        let at = *node as usize * row;
        assert_eq!(&batch.features().bytes[position * row..][..row], &table.bytes[at..at + row]);
    }
}

#[test]
fn a_wait_ends_when_its_caller_is_interrupted_and_continues_on_retry() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let mut stream = stream(&dataset, &options(1, 1));
    let first = stream.next_batch(&|| false).unwrap().unwrap();
    // The producer waits for the only slot, which is held, but that is an error of its own. So the test waits where no
    // batch can come: after a turn, whose empty hand-overs need the slot as well.
    drop(first);
    let asked = Cell::new(0);
    let interrupted = || {
        asked.set(asked.get() + 1);
        true
    };
    stream.go_to(place(Split::Test, 0, 0));
    // The pipeline determines whether it waits at all: if it waits, it is interrupted.
    match stream.next_batch(&interrupted) {
        Err(RuntimeError::Interrupted(_)) => assert!(asked.get() > 0),
        Ok(Some(batch)) => assert_eq!((key(&batch), asked.get()), ((Split::Test, 0, 0), 0)),
        other => panic!("{other:?}"),
    }
    stream.go_to(place(Split::Test, 0, 0));
    let batch = stream.next_batch(&|| false).unwrap().unwrap();
    assert_eq!(key(&batch), (Split::Test, 0, 0));
}

#[test]
fn the_addresses_of_a_batchs_arrays_are_those_of_its_slices() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let mut stream = stream(&dataset, &options(1, 2));
    let batch = stream.next_batch(&|| false).unwrap().unwrap();
    let raw = |name: &str| batch.column(name).unwrap().raw();
    let nodes = raw("input_nodes");
    assert_eq!(nodes.address, batch.input_nodes().as_ptr() as u64);
    assert_eq!((nodes.rows, nodes.columns, nodes.element), (batch.node_count(), None, Element::I64));
    let features = raw("x");
    assert_eq!(features.address, batch.features().bytes.as_ptr() as u64);
    assert_eq!((features.rows, features.columns), (batch.node_count(), Some(dataset.table().dim)));
    assert_eq!(features.bytes, batch.features().bytes.len());
    for layer in 0..batch.layers() {
        let block = batch.block(layer);
        let (indptr, indices) = (raw(&format!("block{layer}.indptr")), raw(&format!("block{layer}.indices")));
        assert_eq!((indptr.address, indptr.rows), (block.indptr.as_ptr() as u64, block.indptr.len()));
        assert_eq!((indices.address, indices.rows), (block.indices.as_ptr() as u64, block.indices.len()));
        assert_eq!((indptr.bytes, indices.bytes), (block.indptr.len() * 4, block.indices.len() * 4));
    }
    assert_eq!(raw("labels").rows, batch.seed_count());
    assert_eq!((raw("seeds").address, raw("seeds").rows), (nodes.address, batch.seed_count()));
}

#[test]
fn columns_are_read_by_name_and_type_and_what_is_wrong_is_named() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let mut stream = stream(&dataset, &options(1, 2));
    let batch = stream.next_batch(&|| false).unwrap().unwrap();
    let column = |name: &str| batch.column(name).unwrap();
    assert_eq!(column("input_nodes").i64().unwrap(), batch.input_nodes());
    assert_eq!(column("seeds").i64().unwrap(), batch.seeds());
    assert_eq!(column("block1.indices").i32().unwrap(), batch.block(1).indices);
    assert_eq!(column("x").bytes().unwrap(), batch.features().bytes);
    let refused = |name: &str| batch.column(name).err().expect(name);
    assert!(matches!(refused("degrees"), ColumnError::Absent { .. }));
    assert!(refused("block0.weights").to_string().contains("weighs no edges"));
    assert!(refused("lables").to_string().contains("`labels`"), "{}", refused("lables"));
    assert_eq!(refused("block9.indptr"), ColumnError::NoSuchLayer { layer: 9, layers: batch.layers() });
    let rows = batch.features_f32().unwrap();
    assert_eq!((rows.iter().len(), rows.dim()), (batch.node_count(), dataset.table().dim));
    assert_eq!(rows.row(1), rows.into_iter().nth(1).unwrap());
    assert_eq!(bytemuck::cast_slice::<f32, u8>(rows.values()), batch.features().bytes);
    assert_eq!(batch.features_f16().unwrap_err().to_string(), "`x` has float32 values, not float16");
    let other = column("labels").i32().unwrap_err();
    assert_eq!(other.to_string(), "`labels` has int64 values, not int32");
}
