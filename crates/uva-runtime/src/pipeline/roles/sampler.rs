//! The sampler: writes batches without their rows into batch slots.

use std::sync::Arc;

use uva_graph::Dataset;
use uva_mem::FrozenBytes;

use super::sampler_end::{SamplerEnd, hand_over_all};
use crate::control::FIRST_SAMPLER;
use crate::control::stage::StageClock;
use crate::feed::device::DeviceBatches;
use crate::feed::ranks::RankExchanges;
use crate::pipeline::makers::{SampleBatch, SamplerParts, maker_of};
use crate::plan::RunPlan;
use crate::sampler::lane::Lane;
use crate::{RuntimeError, machine};

/// One of `W` samplers, which makes every `W`-th batch of a run, or of each rank that it serves.
pub(crate) struct SamplerRole<'a> {
    pub index: usize,
    pub dataset: &'a Arc<Dataset>,
    /// The ends of its batches: of one run, or of all ranks, whose plans differ only in part and schedule.
    pub ends: Vec<SamplerEnd>,
    /// The other ranks, if the feature table is divided among them.
    pub ranks: Option<&'a RankExchanges>,
    /// The graph in the order of the list cache, if the cache requires an order other than the dataset's.
    pub reordered: Option<Arc<FrozenBytes>>,
    /// The lane of the GPU to sample on; `None` for the CPU.
    pub gpu: Option<Lane>,
    /// The memory of batches that stay on that GPU; `None` if they go to the batch slots.
    pub on_device: Option<Arc<DeviceBatches>>,
}

impl SamplerRole<'_> {
    /// Samples until the end of the schedule.
    ///
    /// # Errors
    /// A batch larger than its slot; a producer that is gone; a stop.
    pub fn run(mut self) -> Result<(), RuntimeError> {
        let mut ends: Vec<_> = std::mem::take(&mut self.ends);
        let place = FIRST_SAMPLER + self.index;
        let mut clocks: Vec<_> =
            ends.iter().map(|end| StageClock::start(Arc::clone(&end.control), place)).collect();
        let ended = match ends.first().map(|end| Arc::clone(&end.plan)) {
            Some(plan) => self.sample_all(&plan, &mut ends, &mut clocks),
            None => Ok(()),
        };
        clocks.iter_mut().for_each(StageClock::log_end);
        ended
    }

    fn sample_all(
        &mut self,
        plan: &RunPlan,
        ends: &mut [SamplerEnd],
        clocks: &mut [StageClock],
    ) -> Result<(), RuntimeError> {
        if plan.options.pin_samplers {
            // Otherwise threads of the shuffle would inherit the single core.
            machine::start_threads()?;
            machine::pin_to_core(plan.options.number_of_all(self.index))?;
        }
        let parts = SamplerParts {
            dataset: self.dataset,
            ranks: self.ranks,
            reordered: self.reordered.take(),
            gpu: self.gpu.take(),
            on_device: self.on_device.clone(),
            serves_ranks: ends.len() > 1,
        };
        let hand_over = &mut |sample: &mut SampleBatch<'_>| hand_over_all(self.index, ends, clocks, sample);
        maker_of(self.dataset, plan).sample(parts, hand_over)
    }
}
