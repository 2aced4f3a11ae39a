//! Writes a dataset in another order.

use std::path::Path;
use std::time::Instant;

use rayon::prelude::*;
use uva_mem::files;

use super::NodeOrder;
use super::lists::{Lists, write_ends};
use super::order::{Places, by_place};
use crate::meta;
use crate::names;
use crate::npy::{NpyType, NpyWriter, write_array};
use crate::progress::in_steps;
use crate::staged::StagedDirectory;
use crate::{Dataset, GraphError, Indices, Progress, Split, Summary};

/// Rows that one task copies.
const ROWS_PER_TASK: usize = 256;

/// Writes `dataset` with its nodes in `order` to the directory `out`, which must not exist.
///
/// Every array is reordered:
/// - lists: their neighbours are renumbered, and keep their order and width
/// - weights, feature rows, those of edges too, and labels: moved with their lists and nodes
/// - splits: the same nodes at the same positions, renumbered
///
/// `orig_id.npy` holds each node's previous id, or, if there is one, the id before the first reordering. `meta.json` is
/// copied. `progress` is called now and then, from this thread; the current rayon pool does the work.
///
/// Besides about 64 MiB of output, it holds 16 bytes a node in memory (24 from 2³² nodes on).
///
/// # Errors
/// If the order has another number of nodes, an id of the dataset is no node (its stamp is older than the file), `out`
/// exists, or the system refuses to write. Nothing is left behind then.
///
/// # Panics
/// If the dataset was opened with [`Verify::HeadersOnly`](crate::Verify::HeadersOnly) and its `indptr` is wrong.
pub fn write_reordered(
    dataset: &Dataset,
    order: &NodeOrder,
    out: &Path,
    progress: &dyn Fn(Progress),
) -> Result<Summary, GraphError> {
    let (staged, summary) = stage_reordered(dataset, order, out, progress)?;
    staged.commit()?;
    Ok(summary)
}

/// The same, but not yet renamed to `out`: for callers that add files to the dataset before it appears.
///
/// # Errors
/// As [`write_reordered`].
///
/// # Panics
/// As [`write_reordered`].
pub fn stage_reordered(
    dataset: &Dataset,
    order: &NodeOrder,
    out: &Path,
    progress: &dyn Fn(Progress),
) -> Result<(StagedDirectory, Summary), GraphError> {
    let start = Instant::now();
    check_length(dataset, order)?;
    let staged = StagedDirectory::new(out)?;
    let places = order.places();
    let copy = Copy { dataset, order, places, directory: staged.path(), progress };
    copy.lists()?;
    let features = dataset.features();
    let kind = dataset.files().features.kind();
    copy.rows("features", names::FEATURES, kind, &[features.dim], features.bytes)?;
    if let Some(labels) = dataset.files().labels.array() {
        copy.rows("labels", names::LABELS, labels.kind(), &labels.shape()[1..], labels.bytes())?;
    }
    if let Some(degrees) = &dataset.files().degrees {
        let array = degrees.array();
        copy.rows("in-degrees", names::DEGREES, array.kind(), &[], array.bytes())?;
    }
    copy.splits()?;
    copy.original_ids()?;
    copy_meta(dataset.path(), staged.path())?;
    let summary = Summary {
        nodes: dataset.nodes() as u64,
        edges: dataset.edges() as u64,
        feature_dim: features.dim as u64,
        classes: dataset.classes() as u64,
        split_sizes: Split::ALL.map(|split| dataset.split(split).len() as u64),
        seconds: start.elapsed().as_secs_f64(),
    };
    Ok((staged, summary))
}

/// Refuses an order that does not fit this dataset.
pub(super) fn check_length(dataset: &Dataset, order: &NodeOrder) -> Result<(), GraphError> {
    if order.len() == dataset.nodes() {
        return Ok(());
    }
    let (given, nodes) = (order.len(), dataset.nodes());
    Err(GraphError::usage(
        "the order of nodes",
        format!("it orders {given} nodes, but {} has {nodes}", dataset.path().display()),
    ))
}

/// One dataset while it is reordered.
struct Copy<'a> {
    dataset: &'a Dataset,
    order: &'a NodeOrder,
    places: Places,
    directory: &'a Path,
    progress: &'a dyn Fn(Progress),
}

