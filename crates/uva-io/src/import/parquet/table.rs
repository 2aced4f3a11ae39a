//! Tables: columns found by name, read a batch of rows at a time.

use std::collections::HashSet;
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
use uva_graph::quote::{listed, message, shown};
use uva_mem::files::open_regular;

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
    #[error("it has no column {wanted}: it has {found}")]
    NoColumn { wanted: String, found: String },
    #[error("column {column}: its type is {found}, it has to be {wanted}")]
    Type { column: String, found: String, wanted: &'static str },
    #[error("columns {first} and {second} have the same number: rename or drop one")]
    SameNumber { first: String, second: String },
    #[error(
        "it has {found} columns {stem}_0, {stem}_1, …, and at most {most} are read: write one column of lists"
    )]
    TooMany { stem: String, found: usize, most: usize },
    #[error("column {column}, row group {group}: {problem}")]
    Chunk { column: String, group: usize, problem: String },
    #[error("column {column}, row {row}: {problem}")]
    Cell { column: String, row: u64, problem: String },
}

/// The type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Integer,
    Float,
    Double,
    Text,
    Other,
}

/// An open file.
pub(super) struct Table {
    path: PathBuf,
    file: Arc<File>,
    bytes: u64,
    metadata: ParquetMetaData,
    rows: u64,
    budget: Budget,
}

/// A column of a table.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    leaf: usize,
    pub(super) kind: Kind,
    /// Whether its rows are lists.
    pub(super) lists: bool,
}

/// Values of some rows; nothing for a null.
#[derive(Debug)]
pub(super) enum Cells {
    Integers(Vec<Option<i64>>),
    Floats(Vec<Option<f64>>),
    Text(Vec<Option<ByteArray>>),
}

impl Table {
    pub(super) fn open(path: &Path) -> Result<Table, GraphError> {
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
        let budget = Budget::default();
        Ok(Table { path: path.to_owned(), file: Arc::new(file), bytes, metadata, rows, budget })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    fn columns(&self) -> &[ColumnDescPtr] {
        self.metadata.file_metadata().schema_descr().columns()
    }

    /// Names of the file's columns, groups by their own.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.columns().iter().filter_map(|column| column.path().parts().first().cloned()).collect();
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }

    /// The first of `names` that exists.
    pub(super) fn find(&self, names: &[&str]) -> Result<Option<Column>, GraphError> {
        for name in names {
            let named = |(_, column): &(usize, &ColumnDescPtr)| {
                column.path().parts().first().is_some_and(|first| first == *name)
            };
            let mut leaves = self.columns().iter().enumerate().filter(named);
            let (Some((leaf, column)), second) = (leaves.next(), leaves.next()) else { continue };
            let column = column.clone();
            let column = Column {
                name: (*name).to_owned(),
                leaf,
                // Groups that are not lists have several columns, or a nullable one without repetition.
                kind: match (second, column.path().parts().len(), column.max_rep_level()) {
                    (None, 1, 0) | (None, 1..=3, 1) => kind(&column),
                    _ => Kind::Other,
                },
                lists: column.max_rep_level() > 0,
            };
            return Ok(Some(column));
        }
        Ok(None)
    }

    /// The columns named `stem` and a number, in the order of the numbers: any first number, gaps and padding with zeros
    /// are fine, with `_`, `-`, `.` or nothing before the number.
    ///
    /// # Errors
    /// If two have the same number, or there are more than `most`.
    pub(super) fn numbered(&self, stem: &str, most: usize) -> Result<Vec<Column>, GraphError> {
        let names = self.names();
        let mut found: Vec<(Number<'_>, &str)> =
            names.iter().filter_map(|name| Some((number_behind(stem, name)?, name.as_str()))).collect();
        found.sort_unstable();
        if let Some(pair) = found.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let (first, second) = (shown(pair[0].1), shown(pair[1].1));
            return Err(GraphError::invalid(&self.path, TableProblem::SameNumber { first, second }));
        }
        if found.len() > most {
            let problem = TableProblem::TooMany { stem: stem.to_owned(), found: found.len(), most };
            return Err(GraphError::invalid(&self.path, problem));
        }
        found.into_iter().map(|(_, name)| self.required(&[name])).collect()
    }

    /// Names of the columns without these.
    pub(super) fn others(&self, read: &[&Column]) -> Vec<String> {
        self.names().into_iter().filter(|name| !read.iter().any(|column| column.name == *name)).collect()
    }

    /// As [`Table::find`], or an error.
    pub(super) fn required(&self, names: &[&str]) -> Result<Column, GraphError> {
        self.find(names)?.ok_or_else(|| {
            let (wanted, found) = (names.join(" or "), listed(self.names()));
            GraphError::invalid(&self.path, TableProblem::NoColumn { wanted, found })
        })
    }

    /// The column, if its rows are single values of one of these kinds.
    pub(super) fn of_kind(
        &self,
        column: Column,
        kinds: &[Kind],
        wanted: &'static str,
    ) -> Result<Column, GraphError> {
        if !column.lists && kinds.contains(&column.kind) {
            Ok(column)
        } else {
            Err(self.wrong_type(&column, wanted))
        }
    }

    pub(super) fn wrong_type(&self, column: &Column, wanted: &'static str) -> GraphError {
        let of = &self.columns()[column.leaf];
        let mut found = of.physical_type().to_string();
        if of.converted_type() != ConvertedType::NONE {
            found = format!("{found} ({})", of.converted_type());
        }
        if column.lists {
            found = format!("a list of {found}");
        }
        let column = shown(&column.name);
        GraphError::invalid(&self.path, TableProblem::Type { column, found, wanted })
    }

