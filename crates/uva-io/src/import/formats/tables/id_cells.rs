//! Ids of nodes in a column, integers or text.

use uva_graph::GraphError;

use super::table::{CellType, Cells, SourceTable, TableColumn};
use crate::import::options::Ids;
use crate::import::writing::numbering::Numbering;

/// What ids of one type are compared with, for messages.
pub(super) const AS_SOURCES: &str = "as the sources of the edges are";

/// A node's id in a table.
pub(super) enum IdCell<'t> {
    Number(i64),
    Name(&'t [u8]),
}

/// The ids of a batch of rows, none of which is null.
pub(super) struct IdCells<'t> {
    pub(super) table: &'t dyn SourceTable,
    pub(super) column: &'t TableColumn,
    pub(super) first_row: u64,
    pub(super) cells: &'t Cells,
}

impl IdCells<'_> {
    pub(super) fn len(&self) -> usize {
        match self.cells {
            Cells::Integers(cells) => cells.len(),
            Cells::Text(cells) => cells.len(),
            Cells::Floats(_) => 0,
        }
    }

    pub(super) fn get(&self, at: usize) -> Result<IdCell<'_>, GraphError> {
        let problem = match self.cells {
            Cells::Integers(cells) => match cells[at] {
                Some(id) => return Ok(IdCell::Number(id)),
                None => "the id is null",
            },
            Cells::Text(cells) => match cells.get(at) {
                // Names of nodes are stored one per line.
                Some(id) if id.is_empty() || id.contains(&b'\n') || id.ends_with(b"\r") => {
                    "the id is empty, or has an end of line in it"
                }
                Some(id) => return Ok(IdCell::Name(id)),
                None => "the id is null",
            },
            Cells::Floats(_) => "the id is neither an integer nor text",
        };
        let problem =
            if self.table.is_text() { problem.replace("null", "missing") } else { problem.to_owned() };
        Err(self.wrong(at, problem))
    }

    pub(super) fn wrong(&self, at: usize, problem: impl Into<String>) -> GraphError {
        self.table.wrong_cell(self.column, self.first_row + at as u64, problem.into())
    }

    /// The node of the id in this row, which is an edge's `end`.
    pub(super) fn place(&self, at: usize, numbering: &Numbering, end: &str) -> Result<u64, GraphError> {
        let found = match self.get(at)? {
            IdCell::Number(id) => numbering.place_of_number(id, end),
            IdCell::Name(id) => numbering.place_of_name(id, end),
        };
        found.map_err(|problem| self.wrong(at, problem))
    }
}

/// A column of ids. In a table of text, any column is accepted.
pub(super) fn id_column(table: &dyn SourceTable, column: TableColumn) -> Result<TableColumn, GraphError> {
    match table.is_text() {
        true => Ok(column),
        false => table.of_kind(column, &[CellType::Integer, CellType::Text], "integers or text"),
    }
}

/// The kind of a column's ids.
pub(super) fn ids_of(column: &TableColumn) -> Ids {
    if column.kind == CellType::Integer { Ids::Number } else { Ids::Name }
}

/// Reads the column as ids of this kind, which others have: `as_others`, such as `as the sources of the edges are`.
pub(super) fn take_ids(
    table: &dyn SourceTable,
    column: &mut TableColumn,
    ids: Ids,
    as_others: &str,
) -> Result<(), GraphError> {
    match (ids_of(column) == ids, ids) {
        (true, Ids::Number) => Ok(()),
        (_, Ids::Number) if table.is_text() => {
            column.kind = CellType::Integer;
            Ok(())
        }
        (_, Ids::Name) if table.is_text() => {
            column.kind = CellType::Text;
            Ok(())
        }
        (true, _) => Ok(()),
        (false, Ids::Name) => Err(table.wrong_type(column, format!("text, {as_others}"))),
        (false, Ids::Number) => Err(table.wrong_type(column, format!("integers, {as_others}"))),
    }
}
