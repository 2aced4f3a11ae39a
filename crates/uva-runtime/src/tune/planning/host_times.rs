//! Timing of caches in host memory.
//!
//! On the CPU a hit saves no read over a link. It may improve locality, since frequently read data is then often
//! adjacent; its cost is the lookup. Hits are therefore timed with the same structures that a run uses. If they save no
//! time, the plan reports it. Of a large graph, these structures hold a part ([`timed_part`]).
//!
//! [`timed_part`]: super::timed_part

use std::error::Error;
use std::time::Instant;

use uva_batch::BatchLayout;
use uva_graph::reorder::{NodeOrder, ReorderedLayout};
use uva_graph::{Dataset, Split};
use uva_plan::{TimedCaches, TimedRun};
use uva_rows::{Hits, HostPlace};
use uva_sample::{BatchBounds, BatchKey, GraphView, MiniBatch, sampler};

use super::timed_part::TimedPart;
use crate::feed::rows::{HostParts, RowTree};
use crate::sampler::cache::{Caches, SampledGraph};
use crate::sampler::order_making::epoch_order;
use crate::{LoaderOptions, RuntimeError};

/// Batches of one timed run; the median counts. The number is small, since a plan must cost less than the epochs it
/// counts.
const BATCHES: usize = 9;

/// Warm-up batches before them.
const WARM_UP: usize = 2;

/// The timing of the CPU's sampler and gather.
pub(super) struct HostTimes<'d> {
    dataset: &'d Dataset,
    loader: &'d LoaderOptions,
    layout: BatchLayout,
    /// Seeds of the batches, as positions in the training split.
    seeds: Vec<Vec<u32>>,
    /// Nodes of each batch, computed on demand: they use more memory than a sampler.
    nodes: Vec<Vec<i64>>,
    /// The part of the graph that is copied to time caches, found on demand; `None` for all of it.
    part: Option<TimedPart<'d>>,
}

pub(super) type TimingFailure = Box<dyn Error + Send + Sync>;

impl<'d> HostTimes<'d> {
    /// Creates the timing for the first training batches of a run with these options.
    pub fn new(dataset: &'d Dataset, loader: &'d LoaderOptions) -> Result<Self, RuntimeError> {
        let mut order = epoch_order(dataset, loader, Split::Train)?;
        order.prepare(0)?;
        let seeds: Vec<_> =
            (0..order.batches().min(BATCHES + WARM_UP)).map(|batch| order.batch(batch).to_vec()).collect();
        let layout = BatchLayout::new(dataset, &loader.batch_spec(dataset)?)?;
        let part = TimedPart::of(dataset, loader.sampler_kind);
        Ok(Self { dataset, loader, layout, seeds, nodes: Vec::new(), part })
    }

    /// The maximum sizes of the batches.
    pub fn bounds(&self) -> &BatchBounds {
        self.layout.bounds()
    }

    /// The seeds of each batch, as positions in the training split.
    pub fn seeds(&self) -> &[Vec<u32>] {
        &self.seeds
    }

    /// The nodes of each batch, by the dataset's ids.
    pub fn nodes(&mut self) -> Result<&[Vec<i64>], TimingFailure> {
        if self.nodes.is_empty() {
            let mut nodes = Vec::with_capacity(self.seeds.len());
            let graph = SampledGraph::new(self.dataset, None)?;
            self.sample(&graph, 0, &mut |of_batch| nodes.push(of_batch.to_vec()))?;
            self.nodes = nodes;
        }
        Ok(&self.nodes)
    }

    /// Gathers the rows of the batches with `threads` threads, with a cache of the rows of `cached`.
    pub fn gathering_by(&mut self, threads: usize, cached: &[i64]) -> Result<TimedRun, TimingFailure> {
        self.nodes()?;
        let tree = RowTree::of_table(self.loader, &self.layout, !cached.is_empty());
        let parts = HostParts::new(self.dataset, threads).with_chosen(Some(cached)).copying(&tree);
        let mut source = tree.gathered(&parts)?;
        let most = self.nodes.iter().map(Vec::len).max().unwrap_or(0);
        // The table's rows, and their form in a slot.
        let row_bytes = self.layout.row_bytes();
        let mut out = vec![0_u8; most * row_bytes];
        let (mut times, mut hits) = (Vec::new(), Hits::default());
        for nodes in &self.nodes {
            let began = Instant::now();
            let read = source.fill(nodes, HostPlace::new(&mut out[..nodes.len() * row_bytes]))?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
            hits.count(&read);
        }
        Ok(TimedRun { hit_rate: share(hits.total, hits.total_rows), ms: median(times) })
    }

