//! A cache of rows on the GPU for a stream of this process, alone or shared between ranks.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use uva_exchange::{Settings, SharedMemory};
use uva_graph::{Dataset, Split};
use uva_io::generate::{self, Common, PowerLaw};
use uva_runtime::backend::{BackendOptions, DeviceChoice};
use uva_runtime::options::part::Part;
use uva_runtime::pipeline::consumer::{BatchStream, PassCursor, StreamCache, StreamSetup, decide_here};
use uva_runtime::sampler::cache::{CachePolicy, CacheRanks};
use uva_runtime::tune::planning::{Budget, GpuCache};
use uva_runtime::{Features, LoaderOptions, RuntimeError};

use crate::common;

const NODES: u64 = 3000;
/// Bytes of a row of the graph.
const ROW: u64 = 20;
/// Bytes for half of the rows, and the map.
const HALF: u64 = NODES / 2 * ROW + 4 * NODES;
/// Bytes for all rows, and the map.
const ALL: u64 = NODES * ROW + 4 * NODES;

/// Epoch, number, hash and rows of a batch.
type Seen = (u32, u32, u64, Vec<u8>);

fn options(rank: u32, of: u32) -> LoaderOptions {
    LoaderOptions {
        fanouts: [3, 2].into(),
        batch_size: 50,
        seed: 7,
        part: Part { index: rank, of },
        ..LoaderOptions::default()
    }
}

fn dataset() -> (tempfile::TempDir, Arc<Dataset>) {
    let temp = tempfile::tempdir().unwrap();
    let dataset = Dataset::open(&common::graph(temp.path(), NODES, 8.0)).unwrap();
    assert_eq!(dataset.table().row_bytes() as u64, ROW);
    (temp, Arc::new(dataset))
}

/// Rows of 2 KiB, of which three shares of 4 MiB hold nearly all.
fn wide_dataset() -> (tempfile::TempDir, Arc<Dataset>) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("graph");
    let common = Common {
        nodes: 6000,
        average_degree: 4.0,
        feature_dim: 512,
        classes: 3,
        seed: 3,
        ..Common::default()
    };
    generate::write(&path, &PowerLaw::of(common), &|_| {}).unwrap();
    (temp, Arc::new(Dataset::open(&path).unwrap()))
}

fn asked(bytes: u64, policy: &str, ranks: Option<CacheRanks>) -> GpuCache {
    let policy: CachePolicy = policy.parse().unwrap();
    let cache = GpuCache::new(Budget::Bytes(bytes), policy);
    match ranks {
        Some(ranks) => cache.between(ranks),
        None => cache,
    }
}

fn stream(
    dataset: &Arc<Dataset>,
    device: DeviceChoice,
    options: &LoaderOptions,
    gpu_cache: Option<GpuCache>,
) -> Result<BatchStream, RuntimeError> {
    let asked = BackendOptions { device, ..BackendOptions::default() };
    let backend = decide_here(&asked, dataset, 1, gpu_cache.is_some())?.backend;
    let setup = StreamSetup { cache: gpu_cache.map(StreamCache::Gpu), ..StreamSetup::of(Split::Train) };
    BatchStream::in_this_process(Arc::clone(dataset), options, backend, setup)
}

/// The batches of two epochs, their number of rows, and the number of hits.
fn seen(mut stream: BatchStream) -> (Vec<Seen>, u64, u64) {
    let (mut seen, mut rows, mut hits) = (Vec::new(), 0, 0);
    for epoch in 0..2 {
        stream.go_to(PassCursor { split: Split::Train, epoch, first: 0, batch: 0 });
        while let Some(batch) = stream.next_batch(&|| false).unwrap() {
            batch.confirm().unwrap();
            rows += batch.node_count() as u64;
            hits += batch.rows_cached();
            seen.push((batch.epoch(), batch.index(), batch.hash(), batch.features().bytes.to_vec()));
        }
    }
    stream.close().unwrap();
    (seen, rows, hits)
}

