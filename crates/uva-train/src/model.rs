//! The networks: their parameters, and the forward pass over sampled blocks.

use crate::TrainError;
use crate::aggregate::Block;
use crate::options::{ModelKind, TrainerOptions};
use crate::random::SplitMix64;
use tch::{Device, Kind, Tensor};

/// A linear map without bias, [outputs, inputs] as PyTorch stores one.
type Weight = Tensor;

/// One layer's parameters.
pub(crate) enum Layer {
    /// h_v = W_own x_v + W_neighbours mean(x_u) + b.
    Sage {
        /// For the node's own row.
        own: Weight,
        /// For the mean of its neighbours' rows.
        neighbours: Weight,
        /// Added once.
        bias: Tensor,
    },
    /// h_v = W Σ w_uv x_u + b, the sum including v itself.
    Gcn {
        /// For the weighted sum.
        weight: Weight,
        /// Added after it.
        bias: Tensor,
    },
}

/// Cost of reading one element of a neighbour's row, in multiply-adds of a matrix product: 0.18 to 0.54 ns against
/// 0.02 to 0.04 ns, by the measurement in `aggregate.rs`; and of the backward pass, a multiple of that.
const GATHER_COST: f64 = 12.0;
const GATHER_BACKWARD: f64 = 5.0;

/// Whether a layer had better multiply its sources' rows by the weight first and aggregate the products: the two
/// orders give the same up to rounding, as aggregation is linear. First multiplying is a product over all sources
/// instead of the destinations alone, and in exchange aggregates narrower rows if the layer narrows.
///
/// It depends on shapes only, so that a repeated run takes the same way.
pub(crate) fn projects_first(
    destinations: usize,
    sources: usize,
    edges: usize,
    inputs: usize,
    outputs: usize,
    input_gradient: bool,
) -> bool {
    let [destinations, sources, edges, inputs, outputs] =
        [destinations, sources, edges, inputs, outputs].map(|n| n as f64);
    // Products: forward and for the weight's gradient, and one more where the input has a gradient too.
    let products = if input_gradient { 3.0 } else { 2.0 };
    let gathers = if input_gradient { 1.0 + GATHER_BACKWARD } else { 1.0 };
    let aggregate_first = edges * inputs * GATHER_COST * gathers + destinations * inputs * outputs * products;
    let project_first =
        edges * outputs * GATHER_COST * (1.0 + GATHER_BACKWARD) + sources * inputs * outputs * products;
    project_first < aggregate_first
}

impl Layer {
    fn new(
        model: ModelKind,
        inputs: usize,
        outputs: usize,
        kind: Kind,
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let mut weight = || glorot(inputs, outputs, kind, random);
        let bias = || -> Result<Tensor, TrainError> {
            Ok(Tensor::f_zeros([outputs as i64], (kind, Device::Cpu))?.f_set_requires_grad(true)?)
        };
        Ok(match model {
            ModelKind::Sage => Self::Sage { own: weight()?, neighbours: weight()?, bias: bias()? },
            ModelKind::Gcn => Self::Gcn { weight: weight()?, bias: bias()? },
        })
    }

    fn parameters(&self) -> Vec<(&'static str, &Tensor)> {
        match self {
            Self::Sage { own, neighbours, bias } => {
                vec![("own.weight", own), ("neighbours.weight", neighbours), ("bias", bias)]
            }
            Self::Gcn { weight, bias } => vec![("weight", weight), ("bias", bias)],
        }
    }

