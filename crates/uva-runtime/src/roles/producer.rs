//! The producer: gathers the feature rows of each batch's nodes, and of its edges where asked for, into feature slots.

use std::sync::Arc;

use uva_batch::{BatchHeader, BatchLayout, Column, HandOver};
use uva_graph::Dataset;
use uva_mem::FrozenBytes;
use uva_mem::ring::{Reader, Writer};
use uva_rows::{
    Cached, CachedRows, EvictingRows, GatherError, HostPlace, HostSource, InMemory, Mapped, NarrowFloat,
    RowCache, Widened,
};
use uva_sample::BatchKey;

use super::BackPressure;
use crate::RuntimeError;
use crate::cache::Caches;
use crate::clock::since_boot;
use crate::control::{CONSUMER, Control, PRODUCER, Stop};
use crate::device::{DeviceGather, DeviceSetup};
use crate::edge_rows::EdgeRows;
use crate::peer::Peer;
use crate::plan::RunPlan;
use crate::stage::{Doing, StageClock};
use crate::widening::narrow_float;

/// The one producer: it takes the batches in order, from any sampler.
pub(crate) struct ProducerRole<'a> {
    pub dataset: &'a Arc<Dataset>,
    pub plan: &'a RunPlan,
    pub control: &'a Arc<Control>,
    /// The ids of the rows in the feature cache; `None` without a cache, and for one that changes during the run.
    pub cached_rows: Option<&'a FrozenBytes>,
    pub batches: Reader,
    pub features: Writer,
    /// Feature slots on a GPU, if they are there.
    pub device: Option<DeviceSetup>,
    /// Sampler `i` at index `i`.
    pub samplers: Vec<Peer>,
    pub consumer: Peer,
    /// Receives lines for people.
    pub note: &'a dyn Fn(&str),
}

/// The engine that moves the rows.
enum Gather<'a> {
    Host(Box<dyn HostSource + 'a>, Option<EdgeRows>),
    Device(Box<DeviceGather>),
}

