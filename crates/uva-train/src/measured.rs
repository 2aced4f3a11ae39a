//! For the example `aggregation`, which measures them: the sums of a block, and back.

use crate::TrainError;
pub use crate::block::aggregate::HostLists;
use crate::block::aggregate::spread_on_host;
use crate::block::sums;
use tch::Tensor;
use uva_ops::lists::Weights;

fn weights<'a>(block: &HostLists<'a>) -> Weights<'a, f32> {
    if block.weights.is_empty() { Weights::Mean } else { Weights::Each(block.weights) }
}

/// One row a destination. `block` is what a trainer would have accepted.
pub fn aggregate(block: &HostLists<'_>, rows: &Tensor) -> Result<Tensor, TrainError> {
    sums::weighted_sums(rows, (block.indptr, block.indices), weights(block))
}

/// One row a source.
pub fn spread(block: &HostLists<'_>, rows: &Tensor) -> Result<Tensor, TrainError> {
    spread_on_host(rows, block, weights(block))
}