    /// From [sources, inputs] to [destinations, outputs].
    pub(crate) fn forward(&self, x: &Tensor, block: &Block<'_>) -> Result<Tensor, TrainError> {
        let own_rows = |rows: &Tensor| rows.f_narrow(0, 0, block.destinations as i64);
        let (Self::Sage { neighbours: weight, .. } | Self::Gcn { weight, .. }) = self;
        let (outputs, inputs) = weight.size2()?;
        let project_first = projects_first(
            block.destinations,
            block.sources,
            block.edges,
            inputs as usize,
            outputs as usize,
            x.requires_grad(),
        );
        match self {
            Self::Sage { own, neighbours, bias } => {
                let from_neighbours = if project_first {
                    block.aggregate(&linear(x, neighbours)?)?
                } else {
                    linear(&block.aggregate(x)?, neighbours)?
                };
                Ok(own_rows(x)?.f_linear(own, Some(bias))?.f_add(&from_neighbours)?)
            }
            Self::Gcn { weight, bias } => {
                let with_own = |rows: &Tensor| -> Result<Tensor, TrainError> {
                    let sums = block.aggregate(rows)?;
                    Ok(match &block.own {
                        Some(weights) => sums.f_add(&own_rows(rows)?.f_mul(weights)?)?,
                        None => sums,
                    })
                };
                if project_first {
                    Ok(with_own(&linear(x, weight)?)?.f_add(bias)?)
                } else {
                    Ok(with_own(x)?.f_linear(weight, Some(bias))?)
                }
            }
        }
    }
}

/// x Wᵀ.
pub(crate) fn linear(x: &Tensor, weight: &Tensor) -> Result<Tensor, TrainError> {
    Ok(x.f_linear::<Tensor>(weight, None)?)
}

/// Uniform in ±√(6 / (inputs + outputs)) (Glorot & Bengio 2010).
fn glorot(inputs: usize, outputs: usize, kind: Kind, random: &mut SplitMix64) -> Result<Tensor, TrainError> {
    let bound = (6.0 / (inputs + outputs) as f64).sqrt();
    let values: Vec<f64> = (0..inputs * outputs).map(|_| bound * random.symmetric()).collect();
    let weight = Tensor::f_from_slice(&values)?.f_to_kind(kind)?.f_view([outputs as i64, inputs as i64])?;
    Ok(weight.f_set_requires_grad(true)?)
}

/// A network: layers in the order in which rows pass them.
pub(crate) struct Model {
    pub(crate) layers: Vec<Layer>,
    dropout: f64,
    input_dropout: f64,
}

impl Model {
    /// `kind` is f32 except where gradients are compared with finite differences.
    pub(crate) fn new(
        options: &TrainerOptions,
        input_dim: usize,
        classes: usize,
        kind: Kind,
    ) -> Result<Self, TrainError> {
        let mut random = SplitMix64::new(options.seed);
        let mut layers = Vec::with_capacity(options.layers);
        let mut inputs = input_dim;
        for layer in 0..options.layers {
            let outputs = if layer + 1 == options.layers { classes } else { options.hidden };
            layers.push(Layer::new(options.model, inputs, outputs, kind, &mut random)?);
            inputs = outputs;
        }
        Ok(Self { layers, dropout: options.dropout, input_dropout: options.input_dropout })
    }

    /// Every parameter with its name (`layers.0.own.weight`), in an order that never changes. The tensors share
    /// storage with the model.
    pub(crate) fn parameters(&self) -> Vec<(String, Tensor)> {
        let mut parameters = Vec::new();
        for (index, layer) in self.layers.iter().enumerate() {
            for (name, tensor) in layer.parameters() {
                parameters.push((format!("layers.{index}.{name}"), tensor.shallow_clone()));
            }
        }
        parameters
    }

    /// From the input nodes' rows to the seeds' logits. `blocks[0]` is the hop at the seeds, so layers take the
    /// blocks from the last to the first. With `training`, elements are dropped by libtorch's own generator.
    pub(crate) fn forward(
        &self,
        features: Tensor,
        blocks: &[Block<'_>],
        training: bool,
    ) -> Result<Tensor, TrainError> {
        let mut x = features;
        if training && self.input_dropout > 0.0 {
            x = x.f_dropout(self.input_dropout, true)?;
        }
        for (layer, block) in self.layers.iter().zip(blocks.iter().rev()) {
            if !std::ptr::eq(layer, &self.layers[0]) {
                x = x.f_relu()?;
                if training && self.dropout > 0.0 {
                    x = x.f_dropout(self.dropout, true)?;
                }
            }
            x = layer.forward(&x, block)?;
        }
        Ok(x)
    }
}
