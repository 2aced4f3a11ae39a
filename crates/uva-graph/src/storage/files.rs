//! The files of a dataset, mapped, their shapes and types checked against each other. Their content is not checked
//! here.

use std::path::Path;

use crate::description::feature_element::{edge_feature_element, feature_element};
use crate::description::{meta, names};
use crate::npy::NpyArray;
use crate::storage::graph_files::{GraphFiles, optional};
use crate::{ElementType, GraphError, Meta};

/// All files of a dataset.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) graph: GraphFiles,
    pub(crate) features: NpyArray,
    pub(crate) element: ElementType,
    /// The edges' feature rows and their element type.
    pub(crate) edge_features: Option<(NpyArray, ElementType)>,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "this is a hop set, whose rows are trained on without a graph: only `uvatrain train`, `uvatrain info` and \
     Python's HopLoader accept it; other commands require the dataset that it was made from"
)]
struct IsHopSet;

#[derive(Debug, thiserror::Error)]
#[error(
    "this belongs to a partition in ranges and is not a dataset: graph and feature rows lie in separate directories; \
     `uvatrain info` shows it, other commands require the dataset that was partitioned"
)]
struct IsOfRanges;

impl Files {
    /// Maps every file of the dataset in `directory`.
    pub(crate) fn open(directory: &Path) -> Result<Files, GraphError> {
        let metadata = std::fs::metadata(directory).map_err(GraphError::io(directory, "open"))?;
        if !metadata.is_dir() {
            return Err(GraphError::Io {
                path: directory.to_owned(),
                action: "open",
                source: std::io::Error::new(
                    std::io::ErrorKind::NotADirectory,
                    "a dataset is a directory of .npy files",
                ),
            });
        }
        let of_hops = directory.join(names::HOP_SET);
        if of_hops.is_file() {
            return Err(GraphError::invalid(&of_hops, IsHopSet));
        }
        let meta = Meta::read(directory)?;
        if meta.ranges.is_some() {
            return Err(GraphError::invalid(&directory.join(meta::FILE_NAME), IsOfRanges));
        }
        let graph = GraphFiles::open(directory, meta)?;
        let features = NpyArray::open(&directory.join(names::FEATURES))?;
        let wanted = "one row for each node of indptr.npy";
        let element = table_element(directory, &graph.meta, &features, (graph.nodes(), wanted))?;
        let edges = (graph.indices.array().shape()[0], "one row for each edge of indices.npy");
        let edge_features = edge_table(directory, &graph.meta, edges)?;
        Ok(Files { graph, features, element, edge_features })
    }
}

/// The element type of a table of feature rows in `directory`. Checks the number of rows; `wanted` is the reason, for
/// the message.
pub(crate) fn table_element(
    directory: &Path,
    meta: &Meta,
    features: &NpyArray,
    (rows, wanted): (usize, &str),
) -> Result<ElementType, GraphError> {
    match *features.shape() {
        [found, columns] if found == rows && columns > 0 => feature_element(directory, meta, features),
        _ => Err(features.wrong_shape(format!("[{rows}, features], {wanted}"))),
    }
}

/// The edge feature rows in `directory` and their element type, if any.
pub(crate) fn edge_table(
    directory: &Path,
    meta: &Meta,
    (rows, wanted): (usize, &str),
) -> Result<Option<(NpyArray, ElementType)>, GraphError> {
    let Some(array) = optional(directory, names::EDGE_FEATURES)? else { return Ok(None) };
    match *array.shape() {
        [found, columns] if found == rows && columns > 0 => {
            let element = edge_feature_element(directory, meta, &array)?;
            Ok(Some((array, element)))
        }
        _ => Err(array.wrong_shape(format!("[{rows}, features], {wanted}"))),
    }
}
