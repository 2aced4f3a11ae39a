//! The content of `partition.json`: how it is read, and what has to hold of it before anything uses it.
//!
//! It may come from anyone. It is read in memory of a few times its size, names of directories lead to places beside it,
//! and counts fit each other.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};
use uva_mem::files::read_regular;

use crate::GraphError;
use crate::description::part_of::MOST_BYTES;
use crate::partition::checks::{self, Wrong};
use crate::partition::parts::{ClosureSummary, RangesSummary, WrittenParts};
use crate::partition::text::{self, Text};
use uva_files::quote;

/// What describes a partition: a directory that has it is one.
pub const PARTITION_SUMMARY: &str = "partition.json";

/// The version of `partition.json`.
pub const PARTITION_FORMAT: u32 = 1;

/// The dataset that a partition is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct PartitionSource {
    /// Its name.
    pub name: String,
    /// Its [fingerprint](crate::Dataset::fingerprint).
    pub fingerprint: String,
}

/// The content of `partition.json`. Every count in it follows from `partition.npy` and the dataset.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartitionSummary {
    /// The version of the format: 1.
    pub format: u32,
    /// The dataset that it is of.
    pub dataset: PartitionSource,
    /// How many parts.
    pub parts: u32,
    /// What made it: `bgl+refine`.
    pub method: String,
    /// The seed of its random words.
    pub seed: u64,
    /// Hops of the closures that the parts are for.
    pub hops: u32,
    /// Nodes of each part.
    pub nodes: Vec<u64>,
    /// Training nodes of each part.
    pub train: Vec<u64>,
    /// Blocks before and after merging, of a method that makes blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<[u64; 2]>,
    /// Entries of neighbour lists whose node is in another part than the list's.
    pub edge_cut: u64,
    /// Wall-clock time of each stage.
    pub seconds: BTreeMap<String, f64>,
    /// All other keys.
    #[serde(flatten)]
    pub other: Map<String, Value>,
    /// The parts that were written with it; `None` of a map alone.
    #[serde(flatten)]
    pub written: Option<WrittenParts>,
}

/// Why a description is refused.
#[derive(Debug, thiserror::Error)]
enum SummaryProblem {
    #[error("{0}")]
    NotSummary(String),
    #[error("\"format\" is {0}, and this program reads format {PARTITION_FORMAT}")]
    Format(u32),
    #[error(transparent)]
    Wrong(#[from] Wrong),
}

impl PartitionSummary {
    /// Reads the description in a directory, without the map.
    ///
    /// # Errors
    /// If it is not there, or its counts and names are not those of so many parts.
    pub fn read(directory: &Path) -> Result<PartitionSummary, GraphError> {
        read_summary(&directory.join(PARTITION_SUMMARY))
    }

    /// The layout of the parts that were written with it: `closure`, [`ranges`](crate::ranges::RANGES); `None` of a map
    /// alone.
    #[must_use]
    pub fn layout(&self) -> Option<&str> {
        self.written.as_ref().map(|written| match written {
            WrittenParts::Closure(parts) => parts.layout.as_str(),
            WrittenParts::Ranges(ranges) => ranges.layout.as_str(),
        })
    }

    /// What it says of ranges, if its parts are in ranges.
    #[must_use]
    pub fn ranges(&self) -> Option<&RangesSummary> {
        match &self.written {
            Some(WrittenParts::Ranges(ranges)) => Some(ranges),
            Some(WrittenParts::Closure(_)) | None => None,
        }
    }

    /// What it says of closures, if its parts are such.
    #[must_use]
    pub fn closures(&self) -> Option<&ClosureSummary> {
        match &self.written {
            Some(WrittenParts::Closure(parts)) => Some(parts),
            Some(WrittenParts::Ranges(_)) | None => None,
        }
    }
}

/// The description in the file at `path`.
pub(crate) fn read_summary(path: &Path) -> Result<PartitionSummary, GraphError> {
    let bytes = read_regular(path, MOST_BYTES).map_err(GraphError::io(path, "read"))?;
    summary_of(path, &bytes)
}

/// The description in the text of the file at `path`.
pub(crate) fn summary_of(path: &Path, text: &[u8]) -> Result<PartitionSummary, GraphError> {
    let refuse = |problem: SummaryProblem| GraphError::invalid(path, problem);
    let refused =
        |error: serde_json::Error| refuse(SummaryProblem::NotSummary(quote::message(&error.to_string())));
    let read: Text = serde_json::from_slice(text).map_err(refused)?;
    if read.format != PARTITION_FORMAT {
        return Err(refuse(SummaryProblem::Format(read.format)));
    }
    let other = text::others(text).map_err(refused)?;
    let (read, written) = read.into_parts().map_err(|problem| refuse(problem.into()))?;
    let summary = PartitionSummary {
        format: read.format,
        dataset: PartitionSource { name: read.dataset.name, fingerprint: read.dataset.fingerprint },
        parts: read.parts,
        method: read.method,
        seed: read.seed,
        hops: read.hops,
        nodes: read.nodes,
        train: read.train,
        blocks: read.blocks,
        edge_cut: read.edge_cut,
        seconds: read.seconds,
        other,
        written,
    };
    let checked = checks::Checked {
        parts: summary.parts,
        hops: summary.hops,
        nodes: &summary.nodes,
        train: &summary.train,
        blocks: summary.blocks,
        edge_cut: summary.edge_cut,
        written: summary.written.as_ref(),
    };
    checked.check().map_err(|problem| refuse(problem.into()))?;
    Ok(summary)
}
