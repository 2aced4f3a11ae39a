//! `uvatrain bench sample`: neighbour sampling alone, with batches kept in separate memory.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde::Serialize;
use uva_graph::{NodeType, Split, TypedDataset};
use uva_runtime::options::input_nodes::TypeName;
use uva_runtime::spec::Options;
use uva_runtime::{LoaderOptions, RuntimeError, machine};
use uva_sample::{
    BatchBounds, BatchKey, FanoutSpec, GraphSize, MiniBatch, SampleError, SeedOrder, Seeds, TypedView,
    sampler,
};

use super::spread::Spread;
use super::verify::{Verified, verify};
use crate::exit;
use crate::flags::bench::SampleBenchFlags;
use crate::ui::table::TextTable;
use crate::ui::{format, out};

/// Measures and prints the result.
pub fn run(flags: &SampleBenchFlags) -> anyhow::Result<()> {
    let loader = flags.sampling.given.options();
    loader.check_ranges().map_err(RuntimeError::from)?;
    flags.sampling.given.check_use(&loader).map_err(RuntimeError::from)?;
    let dataset = TypedDataset::open(&flags.data)?;
    if let Ok(dataset) = dataset.single_type() {
        if loader.sampler_kind.needs_weights() {
            dataset.weights_to_pick_by()?;
        }
        loader.check_part(&dataset)?;
    }
    let batches = batches(flags, &loader, &dataset)?;
    let bounds = bounds(&loader, &dataset)?;
    let measured = sample(flags, &dataset, &batches, &bounds)?;
    let report = Report::of(flags, &dataset, &measured, verified(flags, &dataset, &batches, &measured)?);
    if flags.json { out::json(&report) } else { out::text(&report.text()) }
}

/// The key and the seeds of a batch, which are nodes of the target type.
type Batch = (BatchKey, SeedsOfBatch);

/// The seeds of a batch, and their times, if a rule reads these.
struct SeedsOfBatch {
    ids: Vec<i64>,
    times: Vec<i64>,
}

/// The type whose training nodes are seeds.
fn target(loader: &LoaderOptions, dataset: &TypedDataset) -> anyhow::Result<NodeType> {
    Ok(TypeName::target_in(loader.target.as_ref(), dataset)?)
}

/// The seeds of each type.
fn of_types<'s>(seeds: &'s [i64], target: NodeType, dataset: &TypedDataset) -> Vec<&'s [i64]> {
    let mut of_types: Vec<&[i64]> = vec![&[]; dataset.metagraph().type_count()];
    of_types[target.index()] = seeds;
    of_types
}

/// The first training batches, as many as are measured, over as many epochs as needed.
fn batches(
    flags: &SampleBenchFlags,
    loader: &LoaderOptions,
    dataset: &TypedDataset,
) -> anyhow::Result<Vec<Batch>> {
    let target = target(loader, dataset)?;
    let ids = dataset.split_of(target, Split::Train);
    if ids.is_empty() {
        let file = dataset.split_file(target, Split::Train);
        return Err(exit::usage(format!(
            "{}: the training split is empty: nothing to sample",
            file.display()
        ))
        .into());
    }
    let times = loader.seed_times_of(dataset, target, Split::Train)?;
    let mut order = SeedOrder::new(loader.seed, Split::Train, ids.len(), true, loader.batch_size, false)?;
    let mut batches = Vec::with_capacity(flags.batches as usize);
    for epoch in 0.. {
        order.prepare(epoch)?;
        for batch in 0..order.batches() {
            if batches.len() == flags.batches as usize {
                return Ok(batches);
            }
            let of_batch = || order.batch(batch).iter().map(|position| *position as usize);
            let times = times.iter().flat_map(|times| of_batch().map(|at| times.of(at, ids[at])));
            let seeds = SeedsOfBatch { ids: of_batch().map(|at| ids[at]).collect(), times: times.collect() };
            batches.push((BatchKey { split: Split::Train, epoch, batch: batch as u32 }, seeds));
        }
    }
    Ok(batches)
}

fn bounds(loader: &LoaderOptions, dataset: &TypedDataset) -> anyhow::Result<BatchBounds> {
    // No slot limits this memory: if all neighbours are taken, only the graph does.
    let bytes = loader.fanouts.hop_of_all().map(|_| usize::MAX);
    let mut seeds = vec![0; dataset.metagraph().type_count()];
    seeds[target(loader, dataset)?.index()] = loader.batch_size;
    let sampling = loader.sampling_in(dataset.metagraph())?;
    Ok(BatchBounds::for_graph(&sampling, &seeds, &GraphSize::of(dataset), bytes)?)
}

