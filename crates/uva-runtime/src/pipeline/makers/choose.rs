//! The choice of a run's maker of batches.

use uva_graph::Dataset;

use super::graph::GraphMaker;
use super::hop_set::HopSetMaker;
use super::maker::BatchMaker;
use crate::options::run_data::RunData;
use crate::plan::RunPlan;

/// The maker of the batches of this plan.
pub(crate) fn maker_of<'a>(dataset: &'a Dataset, plan: &'a RunPlan) -> Box<dyn BatchMaker + 'a> {
    match RunData::of(dataset, &plan.options) {
        RunData::Graph(dataset) | RunData::Types(dataset) => Box::new(GraphMaker { dataset, plan }),
        RunData::Hops(run) => Box::new(HopSetMaker { dataset, plan, run }),
    }
}
