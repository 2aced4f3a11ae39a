//! One import in progress: its options and its callbacks.

use std::path::{Path, PathBuf};

use uva_graph::Progress;

use super::options::ImportOptions;
use super::reading::text::Position;

/// The cost of an import, from the sizes stated by the source.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportEstimate {
    /// The number of nodes, if it is known before the edges are read.
    pub nodes: Option<u64>,
    /// The maximum number of edges: duplicates are not known yet.
    pub edges: Option<u64>,
    /// Bytes of the finished dataset.
    pub disk: u64,
    /// Bytes of the temporary file, which exists next to the dataset during the import.
    pub temporary: u64,
    /// Bytes of memory, without the process itself.
    pub memory: u64,
    /// Time to read the source, from the speed of its first part. Only for sources large enough to measure.
    pub seconds: Option<f64>,
}

/// The callbacks of an import.
pub struct ImportWatch<'w> {
    /// Called once, before anything is written.
    pub estimate: &'w dyn Fn(&ImportEstimate),
    /// Called repeatedly.
    pub progress: &'w dyn Fn(Progress),
    /// Called with one line for each conversion of values and each missing part of the source.
    pub note: &'w dyn Fn(&str),
}

impl ImportWatch<'_> {
    /// No callbacks.
    pub const NONE: ImportWatch<'static> =
        ImportWatch { estimate: &|_| {}, progress: &|_| {}, note: &|_| {} };

    pub(super) fn at(&self, stage: &'static str, position: Position) {
        (self.progress)(Progress { stage, done: position.done, total: position.total });
    }
}

/// The options.
pub(super) struct ImportRequest<'r> {
    pub(super) source: &'r Path,
    pub(super) out: &'r Path,
    pub(super) options: &'r ImportOptions,
    pub(super) watch: &'r ImportWatch<'r>,
}

impl ImportRequest<'_> {
    /// The name in `meta.json`: the requested one, the source's own, or the directory's.
    pub(super) fn name(&self, own: Option<String>) -> Option<String> {
        let directory = || self.out.file_name().map(|name| name.to_string_lossy().into_owned());
        self.options.name.clone().or(own).or_else(directory)
    }

    /// A required file of the source directory.
    pub(super) fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.source.join(name)
    }
}
