//! Tables in Parquet files: one file, or a directory of files one after the other.

use std::cell::RefCell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{ConvertedType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use uva_files::quote::{message, shown};
use uva_graph::GraphError;
use uva_graph::npy::NpyType;
use uva_mem::files::open_regular;

use super::super::tables::{Cells, SourceTable, TableColumn, TableReader, Texts};
use super::pages::{Allowance, ChunkPages, MemoryBudget};
use super::part::{ParquetFile, TableProblem};

/// A table, whose files are opened as they are read.
pub(super) struct ParquetTable {
    path: PathBuf,
    /// At least one.
    parts: Vec<ParquetFile>,
    groups: Vec<Group>,
    rows: u64,
    columns: Vec<TableColumn>,
    budget: MemoryBudget,
    /// The file that was read last, by its number.
    open: RefCell<(usize, Arc<File>)>,
}

/// A row group of a part.
struct Group {
    part: usize,
    group: usize,
    /// The part's first row.
    first_row: u64,
}

impl ParquetTable {
    /// The table in `files`, of which there is at least one. `path`: the table's own name.
    pub(super) fn open(path: &Path, files: &[PathBuf]) -> Result<ParquetTable, GraphError> {
        let mut parts: Vec<ParquetFile> = Vec::with_capacity(files.len());
        let (mut groups, mut rows, mut open) = (Vec::new(), 0_u64, None);
        for (number, file) in files.iter().enumerate() {
            let (part, file) = ParquetFile::open(file)?;
            if let Some(first) = parts.first() {
                part.check_like(first)?;
            }
            let of = |group| Group { part: number, group, first_row: rows };
            groups.extend((0..part.metadata.num_row_groups()).map(of));
            rows = rows.saturating_add(part.rows);
            parts.push(part);
            open.get_or_insert((0, Arc::new(file)));
        }
        let (Some(first), Some(open)) = (parts.first(), open) else {
            let message = format!("{} contains no file of the table", path.display());
            return Err(GraphError::usage("SRC", message));
        };
        let columns = first.columns();
        let (path, budget, open) = (path.to_owned(), MemoryBudget::default(), RefCell::new(open));
        Ok(ParquetTable { path, parts, groups, rows, columns, budget, open })
    }

    fn file(&self, number: usize) -> Result<Arc<File>, GraphError> {
        let mut open = self.open.borrow_mut();
        if open.0 != number {
            let path = &self.parts[number].path;
            *open = (number, Arc::new(open_regular(path).map_err(GraphError::io(path, "open"))?));
        }
        Ok(Arc::clone(&open.1))
    }
}

impl SourceTable for ParquetTable {
    fn path(&self) -> &Path {
        &self.path
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn columns(&self) -> &[TableColumn] {
        &self.columns
    }

    fn is_text(&self) -> bool {
        false
    }

    fn type_name(&self, column: &TableColumn) -> String {
        self.parts[0].type_name(column)
    }

    fn read<'t>(&'t self, columns: &[&TableColumn]) -> Box<dyn TableReader + 't> {
        let stream = |column: &&TableColumn| Stream {
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

    /// Computed from the footers' counts.
    fn width(&self, column: &TableColumn) -> Result<u64, GraphError> {
        let mut width = None;
        for &Group { part, group: number, .. } in &self.groups {
            let part = &self.parts[part];
            let group = part.metadata.row_group(number);
            let (rows, values) = (group.num_rows(), group.column(column.place).num_values());
            if rows == 0 {
                continue;
            }
            let here = (values > 0 && values % rows == 0).then_some((values / rows).cast_unsigned());
            if here.is_none() || width.is_some_and(|width| Some(width) != here) {
                let problem =
                    format!("{values} values in {rows} rows: every row needs a list of the same length");
                return Err(part.wrong_chunk(column, number, problem));
            }
            width = here;
        }
        Ok(width.unwrap_or(1))
    }

    fn integer_type(&self, column: &TableColumn) -> NpyType {
        let of = self.parts[0].leaf(column);
        match (of.physical_type(), of.converted_type()) {
            (Type::INT32, ConvertedType::UINT_32) => NpyType::U32,
            (Type::INT32, _) => NpyType::I32,
            (_, ConvertedType::UINT_64) => NpyType::U64,
            _ => NpyType::I64,
        }
    }

    fn wrong_cell(&self, column: &TableColumn, row: u64, problem: String) -> GraphError {
        let after = self.groups.partition_point(|group| group.first_row <= row);
        let (path, first) = match self.groups[..after].last() {
            Some(group) => (&self.parts[group.part].path, group.first_row),
            None => (&self.path, 0),
        };
        let (column, row) = (shown(&column.name), row - first);
        GraphError::invalid(path, TableProblem::Cell { column, row, problem })
    }
}

/// Columns read in parallel: their batches have the same rows, since all columns have the same row groups.
struct Streams<'t>(Vec<Stream<'t>>);

impl TableReader for Streams<'_> {
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
    column: TableColumn,
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
    /// Opens the next row group if this one has ended. Returns how many of `most` rows it still has: 0 at the end of
    /// the table.
    fn rows_ahead(&mut self, most: usize) -> Result<usize, GraphError> {
        while self.left == 0 {
            let Some(&Group { part: number, group, .. }) = self.table.groups.get(self.group) else {
                return Ok(0);
            };
            let part = &self.table.parts[number];
            let chunk = part.metadata.row_group(group).column(self.column.place);
            let range = part.range(&self.column, group)?;
            let of = Arc::clone(part.leaf(&self.column));
            self.allowance = Allowance::default();
            let (file, budget) = (self.table.file(number)?, self.table.budget.clone());
            // The pages of the group before are released first.
            self.reader = None;
            let pages =
                ChunkPages::new(file, range, chunk.compression(), of.clone(), budget, self.allowance.clone());
            self.reader = Some(get_column_reader(of, Box::new(pages)));
            self.left = part.metadata.row_group(group).num_rows().cast_unsigned();
            self.group += 1;
        }
        Ok((most as u64).min(self.left) as usize)
    }

    /// The file of the row group that is open.
    fn part(&self) -> &ParquetFile {
        &self.table.parts[self.table.groups[self.group - 1].part]
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
        let unsigned = self.table.parts[0].leaf(&self.column).converted_type();
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
            _ => Err(ParquetError::General("values of this type are not supported".to_owned())),
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
            _ => Err(ParquetError::General("lists of this type are not supported".to_owned())),
        };
        let read = read.map_err(|error| self.failed(&error))?;
        let whole = self.part().leaf(&self.column).max_def_level();
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
            return Err(self.table.wrong_cell(
                &self.column,
                row,
                format!("expected a list of {width} values"),
            ));
        }
        self.advance(rows);
        Ok(Some(read.values))
    }

    fn failed(&self, error: &ParquetError) -> GraphError {
        let problem = match error {
            ParquetError::General(problem) => problem.clone(),
            error => error.to_string(),
        };
        let group = self.table.groups[self.group - 1].group;
        self.part().wrong_chunk(&self.column, group, message(&problem))
    }
}

/// The same with values as bytes.
fn bytes_of<V: bytemuck::NoUninit>(read: Read<V>) -> Read<u8> {
    let values = bytemuck::cast_slice(&read.values).to_vec();
    Read { values, definition: read.definition, repetition: read.repetition }
}
