//! The kinds of sampler: which entries of a list are picked. One file a kind; what they share is in
//! [`hops`](crate::hops).

use std::fmt;

use crate::hops::HopSampler;

mod exponential;
mod fastgcn;
mod floyd;
mod labor;
mod ladies;
mod layerwise;
mod neighbor;
mod smallest;
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
}

impl SamplerKind {
    /// All of them, the default first.
    pub const ALL: [SamplerKind; 5] =
        [Self::Neighbor, Self::Labor, Self::Weighted, Self::Ladies, Self::FastGcn];

    /// The name in options and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Neighbor => "neighbor",
            Self::Labor => "labor",
            Self::Weighted => "weighted",
            Self::Ladies => "ladies",
            Self::FastGcn => "fastgcn",
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
        matches!(self, Self::Labor | Self::Ladies | Self::FastGcn)
    }

    /// Whether a fanout is the number of nodes that a layer draws for all of its destinations together, and not that of
    /// the picks out of each list.
    #[must_use]
    pub fn draws_by_layer(self) -> bool {
        matches!(self, Self::Ladies | Self::FastGcn)
    }

    /// Whether each edge of a block has a weight ([`BlockRef::weights`](crate::BlockRef::weights)).
    #[must_use]
    pub fn weighs_edges(self) -> bool {
        matches!(self, Self::Ladies | Self::FastGcn)
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
pub type LadiesSampler<'g> = HopSampler<'g, layerwise::Layerwise<ladies::Ladies>>;

/// Draws the nodes of a layer out of the whole graph: [`SamplerKind::FastGcn`].
pub type FastGcnSampler<'g> = HopSampler<'g, layerwise::Layerwise<fastgcn::FastGcn>>;
