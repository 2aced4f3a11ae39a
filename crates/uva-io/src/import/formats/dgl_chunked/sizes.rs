//! What the import of a chunked graph takes, found before its chunks are joined.

use uva_graph::GraphError;

use super::chunks::{columns, edge_count, parquet_shape, parquet_table};
use super::metadata::{ChunkFormat, ChunkedGraph, Chunks};
use super::reads::{EDGE_ARRAYS, Reads};
use crate::import::reading::stream::ArrayStream;
use crate::import::reading::text::each_line_until;
use crate::import::request::{ImportEstimate, ImportRequest};
use crate::import::writing::typed_changes::RelationChanges;
use crate::import::writing::typed_output::{RelationSizes, TypedSizes};

/// Bytes of the ends of an edge where they are joined.
const ENDS_BYTES: u64 = 16;

/// Sizes of the dataset, and of the joined chunks.
#[derive(Debug, Default)]
pub(super) struct ChunkedSizes {
    dataset: TypedSizes,
    joined: u64,
}

impl ChunkedSizes {
    /// Those of the arrays that are read. `changes` has the changes of each relation.
    pub(super) fn of(
        described: &ChunkedGraph,
        reads: &Reads,
        changes: &[RelationChanges],
    ) -> Result<Self, GraphError> {
        let mut sizes = Self::default();
        for of in &described.types {
            sizes.dataset.nodes = sizes.dataset.nodes.saturating_add(of.nodes);
            for chunks in of.data.iter().filter(|(name, _)| (reads.nodes)(name)).map(|(_, chunks)| chunks) {
                let bytes = sizes.array(chunks, of.nodes)?.saturating_mul(of.nodes);
                sizes.dataset.node_bytes = sizes.dataset.node_bytes.saturating_add(bytes);
            }
        }
        for (of, change) in described.relations.iter().zip(changes) {
            let [sources, lists] = of.ends.map(|end| described.types[end].nodes);
            let entries = of.stated.map_or_else(|| edge_count(&of.edges), Ok)?;
            sizes.joined = sizes.joined.saturating_add(entries.saturating_mul(ENDS_BYTES));
            let mut relation = RelationSizes { lists, entries, ..RelationSizes::default() };
            for (name, chunks) in of.data.iter().filter(|(name, _)| (reads.edges)(name)) {
                let bytes = sizes.array(chunks, entries)?;
                relation.row_bytes = relation.row_bytes.saturating_add(bytes);
                if EDGE_ARRAYS.iter().any(|(given, new)| given == name && *new == "edge_feat") {
                    relation.temporary_row_bytes = bytes;
                }
            }
            sizes.dataset.relations.push(relation.changed(sources, *change));
        }
        Ok(sizes)
    }

    /// Bytes of a row of an array, which is joined unless it is one `.npy` file.
    fn array(&mut self, chunks: &Chunks, rows: u64) -> Result<u64, GraphError> {
        let bytes = row_bytes(chunks)?;
        if chunks.format != ChunkFormat::Numpy || chunks.files.len() > 1 {
            self.joined = self.joined.saturating_add(bytes.saturating_mul(rows));
        }
        Ok(bytes)
    }

    /// Reports the estimate.
    pub(super) fn report(&self, request: &ImportRequest<'_>) {
        let estimate = self.dataset.estimate(request.options);
        let temporary = estimate.temporary.saturating_add(self.joined);
        (request.watch.estimate)(&ImportEstimate { temporary, ..estimate });
    }
}

/// Bytes of a row as it is joined. Text is judged by its first line.
fn row_bytes(chunks: &Chunks) -> Result<u64, GraphError> {
    match chunks.format {
        ChunkFormat::Numpy => {
            let first = ArrayStream::open(&chunks.files[0])?;
            let width =
                first.shape().iter().skip(1).fold(1_u64, |all, &width| all.saturating_mul(width as u64));
            Ok(width.saturating_mul(first.kind().bytes() as u64))
        }
        ChunkFormat::Text(delimiter) => {
            let mut width = 0_u64;
            each_line_until(&chunks.files[0], &|_| {}, |_, text| {
                width = if text.is_empty() { 0 } else { columns(text, delimiter).count() as u64 };
                Ok(width == 0)
            })?;
            Ok(width.saturating_mul(8))
        }
        ChunkFormat::Parquet => {
            let shape = parquet_shape(&*parquet_table(chunks)?)?;
            Ok(shape.width.saturating_mul(shape.kind.bytes() as u64))
        }
    }
}
