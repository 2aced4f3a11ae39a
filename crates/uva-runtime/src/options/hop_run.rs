//! A hop set, and the parts that a run reads.

use uva_graph::{Dataset, Hops};

use super::LoaderOptions;
use super::hop_options::HopBatches;

/// A hop set, with the batches that a run makes of it.
#[derive(Clone, Copy, Debug)]
pub struct HopRun<'a> {
    /// The rows.
    pub hops: Hops<'a>,
    /// The tables that batches have, and the order of their rows.
    pub batches: &'a HopBatches,
}

impl<'a> HopRun<'a> {
    /// The hop set of a run with these options over this dataset; `None` if batches are sampled in a graph.
    #[must_use]
    pub fn of(dataset: &'a Dataset, options: &'a LoaderOptions) -> Option<Self> {
        Some(Self { hops: dataset.hops()?, batches: options.hops.as_ref()? })
    }
}
