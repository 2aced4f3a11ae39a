//! Sizes of the parts of a batch.

use serde::{Deserialize, Serialize};
use uva_graph::{Metagraph, NodeType, Relation};

/// The nodes of one type in a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeSize {
    /// Seeds: the first of the nodes.
    pub seeds: usize,
    /// All nodes, seeds included.
    pub nodes: usize,
}

/// The size of one block, or its bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSize {
    /// Nodes that aggregate (destinations): the first of the batch's nodes of their type.
    pub destinations: usize,
    /// Sources, in a homogeneous graph destinations included.
    pub sources: usize,
    /// Picks.
    pub edges: usize,
}

/// The node types of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationEnds {
    /// The type of the nodes in the neighbour lists.
    pub source: NodeType,
    /// The type of the nodes that own the lists.
    pub destination: NodeType,
}

impl RelationEnds {
    /// Those of a homogeneous graph.
    pub const ONLY: Self = Self { source: NodeType::ONLY, destination: NodeType::ONLY };

    /// Those of a relation of a metagraph.
    ///
    /// # Panics
    /// If the relation does not exist.
    #[must_use]
    pub fn of(metagraph: &Metagraph, relation: Relation) -> Self {
        Self { source: metagraph.source(relation), destination: metagraph.destination(relation) }
    }
}
