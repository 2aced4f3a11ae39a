//! The receiving end of the consumer: batches in order, each owning its slot until it is dropped.

use std::cell::Cell;
use std::sync::Arc;

use rustix::process::Signal;
use uva_batch::{BatchHeader, HandOver};
use uva_graph::Split;
use uva_mem::ring::{Liveness, PeerGone, ReadSlot, Reader, RingError};
use uva_sample::BatchKey;

use crate::backend::Backend;
use crate::control::peer::Peer;
use crate::control::stage::{Activity, StageClock};
use crate::control::{CONSUMER, Control, Stop};
use crate::feed::batch::Batch;
use crate::feed::device::DeviceSlots;
use crate::feed::ranks::RankExchanges;
use crate::feed::rows::{Counting, RowTree};
use crate::machine::clock::since_boot;
use crate::options::schedule::{BatchOrder, Schedule, ScheduleItem, Turn};
use crate::plan::RunPlan;
use crate::sampler::cache::Caches;
use crate::tune::sums_chooser::{SumsChoice, SumsChooser, SumsDecision};
use crate::tune::sums_share::SumsShare;
use crate::tune::sums_trial::{TrialBatch, Windows};
use crate::{LoaderOptions, RuntimeError};

/// Receives the batches of a run.
#[derive(Debug)]
pub struct BatchReceiver {
    plan: Arc<RunPlan>,
    control: Arc<Control>,
    features: Reader,
    /// The slots with the arrays, if these are not in the ring itself.
    device: Option<Arc<DeviceSlots>>,
    /// The roles that fill the slots alternately.
    writers: Vec<Peer>,
    clock: StageClock,
    /// The next sequence number.
    position: u64,
    /// Slots that were returned unread.
    passed_over: u64,
    ended: bool,
    counting: Counting,
    /// The chooser of the number of batches that the producer sums, if the run tries this.
    sums: Option<SumsChooser>,
    /// The last choice, until it is reported.
    choice: Option<SumsChoice>,
    /// The other ranks, if the feature table is divided among them.
    ranks: Option<Arc<RankExchanges>>,
}

impl BatchReceiver {
    pub(crate) fn new(
        plan: Arc<RunPlan>,
        control: Arc<Control>,
        features: Reader,
        device: Option<DeviceSlots>,
        writers: Vec<Peer>,
        ranks: Option<Arc<RankExchanges>>,
    ) -> Self {
        let clock = StageClock::start(Arc::clone(&control), CONSUMER);
        let device = device.map(Arc::new);
        let counting = RowTree::of(&plan).counting();
        let parts = SumsShare::parts(&plan.options);
        let tried = plan.options.sums_chosen_for.is_some() && !plan.options.sums_by_counts;
        let sums = tried.then(|| SumsChooser::new(Windows::of(&plan), parts));
        Self {
            plan,
            control,
            features,
            device,
            writers,
            clock,
            position: 0,
            passed_over: 0,
            ended: false,
            counting,
            sums,
            choice: None,
            ranks,
        }
    }

    /// The backend of the run.
    pub fn backend(&self) -> &Backend {
        &self.plan.backend
    }

    pub(crate) fn options(&self) -> &LoaderOptions {
        &self.plan.options
    }

    /// The caches of the run.
    pub fn caches(&self) -> &Caches {
        &self.plan.caches
    }

    /// The feature slots on a GPU, if slots are on a GPU.
    pub fn device_slots(&self) -> Option<&Arc<DeviceSlots>> {
        self.device.as_ref()
    }

    /// The schedule of batches.
    pub fn schedule(&self) -> &Schedule {
        &self.plan.schedule
    }

    /// Whether rows are read from disk.
    pub(crate) fn reads_disk(&self) -> bool {
        self.counting.from_disk
    }

    /// The requested end of the run.
    pub fn stop(&self) -> Stop {
        self.control.stop()
    }

    /// Ends training before the next batch. Batches in flight are dropped, and the test pass follows if there is one.
    /// Only the first call has an effect.
    pub fn end_training(&mut self) {
        if self.control.turn().is_none() {
            let test = BatchOrder {
                main: Split::Test,
                validate: false,
                split: Split::Test,
                epoch: 0,
                batch: 0,
                epochs: 1,
                then_end: true,
            };
            let order = (self.plan.schedule.test_batches() > 0).then_some(test);
            self.set_turn(order);
        }
    }

    fn set_turn(&self, order: Option<BatchOrder>) {
        let schedule = &self.plan.schedule;
        let sequence = schedule.turn_after(
            self.position,
            self.plan.options.all_feature_slots(),
            self.plan.batch_slots(),
        );
        self.control.set_turn(Turn { sequence, order });
    }

