//! Workers that prepare whole batches: all bytes of a batch equal those of samplers and a producer, for any number of
//! workers, and a worker that fails ends the others.

use crate::common;
use std::path::Path;
use std::sync::{Arc, Mutex};

use uva_batch::Aggregation;
use uva_graph::npy::{NpyType, NpyWriter, write_array};
use uva_graph::{Dataset, ElementType};
use uva_rows::cache::eviction;
use uva_runtime::backend::Backend;
use uva_runtime::machine::pin_cores::PinCores;
use uva_runtime::options::{Pad, Prepare};
use uva_runtime::pipeline::wiring::Connections;
use uva_runtime::plan::RunPlan;
use uva_runtime::plan::topology::{Placement, Topology};
use uva_runtime::sampler::cache::{CacheContents, CachePolicy};
use uva_runtime::tune::planning;
use uva_runtime::{FeatureType, LoaderOptions, Passes, Runtime, RuntimeError, Split, machine};

const PASSES: fn() -> Passes = || Passes { epochs: 2, validate: true, test: true, ..Passes::default() };

/// With narrow features, edge weights and types, and edge features of two values.
fn dataset(directory: &Path) -> Arc<Dataset> {
    let path = common::graph_of(directory, 2000, 8.0, ElementType::F16);
    let edges = Dataset::open(&path).unwrap().edges();
    let weights: Vec<f32> = (0..edges).map(|edge| (1 + edge * 31 % 17) as f32).collect();
    write_array(&path.join("weight.npy"), NpyType::F32, &[], &weights).unwrap();
    let types: Vec<u16> = (0..edges).map(|edge| (edge * 31) as u16).collect();
    write_array(&path.join("edge_type.npy"), NpyType::U16, &[], &types).unwrap();
    let rows: Vec<f32> = (0..2 * edges).map(|value| value as f32).collect();
    let mut writer = NpyWriter::create(&path.join("edge_feat.npy"), NpyType::F32, &[2]).unwrap();
    writer.write_bytes(bytemuck::cast_slice(&rows)).unwrap();
    writer.finish().unwrap();
    Arc::new(Dataset::open(&path).unwrap())
}

fn options(prepare: Prepare, samplers: usize) -> LoaderOptions {
    LoaderOptions {
        fanouts: [4, 3].into(),
        batch_size: 64,
        seed: 5,
        prepare,
        samplers,
        ..LoaderOptions::default()
    }
}

/// A column of a batch: its name, rows and bytes.
type Bytes = (String, usize, Vec<u8>);

/// Key, hash, and every column of each batch, as bytes.
fn all(
    dataset: &Arc<Dataset>,
    options: &LoaderOptions,
    contents: CacheContents,
) -> Vec<(String, u64, Vec<Bytes>)> {
    let plan = RunPlan::new(dataset, options, PASSES()).unwrap();
    let mut runtime = Runtime::start_with(Arc::clone(dataset), plan, contents).unwrap();
    let mut seen = Vec::new();
    while let Some(batch) = runtime.next_batch().unwrap() {
        let key = format!("{} {} {}", batch.split(), batch.epoch(), batch.index());
        let columns = batch.layout().columns().iter().map(|place| {
            let column = batch.column_of(place.key).unwrap();
            (
                format!("{:?} {}", place.key.column, place.key.layer),
                column.raw().rows,
                column.bytes().unwrap().to_vec(),
            )
        });
        seen.push((key, batch.hash(), columns.collect()));
    }
    seen
}

#[test]
fn every_column_of_every_batch_is_that_of_samplers_and_a_producer() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let with = |change: fn(&mut LoaderOptions)| change;
    for change in [
        with(|_| {}),
        with(|options| options.feature_type = FeatureType::Float32),
        with(|options| (options.edge_attr, options.input_id, options.degrees) = (true, true, true)),
        with(|options| options.aggregation = Aggregation::Mean),
        with(|options| (options.aggregation, options.edge_attr) = (Aggregation::Degrees, true)),
        with(|options| options.aggregation = Aggregation::Max),
        with(|options| (options.pad, options.edge_type) = (Pad::Auto, true)),
    ] {
        let mut apart = options(Prepare::Roles, 2);
        change(&mut apart);
        let expected = all(&dataset, &apart, CacheContents::default());
        assert!(expected.len() > 20 && expected[0].2.len() > 5);
        for (samplers, feature_slots) in [(1, 2), (2, 2), (3, 4), (7, 2)] {
            let whole = LoaderOptions { prepare: Prepare::Whole, samplers, feature_slots, ..apart.clone() };
            let found = all(&dataset, &whole, CacheContents::default());
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(&expected) {
                assert!(found == expected, "{} of {samplers} workers, {whole:?}", found.0);
            }
        }
    }
}

#[test]
fn workers_share_one_cache_of_chosen_rows_and_hit_what_a_producer_hits() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    for aggregation in [Aggregation::None, Aggregation::Mean] {
        let run = |prepare, samplers| {
            let options = LoaderOptions { aggregation, ..options(prepare, samplers) };
            let (plan, _) =
                planning::plan(&dataset, &options, &Backend::Cpu, 20_000, CachePolicy::DEGREE, &|_| {})
                    .unwrap();
            let contents = CacheContents::of_plan(&dataset, &plan).unwrap();
            let plan = RunPlan::new(&dataset, &options, PASSES()).unwrap();
            let mut runtime = Runtime::start_with(Arc::clone(&dataset), plan, contents).unwrap();
            let mut seen = Vec::new();
            while let Some(batch) = runtime.next_batch().unwrap() {
                seen.push((batch.hash(), batch.rows_cached(), batch.features().bytes.to_vec()));
            }
            seen
        };
        let expected = run(Prepare::Roles, 1);
        assert!(expected.iter().any(|(_, hits, _)| *hits > 0));
        assert!(run(Prepare::Whole, 3) == expected, "{aggregation}");
    }
}

