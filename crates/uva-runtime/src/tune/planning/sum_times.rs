//! Timing of the first layer's sums in both ways: made from gathered rows, and made while the rows are read.
//!
//! Sampler, slots and sources are those of a run. Sums of gathered rows are made in the trainer's way. Both ways use
//! the same number of threads, so that their times are comparable.

use std::time::{Duration, Instant};

use rayon::ThreadPool;
use rayon::prelude::*;
use serde::Serialize;
use uva_batch::{Aggregation, BatchHeader, BatchLayout, Column, FeatureType};
use uva_graph::Dataset;
use uva_mem::ZeroedPages;
use uva_ops::Vectors;
use uva_ops::lists::{Lists, ListsError, WeightedSums, Weights, degree_weights};

use super::host_times::middle;
use crate::feed::rows::{HostParts, HostRows, RowTree};
use crate::feed::sampling::Sampling;
use crate::options::schedule::ScheduleItem;
use crate::plan::RunPlan;
use crate::sampler::cache::{CacheContents, Caches, Engine, SampledGraph};
use crate::{LoaderOptions, Passes, RuntimeError};

/// Lists that a thread sums at a time.
const TASK_LISTS: usize = 128;

/// The request for a timing.
pub struct SumsToTime<'a> {
    /// The sums.
    pub aggregation: Aggregation,
    /// The cache of rows through which both ways read. A cache of lists is ignored.
    pub contents: &'a CacheContents,
    /// Number of batches to time, after a warm-up pass over them.
    pub batches: usize,
}

/// Milliseconds per batch in both ways, as medians.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SumTimes {
    /// Number of timed batches.
    pub batches: usize,
    /// Threads of each way.
    pub threads: usize,
    /// Time to gather the rows of all nodes.
    pub gather_ms: f64,
    /// Time to sum the gathered rows.
    pub sum_ms: f64,
    /// Both steps in sequence: the time of `off`.
    pub off_ms: f64,
    /// Time to sum while reading, and to gather the destinations' own rows if the sums exclude them: the time of
    /// `host`.
    pub host_ms: f64,
}

/// The outermost block of a batch, without padding.
#[derive(Clone, Copy, Debug)]
pub struct TimedBatch<'a> {
    /// The batch's nodes, the block's sources. The first of them are its destinations.
    pub nodes: &'a [i64],
    /// The start of each destination's list in the indices, and the end of the last.
    pub indptr: &'a [i32],
    /// Sources as positions among the nodes, list by list.
    pub indices: &'a [i32],
}

