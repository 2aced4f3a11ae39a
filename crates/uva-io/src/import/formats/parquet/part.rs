//! One Parquet file: its footer, and its description of the columns.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::schema::types::ColumnDescPtr;
use uva_files::quote::{message, shown};
use uva_graph::GraphError;
use uva_mem::files::open_regular;

use super::super::tables::{CellType, TableColumn};
use super::thrift::Thrift;

/// The size limit of a footer: some 100,000 column chunks. A parsed footer takes many times its bytes of memory.
const MOST_FOOTER: u64 = 16 << 20;

/// The nesting limit of groups in a schema, which the reader follows by recursion.
const DEEPEST_SCHEMA: usize = 64;

/// Faults of a file.
#[derive(Debug, thiserror::Error)]
pub(super) enum TableProblem {
    #[error("not a Parquet file that can be read: {0}")]
    Footer(String),
    #[error("column {place} is {found}, in {first} {wanted}: the files of a table have the same columns")]
    OtherColumns { place: usize, found: String, wanted: String, first: String },
    #[error("column {column}, row group {group}: {problem}")]
    Chunk { column: String, group: usize, problem: String },
    #[error("column {column}, row {row}: {problem}")]
    Cell { column: String, row: u64, problem: String },
}

/// A file of a table.
pub(super) struct ParquetFile {
    pub(super) path: PathBuf,
    bytes: u64,
    pub(super) metadata: ParquetMetaData,
    pub(super) rows: u64,
}

impl ParquetFile {
    /// Reads the footer. Returns the open file too.
    pub(super) fn open(path: &Path) -> Result<(ParquetFile, File), GraphError> {
        let file = open_regular(path).map_err(GraphError::io(path, "open"))?;
        let bytes = file.metadata().map_err(GraphError::io(path, "look at"))?.len();
        let refuse = |problem: &str| GraphError::invalid(path, TableProblem::Footer(problem.to_owned()));
        let end = bytes.checked_sub(12).ok_or_else(|| refuse("it has less than 12 bytes"))?;
        let mut tail = [0; 8];
        file.read_exact_at(&mut tail, bytes - 8).map_err(GraphError::io(path, "read"))?;
        match &tail[4..] {
            b"PAR1" => {}
            b"PARE" => return Err(refuse("it is encrypted")),
            _ => return Err(refuse("it does not end with PAR1")),
        }
        let length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
        if length > end {
            return Err(refuse(&format!("its footer would take {length} of {bytes} bytes")));
        }
        if length > MOST_FOOTER {
            let most = MOST_FOOTER >> 20;
            return Err(refuse(&format!("its footer takes more than {most} MiB: write larger row groups")));
        }
        let mut footer = vec![0; length as usize];
        file.read_exact_at(&mut footer, bytes - 8 - length).map_err(GraphError::io(path, "read"))?;
        let deep = deep(&footer).map_err(|error| refuse(&format!("its footer: {error}")))?;
        if deep {
            return Err(refuse("its columns lie too deep in groups"));
        }
        let metadata = ParquetMetaDataReader::decode_metadata(&footer)
            .map_err(|error| refuse(&message(&error.to_string())))?;
        let rows = metadata.row_groups().iter().try_fold(0_u64, |sum, group| {
            sum.checked_add(u64::try_from(group.num_rows()).ok()?).filter(|&sum| sum <= i64::MAX as u64)
        });
        let rows = rows.ok_or_else(|| refuse("its footer has an invalid number of rows"))?;
        Ok((ParquetFile { path: path.to_owned(), bytes, metadata, rows }, file))
    }

    fn leaves(&self) -> &[ColumnDescPtr] {
        self.metadata.file_metadata().schema_descr().columns()
    }

    pub(super) fn leaf(&self, column: &TableColumn) -> &ColumnDescPtr {
        &self.leaves()[column.place]
    }

    /// The columns, groups by their own name.
    pub(super) fn columns(&self) -> Vec<TableColumn> {
        columns(self.leaves())
    }

    /// A column's type in Parquet's words.
    pub(super) fn type_name(&self, column: &TableColumn) -> String {
        let of = self.leaf(column);
        let mut found = of.physical_type().to_string();
        if of.converted_type() != ConvertedType::NONE {
            found = format!("{found} ({})", of.converted_type());
        }
        if column.lists { format!("a list of {found}") } else { found }
    }