impl ProducerRole<'_> {
    /// Gathers until the end is handed over.
    ///
    /// # Errors
    /// A sampler or the consumer that is gone; a stop; an id out of range.
    pub fn run(mut self) -> Result<(), RuntimeError> {
        let (plan, control) = (self.plan, self.control);
        let mut clock = StageClock::start(Arc::clone(control), PRODUCER);
        let mut gather = match self.device.take() {
            None => {
                let (layout, threads) = (&plan.layout, plan.options.gather_threads);
                let rows = source_on_host(self.dataset, layout, threads, &plan.caches, self.cached_rows)?;
                Gather::Host(rows, EdgeRows::new(self.dataset, layout, threads)?)
            }
            Some(setup) => {
                let device = setup.open(plan, self.dataset, self.cached_rows)?;
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
        let ended = self.gather_all(&mut gather, &mut clock);
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

    fn gather_all(&mut self, gather: &mut Gather<'_>, clock: &mut StageClock) -> Result<(), RuntimeError> {
        let (plan, control) = (self.plan, self.control);
        let mut end = 0;
        let mut pace = BackPressure::new(plan.options.gather_threads, plan.options.feature_slots);
        for sequence in 0.. {
            control.note_position(PRODUCER, sequence);
            clock.now(Doing::WaitingInput);
            let sampler = &self.samplers[(sequence % self.samplers.len() as u64) as usize];
            let batch = self.batches.acquire(sequence, &sampler.watched(control, Stop::Now))?;
            // The batches handed over that the consumer has neither used nor begun: it is at its position.
            let queue = (sequence.saturating_sub(1)).saturating_sub(control.position(CONSUMER));
            clock.now(Doing::WaitingOutput);
            let mut slot = self.features.acquire(sequence, &self.consumer.watched(control, Stop::Now))?;
            clock.now(Doing::Working);
            let from = batch.payload();
            let mut header = plan
                .layout
                .read_header(from)
                .map_err(|what| RuntimeError::Failed(format!("batch slot {}: {what}", batch.slot())))?;
            header.set_gather_began(since_boot());
            let length = match gather {
                _ if header.kind() != HandOver::Batch => BatchHeader::BYTES,
                Gather::Host(host, edges) => {
                    let threads = pace.follow(queue);
                    header.set_pace(queue as u32, threads);
                    let (threads, to) = (threads as usize, slot.payload_mut());
                    if let Some(edges) = edges {
                        for (layer, range) in EdgeRows::ranges(&plan.layout, &header).enumerate() {
                            let place = HostPlace { out: &mut to[range], threads };
                            edges.fill(&plan.layout, &header, layer, from, place)?;
                        }
                    }
                    fill_on_host(plan, &mut **host, threads, &mut header, from, to)?
                }
                Gather::Device(device) => {
                    header.set_pace(queue as u32, 0);
                    device.fill(plan, sequence, &header, (batch.slot() as usize, from))?;
                    BatchHeader::BYTES
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
                clock.really(Doing::Working, device.finished()?);
            }
            if header.kind() == HandOver::End {
                end = sequence;
                break;
            }
        }
        if let Gather::Device(device) = gather {
            clock.really(Doing::Working, device.drain()?);
            // The consumer may still enqueue waits for our events. It has none left once it gives back the slot of the
            // end, which is then free for the sequence after it.
            clock.now(Doing::WaitingOutput);
            let behind = end + plan.options.feature_slots as u64;
            drop(self.features.acquire(behind, &self.consumer.watched(control, Stop::Now))?);
        }
        Ok(())
    }
}

/// The source of rows for slots of this layout in host memory. It has a cache of the table's rows where the run has
/// one: of the rows with these ids, or one that evicts.
pub(crate) fn source_on_host<'d>(
    dataset: &'d Dataset,
    layout: &BatchLayout,
    threads: usize,
    caches: &Caches,
    cached_rows: Option<&FrozenBytes>,
) -> Result<Box<dyn HostSource + 'd>, RuntimeError> {
    let table = dataset.features();
    let row_bytes = table.row_bytes();
    let failed = |error: GatherError| match error {
        GatherError::Threads { .. } => RuntimeError::Missing(format!("--gather-threads: {error}")),
        _ => RuntimeError::Failed(format!("feat.npy: {error}")),
    };
    let rows = Mapped::new(table.bytes, row_bytes, threads).map_err(failed)?;
    let cache: Option<RowCache> = match (cached_rows, caches.dynamic) {
        (Some(ids), _) => {
            let ids: &[i64] = bytemuck::cast_slice(ids.bytes());
            Some(CachedRows::new(table.bytes, row_bytes, ids, threads).map_err(failed)?.into())
        }
        (None, Some(policy)) => {
            Some(EvictingRows::new(policy, table.rows, row_bytes, caches.rows).map_err(failed)?.into())
        }
        (None, None) => None,
    };
    let narrow = narrow_float(layout.widened_from());
    match cache {
        None => as_asked_for(rows, narrow),
        Some(cache) => Cached::in_memory(rows, cache).and_then(|rows| as_asked_for(rows, narrow)),
    }
    .map_err(failed)
}

/// The rows unchanged, or widened.
pub(crate) fn as_asked_for<'d>(
    rows: impl InMemory + HostSource + 'd,
    narrow: Option<NarrowFloat>,
) -> Result<Box<dyn HostSource + 'd>, GatherError> {
    Ok(match narrow {
        None => Box::new(rows),
        Some(narrow) => Box::new(Widened::new(rows, narrow)?),
    })
}

/// Copies a batch's arrays and gathers its rows into a slot in host memory. Returns the slot's length.
fn fill_on_host(
    plan: &RunPlan,
    source: &mut dyn HostSource,
    threads: usize,
    header: &mut BatchHeader,
    from: &[u8],
    to: &mut [u8],
) -> Result<usize, RuntimeError> {
    let layout = &plan.layout;
    for range in layout.copied(header) {
        to[range.clone()].copy_from_slice(&from[range]);
    }
    let features = layout.range(header, Column::X, 0);
    let length = features.end;
    let nodes: &[i64] = bytemuck::cast_slice(&from[layout.range(header, Column::InputNodes, 0)]);
    let read = source
        .fill(nodes, HostPlace { out: &mut to[features], threads })
        .map_err(|error| RuntimeError::Failed(format!("feat.npy: {error}")))?;
    header.set_rows_cached(read.hits());
    header.set_gathered(since_boot());
    Ok(length)
}