/// Runs `work` for all ranks at the same time, each with its end of the group.
fn together<T: Send>(ranks: usize, work: impl Fn(u32, CacheRanks) -> T + Sync) -> Vec<T> {
    let settings = Settings { timeout: Duration::from_secs(60), ..Settings::new(ranks) };
    let exchanges = SharedMemory::threads(&settings).unwrap();
    thread::scope(|scope| {
        let work = &work;
        let each: Vec<_> = (0..)
            .zip(exchanges)
            .map(|(rank, exchange)| scope.spawn(move || work(rank, CacheRanks::new(Box::new(exchange)))))
            .collect();
        each.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn rows_kept_by_a_gpu_change_no_batch_and_hit_as_often_as_they_are_read() {
    if !cuda_sim::in_process(
        "gpu_cache::rows_kept_by_a_gpu_change_no_batch_and_hit_as_often_as_they_are_read",
    ) {
        return;
    }
    let (_temp, dataset) = dataset();
    let of = |device, cache| seen(stream(&dataset, device, &options(0, 1), cache).unwrap());
    let (expected, rows, _) = of(DeviceChoice::Cpu, None);
    for policy in ["presample", "degree", "fifo"] {
        let (found, _, hits) = of(DeviceChoice::Cuda(0), Some(asked(HALF, policy, None)));
        assert!(found == expected, "{policy}");
        assert!(hits > 0 && hits < rows, "{policy}: {hits} of {rows}");
    }
    // The two epochs are the counted ones, and all rows that they read fit.
    let (_, _, hits) = of(DeviceChoice::Cuda(0), Some(asked(ALL, "presample", None)));
    assert_eq!(hits, rows);
    // Batches in host memory do not use it.
    let (found, _, hits) = of(DeviceChoice::Cpu, Some(asked(HALF, "presample", None)));
    assert_eq!((found == expected, hits), (true, 0));
}

/// The batches of ranks on these GPUs, together and in order, and the hit rate over all rows.
fn shared(dataset: &Arc<Dataset>, gpus: &[u32], bytes: u64, share: bool) -> (Vec<Seen>, f64) {
    let of = gpus.len() as u32;
    let found = together(gpus.len(), |rank, ranks| {
        let cache = asked(bytes, "random", share.then_some(ranks));
        let device = DeviceChoice::Cuda(gpus[rank as usize]);
        seen(stream(dataset, device, &options(rank, of), Some(cache)).unwrap())
    });
    let (rows, hits) = found.iter().fold((0, 0), |(rows, hits), found| (rows + found.1, hits + found.2));
    let mut all: Vec<Seen> = found.into_iter().flat_map(|found| found.0).collect();
    all.sort_unstable();
    (all, hits as f64 / rows as f64)
}

fn check_shared(gpus: &[u32], dataset: &Arc<Dataset>) {
    let (nodes, row) = (dataset.nodes() as u64, dataset.table().row_bytes() as u64);
    let (mut expected, ..) = seen(stream(dataset, DeviceChoice::Cpu, &options(0, 1), None).unwrap());
    expected.sort_unstable();
    let part = nodes.div_ceil(gpus.len() as u64) * row + 4 * nodes;
    let (apart, rate) = shared(dataset, gpus, part, false);
    assert!(apart == expected && rate < 0.95, "{rate}");
    // Each has memory for some of the rows, and together they hold all.
    let (found, rate) = shared(dataset, gpus, part, true);
    assert!(found == expected, "{gpus:?}");
    assert!((rate - 1.0).abs() < f64::EPSILON, "{rate}");
}

#[test]
fn two_ranks_with_one_gpu_hold_all_rows_between_them() {
    if cuda_sim::in_process("gpu_cache::two_ranks_with_one_gpu_hold_all_rows_between_them") {
        check_shared(&[0, 0], &dataset().1);
    }
}

#[test]
fn three_and_four_gpus_hold_all_rows_between_them() {
    if cuda_sim::in_process_with(
        "gpu_cache::three_and_four_gpus_hold_all_rows_between_them",
        &[("CUDA_SIM_DEVICES", "4")],
    ) {
        // Each has some of the rows in its own memory, and some span a boundary.
        let (_temp, dataset) = wide_dataset();
        assert!(dataset.nodes() * dataset.table().row_bytes() > 2 * (4 << 20));
        check_shared(&[2, 0, 1], &dataset);
        check_shared(&[3, 1, 0, 2], &dataset);
    }
}

#[test]
fn a_budget_without_room_for_a_row_is_refused_on_every_rank() {
    if !cuda_sim::in_process("gpu_cache::a_budget_without_room_for_a_row_is_refused_on_every_rank") {
        return;
    }
    let (_temp, dataset) = dataset();
    let said = together(2, |rank, ranks| {
        let cache = asked(4 * NODES, "presample", Some(ranks));
        stream(&dataset, DeviceChoice::Cuda(0), &options(rank, 2), Some(cache)).unwrap_err().to_string()
    });
    assert!(said.iter().all(|said| said.contains("too small for a row")), "{said:?}");
}

#[test]
fn a_rank_whose_batches_are_in_host_memory_ends_the_others_at_once() {
    if !cuda_sim::in_process("gpu_cache::a_rank_whose_batches_are_in_host_memory_ends_the_others_at_once") {
        return;
    }
    let (_temp, dataset) = dataset();
    let both_ended = Barrier::new(2);
    let ended = together(2, |rank, ranks| {
        let device = if rank == 0 { DeviceChoice::Cuda(0) } else { DeviceChoice::Cpu };
        let cache = asked(HALF, "presample", Some(ranks));
        // As a loader keeps it, to restart.
        let _kept = cache.clone();
        let ended = stream(&dataset, device, &options(rank, 2), Some(cache)).map(drop);
        both_ended.wait();
        ended.map_err(|error| error.to_string())
    });
    assert!(ended[1].is_ok());
    let said = ended[0].as_ref().unwrap_err();
    assert!(said.contains("rank 1 has left the group"), "{said}");
}

/// The errors of two ranks whose second has other options: neither waits for the other.
fn refused(change: impl Fn(&mut LoaderOptions, &mut GpuCache) + Sync) -> Vec<String> {
    let (_temp, dataset) = dataset();
    together(2, |rank, ranks| {
        let (mut options, mut cache) = (options(rank, 2), asked(HALF, "presample", Some(ranks)));
        if rank == 1 {
            change(&mut options, &mut cache);
        }
        stream(&dataset, DeviceChoice::Cuda(rank), &options, Some(cache)).unwrap_err().to_string()
    })
}

#[test]
fn ranks_that_request_different_caches_report_the_difference() {
    if !cuda_sim::in_process_with(
        "gpu_cache::ranks_that_request_different_caches_report_the_difference",
        &[("CUDA_SIM_DEVICES", "2")],
    ) {
        return;
    }
    for (found, says) in [
        (refused(|_, cache| cache.budget = Budget::Bytes(ALL)), "gpu_cache"),
        (refused(|_, cache| cache.policy = "degree".parse().unwrap()), "cache_policy"),
        (refused(|options, _| options.seed = 8), "other rows"),
    ] {
        for (rank, said) in found.iter().enumerate() {
            assert!(said.contains(says) && said.contains(&format!("rank {}", 1 - rank)), "{said}");
        }
    }
    // A rank that fails alone ends the others.
    let found = refused(|_, cache| cache.policy = "fifo".parse().unwrap());
    assert!(found[1].contains("cache_policy") && found[1].contains("beforehand"), "{}", found[1]);
    assert!(found[0].contains("rank 1 has left the group"), "{}", found[0]);
    let found = refused(|options, _| options.features = Features::Disk);
    assert!(found[0].contains("rank 1"), "{}", found[0]);
}

#[test]
fn gpus_that_cannot_read_each_others_memory_share_nothing() {
    if !cuda_sim::in_process_with(
        "gpu_cache::gpus_that_cannot_read_each_others_memory_share_nothing",
        &[("CUDA_SIM_DEVICES", "2"), ("CUDA_SIM_LACKS", "peer_access")],
    ) {
        return;
    }
    for (rank, said) in refused(|_, _| ()).iter().enumerate() {
        let itself = said.contains(&format!("cuda:{rank} cannot read")) && said.contains("NVLink");
        assert!(itself || said.contains("cancelled"), "{said}");
    }
}

#[test]
fn a_size_is_required_where_training_memory_is_unknown() {
    if !cuda_sim::in_process("gpu_cache::a_size_is_required_where_training_memory_is_unknown") {
        return;
    }
    let (_temp, dataset) = dataset();
    let cache = GpuCache::new(Budget::Auto, CachePolicy::PRESAMPLE);
    let error = stream(&dataset, DeviceChoice::Cuda(0), &options(0, 1), Some(cache)).unwrap_err();
    assert!(error.to_string().contains("give a size"), "{error}");
}
