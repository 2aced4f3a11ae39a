//! The networks: sequences of steps over sampled blocks, forward and backward.

use crate::TrainError;
use crate::block::aggregate::Block;
use crate::hops::inputs::Inputs;
use crate::hops::{self, Front};
use crate::layer::convolution::Convolution;
use crate::layer::{Layer, Saved};
use crate::nn::activation::{self, Activation};
use crate::nn::dropout::Draws;
use crate::nn::random::SplitMix64;
use crate::nn::rowwise::{LayerNorm, Linear, Normalised, Prelu};
use tch::{Device, Kind, Tensor};
use uva_model::{ActivationKind, ModelKind, NormKind, TrainerOptions};

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

/// A network: steps in order.
///
/// A plain network is layer, then normalisation if requested, activation, layer, and so on. One with residuals follows
/// Platonov et al. 2023: a linear map to the hidden width; for each hop x + linear(activation(layer(norm(x)))); at the
/// end, norm and a linear map to the logits. The second linear map of their layers is the one here; the first is part
/// of the layer.
///
/// A network over a hop set has no blocks: its front makes one row per node from the tables of hops.
pub(crate) struct Model {
    front: Front,
    pub(crate) steps: Vec<Named>,
    pub(crate) activation: Activation,
    dropout: f64,
    input_dropout: f64,
}

/// Draws the parameters of a network, step by step in order.
struct Builder<'o> {
    options: &'o TrainerOptions,
    place: (Kind, Device),
    random: SplitMix64,
}

