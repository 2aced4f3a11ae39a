//! Feature values of batches as float32: the table's own values, with any caches and any number of gather threads.

use crate::{common, stand_in};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use half::{bf16, f16};
use uva_graph::{Dataset, ElementType, Split};
use uva_rows::NarrowFloat;
use uva_runtime::backend::{Backend, GatherChoice, SamplerChoice};
use uva_runtime::pipeline::consumer::{BatchStream, StreamSetup};
use uva_runtime::plan::RunPlan;
use uva_runtime::sampler::cache::{CacheContents, CachePolicy};
use uva_runtime::tune::planning::{self, CachedDataset};
use uva_runtime::{FeatureType, LoaderOptions, Passes, Runtime, RuntimeError};
use uva_sample::BatchKey;

const NARROW: [ElementType; 3] = [ElementType::F16, ElementType::Bf16, ElementType::E4m3];

fn options(feature_type: FeatureType) -> LoaderOptions {
    LoaderOptions {
        fanouts: [4, 3].into(),
        batch_size: 64,
        seed: 11,
        gather_threads: 2,
        feature_type,
        ..LoaderOptions::default()
    }
}

fn on_gpu(gather: GatherChoice) -> Backend {
    stand_in::on_gpu(gather, SamplerChoice::Cpu)
}

/// Five features per node, so that rows end at any offset in a cache line.
fn dataset(directory: &Path, element: ElementType) -> Arc<Dataset> {
    Arc::new(Dataset::open(&common::graph_of(directory, 2000, 8.0, element)).unwrap())
}

/// The table's rows of these nodes as float32.
fn expected(dataset: &Dataset, nodes: &[i64]) -> Vec<f32> {
    let table = dataset.features();
    let widen = |value: &[u8]| match table.element {
        ElementType::F16 => f16::from_le_bytes(value.try_into().unwrap()).to_f32(),
        ElementType::Bf16 => bf16::from_le_bytes(value.try_into().unwrap()).to_f32(),
        ElementType::E4m3 => f32::from_bits(NarrowFloat::E4m3.widened(value[0].into())),
        ElementType::F32 => f32::from_le_bytes(value.try_into().unwrap()),
        other => panic!("{other}"),
    };
    let row = |&node: &i64| &table.bytes[node as usize * table.row_bytes()..][..table.row_bytes()];
    nodes.iter().map(row).flat_map(|row| row.chunks_exact(table.element.bytes())).map(widen).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|value| f32::from_le_bytes(value.try_into().unwrap())).collect()
}

fn planned(dataset: &Arc<Dataset>, policy: CachePolicy) -> CacheContents {
    let (options, bytes) = (options(FeatureType::Float32), 40_000);
    let (plan, _) = planning::plan(dataset, &options, &Backend::Cpu, bytes, policy, &|_| {}).unwrap();
    CacheContents::of_plan(dataset, &plan).unwrap()
}

/// Hash and rows of each batch.
fn batches(
    dataset: &Arc<Dataset>,
    feature_type: FeatureType,
    contents: CacheContents,
) -> Vec<(u64, Vec<u8>)> {
    let passes = Passes { epochs: 1, validate: true, ..Passes::default() };
    let plan = RunPlan::new(dataset, &options(feature_type), passes).unwrap();
    let mut runtime = Runtime::start_with(Arc::clone(dataset), plan, contents).unwrap();
    // Reads are in the table's type, whatever the written type.
    let bytes = runtime.gauges().unwrap().gathered_bytes(3, &BTreeMap::new());
    assert_eq!(bytes, 3 * dataset.table().row_bytes() as u64);
    let mut seen = Vec::new();
    while let Some(batch) = runtime.next_batch().unwrap() {
        let features = batch.features();
        if feature_type == FeatureType::Float32 {
            assert_eq!((features.element, features.row_bytes()), (ElementType::F32, 20));
            assert_eq!(floats(features.bytes), expected(dataset, batch.input_nodes()));
        } else {
            assert_eq!(features.element, dataset.table().element);
        }
        assert_eq!(features.rows, batch.node_count());
        seen.push((batch.hash(), features.bytes.to_vec()));
    }
    assert!(seen.len() > 10, "{}", seen.len());
    seen
}

