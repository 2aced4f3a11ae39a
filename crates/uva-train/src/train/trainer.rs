//! A network in training.

use crate::block::aggregate::Block;
use crate::block::block_kernel::BlockPreparer;
use crate::cuda::TorchCuda;
use crate::hops::inputs::Inputs;
use crate::input::evaluation::Evaluation;
use crate::input::model_input::InputSettings;
use crate::input::prepared::{InputRows, Prepared};
use crate::input::targets::{Tally, Targets};
use crate::model::{self, Gradients, Model};
use crate::nn::dropout::Draws;
use crate::nn::random::batch_seed;
use crate::torch::device::TrainDevice;
use crate::torch::threads;
use crate::train::adam::Adam;
use crate::train::embeddings::Embeddings;
use crate::train::late::{LateResults, OwnNumbers, Reading};
use crate::{TrainError, torch::borrowed::Borrowed};
use std::sync::Arc;
use tch::{Kind, Reduction, Tensor};
use uva_batch::BatchColumns;
use uva_cuda::CudaStream;
use uva_cuda::kernels::train::TrainKernels;
use uva_model::checkpoint::Keep;
use uva_model::{FeatureNorm, TrainerOptions};
use uva_model::{Task, TaskKind};

/// Rows whose absolute values sum to less than this are divided by it instead: a row of zeros stays one.
const SMALLEST_ROW_SUM: f64 = 1e-12;

/// Called once per batch, to check that the memory of the batch was valid. At that time, all device work that the batch
/// has enqueued has run (its loss has been read back), and no weight has changed. An error, with its reason, ends the
/// batch with [`TrainError::Unconfirmed`] and no change.
///
/// For memory that cannot be taken away, pass `&mut || Ok(())`.
pub type Confirm<'a> = &'a mut dyn FnMut() -> Result<(), String>;

/// The result of one training batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Mean loss over all labels, weighted by [`Trainer::weigh_classes`], before the step. 0 if no seed has a label;
    /// then there was no step.
    pub loss: f32,
    /// Labelled seeds whose class had the largest logit, with dropout on. With several labels per seed: correct labels.
    /// 0 for regression.
    pub correct: usize,
    /// Number of seeds with a label, of labels, or of numbers.
    pub labelled: usize,
}

/// A network, its optimiser, and the best state seen so far.
pub struct Trainer {
    options: TrainerOptions,
    input_dim: usize,
    task: Task,
    pub(crate) kind: Kind,
    device: TrainDevice,
    pub(crate) model: Model,
    pub(crate) adam: Adam,
    /// The tables of node types without features.
    pub(crate) embeddings: Embeddings,
    /// Copies of all parameters, in their order.
    pub(crate) best: Option<Vec<Tensor>>,
    /// Which parameters a checkpoint calls the model.
    pub(crate) keep: Keep,
    /// The weight of each class in the loss of training; `None` for equal weights.
    class_weights: Option<Tensor>,
    /// Present where the host runs ahead of the device.
    pub(crate) late: Option<LateResults>,
    /// The kernel that prepares blocks; without it libtorch's operations do.
    pub(crate) preparer: Option<BlockPreparer>,
}

impl Trainer {
    /// A network with fresh parameters, drawn from `options.seed`, the same on every device. A number as `task` means
    /// that many classes, one per node, judged by accuracy.
    ///
    /// # Errors
    /// [`TrainError::Options`] for an option out of range, a metric that does not fit the labels, no columns or no
    /// classes, [`TrainError::Cuda`] for a CUDA device that libtorch cannot use, [`TrainError::Threads`] if the system
    /// does not permit the threads.
    pub fn new(
        options: &TrainerOptions,
        input_dim: usize,
        task: impl Into<Task>,
        device: TrainDevice,
    ) -> Result<Self, TrainError> {
        Self::with_kind(options, input_dim, task, Kind::Float, device)
    }

