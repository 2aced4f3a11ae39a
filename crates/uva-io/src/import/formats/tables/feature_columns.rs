//! Features of nodes, or of edges: one column of lists, or several columns of numbers.

use uva_files::quote::listed;
use uva_graph::npy::NpyType;
use uva_graph::{ElementType, GraphError};

use super::table::{CellType, Cells, SourceTable, TableColumn};
use crate::import::reading::features::{FeatureSource, feature_type};
use crate::import::writing::array_target::ArrayTarget;
use crate::import::writing::output::CHUNK;

/// Maximum number of features in separate columns, each of which takes a page of memory.
const MOST_COLUMNS: usize = 4096;

/// Maximum number of features in lists.
const LONGEST_LIST: u64 = 1 << 24;

const FEATURES: [&str; 4] = ["feat", "x", "features", "node_feat"];
const EDGE_FEATURES: [&str; 3] = ["edge_attr", "edge_feat", "feat"];

/// The location of the features.
pub(super) enum FeatureColumns {
    Lists { column: TableColumn, kind: NpyType, width: u64 },
    Columns { columns: Vec<TableColumn>, kind: NpyType },
}

impl FeatureColumns {
    /// Values of a row.
    pub(super) fn width(&self) -> u64 {
        match self {
            FeatureColumns::Lists { width, .. } => *width,
            FeatureColumns::Columns { columns, .. } => columns.len() as u64,
        }
    }

    /// The columns.
    pub(super) fn columns(&self) -> &[TableColumn] {
        match self {
            FeatureColumns::Lists { column, .. } => std::slice::from_ref(column),
            FeatureColumns::Columns { columns, .. } => columns,
        }
    }

    /// The columns' names, for a line.
    pub(super) fn listed(&self) -> String {
        let columns = self.columns();
        let column = if columns.len() == 1 { "column" } else { "columns" };
        format!(
            "{} {column} of numbers: {}",
            columns.len(),
            listed(columns.iter().map(|column| &column.name))
        )
    }

    /// Finds the features of nodes, if any. In a table of text these are the columns of numbers, except those in `read` and
    /// those named in `others`, which have another meaning.
    pub(super) fn of_nodes(
        table: &dyn SourceTable,
        read: &[&TableColumn],
        others: &[&str],
    ) -> Result<Option<FeatureColumns>, GraphError> {
        match table.is_text() {
            true => Ok(of_numbers(table, read, others)),
            false => Self::among(table, &FEATURES),
        }
    }

    /// The stored type of the values.
    pub(super) fn element(&self) -> ElementType {
        let (FeatureColumns::Lists { kind, .. } | FeatureColumns::Columns { kind, .. }) = self;
        feature_type(*kind, None).0
    }

    /// A note that a table has no features of nodes.
    pub(super) fn missing(table: &dyn SourceTable) -> String {
        let wanted = match table.is_text() {
            true => "no other column of numbers".to_owned(),
            false => format!("no column {}, nor any of these with a number", FEATURES.join(", ")),
        };
        format!("{} has no features ({wanted})", table.path().display())
    }

    /// Finds the edge features, if any.
    pub(super) fn of_edges(
        table: &dyn SourceTable,
        read: &[&TableColumn],
        others: &[&str],
    ) -> Result<Option<FeatureColumns>, GraphError> {
        if table.is_text() {
            return Ok(of_numbers(table, read, others));
        }
        Self::among(table, &EDGE_FEATURES)
    }

    /// A column of lists with one of these names, else columns that have one of them and a number.
    fn among(table: &dyn SourceTable, names: &[&str]) -> Result<Option<FeatureColumns>, GraphError> {
        let wanted = "lists of one length, of float, double or integers";
        if let Some(column) = table.find(names) {
            let kind = match column.kind {
                _ if !column.lists => return Err(table.wrong_type(&column, wanted)),
                CellType::Float => NpyType::F32,
                CellType::Double => NpyType::F64,
                CellType::Integer => table.integer_type(&column),
                _ => return Err(table.wrong_type(&column, wanted)),
            };
            let width = table.width(&column)?;
            if width > LONGEST_LIST {
                return Err(table.wrong_type(&column, "lists of at most 16,777,216 values"));
            }
            return Ok(Some(FeatureColumns::Lists { column, kind, width }));
        }
        for stem in names {
            let columns = table.numbered(stem, MOST_COLUMNS)?;
            if columns.is_empty() {
                continue;
            }
            let numbers = [CellType::Integer, CellType::Float, CellType::Double];
            let columns = columns
                .into_iter()
                .map(|column| table.of_kind(column, &numbers, "integers, float or double"))
                .collect::<Result<Vec<_>, _>>()?;
            let floats = columns.iter().all(|column| column.kind == CellType::Float);
            let kind = if floats { NpyType::F32 } else { NpyType::F64 };
            return Ok(Some(FeatureColumns::Columns { columns, kind }));
        }
        Ok(None)
    }

