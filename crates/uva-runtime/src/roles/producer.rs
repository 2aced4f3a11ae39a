//! The producer: feature rows of each batch's nodes into feature slots.

use std::sync::Arc;
use std::time::Instant;

use uva_gather::{HostGather, RowGather};
use uva_graph::Dataset;
use uva_mem::ring::{Reader, Writer};

use super::Peer;
use crate::RuntimeError;
use crate::batch::{BatchHeader, Kind};
use crate::control::{Control, PRODUCER, Stop};
use crate::device::{DeviceGather, DeviceSetup};
use crate::plan::RunPlan;
use crate::stage::{Doing, StageClock};

/// The one producer: it takes the batches in order, whichever sampler made them.
pub(crate) struct ProducerRole<'a> {
    pub dataset: &'a Arc<Dataset>,
    pub plan: &'a RunPlan,
    pub control: &'a Arc<Control>,
    pub batches: Reader,
    pub features: Writer,
    /// Feature slots on a GPU, where they are.
    pub device: Option<DeviceSetup>,
    /// Sampler `i` at place `i`.
    pub samplers: Vec<Peer>,
    pub consumer: Peer,
    /// Told what a person may want to know.
    pub note: &'a dyn Fn(&str),
}

/// Who moves the rows.
enum Gather<'a> {
    Host(HostGather<'a>),
    Device(Box<DeviceGather>),
}

impl ProducerRole<'_> {
    /// Gathers until the end is handed over.
    ///
    /// # Errors
    /// A sampler or the consumer that is gone, a stop, an id out of range.
    pub fn run(mut self) -> Result<(), RuntimeError> {
        let (plan, control) = (self.plan, self.control);
        let mut clock = StageClock::start(Arc::clone(control), PRODUCER);
        let mut gather = match self.device.take() {
            None => {
                let table = self.dataset.features();
                let host = HostGather::new(table.bytes, table.row_bytes(), plan.options.gather_threads);
                Gather::Host(host.map_err(|error| RuntimeError::Failed(error.to_string()))?)
            }
            Some(setup) => {
                let device = setup.open(plan, self.dataset)?;
                (self.note)(device.note());
                Gather::Device(Box::new(device))
            }
        };
        let ended = self.gather_all(&mut gather, &mut clock);
        match (&ended, gather, &self.consumer) {
            // The GPU may wait for ever for a consumer whose process has gone. Of one that is a thread of this process
            // every event has been recorded that a fill waits for, and what the fills use is freed when they have run.
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
        for sequence in 0.. {
            control.note_position(PRODUCER, sequence);
            clock.now(Doing::WaitingInput);
            let sampler = &self.samplers[(sequence % self.samplers.len() as u64) as usize];
            let batch = self.batches.acquire(sequence, &sampler.watched(control, Stop::Now))?;
            clock.now(Doing::WaitingOutput);
            let mut slot = self.features.acquire(sequence, &self.consumer.watched(control, Stop::Now))?;
            clock.now(Doing::Working);
            let from = batch.payload();
            let mut header = BatchHeader::read(from, &plan.layout)
                .map_err(|what| RuntimeError::Failed(format!("batch slot {}: {what}", batch.slot())))?;
            let length = match gather {
                _ if header.kind() != Kind::Batch => BatchHeader::BYTES,
                Gather::Host(host) => fill_on_host(plan, host, &mut header, from, slot.payload_mut())?,
                Gather::Device(device) => {
                    device.fill(plan, sequence, &header, from)?;
                    BatchHeader::BYTES
                }
            };
            header.write(slot.payload_mut());
            slot.publish(length as u64)?;
            batch.release()?;
            if let Gather::Device(device) = gather {
                clock.really(Doing::Working, device.finished()?);
            }
            if header.kind() == Kind::End {
                end = sequence;
                break;
            }
        }
        if let Gather::Device(device) = gather {
            clock.really(Doing::Working, device.drain()?);
            // The consumer may still have waits for our events to enqueue: it has none left when it gives back the slot
            // of the end, which then is free for the sequence behind it.
            clock.now(Doing::WaitingOutput);
            let behind = end + plan.options.feature_slots as u64;
            drop(self.features.acquire(behind, &self.consumer.watched(control, Stop::Now))?);
        }
        Ok(())
    }
}

/// Copies a batch's arrays and gathers its rows into a slot in host memory. Returns the slot's length.
fn fill_on_host(
    plan: &RunPlan,
    gather: &mut HostGather<'_>,
    header: &mut BatchHeader,
    from: &[u8],
    to: &mut [u8],
) -> Result<usize, RuntimeError> {
    let began = Instant::now();
    let layout = &plan.layout;
    for range in layout.used(header) {
        to[range.clone()].copy_from_slice(&from[range]);
    }
    let features = layout.features_range(header);
    let length = features.end;
    let nodes: &[i64] = bytemuck::cast_slice(&from[layout.nodes_range(header)]);
    gather
        .gather(nodes, &mut to[features])
        .map_err(|error| RuntimeError::Failed(format!("feat.npy: {error}")))?;
    header.set_gather_ns(began.elapsed().as_nanos() as u64);
    Ok(length)
}
