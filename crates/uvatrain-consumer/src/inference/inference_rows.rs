//! The rows from which a trained model's answers are computed.

use uva_graph::{Dataset, Hops};
use uva_launch::training::EvaluateBy;

/// The rows of a dataset, as inference reads them.
#[derive(Clone, Copy, Debug)]
pub(super) enum InferenceRows<'d> {
    /// Rows of a hop set, which contain whole neighbourhoods.
    Stored(Hops<'d>),
    /// Rows of all nodes, with whole neighbourhoods.
    Whole,
    /// Rows of sampled neighbourhoods.
    Sampled,
}

impl<'d> InferenceRows<'d> {
    pub(super) fn of(dataset: &'d Dataset, by: EvaluateBy) -> Self {
        match (dataset.hops(), by) {
            (Some(hops), _) => Self::Stored(hops),
            (None, EvaluateBy::Full) => Self::Whole,
            (None, EvaluateBy::Sampled) => Self::Sampled,
        }
    }

    /// Whether they are read in batches of the training's size.
    pub(super) fn are_in_batches(self) -> bool {
        match self {
            Self::Stored(_) | Self::Sampled => true,
            Self::Whole => false,
        }
    }
}
