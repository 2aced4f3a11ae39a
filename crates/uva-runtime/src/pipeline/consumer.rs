//! Batches for a user's own consumer: it requests a pass, and receives that pass's batches.
//!
//! The pipeline prefetches in the order that it expects: epoch after epoch, with validation between them if requested.
//! A consumer that keeps to that order waits only for the pipeline. A consumer that jumps, for example to another epoch
//! or to the test split, makes the pipeline turn ([`crate::options::schedule`]), at the cost of the batches already in
//! flight.

use std::sync::Arc;

use uva_batch::{SlotRoom, StaticShapes};
use uva_graph::{Dataset, Split};
use uva_options::OptionError;
use uva_sample::MAX_EPOCH;

use crate::backend::{self, Backend, BackendDecision, BackendOptions, Probe};
use crate::control::disk_counts::DiskCounts;
use crate::feed::batch::Batch;
use crate::feed::device::DeviceSlots;
use crate::feed::ranks::RankExchanges;
use crate::options::schedule::{BatchOrder, Schedule};
use crate::options::seed_order::{AskedOrder, MadeOrder};
use crate::options::{LoaderOptions, Pad, Passes};
use crate::pipeline::roles::BatchReceiver;
use crate::plan::{self, RunPlan};
use crate::sampler::cache::CacheContents;
use crate::telemetry::metrics::Roles;
use crate::tune::measurement::{self, TargetRun};
use crate::tune::planning::{Budget, GpuCache, gpu_cache_contents, host_cache_contents};
use crate::{Runtime, RuntimeError};

/// A stream of the batches of one split after another, in the order that the user requests.
#[derive(Debug)]
pub struct BatchStream {
    runtime: Runtime,
    /// The split whose epochs are expected in sequence.
    main: Split,
    /// Whether validation is expected between them.
    validate: bool,
    /// The position of the next batch.
    next: PassCursor,
    /// The launcher, if one started this process and it has attached.
    attachment: Option<Box<dyn Attachment>>,
}

/// The purpose of a [`BatchStream`] of this process, and its environment.
#[derive(Clone, Debug)]
pub struct StreamSetup {
    /// The split whose epochs are expected in sequence.
    pub main: Split,
    /// The number of training nodes of the smallest dataset, if other processes train on other datasets at the same
    /// time, step by step. Training epochs then have the same number of batches in all processes.
    pub fewest: Option<usize>,
    /// The ranks among which the dataset's feature table is divided. Each of them has a stream and requests the same
    /// number of passes, and each pass is [ended](BatchStream::end_pass).
    pub ranks: Option<Arc<RankExchanges>>,
    /// A cache of rows, which the stream plans and fills.
    pub cache: Option<StreamCache>,
}

/// The cached rows of a [`BatchStream`] of this process.
#[derive(Clone, Debug)]
pub enum StreamCache {
    /// A cache of this size in memory before the disk, if rows are read from disk.
    Host(Budget),
    /// A cache on the GPU, if batches are on the GPU.
    Gpu(GpuCache),
}

impl StreamSetup {
    /// A setup for epochs of this split, without other processes and without a cache.
    #[must_use]
    pub fn of(main: Split) -> Self {
        Self { main, fewest: None, ranks: None, cache: None }
    }
}

/// A batch's position in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassCursor {
    /// The split.
    pub split: Split,
    /// The epoch.
    pub epoch: u32,
    /// The batch of the epoch at which the pass begins, in all parts together: 0, unless another number of parts has
    /// used the earlier ones.
    pub first: u64,
    /// The batch, from 0, counted within this part and this pass; the number of batches stands for the position after the
    /// last.
    pub batch: u64,
}

/// The link from an attached process to its launcher: the stream reports to it, and is notified of the run's end.
pub trait Attachment: std::fmt::Debug + Send {
    /// Reports that the consumer requests the next batch.
    fn asked(&mut self) -> Result<(), RuntimeError>;

    /// Records the received batch. No batch means a request to stop the run, which is an error once the run has ended.
    fn received(
        &mut self,
        received: Result<Option<Batch>, RuntimeError>,
    ) -> Result<Option<Batch>, RuntimeError>;

    /// Reports that no more batches are taken, before this process's threads end.
    fn ends(&mut self);

    /// Records the error of the threads, unless another was reported before.
    fn ended(&mut self, ended: Result<(), RuntimeError>) -> Result<(), RuntimeError>;
}

/// The passes of a run whose consumer requests each pass.
pub fn steered() -> Passes {
    Passes { steered: true, ..Passes::default() }
}

/// Decides the backend of a run in this process, which loads the driver. Measures for `auto` options if no result is
/// stored for this GPU. `cached` states whether rows are cached on it.
///
/// # Errors
/// See [`backend::decide`].
pub fn decide_here(
    options: &BackendOptions,
    dataset: &Arc<Dataset>,
    gather_threads: usize,
    cached: bool,
) -> Result<BackendDecision, RuntimeError> {
    let decision = backend::decide(options, true, || Ok(Probe::of_driver()))?;
    let mut measure = |backend: &Backend| match backend.device_slots() {
        Some(cuda) => measurement::measure(dataset, gather_threads, cuda),
        None => Err(RuntimeError::failed("a run on the CPU has nothing to measure")),
    };
    let wanted = TargetRun::of(dataset, gather_threads, cached);
    measurement::settle(decision, &wanted, Some(&mut measure), &mut |line| tracing::info!("{line}"))
}

