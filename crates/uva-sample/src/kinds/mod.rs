//! The kinds of sampler: what is picked for a node, as a rule entries of its list. One file a kind, but for what the kinds
//! of GraphSAINT share; what all share is in [`hops`](crate::hops).

use std::fmt;

use crate::hops::HopSampler;
use crate::local_ids::ENTRY_BYTES;

mod exponential;
mod floyd;
mod labor;
mod neighbor;
mod side_by_side;
mod smallest;
mod together;
mod walk;
mod weighted;

/// Which neighbours a sampler picks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SamplerKind {
    /// Each entry of a list is as likely as another, independently of what other nodes pick (GraphSAGE).
    #[default]
    Neighbor,
    /// Each entry is as likely as another, but nodes that are picked from in the same hop prefer the same neighbours,
    /// so that a batch has fewer nodes (LABOR-0 of Balın and Çatalyürek, "Layer-Neighbor Sampling", NeurIPS 2023).
    Labor,
    /// An entry is picked in proportion to its weight (`weight.npy`).
    Weighted,
    /// A layer draws nodes for all of its destinations together, among their neighbours, in proportion to how much the
    /// destinations' means depend on them (Zou et al., "Layer-Dependent Importance Sampling for Training Deep and Large
    /// Graph Convolutional Networks", NeurIPS 2019).
    Ladies,
    /// A layer draws nodes out of the whole graph, in proportion to how much all nodes' means depend on them (Chen et
    /// al., "FastGCN: Fast Learning with Graph Convolutional Networks via Importance Sampling", ICLR 2018).
    FastGcn,
    /// A batch draws nodes out of the whole graph, as FastGCN does, and samples from the subgraph of them and its seeds
    /// (Zeng et al., "GraphSAINT: Graph Sampling Based Inductive Learning Method", ICLR 2020).
    SaintNode,
    /// The same with the ends of edges that are drawn, those between small lists more likely.
    SaintEdge,
    /// A node's neighbours are the nodes that random walks from it visit most, near or far (PinSAGE: Ying et al., "Graph
    /// Convolutional Neural Networks for Web-Scale Recommender Systems", KDD 2018).
    Walk,
}

impl SamplerKind {
    /// All of them, the default first.
    pub const ALL: [SamplerKind; 8] = [
        Self::Neighbor,
        Self::Labor,
        Self::Weighted,
        Self::Ladies,
        Self::FastGcn,
        Self::SaintNode,
        Self::SaintEdge,
        Self::Walk,
    ];

    /// The name in options and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Neighbor => "neighbor",
            Self::Labor => "labor",
            Self::Weighted => "weighted",
            Self::Ladies => "ladies",
            Self::FastGcn => "fastgcn",
            Self::SaintNode => "saint-node",
            Self::SaintEdge => "saint-edge",
            Self::Walk => "walk",
        }
    }

    /// What [`name`](Self::name) calls so.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether each visit of a list reads all of its entries, and not only those that it picks.
    #[must_use]
    pub fn reads_whole_lists(self) -> bool {
        self == Self::Labor || self.draws_together()
    }

    /// Whether a fanout is a number of draws for all destinations of a hop together, and not that of the picks out of
    /// each list.
    #[must_use]
    pub fn draws_together(self) -> bool {
        matches!(self, Self::Ladies | Self::FastGcn | Self::SaintNode | Self::SaintEdge)
    }

    /// Whether what is drawn for the seeds is drawn for all hops: a batch is one subgraph, and its fanouts are the same.
    #[must_use]
    pub fn draws_one_subgraph(self) -> bool {
        matches!(self, Self::SaintNode | Self::SaintEdge)
    }

    /// The most nodes that a draw brings, of a kind that [draws together](Self::draws_together).
    #[must_use]
    pub fn nodes_a_draw(self) -> usize {
        if self == Self::SaintEdge { 2 } else { 1 }
    }

    /// Memory that a sampler takes for each node of the graph, in bytes. `reordered`: the graph has
    /// [original ids](uva_graph::Csc::original_ids).
    #[must_use]
    pub fn bytes_a_node(self, reordered: bool) -> usize {
        // Local ids of the batch, and of kinds that draw together numbers of what is drawn.
        let order = if reordered { 8 } else { 0 };
        match self {
            Self::Neighbor | Self::Labor | Self::Weighted | Self::Walk => ENTRY_BYTES,
            // Candidates and their importance.
            Self::Ladies => 2 * ENTRY_BYTES + 16,
            // Sums of importance, and the order that they are in.
            Self::FastGcn | Self::SaintNode => 2 * ENTRY_BYTES + 8 + order,
            // How much of the whole draws each node.
            Self::SaintEdge => 2 * ENTRY_BYTES + 8 + 8 + order,
        }
    }

    /// Whether each edge of a block has a weight ([`BlockRef::weights`](crate::BlockRef::weights)).
    #[must_use]
    pub fn weighs_edges(self) -> bool {
        self.draws_together() || self == Self::Walk
    }

    /// Whether what is picked for a node are entries of its own list: there is an edge for each edge of a block.
    #[must_use]
    pub fn picks_in_lists(self) -> bool {
        self != Self::Walk
    }
}

impl fmt::Display for SamplerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Samples neighbours uniformly: [`SamplerKind::Neighbor`].
pub type NeighborSampler<'g> = HopSampler<'g, neighbor::Uniform>;

/// Samples neighbours that a hop's nodes share: [`SamplerKind::Labor`].
pub type LaborSampler<'g> = HopSampler<'g, labor::Labor>;

/// Samples neighbours by weight: [`SamplerKind::Weighted`].
pub type WeightedSampler<'g> = HopSampler<'g, weighted::Weighted<'g>>;

/// Draws the nodes of a layer among the neighbours of its destinations: [`SamplerKind::Ladies`].
pub type LadiesSampler<'g> = HopSampler<'g, together::Together<together::Ladies>>;

/// Draws the nodes of a layer out of the whole graph: [`SamplerKind::FastGcn`].
pub type FastGcnSampler<'g> = HopSampler<'g, together::Together<together::FastGcn>>;

/// Draws nodes for a subgraph around each batch's seeds: [`SamplerKind::SaintNode`].
pub type SaintNodeSampler<'g> = HopSampler<'g, together::Together<together::Saint<together::Nodes>>>;

/// Draws edges for a subgraph around each batch's seeds: [`SamplerKind::SaintEdge`].
pub type SaintEdgeSampler<'g> = HopSampler<'g, together::Together<together::Saint<together::Edges>>>;

/// Picks what random walks visit: [`SamplerKind::Walk`].
pub type WalkSampler<'g> = HopSampler<'g, walk::Walk>;
