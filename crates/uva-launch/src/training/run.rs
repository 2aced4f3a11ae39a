//! A whole training run: checks everything before the start, then starts the roles, and summarises at the end.

use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use uva_graph::{Dataset, Split};
use uva_model::Metric;
use uva_options::OptionError;
use uva_plan::OfStages;

use super::aggregate::AggregateVerdict;
use super::arithmetic::arithmetic;
use super::chosen_cores::{ChosenCores, check_core_sets};
use super::data::{class_weights, feature_element, labelled, model_data, preflight, task};
use super::job::{EvaluateBy, Job, LossChoice, MetricChoice, TrainingOptions, to_value};
use super::relation_training::on_cpu;
use super::state::{self, TrainingOutcome};
use super::trainer_program::{TrainerProgram, TrainingHost};
use super::{existing, trial};
use crate::checkpoint_files::CheckpointDirectory;
use crate::launcher::{Consume, Environments, Launch, Launcher, Outcome};
use crate::mps;
use crate::preparation::{Draft, PreparedRun};
use uva_runtime::backend::{self, Backend, BackendDecision, BackendOptions};
use uva_runtime::control::{Control, Stop};
use uva_runtime::machine::cores::Cores;
use uva_runtime::machine::memory::{MemoryKind, MemoryLine, ProcessMemory, program};
use uva_runtime::pipeline::dry_run::DryRun;
use uva_runtime::plan::topology::Placement;
use uva_runtime::plan::{RunPlan, evaluating};
use uva_runtime::telemetry::metrics::{End, Event, Observer, Roles};
use uva_runtime::tune::planning::CacheRequest;
use uva_runtime::{
    AggregateTotals, DiskCounts, DiskTotals, FeatureType, LoaderOptions, Passes, RowTree, Runtime,
    RuntimeError, machine,
};

/// glibc serves a consumer's allocations up to this many bytes from its heap, and keeps up to `KEPT_MEMORY` freed bytes
/// at the heap's end. This avoids returning them to the kernel and faulting in fresh pages for the next batch. Larger
/// allocations, such as the tables of a full-neighbourhood evaluation, are returned.
///
/// GraphSAGE, hidden 128, fanouts 10,10, batches of 1000 (tensors of 4 to 30 MB), one core, an epoch of 50 batches:
/// page faults fall from 250,000 to 45,000, and the kernel's time from 0.35 to 0.09 s. With additional pages of 2 MiB
/// (`THP_MEM_ALLOC_ENABLE=1`, `glibc.malloc.hugetlb=1`) faults fall to 9,700, but clearing those pages takes 0.28 s.
const KEPT_ALLOCATION: usize = 1 << 30;
const KEPT_MEMORY: usize = 2 << 30;

/// A training run that is ready to start: its options fit each other, its dataset and its checkpoint.
#[derive(Debug)]
pub struct TrainingRun {
    pub(super) draft: Draft,
    pub(super) training: TrainingSetup,
}

/// The model, the place and the program of a run's training.
#[derive(Debug)]
pub(super) struct TrainingSetup {
    pub(super) options: TrainingOptions,
    pub(super) decision: BackendDecision,
    aggregate: AggregateVerdict,
    pub(super) trainer: TrainingHost,
    /// The division of cores, if a trial has determined it.
    cores: Option<ChosenCores>,
    /// The directory of `options.checkpoint`, claimed by this run.
    checkpoint: Option<CheckpointDirectory>,
    /// Notes on the options, reported before the run starts.
    notes: Vec<String>,
}