    pub(super) fn wrong_cell(&self, column: &Column, row: u64, problem: impl Into<String>) -> GraphError {
        let (column, problem) = (shown(&column.name), problem.into());
        GraphError::invalid(&self.path, TableProblem::Cell { column, row, problem })
    }

    fn wrong_chunk(&self, column: &Column, group: usize, problem: impl Into<String>) -> GraphError {
        let (column, problem) = (shown(&column.name), problem.into());
        GraphError::invalid(&self.path, TableProblem::Chunk { column, group, problem })
    }

    /// The number of values in each row of a column of lists, computed from the footer's counts.
    pub(super) fn width(&self, column: &Column) -> Result<u64, GraphError> {
        let mut width = None;
        for (number, group) in
            self.metadata.row_groups().iter().enumerate().filter(|(_, group)| group.num_rows() > 0)
        {
            let (rows, values) = (group.num_rows(), group.column(column.leaf).num_values());
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

    /// The array type for a column of integers.
    pub(super) fn integer_type(&self, column: &Column) -> NpyType {
        let of = &self.columns()[column.leaf];
        match (of.physical_type(), of.converted_type()) {
            (Type::INT32, ConvertedType::UINT_32) => NpyType::U32,
            (Type::INT32, _) => NpyType::I32,
            (_, ConvertedType::UINT_64) => NpyType::U64,
            _ => NpyType::I64,
        }
    }

    pub(super) fn stream<'t>(&'t self, column: &'t Column) -> Stream<'t> {
        Stream {
            table: self,
            column,
            group: 0,
            left: 0,
            row: 0,
            reader: None,
            allowance: Allowance::default(),
        }
    }

    /// The location of a column's pages in the file.
    fn range(&self, column: &Column, group: usize) -> Result<Range<u64>, GraphError> {
        let chunk = self.metadata.row_group(group).column(column.leaf);
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

/// A whole number of any length: how many digits it has, and these.
type Number<'n> = (usize, &'n str);

/// The number of a column named `stem`, a separator and digits.
fn number_behind<'n>(stem: &str, name: &'n str) -> Option<Number<'n>> {
    let rest = name.strip_prefix(stem)?;
    let digits = rest.strip_prefix(['_', '-', '.']).unwrap_or(rest);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    Some((digits.len(), digits))
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

/// A column read from its first row to its last.
pub(super) struct Stream<'t> {
    table: &'t Table,
    column: &'t Column,
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

impl<'t> Stream<'t> {
    /// The number of the next row.
    pub(super) fn row(&self) -> u64 {
        self.row
    }

    /// Opens the next row group if this one has ended. Returns how many of `most` rows it still has: none at the end of
    /// the table.
    fn rows_ahead(&mut self, most: usize) -> Result<usize, GraphError> {
        while self.left == 0 {
            if self.group == self.table.metadata.num_row_groups() {
                return Ok(0);
            }
            let chunk = self.table.metadata.row_group(self.group).column(self.column.leaf);
            let range = self.table.range(self.column, self.group)?;
            let of = self.table.columns()[self.column.leaf].clone();
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
    pub(super) fn cells(&mut self, most: usize) -> Result<Option<Cells>, GraphError> {
        let rows = self.rows_ahead(most)?;
        if rows == 0 {
            return Ok(None);
        }
        self.allowance.add(rows as u64);
        let unsigned = self.table.columns()[self.column.leaf].converted_type();
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
                read(reader, rows).map(|read| Cells::Text(read.cells(|value| value)))
            }
            _ => Err(ParquetError::General("values of this type are not read".to_owned())),
        };
        let cells = cells.map_err(|error| self.failed(&error))?;
        if let (ConvertedType::UINT_64, Cells::Integers(values)) = (unsigned, &cells)
            && let Some(at) = values.iter().position(|value| value.is_some_and(|value| value < 0))
        {
            let problem = "it is too large for a signed 64-bit integer";
            return Err(self.table.wrong_cell(self.column, self.row + at as u64, problem));
        }
        self.advance(rows);
        Ok(Some(cells))
    }

    /// The next rows of a column of lists, each of `width` values, as the bytes of their type; nothing at the end.
    pub(super) fn lists(&mut self, most: usize, width: u64) -> Result<Option<Vec<u8>>, GraphError> {
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
        let whole = self.table.columns()[self.column.leaf].max_def_level();
        let width = width as usize;
        let starts = |(at, &level): (usize, &i16)| (level == 0) == at.is_multiple_of(width);
        if let Some(null) = read.definition.iter().position(|&level| level != whole) {
            let row = self.row + (null / width) as u64;
            return Err(self.table.wrong_cell(self.column, row, "a list or a value in it is null"));
        }
        if read.repetition.len() != rows * width || !read.repetition.iter().enumerate().all(starts) {
            let wrong = read.repetition.iter().enumerate().position(|level| !starts(level)).unwrap_or(0);
            let row = self.row + (wrong / width) as u64;
            return Err(self.table.wrong_cell(self.column, row, format!("it is no list of {width} values")));
        }
        self.advance(rows);
        Ok(Some(read.values))
    }

    fn failed(&self, error: &ParquetError) -> GraphError {
        let problem = match error {
            ParquetError::General(problem) => problem.clone(),
            error => error.to_string(),
        };
        self.table.wrong_chunk(self.column, self.group.saturating_sub(1), message(&problem))
    }
}

/// The same with values as bytes.
fn bytes_of<V: bytemuck::NoUninit>(read: Read<V>) -> Read<u8> {
    let values = bytemuck::cast_slice(&read.values).to_vec();
    Read { values, definition: read.definition, repetition: read.repetition }
}
