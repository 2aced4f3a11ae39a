//! The roles as threads of the calling program, for embedding the library.
//!
//! ```no_run
//! # fn main() -> Result<(), uva_runtime::RuntimeError> {
//! let mut runtime = uva_runtime::Runtime::builder("data/graph")
//!     .fanouts([15, 10])
//!     .batch_size(1024)
//!     .epochs(3)
//!     .build()?;
//! while let Some(batch) = runtime.next_batch()? {
//!     println!("{} nodes, hash {:016x}", batch.input_nodes().len(), batch.hash());
//! }
//! # Ok(())
//! # }
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use uva_batch::Aggregation;
use uva_graph::{Dataset, Split, Verify};
use uva_sample::{BatchKey, FanoutSpec};

use crate::RuntimeError;
use crate::backend::Backend;
use crate::control::disk_counts::DiskCounts;
use crate::control::{Control, Stop, peak_rss_bytes};
use crate::feed::batch::Batch;
use crate::feed::ranks::{RankExchanges, check_divided};
use crate::machine::memory::{ProcessMemory, Resident};
use crate::options::input_nodes::{InputSeeds, open_for_batches};
use crate::options::schedule::{BatchOrder, Schedule};
use crate::options::seed_order::MadeOrder;
use crate::options::{Cursor, LoaderOptions, Passes};
use crate::pipeline::dry_run::{DryRun, PlannedCaches};
use crate::pipeline::roles::{BatchReceiver, RoleThreads};
use crate::pipeline::wiring::{ConnectedStages, Connections, wire};
use crate::plan::RunPlan;
use crate::plan::topology::{Placement, Role, RunStage, Topology};
use crate::sampler::cache::CacheContents;
use crate::telemetry::gauges::{Gauges, RoleProcess, RowBytes};
use crate::telemetry::metrics::{Event, InForce, Roles};
use crate::tune::planning::remote_rows;

/// Options of a [`Runtime`]. The defaults are those of [`LoaderOptions`] and one epoch.
#[derive(Clone, Debug)]
pub struct RuntimeBuilder {
    dataset: PathBuf,
    input_nodes: Option<InputSeeds>,
    shuffle: Option<bool>,
    options: LoaderOptions,
    passes: Passes,
}

impl RuntimeBuilder {
    /// Neighbours per node and hop, from the seeds outward; −1 takes all.
    pub fn fanouts(mut self, fanouts: impl Into<FanoutSpec>) -> Self {
        self.options.fanouts = fanouts.into();
        self
    }

    /// Seeds per batch.
    pub fn batch_size(mut self, seeds: usize) -> Self {
        self.options.batch_size = seeds;
        self
    }

    /// Nodes in place of the training split's: ids, a mask, a file of either, or [`InputNodes::All`]. They keep their
    /// order, unless [`shuffle`](Self::shuffle) is set.
    pub fn input_nodes(mut self, nodes: impl Into<InputSeeds>) -> Self {
        self.input_nodes = Some(nodes.into());
        self
    }

    /// Sets whether each epoch shuffles the training seeds. By default it does so with the training split, and not with
    /// [`input_nodes`](Self::input_nodes).
    pub fn shuffle(mut self, shuffle: bool) -> Self {
        self.shuffle = Some(shuffle);
        self
    }

    /// Training epochs.
    pub fn epochs(mut self, epochs: u32) -> Self {
        self.passes.epochs = epochs;
        self
    }

    /// Sends the validation split through the slots after each epoch.
    pub fn validate(mut self, validate: bool) -> Self {
        self.passes.validate = validate;
        self
    }

    /// Sends the test split through the slots at the end.
    pub fn test(mut self, test: bool) -> Self {
        self.passes.test = test;
        self
    }

    /// Number of sampler threads.
    pub fn samplers(mut self, samplers: usize) -> Self {
        self.options.samplers = samplers;
        self
    }

