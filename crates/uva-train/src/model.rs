//! The networks: layers one after the other over sampled blocks, forward and backward.

use crate::TrainError;
use crate::aggregate::Block;
use crate::layer::{Layer, Saved};
use crate::options::TrainerOptions;
use crate::random::SplitMix64;
use tch::{Device, Kind, Tensor};

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
        (kind, device): (Kind, Device),
    ) -> Result<Self, TrainError> {
        let mut random = SplitMix64::new(options.seed);
        let mut layers = Vec::with_capacity(options.layers);
        let mut inputs = input_dim;
        for layer in 0..options.layers {
            let outputs = if layer + 1 == options.layers { classes } else { options.hidden };
            layers.push(Layer::new(options.model, inputs, outputs, (kind, device), &mut random)?);
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
    ) -> Result<Forward, TrainError> {
        let mut x = features;
        if training && self.input_dropout > 0.0 {
            x = x.f_dropout(self.input_dropout, true)?;
        }
        let mut inputs = Vec::with_capacity(self.layers.len());
        for (index, (layer, block)) in self.layers.iter().zip(blocks.iter().rev()).enumerate() {
            if index > 0 {
                let _ = x.f_relu_()?;
                if training && self.dropout > 0.0 {
                    x = x.f_dropout(self.dropout, true)?;
                }
            }
            let (out, saved) = layer.forward(&x, block, index > 0)?;
            if training {
                inputs.push((x, saved));
            }
            x = out;
        }
        Ok(Forward { logits: x, inputs })
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
            let (x, saved) = &forward.inputs[index];
            let (of_parameters, of_x) = self.layers[index].backward(x, saved, block, &gradient, index > 0)?;
            gradients.push(of_parameters);
            if let Some(of_x) = of_x {
                // An element of x that is positive has passed ReLU and was not dropped, but scaled by 1 / (1 − p).
                gradient = x.f_threshold_backward(&of_x, 0.0)?;
                if self.dropout > 0.0 {
                    let _ = gradient.f_div_scalar_(1.0 - self.dropout)?;
                }
            }
        }
        Ok(gradients.into_iter().rev().flatten().collect())
    }
}

/// A forward pass: its result, and after training what each layer was given and saved, first layer first.
pub(crate) struct Forward {
    pub(crate) logits: Tensor,
    inputs: Vec<(Tensor, Saved)>,
}
