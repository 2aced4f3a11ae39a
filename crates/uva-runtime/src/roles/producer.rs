//! The producer: feature rows of each batch's nodes into feature slots.

use std::sync::Arc;

use uva_gather::{HostGather, RowGather};
use uva_graph::Dataset;
use uva_mem::ring::{Reader, Writer};

use super::Peer;
use crate::RuntimeError;
use crate::batch::{BatchHeader, Kind};
use crate::control::{Control, PRODUCER, Stop};
use crate::plan::RunPlan;
use crate::stage::{Doing, StageClock};

/// The one producer: it takes the batches in order, whichever sampler made them.
pub(crate) struct ProducerRole<'a> {
    pub dataset: &'a Dataset,
    pub plan: &'a RunPlan,
    pub control: &'a Arc<Control>,
    pub batches: Reader,
    pub features: Writer,
    /// Sampler `i` at place `i`.
    pub samplers: Vec<Peer>,
    pub consumer: Peer,
}

impl ProducerRole<'_> {
    /// Gathers until the end is handed over.
    ///
    /// # Errors
    /// A sampler or the consumer that is gone, a stop, an id out of range.
    pub fn run(mut self) -> Result<(), RuntimeError> {
        let (layout, control) = (&self.plan.layout, self.control);
        let mut clock = StageClock::start(Arc::clone(control), PRODUCER);
        let table = self.dataset.features();
        let mut gather = HostGather::new(table.bytes, table.row_bytes(), self.plan.options.gather_threads)
            .map_err(|error| RuntimeError::Failed(error.to_string()))?;
        for sequence in 0.. {
            control.note_position(PRODUCER, sequence);
            clock.now(Doing::WaitingInput);
            let sampler = &self.samplers[(sequence % self.samplers.len() as u64) as usize];
            let batch = self.batches.acquire(sequence, &sampler.watched(control, Stop::Now))?;
            clock.now(Doing::WaitingOutput);
            let mut slot = self.features.acquire(sequence, &self.consumer.watched(control, Stop::Now))?;
            clock.now(Doing::Working);
            let began = std::time::Instant::now();
            let from = batch.payload();
            let mut header = BatchHeader::read(from, layout)
                .map_err(|what| RuntimeError::Failed(format!("batch slot {}: {what}", batch.slot())))?;
            let to = slot.payload_mut();
            let length = if header.kind() == Kind::Batch {
                for range in layout.used(&header) {
                    to[range.clone()].copy_from_slice(&from[range]);
                }
                let features = layout.features_range(&header);
                let length = features.end;
                let nodes: &[i64] = bytemuck::cast_slice(&from[layout.nodes_range(&header)]);
                gather
                    .gather(nodes, &mut to[features])
                    .map_err(|error| RuntimeError::Failed(format!("feat.npy: {error}")))?;
                header.set_gather_ns(began.elapsed().as_nanos() as u64);
                length
            } else {
                BatchHeader::BYTES
            };
            header.write(to);
            slot.publish(length as u64)?;
            batch.release()?;
            if header.kind() == Kind::End {
                break;
            }
        }
        Ok(())
    }
}
