//! The memory that training requires, computed from shapes alone.
//!
//! The estimate excludes memory that depends on a batch's neighbours, so it is a lower bound: a machine with less
//! memory cannot train, and a machine with this much may still have too little. A model over a hop set reads no
//! neighbours, so the rows between its layers are counted.

use crate::hop_model::ActivationKind;
use crate::layer_size::{LayerSize, product};
use crate::model_kind::{ModelKind, ModelRow};
use crate::options::{NormKind, TrainerOptions};

/// Bytes of a number.
const NUMBER: u64 = 4;

/// The shapes for training and evaluation of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shapes {
    /// Feature columns.
    pub input_dim: usize,
    /// Classes, which is the number of logits of a node.
    pub classes: usize,
    /// Seeds of a batch.
    pub seeds: usize,
    /// Nodes of the graph, if all of them are evaluated layer by layer (`--eval full`).
    pub nodes_evaluated: Option<usize>,
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
    /// Bytes of the tables of a full evaluation, which are on the host for any training device; 0 without a full
    /// evaluation.
    pub evaluation_bytes: u64,
}

impl Footprint {
    /// The footprint of a network with these options. Sizes saturate at 64 bits.
    #[must_use]
    pub fn new(options: &TrainerOptions, shapes: &Shapes) -> Self {
        let network = Network::of(options, shapes);
        let parameters = network.parameters();
        let logits = product(&[shapes.seeds as u64, shapes.classes as u64, NUMBER]);
        let evaluation_bytes = shapes
            .nodes_evaluated
            .map_or(0, |nodes| product(&[nodes as u64, network.widest_tables(), NUMBER]));
        let activation_bytes = product(&[shapes.seeds as u64, kept_numbers(options, shapes), NUMBER]);
        let trained = product(&[4, parameters, NUMBER]).saturating_add(logits.saturating_mul(2));
        Self {
            parameters,
            training_bytes: trained.saturating_add(activation_bytes),
            activation_bytes,
            evaluation_bytes,
        }
    }

    /// Bytes on the host for a network that is trained there.
    #[must_use]
    pub fn on_host(&self) -> u64 {
        // The gradients are freed before evaluation.
        let evaluating = product(&[3, self.parameters, NUMBER]).saturating_add(self.evaluation_bytes);
        let evaluating = if self.evaluation_bytes > 0 { evaluating } else { 0 };
        self.training_bytes.max(evaluating)
    }

    /// Bytes on the host for a network that is trained on a GPU: those of a full evaluation, with a copy of the
    /// parameters; 0 without one.
    #[must_use]
    pub fn beside_a_gpu(&self) -> u64 {
        let copy = self.parameters.saturating_mul(NUMBER);
        if self.evaluation_bytes > 0 { self.evaluation_bytes.saturating_add(copy) } else { 0 }
    }
}

/// Values per seed that a model over a hop set keeps until its backward pass ends.
fn kept_numbers(options: &TrainerOptions, shapes: &Shapes) -> u64 {
    let [hidden, inputs, layers, hops, operators, heads] =
        [options.hidden, shapes.input_dim, options.layers, options.hops, options.operators, options.heads]
            .map(|number| number as u64);
    let rows = hops.saturating_add(1);
    match options.model {
        // The mapped rows of the hops, with their gradient; the input of each later linear map; and with several
        // operators the concatenated rows of a hop.
        ModelKind::Sign => {
            let behind = product(&[layers.saturating_sub(2), hidden]);
            let joined = if operators > 1 { product(&[hops, operators, inputs]) } else { 0 };
            product(&[2, rows, hidden]).saturating_add(behind).saturating_add(joined)
        }
        // The mapped rows of the hops. For each layer: queries, keys and values, the attention's result, its mapped
        // result, the gate, the product, and the output of the ReLU. Then the shares of the hops.
        ModelKind::Hoga => {
            let of_layer = product(&[8, rows, hidden]).saturating_add(product(&[heads, rows, rows]));
            product(&[rows, hidden]).saturating_add(layers.saturating_mul(of_layer))
        }
        _ => 0,
    }
}

/// A network's layers, in the shapes that `uva-train` gives them.
struct Network {
    model: &'static ModelRow,
    hops: Vec<LayerSize>,
    /// Inputs and outputs of linear maps with bias.
    linear: Vec<(u64, u64)>,
    /// Widths of normalisations.
    norms: Vec<u64>,
    /// Number of all other parameters.
    others: u64,
}

