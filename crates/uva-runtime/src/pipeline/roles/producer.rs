//! The producer: gathers or sums the feature rows of each batch's nodes, and gathers those of its edges if requested,
//! into feature slots.

use std::cell::RefCell;
use std::sync::Arc;

use uva_batch::{BatchHeader, BatchLayout, HandOver};
use uva_graph::Dataset;
use uva_mem::FrozenBytes;
use uva_mem::ring::{Liveness, PeerGone, Reader, RingError, Writer};
use uva_sample::BatchKey;

use super::BackPressure;
use super::taken_ahead::TakenAhead;
use crate::RuntimeError;
use crate::control::peer::Peer;
use crate::control::stage::{Activity, StageClock};
use crate::control::{CONSUMER, Control, PRODUCER, Stop};
use crate::feed::device::{DeviceGather, DeviceSetup};
use crate::feed::ranks::RankExchanges;
use crate::feed::rows::{ComingBatch, HostParts, RowTree, SlotRows};
use crate::machine::clock::since_boot;
use crate::plan::RunPlan;
use crate::tune::sums_chooser::sums_batch;

/// The producer, which takes the batches in order from all samplers.
pub(crate) struct ProducerRole<'a> {
    pub dataset: &'a Arc<Dataset>,
    pub plan: &'a RunPlan,
    pub control: &'a Arc<Control>,
    /// The ids of the rows in the feature cache; `None` without a cache, and for one that changes during the run.
    pub cached_rows: Option<&'a FrozenBytes>,
    pub batches: Reader,
    pub features: Writer,
    /// The other ranks, if the feature table is divided among them.
    pub ranks: Option<&'a RankExchanges>,
    /// Feature slots on a GPU, if slots are on a GPU.
    pub device: Option<DeviceSetup>,
    /// Sampler `i` at index `i`.
    pub samplers: Vec<Peer>,
    pub consumer: Peer,
    /// Receives lines for people.
    pub note: &'a dyn Fn(&str),
}

