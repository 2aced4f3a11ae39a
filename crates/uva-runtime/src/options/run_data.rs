//! The data of a run.

use uva_graph::Dataset;

use super::LoaderOptions;
use super::hop_run::HopRun;

/// What the batches of a run are made of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RunData<'a> {
    /// Neighbourhoods in the graph of this dataset, and rows of its feature table.
    Graph(&'a Dataset),
    /// Neighbourhoods in the typed graph of this dataset, and rows of the tables of its node types.
    Types(&'a Dataset),
    /// Rows of a hop set.
    Hops(HopRun<'a>),
}

impl<'a> RunData<'a> {
    /// The data of a run with these options over this dataset.
    pub fn of(dataset: &'a Dataset, options: &'a LoaderOptions) -> Self {
        match HopRun::of(dataset, options) {
            Some(run) => Self::Hops(run),
            None if dataset.is_homogeneous() => Self::Graph(dataset),
            None => Self::Types(dataset),
        }
    }
}
