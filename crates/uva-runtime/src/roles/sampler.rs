//! The sampler: writes seeds and their neighbourhoods into batch slots. Of a hop set there are no neighbours: it writes which
//! rows a batch has.

use std::sync::Arc;

use uva_batch::{BatchHeader, Column, HandOver, pad};
use uva_graph::{Dataset, Split};
use uva_mem::FrozenBytes;
use uva_mem::ring::Writer;
use uva_sample::{BatchKey, BatchMut, EpochOrder};

use crate::RuntimeError;
use crate::cache::{Engine, OnGpu, SampledGraph};
use crate::clock::since_boot;
use crate::control::{Control, FIRST_SAMPLER, Stop};
use crate::device::DeviceBatches;
use crate::hop_rows::HopSampling;
use crate::lane::Lane;
use crate::machine;
use crate::order_making::epoch_order;
use crate::peer::Peer;
use crate::plan::RunPlan;
use crate::ranks::Ranks;
use crate::schedule::Item;
use crate::stage::{Doing, StageClock};

/// Writes a batch into a slot of this number and with this payload. Without a key there is none on this rank, and others may
/// ask for picks of theirs.
type Sample<'s> = dyn FnMut(Option<BatchKey>, usize, &mut [u8]) -> Result<BatchHeader, RuntimeError> + 's;

/// One of `W` samplers. It makes the batches whose sequence number equals its own index modulo `W`.
pub(crate) struct SamplerRole<'a> {
    pub index: usize,
    pub dataset: &'a Arc<Dataset>,
    pub plan: &'a RunPlan,
    pub control: &'a Arc<Control>,
    /// The other ranks, where the feature table is divided among them.
    pub ranks: Option<&'a Ranks>,
    /// The graph in the order of the list cache, where a list cache needs one and the dataset's own order does not
    /// serve.
    pub reordered: Option<Arc<FrozenBytes>>,
    /// The lane of the GPU to sample on; `None`: sample on the CPU.
    pub gpu: Option<Lane>,
    /// Where its batches stay on that GPU; `None`: they go to the batch slots.
    pub on_device: Option<Arc<DeviceBatches>>,
    pub batches: Writer,
    pub producer: Peer,
}