    /// The key of all random choices.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// The producer's aggregation of the outermost hop's rows ([`Batch::aggregated`](crate::BatchView::aggregated)),
    /// which replaces them.
    pub fn aggregate(mut self, how: Aggregation) -> Self {
        self.options.aggregation = how;
        self
    }

    /// Adds the row of each maximum ([`Batch::argmax`](crate::BatchView::argmax)), with [`Aggregation::Max`].
    pub fn aggregate_argmax(mut self) -> Self {
        self.options.aggregate_argmax = true;
        self
    }

    /// Begins at this batch of this epoch instead of the first.
    pub fn start_at(mut self, cursor: Cursor) -> Self {
        self.passes.start = cursor;
        self
    }

    /// All loader options at once.
    pub fn options(mut self, options: LoaderOptions) -> Self {
        self.options = options;
        self
    }

    /// Opens the dataset and plans the run; returns its processes and memory.
    ///
    /// # Errors
    /// See [`RuntimeBuilder::build`], for invalid options or datasets.
    pub fn dry_run(&self) -> Result<DryRun, RuntimeError> {
        let (dataset, plan) = self.planned()?;
        Ok(DryRun::new(&dataset, &plan, Placement::Threads, &PlannedCaches::None, Vec::new()))
    }

    /// Opens the dataset and starts the roles.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] and [`RuntimeError::Input`] name the option or file; [`RuntimeError::Failed`] if memory
    /// or threads cannot be allocated.
    pub fn build(self) -> Result<Runtime, RuntimeError> {
        let (dataset, plan) = self.planned()?;
        Runtime::start(Arc::new(dataset), plan)
    }

    fn planned(&self) -> Result<(Dataset, RunPlan), RuntimeError> {
        let mut options = self.options.clone();
        let (target, seeds) = (options.target.as_ref(), self.input_nodes.as_ref());
        let mut dataset = open_for_batches(&self.dataset, Verify::Stamp, target, seeds)?;
        let mut shuffle = self.shuffle;
        if let Some(nodes) = &self.input_nodes {
            dataset = nodes.clone().in_place_of(Split::Train, dataset)?;
            shuffle = shuffle.or(Some(false));
        }
        if let Some(shuffle) = shuffle {
            options.shuffled = options.shuffled.with(Split::Train, shuffle);
        }
        let plan = RunPlan::new(&dataset, &options, self.passes)?;
        Ok((dataset, plan))
    }
}

/// A source of a dataset's batches, which threads sample and gather ahead of their use. Dropping it ends the threads.
#[derive(Debug)]
pub struct Runtime {
    /// Must be the first field: the threads must end before the data they use is dropped.
    threads: RoleThreads,
    dataset: Arc<Dataset>,
    control: Arc<Control>,
    receiver: BatchReceiver,
    /// Live counts of the run, if all roles are threads of this process.
    alone: Option<Gauges>,
    in_force: Option<Backend>,
}

impl Runtime {
    /// Options for batches of the dataset in this directory.
    pub fn builder(dataset: impl AsRef<Path>) -> RuntimeBuilder {
        RuntimeBuilder {
            dataset: dataset.as_ref().to_owned(),
            input_nodes: None,
            shuffle: None,
            options: LoaderOptions::default(),
            passes: Passes { epochs: 1, ..Passes::default() },
        }
    }

    /// Starts the roles of a plan over its dataset.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] if the plan's backend does not support the requested feature type;
    /// [`RuntimeError::Failed`] if memory or threads cannot be allocated.
    pub fn start(dataset: Arc<Dataset>, plan: RunPlan) -> Result<Self, RuntimeError> {
        Self::start_with(dataset, plan, CacheContents::default())
    }

    /// Starts the roles of a plan with these cache contents.
    ///
    /// # Errors
    /// See [`Runtime::start`].
    pub fn start_with(
        dataset: Arc<Dataset>,
        plan: RunPlan,
        contents: CacheContents,
    ) -> Result<Self, RuntimeError> {
        Self::start_beside(dataset, plan, contents, None)
    }

