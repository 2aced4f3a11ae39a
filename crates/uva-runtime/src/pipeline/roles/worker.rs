//! The worker: makes batches in feature slots, each with its rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use uva_batch::{BatchHeader, HandOver};
use uva_cuda::memory::TableBytes;
use uva_graph::Dataset;
use uva_mem::FrozenBytes;
use uva_mem::ring::protocol::SlotState;
use uva_mem::ring::{Liveness, PeerGone, Ring};
use uva_rows::CachedRows;
use uva_sample::BatchKey;

use crate::control::peer::Peer;
use crate::control::stage::{Activity, StageClock};
use crate::control::{Control, FIRST_SAMPLER, Stop};
use crate::feed::rows::{HostParts, RowTree};
use crate::machine::clock::since_boot;
use crate::machine::share_of_cores;
use crate::options::schedule::ScheduleItem;
use crate::pipeline::makers::{WorkerBatches, WorkerParts, maker_of};
use crate::plan::RunPlan;
use crate::{RuntimeError, machine};

/// The shared state of a process's workers.
pub(crate) struct WorkerContext {
    /// The rows of a feature cache that does not change.
    cached: Option<Arc<CachedRows>>,
    /// The copy of the feature table, if rows are read from one.
    copied: Option<Arc<dyn TableBytes>>,
    /// Whether a worker has ended before its last batch. The others wait only for the consumer, which waits for that
    /// batch.
    broken: AtomicBool,
}

impl WorkerContext {
    /// Creates the state with a cache of the rows with these ids.
    pub fn new(
        dataset: &Dataset,
        plan: &RunPlan,
        cached_rows: Option<&FrozenBytes>,
    ) -> Result<Self, RuntimeError> {
        let tree = RowTree::of(plan);
        let parts = HostParts::new(dataset, share_of_cores(4)).copying(&tree);
        let cached = tree.behind_chosen().zip(cached_rows);
        let copied = |(stored, ids): (&RowTree, &FrozenBytes)| {
            stored.copies_of(&parts, bytemuck::cast_slice(ids.bytes()))
        };
        let cached = cached.map(copied).transpose()?;
        Ok(Self { cached: cached.map(Arc::new), copied: parts.copied, broken: AtomicBool::new(false) })
    }
}

/// The membership of a running worker. The others detect any exit before the end of its work, by an error or by a
/// panic.
struct Membership<'a> {
    crew: &'a WorkerContext,
    done: bool,
}

impl Drop for Membership<'_> {
    fn drop(&mut self) {
        if !self.done {
            // Release; partner: the acquire load in `watched`. It orders no other accesses.
            self.crew.broken.store(true, Ordering::Release);
        }
    }
}

/// One of `W` workers, which makes the batches whose sequence number equals its own index modulo `W`.
pub(crate) struct WorkerRole<'a> {
    pub index: usize,
    pub dataset: &'a Arc<Dataset>,
    pub plan: &'a RunPlan,
    pub control: &'a Arc<Control>,
    /// See [`SamplerRole`](super::SamplerRole).
    pub reordered: Option<&'a FrozenBytes>,
    pub crew: &'a WorkerContext,
    pub features: Ring,
    pub consumer: Peer,
    /// Receives lines for people.
    pub note: &'a dyn Fn(&str),
}