impl BatchStream {
    /// Starts the roles as threads of this process.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] and [`RuntimeError::Option`] for invalid options; [`RuntimeError::Missing`] if memory is
    /// too small; [`RuntimeError::Failed`] if memory or threads cannot be allocated.
    pub fn in_this_process(
        dataset: Arc<Dataset>,
        options: &LoaderOptions,
        backend: Backend,
        setup: StreamSetup,
    ) -> Result<Self, RuntimeError> {
        let StreamSetup { main, fewest, ranks, cache } = setup;
        if options.seed_order != AskedOrder::Shuffle && main != Split::Train {
            let reason =
                format!("only valid for training seeds, but these batches are of the {main} split: omit it");
            return Err(OptionError::new("seed_order", options.seed_order, reason).into());
        }
        options.check()?;
        if let Some(ranks) = &ranks {
            ranks.check_lists(options)?;
        }
        let options = options.with_order(&dataset)?;
        let options = match options.pad {
            Pad::Off => options,
            Pad::Auto => {
                options.check_dataset(&dataset)?;
                options.with_shapes(&dataset, main)?
            }
        };
        let plan = RunPlan::new(&dataset, &options, steered())?;
        let mut plan = match ranks.as_ref().is_some_and(|ranks| ranks.divide_lists()) {
            // A rank cannot sample beforehand from lists of others, so slots fit the largest batch.
            true => plan,
            false => plan.sized(&dataset, &backend, main)?,
        }
        .on(backend);
        // Batches of the other splits are never dropped.
        if let Some(fewest) = fewest.filter(|_| main == Split::Train) {
            let most = plan::batches(&options, Split::Train, fewest);
            if most == 0 {
                let reason = format!(
                    "with `batch_size={}` it leaves no training batch: the smallest part has only {fewest} training nodes",
                    options.batch_size
                );
                return Err(OptionError::of("drop_last", reason).into());
            }
            plan.schedule = plan.schedule.with_at_most(most as u64);
        }
        let note = |line: &str| tracing::info!("{line}");
        if ranks.is_some() && matches!(cache, Some(StreamCache::Host(_))) {
            let reason =
                "the feature table is divided among ranks, and its parts are read from memory: omit it";
            return Err(OptionError::of("host_cache", reason).into());
        }
        let contents = match cache {
            None => CacheContents::default(),
            Some(cache) => {
                let option = match &cache {
                    StreamCache::Host(_) => "host_cache",
                    StreamCache::Gpu(_) => "gpu_cache",
                };
                options.check_cache(&dataset, option)?;
                let backend = plan.backend.clone();
                plan = plan.with_row_places(&dataset, &backend)?;
                match cache {
                    StreamCache::Host(budget) => host_cache_contents(&dataset, &plan, budget, &note)?,
                    StreamCache::Gpu(asked) => gpu_cache_contents(&dataset, &plan, &asked, &note)?,
                }
            }
        };
        Ok(Self::over(Runtime::start_beside(dataset, plan, contents, ranks)?, main))
    }

    /// Creates a stream over roles that were started with [`steered`] passes.
    pub fn over(runtime: Runtime, main: Split) -> Self {
        let next = PassCursor { split: main, epoch: 0, first: 0, batch: 0 };
        Self { runtime, main, validate: false, next, attachment: None }
    }

    /// Creates a stream in a process that a launcher started.
    pub fn over_attached(runtime: Runtime, main: Split, attachment: Box<dyn Attachment>) -> Self {
        let mut stream = Self::over(runtime, main);
        stream.attachment = Some(attachment);
        stream
    }

    /// The dataset.
    pub fn dataset(&self) -> &Arc<Dataset> {
        self.runtime.shared_dataset()
    }

    /// The schedule of batches.
    pub fn schedule(&self) -> &Schedule {
        self.runtime.schedule()
    }

    /// Batches of a pass over the split, in this part.
    pub fn batches(&self, split: Split) -> u64 {
        self.schedule().batches(split)
    }

    /// Seeds of a whole batch: the requested number, or one more than the length of the longest split.
    pub fn batch_size(&self) -> usize {
        self.runtime.options().batch_size
    }

    /// The order of the training seeds; `None` if they are shuffled, or in the order of their file.
    pub fn made_order(&self) -> Option<&MadeOrder> {
        self.runtime.seed_order()
    }

    /// The shapes that batches are padded to; `None` if they are not padded.
    pub fn shapes(&self) -> Option<&StaticShapes> {
        self.runtime.options().shapes.as_ref()
    }

    /// The capacity of feature slots on a GPU; `None` for the largest batch, or for slots in host memory.
    pub fn slot_room(&self) -> Option<SlotRoom> {
        self.runtime.options().slot_room
    }

    /// Time totals of each role so far.
    pub fn roles(&self) -> Roles {
        self.runtime.roles()
    }

