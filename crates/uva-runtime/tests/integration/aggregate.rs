//! Rows that the producer aggregates for a user's model: equal to those of a plain loop over the rows of all nodes,
//! with any caches, in batches that are otherwise the same.

use crate::common;
use std::path::Path;
use std::sync::Arc;

use uva_batch::Aggregation::{self, Degrees, Max, Mean, Sum};
use uva_graph::Dataset;
use uva_graph::npy::{NpyType, write_array};
use uva_rows::cache::eviction;
use uva_runtime::backend::Backend;
use uva_runtime::plan::RunPlan;
use uva_runtime::sampler::cache::{CacheContents, CachePolicy};
use uva_runtime::tune::planning;
use uva_runtime::{Batch, LoaderOptions, Passes, Runtime, RuntimeError, SamplerKind};

fn builder(path: &Path) -> uva_runtime::RuntimeBuilder {
    Runtime::builder(path).fanouts([4, 3]).batch_size(64).seed(5).epochs(1)
}

/// The outermost block's rows by their definitions, in f64.
fn expected(how: Aggregation, plain: &Batch, dataset: &Dataset) -> Vec<Vec<f64>> {
    let block = plain.block(plain.layers() - 1);
    let (rows, dim) = (plain.features_f32().unwrap(), dataset.table().dim);
    let rows: Vec<Vec<f64>> =
        rows.iter().map(|row| row.iter().map(|&value| value.into()).collect()).collect();
    let (csc, nodes) = (dataset.csc(), plain.input_nodes());
    let degree = |place: usize| {
        let node = nodes[place] as usize;
        (csc.indptr[node + 1] - csc.indptr[node]) as f64
    };
    let list = |(v, ends): (usize, &[i32])| {
        let edges = ends[0] as usize..ends[1] as usize;
        let picks = edges.len() as f64;
        let mut made = vec![if how == Max && picks > 0.0 { f64::NEG_INFINITY } else { 0.0 }; dim];
        for edge in edges {
            let u = block.indices[edge] as usize;
            let sampled = block.weights.get(edge).map_or(1.0 / picks, |&weight| weight.into());
            let weight = match how {
                Degrees => degree(v) * sampled / ((degree(v) + 1.0) * (degree(u) + 1.0)).sqrt(),
                Mean => sampled,
                _ => 1.0,
            };
            for (made, value) in made.iter_mut().zip(&rows[u]) {
                *made = if how == Max { made.max(*value) } else { *made + weight * value };
            }
        }
        if how == Degrees {
            made.iter_mut().zip(&rows[v]).for_each(|(made, value)| *made += value / (degree(v) + 1.0));
        }
        made
    };
    block.indptr.windows(2).enumerate().map(list).collect()
}

#[test]
fn the_builder_gives_rows_of_every_reduction_and_kind_of_sampler() {
    let temp = tempfile::tempdir().unwrap();
    let path = common::graph(temp.path(), 2000, 8.0);
    let dataset = Dataset::open(&path).unwrap();
    for kind in ["neighbor", "labor", "walk"] {
        let options = LoaderOptions {
            sampler_kind: SamplerKind::from_name(kind).unwrap(),
            gather_threads: 2,
            ..LoaderOptions::default()
        };
        for how in [Mean, Sum, Max, Degrees] {
            let start = || builder(&path).options(options.clone()).fanouts([4, 3]).batch_size(64).seed(5);
            let mut folded = start().aggregate(how).build().unwrap();
            let mut plain = start().build().unwrap();
            let mut batches = 0;
            while let Some(batch) = folded.next_batch().unwrap() {
                let own = plain.next_batch().unwrap().unwrap();
                assert_eq!(batch.hash(), own.hash());
                let destinations = batch.counts(1).destinations;
                let x = batch.features();
                assert_eq!(x.rows, if how == Degrees { 0 } else { destinations });
                assert_eq!(x.bytes, &own.features().bytes[..x.bytes.len()]);
                let rows = batch.aggregated().unwrap();
                let expected = expected(how, &own, &dataset);
                assert_eq!(rows.iter().len(), expected.len());
                for (row, expected) in rows.iter().zip(&expected) {
                    for (&value, &expected) in row.iter().zip(expected) {
                        let most = 1e-5 * (1.0 + expected.abs());
                        assert!(
                            (f64::from(value) - expected).abs() <= most,
                            "{kind} {how}: {value} {expected}"
                        );
                    }
                }
                batches += 1;
            }
            assert!(plain.next_batch().unwrap().is_none() && batches > 5);
        }
    }
}