/// Times the sums of the first training batches of a run with these options, in this process. Both ways must agree bit
/// for bit. `seen` receives each timed batch.
///
/// # Errors
/// [`RuntimeError::Failed`] if the two ways differ, and if memory cannot be allocated; errors of sampling and
/// gathering; [`RuntimeError::Usage`] for rows that cannot be summed.
pub fn time_sums(
    dataset: &Dataset,
    loader: &LoaderOptions,
    asked: &SumsToTime<'_>,
    seen: &mut dyn FnMut(TimedBatch<'_>),
) -> Result<SumTimes, RuntimeError> {
    let loader = LoaderOptions {
        // A bound in bytes would differ between the ways. A batch of whole lists is bounded only by the graph.
        slot_bytes: loader.fanouts.hop_of_all().map(|_| u64::MAX),
        // The stage that sums also widens the rows.
        feature_type: FeatureType::Float32,
        degrees: loader.degrees || asked.aggregation == Aggregation::Degrees,
        ..loader.with_order(dataset)?
    };
    let plan = |aggregation| {
        let passes = Passes { epochs: u32::MAX, ..Passes::default() };
        RunPlan::new(dataset, &LoaderOptions { aggregation, ..loader.clone() }, passes)
    };
    let (off, host) = (plan(Aggregation::None)?, plan(asked.aggregation)?);
    let graph = SampledGraph::new(dataset, None)?;
    let engine = Engine::on_host(dataset, &graph, &loader, &Caches::default())?;
    let mut sampling = Sampling::new(dataset, &off, &graph, engine, None)?;
    let mut ways = Ways::new(dataset, &off, &host, asked)?;
    let mut slots = [Slots::new(&off.layout, &host.layout)?, Slots::new(&off.layout, &host.layout)?];

    let mut sample = |first: u64, pair: &mut [Slots]| {
        for (sequence, slots) in (first..).zip(pair) {
            let ScheduleItem::Batch(key) = off.schedule.item(sequence, None) else {
                let reason = "there is no training batch to time sums with";
                return Err(RuntimeError::input(reason.to_owned()));
            };
            slots.header = sampling.sample(key, 0, slots.batch.bytes_mut())?;
        }
        Ok(())
    };
    let pair_of = |first: u64, batches: u64| if first + 1 < batches { 2 } else { 1 };

    // A process that has just mapped the table pays for each of its pages once. That would hide the times of the ways.
    let batches = asked.batches as u64;
    for first in (0..batches).step_by(2) {
        let pair = &mut slots[..pair_of(first, batches)];
        sample(first, pair)?;
        Times::default().take(&mut ways, pair, true)?;
        for slots in pair {
            slots.check(&off.layout, &host.layout)?;
        }
    }
    let mut times = Times::default();
    for first in (0..batches).step_by(2) {
        let pair = &mut slots[..pair_of(first, batches)];
        sample(first, pair)?;
        times.take(&mut ways, pair, first % 4 == 0)?;
        for slots in pair {
            slots.check(&off.layout, &host.layout)?;
            seen(slots.timed_batch(&off.layout));
        }
    }
    Ok(times.medians(loader.gather_threads))
}

/// The slots of one batch.
struct Slots {
    header: BatchHeader,
    /// The slot from the sampler.
    batch: ZeroedPages,
    /// The slot with the rows of all nodes.
    gathered: ZeroedPages,
    /// The sums of these rows.
    sums: Vec<f32>,
    /// The slot with the producer's sums.
    summed: ZeroedPages,
}

impl Slots {
    fn new(off: &BatchLayout, host: &BatchLayout) -> Result<Self, RuntimeError> {
        let pages = |bytes| {
            ZeroedPages::new(bytes).map_err(|error| {
                RuntimeError::failed(format!("no memory for the batches whose sums are timed: {error}"))
            })
        };
        Ok(Self {
            header: BatchHeader::without_batch(uva_batch::HandOver::Skipped),
            batch: pages(off.batch_bytes())?,
            gathered: pages(off.feature_slot_bytes())?,
            sums: Vec::new(),
            summed: pages(host.feature_slot_bytes())?,
        })
    }

    /// Rejects sums that depend on the way, and own rows that differ from the table's.
    fn check(&self, off: &BatchLayout, host: &BatchLayout) -> Result<(), RuntimeError> {
        let column = |column| host.range(&self.header, column);
        let summed = &self.summed.bytes()[column(Column::Aggregated)];
        let own = &self.summed.bytes()[column(Column::X)];
        let gathered = &self.gathered.bytes()[off.range(&self.header, Column::X)];
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        let summed: &[f32] = bytemuck::cast_slice(summed);
        let equal = summed.len() == self.sums.len() && summed.iter().zip(&self.sums).all(same);
        if equal && gathered.starts_with(own) {
            return Ok(());
        }
        let key = self.header.key();
        Err(RuntimeError::failed(format!(
            "the sums made while reading differ from those of gathered rows, in training batch {} of epoch {}: this is a \
             bug, please report it; `aggregate=off` avoids these sums",
            key.batch, key.epoch
        )))
    }

    fn timed_batch(&self, layout: &BatchLayout) -> TimedBatch<'_> {
        let last = layout.layers() - 1;
        let column = |column: Column| &self.batch.bytes()[layout.range(&self.header, column.at(last))];
        let real = self.header.real_layer(last);
        let nodes: &[i64] = bytemuck::cast_slice(column(Column::InputNodes));
        let indptr: &[i32] = bytemuck::cast_slice(column(Column::Indptr));
        let indices: &[i32] = bytemuck::cast_slice(column(Column::Indices));
        TimedBatch {
            nodes: &nodes[..self.header.real_nodes()],
            indptr: &indptr[..=real.destinations],
            indices: &indices[..real.edges],
        }
    }
}

/// Both ways of a batch's sums.
struct Ways<'d> {
    off: &'d RunPlan,
    host: &'d RunPlan,
    gathered: HostRows<'d>,
    summed: HostRows<'d>,
    aggregation: Aggregation,
    threads: usize,
    /// The pool that sums the gathered rows; `None` for one thread.
    pool: Option<ThreadPool>,
}

