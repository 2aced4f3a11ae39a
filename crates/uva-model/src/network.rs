//! The sizes of a network's layers and maps, to compute its memory.

use crate::layer_size::LayerSize;

/// The numbers that a network's size depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkShape {
    pub(crate) hidden: u64,
    /// Columns of the rows that the first layer or map reads.
    pub(crate) inputs: u64,
    pub(crate) classes: u64,
    pub(crate) layers: u64,
    pub(crate) hops: u64,
    pub(crate) operators: u64,
    /// Features of an edge; 0 if the model gets none.
    pub(crate) edge_dim: u64,
    pub(crate) heads: u64,
    pub(crate) output_heads: u64,
    /// Parameters of layers over relations.
    pub(crate) of_relations: u64,
    /// Whether layers add to their rows.
    pub(crate) residual: bool,
    /// Whether rows are normalised between layers.
    pub(crate) norms: bool,
    /// Whether the activation of each layer has a trained slope.
    pub(crate) slopes: bool,
}

/// A network's layers, in the shapes that `uva-train` gives them.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) hops: Vec<LayerSize>,
    /// Inputs and outputs of linear maps with bias.
    pub(crate) linear: Vec<(u64, u64)>,
    /// Widths of normalisations.
    pub(crate) norms: Vec<u64>,
    /// Number of all other parameters.
    pub(crate) others: u64,
}

/// The form of a model's network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkForm {
    /// The option that decides the number of layers.
    pub(crate) layers_option: &'static str,
    /// The network of a shape.
    pub(crate) network: fn(&NetworkShape) -> Network,
    /// Values per seed that it keeps until its backward pass ends, apart from the rows of neighbours.
    pub(crate) kept: fn(&NetworkShape) -> u64,
}

/// Layers over blocks.
pub(crate) const OVER_BLOCKS: NetworkForm =
    NetworkForm { layers_option: "fanouts", network: over_blocks, kept: |_| 0 };

fn over_blocks(shape: &NetworkShape) -> Network {
    let NetworkShape { hidden, inputs, classes, layers, edge_dim, .. } = *shape;
    let hop = |inputs, outputs, last: bool| {
        let heads = if last { shape.output_heads } else { shape.heads };
        LayerSize { inputs, outputs, edge_dim, heads, averaged: last }
    };
    let layers = layers as usize;
    let norms = |number: usize| if shape.norms { vec![hidden; number] } else { Vec::new() };
    if shape.residual {
        let mut linear = vec![(inputs, hidden), (hidden, classes)];
        linear.extend(std::iter::repeat_n((hidden, hidden), layers));
        let hops = vec![hop(hidden, hidden, false); layers];
        return Network { hops, linear, norms: norms(layers + 1), others: 0 };
    }
    let of_hop = |number: usize| {
        let last = number + 1 == layers;
        hop(if number == 0 { inputs } else { hidden }, if last { classes } else { hidden }, last)
    };
    Network {
        hops: (0..layers).map(of_hop).collect(),
        norms: norms(layers.saturating_sub(1)),
        ..Network::default()
    }
}
