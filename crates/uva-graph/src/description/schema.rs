//! What a dataset holds, in names, counts and types: without a byte of it.

use std::ops::Range;

use crate::ElementType;

/// A relation of a dataset, by its place among them: one kind of edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Relation(pub u16);

impl Relation {
    /// The relation of a graph whose edges are of one kind.
    pub const ONLY: Self = Self(0);
}

/// A type of nodes of a dataset, by its place among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeType(pub u16);

impl NodeType {
    /// The type of a graph whose nodes are of one kind.
    pub const ONLY: Self = Self(0);
}

/// What a dataset holds. A graph of one kind of nodes and edges has one node type, one relation and one table of feature
/// rows. A hop set has one node type, whose nodes are its rows, no relation, and a table for each hop. A dataset whose
/// rows are divided among ranks has one table, of which a range is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Nodes of each type.
    pub nodes: Vec<usize>,
    /// Each kind of edges.
    pub relations: Vec<RelationSchema>,
    /// Each table of feature rows of nodes.
    pub tables: Vec<TableSchema>,
    /// The type whose nodes have labels and splits.
    pub target: NodeType,
    /// Classes of the labels; 0 if no node has one.
    pub classes: usize,
}

/// One kind of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationSchema {
    /// The type of the nodes that lists name.
    pub source: NodeType,
    /// The type of the nodes that have the lists.
    pub destination: NodeType,
    /// How many there are.
    pub edges: usize,
    /// Whether they have weights.
    pub weights: bool,
    /// Values and type of a feature row of an edge; `None` if edges have none.
    pub features: Option<(usize, ElementType)>,
}

/// A table of feature rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    /// The type of the nodes that it has rows of.
    pub node_type: NodeType,
    /// The rows that are here.
    pub here: Range<usize>,
    /// Values of a row.
    pub dim: usize,
    /// The type of a value.
    pub element: ElementType,
}

impl TableSchema {
    /// Bytes of a row.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.dim * self.element.bytes()
    }
}
