//! A run whose batches go to a user's command: `uvatrain run DATA … -- COMMAND`.
//!
//! The command requests batches in an order that it determines at run time ([`crate::launcher::attach`]), so the run
//! ends with the command.

use serde_json::{Value, json};
use uva_graph::reorder::ReorderedLayout;
use uva_graph::{Dataset, Split};

use crate::launcher::{Consumer, Environments, Launch, Launcher, Outcome, UserCommand};
use crate::places::GpuList;
use crate::preparation::{Draft, PreparedRun};
use crate::ranks::{RankRequest, Ranks};
use uva_runtime::backend::{BackendOptions, SamplerChoice};
use uva_runtime::control::ConsumerTally;
use uva_runtime::machine::memory::{MemoryKind, MemoryLine};
use uva_runtime::options::part::{Part, Standby};
use uva_runtime::pipeline::consumer::steered;
use uva_runtime::pipeline::dry_run::{DryRun, PlacedRanks};
use uva_runtime::plan::RunPlan;
use uva_runtime::plan::topology::Placement;
use uva_runtime::telemetry::metrics::{End, Event, Observer};
use uva_runtime::tune::planning::CacheRequest;
use uva_runtime::{AggregateTotals, DiskTotals, LoaderOptions, RowTree, RuntimeError, gather_by_cpu};

/// A run that is ready to start: its options fit each other and its dataset, and its command can be started.
#[derive(Debug)]
pub struct CommandRun {
    draft: Draft,
    command: UserCommand,
    ranks: Ranks,
}

