//! Graphs whose nodes may stand for several.

use crate::graphs::graph::OriginalGraph;

/// Nodes that one stands for, and training nodes among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) nodes: u64,
    pub(crate) train: u64,
}

/// A graph without directions.
pub(crate) trait WeightedGraph: Sync {
    /// How many nodes it has.
    fn count(&self) -> usize;

    /// The others next to a node, and the edges to each; the same one may come several times.
    fn edges_of(&self, node: u32) -> impl Iterator<Item = (u32, u64)>;

    /// What a node stands for.
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
