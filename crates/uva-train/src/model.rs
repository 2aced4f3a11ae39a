//! The networks: sequences of steps over sampled blocks, forward and backward.

use crate::TrainError;
use crate::block::aggregate::Block;
use crate::hops::hop_tables::HopTables;
use crate::hops::inputs::Inputs;
use crate::hops::{self, Front};
use crate::input::model_input::ModelInput;
use crate::input::sampled_blocks::SampledBlocks;
use crate::input::typed_blocks::TypedBlocks;
use crate::layer::Saved;
use crate::layer::relations::RelationNetwork;
use crate::nn::activation::{self, Activation};
use crate::nn::dropout::Draws;
use crate::nn::random::SplitMix64;
use crate::nn::rowwise::Normalised;
use crate::step::{Builder, Named, Step};
use tch::{Device, Kind, Tensor};
use uva_model::TrainerOptions;

/// A network: steps in order.
///
/// A plain network is layer, then normalisation if requested, activation, layer, and so on. One with residuals follows
/// Platonov et al. 2023: a linear map to the hidden width; for each hop x + linear(activation(layer(norm(x)))); at the
/// end, norm and a linear map to the logits. The second linear map of their layers is the one here; the first is part
/// of the layer.
///
/// A network over a hop set has no blocks: its front makes one row per node from the tables of hops. The front of a
/// network over relations makes the seeds' rows from the tables of node types and the blocks of all relations.
pub(crate) struct Model {
    /// What its batches hold.
    pub(crate) input: Box<dyn ModelInput>,
    front: Front,
    pub(crate) steps: Vec<Named>,
    pub(crate) activation: Activation,
    dropout: f64,
    input_dropout: f64,
}

/// What batches of this model hold.
fn input_of(options: &TrainerOptions) -> Result<Box<dyn ModelInput>, TrainError> {
    let row = options.model.row();
    Ok(match (&row.hops, &row.relations) {
        (Some(_), _) => Box::new(HopTables),
        (_, Some(_)) => Box::new(TypedBlocks::new(options)?),
        _ => Box::new(SampledBlocks),
    })
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
        let input = input_of(options)?;
        let steps = input.steps(&mut builder, (input_dim, classes))?;
        let activation = Activation::of(options.model);
        let TrainerOptions { dropout, input_dropout, .. } = *options;
        Ok(Self { input, front, steps, activation, dropout, input_dropout })
    }

    /// Every parameter with its name (`layers.0.own.weight`), in a fixed order. The tensors share storage with the
    /// model.
    pub(crate) fn parameters(&self) -> Vec<(String, Tensor)> {
        let mut parameters = self.front.parameters();
        self.steps.iter().for_each(|named| named.add_parameters(&mut parameters));
        parameters
    }

    /// The layers over the relations of a typed graph; `None` for other models.
    pub(crate) fn relations(&self) -> Option<&RelationNetwork> {
        self.front.relations()
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
        let (rows, _) = self.front.forward(inputs.into(), blocks, None)?;
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
            for (place, rows) in inputs.0.iter_mut().enumerate() {
                // Features are dropped, not trained rows.
                if !self.front.trains_input(place) {
                    *rows = draws.dropout(rows, self.input_dropout)?;
                }
            }
        }
        let (rows, front) = self.front.forward(inputs, blocks, draws.as_deref_mut())?;
        let mut pass = ForwardPass { model: self, blocks, draws, begun: false, tape: Vec::new() };
        let logits = pass.run(&self.steps, rows)?;
        Ok(Forward { logits, front, tape: pass.tape })
    }

    /// Gradients of all parameters, in the order of [`Model::parameters`], and of the input rows that are trained, from
    /// that of the logits. `forward` is the result of a training pass over the same blocks.
    pub(crate) fn backward(
        &self,
        forward: &Forward,
        blocks: &[Block<'_>],
        of_logits: Tensor,
    ) -> Result<Gradients, TrainError> {
        let mut pass = BackwardPass { blocks, tape: &forward.tape, gradients: Vec::new() };
        let of_rows = pass.run(&self.steps, of_logits, !self.front.is_trained())?;
        let (of_front, of_rows) = self.front.backward(&forward.front, blocks, &of_rows)?;
        let of_steps = pass.gradients.into_iter().rev().flatten();
        Ok(Gradients { parameters: of_front.into_iter().chain(of_steps).collect(), rows: of_rows })
    }
}

/// A forward pass: its result, and after training the state of its steps, in order.
pub(crate) struct Forward {
    pub(crate) logits: Tensor,
    front: hops::Saved,
    tape: Vec<Left>,
}

/// The result of a backward pass.
pub(crate) struct Gradients {
    /// Of all parameters, in their order.
    pub(crate) parameters: Vec<Tensor>,
    /// Of the input rows that are trained, in their order.
    pub(crate) rows: Vec<Tensor>,
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
