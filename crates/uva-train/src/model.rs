//! The networks: layers one after the other over sampled blocks, forward and backward.

use crate::TrainError;
use crate::activation::{self, Activation};
use crate::aggregate::Block;
use crate::layer::{Layer, Saved};
use crate::options::TrainerOptions;
use crate::random::SplitMix64;
use tch::{Device, Kind, Tensor};

/// A network: layers in the order in which rows pass them.
pub(crate) struct Model {
    pub(crate) layers: Vec<Layer>,
    pub(crate) activation: Activation,
    dropout: f64,
    input_dropout: f64,
}

impl Model {
    /// `kind` is f32 except where gradients are compared with finite differences.
    pub(crate) fn new(
        options: &TrainerOptions,
        input_dim: usize,
        classes: usize,
        place: (Kind, Device),
    ) -> Result<Self, TrainError> {
        let mut random = SplitMix64::new(options.seed);
        let mut layers = Vec::with_capacity(options.layers);
        let mut inputs = input_dim;
        for layer in 0..options.layers {
            let last = layer + 1 == options.layers;
            let outputs = if last { classes } else { options.hidden };
            layers.push(Layer::new(options, (inputs, outputs), last, place, &mut random)?);
            inputs = outputs;
        }
        let activation = Activation::of(options.model);
        Ok(Self { layers, activation, dropout: options.dropout, input_dropout: options.input_dropout })
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
    ) -> Result<Forward, TrainError> {
        let mut x = features;
        if training && self.input_dropout > 0.0 {
            x = x.f_dropout(self.input_dropout, true)?;
        }
        let dropout = if training { self.dropout } else { 0.0 };
        let mut steps = Vec::with_capacity(self.layers.len());
        for (index, (layer, block)) in self.layers.iter().zip(blocks.iter().rev()).enumerate() {
            let mut activated = None;
            if index > 0 {
                let (out, saved) = self.activation.forward(x, dropout)?;
                (x, activated) = (out, Some(saved));
            }
            let (out, saved) = layer.forward(&x, block, index > 0, training)?;
            if training {
                steps.push(Step { activated, x, saved });
            }
            x = out;
        }
        Ok(Forward { logits: x, steps })
    }

    /// Gradients of all parameters, in the order of [`Model::parameters`], from that of the logits. `forward` is of
    /// a training pass over the same blocks.
    pub(crate) fn backward(
        &self,
        forward: &Forward,
        blocks: &[Block<'_>],
        of_logits: Tensor,
    ) -> Result<Vec<Tensor>, TrainError> {
        let mut gradients = Vec::new();
        let mut gradient = of_logits;
        for (index, block) in (0..self.layers.len()).rev().zip(blocks) {
            let Step { activated, x, saved } = &forward.steps[index];
            let (of_parameters, of_x) = self.layers[index].backward(x, saved, block, &gradient, index > 0)?;
            gradients.push(of_parameters);
            if let (Some(of_x), Some(activated)) = (of_x, activated) {
                gradient = activated.backward(of_x)?;
            }
        }
        Ok(gradients.into_iter().rev().flatten().collect())
    }
}

/// A forward pass: its result, and after training what its steps left, the first layer's first.
pub(crate) struct Forward {
    pub(crate) logits: Tensor,
    steps: Vec<Step>,
}

/// A layer's part of a forward pass.
struct Step {
    /// Before any but the first layer.
    activated: Option<activation::Saved>,
    /// What the layer was given.
    x: Tensor,
    saved: Saved,
}
