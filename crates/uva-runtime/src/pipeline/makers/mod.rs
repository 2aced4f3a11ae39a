//! The making of batches by samplers and workers, for each kind of data, and the choice of the maker.
//!
//! | file | holds |
//! |---|---|
//! | `maker` | the interface |
//! | `graph` | batches that are sampled in a graph |
//! | `hop_set` | batches of rows of a hop set |

mod graph;
mod hop_set;
mod maker;

use uva_graph::Dataset;

use self::graph::GraphMaker;
use self::hop_set::HopSetMaker;
use self::maker::BatchMaker;
use crate::options::batch_kind::RunData;
use crate::plan::RunPlan;

pub(crate) use maker::{SampleBatch, SamplerParts, WorkerBatches, WorkerParts};

/// The maker of the batches of this plan.
pub(crate) fn maker_of<'a>(dataset: &'a Dataset, plan: &'a RunPlan) -> Box<dyn BatchMaker + 'a> {
    match RunData::of(dataset, &plan.options) {
        RunData::Graph(dataset) | RunData::Types(dataset) => Box::new(GraphMaker { dataset, plan }),
        RunData::Hops(run) => Box::new(HopSetMaker { dataset, plan, run }),
    }
}
