//! Datasets made from what other programs left: one file a [`Format`].
//!
//! All of them work the same way: what the source says of its sizes makes an [`Estimate`], which the caller hears
//! first; edges go through a builder of bounded memory, everything else from the source to its file in pieces. An
//! import writes beside its final name and renames at the end, so that one that fails leaves nothing.

mod edgelist;
mod features;
mod gnn_npz;
mod graphbolt;
mod igb;
mod nodes;
mod npy;
mod ogb;
mod output;
mod pace;
mod pickle;
mod planetoid;
mod scipy;
mod source;
mod split;
mod stream;
mod text;
mod values;

use std::path::{Path, PathBuf};

use uva_graph::csc::{Changes, SelfLoops};
use uva_graph::{GraphError, Progress};

pub use self::edgelist::{EdgeList, Ids, ThirdColumn};
pub use self::split::SplitRule;

/// What a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A directory of `.npy` files, in our layout or in one that other libraries leave.
    Npy,
    /// `ind.NAME.*`: Cora, Citeseer, Pubmed.
    Planetoid,
    /// One `.npz` of the gnn-benchmark collection.
    GnnNpz,
    /// Lines of text, an edge each.
    EdgeList,
    /// What the Open Graph Benchmark's package unpacks for a node property prediction dataset.
    Ogb,
    /// A directory with the `metadata.yaml` of a DGL GraphBolt `OnDiskDataset`.
    GraphBolt,
    /// The homogeneous graphs of the Illinois Graph Benchmark.
    Igb,
}

/// Memory that an import takes for edges unless it is told otherwise.
pub const DEFAULT_MEMORY: u64 = 4 << 30;

/// What to change on the way in, and what the source does not say itself. `None` does what suits the source; the table
/// in docs/datasets.md says what that is.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportOptions {
    /// Give every edge its other direction. Neighbours then ascend in each list.
    pub symmetrise: Option<bool>,
    /// Keep one of several equal edges. Neighbours then ascend in each list.
    pub deduplicate: Option<bool>,
    /// What to do with edges from a node to itself.
    pub self_loops: Option<SelfLoops>,
    /// The name in `meta.json`; for `planetoid` also which of several graphs in the directory is meant.
    pub name: Option<String>,
    /// Bytes that edges take in memory at most; what is more goes through a temporary file beside the output.
    pub memory: u64,
    /// How splits are made where the source has none.
    pub split: Option<SplitRule>,
    /// What random splits are keyed by.
    pub seed: u64,
    /// What lines of text mean; for [`Format::EdgeList`] only.
    pub edge_list: EdgeList,
    /// Which of several is taken: the scheme of an `ogb` split, the task of a `graphbolt` dataset, `19` or `2K` for the
    /// labels of `igb`.
    pub variant: Option<String>,
}

impl Default for ImportOptions {
    fn default() -> Self {
        ImportOptions {
            symmetrise: None,
            deduplicate: None,
            self_loops: None,
            name: None,
            memory: DEFAULT_MEMORY,
            split: None,
            seed: 0,
            edge_list: EdgeList::default(),
            variant: None,
        }
    }
}

impl ImportOptions {
    fn changes(&self, default: Changes) -> Changes {
        Changes {
            symmetrise: self.symmetrise.unwrap_or(default.symmetrise),
            deduplicate: self.deduplicate.unwrap_or(default.deduplicate),
            self_loops: self.self_loops.unwrap_or(default.self_loops),
        }
    }

    /// Refuses options that this source has no use for: silence would look like obedience.
    fn only(&self, format: &str, allowed: &[&str]) -> Result<(), GraphError> {
        let given = [
            ("--split", self.split.is_some()),
            ("--variant", self.variant.is_some()),
            (
                "--ids, --nodes, --skip-lines, --third-column or --arrays",
                self.edge_list != EdgeList::default(),
            ),
        ];
        for (option, given) in given {
            if given && !allowed.contains(&option) {
                return Err(GraphError::usage(option, format!("{format} has no use for it")));
            }
        }
        Ok(())
    }
}

/// What an import will take, by what its source says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
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
    pub estimate: &'w dyn Fn(&Estimate),
    /// Again and again.
    pub progress: &'w dyn Fn(Progress),
    /// What becomes other than it is in the source, and what the source lacks: a line each.
    pub note: &'w dyn Fn(&str),
}

impl Watch<'_> {
    /// Nobody.
    pub const NONE: Watch<'static> = Watch { estimate: &|_| {}, progress: &|_| {}, note: &|_| {} };

    fn at(&self, stage: &'static str, position: text::Position) {
        (self.progress)(Progress { stage, done: position.done, total: position.total });
    }
}

/// Imports `source`, which is a `format`, into the directory `out`, which must not exist.
///
/// # Errors
/// Where files are missing, malformed or don't fit together, an option doesn't suit the source, the disk hasn't got the
/// room, or `out` exists; nothing is left behind then.
pub fn run(
    format: Format,
    source: &Path,
    out: &Path,
    options: &ImportOptions,
    watch: &Watch<'_>,
) -> Result<(), GraphError> {
    let import = match format {
        Format::Npy => npy::npy,
        Format::Planetoid => planetoid::planetoid,
        Format::GnnNpz => gnn_npz::gnn_npz,
        Format::EdgeList => edgelist::edgelist,
        Format::Ogb => ogb::ogb,
        Format::GraphBolt => graphbolt::graphbolt,
        Format::Igb => igb::igb,
    };
    source::check(format, source)?;
    import(&Request { source, out, options, watch })
}

/// What was asked for.
struct Request<'r> {
    source: &'r Path,
    out: &'r Path,
    options: &'r ImportOptions,
    watch: &'r Watch<'r>,
}

impl Request<'_> {
    /// The name in `meta.json`: the one that was asked for, the source's own, or the directory's.
    fn name(&self, own: Option<String>) -> Option<String> {
        let directory = || self.out.file_name().map(|name| name.to_string_lossy().into_owned());
        self.options.name.clone().or(own).or_else(directory)
    }

    /// A file that has to be in the source, which is a directory.
    fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.source.join(name)
    }
}
