//! The steps of a network, and how their parameters are drawn.

use crate::TrainError;
use crate::layer::Layer;
use crate::layer::convolution::Convolution;
use crate::nn::random::SplitMix64;
use crate::nn::rowwise::{LayerNorm, Linear, Prelu};
use tch::{Device, Kind, Tensor};
use uva_model::{NormKind, TrainerOptions};

/// An operation on all rows.
pub(crate) enum Step {
    /// A layer over the next block: from the rows of sources to those of destinations.
    Hop(Layer),
    /// The first layer, for rows that already have its sums.
    Given(Convolution),
    /// A linear map of each row.
    Linear(Linear),
    /// Layer normalisation.
    Norm(LayerNorm),
    /// The activation, then dropout.
    Activate,
    /// The activation with a trained slope, without dropout.
    Prelu(Prelu),
    /// Dropout alone.
    Drop,
    /// A branch of steps whose output is added to the destinations' rows before it.
    Residual(Vec<Named>),
}

/// A step with the prefix of its parameters' names.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) step: Step,
}

/// Draws the parameters of a network, step by step in order.
pub(crate) struct Builder<'o> {
    pub(crate) options: &'o TrainerOptions,
    pub(crate) place: (Kind, Device),
    pub(crate) random: SplitMix64,
}

impl Builder<'_> {
    fn hop(&mut self, hop: usize, shape: (usize, usize), last: bool) -> Result<Named, TrainError> {
        let layer = Layer::new(self.options, shape, last, self.place, &mut self.random)?;
        Ok(Named { name: format!("layers.{hop}."), step: Step::Hop(layer) })
    }

    pub(crate) fn linear(
        &mut self,
        name: String,
        inputs: usize,
        outputs: usize,
    ) -> Result<Named, TrainError> {
        let linear = Linear::new(inputs, outputs, self.place, &mut self.random)?;
        Ok(Named { name, step: Step::Linear(linear) })
    }

    /// `None` without normalisation.
    fn norm(&self, name: String) -> Result<Option<Named>, TrainError> {
        Ok(match self.options.norm {
            NormKind::None => None,
            NormKind::Layer => {
                Some(Named { name, step: Step::Norm(LayerNorm::new(self.options.hidden, self.place)?) })
            }
        })
    }

    /// The steps of a plain network over blocks.
    pub(crate) fn plain(&mut self, input_dim: usize, classes: usize) -> Result<Vec<Named>, TrainError> {
        let TrainerOptions { hidden, layers, .. } = *self.options;
        let mut steps = Vec::new();
        for hop in 0..layers {
            let last = hop + 1 == layers;
            let inputs = if hop == 0 { self.options.first_inputs(input_dim) } else { hidden };
            let mut layer = self.hop(hop, (inputs, if last { classes } else { hidden }), last)?;
            if hop == 0 && self.options.first_layer_given {
                layer.step = layer.step.given()?;
            }
            steps.push(layer);
            if !last {
                steps.extend(self.norm(format!("layers.{hop}.norm."))?);
                steps.push(Named::without_parameters(Step::Activate));
            }
        }
        Ok(steps)
    }

    /// The steps of a network over blocks whose layers add to their rows.
    pub(crate) fn residual(&mut self, input_dim: usize, classes: usize) -> Result<Vec<Named>, TrainError> {
        let TrainerOptions { hidden, layers, .. } = *self.options;
        let mut steps = vec![self.linear("input.".to_owned(), input_dim, hidden)?];
        steps.push(Named::without_parameters(Step::Activate));
        for hop in 0..layers {
            let mut branch = Vec::new();
            branch.extend(self.norm(format!("layers.{hop}.norm."))?);
            branch.push(self.hop(hop, (hidden, hidden), false)?);
            branch.push(Named::without_parameters(Step::Activate));
            branch.push(self.linear(format!("layers.{hop}.second."), hidden, hidden)?);
            branch.push(Named::without_parameters(Step::Drop));
            steps.push(Named::without_parameters(Step::Residual(branch)));
        }
        steps.extend(self.norm("output.norm.".to_owned())?);
        steps.push(self.linear("output.".to_owned(), hidden, classes)?);
        Ok(steps)
    }
}

impl Step {
    /// The layer if its sums come with the rows.
    fn given(self) -> Result<Self, TrainError> {
        match self {
            Self::Hop(Layer::Convolution(layer)) => Ok(Self::Given(layer)),
            _ => Err(TrainError::Input(
                "a first layer that is given to a model whose sums are trained".to_owned(),
            )),
        }
    }

    /// Whether the step's output rows are those of a layer.
    pub(crate) fn is_layer(&self) -> bool {
        matches!(self, Self::Hop(_) | Self::Given(_) | Self::Residual(_))
    }
}

impl Named {
    pub(crate) fn without_parameters(step: Step) -> Self {
        Self { name: String::new(), step }
    }

    pub(crate) fn add_parameters(&self, parameters: &mut Vec<(String, Tensor)>) {
        let of_step = match &self.step {
            Step::Hop(layer) => layer.parameters(),
            Step::Given(layer) => layer.parameters(),
            Step::Linear(linear) => linear.parameters(),
            Step::Norm(norm) => norm.parameters(),
            Step::Prelu(prelu) => prelu.parameters(),
            Step::Activate | Step::Drop => Vec::new(),
            Step::Residual(branch) => {
                branch.iter().for_each(|named| named.add_parameters(parameters));
                Vec::new()
            }
        };
        let named =
            of_step.into_iter().map(|(name, tensor)| (self.name.clone() + name, tensor.shallow_clone()));
        parameters.extend(named);
    }
}
