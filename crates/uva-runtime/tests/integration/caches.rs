//! The caches through the library: plans, a run's threads, and DUCATI's two calls.

use crate::{common, stand_in};
use std::path::Path;
use std::sync::Arc;

use uva_graph::npy::{NpyType, write_array};
use uva_graph::{Dataset, Split};
use uva_plan::CachePolicy;
use uva_runtime::backend::{Backend, GatherChoice, SamplerChoice};
use uva_runtime::plan::RunPlan;
use uva_runtime::sampler::cache::CacheContents;
use uva_runtime::spec::{OptionPurpose, Options, ValueKind};
use uva_runtime::tune::planning::{self, CachedDataset};
use uva_runtime::{LoaderOptions, Passes, Runtime, RuntimeError};
use uva_sample::{
    BatchKey, BatchSampler, Expand, GraphView, ListReads, MiniBatch, NeighborSampler, SamplerKind, sampler,
};

fn options() -> LoaderOptions {
    LoaderOptions { fanouts: [4, 3].into(), batch_size: 64, seed: 11, ..LoaderOptions::default() }
}

fn planned(dataset: &Arc<Dataset>, bytes: u64, policy: CachePolicy) -> CacheContents {
    let (plan, _) = planning::plan(dataset, &options(), &Backend::Cpu, bytes, policy, &|_| {}).unwrap();
    CacheContents::of_plan(dataset, &plan).unwrap()
}

/// The GPU of the stand-in driver, whose kernels read the table.
fn on_gpu(sampler: SamplerChoice) -> Backend {
    stand_in::on_gpu(GatherChoice::ZeroCopy, sampler)
}

/// Hash, nodes and rows of some batches, sampled and gathered without this crate.
fn plainly(dataset: &Dataset, batches: u32) -> Vec<(u64, Vec<i64>, Vec<u8>)> {
    let options = options();
    let bounds =
        uva_sample::BatchBounds::new(64, options.sampling().fanouts, dataset.nodes(), dataset.edges())
            .unwrap();
    let mut batch = MiniBatch::with_bounds(&bounds);
    let mut sampler = NeighborSampler::new(dataset.csc(), options.sampling()).unwrap();
    let table = dataset.features();
    (0..batches)
        .map(|number| {
            let counts = sampler.sample_into(key(number), seeds(dataset, number), &mut batch).unwrap();
            let nodes = batch.nodes().to_vec();
            let row = |&node: &i64| {
                table.bytes[node as usize * table.row_bytes()..][..table.row_bytes()].iter().copied()
            };
            (counts.hash, nodes.clone(), nodes.iter().flat_map(row).collect())
        })
        .collect()
}

fn key(batch: u32) -> BatchKey {
    BatchKey { split: Split::Train, epoch: 0, batch }
}

fn seeds(dataset: &Dataset, batch: u32) -> &[i64] {
    &dataset.split(Split::Train)[batch as usize * 64..][..64]
}

/// Compares the two calls with the plain ones.
fn check(dataset: &Arc<Dataset>, backend: &Backend, contents: &CacheContents) {
    let mut cached = CachedDataset::new(dataset, &options(), backend, contents).unwrap();
    let mut batch = cached.room();
    let (mut reads, mut hits) = ((0, 0), (0, 0));
    for (number, (hash, nodes, rows)) in (0..).zip(plainly(dataset, 4)) {
        let counts = cached.sample(key(number), seeds(dataset, number), &mut batch).unwrap();
        assert_eq!((counts.hash, batch.nodes()), (hash, nodes.as_slice()));
        let mut loaded = vec![0; rows.len()];
        let of_rows = cached.load(batch.nodes(), &mut loaded).unwrap();
        assert!(loaded == rows, "batch {number}");
        reads = (reads.0 + counts.list_reads.all, reads.1 + counts.list_reads.cached);
        hits = (hits.0 + of_rows.last_rows, hits.1 + of_rows.last);
    }
    let caches = contents.caches();
    assert_eq!(caches.lists > 0, reads.1 > 0, "{caches:?}: {reads:?}");
    assert_eq!(caches.rows > 0, hits.1 > 0, "{caches:?}: {hits:?}");
    assert!(reads.1 <= reads.0 && hits.1 <= hits.0);
    let refused = cached.sample(key(0), &[0, 1_000_000], &mut batch).unwrap_err();
    assert!(refused.to_string().contains("1000000"), "{refused}");
    assert!(matches!(
        cached.load(&[-7], &mut vec![0; dataset.table().row_bytes()]),
        Err(RuntimeError::Failed(_))
    ));
}

