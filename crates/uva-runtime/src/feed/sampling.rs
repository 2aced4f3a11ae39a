//! Samples any batch of a plan into a batch slot.

use std::sync::Arc;

use smallvec::SmallVec;
use uva_batch::{BatchHeader, Column, HandOver, pad};
use uva_graph::{Dataset, Split};
use uva_sample::{BatchKey, BatchMut, EpochOrder, Seeds};

use crate::feed::device::DeviceBatches;
use crate::plan::RunPlan;
use crate::sampler::cache::{Engine, SampledGraph};
use crate::sampler::order_making::epoch_order;
use crate::sampler::seed_lists::{SeedLists, SeedsOfType};
use crate::{RuntimeError, machine};

/// The state of a sampler for any batch, allocated once.
pub(crate) struct Sampling<'a> {
    dataset: &'a Dataset,
    plan: &'a RunPlan,
    graph: &'a SampledGraph<'a>,
    engine: Engine<'a>,
    on_device: Option<Arc<DeviceBatches>>,
    /// The orders of each split, of the epochs that were requested last.
    orders: [Vec<PreparedOrder>; 3],
    /// The seeds of each split.
    lists: [SeedLists<'a>; 3],
    /// Those of the batch, of each node type.
    seeds: Vec<SeedsOfType>,
}

impl<'a> Sampling<'a> {
    /// Creates the state for batches of this plan.
    pub fn new(
        dataset: &'a Dataset,
        plan: &'a RunPlan,
        graph: &'a SampledGraph<'a>,
        engine: Engine<'a>,
        on_device: Option<Arc<DeviceBatches>>,
    ) -> Result<Self, RuntimeError> {
        let lists = |split| SeedLists::of(graph, dataset, &plan.options, split);
        let order = |split| Ok::<_, RuntimeError>(vec![PreparedOrder::of(dataset, plan, split)?]);
        Ok(Self {
            dataset,
            plan,
            graph,
            engine,
            on_device,
            orders: [order(Split::Train)?, order(Split::Valid)?, order(Split::Test)?],
            lists: [lists(Split::Train)?, lists(Split::Valid)?, lists(Split::Test)?],
            seeds: vec![SeedsOfType::default(); dataset.metagraph().type_count()],
        })
    }

    /// Keeps the orders of two epochs, for ranks of which one begins an epoch while another ends the previous one.
    /// Otherwise each batch would replace the order of the other epoch.
    pub fn keep_two_epochs(&mut self) -> Result<(), RuntimeError> {
        for split in Split::ALL {
            self.orders[split as usize].push(PreparedOrder::of(self.dataset, self.plan, split)?);
        }
        Ok(())
    }

