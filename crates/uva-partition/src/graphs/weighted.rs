//! Graphs whose nodes may represent several nodes.

use crate::graphs::graph::OriginalGraph;

/// Number of nodes that a node represents, and of training nodes among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) nodes: u64,
    pub(crate) train: u64,
}

/// An undirected graph.
pub(crate) trait WeightedGraph: Sync {
    /// Number of nodes.
    fn count(&self) -> usize;

    /// The neighbours of a node, and the edges to each; a neighbour may occur several times.
    fn edges_of(&self, node: u32) -> impl Iterator<Item = (u32, u64)>;

    /// The nodes that a node represents.
    fn size(&self, node: u32) -> Size;
}

impl WeightedGraph for OriginalGraph<'_> {
    fn count(&self) -> usize {
        self.nodes()
    }

    fn edges_of(&self, node: u32) -> impl Iterator<Item = (u32, u64)> {
        self.neighbours(node).filter(move |&neighbour| neighbour != node).map(|neighbour| (neighbour, 1))
    }

    fn size(&self, node: u32) -> Size {
        Size { nodes: 1, train: u64::from(self.trains(node)) }
    }
}
