//! What `partition.json` says of ranges.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::partition_map::{PARTITION_SUMMARY, is_beside};
use crate::{GraphError, PartitionSummary, quote};

/// The layout that `partition.json` names.
pub const RANGES: &str = "ranges";

/// The directory of the graph.
pub const GRAPH: &str = "graph";

/// The keys of `partition.json` that other partitions have not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// Why a description is not one of ranges.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotRanges(String);

impl RangesSummary {
    /// What the description of the partition in the directory `path` says of ranges.
    ///
    /// # Errors
    /// If a key is missing, or has a value of the wrong type, or a directory lies elsewhere.
    pub fn of_partition(path: &Path, summary: &PartitionSummary) -> Result<RangesSummary, GraphError> {
        let invalid =
            |problem: String| GraphError::invalid(&path.join(PARTITION_SUMMARY), NotRanges(problem));
        let said: RangesSummary = serde_json::from_value(Value::Object(summary.other.clone()))
            .map_err(|error| invalid(quote::message(&error.to_string())))?;
        let elsewhere = said.directories().find(|directory| !is_beside(directory));
        match elsewhere.map(|directory| format!("{directory:?} is not the name of a directory beside it")) {
            None => Ok(said),
            Some(problem) => Err(invalid(problem)),
        }
    }

    fn directories(&self) -> impl Iterator<Item = &str> {
        [self.graph.dir.as_str()].into_iter().chain(self.written.iter().map(|part| part.dir.as_str()))
    }

    /// Adds its keys to those of a description.
    pub(super) fn add_to(&self, other: &mut Map<String, Value>) -> Result<(), serde_json::Error> {
        if let Value::Object(keys) = serde_json::to_value(self)? {
            other.extend(keys);
        }
        Ok(())
    }
}
