//! Number of threads of each stage of a run on the CPU, from a few timed batches per stage.

use std::slice;

use uva_options::OptionError;
use uva_plan::{OfStages, StageFit, TimedThreads, divide_cores};
use uva_runtime::options::part::Part;
use uva_runtime::options::{MAX_SAMPLERS, Prepare};
use uva_runtime::plan::RunPlan;
use uva_runtime::sampler::cache::CacheContents;
use uva_runtime::telemetry::metrics::Observer;
use uva_runtime::{Aggregation, LoaderOptions, LookAhead, Passes, RuntimeError, machine};

use super::chosen_cores::{ChosenCores, cores_of_stages};
use super::data::model_data;
use super::job::{Job, StagesToTime};
use super::run::TrainingRun;
use super::trainer_program::{TrainerProgram, TrainingHost};
use super::trial::NotesOnly;
use crate::launcher::{Launch, Launcher};

/// Number of timed training batches: enough for a median, and few compared with an epoch.
const BATCHES: u64 = 6;

impl TrainingRun {
    /// Times the stages of this run by a trial of a few batches, and divides the CPU cores that it may use. Threads in
    /// `given` are fixed, and so are those of training for a run that resumes from a checkpoint.
    ///
    /// # Errors
    /// A run with a GPU, in this process, or with workers, which has no such stages or no trial. Errors of the trial.
    pub fn choose_cores(
        &self,
        given: OfStages<Option<usize>>,
        observer: &mut dyn Observer,
    ) -> Result<ChosenCores, RuntimeError> {
        let program = self.check_cores(given)?;
        let (plan, training) = (&self.draft.plan, &self.training);
        let cores = machine::share_of_cores(1);
        let mut threads = vec![1, cores.div_ceil(2), cores];
        threads.dedup();
        let of = plan.schedule.train_batches().div_ceil(BATCHES).max(1);
        let trial = LoaderOptions {
            // A part of an epoch with at most this many batches. Each has a slot, so all of them are waiting at the
            // end.
            part: Part { index: 0, of: u32::try_from(of).unwrap_or(u32::MAX) },
            feature_slots: BATCHES as usize,
            batch_slots: None,
            look_ahead: LookAhead::Auto,
            samplers: 1,
            gather_threads: 1,
            ..plan.options.clone()
        };
        let passes = Passes { epochs: 1, ..Passes::default() };
        let trial = RunPlan::new(&self.draft.dataset, &trial, passes)?.on(training.decision.backend.clone());
        let job = StagesToTime { training: training.options.clone(), loader: plan.options.clone(), threads };
        let launch = Launch {
            dataset: self.draft.dataset.path(),
            plans: slice::from_ref(&trial),
            sampler_backends: &[],
            caches: &[CacheContents::default()],
            consumer: program.consumer(&Job::Times(Box::new(job)))?,
            environments: training.environments(program),
        };
        let libtorch = program.libtorch.clone().into_iter().collect();
        let mut launcher = Launcher::begin(self.draft.dataset.path(), None)?.with_libtorch(libtorch);
        let outcome = launcher.run_once(launch, &mut NotesOnly(observer))?;
        let timed: OfStages<Vec<TimedThreads>> = serde_json::from_value(outcome.done)
            .map_err(|error| RuntimeError::failed(format!("the trial's result cannot be read: {error}")))?;
        let lines = OfStages {
            sampling: StageFit::fit(&timed.sampling),
            gathering: StageFit::fit(&timed.gathering),
            training: StageFit::fit(&timed.training),
        };
        let usual = OfStages {
            sampling: plan.options.samplers,
            gathering: plan.options.gather_threads,
            training: training.options.threads.unwrap_or(1),
        };
        let given = match training.options.resume {
            true => OfStages { training: Some(usual.training), ..given },
            false => given,
        };
        let division = divide_cores(cores, &lines, given, usual, MAX_SAMPLERS);
        // Without the mask the stages only share the cores.
        let allowed = machine::allowed_cores().unwrap_or_default();
        let kept_on = cores_of_stages(&division, cores, &allowed);
        let chosen = ChosenCores { cores, division, kept_on, lines, timed };
        observer.note(&chosen.line());
        Ok(chosen)
    }

    /// Checks that the stages of this run can be timed, and returns the program for it.
    ///
    /// # Errors
    /// See [`choose_cores`](Self::choose_cores), except for errors of the trial.
    pub fn check_cores(&self, given: OfStages<Option<usize>>) -> Result<&TrainerProgram, RuntimeError> {
        let (options, training) = (&self.draft.plan.options, &self.training);
        let refused = |reason: &str| Err(OptionError::new("cores", "auto", reason).into());
        if training.decision.backend.cuda().is_some() {
            return refused(
                "this run trains on a GPU, and the CPU only samples: give `samplers`, or use `device=cpu`",
            );
        }
        if let Some(reason) = model_data(&self.draft.dataset).refuses_timing() {
            return refused(reason);
        }
        if options.prepare == Prepare::Whole {
            return refused(
                "workers make whole batches, each on a core: omit `prepare=whole`, or give `samplers`",
            );
        }
        if options.made_order.is_some() {
            return refused(
                "the stages are timed on shuffled batches, which have more rows than those of a `seed_order`: give the \
                 numbers of threads",
            );
        }
        if options.aggregation != Aggregation::None && options.sums_chosen_for.is_none() {
            return refused(
                "aggregation in the producer is not timed: omit `aggregate`, or give the numbers of threads",
            );
        }
        let needs_samplers = options.batch_slots.is_some() || options.look_ahead != LookAhead::Auto;
        if needs_samplers && given.sampling.is_none() {
            return refused(
                "`batch_slots` and `look_ahead` depend on the number of samplers: also give `samplers`",
            );
        }
        match &training.trainer {
            TrainingHost::Program(program) => Ok(program),
            TrainingHost::Here(_) => refused(
                "requires a trial run in processes: omit `in_process`, or give the numbers of threads",
            ),
        }
    }
}
