//! The ends of a sampler at batch rings, of one run or of each rank that it serves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use uva_batch::{BatchHeader, HandOver};
use uva_mem::ring::{Liveness, PeerGone, Writer};
use uva_sample::BatchKey;

use crate::control::peer::Peer;
use crate::control::stage::{Activity, StageClock};
use crate::control::{Control, FIRST_SAMPLER, Stop};
use crate::machine::clock::since_boot;
use crate::options::schedule::ScheduleItem;
use crate::pipeline::makers::SampleBatch;
use crate::plan::RunPlan;
use crate::{RuntimeError, machine};

/// The destination of the batches of a run, or of one of the ranks that share the samplers.
pub(crate) struct SamplerEnd {
    pub plan: Arc<RunPlan>,
    pub control: Arc<Control>,
    pub batches: Writer,
    pub producer: Peer,
}

/// Makes the batches of all ends. Those of one end come one after the other; each of several ends has a thread, so that
/// it does not wait for the slots of another. Only one thread at a time uses the engine.
pub(super) fn hand_over_all(
    index: usize,
    ends: &mut [SamplerEnd],
    clocks: &mut [StageClock],
    sample: &mut SampleBatch<'_>,
) -> Result<(), RuntimeError> {
    if let Some(end) = ends.first() {
        tracing::info!(
            index,
            of = end.plan.options.samplers,
            ranks = ends.len(),
            on_gpu = end.plan.backend.gpu_sampler().is_some(),
            "ready to sample"
        );
    }
    let failed = AtomicBool::new(false);
    let turns = Turns { sample: Mutex::new(sample), failed: &failed };
    let mut ends = ends.iter_mut().zip(clocks);
    if ends.len() == 1 {
        return ends.try_for_each(|(end, clock)| end.hand_over(index, clock, &turns));
    }
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (rank, (end, clock)) in ends.enumerate() {
            let turns = &turns;
            let thread = std::thread::Builder::new().name(format!("uva-sampler-r{rank}"));
            let work = move || {
                // Also on a panic: otherwise the others would continue without this rank, and the failure would not be
                // noticed.
                let leaving = Failing(turns.failed);
                let ended = end.hand_over(index, clock, turns);
                match ended {
                    Ok(()) | Err(RuntimeError::PeerGone(_)) => {
                        std::mem::forget(leaving);
                        ended
                    }
                    Err(error) => Err(error.of_role(&format!("a batch of rank {rank}"))),
                }
            };
            match thread.spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    turns.failed.store(true, Ordering::Release);
                    return Err(machine::not_started("a sampler's thread for a rank", &error));
                }
            }
        }
        let panicked = |_| Err(RuntimeError::failed("a sampler's thread for a rank panicked"));
        let ended = threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked));
        let errors: Vec<RuntimeError> = ended.filter_map(Result::err).collect();
        let (followed, caused): (Vec<_>, Vec<_>) =
            errors.into_iter().partition(|error| matches!(error, RuntimeError::PeerGone(_)));
        caused.into_iter().chain(followed).next().map_or(Ok(()), Err)
    })
}

/// The engine of a sampler, which the threads of several ranks use one at a time.
struct Turns<'s, 'f> {
    sample: Mutex<&'s mut SampleBatch<'f>>,
    /// Whether the engine failed in the turn of one rank, so that the others cannot continue.
    failed: &'s AtomicBool,
}

/// Sets the flag when it is dropped.
struct Failing<'s>(&'s AtomicBool);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        // Release; partner: the acquire load in `SamplerEnd::hand_over`.
        self.0.store(true, Ordering::Release);
    }
}

impl SamplerEnd {
    /// Makes the batches of this end one after the other.
    fn hand_over(
        &mut self,
        index: usize,
        clock: &mut StageClock,
        turns: &Turns<'_, '_>,
    ) -> Result<(), RuntimeError> {
        let Self { plan, control, batches, producer } = self;
        let place = FIRST_SAMPLER + index;
        let engine_failed = || PeerGone::new("the sampler failed at a batch of another rank");
        for sequence in plan.options.sequences_of_sampler(index) {
            control.note_position(place, sequence);
            clock.now(Activity::WaitingOutput);
            let producer = producer.watched(control, Stop::Now);
            let watched = || {
                // Acquire; partner: the release store in `Failing::drop`.
                match turns.failed.load(Ordering::Acquire) {
                    true => Err(engine_failed()),
                    false => producer.check(),
                }
            };
            let mut slot = batches.acquire(sequence, &watched)?;
            // For batches of several ranks, the wait for a turn counts as work: the sampler is busy and delays the
            // rank.
            clock.now(Activity::Working);
            // Read only now: a turn that affects this sequence became visible with the slot (`schedule`).
            let turn = control.turn();
            let sample = |key, number, payload: &mut [u8]| match turns.sample.lock() {
                Ok(mut sample) => {
                    let began = since_boot();
                    sample(key, number, payload).map(|header| (header, began, since_boot()))
                }
                Err(_) => Err(RuntimeError::peer_gone(engine_failed().reason)),
            };
            let (header, length) = match plan.schedule.item(sequence, turn) {
                ScheduleItem::Batch(key) => {
                    let number = slot.slot() as usize;
                    let (mut header, began, ended) = sample(Some(key), number, slot.payload_mut())?;
                    if header.kind() == HandOver::Batch {
                        header.set_sampled(index as u32, began, ended);
                        let microseconds = (ended - began).as_micros() as u64;
                        let BatchKey { split, epoch, batch } = key;
                        tracing::trace!(sequence, %split, epoch, batch, slot = slot.slot(), microseconds, "sampled");
                    }
                    (header, plan.layout.batch_bytes())
                }
                ScheduleItem::Skipped | ScheduleItem::Beside(_) => {
                    (sample(None, slot.slot() as usize, slot.payload_mut())?.0, plan.layout.header_bytes())
                }
                ScheduleItem::End if plan.schedule.end(turn) == Some(sequence) => {
                    (BatchHeader::without_batch(HandOver::End), plan.layout.header_bytes())
                }
                // Another sampler hands over the end, or this one already has.
                ScheduleItem::End => break,
            };
            header.write(slot.payload_mut());
            slot.publish(length as u64)?;
        }
        control.note_memory(place);
        Ok(())
    }
}
