//! Batches of rows of a hop set, which has no neighbours to sample.

use uva_batch::BatchHeader;
use uva_graph::Dataset;
use uva_sample::BatchKey;

use super::maker::{BatchMaker, SampleBatch, SamplerParts, WorkerBatches, WorkerParts};
use crate::RuntimeError;
use crate::control::Control;
use crate::feed::hop_rows::{self, HopSampling};
use crate::feed::rows::{HopSource, RowTree};
use crate::feed::sampling::skipped;
use crate::machine::memory::MemoryLine;
use crate::options::hop_run::HopRun;
use crate::plan::RunPlan;

/// The maker of batches of this plan from a hop set.
pub(super) struct HopSetMaker<'a> {
    pub dataset: &'a Dataset,
    pub plan: &'a RunPlan,
    pub run: HopRun<'a>,
}

impl BatchMaker for HopSetMaker<'_> {
    fn sample(
        &self,
        _parts: SamplerParts<'_>,
        hand_over: &mut dyn FnMut(&mut SampleBatch<'_>) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        let mut sampling = HopSampling::new(self.dataset, self.plan, self.run)?;
        hand_over(&mut |key, _, payload| match key {
            Some(key) => sampling.sample(key, payload),
            None => Ok(skipped()),
        })
    }

    fn work(
        &self,
        parts: &WorkerParts<'_>,
        hand_over: &mut dyn FnMut(&mut dyn WorkerBatches) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        let Self { dataset, plan, run } = *self;
        let WorkerParts { control, place, keep_on_core, .. } = *parts;
        let tree = RowTree::of(plan);
        let RowTree::Tables(_, stored) = &tree else { return Err(tree.is_not("of a hop set")) };
        let rows = HopSource::new(run.hops, &run.batches.tables, 1, stored)?;
        keep_on_core();
        let sampling = HopSampling::new(dataset, plan, run)?;
        hand_over(&mut HopSetBatches { plan, control, place, sampling, rows })
    }

    fn memory(&self) -> Vec<MemoryLine> {
        Vec::new()
    }
}

/// The batches of a worker.
struct HopSetBatches<'a> {
    plan: &'a RunPlan,
    control: &'a Control,
    /// The worker's place on the control page.
    place: usize,
    sampling: HopSampling<'a>,
    rows: HopSource<'a>,
}

impl WorkerBatches for HopSetBatches<'_> {
    fn sample(
        &mut self,
        key: BatchKey,
        _slot: usize,
        payload: &mut [u8],
    ) -> Result<BatchHeader, RuntimeError> {
        self.sampling.sample(key, payload)
    }

    fn gather(
        &mut self,
        _sequence: u64,
        header: &mut BatchHeader,
        payload: &mut [u8],
    ) -> Result<(), RuntimeError> {
        let (layout, runs) = (&self.plan.layout, self.sampling.runs());
        let read = hop_rows::gather(&mut self.rows, layout, runs, header, payload)?;
        self.control.count_disk_reads(self.place, read);
        Ok(())
    }
}