    /// Samples like [`sample`](Self::sample). Without a key it draws the picks that other ranks request in their batch.
    pub fn sample_or_serve(
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

    /// Samples a batch into the payload of a batch slot, and to that slot's place on the device if there is one.
    pub fn sample(
        &mut self,
        key: BatchKey,
        slot: usize,
        payload: &mut [u8],
    ) -> Result<BatchHeader, RuntimeError> {
        let orders = &mut self.orders[key.split as usize];
        // A missing epoch replaces the earliest.
        let kept = orders.iter().position(|order| order.epoch == Some(key.epoch));
        let earliest = (0..orders.len()).min_by_key(|at| orders[*at].epoch);
        let order = orders[kept.or(earliest).unwrap_or(0)].for_epoch(key.epoch)?;
        self.lists[key.split as usize].divide(order.batch(key.batch as usize), &mut self.seeds);
        let mut columns = self.plan.layout.columns_mut(payload);
        let types = || self.dataset.metagraph().types();
        for (of, seeds) in types().zip(&self.seeds) {
            let input_id: &mut [i64] = columns.take(Column::InputId.of(of));
            input_id.iter_mut().zip(&seeds.positions).for_each(|(to, position)| *to = *position);
            let seed_time: &mut [i64] = columns.take(Column::SeedTime.of(of));
            seed_time.iter_mut().zip(&seeds.times).for_each(|(to, time)| *to = *time);
        }
        let labels_out: SmallVec<[&mut [u8]; 8]> =
            types().map(|of| columns.take(Column::Labels.of(of))).collect();
        let seeds: SmallVec<[&[i64]; 8]> = self.seeds.iter().map(|seeds| &seeds.ids[..]).collect();
        let times: SmallVec<[&[i64]; 8]> = self.seeds.iter().map(|seeds| &seeds.times[..]).collect();
        let counts = match &self.on_device {
            Some(batches) => {
                let counts = self.engine.sample_to(self.graph, key, seeds[0], &batches.place(slot))?;
                let header = BatchHeader::of_batch(key, &counts);
                let mut parts = batches.for_host(slot, &header, &mut columns);
                if !parts.is_empty() {
                    self.engine.read_back(self.graph, batches.memory(), &mut parts)?;
                }
                counts
            }
            None => {
                let degrees: &mut [i32] = columns.take(Column::Degrees);
                let (mut nodes, mut blocks) = (columns.take_nodes(), columns.take_blocks());
                let mut trees = columns.take_trees();
                let mut out = BatchMut { nodes: &mut nodes, blocks: &mut blocks, trees: &mut trees };
                let seeds = Seeds { ids: &seeds, times: &times };
                self.engine.sample(self.graph, key, seeds, &mut out, degrees)?
            }
        };
        drop((columns, seeds, times));
        for ((of, seeds), labels_out) in types().zip(&mut self.seeds).zip(labels_out) {
            // The first nodes of the batch, in any memory.
            self.graph.to_dataset_ids(&mut seeds.ids);
            let labels = self.dataset.labels_of(of);
            let (label_bytes, row) = (labels.bytes(), labels.row_bytes());
            // Without labels there is no column, and a row has zero bytes.
            for (to, seed) in labels_out.chunks_exact_mut(row.max(1)).zip(&seeds.ids) {
                let from = *seed as usize * row;
                to.copy_from_slice(&label_bytes[from..from + row]);
            }
        }
        let mut header = BatchHeader::of_batch(key, &counts);
        if let Some(shapes) = self.plan.layout.shapes() {
            let padding = shapes.padding(&counts);
            pad(&self.plan.layout, payload, padding.as_ref(), &counts);
            if padding.is_some() {
                header.set_padded(&shapes.counts());
            }
        }
        self.write_edge_types(&header, payload)?;
        Ok(header)
    }

    /// Writes the type of each edge of the batch of this header, by its place in the dataset. An edge of padding has that
    /// of the place that it was given.
    fn write_edge_types(&self, header: &BatchHeader, payload: &mut [u8]) -> Result<(), RuntimeError> {
        let types = self.dataset.edge_types().filter(|_| self.plan.options.edge_type);
        let Some(types) = types else { return Ok(()) };
        let mut columns = self.plan.layout.columns_mut(payload);
        for layer in 0..self.plan.layout.layers() {
            let column: &mut [u16] = columns.take(Column::EdgeType.at(layer));
            let edges: &[i64] = columns.take(Column::EdgeIds.at(layer));
            for (to, edge) in column.iter_mut().zip(&edges[..header.layer(layer).edges.min(edges.len())]) {
                *to = *types.get(*edge as usize).ok_or_else(|| {
                    RuntimeError::failed(format!("edge_type.npy: it has no entry {edge}, which was sampled"))
                })?;
            }
        }
        Ok(())
    }
}

/// A hand-over if no batch is due, or none can be made.
pub(crate) fn skipped() -> BatchHeader {
    BatchHeader::without_batch(HandOver::Skipped)
}

/// The order of a split, with the epoch that it is prepared for.
struct PreparedOrder {
    order: EpochOrder,
    epoch: Option<u32>,
}

impl PreparedOrder {
    fn of(dataset: &Dataset, plan: &RunPlan, split: Split) -> Result<Self, RuntimeError> {
        Ok(Self { order: epoch_order(dataset, &plan.options, split)?, epoch: None })
    }

    fn for_epoch(&mut self, epoch: u32) -> Result<&EpochOrder, RuntimeError> {
        if self.epoch != Some(epoch) {
            if self.order.uses_threads() {
                machine::start_threads()?;
            }
            self.order.prepare(epoch)?;
            self.epoch = Some(epoch);
        }
        Ok(&self.order)
    }
}