#[test]
fn sample_and_load_give_what_the_plain_sampler_and_the_table_give() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = Arc::new(Dataset::open(&common::graph(temp.path(), 2000, 8.0)).unwrap());
    check(&dataset, &Backend::Cpu, &CacheContents::default());
    for bytes in [40_000, 200_000] {
        for policy in CachePolicy::all() {
            check(&dataset, &Backend::Cpu, &planned(&dataset, bytes, policy));
        }
    }
}

#[test]
fn a_plan_is_for_runs_that_agree_in_the_options_declared_so() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = Arc::new(Dataset::open(&common::graph(temp.path(), 2000, 8.0)).unwrap());
    let walks = LoaderOptions { sampler_kind: SamplerKind::WALK, ..options() };
    for base in [options(), walks] {
        let (plan, _) =
            planning::plan(&dataset, &base, &Backend::Cpu, 40_000, CachePolicy::PRESAMPLE, &|_| {}).unwrap();
        let serves = |loader: &LoaderOptions| {
            let loader = loader.with_order(&dataset).unwrap();
            plan.counted_epochs(&planning::workload(&dataset, &loader).unwrap()) > 0
        };
        assert!(serves(&base));
        for field in LoaderOptions::declared().filter(|field| base.is_in_force(field)) {
            let other = match field.kind {
                ValueKind::Switch => "true".to_owned(),
                ValueKind::Fanouts { .. } => "5,3".to_owned(),
                ValueKind::Choice(names) => names().last().unwrap().name.to_owned(),
                _ if field.name == "seed_order" => "proximity:2".to_owned(),
                _ => "7".to_owned(),
            };
            let mut loader = base.clone();
            assert!(loader.set(field, &other), "{}", field.name);
            assert_ne!(loader.json(field), base.json(field), "{}", field.name);
            assert_eq!(serves(&loader), !field.purposes.contains(&OptionPurpose::Plan), "{}", field.name);
        }
    }
}

/// A dataset with weights, some of them 0.
fn weighted(directory: &Path) -> Arc<Dataset> {
    let path = common::graph(directory, 2000, 8.0);
    let edges = Dataset::open(&path).unwrap().edges();
    let weights: Vec<f32> = (0..edges).map(|edge| (edge * 31 % 17) as f32).collect();
    write_array(&path.join("weight.npy"), NpyType::F32, &[], &weights).unwrap();
    Arc::new(Dataset::open(&path).unwrap())
}

/// A weighted dataset, and its cache contents for 200,000 bytes.
fn weighted_and_cached(directory: &Path) -> (Arc<Dataset>, CacheContents) {
    let dataset = weighted(directory);
    let contents = planned(&dataset, 200_000, CachePolicy::PRESAMPLE);
    assert!(contents.caches().lists > 0, "{:?}", contents.caches());
    (dataset, contents)
}

/// Compares the batches of one kind of sampler, with edge ids, with those of a plain sampler on the CPU.
fn check_kind(
    dataset: &Arc<Dataset>,
    backend: &Backend,
    contents: &CacheContents,
    (sampler_kind, replace, expand): (SamplerKind, bool, Expand),
) {
    let edge_ids = sampler_kind.picks_in_lists();
    let mut options = LoaderOptions { sampler_kind, replace, expand, edge_ids, ..options() };
    if sampler_kind.draws_one_subgraph() {
        options.fanouts = vec![20; options.fanouts.hops()].into();
    }
    let reads = check_batches(dataset, backend, contents, &options);
    assert_eq!(reads.cached > 0, contents.caches().lists > 0, "{sampler_kind}");
}