impl Copy<'_> {
    fn lists(&self) -> Result<(), GraphError> {
        let csc = self.dataset.csc();
        let mut ends = vec![0; csc.indptr.len()];
        write_ends(csc.indptr, self.order, &mut ends);
        write_array(&self.directory.join(names::INDPTR), NpyType::I64, &[], &ends)?;
        let lists = Lists { from: csc.indptr, to: &ends, order: self.order };
        let places = &self.places;
        match csc.indices {
            Indices::I32(ids) => self.entries(&lists, "edges", names::INDICES, NpyType::I32, ids, |id| {
                // A place is below the number of nodes, so it fits wherever the id did.
                places.find(id.into()).map(|place| place as i32)
            })?,
            Indices::I64(ids) => self.entries(&lists, "edges", names::INDICES, NpyType::I64, ids, |id| {
                places.find(id).map(|place| place as i64)
            })?,
        }
        if let Some(weights) = self.dataset.weights() {
            self.entries(&lists, "weights", names::WEIGHTS, NpyType::F32, weights, Some)?;
        }
        self.edge_features(&lists)
    }

    fn edge_features(&self, lists: &Lists<'_>) -> Result<(), GraphError> {
        let Some((array, _)) = &self.dataset.files().edge_features else { return Ok(()) };
        let (row_shape, rows) = (&array.shape()[1..], array.bytes());
        let row_bytes = row_shape.iter().product::<usize>() * array.kind().bytes();
        let path = self.directory.join(names::EDGE_FEATURES);
        let mut writer = NpyWriter::create(&path, array.kind(), row_shape)?;
        let mut moved = Vec::new();
        in_steps("edge features", array.shape()[0] as u64, row_bytes, self.progress, |range| {
            let range = range.start as usize..range.end as usize;
            moved.resize(range.len() * row_bytes, 0);
            lists.write_rows(range, row_bytes, rows, &mut moved);
            writer.write_bytes(&moved)
        })?;
        writer.finish().map(drop)
    }

    /// Writes an array with one value per edge.
    fn entries<T: bytemuck::NoUninit + Default + Send + Sync>(
        &self,
        lists: &Lists<'_>,
        stage: &'static str,
        name: &str,
        kind: NpyType,
        values: &[T],
        change: impl Fn(T) -> Option<T> + Sync,
    ) -> Result<(), GraphError> {
        let mut writer = NpyWriter::create(&self.directory.join(name), kind, &[])?;
        let mut moved = Vec::new();
        in_steps(stage, values.len() as u64, size_of::<T>(), self.progress, |range| {
            let range = range.start as usize..range.end as usize;
            moved.resize(range.len(), T::default());
            let changed = lists.write(range, values, &mut moved, &change);
            changed.map_err(|position| self.dataset.wrong_neighbour(position))?;
            writer.write(&moved)
        })?;
        writer.finish().map(drop)
    }

    /// Writes an array with one row per node.
    fn rows(
        &self,
        stage: &'static str,
        name: &str,
        kind: NpyType,
        row_shape: &[usize],
        rows: &[u8],
    ) -> Result<(), GraphError> {
        let row_bytes = row_shape.iter().product::<usize>() * kind.bytes();
        let mut writer = NpyWriter::create(&self.directory.join(name), kind, row_shape)?;
        let mut moved = Vec::new();
        let order = self.order;
        in_steps(stage, order.len() as u64, row_bytes, self.progress, |range| {
            let begin = range.start as usize;
            moved.resize((range.end - range.start) as usize * row_bytes, 0);
            let tasks = moved.par_chunks_mut(ROWS_PER_TASK * row_bytes).enumerate();
            tasks.for_each(|(task, moved)| {
                for (place, row) in (begin + task * ROWS_PER_TASK..).zip(moved.chunks_exact_mut(row_bytes)) {
                    let node = order.node(place);
                    row.copy_from_slice(&rows[node * row_bytes..(node + 1) * row_bytes]);
                }
            });
            writer.write_bytes(&moved)
        })?;
        writer.finish().map(drop)
    }

    fn splits(&self) -> Result<(), GraphError> {
        for split in Split::ALL {
            let nodes = self.dataset.split(split);
            let mut places = vec![0; nodes.len()];
            let moved = self.places.of_all(nodes, &mut places);
            moved.map_err(|position| self.dataset.wrong_split_id(split, position))?;
            write_array(&self.directory.join(split.file_name()), NpyType::I64, &[], &places)?;
        }
        Ok(())
    }

    fn original_ids(&self) -> Result<(), GraphError> {
        let before = self.dataset.original_ids();
        let mut writer = NpyWriter::create(&self.directory.join(names::ORIGINAL_IDS), NpyType::I64, &[])?;
        let mut ids = Vec::new();
        in_steps("original ids", self.order.len() as u64, 8, self.progress, |range| {
            ids.resize((range.end - range.start) as usize, 0);
            by_place(self.order, range.start as usize, &mut ids, |node| original_id(before, node));
            writer.write(&ids)
        })?;
        writer.finish().map(drop)
    }
}

/// The original id of `node`.
#[inline]
pub(super) fn original_id(original_ids: Option<&[i64]>, node: usize) -> i64 {
    original_ids.map_or(node as i64, |ids| ids[node])
}

fn copy_meta(from: &Path, to: &Path) -> Result<(), GraphError> {
    let source = from.join(meta::FILE_NAME);
    match files::read_regular(&source, meta::MOST_BYTES) {
        Ok(bytes) => {
            let path = to.join(meta::FILE_NAME);
            files::write_new(&path, &bytes).map_err(GraphError::io(&path, "write"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(GraphError::io(&source, "read")(error)),
    }
}
