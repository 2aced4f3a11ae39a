//! Graphs made up on the spot, with classes planted in them so that there is something to learn.

mod citation;
mod permutation;
mod planted;
mod power_law;
mod random;
mod web;

pub use citation::{Citation, citation};
pub use planted::Common;
pub use power_law::{PowerLaw, power_law};
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