    /// Starts the roles of a plan of one of the ranks among which the dataset's feature table is divided.
    ///
    /// # Errors
    /// See [`Runtime::start`].
    pub fn start_beside(
        dataset: Arc<Dataset>,
        plan: RunPlan,
        contents: CacheContents,
        ranks: Option<Arc<RankExchanges>>,
    ) -> Result<Self, RuntimeError> {
        check_divided(&dataset, &plan.options, contents.caches(), &plan.backend, ranks.as_deref())?;
        if let Some(ranks) = ranks.as_ref().filter(|ranks| ranks.cache_bytes() > 0) {
            ranks.keep(remote_rows(&dataset, &plan, ranks)?);
        }
        let backend = plan.backend.clone();
        let plan = plan.with_row_places(&dataset, &backend)?.with_pages_placed(&dataset);
        plan.backend.check_features(&plan.layout, plan.options.gathers_before_sums)?;
        plan.check_prepare(&plan.backend, contents.caches().dynamic)?;
        plan.check_look_ahead(contents.caches().dynamic)?;
        plan.check_eviction(&plan.backend, contents.caches().dynamic)?;
        let plan = Arc::new(plan.with_caches(contents.caches().clone()));
        let topology = Topology::new(&plan, Placement::Threads);
        let stages: Vec<RunStage> = topology.stages_of(0).collect();
        let row_bytes = RowBytes::of(&plan.layout);
        let connections = Connections { ranks, ..Connections::create(dataset, plan, &contents)? };
        let process = RoleProcess { role: Role::Consumer.name().to_owned(), pid: std::process::id() };
        let rings = connections.rings();
        let gauges = Gauges::new(Arc::clone(&connections.control), rings, row_bytes, vec![process]);
        let mut runtime = Self::wired(connections, &stages)?;
        runtime.alone = Some(gauges);
        Ok(runtime)
    }

    /// Connects the stages of this process, including the consumer.
    ///
    /// # Errors
    /// See [`wire`].
    pub fn wired(connections: Connections, stages: &[RunStage]) -> Result<Self, RuntimeError> {
        let (dataset, control) = (Arc::clone(&connections.dataset), Arc::clone(&connections.control));
        let ConnectedStages { receiver, threads, in_force, .. } = wire(connections, stages)?;
        let receiver = receiver.ok_or_else(|| {
            RuntimeError::failed("the consumer is not one of the stages that the launcher named")
        })?;
        Ok(Self { threads, dataset, control, receiver, alone: None, in_force })
    }