impl TrainingRun {
    /// Checks and plans a run. Claims the checkpoint directory, and creates it if it is missing; writes no other files.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] and [`RuntimeError::Input`], naming the option or file: every check before the first
    /// batch. [`RuntimeError::Missing`] for a GPU that was requested and is not available.
    pub fn new(
        dataset: Dataset,
        loader: &LoaderOptions,
        mut options: TrainingOptions,
        backend: &BackendOptions,
        caches: Option<CacheRequest>,
        trainer: TrainingHost,
    ) -> Result<Self, RuntimeError> {
        let mut loader = loader.clone();
        let asked_gather = backend.gather;
        let data = model_data(&dataset);
        let cached_on_gpu = caches.as_ref().is_some_and(|asked| !asked.is_before_disk());
        let backend = &data.check(&mut options, &mut loader, backend, cached_on_gpu)?;
        // Before the fingerprint, which contains the content of an order's file.
        let loader = &loader.with_order(&dataset)?;
        let task = task(&dataset, options.metric.0, options.loss.0)?;
        labelled::check_training(&dataset)?;
        class_weights(&dataset, options.class_weights.as_ref())?;
        let metric_is_given = options.metric.0.is_some();
        let note = labelled::check_validation(&dataset, task.metric, metric_is_given, options.patience)?;
        (options.metric, options.loss) =
            (MetricChoice(Some(task.metric)), LossChoice(task.kind.regression()));
        (options.blocks, options.seed) = (loader.fanouts.hops(), loader.seed);
        let of_relations = options.see_relations(&dataset, task.outputs)?;
        let edge_attr = loader.edge_attr || options.model.row().needs_edge_features();
        options.edge_dim = match dataset.edge_features() {
            Some(table) if edge_attr => table.dim,
            None if options.model.row().needs_edge_features() => {
                let reason = "requires edge features, but the dataset has no edge_feat.npy \
                              (docs/reference/data-format.md)";
                return Err(OptionError::new("model", options.model.name(), reason).into());
            }
            _ => 0,
        };
        options.fingerprint = fingerprint(&dataset, loader, &options)?;
        // Before the state is read: otherwise another run could still change it.
        let checkpoint = options.checkpoint.as_deref().map(CheckpointDirectory::claim).transpose()?;
        if let Some(directory) = options.checkpoint.as_deref()
            && !options.resume
            && !options.overwrite_checkpoint
        {
            existing::refuse(directory)?;
        }
        let saved = state::saved_state(&options)?;
        let before = saved.as_ref().map(|saved| saved.state.train_threads);
        let notes = settle_threads(&mut options, before);
        let mut notes: Vec<String> = notes.into_iter().chain(note).chain(of_relations).collect();
        let sampled = options.evaluate_by == EvaluateBy::Sampled;
        let passes = Passes {
            epochs: options.epochs,
            validate: sampled,
            test: sampled,
            start: saved.as_ref().map(|saved| saved.state.cursor).unwrap_or_default(),
            steered: false,
        };
        let asked = loader.feature_type;
        let mut loader = LoaderOptions {
            degrees: options.model.row().needs_degrees(),
            edge_attr,
            feature_type: FeatureType::Table,
            ..loader.clone()
        };
        let mut plan = RunPlan::new(&dataset, &loader, passes)?;
        if let Some(saved) = &saved {
            saved.check(plan.schedule.all_batches(Split::Train))?;
        }
        // Estimated only once.
        loader.shapes = plan.options.shapes.clone();
        let mut decision = backend::decide(backend, trainer.is_here(), || trainer.probe())?;
        if decision.backend.cuda().is_some()
            && let Some(on_cpu) = on_cpu(options.model, backend)?
        {
            notes.push(format!(
                "`model={}` trains on the CPU: kernels for it do not exist yet",
                options.model.name()
            ));
            decision = backend::decide(&on_cpu, trainer.is_here(), || trainer.probe())?;
        }
        options.check_matmul_precision(&decision.backend)?;
        check_core_sets(&options, &decision.backend, plan.options.prepare, &trainer)?;
        preflight::check(&dataset, &options, plan.largest_batch(&dataset), &decision.backend)?;
        // The role that widens is known only now: the model widens what the producer does not.
        loader.feature_type = asked.for_models(feature_element(&dataset), decision.backend.cuda().is_some());
        let aggregate = data.aggregate(&options, &decision.backend, &plan, task.outputs)?;
        (loader.aggregation, loader.sums_chosen_for) = (aggregate.aggregation, aggregate.chosen_for);
        loader.gathers_before_sums = aggregate.gathers_before_sums();
        let on_gpu = decision.backend.cuda().is_some();
        let loader = data.loader_for(loader, on_gpu, asked_gather)?;
        let place_is_open = data.place_is_open(on_gpu, asked_gather);
        drop(data);
        let planned = &plan.options;
        if (loader.feature_type, loader.aggregation, loader.prepare)
            != (planned.feature_type, planned.aggregation, planned.prepare)
        {
            plan = RunPlan::new(&dataset, &loader, passes)?;
        }
        let plan = plan.checkpointed(options.checkpoint.is_some());
        let draft = Draft::new(dataset, plan, &decision.backend, caches)?;
        let draft = draft.place_is_open(place_is_open);
        let training =
            TrainingSetup { options, decision, aggregate, trainer, cores: None, checkpoint, notes };
        Ok(Self { draft, training })
    }

