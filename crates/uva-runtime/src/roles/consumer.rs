//! The receiving end of the consumer: batches in order, each borrowed from its slot.

use std::sync::Arc;

use uva_mem::ring::{Liveness, Reader, RingError};

use super::Peer;
use crate::RuntimeError;
use crate::backend::Backend;
use crate::batch::{Batch, BatchHeader, Kind};
use crate::cache::Caches;
use crate::control::{CONSUMER, Control, Stop};
use crate::device::DeviceSlots;
use crate::plan::RunPlan;
use crate::schedule::{Cut, Item, Schedule};
use crate::stage::{Doing, StageClock};

/// Receives the batches of a run.
#[derive(Debug)]
pub struct BatchReceiver {
    plan: Arc<RunPlan>,
    control: Arc<Control>,
    features: Reader,
    /// Where the arrays are, if not in the ring itself.
    device: Option<DeviceSlots>,
    producer: Peer,
    clock: StageClock,
    /// The next sequence number. Everything before it has been given back when it is asked for.
    position: u64,
    ended: bool,
}

impl BatchReceiver {
    pub(crate) fn new(
        plan: Arc<RunPlan>,
        control: Arc<Control>,
        features: Reader,
        device: Option<DeviceSlots>,
        producer: Peer,
    ) -> Self {
        let clock = StageClock::start(Arc::clone(&control), CONSUMER);
        Self { plan, control, features, device, producer, clock, position: 0, ended: false }
    }

    /// Where the run gathers and trains.
    pub fn backend(&self) -> &Backend {
        &self.plan.backend
    }

    /// What is cached.
    pub fn caches(&self) -> &Caches {
        &self.plan.caches
    }

    /// The feature slots on a GPU, where they are.
    pub fn device_slots(&mut self) -> Option<&mut DeviceSlots> {
        self.device.as_mut()
    }

    /// Which batches there are.
    pub fn schedule(&self) -> &Schedule {
        &self.plan.schedule
    }

    /// How the run is asked to end.
    pub fn stop(&self) -> Stop {
        self.control.stop()
    }

    /// Ends training before the next batch: what is on its way is dropped, and the test pass follows if there is
    /// one. Only the first call counts.
    pub fn end_training(&mut self) {
        if self.control.cut().is_none() {
            let options = &self.plan.options;
            let sequence =
                self.plan.schedule.cut_after(self.position, options.feature_slots, options.batch_slots());
            self.control.set_cut(Cut { sequence, test: self.plan.schedule.test_batches() > 0 });
        }
    }

    /// Counts the time since the last batch, such as an evaluation behind it, as worked.
    #[cfg(feature = "train")]
    pub(crate) fn count_work(&mut self) {
        self.clock.now(Doing::Working);
    }

    /// Waits for the next batch. `None`: there is none, or the run is asked to stop ([`BatchReceiver::stop`]).
    ///
    /// # Errors
    /// [`RuntimeError::PeerGone`] when the producer has ended without having handed it over.
    pub fn next_batch(&mut self) -> Result<Option<Batch<'_>>, RuntimeError> {
        if let Some(device) = &mut self.device {
            device.failure()?;
        }
        // The consumer itself decides where training ends, so it knows what is next without looking.
        let expected = loop {
            if self.ended {
                return Ok(None);
            }
            match self.plan.schedule.item(self.position, self.control.cut()) {
                Item::Batch(key) => break key,
                Item::Skipped => {
                    if self.position >= self.plan.schedule.training_end() {
                        self.end_training();
                    }
                    if !self.pass_over()? {
                        return Ok(None);
                    }
                }
                Item::End => {
                    self.pass_over()?;
                    self.ended = true;
                }
            }
        };
        self.control.note_position(CONSUMER, self.position);
        if let Some(device) = &mut self.device {
            self.clock.really(Doing::WaitingInput, device.waited());
        }
        self.clock.now(Doing::WaitingInput);
        let watched = self.producer.watched(&self.control, Stop::Soon);
        let slot = match self.features.acquire(self.position, &watched) {
            Ok(slot) => slot,
            Err(RingError::PeerDied { .. }) if self.control.stop() >= Stop::Soon => {
                self.clock.now(Doing::Working);
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let wrong = |what: String| RuntimeError::Failed(format!("feature slot {}: {what}", slot.slot()));
        let header = match self.device {
            None => BatchHeader::read(slot.payload(), &self.plan.layout),
            Some(_) => BatchHeader::read_alone(slot.payload(), &self.plan.layout),
        }
        .map_err(wrong)?;
        if header.kind() != Kind::Batch {
            return Err(wrong(format!("it holds no batch ({:?}) where {expected} was due", header.kind())));
        }
        if header.key() != expected {
            return Err(wrong(format!("it holds {} where {expected} was due", header.key())));
        }
        let loan = match &mut self.device {
            None => {
                let needed = self.plan.layout.features_range(&header).end;
                if slot.payload().len() < needed {
                    return Err(wrong(format!("{} bytes where {needed} are needed", slot.payload().len())));
                }
                None
            }
            Some(device) => {
                // Nothing of a producer that is gone is touched. It may go at any later moment too: `confirm` tells.
                if let Err(gone) = watched.check() {
                    self.clock.now(Doing::Working);
                    let stopping = self.control.stop() >= Stop::Soon;
                    return if stopping { Ok(None) } else { Err(RuntimeError::PeerGone(gone.reason)) };
                }
                let place = slot.slot() as usize;
                device.take(place, self.position)?;
                Some(device.lend(place, self.position))
            }
        };
        self.clock.now(Doing::Working);
        self.position += 1;
        Ok(Some(Batch::new(slot, loan, &self.plan.layout, header)))
    }

    /// Gives the next slot back unread. False: the run is asked to stop.
    fn pass_over(&mut self) -> Result<bool, RuntimeError> {
        self.clock.now(Doing::WaitingInput);
        let watched = self.producer.watched(&self.control, Stop::Soon);
        let passed = match self.features.acquire(self.position, &watched) {
            Ok(slot) => slot.release().map(|()| true),
            Err(RingError::PeerDied { .. }) if self.control.stop() >= Stop::Soon => Ok(false),
            Err(error) => Err(error),
        };
        self.clock.now(Doing::Working);
        let passed = passed?;
        self.position += u64::from(passed);
        Ok(passed)
    }
}
