//! Batches for a consumer that is somebody's own program: it says which pass it wants, and gets that pass's batches.
//!
//! The pipeline runs ahead by the order that it expects: epoch after epoch, validation between them where that was
//! asked for. Whoever goes on in that order never waits for more than the pipeline's speed; whoever goes elsewhere, to
//! another epoch, say, or to the test split, makes it turn ([`crate::schedule`]), which costs the batches on their way.

use std::sync::Arc;

use uva_graph::{Dataset, Split};
use uva_sample::MAX_EPOCH;

use crate::backend::{self, Backend, BackendOptions, Decision, Probe};
use crate::batch::Batch;
use crate::device::DeviceSlots;
use crate::metrics::Roles;
use crate::options::{LoaderOptions, Passes};
use crate::plan::RunPlan;
use crate::schedule::{Order, Schedule};
use crate::{Runtime, RuntimeError};

/// The batches of one split after the other, in the order that its user asks for them.
#[derive(Debug)]
pub struct BatchStream {
    runtime: Runtime,
    /// Whose epochs are expected to follow one another.
    main: Split,
    /// Whether validation is expected between them.
    validate: bool,
    /// What the next batch is to be.
    next: PassCursor,
    /// The launcher, where this process was started by one and attached.
    attachment: Option<Box<dyn Attachment>>,
}

/// A batch's place, counted within this part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassCursor {
    /// The split.
    pub split: Split,
    /// The epoch.
    pub epoch: u32,
    /// The batch, from 0; as many as there are: behind the last.
    pub batch: u64,
}

/// The link to the launcher of a process that has attached: the stream reports to it, and hears of the run's end.
pub(crate) trait Attachment: std::fmt::Debug + Send {
    /// The next batch is asked for.
    fn asked(&mut self) -> Result<(), RuntimeError>;

    /// Takes note of what came. No batch means that the run is asked to stop; where it has ended that is an error.
    fn received(
        &mut self,
        received: Result<Option<Batch>, RuntimeError>,
    ) -> Result<Option<Batch>, RuntimeError>;

    /// No more batches are taken; this process's threads are still to be ended.
    fn ends(&mut self);

    /// Takes note of what the threads failed of, where nothing else was reported before.
    fn ended(&mut self, ended: Result<(), RuntimeError>) -> Result<(), RuntimeError>;
}

/// Passes of a run whose consumer steers it.
pub fn steered() -> Passes {
    Passes { steered: true, ..Passes::default() }
}

/// What a GPU run in this process comes to: looks for the driver here.
///
/// # Errors
/// As [`backend::decide`].
pub fn decide_here(options: &BackendOptions) -> Result<Decision, RuntimeError> {
    backend::decide(options, true, || Ok(Probe::of_driver()))
}

impl BatchStream {
    /// Starts the roles as threads of this process.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] for options that cannot work; [`RuntimeError::Failed`] when the system gives no memory or
    /// threads.
    pub fn in_this_process(
        dataset: Arc<Dataset>,
        options: &LoaderOptions,
        backend: Backend,
        main: Split,
    ) -> Result<Self, RuntimeError> {
        let plan = RunPlan::new(&dataset, options, steered())?.on(backend);
        Ok(Self::over(Runtime::start(dataset, plan)?, main))
    }

    /// Over roles that have been started with [`steered`] passes.
    pub fn over(runtime: Runtime, main: Split) -> Self {
        let next = PassCursor { split: main, epoch: 0, batch: 0 };
        Self { runtime, main, validate: false, next, attachment: None }
    }

    /// The same, in a process that a launcher has started.
    pub(crate) fn over_attached(runtime: Runtime, main: Split, attachment: Box<dyn Attachment>) -> Self {
        let mut stream = Self::over(runtime, main);
        stream.attachment = Some(attachment);
        stream
    }

    /// The dataset.
    pub fn dataset(&self) -> &Arc<Dataset> {
        self.runtime.shared_dataset()
    }

    /// Which batches there are.
    pub fn schedule(&self) -> &Schedule {
        self.runtime.schedule()
    }

    /// Batches of a pass over the split, in this part.
    pub fn batches(&self, split: Split) -> u64 {
        self.schedule().batches(split)
    }

    /// What each role did with its time so far.
    pub fn roles(&self) -> Roles {
        self.runtime.roles()
    }

    /// The feature slots on a GPU, where they are.
    pub fn device_slots(&mut self) -> Option<Arc<DeviceSlots>> {
        self.runtime.parts().0.device_slots().cloned()
    }

    /// Expects validation behind each epoch of the main split from the next turn on, or not.
    pub fn expect_validation(&mut self, validate: bool) {
        self.validate = validate;
    }

    /// The next batch is to be this one. Nothing happens before it is asked for.
    pub fn go_to(&mut self, place: PassCursor) {
        self.next = place;
    }

    /// What the next batch will be.
    pub fn place(&self) -> PassCursor {
        self.next
    }

    /// Waits for the next batch of the pass. `None` behind the pass's last, or when the run is asked to stop
    /// ([`BatchStream::is_stopped`]): where a launcher asks for that, the process should come to its end.
    ///
    /// `interrupted` is asked at least ten times a second while there is nothing to be had.
    ///
    /// # Errors
    /// What made a role end; [`RuntimeError::SlotHeld`] when an earlier batch is held that lies where this one is to
    /// come: once it has been dropped the same call goes on; [`RuntimeError::Interrupted`] likewise.
    pub fn next_batch(&mut self, interrupted: &dyn Fn() -> bool) -> Result<Option<Batch>, RuntimeError> {
        if let Some(attachment) = &mut self.attachment {
            attachment.asked()?;
        }
        let place = self.next;
        if place.batch >= self.batches(place.split) {
            return Ok(None);
        }
        // Stop is looked at while a batch is waited for; whoever is slower than the roles never waits.
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
        let part = self.runtime.options().part;
        let is_it = |key: uva_sample::BatchKey| {
            (key.split, key.epoch) == (place.split, place.epoch)
                && u64::from(key.batch) == place.batch * u64::from(part.of) + u64::from(part.index)
        };
        if !self.runtime.upcoming().is_some_and(is_it) {
            let order = Order {
                main: self.main,
                validate: self.validate,
                split: place.split,
                epoch: place.epoch,
                batch: u32::try_from(place.batch).unwrap_or(u32::MAX),
                // No sampler can name a batch of a later one.
                epochs: MAX_EPOCH + 1,
                then_end: false,
            };
            self.runtime.turn_to(order, interrupted)?;
        }
        self.runtime.next_batch_unless(interrupted)
    }

    /// Empty hand-overs so far: what turns have cost beside the batches that were on their way.
    pub fn skipped(&self) -> u64 {
        self.runtime.passed_over()
    }

    /// Whether the run is asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.runtime.is_stopped()
    }

    /// Ends the roles, and says what any of them failed of.
    ///
    /// # Errors
    /// As [`BatchStream::next_batch`].
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
        // Whoever cares has called `close`.
        let _ = self.end();
    }
}
