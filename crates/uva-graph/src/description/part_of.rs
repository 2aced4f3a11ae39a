//! Description of a part of a partitioned dataset, and the check that the adjacent partition is the one it belongs to.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uva_mem::files::read_regular;

use crate::{GraphError, hash};

/// File name of the partition's description, which is next to the parts.
const DESCRIPTION: &str = "partition.json";

/// Size limit of the description, which has a few numbers for each of at most 65,535 parts.
pub(crate) const MOST_BYTES: u64 = 256 << 20;

/// Maximum hops of a part, equal to that of a batch.
pub const MOST_HOPS: u32 = 32;

/// Maximum number of parts: part numbers have 16 bits.
const MOST_PARTS: u32 = 65_535;

/// The key `part` of `meta.json`: which part of which partition a dataset is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartOf {
    /// Which part, from 0.
    pub number: u32,
    /// The number of parts.
    pub parts: u32,
    /// Number of in-hops around its training nodes within which the part is complete: the maximum hops of a batch.
    pub hops: u32,
    /// The method that assigned the nodes to the parts.
    pub method: String,
    /// Nodes of the part that the partition assigns to another one.
    pub halo: u64,
    /// The name of the dataset that the part was cut from.
    pub dataset: String,
    /// The [fingerprint](crate::Dataset::fingerprint) of that dataset.
    pub fingerprint: String,
    /// The hash of the bytes of the partition's description, 16 hex digits.
    pub partition: String,
}

/// 16 hex digits that identify the text of a partition's description.
pub(crate) fn fingerprint_of(description: &[u8]) -> String {
    format!("{:016x}", hash::of_bytes(description))
}

#[derive(Debug, thiserror::Error)]
#[error(
    "it is not the partition that part {number} was written with (its fingerprint is {found}, and the part's is \
     {expected}): either it was edited, or the part comes from another partition. Write the parts again"
)]
struct Foreign {
    number: u32,
    expected: String,
    found: String,
}

/// Path and bytes of the partition's description next to `directory`; `None` if there is not such a file.
pub(crate) fn description_beside(directory: &Path) -> Result<Option<(PathBuf, Vec<u8>)>, GraphError> {
    // Links are resolved, since the description is next to the directory itself, not next to a link.
    let directory = directory.canonicalize().map_err(GraphError::io(directory, "open"))?;
    let Some(parent) = directory.parent() else { return Ok(None) };
    let path = parent.join(DESCRIPTION);
    match read_regular(&path, MOST_BYTES) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(GraphError::io(&path, "read")(error)),
    }
}

impl PartOf {
    /// Whether `description` is the text that the part was written with.
    #[must_use]
    pub fn is_of(&self, description: &[u8]) -> bool {
        fingerprint_of(description) == self.partition
    }

    /// Whether the values are valid for a part.
    pub(crate) fn can_be(&self) -> bool {
        (1..=MOST_HOPS).contains(&self.hops) && self.number < self.parts && self.parts <= MOST_PARTS
    }

    /// Compares the part in `directory` with the description next to it, if any. A part alone on a machine has no
    /// description to compare with.
    pub(crate) fn check_beside(&self, directory: &Path) -> Result<(), GraphError> {
        let Some((path, text)) = description_beside(directory)? else { return Ok(()) };
        let found = fingerprint_of(&text);
        if found == self.partition {
            return Ok(());
        }
        let expected = self.partition.clone();
        Err(GraphError::invalid(&path, Foreign { number: self.number, expected, found }))
    }
}
