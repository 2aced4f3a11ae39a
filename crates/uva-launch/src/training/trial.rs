//! The bytes on a GPU for `--gpu-cache auto` and for the rows of a hop set: the memory that a trial run of one training
//! batch leaves free.

use std::slice;
use std::sync::Arc;

use uva_graph::Dataset;

use super::data::model_data;
use super::job::{Job, TrainingOptions, TrialOutcome};
use super::trainer_program::TrainerProgram;
use crate::launcher::{Environments, Launch, Launcher};
use uva_runtime::backend::{Backend, SamplerChoice};
use uva_runtime::feed::rows::bytes_beside_gpu_cache;
use uva_runtime::plan::RunPlan;
use uva_runtime::sampler::cache::CacheContents;
use uva_runtime::telemetry::metrics::{Event, Observer, RunProgress};
use uva_runtime::{Passes, RuntimeError};

/// The share of the GPU's memory that is left free beyond one batch's use: later batches may be
/// larger, and memory fragments.
const RESERVE_SHARE: f64 = 0.05;
/// The minimum reserve in bytes.
const RESERVE_BYTES: u64 = 256 << 20;

/// The bytes of a GPU's memory that a trial run with this training leaves free, for `--gpu-cache auto` or for rows of a
/// hop set.
pub(super) fn bytes_left(
    dataset: &Arc<Dataset>,
    plan: &RunPlan,
    training: &TrainingOptions,
    environments: Environments,
    processes: Option<(&mut Launcher, &TrainerProgram)>,
    observer: &mut dyn Observer,
) -> Result<u64, RuntimeError> {
    let Some((launcher, program)) = processes else {
        return Err(RuntimeError::option(
            "gpu_cache",
            "auto",
            "not supported with `in_process`: only a trial run in processes measures the memory that a batch leaves \
             free. Give a size, or omit `in_process`",
        ));
    };
    let passes = Passes { epochs: 1, ..Passes::default() };
    let (mut backend, mut options) = (plan.backend.clone(), plan.options.clone());
    if let Backend::Cuda(cuda) = &mut backend
        && cuda.sampler == SamplerChoice::Auto
    {
        // The run may sample on the GPU, which also uses memory.
        cuda.sampler = SamplerChoice::Gpu;
        options.samplers = 1;
    }
    let plan = RunPlan::new(dataset, &options, passes)?.on(backend);
    let contents = CacheContents::default();
    let launch = Launch {
        dataset: dataset.path(),
        plans: slice::from_ref(&plan),
        sampler_backends: &[],
        caches: slice::from_ref(&contents),
        consumer: program.consumer(&Job::Trial(training.clone()))?,
        environments,
    };
    let outcome = launcher.run_once(launch, &mut NotesOnly(observer))?;
    let TrialOutcome { free, total } = serde_json::from_value(outcome.done)
        .map_err(|error| RuntimeError::failed(format!("the trial's result cannot be read: {error}")))?;
    let (option, use_of_it) = model_data(dataset).use_of_free_memory();
    let reserve = ((total as f64 * RESERVE_SHARE) as u64).max(RESERVE_BYTES);
    // With a cache of rows, the GPU also holds the CPU's partial sums, or the rows that the CPU sends in addition.
    let room = bytes_beside_gpu_cache(dataset, &plan);
    let left = free.saturating_sub(reserve).saturating_sub(room);
    let gib = |bytes: u64| bytes as f64 / (1_u64 << 30) as f64;
    observer.note(&format!(
        "{option}: one training batch left {:.2} of {:.2} GiB; {:.2} GiB are kept in reserve, {:.2} GiB {use_of_it}",
        gib(free),
        gib(total),
        gib(reserve),
        gib(left)
    ));
    Ok(left)
}

/// The launcher's observer during a trial: passes on notes only.
pub(super) struct NotesOnly<'a>(pub &'a mut dyn Observer);

impl Observer for NotesOnly<'_> {
    fn event(&mut self, _: &Event) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn progress(&mut self, _: &RunProgress, _: &str) {}

    fn note(&mut self, line: &str) {
        self.0.note(line);
    }
}