impl<'d> Ways<'d> {
    fn new(
        dataset: &'d Dataset,
        off: &'d RunPlan,
        host: &'d RunPlan,
        asked: &SumsToTime<'_>,
    ) -> Result<Self, RuntimeError> {
        let threads = off.options.gather_threads;
        let ids = asked.contents.rows().map(|rows| bytemuck::cast_slice(rows.bytes()));
        let parts = HostParts::new(dataset, threads).with_chosen(ids).copying(&RowTree::of(host));
        let rows = |plan: &RunPlan| {
            let plan = plan.clone().with_caches(asked.contents.caches().clone());
            RowTree::of(&plan).on_host(&plan.layout, &parts)
        };
        let pool = if threads > 1 {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let refused = |error: rayon::ThreadPoolBuildError| {
                RuntimeError::missing(error.to_string()).with_option_of("gather_threads")
            };
            Some(pool.map_err(refused)?)
        } else {
            None
        };
        let (gathered, summed) = (rows(off)?, rows(host)?);
        Ok(Self { off, host, gathered, summed, aggregation: asked.aggregation, threads, pool })
    }

    /// Gathers the rows of a batch, and sums them. Returns the duration of each step.
    fn gather_and_sum(&mut self, slots: &mut Slots) -> Result<[Duration; 2], RuntimeError> {
        let Slots { header, batch, gathered, sums, .. } = slots;
        let layout = &self.off.layout;
        let began = Instant::now();
        self.gathered.fill(layout, header, self.threads, batch.bytes(), (gathered.bytes_mut(), 0))?;
        let gather = began.elapsed();
        // The trainer's allocator keeps such memory, too.
        sums.resize(header.outermost().destinations * layout.dim(), 0.0);
        let began = Instant::now();
        let rows = bytemuck::cast_slice(&gathered.bytes()[layout.range(header, Column::X)]);
        self.sum(header, batch.bytes(), rows, sums)
            .map_err(|error| RuntimeError::failed(format!("the outermost block of a batch: {error}")))?;
        Ok([gather, began.elapsed()])
    }

    /// Sums the rows like the trainer's first layer.
    fn sum(
        &self,
        header: &BatchHeader,
        batch: &[u8],
        rows: &[f32],
        out: &mut [f32],
    ) -> Result<(), ListsError> {
        let layout = &self.off.layout;
        let (width, last) = (layout.dim(), layout.layers() - 1);
        let column = |column: Column| &batch[layout.range(header, column.at(last))];
        let lists = Lists::<i32>::new(
            bytemuck::cast_slice(column(Column::Indptr)),
            bytemuck::cast_slice(column(Column::Indices)),
            header.nodes(),
        )?;
        let sampled: &[f32] = bytemuck::cast_slice(column(Column::Weights));
        let by_degrees;
        let sums = match (self.aggregation, sampled) {
            (Aggregation::Degrees, sampled) => {
                let degrees = bytemuck::cast_slice(column(Column::Degrees));
                by_degrees = degree_weights(&lists, sampled, degrees, self.pool.as_ref());
                WeightedSums::new(rows, width, lists, Weights::Each(&by_degrees.0))?
                    .with_own(&by_degrees.1)?
            }
            (_, []) => WeightedSums::new(rows, width, lists, Weights::Mean)?,
            (_, sampled) => WeightedSums::new(rows, width, lists, Weights::Each(sampled))?,
        };
        let vectors = Vectors::widest();
        match &self.pool {
            None => sums.write_some(0, out, vectors),
            Some(pool) => pool.install(|| {
                let tasks = out.par_chunks_mut(TASK_LISTS * width.max(1)).enumerate();
                tasks.for_each(|(task, out)| sums.write_some(task * TASK_LISTS, out, vectors));
            }),
        }
        Ok(())
    }

    /// Sums the rows of a batch while reading them. Returns the duration.
    fn sum_while_reading(&mut self, slots: &mut Slots) -> Result<Duration, RuntimeError> {
        let Slots { header, batch, summed, .. } = slots;
        let began = Instant::now();
        self.summed.fill(&self.host.layout, header, self.threads, batch.bytes(), (summed.bytes_mut(), 0))?;
        Ok(began.elapsed())
    }
}

/// The times of each batch.
#[derive(Default)]
struct Times {
    gather: Vec<f64>,
    sum: Vec<f64>,
    off: Vec<f64>,
    host: Vec<f64>,
}

impl Times {
    /// Times a pair of batches both ways. Each way processes one of them first, and the other after a different batch,
    /// so that the content of the processor's caches and the machine's load are the same for both.
    fn take(
        &mut self,
        ways: &mut Ways<'_>,
        pair: &mut [Slots],
        gathers_first: bool,
    ) -> Result<(), RuntimeError> {
        let turns = [(gathers_first, 0), (!gathers_first, 1), (!gathers_first, 0), (gathers_first, 1)];
        for (gathers, index) in turns {
            let Some(slots) = pair.get_mut(index) else { continue };
            if gathers {
                let [gather, sum] = ways.gather_and_sum(slots)?;
                self.gather.push(ms(gather));
                self.sum.push(ms(sum));
                self.off.push(ms(gather + sum));
            } else {
                self.host.push(ms(ways.sum_while_reading(slots)?));
            }
        }
        Ok(())
    }

