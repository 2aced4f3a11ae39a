//! What `partition.json` says of the parts that were written with it.

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
    /// Datasets.
    Closure(ClosureSummary),
    /// Ranges of feature rows, and the graph.
    Ranges(RangesSummary),
}

/// The keys of `partition.json` about closures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClosureSummary {
    /// [`CLOSURE`].
    pub layout: String,
    /// Whether validation and test nodes were divided as training nodes are.
    pub split_eval: bool,
    /// The parts, in the order of their numbers.
    pub written: Vec<WrittenPart>,
}

/// The sizes of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WrittenPart {
    /// Its directory, beside the description.
    pub dir: String,
    /// Its nodes.
    pub nodes: u64,
    /// Those of them that the partition assigns to another part.
    pub halo: u64,
    /// The entries of its lists.
    pub edges: u64,
    /// Its training nodes.
    pub train: u64,
    /// Its validation nodes.
    pub valid: u64,
    /// Its test nodes.
    pub test: u64,
    /// Bytes of its files, about.
    #[serde(skip)]
    pub bytes: u64,
}

/// The keys of `partition.json` about ranges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RangesSummary {
    /// [`RANGES`].
    pub layout: String,
    /// The first id of each part, and the number of nodes behind them.
    pub boundaries: Vec<u64>,
    /// The graph.
    pub graph: WrittenGraph,
    /// The parts, in the order of their numbers.
    pub written: Vec<WrittenRange>,
}

/// The graph as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenGraph {
    /// Its directory, beside the description.
    pub dir: String,
    /// The entries of all lists.
    pub edges: u64,
    /// Bytes of its arrays, with their headers.
    pub bytes: u64,
    /// 16 hex digits by which opening tells it from others: of shapes, types and a sample of its arrays.
    pub fingerprint: String,
    /// 16 hex digits of all elements of its arrays.
    pub hash: String,
}

/// A part as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WrittenRange {
    /// Its directory, beside the description.
    pub dir: String,
    /// Its feature rows: the nodes that it owns.
    pub rows: u64,
    /// The entries of its nodes' lists; as many feature rows of edges, if the dataset has any.
    pub edges: u64,
    /// The training nodes that it owns.
    pub train: u64,
    /// The validation nodes that it owns.
    pub valid: u64,
    /// The test nodes that it owns.
    pub test: u64,
    /// Bytes of its arrays, with their headers.
    pub bytes: u64,
    /// 16 hex digits by which opening tells it from others: of shapes, types and a sample of its arrays.
    pub fingerprint: String,
    /// 16 hex digits of all elements of its arrays.
    pub hash: String,
}