impl Network {
    fn of(options: &TrainerOptions, shapes: &Shapes) -> Self {
        if options.model.row().reads_hops() {
            return Self::over_hops(options, shapes);
        }
        let [hidden, inputs, classes] =
            [options.hidden, options.first_inputs(shapes.input_dim), shapes.classes]
                .map(|width| width as u64);
        let edge_dim = options.edge_dim as u64;
        let hop = |inputs, outputs, last: bool| {
            let heads = if last { options.output_heads.unwrap_or(options.heads) } else { options.heads };
            LayerSize { inputs, outputs, edge_dim, heads: heads as u64, averaged: last }
        };
        let model = options.model.row();
        let norms = |number: usize| match options.norm {
            NormKind::None => Vec::new(),
            NormKind::Layer => vec![hidden; number],
        };
        let layers = options.layers;
        if options.residual {
            let mut linear = vec![(inputs, hidden), (hidden, classes)];
            linear.extend(std::iter::repeat_n((hidden, hidden), layers));
            let hops = vec![hop(hidden, hidden, false); layers];
            return Self { model, hops, linear, norms: norms(layers + 1), others: 0 };
        }
        let of_hop = |number: usize| {
            let last = number + 1 == layers;
            hop(if number == 0 { inputs } else { hidden }, if last { classes } else { hidden }, last)
        };
        Self {
            model,
            hops: (0..layers).map(of_hop).collect(),
            linear: Vec::new(),
            norms: norms(layers.saturating_sub(1)),
            others: 0,
        }
    }

    /// The network of a model over a hop set.
    fn over_hops(options: &TrainerOptions, shapes: &Shapes) -> Self {
        let [hidden, inputs, classes, layers, hops, operators] = [
            options.hidden,
            shapes.input_dim,
            shapes.classes,
            options.layers,
            options.hops,
            options.operators,
        ]
        .map(|number| number as u64);
        let model = options.model.row();
        let alone = Self { model, hops: Vec::new(), linear: Vec::new(), norms: Vec::new(), others: 0 };
        match options.model {
            ModelKind::Sign => {
                let wide = product(&[hops.saturating_add(1), hidden]);
                let behind = (1..layers).map(|layer| {
                    (
                        if layer == 1 { wide } else { hidden },
                        if layer + 1 == layers { classes } else { hidden },
                    )
                });
                let linear = std::iter::once((inputs, hidden)).chain(behind).collect();
                let of_hop = product(&[operators, inputs]).saturating_add(1);
                let slopes =
                    if options.activation == ActivationKind::Prelu { layers.saturating_sub(1) } else { 0 };
                Self { linear, others: product(&[hops, of_hop, hidden]).saturating_add(slopes), ..alone }
            }
            // Linear maps without bias: one for each hop, five per layer, the scores of the readout, and two after it.
            // Two maps of a layer have a bias.
            ModelKind::Hoga => {
                let squares = product(&[5, layers]).saturating_add(1);
                let vectors = product(&[2, layers]).saturating_add(1);
                let maps = [
                    &[hops.saturating_add(1), inputs, hidden][..],
                    &[squares, hidden, hidden],
                    &[vectors, hidden],
                    &[hidden, classes],
                ];
                let others = maps.iter().map(|map| product(map)).fold(0, u64::saturating_add);
                Self { norms: vec![hidden; options.layers.saturating_add(1)], others, ..alone }
            }
            _ => Self { linear: vec![(inputs, classes)], ..alone },
        }
    }

    fn parameters(&self) -> u64 {
        let hops = self.hops.iter().map(|layer| (self.model.parameters)(*layer));
        let linear =
            self.linear.iter().map(|(inputs, outputs)| product(&[inputs.saturating_add(1), *outputs]));
        let norms = self.norms.iter().map(|width| product(&[2, *width]));
        hops.chain(linear).chain(norms).fold(self.others, u64::saturating_add)
    }

    /// Values per node in the tables that coexist while the widest layer is evaluated: the products, the result, and
    /// the input rows unless they are the dataset's.
    fn widest_tables(&self) -> u64 {
        let hops = self.hops.iter().enumerate().map(|(number, layer)| {
            let products = (self.model.products)(*layer);
            let rows = if number == 0 && self.linear.is_empty() { 0 } else { layer.inputs };
            products.saturating_add(layer.outputs).saturating_add(rows)
        });
        let linear = self.linear.iter().map(|(_, outputs)| *outputs);
        hops.chain(linear).max().unwrap_or(0)
    }
}