#[test]
fn caches_change_no_bit_of_a_row() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = Arc::new(Dataset::open(&common::graph(temp.path(), 2000, 8.0)).unwrap());
    let passes = Passes { epochs: 2, ..Passes::default() };
    for aggregation in [Mean, Sum, Max, Degrees] {
        let options = LoaderOptions {
            fanouts: [4, 3].into(),
            batch_size: 64,
            aggregation,
            aggregate_argmax: aggregation == Max,
            ..LoaderOptions::default()
        };
        let run = |contents: CacheContents| {
            let plan = RunPlan::new(&dataset, &options, passes).unwrap();
            let mut runtime = Runtime::start_with(Arc::clone(&dataset), plan, contents).unwrap();
            let mut found = Vec::new();
            while let Some(batch) = runtime.next_batch().unwrap() {
                let bits = batch.aggregated().unwrap().values().iter().map(|value| value.to_bits());
                let argmax = batch.argmax().map(|places| places.values().to_vec());
                assert_eq!(argmax.is_some(), aggregation == Max);
                found.push((batch.hash(), bits.collect::<Vec<_>>(), batch.features().bytes.to_vec(), argmax));
            }
            found
        };
        let expected = run(CacheContents::default());
        for policy in [CachePolicy::DEGREE, CachePolicy::Evicting(eviction::by_name("fifo").unwrap())] {
            let (plan, _) =
                planning::plan(&dataset, &options, &Backend::Cpu, 20_000, policy, &|_| {}).unwrap();
            let contents = CacheContents::of_plan(&dataset, &plan).unwrap();
            assert!(contents.caches().rows > 0);
            assert!(run(contents) == expected, "{aggregation} {}", policy.name());
        }
    }
}

#[test]
fn a_choosing_producer_sums_lists_that_share_few_rows_and_no_products() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = Arc::new(Dataset::open(&common::graph(temp.path(), 2000, 8.0)).unwrap());
    for (fanouts, outputs, summed) in [(vec![2], 64, true), (vec![8, 8, 8], 64, false), (vec![2], 1, false)] {
        let options = LoaderOptions {
            fanouts: fanouts.into(),
            batch_size: 64,
            aggregation: Mean,
            sums_chosen_for: Some(outputs),
            sums_by_counts: true,
            ..LoaderOptions::default()
        };
        let plan = RunPlan::new(&dataset, &options, Passes { epochs: 1, ..Passes::default() }).unwrap();
        let mut runtime = Runtime::start_with(Arc::clone(&dataset), plan, CacheContents::default()).unwrap();
        let mut batches = 0;
        while let Some(batch) = runtime.next_batch().unwrap() {
            let counts = batch.counts(batch.layers() - 1);
            let few = 2 * (counts.edges + counts.destinations) <= 3 * counts.sources;
            assert_eq!(few, outputs == 1 || summed, "{counts:?}");
            assert_eq!(batch.aggregated().is_some(), summed, "{counts:?} {outputs}");
            let rows = if summed { counts.destinations } else { counts.sources };
            assert_eq!(batch.features().rows, rows);
            batches += 1;
        }
        assert!(batches > 5);
    }
}

#[test]
fn whole_numbers_are_refused_by_the_option() {
    let temp = tempfile::tempdir().unwrap();
    let path = common::graph(temp.path(), 300, 4.0);
    std::fs::remove_file(path.join("feat.npy")).unwrap();
    write_array(&path.join("feat.npy"), NpyType::U8, &[5], &[1_u8; 300 * 5]).unwrap();
    let meta = std::fs::read_to_string(path.join("meta.json")).unwrap();
    std::fs::write(path.join("meta.json"), meta.replace("\"f32\"", "\"u8\"")).unwrap();
    let refused = builder(&path).aggregate(Max).build().unwrap_err();
    let RuntimeError::Option(error) = &refused else { panic!("{refused}") };
    assert_eq!((error.field.as_str(), refused.exit_code()), ("aggregate", 2));
    assert!(refused.to_string().contains("only floats are summed"), "{refused}");
    builder(&path).build().unwrap();
}

#[test]
fn each_maximum_is_the_value_of_its_named_row_and_all_else_is_unchanged() {
    let temp = tempfile::tempdir().unwrap();
    let path = common::graph(temp.path(), 2000, 8.0);
    let mut folded = builder(&path).aggregate(Max).aggregate_argmax().build().unwrap();
    let mut plain = builder(&path).build().unwrap();
    let (mut empty, mut named) = (0, 0);
    while let Some(batch) = folded.next_batch().unwrap() {
        let own = plain.next_batch().unwrap().unwrap();
        assert!(own.argmax().is_none());
        let rows = own.features_f32().unwrap();
        let (maxima, places) = (batch.aggregated().unwrap(), batch.argmax().unwrap());
        let block = batch.block(batch.layers() - 1);
        for (v, (maxima, places)) in maxima.iter().zip(places.iter()).enumerate() {
            let list = &block.indices[block.indptr[v] as usize..block.indptr[v + 1] as usize];
            for (column, (value, &place)) in maxima.iter().zip(places).enumerate() {
                if list.is_empty() {
                    assert_eq!((*value, place), (0.0, -1));
                    empty += 1;
                    continue;
                }
                assert!(list.contains(&place), "{place} of {list:?}");
                assert_eq!(value.to_bits(), rows.row(place as usize)[column].to_bits());
                named += 1;
            }
        }
    }
    assert!(named > 1000, "{named} named rows, {empty} of empty lists");
    let refused = builder(&path).aggregate(Mean).aggregate_argmax().build().unwrap_err();
    assert!(refused.to_string().contains("aggregate_argmax") && refused.exit_code() == 2, "{refused}");
}
