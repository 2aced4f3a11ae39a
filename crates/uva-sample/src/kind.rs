//! The properties of a kind of sampler, in a table row.
//!
//! A kind's file in `kinds/` contains its row and its algorithm, and `kinds/table.rs` lists all kinds. Code that
//! depends on the kind reads the row; no code matches on kinds.

use std::fmt;
use std::hash::{Hash, Hasher};

use uva_cuda::kernels::sample::PickKind;

use crate::limits::LOCAL_ID_BYTES;

/// The rule by which a sampler picks neighbours: a handle to the table row of one kind. Handles are equal if their
/// names are.
#[derive(Clone, Copy)]
pub struct SamplerKind(&'static KindRow);

/// The table row of one kind of sampler.
#[derive(Debug)]
pub(crate) struct KindRow {
    /// The name in options, files and messages.
    pub(crate) name: &'static str,
    /// Its line in `--help`.
    pub(crate) help: &'static str,
    /// The meaning of a fanout.
    pub(crate) fanout: Fanout,
    /// Each visit of a list reads all of its entries.
    pub(crate) reads_whole_lists: bool,
    /// It can pick with replacement.
    pub(crate) replaces: bool,
    /// It can grow disjoint trees.
    pub(crate) grows_trees: bool,
    /// It needs the weights of edges.
    pub(crate) needs_weights: bool,
    /// It uses the options of random walks.
    pub(crate) walks: bool,
    /// Its picks may depend on any list of the graph, at any distance from the seeds.
    pub(crate) reads_whole_graph: bool,
    /// The GPU kernels that make the same picks.
    pub(crate) kernels: Option<PickKind>,
    /// Bytes that a sampler allocates for each node of the graph, local ids of the batch included.
    pub(crate) node_bytes: usize,
    /// Additional bytes per node for a reordered graph.
    pub(crate) reordered_bytes: usize,
}

/// The meaning of a fanout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fanout {
    /// Picks from each list.
    Picks,
    /// Draws for all destinations of a hop together; each draw adds at most `nodes` nodes.
    Draws { nodes: usize },
    /// Draws as with `Draws`, where the draws for the seeds serve all hops: a batch is one subgraph.
    SubgraphDraws { nodes: usize },
    /// Nodes found around each destination, which may be outside its list.
    Found,
}

impl KindRow {
    /// Independent picks without replacement from each list, and no other property. Rows begin with it and name their
    /// differences.
    pub(crate) const LIST_BY_LIST: Self = Self {
        name: "list by list",
        help: "",
        fanout: Fanout::Picks,
        reads_whole_lists: false,
        replaces: false,
        grows_trees: false,
        needs_weights: false,
        walks: false,
        reads_whole_graph: false,
        kernels: None,
        node_bytes: LOCAL_ID_BYTES,
        reordered_bytes: 0,
    };
}

impl SamplerKind {
    /// A kind for the bounds of all kinds that pick list by list. It is not in the table.
    pub(crate) const LIST_BY_LIST: Self = Self::of(&KindRow::LIST_BY_LIST);

    /// The kind with these facts.
    pub(crate) const fn of(row: &'static KindRow) -> Self {
        Self(row)
    }

    /// The name in options and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// One line for `--help`.
    #[must_use]
    pub const fn help(self) -> &'static str {
        self.0.help
    }

    /// Whether each visit of a list reads all of its entries, not only the picked ones.
    #[must_use]
    pub const fn reads_whole_lists(self) -> bool {
        self.0.reads_whole_lists
    }

    /// Whether a fanout is a number of draws for all destinations of a hop together, not of picks for each of them.
    #[must_use]
    pub const fn draws_together(self) -> bool {
        matches!(self.0.fanout, Fanout::Draws { .. } | Fanout::SubgraphDraws { .. })
    }

    /// Whether picks are made list by list, each from its own list alone. Such kinds sample graphs with several node
    /// types or relations, and lists that are divided among ranks.
    #[must_use]
    pub const fn picks_list_by_list(self) -> bool {
        self.picks_in_lists() && !self.draws_together()
    }

    /// Whether the draws for the seeds serve all hops: a batch is one subgraph, and its fanouts are equal.
    #[must_use]
    pub const fn draws_one_subgraph(self) -> bool {
        matches!(self.0.fanout, Fanout::SubgraphDraws { .. })
    }

    /// The maximum number of nodes per draw, for a kind that [draws together](Self::draws_together).
    #[must_use]
    pub const fn nodes_a_draw(self) -> usize {
        match self.0.fanout {
            Fanout::Draws { nodes } | Fanout::SubgraphDraws { nodes } => nodes,
            Fanout::Picks | Fanout::Found => 1,
        }
    }

    /// Whether picks are entries of the destination's own list: each edge of a block is an edge of the graph.
    #[must_use]
    pub const fn picks_in_lists(self) -> bool {
        !matches!(self.0.fanout, Fanout::Found)
    }

    /// Whether each edge of a block has a weight ([`BlockRef::weights`](crate::BlockRef::weights)).
    #[must_use]
    pub const fn weighs_edges(self) -> bool {
        !matches!(self.0.fanout, Fanout::Picks)
    }

    /// Whether it supports batches of disjoint trees ([`SamplerOptions::trees`](crate::SamplerOptions::trees)): picks of
    /// a list do not depend on other lists.
    #[must_use]
    pub const fn grows_trees(self) -> bool {
        self.0.grows_trees
    }

    /// Whether it supports picks with replacement ([`SamplerOptions::replace`](crate::SamplerOptions::replace)).
    #[must_use]
    pub const fn replaces(self) -> bool {
        self.0.replaces
    }

    /// Whether a hop may draw only for new nodes ([`Expand::New`](crate::Expand::New)).
    #[must_use]
    pub const fn expands_new(self) -> bool {
        !self.draws_together()
    }

    /// Whether it needs the weights of edges (`weight.npy`).
    #[must_use]
    pub const fn needs_weights(self) -> bool {
        self.0.needs_weights
    }

    /// Whether it uses the options of random walks ([`Walks`](crate::Walks)).
    #[must_use]
    pub const fn walks(self) -> bool {
        self.0.walks
    }

    /// The number of in-hops from its seeds within which a batch of `hops` hops depends on lists, if each walk makes up
    /// to `walk_length` steps. The lists are those of nodes at a smaller distance. `None` if the batch may depend on
    /// any list of the graph.
    #[must_use]
    pub const fn reach(self, hops: usize, walk_length: usize) -> Option<usize> {
        if self.0.reads_whole_graph {
            return None;
        }
        Some(if self.0.walks { hops * walk_length } else { hops })
    }

    /// The GPU kernels that make the same picks; `None` if it runs on the CPU only.
    #[must_use]
    pub const fn kernels(self) -> Option<PickKind> {
        self.0.kernels
    }

    /// Memory of a sampler for each node of the graph, in bytes. `reordered`: the graph has [original
    /// ids](uva_graph::Csc::original_ids).
    #[must_use]
    pub const fn bytes_a_node(self, reordered: bool) -> usize {
        self.0.node_bytes + if reordered { self.0.reordered_bytes } else { 0 }
    }
}

impl PartialEq for SamplerKind {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for SamplerKind {}

impl Hash for SamplerKind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for SamplerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for SamplerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