    fn medians(self, threads: usize) -> SumTimes {
        SumTimes {
            batches: self.host.len(),
            threads,
            gather_ms: middle(self.gather),
            sum_ms: middle(self.sum),
            off_ms: middle(self.off),
            host_ms: middle(self.host),
        }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use uva_graph::Split;
    use uva_io::generate::{self, Common, PowerLaw};

    use super::*;

    fn dataset(at: &std::path::Path) -> Dataset {
        let graph = PowerLaw::of(Common { nodes: 600, feature_dim: 5, ..Common::default() });
        generate::write(at, &graph, &|_| {}).unwrap();
        Dataset::open(at).unwrap()
    }

    #[test]
    fn every_batch_is_timed_and_reported_once_in_either_order_of_the_ways() {
        let temp = tempfile::tempdir().unwrap();
        let dataset = dataset(&temp.path().join("graph"));
        let contents = CacheContents::of_rows(&[3, 1, 4]).unwrap();
        // Two batches per epoch, or one that is the whole split.
        for (batch_size, batches) in [(dataset.split(Split::Train).len().div_ceil(2), 5), (10_000, 1)] {
            let options = LoaderOptions {
                fanouts: [4, 3].into(),
                batch_size,
                gather_threads: 2,
                ..LoaderOptions::default()
            };
            for aggregation in [Aggregation::Mean, Aggregation::Degrees] {
                let mut seen = Vec::new();
                let asked = SumsToTime { aggregation, contents: &contents, batches };
                let times = time_sums(&dataset, &options, &asked, &mut |batch| {
                    assert_eq!(batch.indptr.last().map(|&end| end as usize), Some(batch.indices.len()));
                    seen.push(batch.nodes.to_vec());
                })
                .unwrap();
                assert_eq!((times.batches, times.threads, seen.len()), (batches, 2, batches));
                // Another sample of the same nodes is a different batch.
                seen.dedup();
                assert_eq!(seen.len(), batches);
            }
        }
    }

    #[test]
    fn a_sum_or_an_own_row_that_differs_in_a_bit_is_an_error() {
        let temp = tempfile::tempdir().unwrap();
        let dataset = dataset(&temp.path().join("graph"));
        let contents = CacheContents::default();
        let plan = |aggregation| {
            let options = LoaderOptions {
                fanouts: [4].into(),
                batch_size: 20,
                aggregation,
                ..LoaderOptions::default()
            };
            RunPlan::new(&dataset, &options, Passes { epochs: 1, ..Passes::default() }).unwrap()
        };
        let (off, host) = (plan(Aggregation::None), plan(Aggregation::Mean));
        let asked = SumsToTime { aggregation: Aggregation::Mean, contents: &contents, batches: 1 };
        let graph = SampledGraph::new(&dataset, None).unwrap();
        let engine = Engine::on_host(&dataset, &graph, &off.options, &Caches::default()).unwrap();
        let mut sampling = Sampling::new(&dataset, &off, &graph, engine, None).unwrap();
        let mut ways = Ways::new(&dataset, &off, &host, &asked).unwrap();
        let mut slots = Slots::new(&off.layout, &host.layout).unwrap();
        let ScheduleItem::Batch(key) = off.schedule.item(0, None) else { unreachable!() };
        slots.header = sampling.sample(key, 0, slots.batch.bytes_mut()).unwrap();
        ways.gather_and_sum(&mut slots).unwrap();
        ways.sum_while_reading(&mut slots).unwrap();
        slots.check(&off.layout, &host.layout).unwrap();
        for column in [Column::Aggregated, Column::X] {
            let last = host.layout.range(&slots.header, column).end - 4;
            slots.summed.bytes_mut()[last] ^= 1;
            let error = slots.check(&off.layout, &host.layout).unwrap_err();
            assert!(error.to_string().contains("differ from those of gathered rows"), "{error}");
            slots.summed.bytes_mut()[last] ^= 1;
        }
        // All values that are not numbers are equivalent.
        let last = host.layout.range(&slots.header, Column::Aggregated).end;
        slots.summed.bytes_mut()[last - 4..last].copy_from_slice(&f32::NAN.to_le_bytes());
        if let Some(sum) = slots.sums.last_mut() {
            *sum = -f32::NAN;
        }
        slots.check(&off.layout, &host.layout).unwrap();
    }
}
