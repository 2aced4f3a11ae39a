//! Sizes of a written dataset.

/// Sizes of a written dataset.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Summary {
    /// The number of nodes.
    pub nodes: u64,
    /// The number of edges; both directions of an undirected edge count.
    pub edges: u64,
    /// Features per node.
    pub feature_dim: u64,
    /// The number of classes.
    pub classes: u64,
    /// Nodes of the train, valid and test split.
    pub split_sizes: [u64; 3],
    /// Wall-clock time.
    pub seconds: f64,
}
