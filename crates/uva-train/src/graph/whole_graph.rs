//! A whole graph, in chunks of nodes and pieces of chunks.

use crate::TrainError;
use crate::graph::full_table::{TableWriter, Tables};
use crate::torch::borrowed::Borrowed;
use std::ops::Range;
use tch::{Device, Kind, Tensor};
use uva_graph::{Csc, FeatureTable};

/// Destination nodes in a chunk, and the edges in a piece of one: about 100 MB of intermediates together at 256
/// columns. A node with more edges than that is a piece of its own.
pub(crate) const CHUNK_NODES: usize = 1 << 15;
pub(crate) const CHUNK_EDGES: usize = 1 << 22;

/// A graph, with the features of its edges if it has any.
#[derive(Clone, Copy, Debug)]
pub struct WholeGraph<'a> {
    /// Its lists.
    pub csc: Csc<'a>,
    /// Row `i` belongs to entry `i` of the lists. Models without edge features ignore them.
    pub edge_features: Option<FeatureTable<'a>>,
}

impl<'a> From<Csc<'a>> for WholeGraph<'a> {
    fn from(csc: Csc<'a>) -> Self {
        Self { csc, edge_features: None }
    }
}

/// All nodes in chunks of a bounded size.
pub(crate) fn chunks(nodes: usize) -> impl Iterator<Item = Range<usize>> {
    (0..nodes).step_by(CHUNK_NODES).map(move |start| start..nodes.min(start + CHUNK_NODES))
}

/// The rows of a chunk in a table of all nodes.
pub(crate) fn slice(table: &Tensor, chunk: &Range<usize>) -> Result<Tensor, TrainError> {
    Ok(table.f_narrow(0, chunk.start as i64, chunk.len() as i64)?)
}

/// The graph of a pass, and the storage of its tables.
pub(crate) struct Graph<'a> {
    pub(crate) csc: &'a Csc<'a>,
    pub(crate) edge_features: Option<FeatureTable<'a>>,
    pub(crate) kind: Kind,
    pub(crate) tables: Tables<'a>,
}

impl Graph<'_> {
    /// The edge features in the lists of a piece, [edges, features].
    pub(crate) fn edge_rows(&self, piece: &Range<usize>) -> Result<Tensor, TrainError> {
        let [first, last] = [piece.start, piece.end].map(|node| self.csc.indptr[node] as usize);
        let rows = self.edge_features.as_ref().and_then(|table| {
            let bytes = table.bytes.get(first * table.row_bytes()..last * table.row_bytes())?;
            Some(Borrowed::table(bytes, table.element, last - first, table.dim))
        });
        let Some(rows) = rows else {
            return Err(TrainError::Input(format!("no edge features {first} to {last}")));
        };
        Ok(rows?.tensor().f_to_kind(self.kind)?)
    }

    pub(crate) fn table(&self, columns: i64) -> Result<TableWriter, TrainError> {
        self.tables.table(self.csc.nodes(), columns, self.kind)
    }

    pub(crate) fn rows_of_zeros(&self, rows: usize, columns: i64) -> Result<Tensor, TrainError> {
        Ok(Tensor::f_zeros([rows as i64, columns], (self.kind, Device::Cpu))?)
    }

    /// A chunk in pieces of at most `edges` edges, or of one node.
    pub(crate) fn pieces(&self, chunk: &Range<usize>, edges: usize) -> impl Iterator<Item = Range<usize>> {
        let (indptr, chunk) = (self.csc.indptr, chunk.clone());
        let mut start = chunk.start;
        std::iter::from_fn(move || {
            if start == chunk.end {
                return None;
            }
            let mut end = start + 1;
            while end < chunk.end && indptr[end + 1] - indptr[start] <= edges as i64 {
                end += 1;
            }
            let piece = start..end;
            start = end;
            Some(piece)
        })
    }
}

/// A piece of a chunk, counted within the chunk.
pub(crate) fn within(chunk: &Range<usize>, piece: &Range<usize>) -> Range<usize> {
    piece.start - chunk.start..piece.end - chunk.start
}
