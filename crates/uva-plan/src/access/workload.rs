//! The batches that a run will sample, sampled here only to count reads.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use uva_graph::Progress;
use uva_graph::{Csc, Dataset, Repeats, Split};
use uva_sample::{
    BatchBounds, BatchKey, BatchSampler, EpochOrder, GraphView, MiniBatch, SampleError, SamplerOptions,
    Sequenced, sampler,
};

use crate::CacheError;

/// A run's training batches: its graph, its training nodes, and the options that determine what is sampled. Nothing
/// else affects the batches, so they are bit for bit those of the run.
#[derive(Clone)]
pub struct Workload<'g> {
    /// The graph.
    pub csc: Csc<'g>,
    /// The edge weights, for samplers that pick by weight.
    pub weights: Option<&'g [f32]>,
    /// The training nodes, in the order of their file.
    pub train: &'g [i64],
    /// Fanouts, seed and other options of the sampler.
    pub options: SamplerOptions,
    /// Seeds in a batch.
    pub batch_size: usize,
    /// Whether a last partial batch is dropped.
    pub drop_last: bool,
    /// The sequences that the seeds follow; `None` if the seeds are shuffled.
    pub sequenced: Option<Sequenced>,
    /// Number of sampling threads; 0 for one per core. Fewer are used if their samplers
    /// ([`uva_sample::SamplerKind::bytes_a_node`]) would use more memory than the graph.
    pub threads: usize,
    /// Maximum bytes of a batch (`--slot-bytes`). With `None`, only the graph and the fanouts bound a batch.
    pub batch_bytes: Option<usize>,
    /// Called after every batch, from any of the threads.
    pub progress: Option<&'g (dyn Fn(Progress) + Sync)>,
}

/// The size of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochSize {
    /// Number of batches.
    pub batches: u64,
    /// Seeds of all batches.
    pub seeds: u64,
}

/// The first error of several threads.
#[derive(Default)]
struct Failure(Mutex<Option<SampleError>>);

impl Failure {
    fn note(&self, result: Result<(), SampleError>) {
        if let Err(error) = result {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    fn into_result(self) -> Result<(), SampleError> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

/// Runs the work on every item, each on a thread of its own. If a thread cannot be started, the work is done with one
/// thread fewer; the calling thread works too.
fn side_by_side_with<T: Send>(items: impl ExactSizeIterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    let others = items.len().saturating_sub(1);
    let items = Mutex::new(items);
    let take = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let take_part = || {
        while let Some(item) = take() {
            work(item);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..others {
            let _ = std::thread::Builder::new().name("workload".to_owned()).spawn_scoped(scope, take_part);
        }
        take_part();
    });
}

/// The sampler of one thread and the memory that it samples into.
struct Worker<'g> {
    sampler: Box<dyn BatchSampler + 'g>,
    batch: MiniBatch,
    seeds: Vec<i64>,
}

impl Worker<'_> {
    fn sample(&mut self, train: &[i64], order: &EpochOrder, key: BatchKey) -> Result<(), SampleError> {
        self.seeds.clear();
        self.seeds.extend(order.batch(key.batch as usize).iter().map(|&position| train[position as usize]));
        self.sampler.sample_into(key, &self.seeds, &mut self.batch).map(drop)
    }
}

impl<'g> Workload<'g> {
    /// The training batches of `dataset`, on all cores.
    #[must_use]
    pub fn of(dataset: &'g Dataset, options: SamplerOptions, batch_size: usize) -> Self {
        Self {
            csc: dataset.csc(),
            weights: dataset.weights(),
            train: dataset.split(Split::Train),
            options,
            batch_size,
            drop_last: false,
            sequenced: None,
            threads: 0,
            batch_bytes: None,
            progress: None,
        }
    }

    /// Number of batches in an epoch.
    ///
    /// # Errors
    /// [`CacheError::EmptyTrainSplit`] and [`CacheError::NoBatches`] if there is no batch.
    pub fn batches(&self) -> Result<usize, CacheError> {
        Ok(self.order()?.batches())
    }

    /// The size of an epoch.
    ///
    /// # Errors
    /// As [`batches`](Self::batches).
    pub fn epoch(&self) -> Result<EpochSize, CacheError> {
        let order = self.order()?;
        Ok(EpochSize { batches: order.batches() as u64, seeds: order.seeds() as u64 })
    }

    /// The probability that a training node is a seed of a batch.
    pub(crate) fn seed_chance(&self) -> Result<f64, CacheError> {
        let order = self.order()?;
        Ok(order.seeds() as f64 / self.train.len() as f64 / order.batches() as f64)
    }

    /// Samples every batch of `epochs` in an arbitrary order and passes each to `visitor`, from several threads
    /// concurrently. Returns the number of batches.
    ///
    /// # Errors
    /// If there is no batch, or a batch cannot be sampled.
    pub fn visit(
        &self,
        epochs: Range<u32>,
        visitor: &(dyn Fn(&MiniBatch) + Sync),
    ) -> Result<u64, CacheError> {
        let mut order = self.order()?;
        let batches = order.batches();
        let mut workers = self.workers(batches)?;
        let total = batches as u64 * u64::from(epochs.end.saturating_sub(epochs.start));
        let done = AtomicU64::new(0);
        for epoch in epochs {
            order.prepare(epoch)?;
            self.sample_all(&mut workers, &order, epoch, 0..batches, &|batch| {
                visitor(batch);
                self.report(done.fetch_add(1, Ordering::Relaxed) + 1, total);
            })?;
        }
        Ok(total)
    }