    /// The dataset.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    pub(crate) fn shared_dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    pub(crate) fn options(&self) -> &LoaderOptions {
        self.receiver.options()
    }

    /// The order of the training seeds; `None` if they are shuffled, or in the order of their file.
    pub fn seed_order(&self) -> Option<&MadeOrder> {
        self.options().made_order.as_ref()
    }

    /// The schedule of batches.
    pub fn schedule(&self) -> &Schedule {
        self.receiver.schedule()
    }

    /// The event with the values in force, if a fallback changed the plan's backend.
    pub fn fall_back(&self) -> Option<Event> {
        self.in_force.as_ref().map(|backend| Event::InForce(InForce::of(backend)))
    }

    /// Live counts of the run, if all of it is in this process.
    pub fn gauges(&self) -> Option<&Gauges> {
        self.alone.as_ref()
    }

    /// Time totals of each role so far.
    pub fn roles(&self) -> Roles {
        let mut roles = self.control.roles();
        if self.alone.is_none() {
            return roles;
        }
        // All roles are threads of this process, which has one resident set.
        let peak = peak_rss_bytes();
        for role in [&mut roles.sampler, &mut roles.producer, &mut roles.consumer] {
            role.peak_rss_bytes = peak;
        }
        roles
    }

    /// Counts of disk reads for rows so far; `None` if rows are read from memory.
    pub fn disk_reads(&self) -> Option<DiskCounts> {
        self.receiver.reads_disk().then(|| self.control.disk_reads())
    }

    /// The current memory of this process, if the whole run is in it: one element, otherwise none.
    pub fn memory(&self) -> Vec<ProcessMemory> {
        let resident = self.alone.as_ref().and_then(|_| Resident::of_self());
        resident.map(|resident| ProcessMemory::new("all roles", resident)).into_iter().collect()
    }

    /// Waits for the next batch, which keeps its slot until it is dropped. Returns `None` after the last.
    ///
    /// # Errors
    /// The error that made a sampler, the producer or a worker end; [`RuntimeError::SlotHeld`] if an earlier batch
    /// still holds the slot of the next one.
    pub fn next_batch(&mut self) -> Result<Option<Batch>, RuntimeError> {
        self.next_batch_unless(&|| false)
    }

    /// Waits for the next batch until `interrupted` returns true.
    pub(crate) fn next_batch_unless(
        &mut self,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<Batch>, RuntimeError> {
        self.receiving(|receiver| receiver.next_batch_unless(interrupted))
    }

    /// Makes the first of this order the next batch.
    pub(crate) fn turn_to(
        &mut self,
        order: BatchOrder,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(), RuntimeError> {
        self.receiving(|receiver| receiver.turn_to(Some(order), interrupted))
    }

    /// The next batch unless the consumer turns.
    pub(crate) fn upcoming(&self) -> Option<BatchKey> {
        self.receiver.upcoming()
    }

    /// See [`BatchReceiver::is_beside`].
    pub(crate) fn is_beside(&self, of: (Split, u32)) -> bool {
        self.receiver.is_beside(of)
    }

    /// See [`BatchReceiver::pass_beside`].
    pub(crate) fn pass_beside(
        &mut self,
        of: (Split, u32),
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(), RuntimeError> {
        self.receiving(|receiver| receiver.pass_beside(of, interrupted))
    }

    pub(crate) fn passed_over(&self) -> u64 {
        self.receiver.passed_over()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.control.stop() >= Stop::Soon
    }

    fn receiving<T>(
        &mut self,
        receive: impl FnOnce(&mut BatchReceiver) -> Result<T, RuntimeError>,
    ) -> Result<T, RuntimeError> {
        // A role that failed has ended; its error is more specific than its end.
        self.threads.join_finished()?;
        match receive(&mut self.receiver) {
            Err(RuntimeError::PeerGone(reason)) => {
                self.control.set_stop(Stop::Now);
                Err(self.threads.stop().err().unwrap_or(RuntimeError::PeerGone(reason)))
            }
            other => other,
        }
    }

    /// The receiving end and the control page, for a consumer in this crate.
    pub fn parts(&mut self) -> (&mut BatchReceiver, &Arc<Dataset>, &Arc<Control>) {
        (&mut self.receiver, &self.dataset, &self.control)
    }

    /// Stops the roles and returns the error of any of them.
    ///
    /// # Errors
    /// See [`Runtime::next_batch`].
    pub fn stop(&mut self) -> Result<(), RuntimeError> {
        self.threads.stop()
    }

    /// Waits for the threads, once the consumer takes no more batches. Returns the earliest error of the consumer and
    /// the threads.
    ///
    /// # Errors
    /// The earliest error.
    pub fn finish<T>(mut self, consumed: Result<T, RuntimeError>) -> Result<T, RuntimeError> {
        let at = Instant::now();
        // Unless the consumer has seen the end, it takes no further batch, and the producer need not wait for it.
        if !self.threads.is_empty() && (consumed.is_err() || self.control.stop() >= Stop::Soon) {
            self.control.set_stop(Stop::Now);
        }
        match (consumed, self.threads.join()) {
            (Err(RuntimeError::PeerGone(_)), Some((_, cause))) => Err(cause),
            // A fault on the device fails both; the earlier error can name the call.
            (Err(_), Some((earlier, cause))) if earlier < at => Err(cause),
            (consumed, _) => consumed,
        }
    }
}
