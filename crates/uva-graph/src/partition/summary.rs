//! The content of `partition.json`, its reader, and its invariants.
//!
//! The file is untrusted. Reading it takes a few times its size in memory; names must refer to sibling directories, and
//! counts must be consistent.

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

/// File name of a partition's description. A directory with this file is a partition.
pub const PARTITION_SUMMARY: &str = "partition.json";

/// The version of `partition.json`.
pub const PARTITION_FORMAT: u32 = 1;

/// The source dataset of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct PartitionSource {
    /// The dataset's name.
    pub name: String,
    /// The dataset's [fingerprint](crate::Dataset::fingerprint).
    pub fingerprint: String,
}

/// The content of `partition.json`. Every count in it follows from `partition.npy` and the dataset.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartitionSummary {
    /// The version of the format: 1.
    pub format: u32,
    /// The source dataset.
    pub dataset: PartitionSource,
    /// The number of parts.
    pub parts: u32,
    /// The method that made it, such as `bgl+refine`.
    pub method: String,
    /// The seed of the random numbers.
    pub seed: u64,
    /// The number of hops of the closures.
    pub hops: u32,
    /// The number of nodes of each part.
    pub nodes: Vec<u64>,
    /// The number of training nodes of each part.
    pub train: Vec<u64>,
    /// The number of blocks before and after merging, for methods that make blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<[u64; 2]>,
    /// The number of list entries whose node is in another part than the list.
    pub edge_cut: u64,
    /// Wall-clock time of each stage.
    pub seconds: BTreeMap<String, f64>,
    /// All other keys.
    #[serde(flatten)]
    pub other: Map<String, Value>,
    /// The parts that were written with it; `None` for a map alone.
    #[serde(flatten)]
    pub written: Option<WrittenParts>,
}

/// A fault of a description.
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
    /// If the file is missing, or its counts and names do not fit the number of parts.
    pub fn read(directory: &Path) -> Result<PartitionSummary, GraphError> {
        read_summary(&directory.join(PARTITION_SUMMARY))
    }

    /// The layout of the parts that were written with it: `closure`, [`ranges`](crate::ranges::RANGES); `None` for a
    /// map alone.
    #[must_use]
    pub fn layout(&self) -> Option<&str> {
        self.written.as_ref().map(|written| match written {
            WrittenParts::Closure(parts) => parts.layout.as_str(),
            WrittenParts::Ranges(ranges) => ranges.layout.as_str(),
        })
    }

    /// The keys about ranges, if the parts are in ranges.
    #[must_use]
    pub fn ranges(&self) -> Option<&RangesSummary> {
        match &self.written {
            Some(WrittenParts::Ranges(ranges)) => Some(ranges),
            Some(WrittenParts::Closure(_)) | None => None,
        }
    }

    /// The keys about closures, if the parts are closures.
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
