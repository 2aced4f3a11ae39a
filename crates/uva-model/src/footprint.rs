//! The memory that training requires, computed from shapes alone.
//!
//! The estimate excludes memory that depends on a batch's neighbours, so it is a lower bound: a machine with less
//! memory cannot train, and a machine with this much may still have too little. A model over a hop set reads no
//! neighbours, so the rows between its layers are counted.

use crate::hops::hop_model::ActivationKind;
use crate::layer_size::product;
use crate::model_kind::ModelRow;
use crate::network::{Network, NetworkShape};
use crate::options::{NormKind, TrainerOptions};
use crate::relations::embedding::EmbeddingShape;

/// Bytes of a number.
const NUMBER: u64 = 4;

/// The shapes for training and evaluation of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shapes {
    /// Feature columns.
    pub input_dim: usize,
    /// Classes, which is the number of logits of a node.
    pub classes: usize,
    /// Seeds of a batch.
    pub seeds: usize,
    /// Nodes of each type of the graph, if all of them are evaluated layer by layer (`--eval full`).
    pub nodes_evaluated: Option<Vec<usize>>,
}

/// The minimum memory of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Number of trained parameters.
    pub parameters: u64,
    /// Bytes during training on a batch: each parameter with its gradient and Adam's two moments, the logits of the
    /// seeds with their gradients, and `activation_bytes`.
    pub training_bytes: u64,
    /// Bytes of the rows that a model over a hop set keeps for the backward pass of a batch; 0 for other models.
    pub activation_bytes: u64,
    /// Bytes of the tables of node types without features, which are on the host: the rows and Adam's two moments.
    pub embedding_bytes: u64,
    /// Bytes of the tables of a full evaluation, which are on the host for any training device; 0 without a full
    /// evaluation.
    pub evaluation_bytes: u64,
}

impl Footprint {
    /// The footprint of a network with these options. Sizes saturate at 64 bits.
    #[must_use]
    pub fn new(options: &TrainerOptions, shapes: &Shapes) -> Self {
        let model = options.model.row();
        let shape = NetworkShape::new(options, shapes);
        let network = (model.form.network)(&shape);
        let parameters = network.parameters(model);
        let logits = product(&[shapes.seeds as u64, shapes.classes as u64, NUMBER]);
        let evaluated = |nodes: &Vec<usize>| {
            let all = nodes.iter().fold(0u64, |sum, &of_type| sum.saturating_add(of_type as u64));
            let of_relations = options.values_between_relations(nodes, shapes.classes);
            product(&[product(&[all, network.widest_tables(model)]).saturating_add(of_relations), NUMBER])
        };
        let evaluation_bytes = shapes.nodes_evaluated.as_ref().map_or(0, evaluated);
        let activation_bytes = product(&[shapes.seeds as u64, (model.form.kept)(&shape), NUMBER]);
        let of_table = |table: EmbeddingShape| product(&[3, table.rows as u64, table.columns as u64, NUMBER]);
        let embedding_bytes = options.embeddings().into_iter().map(of_table).fold(0, u64::saturating_add);
        let trained = product(&[4, parameters, NUMBER]).saturating_add(logits.saturating_mul(2));
        Self {
            parameters,
            training_bytes: trained.saturating_add(activation_bytes),
            activation_bytes,
            embedding_bytes,
            evaluation_bytes,
        }
    }

    /// Bytes on the host for a network that is trained there.
    #[must_use]
    pub fn on_host(&self) -> u64 {
        // The gradients are freed before evaluation.
        let evaluating = product(&[3, self.parameters, NUMBER]).saturating_add(self.evaluation_bytes);
        let evaluating = if self.evaluation_bytes > 0 { evaluating } else { 0 };
        self.training_bytes.max(evaluating).saturating_add(self.embedding_bytes)
    }

    /// Bytes on the host for a network that is trained on a GPU: those of a full evaluation, with a copy of the
    /// parameters; 0 without one.
    #[must_use]
    pub fn beside_a_gpu(&self) -> u64 {
        let copy = self.parameters.saturating_mul(NUMBER);
        if self.evaluation_bytes > 0 { self.evaluation_bytes.saturating_add(copy) } else { 0 }
    }
}

impl NetworkShape {
    fn new(options: &TrainerOptions, shapes: &Shapes) -> Self {
        let [hidden, inputs, classes, layers, hops, operators] = [
            options.hidden,
            options.first_inputs(shapes.input_dim),
            shapes.classes,
            options.layers,
            options.hops,
            options.operators,
        ]
        .map(|number| number as u64);
        let output_heads = options.output_heads.unwrap_or(options.heads);
        let [edge_dim, heads, output_heads] =
            [options.edge_dim, options.heads, output_heads].map(|number| number as u64);
        Self {
            hidden,
            inputs,
            classes,
            layers,
            hops,
            operators,
            edge_dim,
            heads,
            output_heads,
            of_relations: options.parameters_of_relations(classes),
            residual: options.residual,
            norms: options.norm == NormKind::Layer,
            slopes: options.activation == ActivationKind::Prelu,
        }
    }
}

impl Network {
    fn parameters(&self, model: &ModelRow) -> u64 {
        let hops = self.hops.iter().map(|layer| (model.parameters)(*layer));
        let linear =
            self.linear.iter().map(|(inputs, outputs)| product(&[inputs.saturating_add(1), *outputs]));
        let norms = self.norms.iter().map(|width| product(&[2, *width]));
        hops.chain(linear).chain(norms).fold(self.others, u64::saturating_add)
    }

    /// Values per node in the tables that coexist while the widest layer is evaluated: the products, the result, and
    /// the input rows unless they are the dataset's.
    fn widest_tables(&self, model: &ModelRow) -> u64 {
        let hops = self.hops.iter().enumerate().map(|(number, layer)| {
            let products = (model.products)(*layer);
            let rows = if number == 0 && self.linear.is_empty() { 0 } else { layer.inputs };
            products.saturating_add(layer.outputs).saturating_add(rows)
        });
        let linear = self.linear.iter().map(|(_, outputs)| *outputs);
        hops.chain(linear).max().unwrap_or(0)
    }
}
