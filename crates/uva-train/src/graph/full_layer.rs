//! The form of a layer over a whole graph.

use crate::TrainError;
use crate::graph::whole_graph::{CHUNK_EDGES, Graph};
use std::ops::Range;
use tch::Tensor;

/// A layer over all nodes: tables of all of them first, then results piece by piece.
pub(crate) trait FullLayer {
    /// Columns of each table.
    fn columns(&self) -> Result<Vec<i64>, TrainError>;

    /// Columns of the results.
    fn outputs(&self) -> Result<i64, TrainError>;

    /// The rows of a chunk in each table, from the rows of that chunk that the layer reads.
    fn project(&self, rows: Tensor) -> Result<Vec<Tensor>, TrainError>;

    /// The initial results of a chunk, from the rows of that chunk; `None` for zeros.
    fn begin(&self, _rows: &dyn Fn() -> Result<Tensor, TrainError>) -> Result<Option<Tensor>, TrainError> {
        Ok(None)
    }

    /// The maximum number of edges in a piece.
    fn piece_edges(&self) -> usize {
        CHUNK_EDGES
    }

    /// Completes the results of a piece in `results`, which has the initial results.
    fn complete(
        &self,
        graph: &Graph<'_>,
        tables: &[Tensor],
        piece: &Range<usize>,
        results: &mut Tensor,
    ) -> Result<(), TrainError>;
}
