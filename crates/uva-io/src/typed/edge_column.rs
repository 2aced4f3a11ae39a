//! Values of the edges of a relation, in the order of the source.

use std::path::Path;

use uva_graph::npy::{NpyArray, NpyType, NpyWriter};
use uva_graph::{GraphError, names};

/// Rows that are read before they are written.
const ROWS: usize = 1 << 14;

/// Appends the bytes of an edge's row, little-endian.
type ReadRow<'c> = Box<dyn Fn(u64, &mut Vec<u8>) -> Result<(), GraphError> + Send + Sync + 'c>;

/// An array with a row for each edge, found by the number of the edge in its source.
pub struct EdgeColumn<'c> {
    file: String,
    kind: NpyType,
    row_shape: Vec<usize>,
    rows: u64,
    read: ReadRow<'c>,
}

impl std::fmt::Debug for EdgeColumn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} [{}, {:?}]", self.file, self.kind, self.rows, self.row_shape)
    }
}

impl<'c> EdgeColumn<'c> {
    /// A column that becomes `file`, of `rows` rows. `read` appends a row's bytes.
    pub fn new(
        file: impl Into<String>,
        kind: NpyType,
        row_shape: &[usize],
        rows: u64,
        read: impl Fn(u64, &mut Vec<u8>) -> Result<(), GraphError> + Send + Sync + 'c,
    ) -> Self {
        Self { file: file.into(), kind, row_shape: row_shape.to_vec(), rows, read: Box::new(read) }
    }

    /// The rows of an array of `kind`, as bytes.
    pub fn of_bytes(file: impl Into<String>, kind: NpyType, row_shape: &[usize], bytes: &'c [u8]) -> Self {
        let row_bytes = row_shape.iter().product::<usize>() * kind.bytes();
        let rows = (bytes.len() / row_bytes.max(1)) as u64;
        Self::new(file, kind, row_shape, rows, move |number, row| {
            let at = number as usize * row_bytes;
            row.extend_from_slice(&bytes[at..at + row_bytes]);
            Ok(())
        })
    }

    /// The rows of an array, unchanged.
    pub fn of_array(file: impl Into<String>, array: &'c NpyArray) -> Self {
        Self::of_bytes(file, array.kind(), &array.shape()[1..], array.bytes())
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of a row in its file.
    pub fn row_bytes(&self) -> u64 {
        (self.row_shape.iter().product::<usize>() * self.kind.bytes()) as u64
    }

    /// The value of an edge, of a column of int64.
    pub(super) fn integer(&self, number: u64) -> i64 {
        let mut row = Vec::with_capacity(8);
        // A row that cannot be read fails again when it is written.
        let _ = (self.read)(number, &mut row);
        row.try_into().map_or(0, i64::from_le_bytes)
    }

    /// Creates the column's file in `directory`.
    pub(super) fn create(&self, directory: &Path) -> Result<NpyWriter, GraphError> {
        NpyWriter::create(&directory.join(&self.file), self.kind, &self.row_shape)
    }

    /// Appends the rows of these edges.
    pub(super) fn write(
        &self,
        numbers: impl Iterator<Item = u64>,
        writer: &mut NpyWriter,
    ) -> Result<(), GraphError> {
        let mut bytes = Vec::new();
        let most = ROWS * self.row_bytes().max(1) as usize;
        for number in numbers {
            (self.read)(number, &mut bytes)?;
            if bytes.len() >= most {
                writer.write_bytes(&bytes)?;
                bytes.clear();
            }
        }
        writer.write_bytes(&bytes)
    }

    /// Writes all rows in the order of the source.
    pub(super) fn write_in_order(&self, directory: &Path) -> Result<(), GraphError> {
        let mut writer = self.create(directory)?;
        self.write(0..self.rows, &mut writer)?;
        writer.finish().map(drop)
    }
}

/// The values of the edges of a relation, each column with one row an edge in the order in which edges are pushed.
#[derive(Debug, Default)]
pub struct EdgeColumns<'c> {
    /// Columns that are written in the order of the lists: weights, types, arrays of the user's own.
    pub columns: Vec<EdgeColumn<'c>>,
    /// The features. With reverse edges, both directions have one table, in the order of the source.
    pub features: Option<EdgeColumn<'c>>,
    /// Times, int64. Each list is sorted by them, stably, and `meta.json` says so.
    pub times: Option<EdgeColumn<'c>>,
    /// Whether the number of each edge is kept in `edge_id.npy`, as it always is for features of both directions.
    pub edge_ids: bool,
}

impl EdgeColumns<'_> {
    /// Whether edges have anything that the lists alone do not say.
    pub(super) fn is_numbered(&self) -> bool {
        self.edge_ids || !self.columns.is_empty() || self.features.is_some() || self.times.is_some()
    }

    /// All columns.
    pub(super) fn all(&self) -> impl Iterator<Item = &EdgeColumn<'_>> {
        self.columns.iter().chain(&self.features).chain(&self.times)
    }

    /// The numbers of the edges themselves.
    pub(super) fn edge_ids_column<'e>(edges: u64) -> EdgeColumn<'e> {
        EdgeColumn::new(names::EDGE_IDS, NpyType::I64, &[], edges, |number, row| {
            row.extend_from_slice(&number.to_le_bytes());
            Ok(())
        })
    }
}
