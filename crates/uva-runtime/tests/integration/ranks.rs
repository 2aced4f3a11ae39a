//! Ranks that share a divided feature table: each has its own stream, and gets the other rows from the others. Each
//! rank has a copy of the graph, or its lists are divided as well.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use uva_exchange::{Link, Settings, SharedMemory};
use uva_graph::ranges::{RangeParts, write_ranges};
use uva_graph::{Dataset, ElementType, PartitionMap, Split, Verify};
use uva_runtime::backend::{Backend, BackendOptions, DeviceChoice, GatherChoice, SamplerChoice};
use uva_runtime::feed::ranks::RankExchanges;
use uva_runtime::options::part::Part;
use uva_runtime::options::seed_order::AskedOrder;
use uva_runtime::options::{Pad, Prepare};
use uva_runtime::pipeline::consumer::{BatchStream, PassCursor, StreamSetup, decide_here};
use uva_runtime::{FeatureType, SlotRoom};
use uva_runtime::{Features, LoaderOptions, RuntimeError, gather_by_cpu};
use uva_sample::SamplerKind;

use crate::common;

const EPOCHS: u32 = 2;

/// Split, epoch, number, hash and rows of a batch.
type Seen = (Split, u32, u32, u64, Vec<u8>);

fn options() -> LoaderOptions {
    LoaderOptions {
        fanouts: [3, 2].into(),
        batch_size: 20,
        seed: 7,
        batch_slots: Some(3),
        ..LoaderOptions::default()
    }
}

/// The dataset, and its partition among this many ranks. Part 1 of several owns no node.
fn divided(directory: &Path, element: ElementType, ranks: u32) -> (Arc<Dataset>, PathBuf) {
    let whole = Dataset::open(&common::graph_of(directory, 1500, 6.0, element)).unwrap();
    let part_of = |node: usize| match (node * 7 % ranks as usize) as u16 {
        1 if ranks > 2 => 0,
        part => part,
    };
    let of = (0..whole.nodes()).map(part_of).collect();
    let out = directory.join("ranges");
    write_ranges(&whole, &PartitionMap { parts: ranks, of, summary: None }, &out, &|_| ()).unwrap();
    (Arc::new(whole), out)
}

fn open(path: &Path, part: u32) -> Arc<Dataset> {
    Arc::new(RangeParts::open(path, &[part], Verify::Stamp).unwrap().dataset(part).unwrap())
}

/// Whether each rank has the graph or a part of it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lists {
    Copied,
    Divided,
}

/// Runs `work` for all ranks at the same time, each with its exchanges.
fn together<T: Send>(ranks: u32, lists: Lists, work: impl Fn(u32, RankExchanges) -> T + Sync) -> Vec<T> {
    over_links(ranks, lists, [None, None], work)
}