    /// Sets the threads of this run to those of a trial, which the metrics' first line then shows.
    #[must_use]
    pub fn with_cores(mut self, chosen: ChosenCores) -> Self {
        self.training.cores = Some(chosen);
        self
    }

    /// Whether a GPU trains.
    pub fn is_on_gpu(&self) -> bool {
        self.training.decision.backend.cuda().is_some()
    }

    /// Threads of the model's arithmetic on the CPU; `None` if a GPU trains, or libtorch chooses.
    pub fn cpu_threads(&self) -> Option<usize> {
        let TrainingSetup { options, decision, .. } = &self.training;
        options.threads.filter(|_| decision.backend.cuda().is_none())
    }

    /// Environment variables that a consumer's process needs. For training in process, this process needs them before
    /// it loads libtorch.
    pub fn environment(&self) -> Vec<(String, String)> {
        self.training.environment()
    }

    /// The processes and memory of the run. The model's share is a lower bound, which excludes memory that depends on a
    /// batch's neighbours.
    #[must_use]
    pub fn dry_run(&self) -> DryRun {
        let TrainingSetup { options, decision, trainer, .. } = &self.training;
        let placement = if trainer.is_here() { Placement::Threads } else { Placement::Processes };
        let Draft { dataset, plan, .. } = &self.draft;
        let footprint = preflight::footprint(dataset, options, plan.largest_batch(dataset));
        let line = MemoryLine::new;
        let libtorch = [
            line("libtorch", MemoryKind::Host, program::LIBTORCH_OWN),
            MemoryLine::once("libtorch", MemoryKind::Mapped, program::LIBTORCH_CODE),
        ];
        let model = match decision.backend.cuda() {
            Some(_) => vec![
                line("model, at least", MemoryKind::Device, footprint.training_bytes),
                line("evaluation of the model", MemoryKind::Host, footprint.beside_a_gpu()),
            ],
            None => vec![
                line("model, at least", MemoryKind::Host, footprint.on_host() - footprint.embedding_bytes),
                line("trained rows of node types", MemoryKind::Host, footprint.embedding_bytes),
            ],
        };
        let more = libtorch.into_iter().chain(model).filter(|line| line.bytes > 0).collect();
        // Invalid stored choices are reported when the run starts.
        let settled = self.draft.settle_by_stored(decision.clone());
        let backend = settled.map_or_else(|_| decision.backend.clone(), |settled| settled.backend);
        let mut dry = self.draft.dry_run(&backend, placement, more);
        if options.cores == Some(Cores::Auto) {
            dry.decided_at_start
                .push("samplers, gather threads and training threads: a trial times the stages".to_owned());
        }
        dry
    }

    /// Runs to the end. The metrics' first line shows `options` unchanged.
    ///
    /// # Errors
    /// Any failure or interrupt that ended it early; see [`crate::launcher`].
    pub fn run(self, options: Value, observer: &mut dyn Observer) -> Result<End, RuntimeError> {
        let Self { draft, training } = self;
        let decision = training.decision.clone();
        let (prepared, outcome, told) = match training.trainer.clone() {
            TrainingHost::Here(consume) => {
                decision.notes.iter().for_each(|note| observer.note(note));
                let decision = draft.settle(decision, None, observer)?;
                let prepared = training.prepare(draft, decision.backend, None, observer)?;
                training.tell_the_start(&prepared, options, observer)?;
                let (outcome, told) = training.in_this_process(&prepared, consume, observer)?;
                (prepared, outcome, told)
            }
            TrainingHost::Program(program) => {
                let checkpoint = training.checkpoint.as_ref().map(CheckpointDirectory::share).transpose()?;
                let libtorch = program.libtorch.clone().into_iter().collect();
                let launcher = Launcher::begin(draft.dataset.path(), checkpoint)?;
                let mut launcher = launcher.with_libtorch(libtorch);
                let decision = draft.settle(decision, Some(&mut launcher), observer)?;
                let backend = launcher.divide(decision, observer)?;
                let prepared = training.prepare(draft, backend, Some((&mut launcher, &program)), observer)?;
                training.tell_the_start(&prepared, options, observer)?;
                let (outcome, told) = training.in_processes(&prepared, launcher, &program, observer)?;
                (prepared, outcome, told)
            }
        };
        let end = training.end(&prepared, outcome, told);
        prepared.log_end(&end);
        observer.event(&Event::End(Box::new(end.clone())))?;
        Ok(end)
    }
}

