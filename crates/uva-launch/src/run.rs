//! A run whose batches go to a command of the user's: `uvatrain run DATA … -- COMMAND`.
//!
//! The command decides while it runs which batches come when ([`crate::launcher::attach`]). So the run has no end of
//! its own: it ends with the command.

use serde_json::{Value, json};
use uva_graph::Dataset;

use crate::launcher::{Consumer, Environments, Launch, Launcher, Outcome, UserCommand, without_mps};
use crate::preparation::{Draft, Prepared};
use uva_runtime::backend::{self, BackendOptions, Decision, Probe};
use uva_runtime::consumer::steered;
use uva_runtime::control::Tally;
use uva_runtime::dry_run::DryRun;
use uva_runtime::metrics::{End, Event, Observer};
use uva_runtime::plan::RunPlan;
use uva_runtime::planning::CacheRequest;
use uva_runtime::topology::Placement;
use uva_runtime::{AggregateTotals, Aggregation, DiskTotals, LoaderOptions, RuntimeError};

/// A run that is ready to start: its options fit each other and its dataset, and its command can be started.
#[derive(Debug)]
pub struct CommandRun {
    draft: Draft,
    decision: Decision,
    command: UserCommand,
}

impl CommandRun {
    /// Checks and plans a run. Writes nothing.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] and [`RuntimeError::Input`], naming the option or file. [`RuntimeError::Missing`] for a
    /// GPU that was requested and is not available.
    pub fn new(
        dataset: Dataset,
        loader: &LoaderOptions,
        backend: &BackendOptions,
        caches: Option<CacheRequest>,
        command: UserCommand,
    ) -> Result<Self, RuntimeError> {
        let plan = RunPlan::new(&dataset, loader, steered())?;
        // The command trains, so it does not matter whether this build's libtorch can use the GPU.
        let decision = backend::decide(backend, false, || Probe::in_child(&without_mps(), true))?;
        let draft = Draft::new(dataset, plan, &decision.backend, caches)?;
        Ok(Self { draft, decision, command })
    }

    /// What the run would start and use.
    #[must_use]
    pub fn dry_run(&self) -> DryRun {
        // A refusal of stored choices shows when the run starts.
        let settled = self.draft.settle_by_stored(self.decision.clone());
        let backend = settled.map_or_else(|_| self.decision.backend.clone(), |settled| settled.backend);
        self.draft.dry_run(&backend, Placement::Processes, Vec::new())
    }

    /// Runs until the command ends. The metrics' first line shows `options` unchanged. `events`: report each training
    /// batch to the observer.
    ///
    /// # Errors
    /// Any failure or interrupt that ended it early, including a failure of the command; see [`crate::launcher`].
    pub fn run(self, options: Value, events: bool, observer: &mut dyn Observer) -> Result<End, RuntimeError> {
        let Self { draft, decision, command } = self;
        let mut launcher = Launcher::begin(draft.dataset.path(), None)?;
        let decision = draft.settle(decision, Some(&mut launcher), observer)?;
        let backend = launcher.divide(decision, observer)?;
        let no_trial = &mut |_: &_, _: &_, _: Option<&mut _>, _: &mut dyn Observer| Err(no_trial());
        let prepared = draft.prepare(backend, Some(&mut launcher), no_trial, observer)?;
        let mut more = vec![("command", json!(command.words()))];
        let sums = prepared.plan.options.aggregation;
        if sums != Aggregation::None {
            let way = prepared.plan.sums_made().way();
            more.push(("aggregate", json!({ "way": way, "sums": sums.name(), "reason": "asked for" })));
        }
        prepared.log_start("processes");
        observer.event(&prepared.start_event(options, "processes", &more))?;
        observer.note(&prepared.opened());
        prepared.choices().iter().for_each(|line| observer.note(line));
        if let Some(cuda) = prepared.plan.backend.cuda() {
            observer.note(&format!("batches on cuda:{}, {}", cuda.ordinal, cuda.partition));
        }
        let launch = Launch {
            dataset: prepared.dataset.path(),
            plan: &prepared.plan,
            caches: &prepared.contents,
            consumer: Consumer::Command { command, events },
            environments: Environments::default(),
        };
        let end = end(&prepared, launcher.run(launch, observer)?);
        prepared.log_end(&end);
        observer.event(&Event::End(Box::new(end.clone())))?;
        Ok(end)
    }
}

fn end(prepared: &Prepared, outcome: Outcome) -> End {
    let Outcome { roles, seconds, tally, memory, disk, .. } = outcome;
    let Tally { batches, epochs, nanoseconds, cache, unpadded, oversized, aggregate } = tally;
    let training_seconds = nanoseconds as f64 * 1e-9;
    let (batches_per_second, bottleneck) = End::speed(batches, training_seconds, &roles);
    End {
        test_accuracy: None,
        test_roc_auc: None,
        test_mse: None,
        test_mae: None,
        best_valid_mse: None,
        best_valid_mae: None,
        best_valid_accuracy: None,
        best_valid_roc_auc: None,
        test_epoch: None,
        best_valid_epoch: None,
        stopped_early: false,
        bottleneck,
        epochs: u32::try_from(epochs).unwrap_or(u32::MAX),
        seconds,
        batches,
        training_seconds,
        batches_per_second,
        unpadded: prepared.plan.options.shapes.as_ref().map(|_| unpadded),
        oversized: prepared.plan.options.slot_room.map(|_| oversized),
        roles,
        memory,
        cache: prepared.cache_outcome(&cache),
        disk: disk.map(|counts| DiskTotals::new(counts, seconds)),
        aggregate: AggregateTotals::new(
            &prepared.plan.layout,
            prepared.plan.sums_made(),
            batches,
            batches,
            aggregate,
        ),
    }
}

/// Only a trained batch shows how much memory it leaves, and only the command knows how to train.
fn no_trial() -> RuntimeError {
    RuntimeError::option(
        "gpu_cache",
        "auto",
        "what the command leaves of the GPU's memory cannot be tried out beforehand; give a size, such as \
         `gpu_cache=2GiB`",
    )
}