    /// [`visit`](Self::visit) for some of the batches of one epoch: those of `batches` that exist.
    ///
    /// # Errors
    /// As [`visit`](Self::visit).
    pub fn visit_batches(
        &self,
        epoch: u32,
        batches: Range<usize>,
        visitor: &(dyn Fn(&MiniBatch) + Sync),
    ) -> Result<u64, CacheError> {
        let mut order = self.order()?;
        let batches = batches.start.min(order.batches())..batches.end.min(order.batches());
        let mut workers = self.workers(batches.len())?;
        order.prepare(epoch)?;
        let (total, done) = (batches.len() as u64, AtomicU64::new(0));
        self.sample_all(&mut workers, &order, epoch, batches, &|batch| {
            visitor(batch);
            self.report(done.fetch_add(1, Ordering::Relaxed) + 1, total);
        })?;
        Ok(total)
    }

    /// Samples every batch of `epochs` and passes them to `visitor` one after the other, in the order in which a run
    /// gathers them. For consumers that depend on the earlier batches.
    ///
    /// # Errors
    /// As [`visit`](Self::visit).
    pub fn visit_in_order(
        &self,
        epochs: Range<u32>,
        visitor: &mut dyn FnMut(&MiniBatch),
    ) -> Result<u64, CacheError> {
        let mut order = self.order()?;
        let batches = order.batches();
        let mut workers = self.workers(batches)?;
        let total = batches as u64 * u64::from(epochs.end.saturating_sub(epochs.start));
        let mut done = 0;
        for epoch in epochs {
            order.prepare(epoch)?;
            for first in (0..batches).step_by(workers.len()) {
                let side_by_side = workers.len().min(batches - first);
                let failed = Failure::default();
                side_by_side_with(
                    workers[..side_by_side].iter_mut().zip(first..first + side_by_side),
                    |(worker, batch)| {
                        failed.note(worker.sample(self.train, &order, train_key(epoch, batch)));
                    },
                );
                failed.into_result()?;
                for worker in &workers[..side_by_side] {
                    visitor(&worker.batch);
                    done += 1;
                    self.report(done, total);
                }
            }
        }
        Ok(total)
    }

    fn report(&self, done: u64, total: u64) {
        if let Some(progress) = self.progress {
            progress(Progress { stage: "sampling", done, total });
        }
    }

    /// Samples the batches `batches` of the epoch that `order` is prepared for. A shared counter distributes them among
    /// the threads.
    fn sample_all(
        &self,
        workers: &mut [Worker<'_>],
        order: &EpochOrder,
        epoch: u32,
        batches: Range<usize>,
        visitor: &(dyn Fn(&MiniBatch) + Sync),
    ) -> Result<(), CacheError> {
        let next = AtomicUsize::new(batches.start);
        let failed = Failure::default();
        side_by_side_with(workers.iter_mut(), |worker| {
            loop {
                let batch = next.fetch_add(1, Ordering::Relaxed);
                if batch >= batches.end {
                    return;
                }
                match worker.sample(self.train, order, train_key(epoch, batch)) {
                    Ok(()) => visitor(&worker.batch),
                    error => {
                        next.store(batches.end, Ordering::Relaxed);
                        return failed.note(error);
                    }
                }
            }
        });
        Ok(failed.into_result()?)
    }

    fn order(&self) -> Result<EpochOrder, CacheError> {
        if self.csc.nodes() > u32::MAX as usize {
            return Err(CacheError::TooManyNodes { nodes: self.csc.nodes() });
        }
        let (seeds, batch_size) = (self.train.len(), self.batch_size);
        if seeds == 0 {
            return Err(CacheError::EmptyTrainSplit);
        }
        let of = (true, self.sequenced.as_ref());
        let order = EpochOrder::new(self.options.seed, Split::Train, seeds, of, batch_size, self.drop_last)?;
        // Batches have 32-bit numbers. An order limits the seeds to 32 bits, and there are no more batches than seeds.
        match order.batches() {
            0 => Err(CacheError::NoBatches { seeds, batch_size }),
            _ => Ok(order),
        }
    }

    fn workers(&self, batches: usize) -> Result<Vec<Worker<'g>>, CacheError> {
        let again = Repeats::of(self.train, &self.csc);
        let (nodes, edges) = (self.csc.nodes() + again.rows, self.csc.edges() + again.edges);
        // Counting needs no edge ids.
        let options = SamplerOptions { edge_ids: false, ..self.options.clone() };
        // Without its own bound, a batch may become as large as the graph; the memory is committed only when it is
        // written.
        let unbounded = options.fanouts.hop_of_all().map(|_| usize::MAX);
        let bytes = self.batch_bytes.or(unbounded);
        let bounds = BatchBounds::for_options(&options, self.batch_size, nodes, edges, bytes)?;
        let graph = GraphView { weights: self.weights, ..self.csc.into() };
        // Some samplers traverse the whole graph during construction.
        (0..self.crew(batches))
            .into_par_iter()
            .map(|_| {
                Ok(Worker {
                    sampler: sampler(graph, &options)?,
                    batch: MiniBatch::with_bounds(&bounds),
                    seeds: Vec::with_capacity(bounds.seeds()),
                })
            })
            .collect()
    }

    /// The number of threads that sample `batches` batches.
    fn crew(&self, batches: usize) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let wanted = if self.threads == 0 { cores() } else { self.threads };
        let graph_bytes = 8 * self.csc.nodes() + self.csc.indices.id_bytes() * self.csc.edges();
        // Two threads are always allowed: a small graph has small samplers.
        let a_node = self.options.kind.bytes_a_node(self.csc.original_ids.is_some());
        let affordable = (graph_bytes / (a_node * self.csc.nodes()).max(1)).max(2);
        wanted.min(affordable).min(batches).max(1)
    }
}

fn train_key(epoch: u32, batch: usize) -> BatchKey {
    BatchKey { split: Split::Train, epoch, batch: batch as u32 }
}
