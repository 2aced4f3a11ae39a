//! The sizes of a written dataset.

/// The sizes.
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
