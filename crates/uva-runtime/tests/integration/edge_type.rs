//! The edge types in batches: equal to those of the dataset's file, with any sampler, caches, padding and workers.

use crate::common;
use std::path::Path;
use std::sync::Arc;

use uva_graph::Dataset;
use uva_graph::npy::{NpyType, write_array};
use uva_runtime::backend::Backend;
use uva_runtime::options::{Pad, Prepare};
use uva_runtime::plan::RunPlan;
use uva_runtime::sampler::cache::{CacheContents, CachePolicy};
use uva_runtime::tune::planning;
use uva_runtime::{Column, Expand, LoaderOptions, Passes, Runtime, RuntimeError, SamplerKind};

fn options() -> LoaderOptions {
    LoaderOptions {
        fanouts: [4, 3].into(),
        batch_size: 64,
        seed: 5,
        edge_type: true,
        ..LoaderOptions::default()
    }
}

/// Each edge has another type, in no order, so that a type identifies its edge.
fn dataset(directory: &Path) -> Arc<Dataset> {
    let path = common::graph(directory, 2000, 8.0);
    let edges = Dataset::open(&path).unwrap().edges();
    assert!(edges > 4096 && edges < 65_521, "{edges}");
    let types: Vec<u16> = (0..edges).map(|edge| (edge * 7919 % 65_521) as u16).collect();
    write_array(&path.join("edge_type.npy"), NpyType::U16, &[], &types).unwrap();
    let weights: Vec<f32> = (0..edges).map(|edge| (1 + edge * 31 % 17) as f32).collect();
    write_array(&path.join("weight.npy"), NpyType::F32, &[], &weights).unwrap();
    Arc::new(Dataset::open(&path).unwrap())
}

/// The hashes of a run's batches. The type of each edge has been looked up in the list of the edge's destination, where
/// it has to be at an entry with the edge's source.
fn checked(dataset: &Arc<Dataset>, options: &LoaderOptions, contents: CacheContents) -> Vec<u64> {
    let passes = Passes { epochs: 1, validate: true, ..Passes::default() };
    let plan = RunPlan::new(dataset, options, passes).unwrap();
    let mut runtime = Runtime::start_with(Arc::clone(dataset), plan, contents).unwrap();
    let (csc, all) = (dataset.csc(), dataset.edge_types().unwrap());
    let (mut hashes, mut edges) = (Vec::new(), 0);
    while let Some(batch) = runtime.next_batch().unwrap() {
        for layer in 0..batch.layers() {
            let (block, types) = (batch.block(layer), batch.edge_type(layer));
            assert_eq!(types.len(), block.indices.len());
            assert_eq!(types, batch.column_of(Column::EdgeType.at(layer)).unwrap().u16().unwrap());
            edges += types.len();
            if batch.is_padded() {
                // Lists of padding are not in the graph.
                assert!(types.iter().eq(block.edge_ids.iter().map(|edge| &all[*edge as usize])));
                continue;
            }
            for (destination, ends) in block.indptr.windows(2).enumerate() {
                let node = batch.input_nodes()[destination] as usize;
                let list = csc.indptr[node] as usize..csc.indptr[node + 1] as usize;
                let picked = ends[0] as usize..ends[1] as usize;
                for (&source, edge_type) in block.indices[picked.clone()].iter().zip(&types[picked]) {
                    let source = batch.input_nodes()[source as usize];
                    let entry = list.clone().find(|&entry| all[entry] == *edge_type);
                    let found = entry.map(|entry| csc.indices.get(entry));
                    assert_eq!(found, Some(source), "layer {layer}, type {edge_type}");
                }
            }
        }
        hashes.push(batch.hash());
    }
    assert!(hashes.len() > 10 && edges > 100, "{} batches, {edges} edges", hashes.len());
    hashes
}

#[test]
fn every_kind_that_picks_in_lists_has_the_types_and_others_refuse_them() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let mut tried = 0;
    for sampler_kind in SamplerKind::ALL {
        for expand in [Expand::All, Expand::New] {
            let mut options = LoaderOptions { sampler_kind, expand, ..options() };
            if sampler_kind.draws_one_subgraph() {
                options.fanouts = vec![20; options.fanouts.hops()].into();
            }
            if sampler_kind.picks_in_lists() {
                if options.check().is_ok() {
                    checked(&dataset, &options, CacheContents::default());
                    tried += 1;
                }
                continue;
            }
            let refused = RunPlan::new(&dataset, &options, Passes::default()).unwrap_err();
            assert!(refused.to_string().contains("edge_type"), "{refused}");
        }
    }
    assert!(tried > 4, "{tried}");
}

#[test]
fn padded_batches_workers_and_repeated_picks_have_them_and_hashes_stay() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let plain = checked(&dataset, &options(), CacheContents::default());
    let padded = LoaderOptions { pad: Pad::Auto, ..options() };
    assert_eq!(checked(&dataset, &padded, CacheContents::default()), plain);
    let workers = LoaderOptions { prepare: Prepare::Whole, samplers: 2, ..options() };
    assert_eq!(checked(&dataset, &workers, CacheContents::default()), plain);
    checked(&dataset, &LoaderOptions { replace: true, ..options() }, CacheContents::default());
}

#[test]
fn with_caches_the_types_are_those_of_the_datasets_own_edges() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let policy = CachePolicy::PRESAMPLE;
    let (plan, _) = planning::plan(&dataset, &options(), &Backend::Cpu, 200_000, policy, &|_| {}).unwrap();
    let contents = CacheContents::of_plan(&dataset, &plan).unwrap();
    assert!(contents.caches().lists > 0 && contents.caches().rows > 0);
    let plain = checked(&dataset, &options(), CacheContents::default());
    assert_eq!(checked(&dataset, &options(), contents), plain);
}

#[test]
fn a_dataset_without_types_of_edges_is_refused_by_the_name_of_the_file() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&common::graph(temp.path(), 200, 4.0)).unwrap();
    let refused = RunPlan::new(&dataset, &options(), Passes::default()).unwrap_err();
    assert!(matches!(refused, RuntimeError::Option(_)), "{refused:?}");
    assert!(refused.to_string().contains("edge_type") && refused.to_string().contains("edge_type.npy"));
}

#[test]
fn without_the_option_batches_have_no_types_although_the_dataset_does() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = dataset(temp.path());
    let without = LoaderOptions { edge_type: false, ..options() };
    let plan = RunPlan::new(&dataset, &without, Passes { epochs: 1, ..Passes::default() }).unwrap();
    let mut runtime = Runtime::start(Arc::clone(&dataset), plan).unwrap();
    let batch = runtime.next_batch().unwrap().unwrap();
    assert!(batch.edge_type(0).is_empty() && batch.block(0).edge_ids.is_empty());
    assert!(batch.column_of(Column::EdgeType.at(0)).is_err());
}
