//! A level: blocks of a finer graph as the nodes of a graph.

use crate::graphs::weighted::{Size, WeightedGraph};
use crate::methods::blocks::block_graph::BlockGraph;
use crate::methods::blocks::search::Blocks;

/// The blocks, and the edges between them.
#[derive(Debug)]
pub(crate) struct Level {
    pub(crate) graph: BlockGraph,
    pub(crate) blocks: Blocks,
}

impl WeightedGraph for Level {
    fn count(&self) -> usize {
        self.blocks.count()
    }

    fn edges_of(&self, node: u32) -> impl Iterator<Item = (u32, u64)> {
        self.graph.neighbours(node)
    }

    fn size(&self, node: u32) -> Size {
        Size { nodes: self.blocks.nodes[node as usize], train: self.blocks.train[node as usize] }
    }
}
