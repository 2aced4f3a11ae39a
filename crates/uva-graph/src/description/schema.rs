//! The schema of a dataset: names, counts and types of its content.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::ElementType;

/// Index of a relation (one kind of edge) of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Relation(pub u16);

impl Relation {
    /// The relation of a graph whose edges are of one kind.
    pub const ONLY: Self = Self(0);

    /// The relation's place in arrays with one element per relation.
    #[must_use]
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// Index of a node type of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeType(pub u16);

impl NodeType {
    /// The type of a graph whose nodes are of one kind.
    pub const ONLY: Self = Self(0);

    /// The node type's place in arrays with one element per node type.
    #[must_use]
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// The schema of a dataset. A homogeneous graph has one node type, one relation and one table of feature rows. In a typed
/// graph, each type has a table or none. A hop
/// set has one node type, whose nodes are its rows, no relation, and a table for each hop. A dataset divided among
/// ranks has one table and a local range of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The number of nodes of each type.
    pub nodes: Vec<usize>,
    /// Each kind of edges.
    pub relations: Vec<RelationSchema>,
    /// Each table of feature rows of nodes.
    pub tables: Vec<TableSchema>,
    /// The type whose splits are seeds; `None` if a typed graph does not name one.
    pub target: Option<NodeType>,
    /// The number of classes of each type; 0 if no node of the type has a class.
    pub classes: Vec<usize>,
}

/// One kind of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationSchema {
    /// The type of the nodes in the neighbour lists.
    pub source: NodeType,
    /// The type of the nodes that own the lists.
    pub destination: NodeType,
    /// The number of edges.
    pub edges: usize,
    /// Whether they have weights.
    pub weights: bool,
    /// Width and element type of an edge's feature row; `None` if edges have none.
    pub features: Option<(usize, ElementType)>,
}

/// A table of feature rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    /// The type of the nodes that the rows belong to.
    pub node_type: NodeType,
    /// The range of rows that this dataset holds.
    pub here: Range<usize>,
    /// Values per row.
    pub dim: usize,
    /// The type of a value.
    pub element: ElementType,
}

impl TableSchema {
    /// Bytes per row.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.dim * self.element.bytes()
    }
}
