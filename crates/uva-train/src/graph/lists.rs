//! Neighbour lists as tensors, and sums over them.

use crate::TrainError;
use crate::block::aggregate::weighted_sums;
use crate::block::tensor_block::TensorBlock;
use tch::Tensor;

/// The lists of some destinations. All are i32 or all are i64.
pub(crate) struct Lists<'t> {
    /// [destinations + 1].
    pub(crate) offsets: &'t Tensor,
    /// [edges]: rows of the sources' tables.
    pub(crate) indices: &'t Tensor,
    /// [edges]: the destination whose list holds each edge.
    pub(crate) destination_of_edge: &'t Tensor,
}

impl<'t> Lists<'t> {
    /// The lists of a block.
    pub(crate) fn of(block: &'t TensorBlock) -> Self {
        Self {
            offsets: &block.offsets,
            indices: &block.indices,
            destination_of_edge: &block.destination_of_edge,
        }
    }

    /// Sums of edges' rows by list: [edges, n] to [destinations, n].
    pub(crate) fn sums(&self, rows: &Tensor) -> Result<Tensor, TrainError> {
        let edges = Tensor::f_arange(rows.size2()?.0, (self.indices.f_kind()?, rows.device()))?;
        let ones = Tensor::f_ones([rows.size2()?.0], (rows.f_kind()?, rows.device()))?;
        weighted_sums(rows, &edges, self.offsets, &ones)
    }

    /// Means of edges' rows by list; zeros for an empty list.
    pub(crate) fn means(&self, rows: &Tensor) -> Result<Tensor, TrainError> {
        Ok(self.sums(rows)?.f_div(&self.lengths(rows)?)?)
    }

    /// Each list's length, at least 1, as [destinations, 1] of the kind of `like`.
    pub(crate) fn lengths(&self, like: &Tensor) -> Result<Tensor, TrainError> {
        let lengths = self.offsets.f_diff::<Tensor>(1, 0, None, None)?.f_clamp_min(1)?;
        Ok(lengths.f_to_kind(like.f_kind()?)?.f_unsqueeze(1)?)
    }

    /// Each edge's row from that of its list: [destinations, n] to [edges, n].
    pub(crate) fn of_edges(&self, rows: &Tensor) -> Result<Tensor, TrainError> {
        Ok(rows.f_index_select(0, self.destination_of_edge)?)
    }
}
