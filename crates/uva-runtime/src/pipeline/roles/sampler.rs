//! The sampler: writes seeds and their neighbourhoods into batch slots. For a hop set, which has no neighbours, it
//! writes the rows of each batch.

use std::sync::Arc;

use uva_graph::Dataset;
use uva_mem::FrozenBytes;

use super::sampler_end::{SamplerEnd, hand_over_all};
use crate::control::FIRST_SAMPLER;
use crate::control::stage::StageClock;
use crate::feed::device::DeviceBatches;
use crate::feed::hop_rows::HopSampling;
use crate::feed::ranks::RankExchanges;
use crate::feed::sampling::{Sampling, skipped};
use crate::options::hop_run::HopRun;
use crate::plan::RunPlan;
use crate::sampler::cache::{Engine, OnGpu, SampledGraph};
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
        if let Some(run) = HopRun::of(self.dataset, &plan.options) {
            let mut sampling = HopSampling::new(self.dataset, plan, run)?;
            return hand_over_all(self.index, ends, clocks, &mut |key, _, payload| match key {
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
                let lists =
                    RankExchanges::divided(self.dataset, link.take()?)?.telling(ranks.shared_list_counts());
                Engine::on_divided(self.dataset, &graph, &plan.options, lists)?
            }
            _ => Engine::on_host(self.dataset, &graph, &plan.options, &plan.caches)?,
        };
        let on_device = self.on_device.clone();
        let mut sampling = Sampling::new(self.dataset, plan, &graph, engine, on_device)?;
        if ends.len() > 1 {
            sampling.keep_two_epochs()?;
        }
        let ended = hand_over_all(self.index, ends, clocks, &mut |key, slot, payload| match among {
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
}