/// As [`together`], with rows and picks over these links.
fn over_links<T: Send>(
    ranks: u32,
    lists: Lists,
    links: [Option<Link>; 2],
    work: impl Fn(u32, RankExchanges) -> T + Sync,
) -> Vec<T> {
    let settings = |link| Settings {
        pieces: 2,
        piece_bytes: 4096,
        timeout: Duration::from_secs(60),
        link,
        ..Settings::new(ranks as usize)
    };
    let [rows, picks] = links.map(|link| SharedMemory::threads(&settings(link)).unwrap());
    thread::scope(|scope| {
        let work = &work;
        let each: Vec<_> = (0..)
            .zip(rows.into_iter().zip(picks))
            .map(|(rank, (rows, picks))| {
                let ranks = RankExchanges::new(Box::new(rows));
                let ranks = if lists == Lists::Divided { ranks.with_lists(Box::new(picks)) } else { ranks };
                scope.spawn(move || work(rank, ranks))
            })
            .collect();
        each.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn stream(
    dataset: &Arc<Dataset>,
    options: &LoaderOptions,
    (rank, of): (u32, u32),
    ranks: Option<RankExchanges>,
) -> Result<BatchStream, RuntimeError> {
    stream_on(
        &BackendOptions { device: DeviceChoice::Cpu, ..BackendOptions::default() },
        dataset,
        options,
        (rank, of),
        ranks,
    )
}

fn stream_on(
    backend: &BackendOptions,
    dataset: &Arc<Dataset>,
    options: &LoaderOptions,
    (rank, of): (u32, u32),
    ranks: Option<RankExchanges>,
) -> Result<BatchStream, RuntimeError> {
    let options = LoaderOptions { part: Part { index: rank, of }, ..options.clone() };
    let backend = decide_here(&gather_by_cpu(backend, &options, dataset, false), dataset, 1, false)?.backend;
    let setup = StreamSetup { ranks: ranks.map(Arc::new), ..StreamSetup::of(Split::Train) };
    BatchStream::in_this_process(Arc::clone(dataset), &options, backend, setup)
}

/// The backend of a rank with its own GPU.
fn gpu(rank: u32) -> BackendOptions {
    BackendOptions { device: DeviceChoice::Cuda(rank), ..BackendOptions::default() }
}

/// The batches of a pass, including its end.
fn pass(stream: &mut BatchStream, split: Split, epoch: u32) -> Result<Vec<Seen>, RuntimeError> {
    let mut seen = Vec::new();
    stream.go_to(PassCursor { split, epoch, first: 0, batch: 0 });
    while let Some(batch) = stream.next_batch(&|| false)? {
        batch.confirm()?;
        let rows = batch.features().bytes.to_vec();
        seen.push((batch.split(), batch.epoch(), batch.index(), batch.hash(), rows));
    }
    stream.end_pass(stream.place(), &|| false)?;
    Ok(seen)
}

/// Training, validation and test, in a possible order of a consumer.
fn all_passes(stream: &mut BatchStream) -> Result<Vec<Seen>, RuntimeError> {
    let mut seen = Vec::new();
    for epoch in 0..EPOCHS {
        for split in [Split::Train, Split::Valid, Split::Valid, Split::Test] {
            seen.extend(pass(stream, split, epoch)?);
        }
    }
    Ok(seen)
}

#[test]
fn batches_of_ranks_with_a_part_each_are_those_of_the_whole_dataset() {
    let cached = 1500 * 4 + 200 * 20;
    for (ranks, lists, element, cache) in [
        (2, Lists::Copied, ElementType::F32, 0),
        (3, Lists::Copied, ElementType::F16, 0),
        (4, Lists::Copied, ElementType::F32, cached),
        (1, Lists::Divided, ElementType::F32, 0),
        (2, Lists::Divided, ElementType::F32, 0),
        (4, Lists::Divided, ElementType::F32, cached),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let (whole, parts) = divided(directory.path(), element, ranks);
        let divided = together(ranks, lists, |rank, exchange| {
            let exchange = exchange.with_cache(cache);
            let mut stream = stream(&open(&parts, rank), &options(), (rank, ranks), Some(exchange)).unwrap();
            all_passes(&mut stream).unwrap()
        });
        for (rank, found) in (0..).zip(divided) {
            let mut stream = stream(&whole, &options(), (rank, ranks), None).unwrap();
            assert!(found == all_passes(&mut stream).unwrap(), "rank {rank} of {ranks}, lists {lists:?}");
            assert!(found.len() > 8 && found.iter().all(|(.., rows)| !rows.is_empty()));
        }
    }
}

#[test]
fn rows_of_other_ranks_come_to_the_gpu_of_each_and_change_no_batch() {
    if !cuda_sim::in_process_with(
        "ranks::rows_of_other_ranks_come_to_the_gpu_of_each_and_change_no_batch",
        &[("CUDA_SIM_DEVICES", "3")],
    ) {
        return;
    }
    let cached = 1500 * 4 + 200 * 20;
    let on_gpu = |rank| BackendOptions { sampler: SamplerChoice::Gpu, ..gpu(rank) };
    // About every second batch does not fit into its slot, and goes through host memory.
    let small = Some(SlotRoom { bytes: 8192, nodes: 100 });
    for (ranks, lists, element, cache, by, slot_room) in [
        (2, Lists::Copied, ElementType::F32, 0, &gpu as &(dyn Fn(u32) -> BackendOptions + Sync), None),
        (3, Lists::Copied, ElementType::F16, 0, &on_gpu, None),
        (2, Lists::Copied, ElementType::F32, cached, &gpu, small),
        (3, Lists::Divided, ElementType::F32, cached, &gpu, None),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let (whole, parts) = divided(directory.path(), element, ranks);
        let options = LoaderOptions { feature_type: FeatureType::Table, slot_room, ..options() };
        let divided = together(ranks, lists, |rank, exchange| {
            let (dataset, exchange) = (open(&parts, rank), exchange.with_cache(cache));
            let mut stream = stream_on(&by(rank), &dataset, &options, (rank, ranks), Some(exchange)).unwrap();
            let found = all_passes(&mut stream).unwrap();
            let mut aside = 0;
            stream.go_to(PassCursor { split: Split::Train, epoch: 0, first: 0, batch: 0 });
            while let Some(batch) = stream.next_batch(&|| false).unwrap() {
                aside += usize::from(batch.is_oversized());
            }
            assert_eq!(aside > 0, slot_room.is_some(), "{aside} batches through host memory");
            found
        });
        for (rank, found) in (0..).zip(divided) {
            let options = LoaderOptions { slot_room: None, ..options.clone() };
            let mut stream = stream(&whole, &options, (rank, ranks), None).unwrap();
            assert!(found == all_passes(&mut stream).unwrap(), "rank {rank} of {ranks}, lists {lists:?}");
            assert!(found.len() > 8 && found.iter().all(|(.., rows)| !rows.is_empty()));
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let (_, parts) = divided(directory.path(), ElementType::F32, 2);
    for (lists, by, named) in [
        (Lists::Copied, BackendOptions { gather: GatherChoice::ZeroCopy, ..gpu(0) }, "gather=dma"),
        (Lists::Divided, on_gpu(0), "graph=divided"),
    ] {
        for said in together(2, lists, |rank, exchange| {
            let dataset = open(&parts, rank);
            stream_on(&by, &dataset, &options(), (rank, 2), Some(exchange)).map(drop).unwrap_err().to_string()
        }) {
            assert!(said.contains(named), "{named}: {said}");
        }
    }
}

#[test]
fn a_rank_that_has_no_batch_of_a_pass_serves_those_that_have() {
    let directory = tempfile::tempdir().unwrap();
    let (whole, parts) = divided(directory.path(), ElementType::F32, 2);
    // The whole split is one batch, which rank 0 has.
    let options = LoaderOptions { batch_size: whole.split(Split::Valid).len(), ..options() };
    for lists in [Lists::Copied, Lists::Divided] {
        let found = together(2, lists, |rank, exchange| {
            let mut stream = stream(&open(&parts, rank), &options, (rank, 2), Some(exchange)).unwrap();
            (0..5).map(|epoch| pass(&mut stream, Split::Valid, epoch).unwrap().len()).collect::<Vec<_>>()
        });
        assert_eq!(found, [vec![1; 5], vec![0; 5]], "{lists:?}");
    }
}

#[test]
fn a_rank_that_leaves_is_named_when_a_batch_cannot_be_made_and_not_before() {
    rank_1_leaves(&|_| BackendOptions { device: DeviceChoice::Cpu, ..BackendOptions::default() });
}

#[test]
fn a_rank_with_a_gpu_that_leaves_is_named_when_a_batch_cannot_be_made() {
    if cuda_sim::in_process_with(
        "ranks::a_rank_with_a_gpu_that_leaves_is_named_when_a_batch_cannot_be_made",
        &[("CUDA_SIM_DEVICES", "2")],
    ) {
        rank_1_leaves(&gpu);
    }
}

fn rank_1_leaves(by: &(dyn Fn(u32) -> BackendOptions + Sync)) {
    let directory = tempfile::tempdir().unwrap();
    let (_, parts) = divided(directory.path(), ElementType::F32, 2);
    for lists in [Lists::Copied, Lists::Divided] {
        let found = together(2, lists, |rank, exchange| {
            let dataset = open(&parts, rank);
            let mut stream = stream_on(&by(rank), &dataset, &options(), (rank, 2), Some(exchange)).unwrap();
            stream.go_to(PassCursor { split: Split::Train, epoch: 0, first: 0, batch: 0 });
            let (mut taken, mut ended) = (0, None);
            while ended.is_none() && !(rank == 1 && taken == 2) {
                match stream.next_batch(&|| false) {
                    Ok(Some(_)) => taken += 1,
                    other => ended = Some(other.map(drop)),
                }
            }
            (taken, ended)
        });
        let (taken, ended) = &found[0];
        assert!(*taken >= 2, "{taken} batches, lists {lists:?}");
        match ended {
            Some(Err(RuntimeError::PeerGone(said))) => {
                let said = said.to_string();
                assert!(said.contains("rank 1 has left") && said.contains("train batch"), "{said}");
            }
            other => panic!("{other:?}, lists {lists:?}"),
        }
    }
}

#[test]
fn a_slow_link_for_rows_or_for_picks_is_reported_as_the_bottleneck() {
    let directory = tempfile::tempdir().unwrap();
    let (_, parts) = divided(directory.path(), ElementType::F32, 2);
    // A batch has some 100 rows and lists of the other rank.
    let slow = Some(Link { bytes_per_second: 100_000, burst: 1000 });
    for links in [[slow, None], [None, slow]] {
        let told = over_links(2, Lists::Divided, links, |rank, exchange| {
            let exchange = Arc::new(exchange);
            let options = LoaderOptions { part: Part { index: rank, of: 2 }, ..options() };
            let setup = StreamSetup { ranks: Some(Arc::clone(&exchange)), ..StreamSetup::of(Split::Train) };
            let parts = open(&parts, rank);
            let mut stream = BatchStream::in_this_process(parts, &options, Backend::Cpu, setup).unwrap();
            pass(&mut stream, Split::Train, 0).unwrap();
            exchange.bottleneck(&stream.roles())
        });
        assert_eq!(told, ["exchange"; 2], "{links:?}");
    }
}

#[test]
fn what_a_divided_table_cannot_do_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let (_, parts) = divided(directory.path(), ElementType::F32, 2);
    let refused = [
        (LoaderOptions { prepare: Prepare::Whole, ..options() }, "prepare"),
        (LoaderOptions { features: Features::Disk, ..options() }, "features"),
        (LoaderOptions { edge_attr: true, ..options() }, "edge"),
    ];
    for (options, named) in &refused {
        for said in together(2, Lists::Copied, |rank, exchange| {
            stream(&open(&parts, rank), options, (rank, 2), Some(exchange)).map(drop).unwrap_err().to_string()
        }) {
            assert!(said.contains(named), "{named}: {said}");
        }
    }
    let alone = stream(&open(&parts, 0), &options(), (0, 1), None).map(drop).unwrap_err().to_string();
    assert!(alone.contains("divided among ranks") && alone.contains("part=\"rank\""), "{alone}");
    let swapped = together(2, Lists::Copied, |rank, exchange| {
        stream(&open(&parts, 1 - rank), &options(), (rank, 2), Some(exchange))
            .map(drop)
            .unwrap_err()
            .to_string()
    });
    assert!(swapped[0].contains("rank 0 of 2 has part 1 of 2"), "{swapped:?}");
}

#[test]
fn what_divided_lists_cannot_do_is_refused_by_name_before_any_rank_waits() {
    let directory = tempfile::tempdir().unwrap();
    let (_, parts) = divided(directory.path(), ElementType::F32, 2);
    let refused = [
        (LoaderOptions { samplers: 2, batch_slots: None, ..options() }, "samplers"),
        (LoaderOptions { seed_order: AskedOrder::Segments(16), ..options() }, "seed_order"),
        (LoaderOptions { pad: Pad::Auto, ..options() }, "pad"),
        (
            LoaderOptions { sampler_kind: SamplerKind::from_name("ladies").unwrap(), ..options() },
            "sampler_kind",
        ),
    ];
    for (options, named) in &refused {
        for said in together(2, Lists::Divided, |rank, exchange| {
            let opened = stream(&open(&parts, rank), options, (rank, 2), Some(exchange));
            let first = opened.and_then(|mut stream| {
                stream.go_to(PassCursor { split: Split::Train, epoch: 0, first: 0, batch: 0 });
                stream.next_batch(&|| false).map(drop)
            });
            first.unwrap_err().to_string()
        }) {
            assert!(said.contains(named) && said.contains("divided"), "{named}: {said}");
        }
    }
}