impl SamplerRole<'_> {
    /// Samples until the end of the schedule.
    ///
    /// # Errors
    /// A batch larger than its slot; a producer that is gone; a stop.
    pub fn run(mut self) -> Result<(), RuntimeError> {
        let mut clock = StageClock::start(Arc::clone(self.control), FIRST_SAMPLER + self.index);
        let ended = self.sample_all(&mut clock);
        clock.log_end();
        ended
    }

    fn sample_all(&mut self, clock: &mut StageClock) -> Result<(), RuntimeError> {
        let plan = self.plan;
        if plan.options.pin_samplers {
            // Threads of the shuffle would otherwise inherit the one core.
            machine::start_threads()?;
            machine::pin_to_core(plan.options.number_of_all(self.index))?;
        }
        if let (Some(hops), Some(batches)) = (self.dataset.hops(), &plan.options.hops) {
            let mut sampling = HopSampling::new(self.dataset, hops, plan, batches)?;
            return self.hand_over(clock, &mut |key, _, payload| match key {
                Some(key) => sampling.sample(key, payload),
                None => Ok(skipped()),
            });
        }
        let (reordered, gpu) = (self.reordered.take(), self.gpu.take());
        let graph = SampledGraph::new(self.dataset, reordered.as_ref().map(|bytes| bytes.bytes()))?;
        let among = self.ranks.and_then(|ranks| Some((ranks, ranks.lists()?)));
        let engine = match (&gpu, plan.backend.gpu_sampler(), among) {
            (Some(lane), Some(cuda), _) => {
                let (dataset, reordered) = (self.dataset, reordered.as_ref());
                let at = OnGpu { lane, cuda, dataset, reordered, own_batch: self.on_device.is_none() };
                Engine::on_gpu(&at, &graph, &plan.options, plan.layout.bounds(), &plan.caches)?
            }
            (_, _, Some((ranks, link))) => {
                let lists = Ranks::divided(self.dataset, link.take()?)?.telling(ranks.shared_list_counts());
                Engine::on_divided(self.dataset, &graph, &plan.options, lists)?
            }
            _ => Engine::on_host(self.dataset, &graph, &plan.options, &plan.caches)?,
        };
        let on_device = self.on_device.clone();
        let mut sampling = Sampling::new(self.dataset, plan, &graph, engine, on_device)?;
        let ended = self.hand_over(clock, &mut |key, slot, payload| match among {
            // The batch cannot be made, and none that comes behind it.
            Some((_, link)) if link.left().is_some() => Ok(skipped()),
            Some((_, link)) => match sampling.sample_or_serve(key, slot, payload) {
                Err(RuntimeError::PeerGone(said)) => {
                    link.note_left(said);
                    Ok(skipped())
                }
                sampled => sampled,
            },
            None => sampling.sample_or_serve(key, slot, payload),
        });
        let is_failure =
            |error: &RuntimeError| !matches!(error, RuntimeError::PeerGone(_) | RuntimeError::Interrupted(_));
        if let (Some((_, link)), true) = (among, ended.as_ref().is_err_and(is_failure)) {
            link.cancel();
        }
        ended
    }

    /// Makes its batches one after the other.
    fn hand_over(&mut self, clock: &mut StageClock, sample: &mut Sample<'_>) -> Result<(), RuntimeError> {
        let (plan, control, place) = (self.plan, self.control, FIRST_SAMPLER + self.index);
        tracing::info!(
            index = self.index,
            of = plan.options.samplers,
            on_gpu = self.plan.backend.gpu_sampler().is_some(),
            "ready to sample"
        );
        let stride = plan.options.samplers as u64;
        for sequence in (self.index as u64..).step_by(stride as usize) {
            control.note_position(place, sequence);
            clock.now(Doing::WaitingOutput);
            let watched = self.producer.watched(control, Stop::Now);
            let mut slot = self.batches.acquire(sequence, &watched)?;
            clock.now(Doing::Working);
            // Only now: a turn that affects this sequence became visible with the slot (`schedule`).
            let turn = control.turn();
            let (header, length) = match plan.schedule.item(sequence, turn) {
                Item::Batch(key) => {
                    let began = since_boot();
                    let number = slot.slot() as usize;
                    let mut header = sample(Some(key), number, slot.payload_mut())?;
                    let ended = since_boot();
                    if header.kind() == HandOver::Batch {
                        header.set_sampled(self.index as u32, began, ended);
                        let microseconds = (ended - began).as_micros() as u64;
                        let BatchKey { split, epoch, batch } = key;
                        tracing::trace!(sequence, %split, epoch, batch, slot = slot.slot(), microseconds, "sampled");
                    }
                    (header, plan.layout.batch_bytes())
                }
                Item::Skipped | Item::Beside(_) => {
                    (sample(None, slot.slot() as usize, slot.payload_mut())?, BatchHeader::BYTES)
                }
                Item::End if plan.schedule.end(turn) == Some(sequence) => {
                    (BatchHeader::without_batch(HandOver::End), BatchHeader::BYTES)
                }
                // Another sampler hands over the end, or this one already has.
                Item::End => break,
            };
            header.write(slot.payload_mut());
            slot.publish(length as u64)?;
        }
        control.note_memory(place);
        Ok(())
    }
}

/// A hand-over where no batch is due, or none can be made.
fn skipped() -> BatchHeader {
    BatchHeader::without_batch(HandOver::Skipped)
}

/// The state of a sampler: everything it needs for any batch, allocated once.
pub(crate) struct Sampling<'a> {
    dataset: &'a Dataset,
    plan: &'a RunPlan,
    graph: &'a SampledGraph<'a>,
    engine: Engine<'a>,
    on_device: Option<Arc<DeviceBatches>>,
    /// The order of each split, and the epoch that it is prepared for.
    orders: [EpochOrder; 3],
    prepared: [Option<u32>; 3],
    seeds: Vec<i64>,
}

