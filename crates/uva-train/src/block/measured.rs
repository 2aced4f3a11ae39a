//! The sums of a block and their transpose, for the example `aggregation`, which measures them.

use crate::TrainError;
pub use crate::block::aggregate::HostLists;
use crate::block::aggregate::spread_on_host;
use crate::block::sums;
use tch::Tensor;
use uva_ops::lists::Weights;

fn weights<'a>(block: &HostLists<'a>) -> Weights<'a, f32> {
    if block.weights.is_empty() { Weights::Mean } else { Weights::Each(block.weights) }
}

/// The sums, with a row per destination. `block` is one that a trainer would accept.
pub fn aggregate(block: &HostLists<'_>, rows: &Tensor) -> Result<Tensor, TrainError> {
    sums::weighted_sums(rows, (block.indptr, block.indices), weights(block))
}

/// The transposed sums, with a row per source.
pub fn spread(block: &HostLists<'_>, rows: &Tensor) -> Result<Tensor, TrainError> {
    spread_on_host(rows, block, weights(block))
}