#[test]
fn narrow_floats_come_as_equal_float32_with_any_cache_in_equal_batches() {
    for element in NARROW {
        let temp = tempfile::tempdir().unwrap();
        let dataset = dataset(temp.path(), element);
        let narrow = batches(&dataset, FeatureType::Table, CacheContents::default());
        let wide = batches(&dataset, FeatureType::Float32, CacheContents::default());
        for ((hash, rows), (wide_hash, wide_rows)) in narrow.iter().zip(&wide) {
            assert_eq!((hash, rows.len() / element.bytes()), (wide_hash, wide_rows.len() / 4), "{element}");
        }
        for policy in [CachePolicy::PRESAMPLE, "fifo".parse().unwrap()] {
            let contents = planned(&dataset, policy);
            assert!(contents.caches().rows > 0, "{policy}");
            assert!(batches(&dataset, FeatureType::Float32, contents) == wide, "{element} {policy}");
        }
    }
}

#[test]
fn a_float32_table_is_float32_already() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path(), ElementType::F32);
    let as_it_is = batches(&dataset, FeatureType::Table, CacheContents::default());
    assert!(batches(&dataset, FeatureType::Float32, CacheContents::default()) == as_it_is);
}

#[test]
fn slots_are_sized_for_the_rows_that_come_into_them() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path(), ElementType::F16);
    let layout = |feature_type, slot_bytes| {
        let options = LoaderOptions { slot_bytes, ..options(feature_type) };
        RunPlan::new(&dataset, &options, Passes::default()).map(|plan| plan.layout)
    };
    let [narrow, wide] = FeatureType::ALL.map(|feature_type| layout(feature_type, None).unwrap());
    assert_eq!((narrow.row_bytes(), narrow.element()), (10, ElementType::F16));
    assert_eq!((wide.row_bytes(), wide.element()), (20, ElementType::F32));
    assert_eq!(narrow.node_capacity(), wide.node_capacity());
    assert_eq!(wide.feature_slot_bytes() - narrow.feature_slot_bytes(), 10 * wide.node_capacity());
    assert_eq!(narrow.batch_bytes(), wide.batch_bytes());
    // The same number of bytes holds half as many rows.
    let [narrow, wide] = FeatureType::ALL.map(|feature_type| layout(feature_type, Some(15_000)).unwrap());
    assert_eq!((narrow.node_capacity().min(1500), wide.node_capacity()), (narrow.node_capacity(), 750));
    assert!(narrow.node_capacity() > 750);
}

#[test]
fn rows_loaded_through_caches_are_float32_too() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path(), ElementType::F16);
    let contents = planned(&dataset, CachePolicy::PRESAMPLE);
    let asked = options(FeatureType::Float32);
    let mut cached = CachedDataset::new(&dataset, &asked, &Backend::Cpu, &contents).unwrap();
    let mut batch = cached.room();
    let key = BatchKey { split: Split::Train, epoch: 0, batch: 0 };
    cached.sample(key, &dataset.split(Split::Train)[..64], &mut batch).unwrap();
    let mut rows = vec![0; batch.nodes().len() * 20];
    assert!(cached.load(batch.nodes(), &mut rows).unwrap().last > 0);
    assert_eq!(floats(&rows), expected(&dataset, batch.nodes()));
}

#[test]
fn slots_on_a_gpu_are_refused_float32_of_halves_before_the_gpu_is_touched() {
    let temp = tempfile::tempdir().unwrap();
    let backend = on_gpu(GatherChoice::ZeroCopy);
    let dataset = dataset(temp.path(), ElementType::F16);
    let asked = options(FeatureType::Float32);
    let stream = BatchStream::in_this_process(
        Arc::clone(&dataset),
        &asked,
        backend.clone(),
        StreamSetup::of(Split::Train),
    );
    let nothing = CacheContents::default();
    let cached = CachedDataset::new(&dataset, &asked, &backend, &nothing);
    for refused in [stream.map(drop).unwrap_err(), cached.map(drop).unwrap_err()] {
        assert!(matches!(refused, RuntimeError::Option(_)), "{refused}");
        for part in ["feature_type=float32", "GPU", "Omit feature_type", "batch.x.float()"] {
            assert!(refused.to_string().contains(part), "{part} in {refused}");
        }
    }
}

#[test]
fn for_models_narrow_floats_are_widened_only_where_the_cpu_trains() {
    let all = |feature_type: FeatureType, backend: &Backend| {
        ElementType::ALL
            .map(|element| feature_type.for_models(element, backend.cuda().is_some()) == FeatureType::Float32)
    };
    let narrow = ElementType::ALL.map(|element| NARROW.contains(&element));
    assert_eq!(all(FeatureType::Float32, &Backend::Cpu), narrow);
    assert_eq!(all(FeatureType::Table, &Backend::Cpu), [false; 6]);
    // With --gather cpu the slots are in host memory as well; then the consumer copies them over the link.
    for gather in [GatherChoice::ZeroCopy, GatherChoice::Cpu] {
        assert_eq!(all(FeatureType::Float32, &on_gpu(gather)), [false; 6]);
    }
}