/// The engine that moves the rows.
enum Gather<'a> {
    Host(SlotRows<'a>),
    Device(Box<DeviceGather<'a>>),
}

impl Gather<'_> {
    /// Announces the batches to come.
    fn expect(&mut self, layout: &BatchLayout, coming: &[ComingBatch<'_>]) {
        match self {
            Self::Host(rows) => rows.expect(layout, coming),
            Self::Device(device) => device.expect(layout, coming),
        }
    }

    /// Sends the other ranks their requested rows, for a batch that they have and this rank does not.
    fn serve(&mut self) -> Result<(), RuntimeError> {
        match self {
            Self::Host(rows) => rows.serve(),
            Self::Device(device) => device.serve(),
        }
    }

    /// Waits for a slot, until its peer has ended or the GPU has failed. A sampler on the same GPU can end with a
    /// failure after its receiver has ended. The consumer then waits for a gather that will not come, and the producer
    /// for the consumer's slot.
    fn watch<T>(
        &self,
        peer: impl Liveness,
        wait: impl FnOnce(&dyn Liveness) -> Result<T, RingError>,
    ) -> Result<T, RuntimeError> {
        let failed = RefCell::new(None);
        let watched = || {
            peer.check()?;
            let Self::Device(device) = self else { return Ok(()) };
            device.works().map_err(|error| {
                let gone = PeerGone::new(error.to_string());
                failed.replace(Some(error));
                gone
            })
        };
        let waited = wait(&watched);
        waited.map_err(|error| failed.take().unwrap_or_else(|| error.into()))
    }
}

impl ProducerRole<'_> {
    /// Gathers until the end is handed over.
    ///
    /// # Errors
    /// A sampler or the consumer that is gone; a stop; an id out of range.
    pub fn run(mut self) -> Result<(), RuntimeError> {
        let (plan, control) = (self.plan, self.control);
        let mut clock = StageClock::start(Arc::clone(control), PRODUCER);
        let tree = RowTree::of(plan);
        let mut gather = match self.device.take() {
            None => {
                let ids = self.cached_rows.map(|ids| bytemuck::cast_slice(ids.bytes()));
                let parts = HostParts::new(self.dataset, plan.options.gather_threads).with_chosen(ids);
                let parts = HostParts { ranks: self.ranks, ..parts }.copying(&tree);
                Gather::Host(SlotRows::new(&tree, &plan.layout, self.dataset, &parts)?)
            }
            Some(setup) => {
                let device = setup.open(plan, self.dataset, self.cached_rows, self.ranks)?;
                (self.note)(device.note());
                Gather::Device(Box::new(device))
            }
        };
        tracing::info!(
            threads = plan.options.gather_threads,
            on_gpu = matches!(gather, Gather::Device(_)),
            slots = plan.options.feature_slots,
            "ready to gather"
        );
        let ended = self.gather_all(&tree, &mut gather, &mut clock);
        control.note_memory(PRODUCER);
        clock.log_end();
        match (&ended, gather, &self.consumer) {
            // The GPU may wait forever for a consumer whose process is gone. A consumer that is a thread of this
            // process has recorded every event that a fill waits for, and the fills' resources are freed when they have
            // run.
            (Err(RuntimeError::PeerGone(_)), Gather::Device(device), Peer::Process { .. }) => {
                device.abandon()
            }
            (_, gather, _) => drop(gather),
        }
        ended
    }

    fn gather_all(
        &mut self,
        tree: &RowTree,
        gather: &mut Gather<'_>,
        clock: &mut StageClock,
    ) -> Result<(), RuntimeError> {
        let (plan, control) = (self.plan, self.control);
        let mut end = 0;
        let mut taken = TakenAhead::new(plan.look_ahead(), tree);
        let mut pace = BackPressure::new(plan.options.gather_threads, plan.options.feature_slots);
        for sequence in 0.. {
            control.note_position(PRODUCER, sequence);
            clock.now(Activity::WaitingInput);
            let sampler = &self.samplers[plan.options.sampler_of(sequence)];
            let sampler = sampler.watched(control, Stop::Now);
            let batch = match taken.next() {
                Some(batch) => batch,
                None => gather.watch(sampler, |watched| self.batches.acquire(sequence, watched))?,
            };
            // Before the wait for the consumer, during which rows are read, and after it, for batches that came meanwhile.
            taken.look(&mut self.batches, &batch, plan, |coming| gather.expect(&plan.layout, coming))?;
            // The batches that are handed over and that the consumer has neither used nor begun: it is at its position.
            let queue = (sequence.saturating_sub(1)).saturating_sub(control.position(CONSUMER));
            clock.now(Activity::WaitingOutput);
            let consumer = self.consumer.watched(control, Stop::Now);
            let mut slot = gather.watch(consumer, |watched| self.features.acquire(sequence, watched))?;
            clock.now(Activity::Working);
            taken.look(&mut self.batches, &batch, plan, |coming| gather.expect(&plan.layout, coming))?;
            let from = batch.payload();
            let mut header = plan
                .layout
                .read_header(from)
                .map_err(|what| RuntimeError::failed(format!("batch slot {}: {what}", batch.slot())))?;
            header.set_gather_began(since_boot());
            let is_void = self.ranks.is_some_and(|ranks| ranks.rows().left().is_some());
            if is_void && header.kind() == HandOver::Batch {
                header = BatchHeader::without_batch(HandOver::Skipped);
            }
            let length = match gather {
                // The other ranks may have a batch at this number.
                _ if header.kind() == HandOver::Skipped => {
                    if self.ranks.is_some() && !is_void {
                        or_left(gather.serve(), self.ranks)?;
                    }
                    plan.layout.header_bytes()
                }
                _ if header.kind() != HandOver::Batch => plan.layout.header_bytes(),
                Gather::Host(rows) => {
                    let threads = pace.follow(queue);
                    header.set_summed(sums_batch(plan, control, sequence, &header));
                    header.set_pace(queue as u32, threads);
                    let (layout, to) = (&plan.layout, slot.payload_mut());
                    for range in layout.copied(&header) {
                        to[range.clone()].copy_from_slice(&from[range]);
                    }
                    let filled = rows.fill(layout, &mut header, threads as usize, from, (to, 0));
                    match or_left(filled, self.ranks)? {
                        Some(()) => {
                            control.count_disk_reads(PRODUCER, rows.disk_reads());
                            layout.used_bytes(&header)
                        }
                        None => {
                            header = BatchHeader::without_batch(HandOver::Skipped);
                            plan.layout.header_bytes()
                        }
                    }
                }
                Gather::Device(device) => {
                    header.set_pace(queue as u32, 0);
                    let at = (batch.slot() as usize, from);
                    let filled = if plan.fits_slot(&header) {
                        device.fill(plan, sequence, &mut header, at).map(|()| 0)
                    } else {
                        let to = &mut slot.payload_mut()[plan.layout.header_bytes()..];
                        device.fill_aside(plan, sequence, &mut header, at, to)
                    };
                    match or_left(filled, self.ranks)? {
                        Some(bytes) => {
                            if bytes > 0 || device.works_on_host() {
                                header.set_gathered(since_boot());
                            }
                            count_disk_reads(control, device, &mut header);
                            plan.layout.header_bytes() + bytes
                        }
                        None => {
                            header = BatchHeader::without_batch(HandOver::Skipped);
                            plan.layout.header_bytes()
                        }
                    }
                }
            };
            header.write(slot.payload_mut());
            if header.kind() == HandOver::Batch {
                let (rows, to, from) = (header.nodes(), slot.slot(), batch.slot());
                let BatchKey { split, epoch, batch } = header.key();
                tracing::trace!(sequence, %split, epoch, batch, from, to, rows, queue, "gathered");
            }
            slot.publish(length as u64)?;
            batch.release()?;
            if let Gather::Device(device) = gather {
                clock.really(Activity::Working, device.finished()?);
            }
            if header.kind() == HandOver::End {
                end = sequence;
                break;
            }
        }
        if let Gather::Device(device) = &mut *gather {
            clock.really(Activity::Working, device.drain()?);
            // The consumer may still enqueue waits for the events of this producer. After it has returned the slot of
            // the end, which is then free for the sequence after it, it enqueues none.
            clock.now(Activity::WaitingOutput);
            let behind = end + plan.options.feature_slots as u64;
            let consumer = self.consumer.watched(control, Stop::Now);
            drop(gather.watch(consumer, |watched| self.features.acquire(behind, watched))?);
        }
        Ok(())
    }
}

/// The result for rows, or `None` if a rank has left. The rank's end is recorded: the consumer is notified when it
/// requests a batch that cannot be made, after it has used those that are ready.
fn or_left<T>(
    came: Result<T, RuntimeError>,
    ranks: Option<&RankExchanges>,
) -> Result<Option<T>, RuntimeError> {
    match (came, ranks) {
        (Err(RuntimeError::PeerGone(said)), Some(ranks)) => {
            ranks.rows().note_left(said.to_string());
            Ok(None)
        }
        (came, _) => came.map(Some),
    }
}

/// Records the disk reads for the rows of the batch of this header, if the CPU read them for a slot on a GPU.
fn count_disk_reads(control: &Control, device: &DeviceGather<'_>, header: &mut BatchHeader) {
    let read = device.disk_reads(header.nodes());
    header.set_disk(read.into());
    control.count_disk_reads(PRODUCER, read);
}