impl WorkerRole<'_> {
    /// Makes batches until the end of the schedule.
    ///
    /// # Errors
    /// A batch larger than its slot; an id out of range; the end of the consumer or of another worker; a stop.
    pub fn run(self) -> Result<(), RuntimeError> {
        let mut membership = Membership { crew: self.crew, done: false };
        let mut clock = StageClock::start(Arc::clone(self.control), FIRST_SAMPLER + self.index);
        let ended = self.make_all(&mut clock);
        membership.done = ended.is_ok();
        clock.log_end();
        ended
    }

    fn make_all(&self, clock: &mut StageClock) -> Result<(), RuntimeError> {
        // Otherwise threads of the shuffle, and those that read from disk, would inherit the single core.
        machine::start_threads()?;
        let parts = WorkerParts {
            dataset: self.dataset,
            control: self.control,
            place: FIRST_SAMPLER + self.index,
            cached: self.crew.cached.as_ref(),
            copied: self.crew.copied.as_ref(),
            reordered: self.reordered,
            keep_on_core: &|| self.keep_on_core(),
        };
        maker_of(self.dataset, self.plan).work(&parts, &mut |batches| self.hand_over(clock, batches))
    }

    /// Makes its batches one after the other, each in the slot of its sequence number.
    fn hand_over(&self, clock: &mut StageClock, batches: &mut dyn WorkerBatches) -> Result<(), RuntimeError> {
        let Self { index, plan, control, .. } = *self;
        let place = FIRST_SAMPLER + index;
        let mut features = self.features.writer();
        tracing::info!(index, of = plan.options.samplers, "ready to make batches");
        for sequence in (index as u64..).step_by(plan.options.samplers) {
            control.note_position(place, sequence);
            clock.now(Activity::WaitingOutput);
            let mut slot = features.acquire(sequence, &self.watched())?;
            clock.now(Activity::Working);
            // Read only now: a turn that affects this sequence became visible with the slot (`schedule`).
            let turn = control.turn();
            let (header, length) = match plan.schedule.item(sequence, turn) {
                ScheduleItem::Batch(key) => {
                    let (began, number) = (since_boot(), slot.slot());
                    let payload = slot.payload_mut();
                    let mut header = batches.sample(key, number as usize, payload)?;
                    let sampled = since_boot();
                    header.set_sampled(index as u32, began, sampled);
                    header.set_gather_began(sampled);
                    header.set_pace(self.ready_batches(), 1);
                    batches.gather(sequence, &mut header, payload)?;
                    let microseconds = (since_boot() - began).as_micros() as u64;
                    let BatchKey { split, epoch, batch } = key;
                    tracing::trace!(sequence, %split, epoch, batch, slot = number, microseconds, "made");
                    let bytes = plan.layout.used_bytes(&header);
                    (header, bytes)
                }
                ScheduleItem::Skipped | ScheduleItem::Beside(_) => {
                    (BatchHeader::without_batch(HandOver::Skipped), plan.layout.header_bytes())
                }
                ScheduleItem::End if plan.schedule.end(turn) == Some(sequence) => {
                    (BatchHeader::without_batch(HandOver::End), plan.layout.header_bytes())
                }
                // Another worker hands over the end, or this one already has.
                ScheduleItem::End => break,
            };
            header.write(slot.payload_mut());
            slot.publish(length as u64)?;
        }
        control.note_memory(place);
        Ok(())
    }

    /// The liveness check for a wait on the consumer.
    fn watched(&self) -> impl Liveness {
        let consumer = self.consumer.watched(self.control, Stop::Now);
        move || {
            consumer.check()?;
            // Acquire; partner: the release store in `Membership::drop`.
            if self.crew.broken.load(Ordering::Acquire) {
                return Err(PeerGone::new("another worker has failed"));
            }
            Ok(())
        }
    }

    /// Pins this thread to its core. If the system does not allow that, the worker continues unpinned.
    fn keep_on_core(&self) {
        let options = &self.plan.options;
        let Some(pin) = &options.pin_cores else { return };
        let number = options.number_of_all(self.index);
        let kept = machine::allowed_cores()
            .and_then(|allowed| pin.core(number, &allowed).map_or(Ok(()), machine::keep_on_core));
        if let Err(error) = kept {
            (self.note)(&format!(
                "worker {} is kept on no CPU core, and works where the system puts it: `pin_cores={pin}`: {error}",
                self.index
            ));
        }
    }

    /// Batches from all workers that wait for the consumer.
    fn ready_batches(&self) -> u32 {
        let slots = self.features.shape().slots;
        (0..slots).map(|slot| u32::from(self.features.state(slot).state() == SlotState::Ready)).sum()
    }
}
