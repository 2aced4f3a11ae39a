//! One network in training: a batch in, a step done.

use crate::adam::Adam;
use crate::aggregate::Block;
use crate::evaluate::Evaluation;
use crate::input::{BatchInput, count_labelled, single_labels};
use crate::model::Model;
use crate::options::{FeatureNorm, ModelKind, TrainerOptions};
use crate::random::batch_seed;
use crate::{TrainError, borrowed::Borrowed};
use std::sync::{Mutex, PoisonError};
use tch::{Kind, Reduction, Tensor};

/// Marks a node without a label, for libtorch's loss.
pub(crate) const UNLABELLED: i64 = -1;

/// Rows whose absolute values sum to less than this are divided by it instead: a row of zeros stays one.
const SMALLEST_ROW_SUM: f64 = 1e-12;

/// libtorch draws dropout from one generator for the whole process. Held from seeding it to the last draw of a
/// forward pass, so that trainers on several threads stay repeatable.
pub(crate) static GENERATOR: Mutex<()> = Mutex::new(());

/// What one training batch did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Mean cross-entropy over the labelled seeds, before the step. 0 if no seed has a label; then there was no step.
    pub loss: f32,
    /// Labelled seeds whose class had the largest logit, with dropout on.
    pub correct: usize,
    /// Seeds with a label.
    pub labelled: usize,
}

/// A network, its optimiser, and the best state seen so far.
pub struct Trainer {
    options: TrainerOptions,
    input_dim: usize,
    classes: usize,
    kind: Kind,
    pub(crate) model: Model,
    pub(crate) adam: Adam,
    /// Copies of all parameters, in their order.
    pub(crate) best: Option<Vec<Tensor>>,
}

impl Trainer {
    /// A network with fresh parameters, drawn from `options.seed`.
    ///
    /// # Errors
    /// [`TrainError::Option`] for an option out of range, [`TrainError::Unsupported`] for no columns or no classes.
    pub fn new(options: &TrainerOptions, input_dim: usize, classes: usize) -> Result<Self, TrainError> {
        Self::with_kind(options, input_dim, classes, Kind::Float)
    }

    pub(crate) fn with_kind(
        options: &TrainerOptions,
        input_dim: usize,
        classes: usize,
        kind: Kind,
    ) -> Result<Self, TrainError> {
        options.check(input_dim, classes)?;
        let model = Model::new(options, input_dim, classes, kind)?;
        let adam = Adam::new(&model.parameters(), options.learning_rate, options.weight_decay)?;
        let trainer = Self { options: options.clone(), input_dim, classes, kind, model, adam, best: None };
        trainer.use_threads();
        Ok(trainer)
    }

    /// The options it was made with.
    pub fn options(&self) -> &TrainerOptions {
        &self.options
    }

    /// Feature columns it takes.
    pub fn input_dim(&self) -> usize {
        self.input_dim
    }

    /// Classes it tells apart.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Threads of one libtorch operation, as in force: what a run records beside its losses.
    pub fn threads(&self) -> usize {
        self.use_threads();
        usize::try_from(tch::get_num_threads()).unwrap_or(0)
    }

    /// Number of optimiser steps done.
    pub fn steps(&self) -> u64 {
        self.adam.steps
    }

    /// Number of numbers that are trained.
    pub fn parameter_count(&self) -> usize {
        self.model.parameters().iter().map(|(_, p)| p.numel()).sum()
    }

    /// Trains on one batch: forward with dropout, loss, gradients, one step of Adam.
    ///
    /// # Errors
    /// [`TrainError::Diverged`] if the loss is not finite; the parameters are then as before. [`TrainError::Input`]
    /// for a batch that contradicts itself or the model, [`TrainError::Unsupported`] for multi-label data.
    pub fn train_batch(
        &mut self,
        epoch: u32,
        batch: u32,
        input: &BatchInput<'_>,
    ) -> Result<Step, TrainError> {
        self.use_threads();
        let _no_grad = tch::no_grad_guard();
        let (labels, labelled) = self.check(input)?;
        if labelled == 0 {
            return Ok(Step::default());
        }
        let rows = input.feature_rows()?;
        let blocks = self.blocks(input)?;
        let features = self.features(&rows)?;
        let targets = Borrowed::vector(labels)?;
        let forward = {
            let _generator = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
            tch::manual_seed(batch_seed(self.options.seed, epoch, batch));
            self.model.forward(features, &blocks, true)?
        };
        // The loss alone is differentiated by autograd; its leaf is a fresh name for the logits.
        let logits = forward.logits.f_detach()?.f_set_requires_grad(true)?;
        let (loss, of_logits) = tch::with_grad(|| -> Result<(f32, Option<Tensor>), TrainError> {
            let loss = cross_entropy(&logits, targets.tensor(), Reduction::Mean)?;
            let value = loss.f_double_value(&[])? as f32;
            if !value.is_finite() {
                return Ok((value, None));
            }
            Ok((value, Tensor::f_run_backward(&[&loss], &[&logits], false, false)?.pop()))
        })?;
        let Some(of_logits) = of_logits else {
            return Err(TrainError::Diverged { epoch, batch, loss });
        };
        let gradients = self.model.backward(&forward, &blocks, of_logits)?;
        self.adam.step(&self.model.parameters(), gradients)?;
        Ok(Step { loss, correct: correct(&logits, targets.tensor())?, labelled })
    }

