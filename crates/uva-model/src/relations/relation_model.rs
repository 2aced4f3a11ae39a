//! What sets models over relations apart from each other.

use uva_options::named;

use crate::relations::wiring::LayerWiring;

/// A model over the relations of a typed graph.
#[derive(Clone, Copy, Debug)]
pub struct RelationModel {
    /// It takes `--root` and `--relation-sum`.
    pub has_roots: bool,
    /// Whether a layer reads the rows of its destinations.
    pub(crate) reads_own_rows: fn(RootKind) -> bool,
    /// Number of trained parameters of a layer.
    pub(crate) parameters: fn(&RelationShape<'_>) -> u64,
}

/// The shape of a layer over relations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RelationShape<'l> {
    pub(crate) root: RootKind,
    pub(crate) layer: &'l LayerWiring,
    /// Columns of each type's rows before it.
    pub(crate) widths: &'l [u64],
    /// Columns of all rows after it.
    pub(crate) outputs: u64,
}

named! {
    /// The map of a node's own row in a layer over relations.
    pub enum RootKind = Relation {
        /// A map for each relation, as in PyG's HeteroConv of SAGEConv.
        Relation = "relation",
        /// A map for each node type.
        Type = "type",
        /// No map: a layer reads neighbours only.
        None = "none",
    }
}

named! {
    /// How the results of the relations into a node type become its rows.
    pub enum RelationSum = Sum {
        /// Their sum.
        Sum = "sum",
        /// Their mean.
        Mean = "mean",
    }
}
