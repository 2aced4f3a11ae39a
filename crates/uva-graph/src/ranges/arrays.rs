//! The arrays of the graph and of a part of a partition in ranges, with fingerprints and hashes.

use std::fs;
use std::path::Path;

use crate::description::names;
use crate::npy::{NpyArray, TypedArray};
use crate::storage::fingerprint;
use crate::storage::graph_files::GraphFiles;
use crate::{ElementType, GraphError, hash};

/// Tags of the arrays in fingerprints and hashes. They never change.
const INDPTR: u8 = 1;
const INDICES: u8 = 2;
pub(super) const FEATURES: u8 = 3;
const LABELS: u8 = 4;
const SPLITS: u8 = 5;
const ORIGINAL_IDS: u8 = 9;
pub(super) const EDGE_FEATURES: u8 = 32;

/// The arrays of a graph, with their tags.
fn of_graph(files: &GraphFiles) -> impl Iterator<Item = (u8, &NpyArray)> {
    let (nodes, edges) = (files.first_type(), files.first_relation());
    let whole = [(INDPTR, Some(edges.indptr.array())), (INDICES, Some(edges.indices.array()))];
    let splits = (SPLITS..).zip(nodes.splits.iter().map(|split| split.as_ref().map(TypedArray::array)));
    let optional =
        [(LABELS, nodes.labels.array()), (ORIGINAL_IDS, nodes.original_ids.as_ref().map(|ids| ids.array()))];
    let of_edges = files.edge_arrays().map(|(spec, array)| (spec.tag, Some(array)));
    let all = whole.into_iter().chain(splits).chain(optional).chain(of_edges);
    all.filter_map(|(tag, array)| Some((tag, array?)))
}

/// The fingerprint of a graph. Covers shapes, types, the number of classes and a sample of each array.
pub(super) fn fingerprint_of_graph(files: &GraphFiles) -> String {
    let classes = files.classes().to_string();
    let arrays =
        of_graph(files).map(|(tag, array)| (tag, array, if tag == LABELS { classes.as_str() } else { "" }));
    fingerprint::of_arrays(arrays)
}

/// The hash of all elements of a graph. Parallel.
pub(super) fn hash_of_graph(files: &GraphFiles) -> String {
    let sum =
        of_graph(files).map(|(tag, array)| hash::of_array(tag, array.bytes())).fold(0, u64::wrapping_add);
    format!("{sum:016x}")
}

/// The feature tables of a part.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) features: (NpyArray, ElementType),
    pub(super) edge_features: Option<(NpyArray, ElementType)>,
}

impl Tables {
    fn arrays(&self) -> impl Iterator<Item = (u8, &(NpyArray, ElementType))> {
        let edges = self.edge_features.iter().map(|table| (EDGE_FEATURES, table));
        std::iter::once((FEATURES, &self.features)).chain(edges)
    }

    /// The fingerprint. Covers shapes, types and a sample of each table.
    pub(super) fn fingerprint(&self) -> String {
        fingerprint::of_arrays(self.arrays().map(|(tag, (array, element))| (tag, array, element.name())))
    }

    /// The hash of all elements. Parallel.
    pub(super) fn hash(&self) -> String {
        let terms = self.arrays().map(|(tag, (array, _))| hash::of_array(tag, array.bytes()));
        format!("{:016x}", terms.fold(0, u64::wrapping_add))
    }
}

/// Bytes of the arrays in a directory, with their headers.
pub(super) fn bytes_in(directory: &Path) -> Result<u64, GraphError> {
    let mut bytes = 0;
    for name in names::of_an_open_dataset().filter(|name| name.ends_with(".npy")) {
        match fs::metadata(directory.join(name)) {
            Ok(metadata) => bytes += metadata.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(GraphError::io(&directory.join(name), "read")(error)),
        }
    }
    Ok(bytes)
}
