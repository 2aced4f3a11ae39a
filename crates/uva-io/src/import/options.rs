//! What an import is asked for.

use std::path::PathBuf;

use uva_graph::GraphError;
use uva_graph::csc::{Changes, SelfLoops};

use super::split::SplitRule;

/// Default memory of an import for edges.
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
    /// What lines of text mean; for `edgelist` only.
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
    /// The changes to make where `default` suits the source.
    pub(super) fn changes(&self, default: Changes) -> Changes {
        Changes {
            symmetrise: self.symmetrise.unwrap_or(default.symmetrise),
            deduplicate: self.deduplicate.unwrap_or(default.deduplicate),
            self_loops: self.self_loops.unwrap_or(default.self_loops),
        }
    }

    /// The options that only some importers take, and whether each was given.
    pub(super) fn extras(&self) -> [(Extra, bool); 3] {
        [
            (Extra::Split, self.split.is_some()),
            (Extra::Variant, self.variant.is_some()),
            (Extra::Lines, self.edge_list != EdgeList::default()),
        ]
    }
}

/// Refuses changes of edges that have weights: `weights` names them in the message.
///
/// # Errors
/// Where there are changes.
pub(super) fn refuse_changes_of_weighted(changes: Changes, weights: &str) -> Result<(), GraphError> {
    if changes.is_none() {
        return Ok(());
    }
    let message = format!(
        "{weights} cannot follow edges that are symmetrised, deduplicated or given self-loops: leave the edges as they \
         are, or take the weights away"
    );
    Err(GraphError::usage("--symmetrise, --dedup or --self-loops", message))
}

/// An option, or several that belong together, that only some importers take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    /// [`ImportOptions::split`].
    Split,
    /// [`ImportOptions::variant`].
    Variant,
    /// [`ImportOptions::edge_list`].
    Lines,
}

impl Extra {
    /// The options as they are called on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Extra::Split => "--split",
            Extra::Variant => "--variant",
            Extra::Lines => "--ids, --nodes, --skip-lines, --third-column or --arrays",
        }
    }
}

/// What the lines of an edge list mean.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgeList {
    /// What ids are.
    pub ids: Ids,
    /// How many nodes there are, for ids that are their numbers; some may have no edge.
    pub nodes: Option<u64>,
    /// Lines to skip at the beginning: a header.
    pub skip_lines: u64,
    /// What a third column is.
    pub third_column: Option<ThirdColumn>,
    /// The directory with features, labels and splits, named as for `npy`.
    pub arrays: Option<PathBuf>,
}

/// What the ids of an edge list are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ids {
    /// Integers. Where the number of nodes is not known otherwise, the nodes are those that occur, in ascending order.
    #[default]
    Number,
    /// Text. The nodes are those that occur, in order of their first appearance.
    Name,
}

/// What the third column of an edge list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThirdColumn {
    /// The edge's weight.
    Weight,
    /// Nothing to us, and nor are further ones.
    Ignore,
}
