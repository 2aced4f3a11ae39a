//! The table of the built-in models, with one row for each. `uva-train` has each model's layer in a separate file.

use serde::{Deserialize, Serialize};
use uva_options::Named;

use crate::hops::hop_model::{HopModel, LayerCount};
use crate::hops::hop_networks::{HOGA, LINEAR, SIGN};
use crate::layer_size::{LayerSize, product};
use crate::network::{NetworkForm, OVER_BLOCKS};
use crate::relations::relation_model::RelationModel;
use crate::relations::relation_networks::{HGT, OVER_RELATIONS, RGAT, RGCN, RSAGE};

/// The default number of heads.
pub(crate) const HEADS: usize = 8;

/// The kind of network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// GraphSAGE with the mean aggregator (Hamilton et al. 2017): a node's own row and the mean of its neighbours'
    /// rows, each with a separate matrix.
    Sage,
    /// GCN (Kipf & Welling 2017), with the weights of sampled neighbourhoods scaled to those of whole neighbourhoods.
    Gcn,
    /// GAT (Veličković et al. 2018): neighbours weighted by attention over both rows.
    Gat,
    /// GIN (Xu et al. 2019): a perceptron of two layers over the sum of the neighbours' rows and (1 + ε) times the
    /// node's own row.
    Gin,
    /// GINE (Hu et al. 2020): GIN over the sum of ReLU(neighbour's row + linear map of the edge's features).
    Gine,
    /// GraphSAGE for each relation of a typed graph: the mean of the neighbours' rows with a matrix for each relation, and
    /// the sum over the relations into a node type.
    Rsage,
    /// R-GCN (Schlichtkrull et al. 2018): for each relation the mean of the neighbours' rows through a matrix, and the
    /// node's own row through another.
    Rgcn,
    /// GAT for each relation of a typed graph, without the node itself among its neighbours, as MLPerf trains it: the sum
    /// over the relations into a node type, and a linear map after the last layer.
    Rgat,
    /// HGT (Hu et al. 2020): attention over the neighbours of all relations together, with keys, queries and values of node
    /// types and maps of relations between them.
    Hgt,
    /// SGC (Wu et al. 2019): a linear map of the last hop of a hop set.
    Sgc,
    /// S²GC (Zhu & Koniusz 2021): a linear map of the mean over the hops, each mixed with the features themselves.
    S2gc,
    /// SIGN (Frasca et al. 2020): a linear map for each hop, and a perceptron over all of them.
    Sign,
    /// HOGA (Deng et al. 2024): attention between the hops of a node.
    Hoga,
}

/// The weight of a neighbour in a layer's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighting {
    /// One over the number of the destination's picks, or the sampler's weight of the edge.
    Mean,
    /// The weights of Kipf & Welling, from the degrees in the whole graph, with the node among its own neighbours.
    Degrees,
    /// The layer computes it from the rows.
    Attention,
    /// 1.
    Sum,
    /// `uvatrain propagate` has multiplied the features beforehand, and the model reads no neighbours.
    Beforehand,
}

/// The use of edge features by a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeFeatures {
    /// The model ignores edge features.
    Ignored,
    /// The model uses edge features if a run requests them.
    Optional,
    /// The model requires edge features.
    Needed,
}

/// The function between two layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nonlinearity {
    /// max(x, 0).
    Relu,
    /// x if x > 0, eˣ − 1 otherwise (Clevert et al. 2016).
    Elu,
    /// x if x > 0, x / 100 otherwise.
    LeakyRelu,
    /// x: the layers have functions of their own.
    Identity,
}

/// A model's row in the table.
#[derive(Debug)]
pub struct ModelRow {
    kind: ModelKind,
    /// The name on the command line, in checkpoints and in metrics.
    pub name: &'static str,
    /// The description of the model in one line of help.
    pub help: &'static str,
    /// The weights of neighbours.
    pub weighting: Weighting,
    /// The use of edge features.
    pub edge_features: EdgeFeatures,
    /// The function between its layers.
    pub nonlinearity: Nonlinearity,
    /// The tables of a hop set that it reads; `None` for a model over sampled blocks.
    pub hops: Option<HopModel>,
    /// What it has of a typed graph; `None` for a model over one node type and one relation.
    pub relations: Option<RelationModel>,
    /// The form of its network.
    pub(crate) form: NetworkForm,
    /// Number of trained parameters of a layer over a block.
    pub(crate) parameters: fn(LayerSize) -> u64,
    /// Columns of a node's products during evaluation of the layer on all nodes.
    pub(crate) products: fn(LayerSize) -> u64,
}

impl ModelRow {
    /// Whether it has attention between neighbours of one relation, which enables `--output-heads` and `--attention-dropout`.
    pub fn has_attention(&self) -> bool {
        self.weighting == Weighting::Attention && !self.reads_relations()
    }

    /// Whether it has attention between neighbours or hops, which enables `--heads`.
    pub fn has_heads(&self) -> bool {
        self.weighting == Weighting::Attention || self.hops.is_some_and(|hops| hops.has_heads)
    }