impl Builder<'_> {
    fn hop(&mut self, hop: usize, shape: (usize, usize), last: bool) -> Result<Named, TrainError> {
        let layer = Layer::new(self.options, shape, last, self.place, &mut self.random)?;
        Ok(Named { name: format!("layers.{hop}."), step: Step::Hop(layer) })
    }

    fn linear(&mut self, name: String, inputs: usize, outputs: usize) -> Result<Named, TrainError> {
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

    fn plain(&mut self, input_dim: usize, classes: usize) -> Result<Vec<Named>, TrainError> {
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

    /// The steps after the front of a model over a hop set.
    fn over_hops(&mut self, input_dim: usize, classes: usize) -> Result<Vec<Named>, TrainError> {
        let TrainerOptions { model, hidden, layers, hops, .. } = *self.options;
        match model {
            ModelKind::Sign => {}
            // The front makes the logits.
            ModelKind::Hoga => return Ok(Vec::new()),
            _ => return Ok(vec![self.linear("output.".to_owned(), input_dim, classes)?]),
        }
        let mut steps = Vec::new();
        for layer in 1..layers {
            match self.options.activation {
                ActivationKind::Relu => steps.push(Named::without_parameters(Step::Activate)),
                ActivationKind::Prelu => {
                    let step = Step::Prelu(Prelu::new(self.place)?);
                    steps.push(Named { name: format!("layers.{}.", layer - 1), step });
                    steps.push(Named::without_parameters(Step::Drop));
                }
            }
            let inputs = if layer == 1 { (1 + hops) * hidden } else { hidden };
            let outputs = if layer + 1 == layers { classes } else { hidden };
            steps.push(self.linear(format!("layers.{layer}."), inputs, outputs)?);
        }
        Ok(steps)
    }

    fn residual(&mut self, input_dim: usize, classes: usize) -> Result<Vec<Named>, TrainError> {
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
    fn without_parameters(step: Step) -> Self {
        Self { name: String::new(), step }
    }

    fn add_parameters(&self, parameters: &mut Vec<(String, Tensor)>) {
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

impl Model {
    /// `place` is of f32 except where gradients are compared with finite differences.
    pub(crate) fn new(
        options: &TrainerOptions,
        input_dim: usize,
        classes: usize,
        place: (Kind, Device),
    ) -> Result<Self, TrainError> {
        let mut builder = Builder { options, place, random: SplitMix64::new(options.seed) };
        let front = Front::new(options, (input_dim, classes), place, &mut builder.random)?;
        let steps = if options.model.row().reads_hops() {
            builder.over_hops(input_dim, classes)?
        } else if options.residual {
            builder.residual(input_dim, classes)?
        } else {
            builder.plain(input_dim, classes)?
        };
        let activation = Activation::of(options.model);
        Ok(Self { front, steps, activation, dropout: options.dropout, input_dropout: options.input_dropout })
    }

    /// Every parameter with its name (`layers.0.own.weight`), in a fixed order. The tensors share storage with the
    /// model.
    pub(crate) fn parameters(&self) -> Vec<(String, Tensor)> {
        let mut parameters = self.front.parameters();
        self.steps.iter().for_each(|named| named.add_parameters(&mut parameters));
        parameters
    }

    /// The number of steps up to the rows after this layer, counted from 1, as the next layer receives them.
    pub(crate) fn behind(&self, layer: usize) -> usize {
        let mut layers =
            (0..).zip(&self.steps).filter(|(_, named)| named.step.is_layer()).map(|(place, _)| place);
        let (this, next) = (layers.nth(layer.saturating_sub(1)), layers.next());
        match (this, next) {
            (None, _) => self.steps.len(),
            (Some(_), Some(next)) => next,
            // After the last layer, the steps following a residual branch make the logits.
            (Some(this), None) => this + 1,
        }
    }

    /// The seeds' logits from the input nodes' rows, or from the tables of their hops, together with the rows after
    /// `steps` steps. Nothing is dropped.
    pub(crate) fn forward_by(
        &self,
        inputs: impl Into<Inputs>,
        blocks: &[Block<'_>],
        steps: usize,
    ) -> Result<(Tensor, Tensor), TrainError> {
        let (before, behind) = self.steps.split_at(steps);
        let mut pass = ForwardPass { model: self, blocks, draws: None, begun: false, tape: Vec::new() };
        let (rows, _) = self.front.forward(inputs.into(), None)?;
        let hidden = pass.run(before, rows)?;
        let logits = pass.run(behind, hidden.shallow_clone())?;
        Ok((hidden, logits))
    }

    /// The seeds' logits from the input nodes' rows, or from the tables of their hops. `blocks[0]` is the hop at the
    /// seeds, so hops use the blocks from the last to the first. With `draws` it is a training pass, and they choose
    /// the dropped elements.
    pub(crate) fn forward(
        &self,
        inputs: impl Into<Inputs>,
        blocks: &[Block<'_>],
        mut draws: Option<&mut Draws>,
    ) -> Result<Forward, TrainError> {
        let mut inputs = inputs.into();
        if let Some(draws) = &mut draws {
            for rows in &mut inputs.0 {
                *rows = draws.dropout(rows, self.input_dropout)?;
            }
        }
        let (rows, front) = self.front.forward(inputs, draws.as_deref_mut())?;
        let mut pass = ForwardPass { model: self, blocks, draws, begun: false, tape: Vec::new() };
        let logits = pass.run(&self.steps, rows)?;
        Ok(Forward { logits, front, tape: pass.tape })
    }

    /// Gradients of all parameters, in the order of [`Model::parameters`], from that of the logits. `forward` is the
    /// result of a training pass over the same blocks.
    pub(crate) fn backward(
        &self,
        forward: &Forward,
        blocks: &[Block<'_>],
        of_logits: Tensor,
    ) -> Result<Vec<Tensor>, TrainError> {
        let mut pass = BackwardPass { blocks, tape: &forward.tape, gradients: Vec::new() };
        let of_rows = pass.run(&self.steps, of_logits, !self.front.is_trained())?;
        let of_front = self.front.backward(&forward.front, &of_rows)?;
        Ok(of_front.into_iter().chain(pass.gradients.into_iter().rev().flatten()).collect())
    }
}

/// A forward pass: its result, and after training the state of its steps, in order.
pub(crate) struct Forward {
    pub(crate) logits: Tensor,
    front: hops::Saved,
    tape: Vec<Left>,
}

/// The state that a step keeps for its backward pass.
enum Left {
    /// The layer's input and saved state.
    Hop(Tensor, Saved),
    /// The input of the step.
    Given(Tensor),
    /// The input of the step.
    Linear(Tensor),
    Norm(Normalised),
    Activated(activation::Saved),
    /// The input of the step.
    Prelu(Tensor),
    /// The factors of the rows.
    Dropped(Option<Tensor>),
}

struct ForwardPass<'p, 'b> {
    model: &'p Model,
    /// The blocks of the remaining hops; the last is the next one's.
    blocks: &'p [Block<'b>],
    /// The random numbers of a training pass.
    draws: Option<&'p mut Draws>,
    /// Whether a step has been done: the input of the first needs no gradient.
    begun: bool,
    tape: Vec<Left>,
}

impl ForwardPass<'_, '_> {
    fn run(&mut self, steps: &[Named], mut x: Tensor) -> Result<Tensor, TrainError> {
        for named in steps {
            let (out, left) = match &named.step {
                Step::Hop(layer) => {
                    let (block, rest) = self.blocks.split_last().ok_or_else(no_block)?;
                    self.blocks = rest;
                    let (out, saved) = layer.forward(&x, block, self.begun, self.draws.as_deref_mut())?;
                    (out, Left::Hop(x, saved))
                }
                Step::Given(layer) => (layer.forward_given(&x)?, Left::Given(x)),
                Step::Linear(linear) => (linear.forward(&x)?, Left::Linear(x)),
                Step::Norm(norm) => {
                    let (out, saved) = norm.forward(x)?;
                    (out, Left::Norm(saved))
                }
                Step::Activate => {
                    let Model { activation, dropout, .. } = self.model;
                    let (out, saved) = activation.forward(x, self.draws.as_deref_mut(), *dropout)?;
                    (out, Left::Activated(saved))
                }
                Step::Prelu(prelu) => (prelu.forward(&x)?, Left::Prelu(x)),
                Step::Drop => {
                    let mask = match self.draws.as_deref_mut() {
                        Some(draws) => draws.mask(&x, self.model.dropout)?,
                        None => None,
                    };
                    let out = match &mask {
                        Some(mask) => x.f_mul(mask)?,
                        None => x,
                    };
                    (out, Left::Dropped(mask))
                }
                Step::Residual(branch) => {
                    let added = self.run(branch, x.shallow_clone())?;
                    x = x.f_narrow(0, 0, added.size2()?.0)?.f_add(&added)?;
                    continue;
                }
            };
            if self.draws.is_some() {
                self.tape.push(left);
            }
            self.begun = true;
            x = out;
        }
        Ok(x)
    }
}

struct BackwardPass<'p, 'b> {
    /// The blocks of the remaining hops; the first is the next one's.
    blocks: &'p [Block<'b>],
    /// The saved state of the remaining steps; the last is the next one's.
    tape: &'p [Left],
    /// The gradients of the steps' parameters, the last step's first.
    gradients: Vec<Vec<Tensor>>,
}

impl<'p> BackwardPass<'p, '_> {
    /// The gradient of the input of the first of `steps`, from the gradient of the last one's output. An undefined
    /// tensor if the steps are `outermost` and no earlier result needs a gradient.
    fn run(&mut self, steps: &[Named], mut gradient: Tensor, outermost: bool) -> Result<Tensor, TrainError> {
        for (index, named) in steps.iter().enumerate().rev() {
            let input_gradient = !(outermost && index == 0);
            if let Step::Residual(branch) = &named.step {
                let of_x = self.run(branch, gradient.shallow_clone(), false)?;
                let _ = of_x.f_narrow(0, 0, gradient.size2()?.0)?.f_add_(&gradient)?;
                gradient = of_x;
                continue;
            }
            let (left, rest) = self.tape.split_last().ok_or_else(another_tape)?;
            self.tape = rest;
            let (of_parameters, of_x) = match (&named.step, left) {
                (Step::Hop(layer), Left::Hop(x, saved)) => {
                    let (block, rest) = self.blocks.split_first().ok_or_else(no_block)?;
                    self.blocks = rest;
                    layer.backward(x, saved, block, &gradient, input_gradient)?
                }
                // No trained step precedes this one.
                (Step::Given(layer), Left::Given(x)) => (layer.backward_given(x, &gradient)?, None),
                (Step::Linear(linear), Left::Linear(x)) => linear.backward(x, &gradient, input_gradient)?,
                (Step::Norm(norm), Left::Norm(saved)) => {
                    let (of_parameters, of_x) = norm.backward(saved, &gradient)?;
                    (of_parameters, Some(of_x))
                }
                (Step::Activate, Left::Activated(saved)) => (Vec::new(), Some(saved.backward(gradient)?)),
                (Step::Prelu(prelu), Left::Prelu(x)) => {
                    let (of_parameters, of_x) = prelu.backward(x, &gradient)?;
                    (of_parameters, Some(of_x))
                }
                (Step::Drop, Left::Dropped(Some(mask))) => (Vec::new(), Some(gradient.f_mul(mask)?)),
                (Step::Drop, Left::Dropped(None)) => (Vec::new(), Some(gradient)),
                _ => return Err(another_tape()),
            };
            self.gradients.push(of_parameters);
            match of_x {
                Some(of_x) => gradient = of_x,
                None => return Ok(Tensor::new()),
            }
        }
        Ok(gradient)
    }
}

fn no_block() -> TrainError {
    TrainError::Input("a batch of fewer blocks than the model has layers".to_owned())
}

fn another_tape() -> TrainError {
    TrainError::Input("a backward pass after another model's forward pass".to_owned())
}
