//! The arrays of nodes and edges that are read.

use crate::import::formats::graphbolt::typed::{OF_EDGES, OF_NODES, is_file_name};

/// Names of arrays of edges in a dataset of one type, and the names that they get.
pub(super) const EDGE_ARRAYS: [(&str, &str); 7] = [
    ("feat", "edge_feat"),
    ("edge_feat", "edge_feat"),
    ("edge_attr", "edge_feat"),
    ("edge_features", "edge_feat"),
    ("weight", "weight"),
    ("edge_weight", "weight"),
    ("edge_type", "edge_type"),
];

/// Names of splits, the training one first.
pub(super) const SPLITS: [&str; 8] =
    ["train_mask", "train_idx", "val_mask", "valid_mask", "val_idx", "valid_idx", "test_mask", "test_idx"];

/// The arrays that are read, by their names.
pub(super) struct Reads {
    pub(super) nodes: fn(&str) -> bool,
    pub(super) edges: fn(&str) -> bool,
}

/// In a graph of one node type and one relation.
pub(super) const ONLY: Reads = Reads {
    nodes: |name| {
        let is_of_edges = |(other, new): &(&str, &str)| *other != "feat" && [*other, *new].contains(&name);
        is_file_name(name) && !OF_EDGES.contains(&name) && !EDGE_ARRAYS.iter().any(is_of_edges)
    },
    edges: |name| EDGE_ARRAYS.iter().any(|(other, _)| *other == name),
};

/// In a typed graph.
pub(super) const TYPED: Reads = Reads {
    nodes: |name| is_file_name(name) && (SPLITS.contains(&name) || !OF_NODES.contains(&name)),
    edges: |name| is_file_name(name) && !OF_EDGES.contains(&name),
};
