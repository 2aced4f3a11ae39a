//! Tables in Parquet files.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{ConvertedType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::schema::types::ColumnDescPtr;
use uva_graph::GraphError;
use uva_graph::npy::NpyType;
use uva_graph::quote::{message, shown};
use uva_mem::files::open_regular;

use super::super::tables::{Cells, Column, Kind, Rows, Table, Texts};
use super::pages::{Allowance, Budget, Pages};
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
    #[error("column {column}, row group {group}: {problem}")]
    Chunk { column: String, group: usize, problem: String },
    #[error("column {column}, row {row}: {problem}")]
    Cell { column: String, row: u64, problem: String },
}

/// An open file.
pub(super) struct ParquetTable {
    path: PathBuf,
    file: Arc<File>,
    bytes: u64,
    metadata: ParquetMetaData,
    rows: u64,
    columns: Vec<Column>,
    budget: Budget,
}

impl ParquetTable {
    pub(super) fn open(path: &Path) -> Result<ParquetTable, GraphError> {
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
        let rows = rows.ok_or_else(|| refuse("the numbers of rows in its footer are no numbers of rows"))?;
        let (columns, budget) =
            (columns(metadata.file_metadata().schema_descr().columns()), Budget::default());
        Ok(ParquetTable {
            path: path.to_owned(),
            file: Arc::new(file),
            bytes,
            metadata,
            rows,
            columns,
            budget,
        })
    }

    fn leaf(&self, column: &Column) -> &ColumnDescPtr {
        &self.metadata.file_metadata().schema_descr().columns()[column.place]
    }

    fn wrong_chunk(&self, column: &Column, group: usize, problem: impl Into<String>) -> GraphError {
        let (column, problem) = (shown(&column.name), problem.into());
        GraphError::invalid(&self.path, TableProblem::Chunk { column, group, problem })
    }

