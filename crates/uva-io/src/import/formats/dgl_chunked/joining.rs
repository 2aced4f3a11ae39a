//! Joins the chunks of an array.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use uva_files::disk_space::{self, BytesOnDisk};
use uva_files::staging::{TemporaryDirectory, refuse_existing};
use uva_graph::npy::{NpyType, NpyWriter};
use uva_graph::{GraphError, Progress};

use super::chunks::{ParquetShape, columns, edge_count, pairs, parquet_shape, parquet_table};
use super::metadata::{ChunkFormat, Chunks, wrong};
use crate::import::formats::npy::typed::FEATURES;
use crate::import::formats::tables::{CellType, Cells, SourceTable, TableColumn};
use crate::import::reading::nodes::{NodeRange, end_in_pairs};
use crate::import::reading::stream::ArrayStream;
use crate::import::reading::text::{LineError, each_line, float, integer};
use crate::import::request::ImportRequest;
use crate::import::writing::output::CHUNK;

/// Where arrays are joined. They exist until this is dropped.
pub(super) struct Joining<'r> {
    request: &'r ImportRequest<'r>,
    /// The description, for messages.
    description: PathBuf,
    directory: TemporaryDirectory,
    /// The joined arrays, each with the source that messages name in its place.
    joined: RefCell<Vec<(PathBuf, String)>>,
}

impl<'r> Joining<'r> {
    pub(super) fn begin(request: &'r ImportRequest<'r>, description: PathBuf) -> Result<Self, GraphError> {
        refuse_existing(request.out)?;
        // Parents of the output may be missing yet.
        let parent = request.out.ancestors().skip(1).find(|parent| parent.is_dir()).unwrap_or(Path::new("."));
        let name = request.out.file_name().unwrap_or_default().to_string_lossy();
        let directory = TemporaryDirectory::create(parent, &format!("{name}.chunks"))
            .map_err(GraphError::io(parent, "create a directory in"))?;
        Ok(Self { request, description, directory, joined: RefCell::default() })
    }