    /// Turns to this order of batches; batches in flight are dropped. With `None` no batches follow.
    ///
    /// # Errors
    /// See [`BatchReceiver::next_batch`]; an earlier turn must be reached first.
    pub(crate) fn turn_to(
        &mut self,
        order: Option<BatchOrder>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(), RuntimeError> {
        while self.control.turn().is_some_and(|turn| self.position < turn.sequence) {
            if !self.pass_over(interrupted)? {
                return Ok(());
            }
        }
        self.set_turn(order);
        Ok(())
    }

    pub(crate) fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// The next batch unless the consumer turns; `None` if there is none.
    pub(crate) fn upcoming(&self) -> Option<BatchKey> {
        let turn = self.control.turn();
        let position = turn.map_or(self.position, |turn| self.position.max(turn.sequence));
        // A part lacks at most one batch of a pass. If a pass has no other batch, the next one is never requested.
        let mut items = (position..position + 2).map(|position| self.plan.schedule.item(position, turn));
        match items.find(|item| !matches!(item, ScheduleItem::Beside(_))) {
            Some(ScheduleItem::Batch(key)) => Some(key),
            _ => None,
        }
    }

    /// Skips the sequence numbers of a pass at which other parts have a batch and this one has none: all consecutive
    /// ones from the position on, of this split and epoch. The pass of the next epoch may begin with such numbers, too.
    pub(crate) fn pass_beside(
        &mut self,
        of: (Split, u32),
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(), RuntimeError> {
        loop {
            let turn = self.control.turn();
            let before_turn = turn.is_some_and(|turn| self.position < turn.sequence);
            let beside = self.plan.schedule.item(self.position, turn).is_beside(of);
            if !(before_turn || beside) || !self.pass_over(interrupted)? {
                return Ok(());
            }
        }
    }

    /// Whether, at the next number, other parts have a batch of this split and epoch, and this part has none.
    pub(crate) fn is_beside(&self, of: (Split, u32)) -> bool {
        let turn = self.control.turn();
        let position = turn.map_or(self.position, |turn| self.position.max(turn.sequence));
        self.plan.schedule.item(position, turn).is_beside(of)
    }

    /// The options of the batches.
    pub fn loader_options(&self) -> &LoaderOptions {
        &self.plan.options
    }

    /// Records that a split is evaluated on full neighbourhoods, after the epoch of that number, or the end of the
    /// evaluation. If this consumer fails, the message mentions it.
    pub fn note_evaluation(&self, of: Option<(Split, u32)>) {
        self.control.note_evaluation(of);
    }

    /// Counts the time since the last batch, for example an evaluation after it, as work.
    pub fn count_work(&mut self) {
        self.clock.now(Activity::Working);
    }

    /// Traces the role's time totals, once no more batches are taken.
    pub fn log_end(&mut self) {
        self.clock.log_end();
    }

    /// Waits for the next batch. Returns `None` if there is none, or a stop of the run is requested
    /// ([`BatchReceiver::stop`]).
    ///
    /// # Errors
    /// [`RuntimeError::PeerGone`] if the producer or a worker ended without handing it over; [`RuntimeError::SlotHeld`]
    /// if an earlier batch still holds its slot.
    pub fn next_batch(&mut self) -> Result<Option<Batch>, RuntimeError> {
        self.next_batch_unless(&|| false)
    }

    /// Waits for the next batch until `interrupted`, which is called several times a second, returns true.
    ///
    /// # Errors
    /// See [`BatchReceiver::next_batch`], and [`RuntimeError::Interrupted`].
    pub(crate) fn next_batch_unless(
        &mut self,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Option<Batch>, RuntimeError> {
        if let Some(device) = &self.device {
            device.failure()?;
        }
        // The consumer determines the order, so it has the next key without reading the slot.
        let expected = loop {
            if self.ended {
                return Ok(None);
            }
            let turn = self.control.turn();
            match self.plan.schedule.item(self.position, turn) {
                ScheduleItem::Batch(key) => break key,
                ScheduleItem::Beside(_) => {
                    if !self.pass_over(interrupted)? {
                        return Ok(None);
                    }
                }
                ScheduleItem::Skipped => {
                    if turn.is_none_or(|turn| self.position >= turn.sequence) {
                        if self.plan.schedule.passes().steered {
                            return Ok(None);
                        }
                        if self.position >= self.plan.schedule.training_end() {
                            self.end_training();
                        }
                    }
                    if !self.pass_over(interrupted)? {
                        return Ok(None);
                    }
                }
                ScheduleItem::End => {
                    self.pass_over(interrupted)?;
                    self.ended = true;
                    self.control.note_memory(CONSUMER);
                }
            }
        };
        self.control.note_position(CONSUMER, self.position);
        if let Some(device) = &self.device {
            self.clock.really(Activity::WaitingInput, device.waited());
        }
        let Some(slot) = self.acquire(interrupted)? else { return Ok(None) };
        let wrong = |what: String| {
            RuntimeError::failed(format!("feature slot {}: {what}", slot.slot())).in_slot(slot.slot(), None)
        };
        let header = match self.device {
            None => self.plan.layout.read_header(slot.payload()),
            Some(_) => BatchHeader::read(slot.payload(), self.plan.layout.bounds()),
        }
        .map_err(wrong)?;
        if header.kind() != HandOver::Batch {
            if let Some(left) = self.ranks.as_ref().and_then(|ranks| ranks.left()) {
                let message = format!("{expected} needs {left}");
                return Err(RuntimeError::peer_gone(message));
            }
            return Err(wrong(format!("it holds no batch ({:?}) where {expected} was due", header.kind())));
        }
        if header.key() != expected {
            return Err(wrong(format!("it holds {} where {expected} was due", header.key())));
        }
        let loan = match &self.device {
            None => {
                let needed = self.plan.layout.used_bytes(&header);
                if slot.payload().len() < needed {
                    return Err(wrong(format!("{} bytes where {needed} are needed", slot.payload().len())));
                }
                None
            }
            Some(device) => {
                // Do not touch memory of a producer that has ended. It may also end at any later moment: `confirm`
                // detects that.
                let checked = self.writers[self.next_writer()].watched(&self.control, Stop::Soon).check();
                if let Err(gone) = checked {
                    self.clock.now(Activity::Working);
                    let stopping = self.control.stop() >= Stop::Soon;
                    return if stopping { Ok(None) } else { Err(RuntimeError::peer_gone(gone.reason)) };
                }
                let (number, sequence) = (slot.slot() as usize, self.position);
                Some(if self.plan.fits_slot(&header) {
                    DeviceSlots::take(device, number, sequence)?
                } else {
                    let payload = slot.payload();
                    let needed = self.plan.layout.header_bytes() + self.plan.layout.packed_bytes(&header);
                    let image = payload
                        .get(self.plan.layout.header_bytes()..needed)
                        .ok_or_else(|| wrong(format!("{} bytes where {needed} are needed", payload.len())))?;
                    DeviceSlots::take_aside(device, number, sequence, image)?
                })
            }
        };
        self.clock.now(Activity::Working);
        let BatchKey { split, epoch, batch } = expected;
        tracing::trace!(sequence = self.position, %split, epoch, batch, slot = slot.slot(), "taken");
        self.try_sums(&header);
        self.position += 1;
        Ok(Some(Batch::new(slot, loan, &self.plan.layout, self.counting, header)))
    }

    /// The number of batches that the producer or the workers sum from now on, with the reason, if it has been chosen
    /// since the last call.
    pub fn take_sums_choice(&mut self) -> Option<SumsChoice> {
        self.choice.take()
    }

    /// Times the batch of this header, which is being taken, in a run that tries the place of sums. Notifies the roles
    /// that fill slots of the choice.
    fn try_sums(&mut self, header: &BatchHeader) {
        let (schedule, key) = (&self.plan.schedule, header.key());
        let Some(sums) = self.sums.as_mut().filter(|_| key.split == Split::Train) else { return };
        let (number, in_epoch) = (schedule.training_number(key), schedule.in_epoch(key));
        let left = schedule.training_left().saturating_sub(number + 1);
        // No role can have begun this batch: the slot that it gets is the one being taken.
        let from = self.position + self.plan.options.all_feature_slots() as u64;
        let summed = header.is_summed();
        let taken = TrialBatch { sequence: self.position, number, in_epoch, summed, at: since_boot() };
        let Some(SumsDecision { share, choice }) = sums.taken(taken, left, from) else { return };
        self.control.sum_parts(from, share.summed());
        let Some(choice) = choice else { return };
        let turn = self.control.turn();
        let from = (from..=from + schedule.valid_batches()).find_map(|sequence| {
            let ScheduleItem::Batch(key) = schedule.item(sequence, turn) else { return None };
            (key.split == Split::Train).then_some(key)
        });
        self.choice = Some(SumsChoice { from, ..choice });
    }

    /// The index of the writer that fills the next slot.
    fn next_writer(&self) -> usize {
        (self.position % self.writers.len() as u64) as usize
    }

    /// Waits for the slot of the next sequence number. Returns `None` if a stop of the run is requested. After success
    /// the clock continues to count waiting until the caller changes it.
    fn acquire(&mut self, interrupted: &dyn Fn() -> bool) -> Result<Option<ReadSlot>, RuntimeError> {
        let asked = Cell::new(false);
        let writer = self.next_writer();
        let watched = self.writers[writer].watched(&self.control, Stop::Soon);
        let liveness = || {
            if interrupted() {
                asked.set(true);
                return Err(PeerGone::new("interrupted"));
            }
            watched.check()
        };
        self.clock.now(Activity::WaitingInput);
        let acquired = self.features.acquire(self.position, &liveness);
        if acquired.is_err() {
            self.clock.now(Activity::Working);
        }
        match acquired {
            Ok(slot) => Ok(Some(slot)),
            Err(RingError::PeerDied { .. }) if asked.get() => {
                Err(RuntimeError::Interrupted(Signal::INT.as_raw()))
            }
            Err(RingError::PeerDied { .. }) if self.control.stop() >= Stop::Soon => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the next slot unread. The result is false if a stop of the run is requested.
    fn pass_over(&mut self, interrupted: &dyn Fn() -> bool) -> Result<bool, RuntimeError> {
        let Some(slot) = self.acquire(interrupted)? else { return Ok(false) };
        self.clock.now(Activity::Working);
        if let Some(device) = &self.device {
            device.pass_over(slot.slot() as usize, self.position)?;
        }
        slot.release()?;
        self.position += 1;
        self.passed_over += 1;
        Ok(true)
    }
}