impl<'a> Sampling<'a> {
    /// For batches of this plan.
    pub fn new(
        dataset: &'a Dataset,
        plan: &'a RunPlan,
        graph: &'a SampledGraph<'a>,
        engine: Engine<'a>,
        on_device: Option<Arc<DeviceBatches>>,
    ) -> Result<Self, RuntimeError> {
        let options = &plan.options;
        let order = |split| epoch_order(dataset, options, split);
        Ok(Self {
            dataset,
            plan,
            graph,
            engine,
            on_device,
            orders: [order(Split::Train)?, order(Split::Valid)?, order(Split::Test)?],
            prepared: [None; 3],
            seeds: Vec::with_capacity(options.batch_size),
        })
    }

    /// As [`sample`](Self::sample). Without a key it draws what other ranks ask for in their batch.
    fn sample_or_serve(
        &mut self,
        key: Option<BatchKey>,
        slot: usize,
        payload: &mut [u8],
    ) -> Result<BatchHeader, RuntimeError> {
        match key {
            Some(key) => self.sample(key, slot, payload),
            None => self.engine.serve().map(|()| skipped()),
        }
    }

    /// Samples a batch into the payload of a batch slot, and to that slot's place on the device where there is one.
    pub fn sample(
        &mut self,
        key: BatchKey,
        slot: usize,
        payload: &mut [u8],
    ) -> Result<BatchHeader, RuntimeError> {
        let order = &mut self.orders[key.split as usize];
        let prepared = &mut self.prepared[key.split as usize];
        if *prepared != Some(key.epoch) {
            if order.uses_threads() {
                machine::start_threads()?;
            }
            order.prepare(key.epoch)?;
            *prepared = Some(key.epoch);
        }
        let split = self.graph.split(key.split);
        let positions = order.batch(key.batch as usize);
        self.seeds.clear();
        self.seeds.extend(positions.iter().map(|position| split[*position as usize]));
        let mut columns = self.plan.layout.columns_mut(payload);
        let input_id: &mut [i64] = columns.take(Column::InputId, 0);
        input_id.iter_mut().zip(positions).for_each(|(to, position)| *to = i64::from(*position));
        let labels_out: &mut [u8] = columns.take(Column::Labels, 0);
        let counts = match &self.on_device {
            Some(batches) => {
                let counts = self.engine.sample_to(self.graph, key, &self.seeds, &batches.place(slot))?;
                let header = BatchHeader::of_batch(key, &counts);
                let mut parts = batches.for_host(slot, &header, &mut columns);
                if !parts.is_empty() {
                    self.engine.read_back(self.graph, batches.memory(), &mut parts)?;
                }
                counts
            }
            None => {
                let degrees: &mut [i32] = columns.take(Column::Degrees, 0);
                let nodes: &mut [i64] = columns.take(Column::InputNodes, 0);
                let mut blocks = columns.take_blocks();
                let mut out = BatchMut { nodes, layers: &mut blocks[..self.plan.layout.layers().len()] };
                self.engine.sample(self.graph, key, &self.seeds, &mut out, degrees)?
            }
        };
        // The first nodes of the batch, wherever that is.
        self.graph.to_dataset_ids(&mut self.seeds);
        let labels = self.dataset.labels();
        let (label_bytes, row) = (labels.bytes(), labels.row_bytes());
        // Without labels there is no column, and a row has no bytes.
        for (to, seed) in labels_out.chunks_exact_mut(row.max(1)).zip(&self.seeds) {
            let from = *seed as usize * row;
            to.copy_from_slice(&label_bytes[from..from + row]);
        }
        let mut header = BatchHeader::of_batch(key, &counts);
        if let Some(shapes) = self.plan.layout.shapes() {
            let padding = shapes.padding(&counts);
            pad(&self.plan.layout, payload, padding.as_ref(), counts.seeds);
            if padding.is_some() {
                header.set_padded(&shapes.counts());
            }
        }
        Ok(header)
    }
}
