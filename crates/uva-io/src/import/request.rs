//! One import under way: what was asked for, and who listens.

use std::path::{Path, PathBuf};

use uva_graph::Progress;

use super::options::ImportOptions;
use super::text::Position;

/// What an import will take, by what its source says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportEstimate {
    /// How many nodes there will be, where that can be told before the edges are read.
    pub nodes: Option<u64>,
    /// How many edges there will be at most: equal ones are not known yet.
    pub edges: Option<u64>,
    /// Bytes of the finished dataset.
    pub disk: u64,
    /// Bytes of the temporary file, which is beside it while it is made.
    pub temporary: u64,
    /// Bytes of memory, the process itself aside.
    pub memory: u64,
    /// Time to read the source, by how fast its first part was read. Only for sources large enough to ask.
    pub seconds: Option<f64>,
}

/// Who hears what an import does.
pub struct Watch<'w> {
    /// Once, before anything is written.
    pub estimate: &'w dyn Fn(&ImportEstimate),
    /// Again and again.
    pub progress: &'w dyn Fn(Progress),
    /// What becomes other than it is in the source, and what the source lacks: a line each.
    pub note: &'w dyn Fn(&str),
}

impl Watch<'_> {
    /// Nobody.
    pub const NONE: Watch<'static> = Watch { estimate: &|_| {}, progress: &|_| {}, note: &|_| {} };

    pub(super) fn at(&self, stage: &'static str, position: Position) {
        (self.progress)(Progress { stage, done: position.done, total: position.total });
    }
}

/// What was asked for.
pub(super) struct Request<'r> {
    pub(super) source: &'r Path,
    pub(super) out: &'r Path,
    pub(super) options: &'r ImportOptions,
    pub(super) watch: &'r Watch<'r>,
}

impl Request<'_> {
    /// The name in `meta.json`: the one that was asked for, the source's own, or the directory's.
    pub(super) fn name(&self, own: Option<String>) -> Option<String> {
        let directory = || self.out.file_name().map(|name| name.to_string_lossy().into_owned());
        self.options.name.clone().or(own).or_else(directory)
    }

    /// A file that has to be in the source, which is a directory.
    pub(super) fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.source.join(name)
    }
}
