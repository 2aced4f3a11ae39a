//! The feature rows of edges in batches: equal to those of the dataset's table, with any sampler, caches and type.

use crate::common;
use std::path::Path;
use std::sync::Arc;

use uva_graph::npy::{NpyType, write_array};
use uva_graph::{Dataset, ElementType};
use uva_runtime::backend::Backend;
use uva_runtime::plan::RunPlan;
use uva_runtime::sampler::cache::{CacheContents, CachePolicy};
use uva_runtime::tune::planning;
use uva_runtime::{Expand, LoaderOptions, Passes, Runtime, RuntimeError, SamplerKind};

fn options() -> LoaderOptions {
    LoaderOptions {
        fanouts: [4, 3].into(),
        batch_size: 64,
        seed: 5,
        gather_threads: 2,
        edge_attr: true,
        ..LoaderOptions::default()
    }
}

/// Rows of three values per edge, distinct as far as the type permits.
fn dataset(directory: &Path, kind: NpyType) -> Arc<Dataset> {
    let path = common::graph(directory, 2000, 8.0);
    let edges = Dataset::open(&path).unwrap().edges();
    let write = |bytes: &[u8]| {
        let mut writer = uva_graph::npy::NpyWriter::create(&path.join("edge_feat.npy"), kind, &[3]).unwrap();
        writer.write_bytes(bytes).unwrap();
        writer.finish().unwrap();
    };
    match kind {
        NpyType::F32 => {
            let values: Vec<f32> = (0..3 * edges).map(|value| value as f32).collect();
            write(bytemuck::cast_slice(&values));
        }
        NpyType::F16 => {
            let values: Vec<half::f16> =
                (0..3 * edges).map(|value| half::f16::from_f32((value % 2039) as f32)).collect();
            write(bytemuck::cast_slice(&values));
        }
        _ => write(&(0..3 * edges).map(|value| (value % 251) as u8).collect::<Vec<_>>()),
    }
    let weights: Vec<f32> = (0..edges).map(|edge| (1 + edge * 31 % 17) as f32).collect();
    write_array(&path.join("weight.npy"), NpyType::F32, &[], &weights).unwrap();
    Arc::new(Dataset::open(&path).unwrap())
}

/// The hashes of a run's batches, whose edges' rows have been compared one by one.
fn checked(dataset: &Arc<Dataset>, options: &LoaderOptions, contents: CacheContents) -> Vec<u64> {
    let passes = Passes { epochs: 1, validate: true, ..Passes::default() };
    let plan = RunPlan::new(dataset, options, passes).unwrap();
    let mut runtime = Runtime::start_with(Arc::clone(dataset), plan, contents).unwrap();
    let csc = dataset.csc();
    let mut hashes = Vec::new();
    while let Some(batch) = runtime.next_batch().unwrap() {
        for layer in 0..batch.layers() {
            let block = batch.block(layer);
            let Some(rows) = batch.edge_attr(layer) else {
                assert!(!options.edge_attr);
                continue;
            };
            let table = dataset.edge_features().unwrap();
            assert_eq!((rows.rows, rows.dim, rows.element), (block.indices.len(), 3, table.element));
            assert!(rows.rows == 0 || rows.bytes.as_ptr().align_offset(64) == 0);
            let mut position = 0;
            for (destination, ends) in block.indptr.windows(2).enumerate() {
                let list = csc.indptr[batch.input_nodes()[destination] as usize] as usize;
                for _ in ends[0]..ends[1] {
                    // The edge by its position, and by its two ends.
                    let edge = block.edge_ids[position] as usize;
                    let source = batch.input_nodes()[block.indices[position] as usize];
                    assert_eq!(csc.indices.get(edge), source);
                    assert!(edge >= list);
                    let row_bytes = table.row_bytes();
                    assert_eq!(
                        rows.bytes[position * row_bytes..][..row_bytes],
                        table.bytes[edge * row_bytes..][..row_bytes]
                    );
                    position += 1;
                }
            }
            assert_eq!(position, rows.rows);
        }
        hashes.push(batch.hash());
    }
    assert!(hashes.len() > 10, "{}", hashes.len());
    hashes
}

#[test]
fn every_picked_edge_has_its_own_row_and_the_batches_stay_the_same() {
    for (kind, element) in
        [(NpyType::F32, ElementType::F32), (NpyType::F16, ElementType::F16), (NpyType::U8, ElementType::U8)]
    {
        let temp = tempfile::tempdir().unwrap();
        let dataset = dataset(temp.path(), kind);
        assert_eq!(dataset.edge_features().unwrap().element, element);
        let with = checked(&dataset, &options(), CacheContents::default());
        let without = LoaderOptions { edge_attr: false, ..options() };
        assert_eq!(with, checked(&dataset, &without, CacheContents::default()));
    }
}

#[test]
fn every_kind_that_picks_in_lists_has_the_rows_and_others_refuse_them() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path(), NpyType::F32);
    for sampler_kind in SamplerKind::ALL {
        for expand in [Expand::All, Expand::New] {
            let mut options = LoaderOptions { sampler_kind, expand, ..options() };
            if sampler_kind.draws_one_subgraph() {
                options.fanouts = vec![20; options.fanouts.hops()].into();
            }
            if sampler_kind.picks_in_lists() {
                if options.check().is_ok() {
                    checked(&dataset, &options, CacheContents::default());
                }
                continue;
            }
            let refused = RunPlan::new(&dataset, &options, Passes::default()).unwrap_err();
            assert!(refused.to_string().contains("edge_attr"), "{refused}");
        }
    }
}

#[test]
fn with_caches_the_rows_are_those_of_the_datasets_own_edges() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path(), NpyType::F32);
    let policy = CachePolicy::PRESAMPLE;
    let (plan, _) = planning::plan(&dataset, &options(), &Backend::Cpu, 200_000, policy, &|_| {}).unwrap();
    let contents = CacheContents::of_plan(&dataset, &plan).unwrap();
    assert!(contents.caches().lists > 0 && contents.caches().rows > 0);
    let plain = checked(&dataset, &options(), CacheContents::default());
    assert_eq!(checked(&dataset, &options(), contents), plain);
}

#[test]
fn a_dataset_without_features_of_edges_is_refused_by_the_name_of_the_file() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&common::graph(temp.path(), 200, 4.0)).unwrap();
    let refused = RunPlan::new(&dataset, &options(), Passes::default()).unwrap_err();
    assert!(matches!(refused, RuntimeError::Option(_)), "{refused:?}");
    assert!(refused.to_string().contains("edge_attr") && refused.to_string().contains("edge_feat.npy"));
}

#[test]
fn slot_bytes_bound_the_rows_of_a_layers_edges_too() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path(), NpyType::F32);
    let layout = |edge_attr| {
        let options =
            LoaderOptions { edge_attr, fanouts: [-1].into(), slot_bytes: Some(60_000), ..options() };
        RunPlan::new(&dataset, &options, Passes::default()).unwrap().layout
    };
    assert!(layout(false).blocks()[0].edges * 12 > 60_000);
    assert!(layout(true).blocks()[0].edges * 12 <= 60_000);
    assert!(layout(true).feature_slot_bytes() > layout(true).arrays_bytes());
    assert_eq!(layout(false).arrays_bytes(), layout(false).batch_bytes());
}