    /// Rejects a file whose columns differ from those of the table's `first` file.
    pub(super) fn check_like(&self, first: &ParquetFile) -> Result<(), GraphError> {
        let described = |part: &ParquetFile| -> Vec<String> {
            let columns = part.columns();
            columns
                .iter()
                .map(|column| format!("{} of {}", shown(&column.name), part.type_name(column)))
                .collect()
        };
        let (own, wanted) = (described(self), described(first));
        let at = (0..own.len().max(wanted.len())).find(|&at| own.get(at) != wanted.get(at));
        let Some(at) = at else { return Ok(()) };
        let name = |columns: &[String]| columns.get(at).cloned().unwrap_or_else(|| "none".to_owned());
        let (place, found, wanted) = (at + 1, name(&own), name(&wanted));
        let first = first.path.display().to_string();
        Err(GraphError::invalid(&self.path, TableProblem::OtherColumns { place, found, wanted, first }))
    }

    pub(super) fn wrong_chunk(
        &self,
        column: &TableColumn,
        group: usize,
        problem: impl Into<String>,
    ) -> GraphError {
        let (column, problem) = (shown(&column.name), problem.into());
        GraphError::invalid(&self.path, TableProblem::Chunk { column, group, problem })
    }

    /// The location of a column's pages in the file.
    pub(super) fn range(&self, column: &TableColumn, group: usize) -> Result<Range<u64>, GraphError> {
        let chunk = self.metadata.row_group(group).column(column.place);
        if chunk.file_path().is_some() {
            return Err(self.wrong_chunk(column, group, "its pages are in another file"));
        }
        let dictionary = chunk.dictionary_page_offset().filter(|&offset| offset > 0);
        let start =
            dictionary.map_or(chunk.data_page_offset(), |offset| offset.min(chunk.data_page_offset()));
        let range = u64::try_from(start).ok().zip(u64::try_from(chunk.compressed_size()).ok());
        let range = range.and_then(|(start, bytes)| Some(start..start.checked_add(bytes)?));
        match range.filter(|range| range.end <= self.bytes) {
            Some(range) => Ok(range),
            None => Err(self.wrong_chunk(column, group, "its pages would lie outside of the file")),
        }
    }
}

/// The columns of a file, groups by their own name.
fn columns(leaves: &[ColumnDescPtr]) -> Vec<TableColumn> {
    let name = |leaf: &ColumnDescPtr| leaf.path().parts().first().cloned().unwrap_or_default();
    let mut leaves_of: HashMap<String, usize> = HashMap::new();
    leaves.iter().for_each(|leaf| *leaves_of.entry(name(leaf)).or_default() += 1);
    let mut columns = Vec::new();
    for (place, leaf) in leaves.iter().enumerate() {
        let name = name(leaf);
        // Nothing for the further leaves of a group.
        let Some(leaves) = leaves_of.remove(&name) else { continue };
        columns.push(TableColumn {
            name,
            place,
            // Groups that are not lists have several columns, or a nullable one without repetition.
            kind: match (leaves, leaf.path().parts().len(), leaf.max_rep_level()) {
                (1, 1, 0) | (1, 1..=3, 1) => kind(leaf),
                _ => CellType::Other,
            },
            lists: leaf.max_rep_level() > 0,
        });
    }
    columns
}

/// Whether the columns of a footer are nested too deeply in groups.
fn deep(footer: &[u8]) -> std::io::Result<bool> {
    let mut deep = false;
    // For each open group, the number of children still to come.
    let mut open: Vec<i64> = Vec::new();
    let mut thrift = Thrift::new(footer);
    thrift.each_field(|thrift, id, kind| {
        if id != 2 {
            return thrift.skip(kind);
        }
        let (length, element) = thrift.list(kind)?;
        for _ in 0..length {
            let mut children = 0;
            thrift.structure(element, |thrift, id, kind| match id {
                5 => thrift.integer(kind).map(|count| children = count),
                _ => thrift.skip(kind),
            })?;
            while open.last() == Some(&0) {
                open.pop();
            }
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            if children > 0 {
                open.push(children);
                deep |= open.len() > DEEPEST_SCHEMA;
            }
        }
        Ok(())
    })?;
    Ok(deep)
}

fn kind(column: &ColumnDescPtr) -> CellType {
    // Its integers or bytes are not the value, which has a scale.
    let logical = matches!(column.logical_type_ref(), Some(LogicalType::Decimal(..)));
    if logical || column.converted_type() == ConvertedType::DECIMAL {
        return CellType::Other;
    }
    match column.physical_type() {
        Type::INT32 | Type::INT64 => CellType::Integer,
        Type::FLOAT => CellType::Float,
        Type::DOUBLE => CellType::Double,
        Type::BYTE_ARRAY => CellType::Text,
        Type::BOOLEAN | Type::INT96 | Type::FIXED_LEN_BYTE_ARRAY => CellType::Other,
    }
}