impl TrainingSetup {
    /// Environment variables that a consumer's process needs. For training in process, this process needs them before
    /// it loads libtorch. Without them the order of MKL's sums may differ between runs, and glibc gives every large
    /// tensor pages that the kernel has to clear first.
    pub fn environment(&self) -> Vec<(String, String)> {
        let mut environment = arithmetic(self.options.threads, KEPT_ALLOCATION, KEPT_MEMORY);
        // A daemon at the default place would otherwise make this process its client.
        if self.trainer.is_here() && self.decision.backend.cuda().is_some() {
            environment.extend(mps::environment_without());
        }
        environment
    }

    fn end(&self, prepared: &PreparedRun, outcome: TrainingOutcome, told: RunReport) -> End {
        let RunReport { roles, memory, disk, seconds } = told;
        let cache = outcome.cache.and_then(|totals| prepared.cache_outcome(&totals));
        let aggregate = AggregateTotals::new(
            &prepared.plan.layout,
            RowTree::of(&prepared.plan).sums(),
            outcome.batches,
            outcome.summed_batches,
            outcome.aggregate,
        );
        let tested = [outcome.test_accuracy, outcome.test_roc_auc, outcome.test_mse];
        let tested = tested.iter().any(Option::is_some);
        let best_by =
            |metric| outcome.best.filter(|_| self.options.metric.0 == Some(metric)).map(|best| best.value);
        let training_seconds = outcome.training_seconds;
        let (batches_per_second, bottleneck) = End::speed(outcome.batches, training_seconds, &roles);
        End {
            test_accuracy: outcome.test_accuracy,
            test_roc_auc: outcome.test_roc_auc,
            test_mse: outcome.test_mse,
            test_mae: outcome.test_mae,
            best_valid_mse: best_by(Metric::Mse),
            best_valid_mae: best_by(Metric::Mae),
            best_valid_accuracy: best_by(Metric::Accuracy),
            best_valid_roc_auc: best_by(Metric::RocAuc),
            test_epoch: outcome.test_epoch.filter(|_| tested),
            best_valid_epoch: outcome.best.map(|best| best.epoch),
            stopped_early: outcome.stopped_early,
            bottleneck,
            epochs: outcome.epochs,
            seconds,
            batches: outcome.batches,
            training_seconds,
            batches_per_second,
            unpadded: prepared.plan.options.shapes.as_ref().map(|_| outcome.unpadded),
            oversized: prepared.plan.options.slot_room.map(|_| outcome.oversized),
            roles,
            memory,
            cache,
            disk: disk.map(|counts| DiskTotals::new(counts, seconds)),
            aggregate,
        }
    }

    fn prepare(
        &self,
        draft: Draft,
        backend: Backend,
        processes: Option<(&mut Launcher, &TrainerProgram)>,
        observer: &mut dyn Observer,
    ) -> Result<PreparedRun, RuntimeError> {
        let (launcher, program) = processes.unzip();
        let environments = program.map(|program| self.environments(program)).unwrap_or_default();
        let mut bytes_left =
            |dataset: &_, plan: &_, launcher: Option<&mut _>, observer: &mut dyn Observer| {
                let trial = launcher.zip(program);
                trial::bytes_left(dataset, plan, &self.options, environments.clone(), trial, observer)
            };
        draft.prepare(backend, launcher, &mut bytes_left, observer)
    }