    /// Counts of disk reads for rows so far; `None` if rows are read from memory.
    pub fn disk_reads(&self) -> Option<DiskCounts> {
        self.runtime.disk_reads()
    }

    /// The feature slots on a GPU, if slots are on a GPU.
    pub fn device_slots(&mut self) -> Option<Arc<DeviceSlots>> {
        self.runtime.parts().0.device_slots().cloned()
    }

    /// The receiving end, for a consumer that computes on a GPU.
    pub fn receiver(&mut self) -> &mut BatchReceiver {
        self.runtime.parts().0
    }

    /// Sets whether to expect validation after each epoch of the main split, from the next turn on.
    pub fn expect_validation(&mut self, validate: bool) {
        self.validate = validate;
    }

    /// Makes this the next batch. It has no effect before the batch is requested.
    pub fn go_to(&mut self, place: PassCursor) {
        self.next = place;
    }

    /// The position of the next batch.
    pub fn place(&self) -> PassCursor {
        self.next
    }

    /// Waits for the next batch of the pass. `None` after the pass's last batch, or after a request to stop the run
    /// ([`BatchStream::is_stopped`]); if the request is from a launcher, the process should end.
    ///
    /// `interrupted` is called at least ten times a second during the wait.
    ///
    /// # Errors
    /// The error that made a role end. [`RuntimeError::SlotHeld`] if an earlier batch still holds the slot of this one;
    /// the call may be repeated once that batch has been dropped. [`RuntimeError::Interrupted`], after which the call
    /// may be repeated too.
    pub fn next_batch(&mut self, interrupted: &dyn Fn() -> bool) -> Result<Option<Batch>, RuntimeError> {
        if let Some(attachment) = &mut self.attachment {
            attachment.asked()?;
        }
        let place = self.next;
        if place.batch >= self.schedule().batches_from(place.split, place.first) {
            return Ok(None);
        }
        // A wait checks for a stop. A consumer slower than the roles never waits, so check before the wait too.
        let asked_to_stop = self.attachment.is_some() && self.is_stopped();
        let received = if asked_to_stop { Ok(None) } else { self.receive(place, interrupted) };
        let received = match &mut self.attachment {
            Some(attachment) => attachment.received(received),
            None => received,
        };
        if let Ok(Some(_)) = received {
            self.next.batch += 1;
        }
        received
    }

    fn receive(
        &mut self,
        place: PassCursor,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<Batch>, RuntimeError> {
        let number = self.schedule().number(place.split, place.first, place.batch);
        let is_it = |key: uva_sample::BatchKey| {
            (key.split, key.epoch) == (place.split, place.epoch) && u64::from(key.batch) == number
        };
        if !self.runtime.upcoming().is_some_and(is_it) {
            self.runtime.turn_to(self.order_from(place), interrupted)?;
        }
        self.runtime.next_batch_unless(interrupted)
    }

    /// The order that begins at this place.
    fn order_from(&self, place: PassCursor) -> BatchOrder {
        BatchOrder {
            main: self.main,
            validate: self.validate,
            split: place.split,
            epoch: place.epoch,
            batch: u32::try_from(self.schedule().position(place.split, place.first, place.batch))
                .unwrap_or(u32::MAX),
            // Batches of later epochs have no valid key.
            epochs: MAX_EPOCH + 1,
            then_end: false,
        }
    }

    /// Ends the pass of `place`, whose batch does not matter, after its last batch. If the feature table is divided
    /// among ranks, a rank with fewer batches of a split than others serves these now. In any other run the call does
    /// nothing.
    ///
    /// # Errors
    /// See [`next_batch`](Self::next_batch).
    pub fn end_pass(
        &mut self,
        place: PassCursor,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(), RuntimeError> {
        let PassCursor { split, epoch, first, .. } = place;
        let batch = self.schedule().batches_from(split, first);
        if self.schedule().steps_from(split, first) == batch {
            return Ok(());
        }
        if !self.runtime.is_beside((split, epoch)) {
            let order = self.order_from(PassCursor { batch, ..place });
            self.runtime.turn_to(order, interrupted)?;
        }
        self.runtime.pass_beside((split, epoch), interrupted)
    }

    /// Empty hand-overs so far: the cost of turns, in addition to the batches that were in flight.
    pub fn skipped(&self) -> u64 {
        self.runtime.passed_over()
    }

    /// Whether a stop of the run is requested.
    pub fn is_stopped(&self) -> bool {
        self.runtime.is_stopped()
    }

    /// Ends the roles, and returns an error of any of them.
    ///
    /// # Errors
    /// See [`BatchStream::next_batch`].
    pub fn close(mut self) -> Result<(), RuntimeError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), RuntimeError> {
        if let Some(attachment) = &mut self.attachment {
            attachment.ends();
        }
        let ended = self.runtime.stop();
        match self.attachment.take() {
            Some(mut attachment) => attachment.ended(ended),
            None => ended,
        }
    }
}

impl Drop for BatchStream {
    fn drop(&mut self) {
        // Callers that want the error have called `close`.
        let _ = self.end();
    }
}