    /// The default number of heads.
    pub fn usual_heads(&self) -> usize {
        if self.reads_relations() && self.has_heads() { 4 } else { HEADS }
    }

    /// Whether it is a convolution over sampled blocks of one relation, with fixed weights of neighbours.
    pub fn is_convolution(&self) -> bool {
        matches!(self.weighting, Weighting::Mean | Weighting::Degrees) && !self.reads_relations()
    }

    /// Whether it trains on a hop set, and not on sampled blocks.
    pub fn reads_hops(&self) -> bool {
        self.hops.is_some()
    }

    /// Whether it takes typed graphs.
    pub fn reads_relations(&self) -> bool {
        self.relations.is_some()
    }

    /// The default number of layers for batches of this number of `blocks`.
    pub fn usual_layers(&self, blocks: usize) -> usize {
        self.hops.map_or(blocks, |hops| hops.layers.map_or(1, |layers| layers.usual))
    }

    /// Whether a batch must hold the degrees of its nodes.
    pub fn needs_degrees(&self) -> bool {
        self.weighting == Weighting::Degrees
    }

    /// Whether it can use the edge features.
    pub fn takes_edge_features(&self) -> bool {
        self.edge_features != EdgeFeatures::Ignored
    }

    /// Whether it requires the edge features.
    pub fn needs_edge_features(&self) -> bool {
        self.edge_features == EdgeFeatures::Needed
    }

    /// Whether a sampler may weight the edges.
    pub fn takes_edge_weights(&self) -> bool {
        matches!(self.weighting, Weighting::Mean | Weighting::Degrees) && !self.reads_relations()
    }
}

/// All models. Tests, help and messages are made from this table.
static TABLE: [ModelRow; 13] = [
    ModelRow {
        kind: ModelKind::Sage,
        name: "sage",
        help: "GraphSAGE: a node's own features, and the mean of those of its sampled neighbours",
        weighting: Weighting::Mean,
        edge_features: EdgeFeatures::Ignored,
        nonlinearity: Nonlinearity::Relu,
        hops: None,
        relations: None,
        form: OVER_BLOCKS,
        parameters: |LayerSize { inputs, outputs, .. }| {
            product(&[2, inputs, outputs]).saturating_add(outputs)
        },
        products: |layer| layer.outputs,
    },
    ModelRow {
        kind: ModelKind::Gcn,
        name: "gcn",
        help: "Graph convolutional network: a degree-normalised sum over neighbours and the node itself",
        weighting: Weighting::Degrees,
        edge_features: EdgeFeatures::Ignored,
        nonlinearity: Nonlinearity::Relu,
        hops: None,
        relations: None,
        form: OVER_BLOCKS,
        parameters: |LayerSize { inputs, outputs, .. }| product(&[inputs, outputs]).saturating_add(outputs),
        products: |layer| layer.outputs,
    },
    ModelRow {
        kind: ModelKind::Gat,
        name: "gat",
        help: "Graph attention network: neighbours weighted by attention over their rows and the node's own row",
        weighting: Weighting::Attention,
        edge_features: EdgeFeatures::Optional,
        nonlinearity: Nonlinearity::Elu,
        hops: None,
        relations: None,
        form: OVER_BLOCKS,
        // The weight, two vectors per head, and the bias; with edge features another weight and vector.
        parameters: |layer| {
            let LayerSize { inputs, outputs, edge_dim, .. } = layer;
            let of_edges = if edge_dim > 0 { edge_dim.saturating_add(1) } else { 0 };
            let columns = inputs.saturating_add(2).saturating_add(of_edges);
            product(&[layer.of_all_heads(), columns]).saturating_add(outputs)
        },
        products: LayerSize::of_all_heads,
    },
    ModelRow {
        kind: ModelKind::Gin,
        name: "gin",
        help: "Graph isomorphism network: a perceptron over the sum of neighbours and (1 + ε) times the node itself",
        weighting: Weighting::Sum,
        edge_features: EdgeFeatures::Ignored,
        nonlinearity: Nonlinearity::Relu,
        hops: None,
        relations: None,
        form: OVER_BLOCKS,
        parameters: perceptron,
        products: |layer| layer.outputs,
    },
    ModelRow {
        kind: ModelKind::Gine,
        name: "gine",
        help: "GIN with edge features, which are added to the neighbours' rows",
        weighting: Weighting::Sum,
        edge_features: EdgeFeatures::Needed,
        nonlinearity: Nonlinearity::Relu,
        hops: None,
        relations: None,
        form: OVER_BLOCKS,
        // The parameters of GIN, and a linear map of the edges' features to the width of the input.
        parameters: |layer| {
            let of_edges = product(&[layer.inputs, layer.edge_dim.saturating_add(1)]);
            perceptron(layer).saturating_add(of_edges)
        },
        // Neighbours' rows are read at random, so they need a table.
        products: |layer| layer.inputs,
    },
    over_relations(
        ModelKind::Rsage,
        "rsage",
        "GraphSAGE for typed graphs: in each relation the mean of the neighbours' rows, summed over the relations",
        (Weighting::Mean, Nonlinearity::Relu),
        RSAGE,
    ),
    over_relations(
        ModelKind::Rgcn,
        "rgcn",
        "R-GCN: in each relation the mean of the neighbours' rows, summed with a map of the node's own row",
        (Weighting::Mean, Nonlinearity::Relu),
        RGCN,
    ),
    over_relations(
        ModelKind::Rgat,
        "rgat",
        "GAT for typed graphs: attention in each relation, summed over the relations, and a linear map at the end",
        (Weighting::Attention, Nonlinearity::LeakyRelu),
        RGAT,
    ),
    over_relations(
        ModelKind::Hgt,
        "hgt",
        "HGT for typed graphs: attention over the neighbours of all relations together, and a linear map at either end",
        (Weighting::Attention, Nonlinearity::Identity),
        HGT,
    ),
    over_hops(
        ModelKind::Sgc,
        "sgc",
        "SGC, on a hop set: a linear map of the features after the last hop",
        HopModel { last_alone: true, several_operators: false, layers: None, has_heads: false },
        LINEAR,
    ),
    over_hops(
        ModelKind::S2gc,
        "s2gc",
        "S²GC, on a hop set: a linear map of the mean over the hops",
        HopModel { last_alone: false, several_operators: false, layers: None, has_heads: false },
        LINEAR,
    ),
    over_hops(
        ModelKind::Sign,
        "sign",
        "SIGN, on a hop set: a linear map for each hop, and a perceptron over all of them",
        HopModel {
            last_alone: false,
            several_operators: true,
            layers: Some(LayerCount { least: 2, usual: 2 }),
            has_heads: false,
        },
        SIGN,
    ),
    over_hops(
        ModelKind::Hoga,
        "hoga",
        "HOGA, on a hop set: attention between the hops of a node",
        HopModel {
            last_alone: false,
            several_operators: false,
            layers: Some(LayerCount { least: 1, usual: 1 }),
            has_heads: true,
        },
        HOGA,
    ),
];