#[test]
fn a_cache_that_evicts_and_a_single_slot_are_refused_by_name() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let options = options(Prepare::Whole, 2);
    let policy = CachePolicy::Evicting(eviction::by_name("fifo").unwrap());
    let (plan, _) = planning::plan(&dataset, &options, &Backend::Cpu, 20_000, policy, &|_| {}).unwrap();
    let contents = CacheContents::of_plan(&dataset, &plan).unwrap();
    let plan = RunPlan::new(&dataset, &options, PASSES()).unwrap();
    let refused = Runtime::start_with(Arc::clone(&dataset), plan, contents).unwrap_err();
    let RuntimeError::Option(error) = &refused else { panic!("{refused}") };
    assert_eq!((error.field.as_str(), refused.exit_code()), ("prepare", 2));
    assert!(refused.to_string().contains("cache_policy=fifo"), "{refused}");

    let one = LoaderOptions { feature_slots: 1, ..options };
    let refused = RunPlan::new(&dataset, &one, PASSES()).unwrap_err();
    assert!(
        refused.to_string().contains("slots=1") && refused.to_string().contains("2 or more"),
        "{refused}"
    );
}

#[test]
fn there_are_more_slots_than_workers_and_no_ring_of_batches() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    for (samplers, feature_slots, expected) in [(1, 2, 2), (3, 2, 4), (3, 3, 5), (64, 64, 127)] {
        let options = LoaderOptions { feature_slots, ..options(Prepare::Whole, samplers) };
        let plan = RunPlan::new(&dataset, &options, PASSES()).unwrap();
        let topology = Topology::new(&plan, Placement::Processes);
        let rings: Vec<_> = topology.rings.iter().map(|ring| (ring.name.name(), ring.shape.slots)).collect();
        assert_eq!(rings, [("feature", expected)]);
        // All workers are in one process, and the consumer in another.
        assert_eq!((topology.processes, topology.stages_of(1).count()), (2, samplers));
    }
}

#[test]
fn workers_stay_on_the_given_cores_or_run_unpinned_where_refused() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let allowed = machine::allowed_cores().unwrap();
    let elsewhere = machine::MOST_CORES - 1;
    assert!(!allowed.contains(&elsewhere), "this machine has a core {elsewhere}");
    let expected = all(&dataset, &options(Prepare::Roles, 1), CacheContents::default()).len();
    for (pin, notes) in [(PinCores::All, 0), (PinCores::Listed(vec![elsewhere]), 2)] {
        let options = LoaderOptions { pin_cores: Some(pin.clone()), ..options(Prepare::Whole, 2) };
        let plan = RunPlan::new(&dataset, &options, PASSES()).unwrap();
        // The run's start refuses a core outside the mask. A mask that changes afterwards is not checked.
        if notes > 0 {
            let refused = Runtime::start(Arc::clone(&dataset), plan.clone()).unwrap_err();
            let RuntimeError::Option(error) = &refused else { panic!("{refused}") };
            assert_eq!(error.field, "pin_cores");
        }
        let topology = Topology::new(&plan, Placement::Threads);
        let stages: Vec<_> = topology.stages_of(0).collect();
        let mut connections =
            Connections::create(Arc::clone(&dataset), Arc::new(plan), &CacheContents::default()).unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&told);
        connections.note = Arc::new(move |line| lines.lock().unwrap().push(line.to_owned()));
        let mut runtime = Runtime::wired(connections, &stages).unwrap();
        let mut batches = 0;
        while runtime.next_batch().unwrap().is_some() {
            batches += 1;
        }
        assert_eq!(batches, expected);
        let told = told.lock().unwrap();
        assert_eq!(told.len(), notes, "{pin}: {told:?}");
        assert!(told.iter().all(|line| line.contains("pin_cores")), "{told:?}");
    }
}

#[test]
fn workers_have_their_own_times_and_a_producer_is_reported_absent() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let plan = RunPlan::new(&dataset, &options(Prepare::Whole, 2), PASSES()).unwrap();
    let mut runtime = Runtime::start(Arc::clone(&dataset), plan).unwrap();
    let (mut batches, mut worked) = (0, 0.0);
    while let Some(batch) = runtime.next_batch().unwrap() {
        // The test pass follows empty hand-overs.
        assert!(
            batch.split() == Split::Test || batch.sampler() == batches % 2,
            "workers take batches alternately"
        );
        assert_eq!(batch.pace(), 1);
        worked += (batch.sample_time() + batch.gather_time()).as_secs_f64();
        let [sampled, gathered] = batch.began();
        assert_eq!(sampled + batch.sample_time(), gathered, "a worker gathers after sampling");
        batches += 1;
    }
    runtime.stop().unwrap();
    let roles = runtime.roles();
    assert_eq!(roles.each().iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["worker", "consumer"]);
    assert_eq!((roles.sampler.processes, roles.producer.processes), (2, 0));
    assert_eq!(roles.producer.working_s, 0.0);
    // The mean of two workers, with both parts of their work.
    assert!(2.0 * roles.sampler.working_s >= worked, "{roles:?} {worked}");
}