    /// The import, whose messages name joined arrays by their temporary files.
    pub(super) fn request(&self) -> &ImportRequest<'r> {
        self.request
    }

    /// `text` with the sources of joined arrays in place of their temporary files.
    pub(super) fn in_source(&self, text: &str) -> String {
        let joined = self.joined.borrow();
        let put = |text: String, (path, source): &(PathBuf, String)| {
            text.replace(&path.display().to_string(), source)
        };
        // The last ones first, because `10.npy` ends as `0.npy` does.
        joined.iter().rev().fold(text.to_owned(), put)
    }

    /// The error with the sources of joined arrays in place of their temporary files.
    pub(super) fn about_source(&self, error: GraphError) -> GraphError {
        match error {
            GraphError::Invalid { file, problem } => {
                let file = PathBuf::from(self.in_source(&file.display().to_string()));
                GraphError::Invalid { file, problem }
            }
            GraphError::Usage { option, message } => {
                GraphError::Usage { option, message: self.in_source(&message) }
            }
            error => error,
        }
    }

    /// A path for an array of `bytes`, joined of `chunks`.
    fn place(&self, chunks: &Chunks, bytes: u64) -> Result<PathBuf, GraphError> {
        let what = format!(
            "the chunks joined take {} for a while: make room, or name an OUT on another disk",
            BytesOnDisk(bytes)
        );
        disk_space::check(self.request.out, bytes, what)?;
        let mut joined = self.joined.borrow_mut();
        let path = self.directory.path().join(format!("{}.npy", joined.len()));
        let first = chunks.files[0].display();
        let source = match chunks.files.len() - 1 {
            0 => first.to_string(),
            more => format!("{first} and {more} more"),
        };
        joined.push((path.clone(), source));
        Ok(path)
    }

    fn report(&self, done: u64, total: u64) {
        (self.request.watch.progress)(Progress { stage: "chunks", done, total });
    }

    /// The file with the array `name` of `owner`, which has `rows` rows if they are known.
    pub(super) fn array(
        &self,
        (owner, name): (&str, &str),
        chunks: &Chunks,
        rows: Option<u64>,
    ) -> Result<PathBuf, GraphError> {
        let check = |found: u64| match rows {
            Some(rows) if rows != found => {
                let message = format!("{name} of {owner} has {found} rows in its chunks, expected {rows}");
                Err(wrong(&self.description, message))
            }
            _ => Ok(()),
        };
        // One column is one number a node, except of features.
        let row = |width: usize| if width == 1 && !FEATURES.contains(&name) { vec![] } else { vec![width] };
        match chunks.format {
            ChunkFormat::Numpy => self.numpy(chunks, &check),
            ChunkFormat::Text(delimiter) => self.text(chunks, delimiter, &row, &check),
            ChunkFormat::Parquet => self.parquet(chunks, &row, &check),
        }
    }

    fn numpy(
        &self,
        chunks: &Chunks,
        check: &dyn Fn(u64) -> Result<(), GraphError>,
    ) -> Result<PathBuf, GraphError> {
        let first = ArrayStream::open(&chunks.files[0])?;
        let kind = first.kind();
        let row = match first.shape() {
            [_, row @ ..] => row.to_vec(),
            [] => return Err(first.wrong_shape("[rows] or [rows, columns]")),
        };
        let mut rows = 0_u64;
        for file in &chunks.files {
            let stream = ArrayStream::open(file)?;
            if stream.shape().get(1..) != Some(&row[..]) {
                return Err(stream.wrong_shape(format!("[rows] and then {row:?}, as of the first chunk")));
            }
            if stream.kind() != kind {
                return Err(stream.wrong_type(format!("{kind}, as of the first chunk")));
            }
            rows = rows.saturating_add(stream.shape()[0] as u64);
        }
        check(rows)?;
        if let [only] = &chunks.files[..] {
            return Ok(only.clone());
        }
        let row_elements = row.iter().fold(1_u64, |product, &width| product.saturating_mul(width as u64));
        let total = rows.saturating_mul(row_elements);
        let path = self.place(chunks, total.saturating_mul(kind.bytes() as u64))?;
        let mut writer = NpyWriter::create(&path, kind, &row)?;
        let mut done = 0;
        for file in &chunks.files {
            let mut stream = ArrayStream::open(file)?;
            loop {
                let bytes = stream.bytes(CHUNK)?;
                if bytes.is_empty() {
                    break;
                }
                writer.write_bytes(bytes)?;
                self.report(done + stream.position(), total);
            }
            done += stream.len();
        }
        writer.finish_with_rows(rows)?;
        Ok(path)
    }

    /// Rows of text: int64 if all values are whole numbers, else float64.
    fn text(
        &self,
        chunks: &Chunks,
        delimiter: u8,
        row: &dyn Fn(usize) -> Vec<usize>,
        check: &dyn Fn(u64) -> Result<(), GraphError>,
    ) -> Result<PathBuf, GraphError> {
        let (mut rows, mut width, mut are_whole) = (0_u64, 0, true);
        let each_row = |work: &mut dyn FnMut(&[u8]) -> Result<(), LineError>| {
            chunks.files.iter().try_for_each(|file| {
                let report = |position| self.request.watch.at("chunks", position);
                each_line(file, &report, |_, text| if text.is_empty() { Ok(()) } else { work(text) })
            })
        };
        each_row(&mut |text| {
            let found = columns(text, delimiter).count();
            if rows > 0 && found != width {
                return Err(LineError::Line(format!("it has {found} columns, the first line has {width}")));
            }
            (rows, width) = (rows + 1, found);
            for value in columns(text, delimiter) {
                if whole(value).is_none() {
                    are_whole = false;
                    float::<f64>(value).ok_or_else(|| LineError::Line("expected numbers".to_owned()))?;
                }
            }
            Ok(())
        })?;
        check(rows)?;
        let width = width.max(1);
        let path = self.place(chunks, rows.saturating_mul(width as u64).saturating_mul(8))?;
        let kind = if are_whole { NpyType::I64 } else { NpyType::F64 };
        let mut writer = NpyWriter::create(&path, kind, &row(width))?;
        let mut bytes = Vec::new();
        each_row(&mut |text| {
            for value in columns(text, delimiter) {
                let changed = || LineError::Line("the file has changed".to_owned());
                bytes.extend_from_slice(&match are_whole {
                    true => whole(value).ok_or_else(changed)?.to_le_bytes(),
                    false => match whole(value) {
                        Some(whole) => (whole as f64).to_le_bytes(),
                        None => float::<f64>(value).ok_or_else(changed)?.to_le_bytes(),
                    },
                });
            }
            if bytes.len() >= CHUNK {
                writer.write_bytes(&bytes)?;
                bytes.clear();
            }
            Ok(())
        })?;
        writer.write_bytes(&bytes)?;
        writer.finish_with_rows(rows)?;
        Ok(path)
    }

    /// The rows of a table: a column of lists, or all columns in their order.
    fn parquet(
        &self,
        chunks: &Chunks,
        row: &dyn Fn(usize) -> Vec<usize>,
        check: &dyn Fn(u64) -> Result<(), GraphError>,
    ) -> Result<PathBuf, GraphError> {
        let table = parquet_table(chunks)?;
        let table = &*table;
        check(table.rows())?;
        let columns: Vec<&TableColumn> = table.columns().iter().collect();
        let ParquetShape { is_list, width, kind } = parquet_shape(table)?;
        let bytes = table.rows().saturating_mul(width).saturating_mul(kind.bytes() as u64);
        let path = self.place(chunks, bytes)?;
        let shape = if is_list { vec![width as usize] } else { row(width as usize) };
        let mut writer = NpyWriter::create(&path, kind, &shape)?;
        let mut reader = table.read(&columns);
        let most = (CHUNK as u64 / width).max(1) as usize;
        loop {
            let first = reader.row();
            if is_list {
                let Some(bytes) = reader.lists(most, width)? else { break };
                writer.write_bytes(&bytes)?;
            } else {
                let Some(cells) = reader.cells(most)? else { break };
                writer.write_bytes(&rows_of(table, &columns, first, &cells, kind)?)?;
            }
            self.report(reader.row(), table.rows());
        }
        writer.finish_with_rows(table.rows())?;
        Ok(path)
    }

    /// The number of edges, and the files of sources and destinations, which are checked. `stated`: their number in the
    /// description.
    pub(super) fn edges(
        &self,
        (owner, chunks): (&str, &Chunks),
        ends: &[NodeRange; 2],
        stated: Option<u64>,
    ) -> Result<(u64, [PathBuf; 2]), GraphError> {
        let total = edge_count(chunks)?;
        if let Some(stated) = stated.filter(|stated| *stated != total) {
            let message =
                format!("edges of {owner} has {total} in its chunks, num_edges_per_chunk has {stated}");
            return Err(wrong(&self.description, message));
        }
        let paths =
            [self.place(chunks, total.saturating_mul(8))?, self.place(chunks, total.saturating_mul(8))?];
        let create = |path: &PathBuf| NpyWriter::create(path, NpyType::I64, &[]);
        let mut writers = [create(&paths[0])?, create(&paths[1])?];
        let mut buffers = [Vec::new(), Vec::new()];
        let mut push = |[source, destination]: [i64; 2], is_last: bool| {
            if !is_last {
                buffers[0].push(source);
                buffers[1].push(destination);
            }
            if is_last || buffers[0].len() == CHUNK {
                for (writer, buffer) in writers.iter_mut().zip(&mut buffers) {
                    writer.write(buffer)?;
                    buffer.clear();
                }
            }
            Ok::<(), GraphError>(())
        };
        if chunks.format == ChunkFormat::Parquet {
            self.edges_of_table(&*parquet_table(chunks)?, ends, &mut |edge| push(edge, false))?;
        } else {
            for file in &chunks.files {
                match chunks.format {
                    ChunkFormat::Text(delimiter) => {
                        let report = |position| self.request.watch.at("chunks", position);
                        each_line(file, &report, |_, text| match text.is_empty() {
                            true => Ok(()),
                            false => Ok(push(edge_of(text, delimiter, ends)?, false)?),
                        })?;
                    }
                    _ => {
                        let mut stream = pairs(file)?;
                        loop {
                            let ids = stream.integers(2 * CHUNK)?;
                            if ids.is_empty() {
                                break;
                            }
                            let end = |position: u64| &ends[usize::from(!position.is_multiple_of(2))];
                            stream.check_each_id(&ids, end, end_in_pairs)?;
                            ids.as_chunks::<2>().0.iter().try_for_each(|&edge| push(edge, false))?;
                            self.report(stream.position(), stream.len());
                        }
                    }
                }
            }
        }
        push([0, 0], true)?;
        writers.into_iter().try_for_each(|writer| writer.finish_with_rows(total))?;
        Ok((total, paths))
    }

    fn edges_of_table(
        &self,
        table: &dyn SourceTable,
        ends: &[NodeRange; 2],
        push: &mut dyn FnMut([i64; 2]) -> Result<(), GraphError>,
    ) -> Result<(), GraphError> {
        let [source, destination] = table.columns() else {
            let message = format!("it has {} columns, edges have two", table.columns().len());
            return Err(wrong(table.path(), message));
        };
        let columns = [source, destination];
        for column in columns {
            if column.lists || column.kind != CellType::Integer {
                return Err(table.wrong_type(column, "integers"));
            }
        }
        let mut reader = table.read(&columns);
        loop {
            let first = reader.row();
            let Some(cells) = reader.cells(CHUNK)? else { return Ok(()) };
            let bytes = rows_of(table, &columns, first, &cells, NpyType::I64)?;
            for (row, ids) in (first..).zip(bytes.as_chunks::<16>().0) {
                let ids = [0, 8].map(|at| i64::from_le_bytes(std::array::from_fn(|byte| ids[at + byte])));
                for ((id, nodes), column) in ids.iter().zip(ends).zip(columns) {
                    if !nodes.has(*id) {
                        return Err(table.wrong_cell(column, row, format!("it is {id}, {nodes}")));
                    }
                }
                push(ids)?;
            }
            self.report(reader.row(), table.rows());
        }
    }
}