/// The result of one batch.
#[derive(Clone, Copy)]
struct Sampled {
    time: Duration,
    edges: usize,
    nodes: usize,
    hash: u64,
}

/// Everything measured in one run.
struct Run {
    batches: Vec<Sampled>,
    /// Seconds from the first thread's start to the last one's end.
    seconds: f64,
}

/// A barrier for the threads that can be abandoned when one of them cannot be spawned.
struct Gate {
    /// Threads that have not arrived yet; `None` once the barrier is abandoned.
    missing: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Gate {
    fn new(threads: usize) -> Gate {
        Gate { missing: Mutex::new(Some(threads)), changed: Condvar::new() }
    }

    /// Waits for all threads. Returns false if the barrier was abandoned.
    fn wait(&self) -> bool {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        *missing = missing.map(|missing| missing.saturating_sub(1));
        self.changed.notify_all();
        let waits = |missing: &mut Option<usize>| missing.is_some_and(|missing| missing > 0);
        let missing = self.changed.wait_while(missing, waits).unwrap_or_else(PoisonError::into_inner);
        missing.is_some()
    }

    fn give_up(&self) {
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.changed.notify_all();
    }
}

/// Samples batch b on thread b mod T. Each thread has its own sampler and memory, as the samplers of a run do.
fn sample(
    flags: &SampleBenchFlags,
    dataset: &TypedDataset,
    batches: &[Batch],
    bounds: &BatchBounds,
) -> anyhow::Result<Run> {
    let threads = flags.threads as usize;
    let loader = flags.sampling.given.options();
    let options = loader.sampling_in(dataset.metagraph())?;
    let warm = Gate::new(threads);
    let graph = TypedView::of(dataset);
    let target = target(&loader, dataset)?.index();
    let one_thread = |index: usize| -> Result<(Instant, Instant, Vec<Sampled>), SampleError> {
        let mut of_types: Vec<&[i64]> = vec![&[]; graph.types.len()];
        let mut times = of_types.clone();
        let prepared = sampler(graph.clone(), &options).and_then(|mut sampler| {
            let mut memory = MiniBatch::with_bounds(bounds);
            // Touches the memory, so that no page fault is measured.
            if let Some((key, seeds)) = batches.get(index) {
                (of_types[target], times[target]) = (&seeds.ids, &seeds.times);
                let seeds = Seeds { ids: &of_types, times: &times };
                memory.fill(|out| sampler.sample_types(*key, seeds, out))?;
            }
            Ok((sampler, memory))
        });
        // Before the error check, because the other threads wait for this one in any case.
        let opened = warm.wait();
        let (mut sampler, mut memory) = prepared?;
        if !opened {
            return Ok((Instant::now(), Instant::now(), Vec::new()));
        }
        let begun = Instant::now();
        let mut sampled = Vec::with_capacity(batches.len().div_ceil(threads));
        for (key, seeds) in batches.iter().skip(index).step_by(threads) {
            (of_types[target], times[target]) = (&seeds.ids, &seeds.times);
            let seeds = Seeds { ids: &of_types, times: &times };
            let start = Instant::now();
            let counts = memory.fill(|out| sampler.sample_types(*key, seeds, out))?;
            let time = start.elapsed();
            sampled.push(Sampled { time, edges: counts.edges(), nodes: counts.nodes(), hash: counts.hash });
        }
        Ok((begun, Instant::now(), sampled))
    };
    let parts = thread::scope(|scope| {
        let one_thread = &one_thread;
        let mut handles = Vec::new();
        for index in 0..threads {
            match thread::Builder::new().spawn_scoped(scope, move || one_thread(index)) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    warm.give_up();
                    let what = format!("thread {} of --threads {threads}", index + 1);
                    return Err(anyhow::Error::new(machine::not_started(&what, &error)));
                }
            }
        }
        let ended = handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        Ok(ended.collect::<Result<Vec<_>, SampleError>>()?)
    })?;
    let begun = parts.iter().map(|part| part.0).min();
    let ended = parts.iter().map(|part| part.1).max();
    let seconds = begun.zip(ended).map_or(0.0, |(begun, ended)| ended.duration_since(begun).as_secs_f64());
    Ok(Run { batches: parts.into_iter().flat_map(|part| part.2).collect(), seconds })
}

