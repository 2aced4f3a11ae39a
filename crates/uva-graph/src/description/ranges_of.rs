//! What the graph and the parts of a partition in ranges say of themselves, and the check that the partition beside
//! them is their own.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::GraphError;
use crate::description::part_of::{description_beside, fingerprint_of};

/// The key `ranges` of `meta.json`: what of which partition a directory holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangesOf {
    /// Which part's rows, from 0; absent of the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
    /// How many parts there are.
    pub parts: u32,
    /// The ids whose rows it holds: from this one on. 0 of the graph.
    pub first: u64,
    /// How many ids there are: rows of a part, nodes of the graph.
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
    /// Compares the description beside `directory`, if there is one, with what the directory says of itself.
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
