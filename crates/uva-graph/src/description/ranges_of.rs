//! Description of the graph and the parts of a partition in ranges, and the check that the adjacent partition is the
//! one they belong to.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::GraphError;
use crate::description::part_of::{description_beside, fingerprint_of};

/// The key `ranges` of `meta.json`: which piece of which partition a directory holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangesOf {
    /// The part that owns the rows, from 0; absent for the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
    /// The number of parts.
    pub parts: u32,
    /// The first id whose row the directory holds; 0 for the graph.
    pub first: u64,
    /// The number of ids: rows of a part, or nodes of the graph.
    pub nodes: u64,
    /// The name of the dataset that was divided.
    pub dataset: String,
    /// The [fingerprint](crate::Dataset::fingerprint) of that dataset.
    pub fingerprint: String,
    /// The hash of the bytes of the partition's description, 16 hex digits.
    pub partition: String,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "it is not the partition that {directory} was written with (its fingerprint is {found}, and that of the other is {expected}): \
     either it was edited, or the directory comes from another partition. Write the partition again"
)]
struct Foreign {
    directory: String,
    expected: String,
    found: String,
}

impl RangesOf {
    /// Compares the description next to `directory`, if any, with the directory's own.
    pub(crate) fn check_beside(&self, directory: &Path) -> Result<(), GraphError> {
        let Some((path, text)) = description_beside(directory)? else { return Ok(()) };
        let found = fingerprint_of(&text);
        if found == self.partition {
            return Ok(());
        }
        let (expected, directory) = (self.partition.clone(), directory.display().to_string());
        Err(GraphError::invalid(&path, Foreign { directory, expected, found }))
    }
}
