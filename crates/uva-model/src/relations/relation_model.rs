//! What sets models over relations apart from each other.

use serde::{Deserialize, Serialize};
use uva_options::named;

use crate::relations::model_graph::ModelGraph;
use crate::relations::wiring::{LayerWiring, OwnRowUse};

/// A model over the relations of a typed graph.
#[derive(Clone, Copy, Debug)]
pub struct RelationModel {
    /// The maps of own rows that `--root` chooses from; empty for a model without the option.
    pub roots: &'static [RootKind],
    /// The map of own rows unless it is chosen.
    pub usual_root: fn(&ModelGraph) -> RootKind,
    /// It takes `--relation-sum`.
    pub has_relation_sum: bool,
    /// It takes `--bases` and `--blocks`, and has one matrix shape for all relations.
    pub has_shared_weights: bool,
    /// The linear maps of input rows before the first layer.
    pub input_maps: InputMaps,
    /// Whether a linear map to the logits follows the last layer, whose rows are then as wide as the others'.
    pub has_output_map: bool,
    /// How a layer uses the rows of its destinations.
    pub(crate) own_rows: fn(RootKind) -> OwnRowUse,
    /// Number of trained parameters of a layer.
    pub(crate) parameters: fn(&RelationShape<'_>) -> u64,
}

/// The shape of a layer over relations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RelationShape<'l> {
    pub(crate) root: RootKind,
    pub(crate) weights: RelationWeights,
    /// Attention heads.
    pub(crate) heads: u64,
    pub(crate) layer: &'l LayerWiring,
    /// Columns of each type's rows before it.
    pub(crate) widths: &'l [u64],
    /// Columns of all rows after it.
    pub(crate) outputs: u64,
}

/// The linear maps of each node type's input rows before the first layer, to the width of the hidden layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputMaps {
    /// None: the first layer takes rows of any width.
    Never,
    /// If the types' widths differ, since the first layer has one width for all of them.
    WhereUneven,
    /// Always, each followed by a ReLU.
    WithRelu,
}

named! {
    /// The map of a node's own row in a layer over relations.
    pub enum RootKind = Relation {
        /// A map for each relation, as in PyG's HeteroConv of SAGEConv.
        Relation = "relation",
        /// A map for each node type.
        Type = "type",
        /// One map for all node types, as in PyG's RGCNConv.
        Shared = "shared",
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

/// What the matrices of a layer's relations are made of (Schlichtkrull et al. 2018).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RelationWeights {
    /// A matrix for each relation.
    #[default]
    Free,
    /// Sums of this many matrices that the relations share, with coefficients of their own.
    Bases(usize),
    /// This many blocks along the diagonal of each matrix.
    Blocks(usize),
}