    fn tell_the_start(
        &self,
        prepared: &PreparedRun,
        options: Value,
        observer: &mut dyn Observer,
    ) -> Result<(), RuntimeError> {
        let roles = if self.trainer.is_here() { "threads" } else { "processes" };
        let more = [
            ("train_threads", json!(self.options.threads)),
            ("metric", json!(self.options.metric.0.map(Metric::name))),
            ("aggregate", self.aggregate.in_force(&prepared.plan)),
            ("cores", json!(self.cores)),
        ];
        prepared.log_start(roles);
        observer.event(&prepared.start_event(options, roles, &more))?;
        observer.note(&prepared.opened());
        prepared.choices().iter().for_each(|line| observer.note(line));
        self.notes.iter().for_each(|note| observer.note(note));
        if let Some(cuda) = prepared.plan.backend.cuda() {
            observer.note(&format!("training on cuda:{}, {}", cuda.ordinal, cuda.partition));
        }
        Ok(())
    }

    /// The environment of the roles' processes. All may search for NVRTC in the directory of the libtorch that trains.
    pub(super) fn environments(&self, program: &TrainerProgram) -> Environments {
        let own = self.environment().into_iter().map(|(name, value)| (name, Some(value)));
        let libtorch = program.libtorch.clone().into_iter().collect::<Vec<_>>();
        Environments {
            consumer: own.chain(program.variables()).collect(),
            producer: libtorch.clone(),
            sampler: libtorch,
            cores: self.core_sets(),
        }
    }

    /// The CPU cores of each stage, as requested or from a trial; `None` if all stages share all cores.
    fn core_sets(&self) -> Option<OfStages<Vec<usize>>> {
        match (&self.cores, &self.options.cores) {
            (Some(chosen), _) => chosen.kept_on.clone(),
            (None, Some(Cores::Divided(sets))) => Some(sets.clone()),
            (None, _) => None,
        }
    }

    fn in_processes(
        &self,
        prepared: &PreparedRun,
        launcher: Launcher,
        program: &TrainerProgram,
        observer: &mut dyn Observer,
    ) -> Result<(TrainingOutcome, RunReport), RuntimeError> {
        let launch = Launch {
            dataset: prepared.dataset.path(),
            plans: slice::from_ref(&prepared.plan),
            sampler_backends: &[],
            caches: slice::from_ref(&prepared.contents),
            consumer: program.consumer(&Job::Train(self.options.clone()))?,
            environments: self.environments(program),
        };
        let outcome = launcher.run(launch, observer)?;
        let Outcome { done, roles, memory, disk, seconds, .. } = outcome;
        Ok((outcome_of(done)?, RunReport { roles, memory, disk, seconds }))
    }

    fn in_this_process(
        &self,
        prepared: &PreparedRun,
        consume: Consume,
        observer: &mut dyn Observer,
    ) -> Result<(TrainingOutcome, RunReport), RuntimeError> {
        let job = to_value(&Job::Train(self.options.clone()))?;
        let started = Instant::now();
        let PreparedRun { dataset, plan, contents, .. } = prepared;
        let mut runtime = Runtime::start_with(Arc::clone(dataset), plan.clone(), contents.clone())?;
        if let Some(gauges) = runtime.gauges() {
            observer.begun(gauges);
        }
        runtime.fall_back().map_or(Ok(()), |event| observer.event(&event))?;
        let (receiver, dataset, control) = runtime.parts();
        let signals = SignalThread::start(Arc::clone(control))?;
        let trained = consume(receiver, dataset, job, observer);
        let memory = runtime.memory();
        // A role that failed has more information on the failure than the consumer that noticed it.
        let stopped = runtime.stop();
        let outcome = match (trained, stopped, signals.arrived()) {
            (Err(RuntimeError::PeerGone(_)), Err(cause), _) => return Err(cause),
            // As with processes: a failure, for example of the interrupt's checkpoint, is reported anyway.
            (Err(error), ..) if !matches!(error, RuntimeError::PeerGone(_)) => {
                return Err(within_evaluation(error, runtime.parts().2));
            }
            (_, _, Some(signal)) => return Err(RuntimeError::Interrupted(signal)),
            (trained, ..) => outcome_of(trained?)?,
        };
        let (roles, disk, seconds) = (runtime.roles(), runtime.disk_reads(), started.elapsed().as_secs_f64());
        Ok((outcome, RunReport { roles, memory, disk, seconds }))
    }
}