/// Compares the batches of these options with those of a plain sampler on the CPU. Returns the counts of list reads.
fn check_batches(
    dataset: &Arc<Dataset>,
    backend: &Backend,
    contents: &CacheContents,
    options: &LoaderOptions,
) -> ListReads {
    let (sampler_kind, edge_ids) = (options.sampler_kind, options.edge_ids);
    let mut cached = CachedDataset::new(dataset, options, backend, contents).unwrap();
    let mut reads = ListReads::default();
    // The weights, and the edge ids, are those of the dataset's own order in either case.
    let graph = GraphView { weights: dataset.weights(), ..dataset.csc().into() };
    let mut plain = sampler(graph, &options.sampling()).unwrap();
    let (mut batch, mut expected) = (cached.room(), cached.room());
    for number in 0..4 {
        let counts = cached.sample(key(number), seeds(dataset, number), &mut batch).unwrap();
        plain.sample_into(key(number), seeds(dataset, number), &mut expected).unwrap();
        assert_eq!(counts.list_reads.all, expected.counts().list_reads.all, "{sampler_kind}");
        reads.all += counts.list_reads.all;
        reads.cached += counts.list_reads.cached;
        assert_eq!((batch.hash(), batch.nodes()), (expected.hash(), expected.nodes()), "{sampler_kind}");
        for (block, expected) in batch.blocks().zip(expected.blocks()) {
            assert_eq!(block.edge_ids, expected.edge_ids, "{sampler_kind}");
            assert_eq!(block.edge_ids.len(), if edge_ids { block.indices.len() } else { 0 });
            assert_eq!(
                (block.indices, block.weights),
                (expected.indices, expected.weights),
                "{sampler_kind}"
            );
        }
    }
    reads
}

#[test]
fn with_a_list_cache_every_kind_of_sampler_makes_the_same_batches() {
    let temp = tempfile::tempdir().unwrap();
    let (dataset, contents) = weighted_and_cached(temp.path());
    for sampler_kind in SamplerKind::ALL {
        check_kind(&dataset, &Backend::Cpu, &contents, (sampler_kind, false, Expand::All));
    }
}

#[test]
fn on_a_gpu_the_kinds_that_it_has_make_the_same_cached_or_not() {
    if !cuda_sim::in_process("caches::on_a_gpu_the_kinds_that_it_has_make_the_same_cached_or_not") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let (dataset, cached) = weighted_and_cached(temp.path());
    let (neighbor, labor, weighted) = (SamplerKind::NEIGHBOR, SamplerKind::LABOR, SamplerKind::WEIGHTED);
    for contents in [CacheContents::default(), cached] {
        for (kind, replace) in [(neighbor, false), (labor, false), (weighted, false), (weighted, true)] {
            for expand in Expand::ALL {
                check_kind(&dataset, &on_gpu(SamplerChoice::Gpu), &contents, (kind, replace, expand));
            }
        }
    }
}

