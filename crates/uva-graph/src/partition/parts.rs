//! The keys of `partition.json` about the parts that were written with it.

use serde::{Deserialize, Serialize};

/// The layout in which each part is a dataset of its own.
pub const CLOSURE: &str = "closure";

/// The layout in which each part has the feature rows of its own ids.
pub const RANGES: &str = "ranges";

/// The directory of the graph of parts in ranges.
pub const GRAPH: &str = "graph";

/// The parts that were written with a map, by their layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum WrittenParts {
    /// Parts that are datasets.
    Closure(ClosureSummary),
    /// Ranges of feature rows, and the graph.
    Ranges(RangesSummary),
}

/// The keys of `partition.json` for the closure layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClosureSummary {
    /// [`CLOSURE`].
    pub layout: String,
    /// Whether validation and test nodes were divided like training nodes.
    pub split_eval: bool,
    /// The parts, in the order of their numbers.
    pub written: Vec<WrittenPart>,
}

/// The sizes of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WrittenPart {
    /// The name of its directory, next to the description.
    pub dir: String,
    /// The number of nodes.
    pub nodes: u64,
    /// The number of nodes that the partition assigns to another part.
    pub halo: u64,
    /// The number of entries of its lists.
    pub edges: u64,
    /// The number of training nodes.
    pub train: u64,
    /// The number of validation nodes.
    pub valid: u64,
    /// The number of test nodes.
    pub test: u64,
    /// The approximate size of its files, in bytes.
    #[serde(skip)]
    pub bytes: u64,
}

/// The keys of `partition.json` for the ranges layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RangesSummary {
    /// [`RANGES`].
    pub layout: String,
    /// The first id of each part, followed by the number of nodes.
    pub boundaries: Vec<u64>,
    /// The graph.
    pub graph: WrittenGraph,
    /// The parts, in the order of their numbers.
    pub written: Vec<WrittenRange>,
}

/// The graph as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenGraph {
    /// The name of its directory, next to the description.
    pub dir: String,
    /// The number of entries of all lists.
    pub edges: u64,
    /// The size of its arrays with headers, in bytes.
    pub bytes: u64,
    /// Fingerprint checked on open, 16 hex digits: covers shapes, types and a sample of its arrays.
    pub fingerprint: String,
    /// Hash of all elements of its arrays, 16 hex digits.
    pub hash: String,
}

/// A part as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WrittenRange {
    /// The name of its directory, next to the description.
    pub dir: String,
    /// The number of feature rows, equal to that of its own nodes.
    pub rows: u64,
    /// The number of entries of its nodes' lists, equal to that of edge feature rows, if any.
    pub edges: u64,
    /// The number of its own training nodes.
    pub train: u64,
    /// The number of its own validation nodes.
    pub valid: u64,
    /// The number of its own test nodes.
    pub test: u64,
    /// The size of its arrays with headers, in bytes.
    pub bytes: u64,
    /// Fingerprint checked on open, 16 hex digits: covers shapes, types and a sample of its arrays.
    pub fingerprint: String,
    /// Hash of all elements of its arrays, 16 hex digits.
    pub hash: String,
}
