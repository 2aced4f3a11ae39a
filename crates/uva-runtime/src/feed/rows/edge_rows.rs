//! The feature rows of a batch's edges, gathered by the sampler's places.

use std::ops::Range;
use std::sync::Arc;

use uva_batch::{BatchHeader, BatchLayout, Column, ColumnKey};
use uva_cuda::memory::TableBytes;
use uva_graph::{Dataset, Relation};
use uva_rows::{GatherError, HostPlace, MappedTable, RowSource};

use crate::RuntimeError;

/// The bytes of a relation's table, while the dataset is mapped.
struct EdgeTable {
    dataset: Arc<Dataset>,
    relation: Relation,
}

impl TableBytes for EdgeTable {
    fn bytes(&self) -> &[u8] {
        self.dataset.edge_rows(self.relation).map_or(&[], |rows| rows.table.bytes)
    }
}

/// A source of these rows. The CPU reads the mapped tables, even if the batch is on a GPU.
pub(crate) struct EdgeRowSource {
    dataset: Arc<Dataset>,
    /// Of each relation with such rows.
    tables: Vec<(Relation, MappedTable<'static>)>,
    /// The rows of a block's edges, if they are not those of their places.
    rows: Vec<i64>,
}

impl EdgeRowSource {
    /// Creates the source for batches of this layout; `None` if they have no such rows. `threads` copy.
    pub fn new(
        dataset: &Arc<Dataset>,
        layout: &BatchLayout,
        threads: usize,
    ) -> Result<Option<Self>, RuntimeError> {
        let of_relation = |relation| {
            let (element, dim) = layout.edge_attr_of(relation)?;
            let table = Arc::new(EdgeTable { dataset: Arc::clone(dataset), relation });
            let table = MappedTable::owned(table, element.bytes() * dim, threads);
            Some(table.map(|table| (relation, table)).map_err(|error| failed(dataset, relation, error)))
        };
        let tables: Vec<_> =
            layout.metagraph().relations().filter_map(of_relation).collect::<Result<_, _>>()?;
        let source = Self { dataset: Arc::clone(dataset), tables, rows: Vec::new() };
        Ok((!source.tables.is_empty()).then_some(source))
    }

    /// The columns of such rows, and the bytes of a slot for each in the batch of this header.
    pub fn columns(
        layout: &BatchLayout,
        header: &BatchHeader,
    ) -> impl Iterator<Item = (ColumnKey, Range<usize>)> {
        let columns = layout.columns().iter().filter(|place| place.key.column == Column::EdgeAttr);
        columns.map(|place| (place.key, place.used(header)))
    }

    /// Gathers the rows of a column into `out`, which is as long as its range. `from` is the batch slot's payload.
    pub fn fill(
        &mut self,
        layout: &BatchLayout,
        header: &BatchHeader,
        column: ColumnKey,
        from: &[u8],
        place: HostPlace<'_>,
    ) -> Result<(), RuntimeError> {
        let Self { dataset, tables, rows } = self;
        let relation = column.relation();
        let Some((_, table)) = tables.iter_mut().find(|(of, _)| *of == relation) else { return Ok(()) };
        let places = ColumnKey { column: Column::EdgeIds, ..column };
        let edges: &[i64] = bytemuck::cast_slice(&from[layout.range(header, places)]);
        let row_of = dataset.edge_rows(relation).and_then(|rows| rows.row_of);
        let edges = match row_of {
            None => edges,
            Some(row_of) => {
                rows.clear();
                // A place outside the lists has no row either.
                rows.extend(edges.iter().map(|&edge| row_of.get(edge as usize).copied().unwrap_or(-1)));
                rows
            }
        };
        table.fill(edges, place).map(drop).map_err(|error| failed(dataset, relation, error))
    }
}

fn failed(dataset: &Dataset, relation: Relation, error: GatherError) -> RuntimeError {
    let failed = RuntimeError::failed(error.to_string());
    match dataset.edge_rows(relation) {
        Some(rows) => failed.in_file(rows.file),
        None => failed,
    }
}
