//! Writes a dataset in another order.

use std::path::Path;
use std::time::Instant;

use uva_mem::files;

use super::NodeOrder;
use super::copy::Copy;
use crate::description::meta;
use crate::description::names;
use crate::storage::files::RowArray;
use crate::{DATASET, Dataset, GraphError, Progress, Split, Summary};
use uva_files::staging::StagedDirectory;

/// Writes `dataset` with its nodes in `order` to the directory `out`, which must not exist.
///
/// Every array is reordered:
/// - lists: their neighbours are renumbered, and keep their order and width
/// - weights, feature rows, those of edges too, and labels: moved with their lists and nodes
/// - splits: the same nodes at the same positions, renumbered
///
/// `orig_id.npy` holds each node's previous id, or, if there is one, the id before the first reordering. `meta.json` is
/// copied. `progress` is called periodically, on this thread; the current rayon pool does the work.
///
/// In addition to about 64 MiB of output, it holds 16 bytes per node in memory (24 from 2³² nodes on).
///
/// # Errors
/// If the order has another number of nodes, an id of the dataset is not a node (its stamp is older than the file),
/// `out` exists, or a write fails. No files remain after an error.
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

/// Like [`write_reordered`], but does not rename the directory to `out` yet. For callers that add files to the dataset
/// before it becomes visible.
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
    dataset.check_copy()?;
    let staged = StagedDirectory::new(out, &DATASET)?;
    let (copy, directory) = (Copy::of(dataset, order), staged.path());
    copy.graph(directory, progress)?;
    let (features, files, whole) = (dataset.features(), dataset.files(), 0..order.len());
    let path = directory.join(names::FEATURES);
    copy.rows(&files.table().array, whole.clone(), ("features", &path), progress, |_| ())?;
    if let Some(RowArray { array: rows, .. }) = files.first_edge_table() {
        let path = directory.join(names::EDGE_FEATURES);
        copy.edge_rows(rows, whole, ("edge features", &path), progress, |_| ())?;
    }
    match dataset.meta().typed {
        None => copy_meta(dataset.path(), staged.path())?,
        Some(_) => dataset.meta().in_format_1().write(staged.path())?,
    }
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

/// Checks that the order fits this dataset.
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