    /// Loss and hits on one batch: no dropout, nothing changed.
    ///
    /// # Errors
    /// As [`Trainer::train_batch`], except that a loss that is not finite is returned and not refused.
    pub fn evaluate_batch(&self, input: &BatchInput<'_>) -> Result<Evaluation, TrainError> {
        self.use_threads();
        let _no_grad = tch::no_grad_guard();
        let (labels, labelled) = self.check(input)?;
        if labelled == 0 {
            return Ok(Evaluation::default());
        }
        let rows = input.feature_rows()?;
        let blocks = self.blocks(input)?;
        let forward = self.model.forward(self.features(&rows)?, &blocks, false)?;
        evaluate_logits(&forward.logits, labels, labelled)
    }

    /// Remembers the parameters as they are now as the best ones.
    ///
    /// # Errors
    /// [`TrainError::Torch`] if there is no memory for the copies.
    pub fn keep_best(&mut self) -> Result<(), TrainError> {
        let _no_grad = tch::no_grad_guard();
        let copies: Result<Vec<Tensor>, _> =
            self.model.parameters().iter().map(|(_, p)| p.f_detach_copy()).collect();
        self.best = Some(copies?);
        Ok(())
    }

    /// Puts the best parameters back, and says whether there were any. The optimiser's moments stay as they are.
    ///
    /// # Errors
    /// [`TrainError::Torch`] if libtorch refuses the copy.
    pub fn restore_best(&mut self) -> Result<bool, TrainError> {
        let Some(best) = &self.best else { return Ok(false) };
        let _no_grad = tch::no_grad_guard();
        for ((_, mut parameter), saved) in self.model.parameters().into_iter().zip(best) {
            parameter.f_copy_(saved)?;
        }
        Ok(true)
    }

    /// Whether [`Trainer::keep_best`] has been called, here or before the checkpoint that was restored.
    pub fn has_best(&self) -> bool {
        self.best.is_some()
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// OpenMP keeps the number of threads per calling thread, so it is set on every entry; it costs nothing.
    pub(crate) fn use_threads(&self) {
        if let Some(threads) = self.options.threads {
            tch::set_num_threads(threads as i32);
        }
    }

    /// Checks a batch, and returns the seeds' labels and how many of them are labels.
    fn check<'a>(&self, input: &BatchInput<'a>) -> Result<(&'a [i64], usize), TrainError> {
        let labels = single_labels(&input.labels)?;
        input.check(self.options.layers, self.input_dim, self.options.model == ModelKind::Gcn)?;
        if labels.len() != input.seeds() {
            return Err(TrainError::Input(format!("{} labels for {} seeds", labels.len(), input.seeds())));
        }
        Ok((labels, count_labelled(labels, self.classes)?))
    }

    fn blocks<'a>(&self, input: &BatchInput<'a>) -> Result<Vec<Block<'a>>, TrainError> {
        let model = self.options.model;
        input.blocks.iter().map(|block| Block::new(model, block, input.degrees, self.kind)).collect()
    }

    /// Rows as the first layer takes them: converted where they are not of the model's kind, and normalised.
    pub(crate) fn features(&self, rows: &Borrowed<'_>) -> Result<Tensor, TrainError> {
        let rows = rows.tensor().f_to_kind(self.kind)?;
        Ok(match self.options.feature_norm {
            FeatureNorm::None => rows,
            FeatureNorm::Row => {
                let sums = rows.f_norm_scalaropt_dim(1, [1i64].as_slice(), true)?;
                rows.f_div(&sums.f_clamp_min(SMALLEST_ROW_SUM)?)?
            }
        })
    }
}

impl std::fmt::Debug for Trainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trainer")
            .field("options", &self.options)
            .field("input_dim", &self.input_dim)
            .field("classes", &self.classes)
            .field("steps", &self.adam.steps)
            .finish_non_exhaustive()
    }
}

/// Cross-entropy over the labelled rows. There is at least one.
fn cross_entropy(logits: &Tensor, targets: &Tensor, reduction: Reduction) -> Result<Tensor, TrainError> {
    Ok(logits.f_cross_entropy_loss::<Tensor>(targets, None, reduction, UNLABELLED, 0.0)?)
}

/// Rows whose largest logit is their label. No logit has index −1, so unlabelled rows never count.
fn correct(logits: &Tensor, targets: &Tensor) -> Result<usize, TrainError> {
    let hits = logits.f_detach()?.f_argmax(1, false)?.f_eq_tensor(targets)?.f_sum(Kind::Int64)?;
    Ok(usize::try_from(hits.f_int64_value(&[])?).unwrap_or(0))
}

/// Summed loss and hits of `logits`, one row a label.
pub(crate) fn evaluate_logits(
    logits: &Tensor,
    labels: &[i64],
    labelled: usize,
) -> Result<Evaluation, TrainError> {
    let targets = Borrowed::vector(labels)?;
    let loss = cross_entropy(logits, targets.tensor(), Reduction::Sum)?;
    Ok(Evaluation {
        loss_sum: loss.f_double_value(&[])?,
        correct: correct(logits, targets.tensor())?,
        labelled,
    })
}