impl CommandRun {
    /// Checks and plans a run, and assigns its `ranks`. Writes no files.
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
        ranks: &RankRequest,
    ) -> Result<Self, RuntimeError> {
        if let Some(option) = ranks.sampler_option() {
            loader.check_shared_samplers(&dataset, option)?;
        }
        let cached_on_gpu = caches.as_ref().is_some_and(|asked| !asked.is_before_disk());
        let (backend, note) = loader.backend_of(&dataset, backend)?;
        let backend = &gather_by_cpu(&backend, loader, &dataset, cached_on_gpu);
        let mut ranks = ranks.place_here(backend)?;
        ranks.decision.notes.extend(note.filter(|_| ranks.decision.backend.cuda().is_some()));
        let loader = LoaderOptions {
            part: Part { index: 0, of: ranks.count.unwrap_or(1) },
            samplers: ranks.shared_samplers.unwrap_or(loader.samplers),
            shared_samplers: ranks.shared_samplers.is_some(),
            standby: ranks.standby,
            ..loader.clone()
        };
        let plan = RunPlan::new(&dataset, &loader, steered())?;
        let Standby { ranks: standing_by, from } = ranks.standby;
        let last = loader.part.of - 1;
        if standing_by > 0 && plan.of_rank(&dataset, last).schedule.train_batches() == 0 {
            return Err(RuntimeError::usage(format!(
                "an epoch has {} batches: from that batch on, no step has a batch for each of {} ranks",
                plan.schedule.all_batches(Split::Train),
                loader.part.of
            ))
            .with_option("switch", from)
            .with_remedy("give a smaller number, or omit the option"));
        }
        let (batches, trainers) = (plan.schedule.all_batches(Split::Train), plan.schedule.trainers());
        if (1..trainers).contains(&batches) {
            return Err(RuntimeError::usage(format!(
                "an epoch has {batches} batches, fewer than the {trainers} ranks that train: use a smaller batch size, or fewer \
                 ranks"
            ))
            .with_option("batch_size", loader.batch_size));
        }
        let in_host_memory = ranks.decision.backend.device_slots().is_none();
        if let (Some(count @ 2..), Some(_), true) = (ranks.count, &caches, in_host_memory) {
            return Err(RuntimeError::usage(format!(
                "`gpu_cache` is not supported with {count} ranks whose batches are in host memory: a cache there belongs to one \
                 rank"
            )));
        }
        let draft = Draft::new(dataset, plan, &ranks.decision.backend, caches)?;
        let draft = draft.lists_on(ranks.sampler_backends.first());
        Ok(Self { draft, command, ranks })
    }

    /// The processes and memory of the run.
    #[must_use]
    pub fn dry_run(&self) -> DryRun {
        // Invalid stored choices are reported when the run starts.
        let decision = &self.ranks.decision;
        let settled = self.draft.settle_by_stored(decision.clone());
        let backend = settled.map_or_else(|_| decision.backend.clone(), |settled| settled.backend);
        let graph = ReorderedLayout::new(&self.draft.dataset).bytes() as u64;
        let sampler_devices = self.ranks.sampler_devices();
        let mut more = Vec::new();
        if !sampler_devices.is_empty() {
            more.push(MemoryLine::once("graph", MemoryKind::Pinned, graph));
        }
        if self.ranks.standby_cache > 0 && self.ranks.standby.ranks > 0 {
            let bytes = self.ranks.standby_cache.saturating_mul(u64::from(self.ranks.standby.ranks));
            let item = "rows cached for standby ranks, at most";
            more.push(MemoryLine::once(item, MemoryKind::Device, bytes));
        }
        let dry = self.draft.dry_run(&backend, Placement::Processes, more);
        match self.ranks.count {
            Some(count) => dry.of_ranks(&PlacedRanks {
                count: count as usize,
                share_samplers: self.ranks.shared_samplers.is_some(),
                standby: self.ranks.standby,
                devices: &self.ranks.devices,
                sampler_devices: &sampler_devices,
            }),
            None => dry,
        }
    }

    /// Runs until the command ends, and returns the end of each rank; without ranks there is one. The metrics' first
    /// line shows `options` unchanged. `events`: report each training batch to the observer.
    ///
    /// # Errors
    /// Any failure or interrupt that ended it early, including a failure of the command; see [`crate::launcher`].
    pub fn run(
        self,
        options: &Value,
        events: bool,
        observer: &mut dyn Observer,
    ) -> Result<Vec<End>, RuntimeError> {
        let Self { draft, command, ranks } = self;
        let mut launcher = Launcher::begin(draft.dataset.path(), None)?;
        let decision = draft.settle(ranks.decision.clone(), Some(&mut launcher), observer)?;
        let backend = launcher.divide(decision, observer)?;
        let no_trial = &mut |_: &_, _: &_, _: Option<&mut _>, _: &mut dyn Observer| Err(no_trial());
        let prepared = draft.prepare(backend, Some(&mut launcher), no_trial, observer)?;
        let mut more = vec![("command", json!(command.words()))];
        let sums = prepared.plan.options.aggregation;
        if let Some(made) = RowTree::of(&prepared.plan).sums() {
            let way = made.way();
            more.push(("aggregate", json!({ "way": way, "sums": sums.name(), "reason": "requested" })));
        }
        let of_each = prepared
            .of_each_rank(&|rank| ranks.backend_of(rank, &prepared.plan.backend), ranks.standby_cache)?;
        let sampler_devices = ranks.sampler_devices();
        for (rank, prepared) in of_each.iter().enumerate() {
            let mut more = more.clone();
            more.extend(ranks.count.map(|count| ("rank", json!({ "index": rank, "of": count }))));
            more.extend(ranks.shared_samplers.map(|samplers| {
                ("shared_samplers", json!({ "count": samplers, "devices": sampler_devices }))
            }));
            if ranks.standby.ranks > 0 {
                more.push(("standby", json!(ranks.standby)));
            }
            if !sampler_devices.is_empty() {
                more.push(("sampler", SamplerChoice::Gpu.name().into()));
            }
            prepared.log_start("processes");
            observer.event_of(rank, &prepared.start_event(options.clone(), "processes", &more))?;
        }
        observer.note(&prepared.opened());
        prepared.choices().iter().for_each(|line| observer.note(line));
        if let Some(cuda) = prepared.plan.backend.cuda() {
            let devices = match &ranks.devices[..] {
                [] => format!("cuda:{}", cuda.ordinal),
                devices => GpuList(devices.to_vec()).to_string(),
            };
            observer.note(&format!("batches on {devices}, {}", cuda.partition));
        }
        if let Some(samplers) = ranks.shared_samplers {
            let place = match &sampler_devices[..] {
                [] => "the CPU".to_owned(),
                devices => GpuList(devices.to_vec()).to_string(),
            };
            let several = if samplers == 1 { "one sampler" } else { &format!("{samplers} samplers") };
            observer.note(&format!("{several} on {place} for all ranks"));
            if let Some(note) = ranks.note_of_standby() {
                observer.note(&note);
                if let (Some(last), true) = (of_each.last(), ranks.standby_cache > 0) {
                    observer.note(&format!("on standby ranks, {}", last.cached_rows()));
                }
            }
        }
        let plans: Vec<RunPlan> = of_each.iter().map(|prepared| prepared.plan.clone()).collect();
        let contents: Vec<_> = of_each.iter().map(|prepared| prepared.contents.clone()).collect();
        let launch = Launch {
            dataset: prepared.dataset.path(),
            plans: &plans,
            caches: &contents,
            sampler_backends: &ranks.sampler_backends,
            consumer: Consumer::Command { command, events, ranked: ranks.count.is_some() },
            environments: Environments::default(),
        };
        let outcomes = launcher.run_ranks(launch, observer)?;
        // Processes other than the roles end before the run's last line.
        drop(launcher);
        let mut ends = Vec::new();
        for (rank, (prepared, outcome)) in of_each.iter().zip(outcomes).enumerate() {
            let end = end(prepared, outcome);
            prepared.log_end(&end);
            observer.event_of(rank, &Event::End(Box::new(end.clone())))?;
            ends.push(end);
        }
        Ok(ends)
    }
}

fn end(prepared: &PreparedRun, outcome: Outcome) -> End {
    let Outcome { roles, seconds, tally, memory, disk, .. } = outcome;
    let ConsumerTally { batches, epochs, nanoseconds, cache, unpadded, oversized, aggregate } = tally;
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
            RowTree::of(&prepared.plan).sums(),
            batches,
            batches,
            aggregate,
        ),
    }
}

/// The memory that a batch leaves is known only after a trained batch, and only the command can train.
fn no_trial() -> RuntimeError {
    RuntimeError::option(
        "gpu_cache",
        "auto",
        "the GPU memory that the command leaves free cannot be measured in advance: give a size, such as `gpu_cache=2GiB`",
    )
}
