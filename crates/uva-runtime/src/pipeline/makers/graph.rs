//! Batches that are sampled in a graph.

use std::sync::Arc;

use uva_batch::BatchHeader;
use uva_graph::reorder::ReorderedLayout;
use uva_graph::{Dataset, RandomValues};
use uva_mem::FrozenBytes;
use uva_sample::BatchKey;

use super::maker::{BatchMaker, SampleBatch, SamplerParts, WorkerBatches, WorkerParts};
use crate::RuntimeError;
use crate::control::Control;
use crate::feed::ranks::RankExchanges;
use crate::feed::rows::{ChosenRows, HostParts, RowTree, SlotRows};
use crate::feed::sampling::{Sampling, skipped};
use crate::machine::memory::{MemoryKind, MemoryLine};
use crate::plan::RunPlan;
use crate::sampler::cache::{Engine, OnGpu, SampledGraph};
use crate::tune::sums_chooser::sums_batch;

/// The maker of batches of this plan from the graph and the features of a dataset.
pub(super) struct GraphMaker<'a> {
    pub dataset: &'a Dataset,
    pub plan: &'a RunPlan,
}

impl BatchMaker for GraphMaker<'_> {
    fn sample(
        &self,
        parts: SamplerParts<'_>,
        hand_over: &mut dyn FnMut(&mut SampleBatch<'_>) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        let plan = self.plan;
        let SamplerParts { dataset, ranks, reordered, gpu, on_device, serves_ranks } = parts;
        let graph = SampledGraph::new(dataset, reordered.as_ref().map(|bytes| bytes.bytes()))?;
        let among = ranks.and_then(|ranks| Some((ranks, ranks.lists()?)));
        let engine = match (&gpu, plan.backend.gpu_sampler(), among) {
            (Some(lane), Some(cuda), _) => {
                let reordered = reordered.as_ref();
                let at = OnGpu { lane, cuda, dataset, reordered, own_batch: on_device.is_none() };
                Engine::on_gpu(&at, &graph, &plan.options, plan.layout.bounds(), &plan.caches)?
            }
            (_, _, Some((ranks, link))) => {
                let lists =
                    RankExchanges::divided(dataset, link.take()?)?.telling(ranks.shared_list_counts());
                Engine::on_divided(dataset, &graph, &plan.options, lists)?
            }
            _ => Engine::on_host(dataset, &graph, &plan.options, &plan.caches)?,
        };
        let mut sampling = Sampling::new(dataset, plan, &graph, engine, on_device)?;
        if serves_ranks {
            sampling.keep_two_epochs()?;
        }
        let ended = hand_over(&mut |key, slot, payload| match among {
            // Neither this batch nor any later one can be made.
            Some((_, link)) if link.left().is_some() => Ok(skipped()),
            Some((_, link)) => match sampling.sample_or_serve(key, slot, payload) {
                Err(RuntimeError::PeerGone(said)) => {
                    link.note_left(said.to_string());
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

    fn work(
        &self,
        parts: &WorkerParts<'_>,
        hand_over: &mut dyn FnMut(&mut dyn WorkerBatches) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        let plan = self.plan;
        let WorkerParts { dataset, control, place, cached, copied, reordered, keep_on_core } = *parts;
        let chosen = cached.map_or(ChosenRows::None, |rows| ChosenRows::Copied(Arc::clone(rows)));
        let host = HostParts { chosen, copied: copied.cloned(), ..HostParts::new(dataset, 1) };
        let tree = RowTree::of(plan);
        let rows = SlotRows::new(&tree, &plan.layout, dataset, &host)?;
        keep_on_core();
        let graph = SampledGraph::new(dataset, reordered.map(FrozenBytes::bytes))?;
        let engine = Engine::on_host(dataset, &graph, &plan.options, &plan.caches)?;
        let sampling = Sampling::new(dataset, plan, &graph, engine, None)?;
        hand_over(&mut SampledBatches { plan, control, place, sampling, rows })
    }

    fn memory(&self) -> Vec<MemoryLine> {
        if !self.dataset.is_homogeneous() {
            let files = self.dataset.random_files().into_iter();
            let lists = files.filter(|file| file.values != RandomValues::Rows);
            let bytes = lists.map(|list| list.file.bytes().len() as u64).sum();
            return vec![MemoryLine::once("files of the graph", MemoryKind::Mapped, bytes)];
        }
        let graph = ReorderedLayout::new(self.dataset).bytes() as u64;
        let mut lines = vec![MemoryLine::once("files of the graph", MemoryKind::Mapped, graph)];
        let csc = self.dataset.csc();
        let copied = self.plan.options.copied_files;
        let indptr = if copied.indptr { size_of_val(csc.indptr) } else { 0 };
        let indices = if copied.indices { csc.edges() * csc.indices.id_bytes() } else { 0 };
        if indptr + indices > 0 {
            let bytes = (indptr + indices) as u64 * self.plan.options.sampling_processes() as u64;
            lines.push(MemoryLine::new("copies of the lists", MemoryKind::Host, bytes));
        }
        lines
    }
}

/// The batches of a worker.
struct SampledBatches<'a> {
    plan: &'a RunPlan,
    control: &'a Control,
    /// The worker's place on the control page.
    place: usize,
    sampling: Sampling<'a>,
    rows: SlotRows<'a>,
}

impl WorkerBatches for SampledBatches<'_> {
    fn sample(
        &mut self,
        key: BatchKey,
        slot: usize,
        payload: &mut [u8],
    ) -> Result<BatchHeader, RuntimeError> {
        self.sampling.sample(key, slot, payload)
    }

    fn gather(
        &mut self,
        sequence: u64,
        header: &mut BatchHeader,
        payload: &mut [u8],
    ) -> Result<(), RuntimeError> {
        let layout = &self.plan.layout;
        header.set_summed(sums_batch(self.plan, self.control, sequence, header));
        // The sampler's columns come first in a feature slot, at the same offsets as in a batch slot.
        let (from, to) = payload.split_at_mut(layout.batch_bytes());
        self.rows.fill(layout, header, 1, from, (to, from.len()))?;
        self.control.count_disk_reads(self.place, self.rows.disk_reads());
        Ok(())
    }
}