/// A model over the relations of a typed graph.
const fn over_relations(
    kind: ModelKind,
    name: &'static str,
    help: &'static str,
    (weighting, nonlinearity): (Weighting, Nonlinearity),
    relations: RelationModel,
) -> ModelRow {
    ModelRow {
        kind,
        name,
        help,
        weighting,
        edge_features: EdgeFeatures::Ignored,
        nonlinearity,
        hops: None,
        relations: Some(relations),
        form: OVER_RELATIONS,
        parameters: |_| 0,
        products: |_| 0,
    }
}

/// A model without layers over blocks.
const fn over_hops(
    kind: ModelKind,
    name: &'static str,
    help: &'static str,
    hops: HopModel,
    form: NetworkForm,
) -> ModelRow {
    ModelRow {
        kind,
        name,
        help,
        weighting: Weighting::Beforehand,
        edge_features: EdgeFeatures::Ignored,
        nonlinearity: Nonlinearity::Relu,
        hops: Some(hops),
        relations: None,
        form,
        parameters: |_| 0,
        products: |_| 0,
    }
}

/// Parameters of ε and of the perceptron's two linear maps.
fn perceptron(LayerSize { inputs, outputs, .. }: LayerSize) -> u64 {
    let maps = product(&[inputs.saturating_add(outputs).saturating_add(2), outputs]);
    maps.saturating_add(1)
}

impl ModelKind {
    /// The model of a graph with several node types or relations, unless another is given.
    pub const OF_TYPED_GRAPHS: Self = Self::Rsage;

    /// Every model, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.kind)
    }

    /// The row of the model.
    ///
    /// # Panics
    /// Never: a test checks the table.
    pub fn row(self) -> &'static ModelRow {
        &TABLE[self as usize]
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The names of the models that satisfy `holds`, as a message lists them.
    pub fn names_of(holds: impl Fn(&ModelRow) -> bool) -> String {
        let names: Vec<&str> = TABLE.iter().filter(|row| holds(row)).map(|row| row.name).collect();
        match names.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => names.concat(),
        }
    }
}

impl Named for ModelKind {
    fn all() -> Vec<Self> {
        Self::all().collect()
    }

    fn name(self) -> &'static str {
        self.name()
    }

    fn help(self) -> &'static str {
        self.row().help
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_finds_its_own_row_and_has_one_name_everywhere() {
        for kind in ModelKind::all() {
            assert_eq!(kind.row().kind, kind);
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert_eq!(ModelKind::names_of(ModelRow::takes_edge_weights), "sage or gcn");
        assert_eq!(ModelKind::names_of(ModelRow::takes_edge_features), "gat or gine");
        assert_eq!(ModelKind::names_of(ModelRow::reads_hops), "sgc, s2gc, sign or hoga");
        assert_eq!(ModelKind::names_of(ModelRow::has_heads), "gat, rgat, hgt or hoga");
    }
}