    /// The location of a column's pages in the file.
    fn range(&self, column: &Column, group: usize) -> Result<Range<u64>, GraphError> {
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

impl Table for ParquetTable {
    fn path(&self) -> &Path {
        &self.path
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn is_text(&self) -> bool {
        false
    }

    fn type_name(&self, column: &Column) -> String {
        let of = self.leaf(column);
        let mut found = of.physical_type().to_string();
        if of.converted_type() != ConvertedType::NONE {
            found = format!("{found} ({})", of.converted_type());
        }
        if column.lists { format!("a list of {found}") } else { found }
    }

    fn read<'t>(&'t self, columns: &[&Column]) -> Box<dyn Rows + 't> {
        let stream = |column: &&Column| Stream {
            table: self,
            column: (*column).clone(),
            group: 0,
            left: 0,
            row: 0,
            reader: None,
            allowance: Allowance::default(),
        };
        Box::new(Streams(columns.iter().map(stream).collect()))
    }

    /// Computed from the footer's counts.
    fn width(&self, column: &Column) -> Result<u64, GraphError> {
        let mut width = None;
        for (number, group) in
            self.metadata.row_groups().iter().enumerate().filter(|(_, group)| group.num_rows() > 0)
        {
            let (rows, values) = (group.num_rows(), group.column(column.place).num_values());
            let here = (values > 0 && values % rows == 0).then_some((values / rows).cast_unsigned());
            if here.is_none() || width.is_some_and(|width| Some(width) != here) {
                let problem =
                    format!("{values} values in {rows} rows: every row needs a list of the same length");
                return Err(self.wrong_chunk(column, number, problem));
            }
            width = here;
        }
        Ok(width.unwrap_or(1))
    }

    fn integer_type(&self, column: &Column) -> NpyType {
        let of = self.leaf(column);
        match (of.physical_type(), of.converted_type()) {
            (Type::INT32, ConvertedType::UINT_32) => NpyType::U32,
            (Type::INT32, _) => NpyType::I32,
            (_, ConvertedType::UINT_64) => NpyType::U64,
            _ => NpyType::I64,
        }
    }

    fn wrong_cell(&self, column: &Column, row: u64, problem: String) -> GraphError {
        let column = shown(&column.name);
        GraphError::invalid(&self.path, TableProblem::Cell { column, row, problem })
    }
}

/// The columns of a file, groups by their own name.
fn columns(leaves: &[ColumnDescPtr]) -> Vec<Column> {
    let name = |leaf: &ColumnDescPtr| leaf.path().parts().first().cloned().unwrap_or_default();
    let mut leaves_of: HashMap<String, usize> = HashMap::new();
    leaves.iter().for_each(|leaf| *leaves_of.entry(name(leaf)).or_default() += 1);
    let mut columns = Vec::new();
    for (place, leaf) in leaves.iter().enumerate() {
        let name = name(leaf);
        // Nothing for the further leaves of a group.
        let Some(leaves) = leaves_of.remove(&name) else { continue };
        columns.push(Column {
            name,
            place,
            // Groups that are not lists have several columns, or a nullable one without repetition.
            kind: match (leaves, leaf.path().parts().len(), leaf.max_rep_level()) {
                (1, 1, 0) | (1, 1..=3, 1) => kind(leaf),
                _ => Kind::Other,
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

fn kind(column: &ColumnDescPtr) -> Kind {
    match column.physical_type() {
        Type::INT32 | Type::INT64 => Kind::Integer,
        Type::FLOAT => Kind::Float,
        Type::DOUBLE => Kind::Double,
        Type::BYTE_ARRAY => Kind::Text,
        Type::BOOLEAN | Type::INT96 | Type::FIXED_LEN_BYTE_ARRAY => Kind::Other,
    }
}

/// Columns of one file: their batches have the same rows, since all columns have the same row groups.
struct Streams<'t>(Vec<Stream<'t>>);

impl Rows for Streams<'_> {
    fn row(&self) -> u64 {
        self.0.first().map_or(0, |stream| stream.row)
    }

    fn cells(&mut self, most: usize) -> Result<Option<Vec<Cells>>, GraphError> {
        self.0.iter_mut().map(|stream| stream.cells(most)).collect()
    }

    fn lists(&mut self, most: usize, width: u64) -> Result<Option<Vec<u8>>, GraphError> {
        self.0.first_mut().map_or(Ok(None), |stream| stream.lists(most, width))
    }
}

/// A column read from its first row to its last.
struct Stream<'t> {
    table: &'t ParquetTable,
    column: Column,
    /// The next row group.
    group: usize,
    /// Rows of the previous one still to be read.
    left: u64,
    row: u64,
    reader: Option<ColumnReader>,
    allowance: Allowance,
}

/// Values without their nulls, and the levels that locate these.
struct Read<V> {
    values: Vec<V>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

fn read<T: DataType>(reader: &mut ColumnReaderImpl<T>, rows: usize) -> Result<Read<T::T>, ParquetError> {
    let mut read = Read { values: Vec::new(), definition: Vec::new(), repetition: Vec::new() };
    let (records, ..) = reader.read_records(
        rows,
        Some(&mut read.definition),
        Some(&mut read.repetition),
        &mut read.values,
    )?;
    match records == rows {
        true => Ok(read),
        false => Err(ParquetError::General("it has fewer values than the row group has rows".to_owned())),
    }
}

impl<V> Read<V> {
    /// A cell for each row, made by `convert`.
    fn cells<C>(self, convert: impl Fn(V) -> C) -> Vec<Option<C>> {
        let mut values = self.values.into_iter().map(convert);
        match self.definition.is_empty() {
            true => values.map(Some).collect(),
            false => {
                self.definition.iter().map(|&level| if level > 0 { values.next() } else { None }).collect()
            }
        }
    }
}

impl Read<ByteArray> {
    fn texts(self) -> Texts {
        let mut texts = Texts::default();
        self.cells(|value| value).iter().for_each(|cell| texts.push(cell.as_ref().map(ByteArray::data)));
        texts
    }
}

impl Stream<'_> {
    /// Opens the next row group if this one has ended. Returns how many of `most` rows it still has: none at the end of
    /// the table.
    fn rows_ahead(&mut self, most: usize) -> Result<usize, GraphError> {
        while self.left == 0 {
            if self.group == self.table.metadata.num_row_groups() {
                return Ok(0);
            }
            let chunk = self.table.metadata.row_group(self.group).column(self.column.place);
            let range = self.table.range(&self.column, self.group)?;
            let of = Arc::clone(self.table.leaf(&self.column));
            self.allowance = Allowance::default();
            let (file, budget) = (Arc::clone(&self.table.file), self.table.budget.clone());
            // The pages of the group before are released first.
            self.reader = None;
            let pages =
                Pages::new(file, range, chunk.compression(), of.clone(), budget, self.allowance.clone());
            self.reader = Some(get_column_reader(of, Box::new(pages)));
            self.left = self.table.metadata.row_group(self.group).num_rows().cast_unsigned();
            self.group += 1;
        }
        Ok((most as u64).min(self.left) as usize)
    }

    fn advance(&mut self, rows: usize) {
        self.left -= rows as u64;
        self.row += rows as u64;
    }

    /// The next cells, at most `most`; nothing at the end. Streams of one table return the same numbers of rows.
    fn cells(&mut self, most: usize) -> Result<Option<Cells>, GraphError> {
        let rows = self.rows_ahead(most)?;
        if rows == 0 {
            return Ok(None);
        }
        self.allowance.add(rows as u64);
        let unsigned = self.table.leaf(&self.column).converted_type();
        let cells = match &mut self.reader {
            Some(ColumnReader::Int32ColumnReader(reader)) => read(reader, rows).map(|read| {
                let unsigned = matches!(unsigned, ConvertedType::UINT_32);
                Cells::Integers(
                    read.cells(|value| if unsigned { value.cast_unsigned().into() } else { value.into() }),
                )
            }),
            Some(ColumnReader::Int64ColumnReader(reader)) => {
                read(reader, rows).map(|read| Cells::Integers(read.cells(|value| value)))
            }
            Some(ColumnReader::FloatColumnReader(reader)) => {
                read(reader, rows).map(|read| Cells::Floats(read.cells(f64::from)))
            }
            Some(ColumnReader::DoubleColumnReader(reader)) => {
                read(reader, rows).map(|read| Cells::Floats(read.cells(|value| value)))
            }
            Some(ColumnReader::ByteArrayColumnReader(reader)) => {
                read(reader, rows).map(|read: Read<ByteArray>| Cells::Text(read.texts()))
            }
            _ => Err(ParquetError::General("values of this type are not read".to_owned())),
        };
        let cells = cells.map_err(|error| self.failed(&error))?;
        if let (ConvertedType::UINT_64, Cells::Integers(values)) = (unsigned, &cells)
            && let Some(at) = values.iter().position(|value| value.is_some_and(|value| value < 0))
        {
            let problem = "it is too large for a signed 64-bit integer";
            return Err(self.table.wrong_cell(&self.column, self.row + at as u64, problem.to_owned()));
        }
        self.advance(rows);
        Ok(Some(cells))
    }

    /// The next rows of a column of lists, each of `width` values, as the bytes of their type; nothing at the end.
    fn lists(&mut self, most: usize, width: u64) -> Result<Option<Vec<u8>>, GraphError> {
        let rows = self.rows_ahead(most)?;
        if rows == 0 {
            return Ok(None);
        }
        self.allowance.add(rows as u64 * width);
        let read = match &mut self.reader {
            Some(ColumnReader::FloatColumnReader(reader)) => read(reader, rows).map(bytes_of),
            Some(ColumnReader::DoubleColumnReader(reader)) => read(reader, rows).map(bytes_of),
            Some(ColumnReader::Int32ColumnReader(reader)) => read(reader, rows).map(bytes_of),
            Some(ColumnReader::Int64ColumnReader(reader)) => read(reader, rows).map(bytes_of),
            _ => Err(ParquetError::General("lists of this type are not read".to_owned())),
        };
        let read = read.map_err(|error| self.failed(&error))?;
        let whole = self.table.leaf(&self.column).max_def_level();
        let width = width as usize;
        let starts = |(at, &level): (usize, &i16)| (level == 0) == at.is_multiple_of(width);
        if let Some(null) = read.definition.iter().position(|&level| level != whole) {
            let row = self.row + (null / width) as u64;
            return Err(self.table.wrong_cell(
                &self.column,
                row,
                "a list or a value in it is null".to_owned(),
            ));
        }
        if read.repetition.len() != rows * width || !read.repetition.iter().enumerate().all(starts) {
            let wrong = read.repetition.iter().enumerate().position(|level| !starts(level)).unwrap_or(0);
            let row = self.row + (wrong / width) as u64;
            return Err(self.table.wrong_cell(&self.column, row, format!("it is no list of {width} values")));
        }
        self.advance(rows);
        Ok(Some(read.values))
    }

    fn failed(&self, error: &ParquetError) -> GraphError {
        let problem = match error {
            ParquetError::General(problem) => problem.clone(),
            error => error.to_string(),
        };
        self.table.wrong_chunk(&self.column, self.group.saturating_sub(1), message(&problem))
    }
}

/// The same with values as bytes.
fn bytes_of<V: bytemuck::NoUninit>(read: Read<V>) -> Read<u8> {
    let values = bytemuck::cast_slice(&read.values).to_vec();
    Read { values, definition: read.definition, repetition: read.repetition }
}