/// Parses the consumer's result.
fn outcome_of(done: Value) -> Result<TrainingOutcome, RuntimeError> {
    serde_json::from_value(done)
        .map_err(|error| RuntimeError::failed(format!("the consumer's result cannot be read: {error}")))
}

/// An error of a consumer in this process, with the place of failure that the launcher would add for a process.
fn within_evaluation(error: RuntimeError, control: &Control) -> RuntimeError {
    let evaluation = control.evaluation().and_then(|(split, epoch)| evaluating(split, epoch));
    match evaluation {
        Some(place) => error.of_role(&format!("the consumer failed {place}")),
        None => error,
    }
}

/// A run's report in addition to the training.
struct RunReport {
    roles: Roles,
    memory: Vec<ProcessMemory>,
    disk: Option<DiskCounts>,
    seconds: f64,
}

/// The environment variables that training with these options will need in this process, as far as they are known
/// before the run is planned. [`TrainingRun::environment`] has all of them; a process that already has them need not
/// start itself again.
#[must_use]
pub fn likely_environment(options: &TrainingOptions) -> Vec<(String, String)> {
    // The checkpoint may have been trained with another number of threads.
    if options.resume && options.threads.is_none() {
        return Vec::new();
    }
    let threads = options.threads.unwrap_or_else(|| usual_threads(options));
    arithmetic(Some(threads), KEPT_ALLOCATION, KEPT_MEMORY)
}

/// The default number of training threads: one for each core of the stage, or for half the cores.
fn usual_threads(options: &TrainingOptions) -> usize {
    match &options.cores {
        Some(Cores::Divided(sets)) => sets.training.len(),
        _ => machine::share_of_cores(2),
    }
}

/// Settles the number of training threads: the requested one, otherwise `before`, the number of the resumed run,
/// otherwise the default. Returns a note if the number may be unexpected.
fn settle_threads(options: &mut TrainingOptions, before: Option<usize>) -> Option<String> {
    let (asked, usual) = (options.threads, usual_threads(options));
    options.threads = asked.or(before).or(Some(usual));
    match (asked, before) {
        (Some(asked), Some(before)) if asked != before => Some(format!(
            "`train_threads={asked}`, {before} before the resume: losses may differ in their last bits from those of a run \
             that never stopped"
        )),
        (None, Some(before)) if usual != before => Some(format!(
            "`train_threads={before}`, as before the resume: bit-identical losses require the same number"
        )),
        _ => None,
    }
}

/// The values that must be equal for a run to resume from a checkpoint: everything that a batch or a loss depends on.
fn fingerprint(
    dataset: &Dataset,
    loader: &LoaderOptions,
    options: &TrainingOptions,
) -> Result<Value, RuntimeError> {
    let mut fingerprint = loader.fingerprint();
    fingerprint.insert("dataset".to_owned(), dataset.fingerprint().into());
    options.add_to_fingerprint(&mut fingerprint)?;
    Ok(fingerprint.into())
}

/// Listens for SIGINT and SIGTERM while the roles are threads. The first requests the run to end soon, the second ends
/// the process.
struct SignalThread {
    arrived: Arc<AtomicI32>,
    handle: signal_hook::iterator::Handle,
}

impl SignalThread {
    fn start(control: Arc<Control>) -> Result<Self, RuntimeError> {
        let failed = |error: std::io::Error| {
            RuntimeError::failed(format!("cannot listen for SIGINT and SIGTERM: {error}"))
        };
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
        let handle = signals.handle();
        let arrived = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&arrived);
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for signal in signals.forever() {
                    // Relaxed: the number stands alone; it is read after the run has ended.
                    if seen.swap(signal, Ordering::Relaxed) != 0 {
                        std::process::exit(128 + signal);
                    }
                    control.set_stop(Stop::Soon);
                }
            })
            .map_err(|error| machine::not_started("the thread that listens for signals", &error))?;
        Ok(Self { arrived, handle })
    }

    fn arrived(&self) -> Option<i32> {
        // Relaxed: see the swap above.
        match self.arrived.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal),
        }
    }
}

impl Drop for SignalThread {
    fn drop(&mut self) {
        self.handle.close();
    }
}
