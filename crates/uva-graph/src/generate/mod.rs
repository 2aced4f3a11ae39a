//! Graphs made up on the spot, with classes planted in them so that there is something to learn.

mod binomial;
mod citation;
mod estimate;
mod permutation;
mod planted;
mod power_law;
mod preset;
mod random;
mod recipe;
mod rmat;
mod sbm;
#[cfg(test)]
mod testing;
mod web;

pub use citation::{Citation, citation};
pub use estimate::Estimate;
pub use planted::Common;
pub use power_law::{PowerLaw, power_law};
pub use preset::{PRESETS, Preset};
pub use recipe::Recipe;
pub use rmat::{Rmat, rmat};
pub use sbm::{Mixing, Sbm, sbm};
pub use web::{Web, web};

pub use crate::steps::Progress;

/// What was written.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Summary {
    /// How many nodes.
    pub nodes: u64,
    /// How many edges; both directions of an undirected edge count.
    pub edges: u64,
    /// Features a node.
    pub feature_dim: u64,
    /// How many classes.
    pub classes: u64,
    /// Nodes of the train, valid and test split.
    pub split_sizes: [u64; 3],
    /// Wall-clock time.
    pub seconds: f64,
}
