//! Sampling and gathering on the CPU, timed by the number of threads, for a division of cores.

use std::thread;

use uva_graph::Dataset;
use uva_plan::TimedThreads;

use super::host_times::{HostTimes, TimingFailure};
use crate::machine::not_started;
use crate::sampler::cache::SampledGraph;
use crate::{LoaderOptions, RuntimeError};

/// Maximum number of samplers that are timed concurrently, equal to a run's default: each has separate tables.
const MOST_SAMPLERS: usize = 8;

/// Milliseconds per batch of this run's first training batches, for each number in `threads`: sampled by that many
/// concurrent samplers (at most 8), and gathered by that many threads. No other work should run at the same time.
///
/// # Errors
/// Options that cannot sample this dataset; errors of sampling and of reading rows; a machine without threads.
pub fn time_stages(
    dataset: &Dataset,
    loader: &LoaderOptions,
    threads: &[usize],
) -> Result<[Vec<TimedThreads>; 2], RuntimeError> {
    let mut times = HostTimes::new(dataset, loader)?;
    let (mut sampling, mut gathering) = (Vec::new(), Vec::new());
    for &threads in threads {
        let samplers = threads.min(MOST_SAMPLERS);
        if sampling.last().is_none_or(|timed: &TimedThreads| timed.threads < samplers) {
            let ms = time_samplers(dataset, &times, samplers)?;
            sampling.push(TimedThreads { threads: samplers, ms });
        }
        let gathered = times.gathering_by(threads, &[]).map_err(failed)?;
        gathering.push(TimedThreads { threads, ms: gathered.ms });
    }
    Ok([sampling, gathering])
}

/// Milliseconds per batch of this many concurrent samplers. Each sampler takes longer than that for its own batch.
fn time_samplers(dataset: &Dataset, times: &HostTimes<'_>, samplers: usize) -> Result<f64, RuntimeError> {
    let sample = || {
        let graph = SampledGraph::new(dataset, None)?;
        times.sample(&graph, 0, &mut |_| {})
    };
    let ended: Vec<_> = thread::scope(|scope| {
        let begun: Vec<_> = (0..samplers)
            .map(|number| {
                let thread = thread::Builder::new().name(format!("sampler-{number}"));
                thread.spawn_scoped(scope, sample)
            })
            .collect();
        begun.into_iter().map(|begun| begun.map(thread::ScopedJoinHandle::join)).collect()
    });
    let mut sum = 0.0;
    for ended in ended {
        let ended = ended.map_err(|error| not_started("a thread that samples", &error))?;
        sum += ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(failed)?.ms;
    }
    Ok(sum / (samplers * samplers) as f64)
}

fn failed(error: TimingFailure) -> RuntimeError {
    RuntimeError::failed(format!("timing the first batches: {error}"))
}
