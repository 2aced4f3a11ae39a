//! The chunks of an array: their number of edges, and the shape of their rows.

use std::path::Path;

use uva_graph::GraphError;
use uva_graph::npy::NpyType;

use super::metadata::{ChunkFormat, Chunks, wrong};
use crate::import::formats::tables::{CellType, SourceTable};
use crate::import::reading::edge_lines;
use crate::import::reading::stream::ArrayStream;

/// The number of edges in these chunks.
pub(super) fn edge_count(chunks: &Chunks) -> Result<u64, GraphError> {
    if chunks.format == ChunkFormat::Parquet {
        return Ok(parquet_table(chunks)?.rows());
    }
    chunks.files.iter().try_fold(0, |total, file| {
        Ok(total
            + match chunks.format {
                ChunkFormat::Numpy => pairs(file)?.shape()[0] as u64,
                _ => edge_lines::count(file)?,
            })
    })
}

/// The chunks as one table.
#[cfg(feature = "parquet")]
pub(super) fn parquet_table(chunks: &Chunks) -> Result<Box<dyn SourceTable>, GraphError> {
    crate::import::formats::parquet::open_files(&chunks.files)
}

#[cfg(not(feature = "parquet"))]
pub(super) fn parquet_table(chunks: &Chunks) -> Result<Box<dyn SourceTable>, GraphError> {
    Err(wrong(&chunks.files[0], "this program was built without Parquet: write the chunks as .npy files"))
}

/// The rows of a table as an array.
pub(super) struct ParquetShape {
    /// Whether there is one column, of lists.
    pub(super) is_list: bool,
    pub(super) width: u64,
    pub(super) kind: NpyType,
}

pub(super) fn parquet_shape(table: &dyn SourceTable) -> Result<ParquetShape, GraphError> {
    let numbers = [CellType::Integer, CellType::Float, CellType::Double];
    let wanted = "integers, float or double, each in a column or all in one column of lists";
    let columns = table.columns();
    let is_list = matches!(columns, [only] if only.lists);
    if let Some(other) =
        columns.iter().find(|column| !numbers.contains(&column.kind) || column.lists && !is_list)
    {
        return Err(table.wrong_type(other, wanted));
    }
    let are = |kind: CellType| columns.iter().all(|column| column.kind == kind);
    let width = match is_list {
        true => table.width(&columns[0])?,
        false => columns.len() as u64,
    };
    if width == 0 {
        return Err(wrong(table.path(), "it has no columns"));
    }
    let kind = match (are(CellType::Integer), are(CellType::Float)) {
        (true, _) if is_list => table.integer_type(&columns[0]),
        (true, _) => NpyType::I64,
        (_, true) => NpyType::F32,
        _ => NpyType::F64,
    };
    Ok(ParquetShape { is_list, width, kind })
}

/// An array of edges, pairs of source and destination.
pub(super) fn pairs(file: &Path) -> Result<ArrayStream, GraphError> {
    let stream = ArrayStream::open(file)?;
    match *stream.shape() {
        [_, 2] => Ok(stream),
        _ => Err(stream.wrong_shape("[edges, 2]: pairs of source and destination")),
    }
}

/// The columns of a line.
pub(super) fn columns(text: &[u8], delimiter: u8) -> impl Iterator<Item = &[u8]> {
    text.trim_ascii_end().split(move |&byte| byte == delimiter).map(<[u8]>::trim_ascii)
}
