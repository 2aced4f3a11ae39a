//! File names of a dataset. For splits see [`Split::file_name`], for metadata [`meta::FILE_NAME`].

use crate::Split;
use crate::description::edge_values::{EDGE_VALUES, EdgeValues};
use crate::description::meta;

/// Where each list ends.
pub const INDPTR: &str = "indptr.npy";
/// The neighbours, list after list.
pub const INDICES: &str = "indices.npy";
/// Feature rows.
pub const FEATURES: &str = "feat.npy";
/// Labels.
pub const LABELS: &str = "label.npy";
/// Edge weights, optional.
pub const WEIGHTS: &str = EdgeValues::Weights.spec().file;
/// Edge types, optional.
pub const EDGE_TYPES: &str = EdgeValues::Types.spec().file;
/// Feature rows of the edges, in the order of the neighbours, optional.
pub const EDGE_FEATURES: &str = "edge_feat.npy";
/// The id that each node had before a reordering, optional.
pub const ORIGINAL_IDS: &str = "orig_id.npy";
/// The in-degree of each node in the graph that a part was cut from, optional.
pub const DEGREES: &str = "degree.npy";
/// The directory of all node types in format 2.
pub const NODE_TYPES: &str = "nodes";
/// The directory of all relations in format 2.
pub const RELATIONS: &str = "edges";
/// Times of nodes or edges in format 2, optional.
pub const TIMES: &str = "time.npy";
/// The row that each edge had in its source in format 2, optional.
pub const EDGE_IDS: &str = "edge_id.npy";
/// The integer id that each node had in an imported source, int64 `[N]`, optional. Opening a dataset ignores it.
pub const NODE_IDS: &str = "node_id.npy";
/// The id that each node had in an imported source with text ids: line k is the name of node k.
pub const NODE_NAMES: &str = "node_names.txt";

/// Result of an earlier check of the files, optional.
pub(crate) const STAMP: &str = ".uvatrain-stamp.json";

/// Description of a hop set. A directory with this file is not a dataset.
pub const HOP_SET: &str = "hops.json";

/// The times of a split's seeds in format 2, optional.
pub fn split_times(split: Split) -> &'static str {
    match split {
        Split::Train => "train_time.npy",
        Split::Valid => "valid_time.npy",
        Split::Test => "test_time.npy",
    }
}

/// The files that opening reads in the directory of a node type.
pub(crate) fn of_a_node_type() -> impl Iterator<Item = &'static str> {
    let splits = Split::ALL.into_iter().flat_map(|split| [split.file_name(), split_times(split)]);
    [FEATURES, LABELS, TIMES, ORIGINAL_IDS].into_iter().chain(splits)
}

/// The files that opening reads in the directory of a relation.
pub(crate) fn of_a_relation() -> impl Iterator<Item = &'static str> {
    let of_edges = EDGE_VALUES.iter().map(|spec| spec.file);
    [INDPTR, INDICES, FEATURES, TIMES, EDGE_IDS].into_iter().chain(of_edges)
}

/// The files that opening a dataset of format 1 reads, the optional ones included.
pub(crate) fn of_an_open_dataset() -> impl Iterator<Item = &'static str> {
    let arrays = [INDPTR, INDICES, FEATURES, LABELS, EDGE_FEATURES, ORIGINAL_IDS, DEGREES, meta::FILE_NAME];
    let of_edges = EDGE_VALUES.iter().map(|spec| spec.file);
    arrays.into_iter().chain(of_edges).chain(Split::ALL.map(Split::file_name))
}

/// The files that a dataset of format 1 may have.
pub fn of_a_dataset() -> impl Iterator<Item = &'static str> {
    of_an_open_dataset().chain([NODE_IDS, NODE_NAMES, STAMP])
}

/// Whether a hop set may have a file of this name: its description, rows of labels and nodes, and a table for each hop.
pub fn is_of_hop_set(name: &str) -> bool {
    let hop = name.strip_suffix(".npy").and_then(|stem| stem.rsplit_once('.')).map(|(_, hop)| hop);
    [HOP_SET, "x.npy", LABELS, "node_idx.npy"].contains(&name)
        || hop.is_some_and(|hop| !hop.is_empty() && hop.bytes().all(|c| c.is_ascii_digit()))
}
