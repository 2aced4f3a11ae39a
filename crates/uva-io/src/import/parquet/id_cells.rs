//! Ids of nodes in a column, integers or text.

use uva_graph::GraphError;

use super::super::numbering::Numbering;
use super::super::options::Ids;
use super::super::output::CHUNK;
use super::table::{Cells, Column, Kind, Stream, Table};

/// A node's id in a table.
pub(super) enum Id<'t> {
    Number(i64),
    Name(&'t [u8]),
}

/// The ids of a batch of rows, none of which is null.
pub(super) struct IdCells<'t> {
    table: &'t Table,
    column: &'t Column,
    first_row: u64,
    cells: Cells,
}

impl<'t> IdCells<'t> {
    pub(super) fn next(
        table: &'t Table,
        column: &'t Column,
        stream: &mut Stream<'_>,
    ) -> Result<Option<IdCells<'t>>, GraphError> {
        let first_row = stream.row();
        Ok(stream.cells(CHUNK)?.map(|cells| IdCells { table, column, first_row, cells }))
    }

    pub(super) fn len(&self) -> usize {
        match &self.cells {
            Cells::Integers(cells) => cells.len(),
            Cells::Text(cells) => cells.len(),
            _ => 0,
        }
    }

    pub(super) fn get(&self, at: usize) -> Result<Id<'_>, GraphError> {
        let problem = match &self.cells {
            Cells::Integers(cells) => match cells[at] {
                Some(id) => return Ok(Id::Number(id)),
                None => "the id is null",
            },
            Cells::Text(cells) => match cells[at].as_ref().map(|id| id.data()) {
                // Names of nodes are stored one per line.
                Some(id) if id.is_empty() || id.contains(&b'\n') || id.ends_with(b"\r") => {
                    "the id is empty, or has an end of line in it"
                }
                Some(id) => return Ok(Id::Name(id)),
                None => "the id is null",
            },
            _ => "the id is neither an integer nor text",
        };
        Err(self.wrong(at, problem))
    }

    pub(super) fn wrong(&self, at: usize, problem: impl Into<String>) -> GraphError {
        self.table.wrong_cell(self.column, self.first_row + at as u64, problem)
    }

    /// The node of the id in this row, which is an edge's `end`.
    pub(super) fn place(&self, at: usize, numbering: &Numbering, end: &str) -> Result<u64, GraphError> {
        let found = match self.get(at)? {
            Id::Number(id) => numbering.place_of_number(id, end),
            Id::Name(id) => numbering.place_of_name(id, end),
        };
        found.map_err(|problem| self.wrong(at, problem))
    }
}

/// A column of ids: integers or text.
pub(super) fn id_column(table: &Table, names: &[&str]) -> Result<(Column, Ids), GraphError> {
    let column = table.of_kind(table.required(names)?, &[Kind::Integer, Kind::Text], "integers or text")?;
    let ids = if column.kind == Kind::Text { Ids::Name } else { Ids::Number };
    Ok((column, ids))
}

/// The same for a column whose ids must have the type of another one.
pub(super) fn id_column_like(table: &Table, names: &[&str], ids: Ids) -> Result<Column, GraphError> {
    match id_column(table, names)? {
        (column, same) if same == ids => Ok(column),
        (column, _) if ids == Ids::Name => {
            Err(table.wrong_type(&column, "text, as the sources of the edges are"))
        }
        (column, _) => Err(table.wrong_type(&column, "integers, as the sources of the edges are")),
    }
}