/// A whole number, or a truth value as pandas writes it.
fn whole(text: &[u8]) -> Option<i64> {
    match text {
        b"True" | b"true" => Some(1),
        b"False" | b"false" => Some(0),
        text => integer(text),
    }
}

/// The ends of the edge on a line.
fn edge_of(text: &[u8], delimiter: u8, ends: &[NodeRange; 2]) -> Result<[i64; 2], LineError> {
    let mut columns = columns(text, delimiter);
    let (Some(source), Some(destination), None) = (columns.next(), columns.next(), columns.next()) else {
        let message = format!(
            "an edge is two columns separated by '{}', the delimiter in metadata.json",
            char::from(delimiter)
        );
        return Err(LineError::Line(message));
    };
    let end = |text: &[u8], end: &str, nodes: &NodeRange| match integer(text) {
        Some(id) if nodes.has(id) => Ok(id),
        Some(id) => Err(LineError::Line(format!("its {end} is {id}, {nodes}"))),
        None => Err(LineError::Line(format!("its {end} is not a node id"))),
    };
    Ok([end(source, "source", &ends[0])?, end(destination, "destination", &ends[1])?])
}

/// The cells of some rows from `first` on, row by row, as the bytes of `kind`.
fn rows_of(
    table: &dyn SourceTable,
    columns: &[&TableColumn],
    first: u64,
    cells: &[Cells],
    kind: NpyType,
) -> Result<Vec<u8>, GraphError> {
    let count = cells.first().map_or(0, |cells| match cells {
        Cells::Integers(values) => values.len(),
        Cells::Floats(values) => values.len(),
        Cells::Text(_) => 0,
    });
    let mut bytes = Vec::with_capacity(count * columns.len() * kind.bytes());
    for at in 0..count {
        for (column, cells) in columns.iter().zip(cells) {
            let (integer, float) = match cells {
                Cells::Integers(values) => (values[at], values[at].map(|value| value as f64)),
                Cells::Floats(values) => (None, values[at]),
                Cells::Text(_) => (None, None),
            };
            let Some(float) = float else {
                return Err(table.wrong_cell(column, first + at as u64, "it is null".to_owned()));
            };
            match kind {
                NpyType::I64 => bytes.extend_from_slice(&integer.unwrap_or(0).to_le_bytes()),
                NpyType::F32 => bytes.extend_from_slice(&(float as f32).to_le_bytes()),
                _ => bytes.extend_from_slice(&float.to_le_bytes()),
            }
        }
    }
    Ok(bytes)
}