    /// Samples the batches on `graph`, and passes the nodes of each to `seen`.
    pub fn sample(
        &self,
        graph: &SampledGraph<'_>,
        cached: usize,
        seen: &mut dyn FnMut(&[i64]),
    ) -> Result<TimedRun, TimingFailure> {
        let batches = self.batches_of(graph.split(Split::Train));
        self.sample_view(graph.view_of(&of_lists(cached)), batches, &mut |batch| {
            seen(batch.nodes());
            true
        })
    }

    /// The numbers and seeds of the batches, whose positions are those in `split`.
    fn batches_of(&self, split: &[i64]) -> impl Iterator<Item = (u32, Vec<i64>)> {
        let seeds = self.seeds.iter();
        (0..).zip(seeds.map(|of_batch| of_batch.iter().map(|&position| split[position as usize]).collect()))
    }

    /// Samples batches, by their numbers and seeds, on `graph`, and passes each to `seen` until it returns false.
    fn sample_view(
        &self,
        graph: GraphView<'_>,
        batches: impl Iterator<Item = (u32, Vec<i64>)>,
        seen: &mut dyn FnMut(&MiniBatch) -> bool,
    ) -> Result<TimedRun, TimingFailure> {
        let mut sampler = sampler(graph, &self.loader.sampling())?;
        let mut batch = MiniBatch::with_bounds(self.bounds());
        let mut times = Vec::new();
        let (mut all, mut hits) = (0, 0);
        for (number, seeds) in batches {
            let key = BatchKey { split: Split::Train, epoch: 0, batch: number };
            let began = Instant::now();
            let counts = sampler.sample_into(key, &seeds, &mut batch)?;
            times.push(began.elapsed().as_secs_f64() * 1e3);
            all += counts.list_reads.all;
            hits += counts.list_reads.cached;
            if !seen(&batch) {
                break;
            }
        }
        Ok(TimedRun { hit_rate: share(hits, all), ms: median(times) })
    }

    /// Adds the first batches to a part.
    fn find(&self, part: &mut TimedPart<'_>) -> Result<(), TimingFailure> {
        let graph = SampledGraph::new(self.dataset, None)?;
        let batches = self.batches_of(graph.split(Split::Train));
        self.sample_view(graph.view(), batches, &mut |batch| part.add(batch))?;
        Ok(())
    }

    /// Samples the batches of a part with the lists of `first` cached. They are repeated, so that there are as many runs
    /// as with the whole graph.
    fn sample_part(&self, part: &TimedPart<'_>, first: &[i64]) -> Result<TimedRun, TimingFailure> {
        let copy = part.copy(first);
        let batches = (0..self.seeds.len()).map(|run| {
            let number = run % part.batches();
            (number as u32, copy.seeds(number).to_vec())
        });
        self.sample_view(copy.view(), batches, &mut |_| true)
    }

    /// Samples a copy of the whole graph with the lists of `first` cached.
    fn sample_reordered(&self, first: &[i64]) -> Result<TimedRun, TimingFailure> {
        let order = NodeOrder::from_first(self.dataset.nodes(), first)?;
        let layout = ReorderedLayout::new(self.dataset);
        // As 64-bit words, for alignment.
        let mut words = vec![0_u64; layout.bytes().div_ceil(8)];
        let bytes = &mut bytemuck::cast_slice_mut(&mut words)[..layout.bytes()];
        layout.fill(self.dataset, &order, bytes)?;
        self.sample(&SampledGraph::new(self.dataset, Some(bytes))?, first.len(), &mut |_| {})
    }
}

impl TimedCaches for HostTimes<'_> {
    fn sampling(&mut self, order: &[i64], cached: usize) -> Result<TimedRun, TimingFailure> {
        let Some(mut part) = self.part.take() else {
            return match cached {
                0 => self.sample(&SampledGraph::new(self.dataset, None)?, 0, &mut |_| {}),
                _ => self.sample_reordered(&order[..cached]),
            };
        };
        if part.batches() == 0 {
            self.find(&mut part)?;
        }
        // Without cached lists too, so that only the order differs between runs.
        let timed = self.sample_part(&part, &order[..cached]);
        self.part = Some(part);
        timed
    }

    fn gathering(&mut self, cached: &[i64]) -> Result<TimedRun, TimingFailure> {
        self.gathering_by(self.loader.gather_threads, cached)
    }
}

/// Caches of `lists` lists, with all arrays that a sampler reads of them.
pub(super) fn of_lists(lists: usize) -> Caches {
    Caches { lists, list_weights: true, list_homes: true, ..Caches::default() }
}

pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}

/// The median of the times after the warm-up, or of all times without any after it.
pub(super) fn median(mut times: Vec<f64>) -> f64 {
    if times.len() > WARM_UP {
        times.drain(..WARM_UP);
    }
    middle(times)
}

/// The median of all these times; 0 for none.
pub(super) fn middle(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}