    pub(super) fn write(
        &self,
        table: &dyn SourceTable,
        place: &dyn ArrayTarget,
    ) -> Result<ElementType, GraphError> {
        let source = |name: &str| FeatureSource { place: table.path().join(name), data_offset: None };
        match self {
            FeatureColumns::Lists { column, kind, width } => {
                let mut writer = place.feature_writer(source(&column.name), *kind, *width as usize)?;
                let mut lists = table.read(&[column]);
                let rows = (CHUNK as u64 / width).max(1) as usize;
                while let Some(bytes) = lists.lists(rows, *width)? {
                    writer.write(&bytes)?;
                    place.progress("features", lists.row(), table.rows());
                }
                place.finish_features(writer)
            }
            FeatureColumns::Columns { columns, kind } => {
                // Messages name the first and the last column; messages about one cell count columns from the first.
                let name = match columns.as_slice() {
                    [first, .., last] => format!("{} to {}", first.name, last.name),
                    columns => columns.iter().map(|column| column.name.as_str()).collect(),
                };
                let mut writer = place.feature_writer(source(&name), *kind, columns.len())?;
                let mut rows = table.read(&columns.iter().collect::<Vec<_>>());
                loop {
                    let first = rows.row();
                    let Some(cells) = rows.cells((CHUNK / columns.len()).max(1))? else { break };
                    writer.write(&bytes_of(table, columns, first, cells, *kind)?)?;
                    place.progress("features", rows.row(), table.rows());
                }
                place.finish_features(writer)
            }
        }
    }
}

/// The columns of numbers, in the table's order.
fn of_numbers(table: &dyn SourceTable, read: &[&TableColumn], others: &[&str]) -> Option<FeatureColumns> {
    let free = |column: &&TableColumn| {
        let numbers = matches!(column.kind, CellType::Integer | CellType::Double);
        let named = others.iter().any(|name| column.name.eq_ignore_ascii_case(name));
        numbers && !named && !read.iter().any(|read| read.place == column.place)
    };
    let columns: Vec<TableColumn> = table
        .columns()
        .iter()
        .filter(free)
        .map(|column| TableColumn { kind: CellType::Double, ..column.clone() })
        .collect();
    (!columns.is_empty()).then_some(FeatureColumns::Columns { columns, kind: NpyType::F64 })
}

/// Rows of several columns of numbers, as the bytes of `kind`, row after row.
fn bytes_of(
    table: &dyn SourceTable,
    columns: &[TableColumn],
    first: u64,
    cells: Vec<Cells>,
    kind: NpyType,
) -> Result<Vec<u8>, GraphError> {
    let mut rows: Vec<u8> = Vec::new();
    let size = kind.bytes();
    for (place, (column, cells)) in columns.iter().zip(cells).enumerate() {
        let cells: Vec<Option<f64>> = match cells {
            Cells::Floats(cells) => cells,
            Cells::Integers(cells) => cells.into_iter().map(|cell| cell.map(|value| value as f64)).collect(),
            Cells::Text(_) => Vec::new(),
        };
        rows.resize(cells.len() * columns.len() * size, 0);
        for (row, cell) in cells.into_iter().enumerate() {
            let missing = if table.is_text() { "the feature is missing" } else { "the feature is null" };
            let value =
                cell.ok_or_else(|| table.wrong_cell(column, first + row as u64, missing.to_owned()))?;
            let at = (row * columns.len() + place) * size;
            match kind {
                NpyType::F32 => rows[at..at + 4].copy_from_slice(&(value as f32).to_le_bytes()),
                _ => rows[at..at + 8].copy_from_slice(&value.to_le_bytes()),
            }
        }
    }
    Ok(rows)
}
