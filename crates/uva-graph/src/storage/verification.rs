//! The checks done when a dataset is opened, and what skips them.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::GraphError;
use crate::storage::graph_files::GraphFiles;
use crate::storage::stamp::Stamp;
use crate::storage::verify;

/// The checks done when a dataset is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// Everything except feature values. The pass over the edges is skipped if a stamp records that these files have
    /// been checked before.
    Stamp,
    /// Everything except feature values, regardless of stamps.
    Full,
    /// Everything, including that no feature value is NaN or infinite.
    FullWithFeatures,
    /// Types, shapes and sizes only. For a role whose launcher has already checked the dataset.
    HeadersOnly,
}

/// The checks done when a dataset was opened, and their duration.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Verification {
    /// Wall-clock time of all checks.
    pub seconds: f64,
    /// Whether this run checked every edge.
    pub edges_checked: bool,
    /// Whether a stamp of an earlier run replaced the pass over the edges.
    pub from_stamp: bool,
    /// Whether this run checked every feature value.
    pub features_checked: bool,
    /// Path of the stamp that this run wrote for the next one. `None` if no stamp was written, for instance because the
    /// files were modified too recently.
    pub stamp: Option<PathBuf>,
}

/// Checks the graph in the directory `path` according to `how`. `stamp` is the state of its files before they were
/// opened.
pub(crate) fn check_graph(
    path: &Path,
    files: &GraphFiles,
    how: Verify,
    stamp: Option<&Stamp>,
) -> Result<Verification, GraphError> {
    let mut verification = Verification::default();
    if how == Verify::HeadersOnly {
        return Ok(verification);
    }
    verify::nodes(files)?;
    verification.from_stamp = how == Verify::Stamp && stamp.is_some_and(|stamp| stamp.is_left(path));
    if !verification.from_stamp {
        verify::edges(files)?;
        verification.edges_checked = true;
    }
    Ok(verification)
}