/// Samples the first measured batch again, with the positions of its edges in the graph, and compares both.
fn verified(
    flags: &SampleBenchFlags,
    dataset: &TypedDataset,
    batches: &[Batch],
    measured: &Run,
) -> anyhow::Result<Option<Verified>> {
    let (Some((key, seeds)), Some(first)) = (batches.first(), measured.batches.first()) else {
        return Ok(None);
    };
    let mut loader = flags.sampling.given.options();
    loader.edge_ids = loader.sampler_kind.picks_in_lists();
    let options = loader.sampling_in(dataset.metagraph())?;
    let mut batch = MiniBatch::with_bounds(&bounds(&loader, dataset)?);
    let graph = TypedView::of(dataset);
    let mut sampler = sampler(graph.clone(), &options)?;
    let target = target(&loader, dataset)?;
    let [ids, times] = [&seeds.ids, &seeds.times].map(|seeds| of_types(seeds, target, dataset));
    batch.fill(|out| sampler.sample_types(*key, Seeds { ids: &ids, times: &times }, out))?;
    // The hash does not cover edge ids.
    ensure!(
        batch.hash() == first.hash,
        "{key} had the hash {:016x}, and now {:016x}",
        first.hash,
        batch.hash()
    );
    let metagraph = dataset.metagraph();
    let nodes: Vec<&[i64]> = metagraph.types().map(|of| batch.nodes_of(of)).collect();
    let places = (0..options.fanouts.hops())
        .flat_map(|layer| metagraph.relations().map(move |relation| (layer, relation)));
    let blocks: Vec<_> = places.filter_map(|(layer, relation)| batch.block_of(layer, relation)).collect();
    Ok(Some(verify(&graph, &options, &nodes, &blocks)?))
}

#[derive(Serialize)]
struct Report {
    dataset: String,
    edges_per_second: f64,
    input_nodes_per_second: f64,
    batch_ms: Spread,
    sampler_kind: &'static str,
    fanouts: FanoutSpec,
    /// Number, length and termination probability of walks, for kinds that walk.
    #[serde(skip_serializing_if = "Option::is_none")]
    walks: Option<[u32; 3]>,
    replace: bool,
    batch_size: usize,
    threads: u32,
    batches: usize,
    edges: u64,
    input_nodes: u64,
    seconds: f64,
    /// Sum of the batches' hashes: the same for any number of threads.
    hash: String,
    /// The result of comparing the first batch with the graph.
    verified: Option<Verified>,
}

impl Report {
    fn of(flags: &SampleBenchFlags, dataset: &TypedDataset, run: &Run, verified: Option<Verified>) -> Report {
        let total =
            |count: fn(&Sampled) -> usize| run.batches.iter().map(|batch| count(batch) as u64).sum::<u64>();
        let (edges, input_nodes) = (total(|batch| batch.edges), total(|batch| batch.nodes));
        let loader = flags.sampling.given.options();
        let hash = run.batches.iter().fold(0_u64, |sum, batch| sum.wrapping_add(batch.hash));
        Report {
            dataset: dataset.name().to_owned(),
            edges_per_second: edges as f64 / run.seconds,
            input_nodes_per_second: input_nodes as f64 / run.seconds,
            batch_ms: Spread::of_ms(run.batches.iter().map(|batch| batch.time)),
            sampler_kind: loader.sampler_kind.name(),
            walks: loader.sampling().walks_in_force(),
            replace: loader.replace,
            batch_size: loader.batch_size,
            fanouts: loader.fanouts,
            threads: flags.threads,
            batches: run.batches.len(),
            edges,
            input_nodes,
            seconds: run.seconds,
            hash: format!("{hash:016x}"),
            verified,
        }
    }

    fn text(&self) -> String {
        let mut facts = TextTable::of_facts();
        let Spread { min, median, max } = self.batch_ms;
        facts.row(&["dataset", &self.dataset]);
        facts.row(&["sampled edges", &format!("{:.2} million a second", self.edges_per_second / 1e6)]);
        facts.row(&["input nodes", &format!("{:.2} million a second", self.input_nodes_per_second / 1e6)]);
        facts.row(&["a batch", &format!("{median:.2} ms ({min:.2} to {max:.2})")]);
        let (batches, edges) = (format::count(self.batches as u64), format::count(self.edges));
        facts.row(&[
            "measured",
            &format!(
                "{batches} batches of {} seeds, fanouts {}, {edges} edges, threads: {}",
                self.batch_size, self.fanouts, self.threads
            ),
        ]);
        facts.row(&["hash", &self.hash]);
        facts.render()
    }
}