    pub(crate) fn with_kind(
        options: &TrainerOptions,
        input_dim: usize,
        task: impl Into<Task>,
        kind: Kind,
        device: TrainDevice,
    ) -> Result<Self, TrainError> {
        let task = task.into();
        options.check(input_dim, task.outputs)?;
        task.check()?;
        if let TrainDevice::Cuda(ordinal) = device {
            TorchCuda::load()?.check_device(ordinal)?;
        }
        let model = Model::new(options, input_dim, task.outputs, (kind, device.torch()))?;
        let adam = Adam::new(&model.parameters(), options.learning_rate, options.weight_decay, device)?;
        let (options, embeddings) = (options.clone(), Embeddings::new(options)?);
        let trainer = Self {
            options,
            input_dim,
            task,
            kind,
            device,
            model,
            adam,
            embeddings,
            best: None,
            keep: Keep::Best,
            class_weights: None,
            late: None,
            preparer: None,
        };
        trainer.options.threads.map_or(Ok(()), threads::check)?;
        trainer.use_threads();
        Ok(trainer)
    }

    /// Draws the first rows of the tables of node types without features again, for types whose nodes had other ids before
    /// their dataset was reordered: `original` has these by type. A row then does not depend on the order.
    ///
    /// # Errors
    /// [`TrainError::Input`] for another number of ids than nodes.
    pub fn reorder_embeddings<'i>(
        &mut self,
        original: &dyn Fn(&str) -> Option<&'i [i64]>,
    ) -> Result<(), TrainError> {
        self.embeddings.reorder(&self.options, original)
    }

    /// The trainer's options.
    pub fn options(&self) -> &TrainerOptions {
        &self.options
    }

    /// Number of feature columns.
    pub fn input_dim(&self) -> usize {
        self.input_dim
    }

    /// The prediction task.
    pub fn task(&self) -> Task {
        self.task
    }

    /// The device.
    pub fn device(&self) -> TrainDevice {
        self.device
    }

    /// Number of threads of one libtorch operation. A run records it with its losses.
    pub fn threads(&self) -> usize {
        self.use_threads();
        usize::try_from(tch::get_num_threads()).unwrap_or(0)
    }

    /// Sets the number of threads of one libtorch operation.
    pub fn set_threads(&mut self, threads: usize) {
        self.options.threads = Some(threads);
    }

    /// Sets the weights of the classes in the loss of training: the mean over the labelled seeds of a batch, weighted
    /// by their classes. Losses of evaluations have no weights. `weights` has a number for each class.
    ///
    /// # Errors
    /// [`TrainError::Input`] for another number of weights, or a task that is not one class a node.
    pub fn weigh_classes(&mut self, weights: &[f64]) -> Result<(), TrainError> {
        let Task { outputs, kind, .. } = self.task;
        if kind != TaskKind::SingleLabel || weights.len() != outputs {
            let given = weights.len();
            return Err(TrainError::Input(format!(
                "{given} class weights for {outputs} outputs of {kind:?}"
            )));
        }
        let weights =
            Tensor::f_from_slice(weights)?.f_to_kind(self.kind)?.f_to_device(self.device.torch())?;
        self.class_weights = Some(weights);
        Ok(())
    }

    /// Number of optimiser steps done. On a device this waits for all work enqueued before.
    ///
    /// # Errors
    /// [`TrainError::Torch`], also for earlier work of a device.
    pub fn steps(&self) -> Result<u64, TrainError> {
        self.adam.steps()
    }

    /// Number of trained parameters, counted as single numbers.
    pub fn parameter_count(&self) -> usize {
        self.model.parameters().iter().map(|(_, p)| p.numel()).sum()
    }

    /// Trains on one batch: forward with dropout, loss, `confirm`, gradients, one step of Adam.
    ///
    /// A batch in host memory is copied to a trainer's device; one in device memory must be on that device. On a CUDA
    /// device this returns once the gradients and the step are enqueued on libtorch's current stream of the calling
    /// thread ([`crate::cuda::TorchCuda::current_stream`]). They read the batch's memory, and the caller orders the
    /// reads: before the call it makes this stream wait for an event after the writes, and after the call it records an
    /// event for which the next writes wait.
    ///
    /// Invalid contents of device memory cannot do harm: an offset, a source or a label out of range is clamped into
    /// the range. So a batch that a dying peer left half-written gives a wrong loss and no fault, and `confirm`, or its
    /// [proof](BatchColumns::proof), can still refuse it. Batches are validated where they are made.
    ///
    /// # Errors
    /// [`TrainError::Unconfirmed`] if `confirm` refuses. [`TrainError::Diverged`] if it does not and the loss is not
    /// finite. In both cases the parameters are unchanged. [`TrainError::Input`] for a batch that contradicts itself,
    /// the model or its task; `confirm` is then not called.
    pub fn train_batch(
        &mut self,
        epoch: u32,
        batch: u32,
        columns: &BatchColumns<'_>,
        confirm: Confirm<'_>,
    ) -> Result<Step, TrainError> {
        self.use_threads();
        let prepared = Prepared::new(&self.trains(), columns)?;
        self.train_prepared(epoch, batch, prepared, confirm)
    }

    /// Lets the host run ahead of the device, which enables [`Trainer::enqueue_batch`]. `stream` is the stream on which
    /// libtorch computes for this thread. The kernels judge batches, and on a CUDA device prepare their blocks.
    ///
    /// # Errors
    /// [`TrainError::Driver`] if the driver has no memory or events for the results.
    pub fn run_ahead(
        &mut self,
        kernels: TrainKernels,
        stream: impl Into<Arc<CudaStream>>,
    ) -> Result<(), TrainError> {
        let stream = stream.into();
        self.late = Some(LateResults::new(kernels.clone(), Arc::clone(&stream), self.device)?);
        self.prepare_blocks_by(kernels, stream);
        Ok(())
    }

    /// Prepares blocks on a CUDA device by a kernel, instead of by some dozen operations of libtorch each. `stream` is
    /// the stream on which libtorch computes. The stand-in's kernels can access only the driver's memory, so nothing
    /// changes there.
    pub fn prepare_blocks_by(&mut self, kernels: TrainKernels, stream: impl Into<Arc<CudaStream>>) {
        if let TrainDevice::Cuda(_) = self.device {
            self.preparer = Some(BlockPreparer::Device(kernels, stream.into()));
        }
    }

    /// Whether the host runs ahead of the device.
    pub fn runs_ahead(&self) -> bool {
        self.late.is_some()
    }

    /// Enqueues a training step, and returns without its result, which [`Trainer::reading`] returns later. With `read`,
    /// its loss can be read once it has run; otherwise only sums can, together with a later batch's.
    ///
    /// The device itself decides whether the batch counts: its [proof](BatchColumns::proof) holds and its loss is
    /// finite. If not, neither this step nor a later one changes anything, and a reading reports that. All work on the
    /// batch's memory has been enqueued on return, so an event after it gives that memory back.
    ///
    /// # Errors
    /// [`TrainError::Input`] for a batch that contradicts itself, the model or its task.
    ///
    /// # Panics
    /// Without [`Trainer::run_ahead`], or if [`Trainer::must_read`].
    pub fn enqueue_batch(
        &mut self,
        epoch: u32,
        batch: u32,
        columns: &BatchColumns<'_>,
        read: bool,
    ) -> Result<(), TrainError> {
        self.use_threads();
        let _no_grad = tch::no_grad_guard();
        // Taken out while the model is used.
        let Some(mut late) = self.late.take() else { panic!("`run_ahead` comes first") };
        let enqueued = self.enqueue(epoch, batch, columns, &mut late);
        let ended = enqueued.and_then(|()| late.end(epoch, batch, read));
        self.late = Some(late);
        ended
    }

    fn enqueue(
        &mut self,
        epoch: u32,
        batch: u32,
        columns: &BatchColumns<'_>,
        late: &mut LateResults,
    ) -> Result<(), TrainError> {
        if !self.embeddings.is_empty() {
            return Err(TrainError::Input("tables of node types are trained on the CPU only".to_owned()));
        }
        late.begin()?;
        let proof = columns.proof;
        let prepared = Prepared::new(&self.trains(), columns)?;
        let Some((prepared, targets)) = &prepared else {
            late.judge(None, proof, self.device)?;
            return Ok(());
        };
        let Forward { forward, logits, loss } = self.forward((epoch, batch), prepared, targets)?;
        let (correct, labelled) = targets.hits(&targets.rows_of(&logits.f_detach()?)?)?;
        let own = OwnNumbers { loss: &loss.f_detach()?, correct: &correct, labelled: &labelled };
        let skipped = late.judge(Some(own), proof, self.device)?;
        let gradients = self.gradients(&forward, &prepared.blocks, &logits, &loss)?;
        self.adam.step(&self.model.parameters(), gradients.parameters, Some(skipped))
    }

    /// Whether results must be read before the next batch can be enqueued.
    pub fn must_read(&self) -> bool {
        self.late.as_ref().is_some_and(LateResults::is_full)
    }

    /// Number of enqueued batches whose results have not been read.
    pub fn unread(&self) -> usize {
        self.late.as_ref().map_or(0, LateResults::unread)
    }

    /// The next results that have arrived, in the batches' order. With `wait` the host waits for the oldest, whether it
    /// was to be read or not. `None` if nothing has arrived, or nothing is unread.
    ///
    /// # Errors
    /// [`TrainError::Unconfirmed`] if a batch was not whole when the device used it, [`TrainError::Diverged`] if its
    /// loss is not finite. From that batch on no step has changed anything, nor will a later one.
    pub fn reading(&mut self, wait: bool) -> Result<Option<Reading>, TrainError> {
        self.late.as_mut().map_or(Ok(None), |late| late.next(wait))
    }

    pub(crate) fn train_prepared(
        &mut self,
        epoch: u32,
        batch: u32,
        prepared: Option<(Prepared<'_>, Targets<'_>)>,
        confirm: Confirm<'_>,
    ) -> Result<Step, TrainError> {
        let _no_grad = tch::no_grad_guard();
        let Some((prepared, targets)) = &prepared else {
            self.wait_for_device()?;
            confirm().map_err(TrainError::Unconfirmed)?;
            return Ok(Step::default());
        };
        let Forward { forward, logits, loss } = self.forward((epoch, batch), prepared, targets)?;
        let Tally { loss: value, correct, labelled } = targets.tally(&loss, &targets.rows_of(&logits)?)?;
        confirm().map_err(TrainError::Unconfirmed)?;
        if labelled == 0 {
            return Ok(Step::default());
        }
        let value = value as f32;
        if !value.is_finite() {
            if let Some((node_type, node)) = self.embeddings.not_finite(&prepared.tables) {
                return Err(TrainError::RowDiverged { epoch, node_type, node });
            }
            return Err(TrainError::Diverged { epoch, batch, loss: value });
        }
        let gradients = self.gradients(&forward, &prepared.blocks, &logits, &loss)?;
        self.adam.step(&self.model.parameters(), gradients.parameters, None)?;
        let (steps, learning_rate) = (self.adam.steps()?, self.options.learning_rate);
        self.embeddings.step(&prepared.tables, &gradients.rows, steps, learning_rate)?;
        Ok(Step { loss: value, correct, labelled })
    }

    fn forward(
        &self,
        (epoch, batch): (u32, u32),
        Prepared { tables, blocks }: &Prepared<'_>,
        targets: &Targets<'_>,
    ) -> Result<Forward, TrainError> {
        let inputs = self.inputs(tables)?;
        let forward = {
            let seed = batch_seed(self.options.seed, epoch, batch);
            let mut draws = Draws::new(self.device, seed);
            self.model.forward(inputs, blocks, Some(&mut draws))?
        };
        // Only the loss is differentiated by autograd; its leaf is a detached copy of the logits.
        let logits = forward.logits.f_detach()?.f_set_requires_grad(true)?;
        let loss = tch::with_grad(|| {
            targets.loss(&targets.rows_of(&logits)?, self.class_weights.as_ref(), Reduction::Mean)
        })?;
        Ok(Forward { forward, logits, loss })
    }

    /// Gradients of all parameters, and of trained input rows.
    fn gradients(
        &self,
        forward: &model::Forward,
        blocks: &[Block<'_>],
        logits: &Tensor,
        loss: &Tensor,
    ) -> Result<Gradients, TrainError> {
        let of_logits = Tensor::f_run_backward(&[loss], &[logits], false, false)?.swap_remove(0);
        self.model.backward(forward, blocks, of_logits)
    }

    /// Waits for all work enqueued before, as reading a loss would.
    pub(crate) fn wait_for_device(&self) -> Result<(), TrainError> {
        if let TrainDevice::Cuda(_) = self.device {
            Tensor::f_zeros([1], (Kind::Float, self.device.torch()))?.f_double_value(&[0])?;
        }
        Ok(())
    }

    /// Loss and hits on one batch, without dropout or changes.
    ///
    /// # Errors
    /// As [`Trainer::train_batch`], but [`TrainError::NotFinite`] for outputs that are NaN or infinite.
    pub fn evaluate_batch(
        &self,
        columns: &BatchColumns<'_>,
        confirm: Confirm<'_>,
    ) -> Result<Evaluation, TrainError> {
        self.use_threads();
        let _no_grad = tch::no_grad_guard();
        let Some((prepared, targets)) = Prepared::new(&self.answers(), columns)? else {
            self.wait_for_device()?;
            confirm().map_err(TrainError::Unconfirmed)?;
            return Ok(Evaluation::default());
        };
        let Prepared { tables, blocks } = &prepared;
        let forward = self.model.forward(self.inputs(tables)?, blocks, None)?;
        let evaluation = targets.evaluate(&targets.rows_of(&forward.logits)?, self.task);
        // First: the results of an incomplete batch are arbitrary.
        confirm().map_err(TrainError::Unconfirmed)?;
        evaluation
    }

    /// Chooses the parameters that its checkpoints call the model.
    pub fn choose_kept(&mut self, keep: Keep) {
        self.keep = keep;
    }

    /// Saves the current parameters as the best ones.
    ///
    /// # Errors
    /// [`TrainError::Torch`] if there is no memory for the copies.
    pub fn keep_best(&mut self) -> Result<(), TrainError> {
        let _no_grad = tch::no_grad_guard();
        let copies: Result<Vec<Tensor>, _> =
            self.model.parameters().iter().map(|(_, p)| p.f_detach_copy()).collect();
        self.best = Some(copies?);
        self.embeddings.keep_best()
    }

    /// Restores the best parameters, and returns whether there were any. The optimiser's moments don't change.
    ///
    /// # Errors
    /// [`TrainError::Torch`] if libtorch refuses the copy.
    pub fn restore_best(&mut self) -> Result<bool, TrainError> {
        let Some(best) = &self.best else { return Ok(false) };
        let _no_grad = tch::no_grad_guard();
        for ((_, mut parameter), saved) in self.model.parameters().into_iter().zip(best) {
            parameter.f_copy_(saved)?;
        }
        self.embeddings.restore_best();
        Ok(true)
    }

    /// Whether [`Trainer::keep_best`] has been called, here or before the checkpoint that was restored.
    pub fn has_best(&self) -> bool {
        self.best.is_some()
    }

    /// The settings that batches of training are prepared for.
    pub(crate) fn trains(&self) -> InputSettings<'_> {
        let Self { input_dim, task, kind, device, .. } = *self;
        let TrainerOptions { model, edge_dim, .. } = self.options;
        let layers = self.options.blocks();
        let preparer = self.preparer.as_ref();
        let (input, options, drops) = (&*self.model.input, &self.options, true);
        InputSettings {
            input,
            model,
            layers,
            input_dim,
            edge_dim,
            options,
            task,
            kind,
            device,
            preparer,
            drops,
        }
    }

    /// The settings that batches of an evaluation or a prediction are prepared for.
    pub(crate) fn answers(&self) -> InputSettings<'_> {
        InputSettings { drops: false, ..self.trains() }
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

    /// The tables of a batch as the model reads them.
    pub(crate) fn inputs(&self, tables: &[InputRows<'_>]) -> Result<Inputs, TrainError> {
        let rows = |rows: &InputRows<'_>| match *rows {
            InputRows::Given(ref rows) => self.features(rows),
            InputRows::Trained { table, ids } => {
                Ok(self.embeddings.rows(table, ids)?.f_to_kind(self.kind)?)
            }
        };
        Ok(Inputs(tables.iter().map(rows).collect::<Result<_, _>>()?))
    }

    /// Rows as the first layer reads them: converted to the model's number type if necessary, and normalised.
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

/// A training pass up to its loss.
struct Forward {
    forward: model::Forward,
    /// The logits, as a leaf.
    logits: Tensor,
    loss: Tensor,
}

impl std::fmt::Debug for Trainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trainer")
            .field("options", &self.options)
            .field("input_dim", &self.input_dim)
            .field("task", &self.task)
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}
