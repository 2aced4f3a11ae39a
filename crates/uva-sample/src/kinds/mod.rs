//! The kinds of sampler: which entries of a list are picked. One file a kind; what they share is in [`hops`](crate::hops).

use std::fmt;

use crate::hops::HopSampler;

mod floyd;
mod labor;
mod neighbor;
mod smallest;
mod weighted;

/// Which neighbours a sampler picks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SamplerKind {
    /// Each entry of a list is as likely as another, independently of what other nodes pick (GraphSAGE).
    #[default]
    Neighbor,
    /// Each entry is as likely as another, but nodes that are picked from in the same hop prefer the same neighbours, so that
    /// a batch has fewer nodes (LABOR-0 of Balın and Çatalyürek, "Layer-Neighbor Sampling", NeurIPS 2023).
    Labor,
    /// An entry is picked in proportion to its weight (`weight.npy`).
    Weighted,
}

impl SamplerKind {
    /// All of them, the default first.
    pub const ALL: [SamplerKind; 3] = [SamplerKind::Neighbor, SamplerKind::Labor, SamplerKind::Weighted];

    /// The name in options and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Neighbor => "neighbor",
            Self::Labor => "labor",
            Self::Weighted => "weighted",
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
        self == Self::Labor
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