#[test]
fn weights_and_edge_ids_of_cached_lists_take_the_planned_bytes() {
    const TEST: &str = "caches::weights_and_edge_ids_of_cached_lists_take_the_planned_bytes";
    if !cuda_sim::in_process(TEST) {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dataset = weighted(temp.path());
    let csc = dataset.csc();
    let on_gpu = on_gpu(SamplerChoice::Gpu);
    for (sampler_kind, edge_ids, of_list, of_entry) in [
        (SamplerKind::NEIGHBOR, false, 8, 4),
        (SamplerKind::NEIGHBOR, true, 16, 4),
        (SamplerKind::WEIGHTED, false, 8, 8),
        (SamplerKind::WEIGHTED, true, 16, 8),
    ] {
        let options = LoaderOptions { sampler_kind, edge_ids, ..options() };
        // One of them is planned with the GPU's own times.
        let by = if edge_ids && of_entry == 8 { &on_gpu } else { &Backend::Cpu };
        // The second has room for all lists, and caches all of them.
        for (bytes, policy) in [(60_000, CachePolicy::PRESAMPLE), (4 << 20, CachePolicy::RANDOM)] {
            let (plan, _) = planning::plan(&dataset, &options, by, bytes, policy, &|_| {}).unwrap();
            let of_node = |&node: &i64| of_list + of_entry * csc.degree(node as usize);
            assert_eq!(plan.lists.bytes, plan.list_ids.iter().map(of_node).sum::<usize>() as u64);
            assert!(plan.lists.count > 0, "{sampler_kind}, {bytes} bytes");
            let contents = CacheContents::of_plan(&dataset, &plan).unwrap();
            let cached = CachedDataset::new(&dataset, &options, &on_gpu, &contents).unwrap();
            let taken = cached.sampler_bytes().unwrap();
            assert_eq!((taken.lists as u64, taken.names as u64), (plan.lists.bytes, plan.lists.map_bytes));
            drop(cached);
            let counts = [&on_gpu, &Backend::Cpu]
                .map(|backend| check_batches(&dataset, backend, &contents, &options))
                .map(|reads| (reads.all, reads.cached));
            assert_eq!(counts[0], counts[1], "{sampler_kind}");
            let (all, hits) = counts[0];
            // If all lists are cached, all reads hit, also those of weights.
            assert_eq!(hits == all, bytes > 60_000, "{hits} of {all}");
        }
    }
}

#[test]
fn on_a_gpu_they_give_the_same() {
    if !cuda_sim::in_process("caches::on_a_gpu_they_give_the_same") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dataset = Arc::new(Dataset::open(&common::graph(temp.path(), 2000, 8.0)).unwrap());
    for sampler in [SamplerChoice::Cpu, SamplerChoice::Gpu] {
        check(&dataset, &on_gpu(sampler), &CacheContents::default());
        for policy in [CachePolicy::PRESAMPLE, "fifo".parse().unwrap()] {
            check(&dataset, &on_gpu(sampler), &planned(&dataset, 200_000, policy));
        }
    }
}

#[test]
fn threads_with_caches_hand_over_the_same_batches_and_count_what_hit() {
    let temp = tempfile::tempdir().unwrap();
    let dataset = Arc::new(Dataset::open(&common::graph(temp.path(), 2000, 8.0)).unwrap());
    let all = |contents: CacheContents| {
        let passes = Passes { epochs: 2, validate: true, test: true, ..Passes::default() };
        let options = LoaderOptions { samplers: 2, gather_threads: 2, ..options() };
        let plan = RunPlan::new(&dataset, &options, passes).unwrap();
        let mut runtime = Runtime::start_with(Arc::clone(&dataset), plan, contents).unwrap();
        let mut seen = Vec::new();
        let (mut lists, mut rows) = (0, 0);
        while let Some(batch) = runtime.next_batch().unwrap() {
            seen.push((batch.hash(), batch.input_nodes().to_vec(), batch.features().bytes.to_vec()));
            lists += batch.list_reads().cached;
            rows += batch.rows_cached();
            assert!(batch.rows_cached() <= batch.node_count() as u64);
            assert!((1..=2).contains(&batch.pace()));
        }
        (seen, lists, rows)
    };
    let (plain, lists, rows) = all(CacheContents::default());
    assert_eq!((lists, rows), (0, 0));
    let (cached, lists, rows) = all(planned(&dataset, 200_000, CachePolicy::PRESAMPLE));
    assert!(lists > 0 && rows > 0);
    assert!(plain == cached, "a batch differs");
}
