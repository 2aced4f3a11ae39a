//! The built-in consumer: trains a model on the batches, validates, stops, checkpoints, tests.
//!
//! Its work on a batch depends only on the batch and on its own state, never on time or on the batches' path. So a run
//! resumed at any batch continues with the losses of the uninterrupted run.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uva_graph::{Dataset, Split};
use uva_launch::training::{
    Best, EvaluateBy, Keep, TrainingOptions, TrainingOutcome, TrainingState, checkpoint_error, class_weights,
    feature_columns, task,
};
use uva_model::checkpoint as stored;
use uva_runtime::control::Stop;
use uva_runtime::feed::device::Receipt;
use uva_runtime::machine::clock::since_boot;
use uva_runtime::pipeline::roles::BatchReceiver;
use uva_runtime::sampler::cache::Caches;
use uva_runtime::telemetry::metrics::{
    BatchEvent, EpochEvent, Event, InForce, Observer, PassSums, RunProgress,
};
use uva_runtime::{Batch, Cursor, RuntimeError};
use uva_train::{Evaluation, Reading, TrainDevice, TrainError, Trainer, checkpoint};

use crate::gpu;
use crate::whole_rows::whole_rows;

/// Trains until the schedule ends, early stopping triggers, or a stop is requested.
///
/// # Errors
/// Divergence, a full disk under the checkpoint, a dead producer.
pub fn train(
    receiver: &mut BatchReceiver,
    dataset: &Dataset,
    options: &TrainingOptions,
    observer: &mut dyn Observer,
) -> Result<TrainingOutcome, RuntimeError> {
    let mut session = Session::begin(receiver, dataset, options, observer)?;
    session.run(receiver, observer)?;
    receiver.count_work();
    receiver.log_end();
    Ok(TrainingOutcome {
        epochs: session.state.cursor.epoch,
        best: session.state.best,
        stopped_early: session.is_out_of_patience(),
        ..session.outcome
    })
}

/// A training batch whose step has been enqueued.
struct Pending {
    /// The event, complete except for the results from the GPU.
    event: BatchEvent,
    /// The time that the producer's CPU threads worked on the batch.
    on_cpu: Duration,
    /// The receipt of a batch on a GPU.
    receipt: Option<Arc<Receipt>>,
}

pub(crate) struct Session<'a> {
    dataset: &'a Dataset,
    options: &'a TrainingOptions,
    trainer: Trainer,
    /// The caches in use: whether hits are reported, and which separately.
    caches: Caches,
    state: TrainingState,
    outcome: TrainingOutcome,
    /// Training batches whose results have not arrived from a GPU, in order.
    pending: VecDeque<Pending>,
    /// Sums of the current validation or test pass.
    evaluation: Evaluation,
    epochs: u32,
    epoch_began: Instant,
    pass_began: Instant,
    /// Batches trained since the last checkpoint; it also counts without a directory for one.
    since_checkpoint: u32,
}

impl<'a> Session<'a> {
    pub(crate) fn begin(
        receiver: &mut BatchReceiver,
        dataset: &'a Dataset,
        options: &'a TrainingOptions,
        observer: &mut dyn Observer,
    ) -> Result<Self, RuntimeError> {
        let gpu = gpu::prepare(receiver)?;
        let task = task(dataset, options.metric.0, options.loss.0)?;
        let mut trainer = Trainer::new(&options.trainer(), feature_columns(dataset), task, gpu.device)
            .map_err(train_error)?;
        let types = dataset.metagraph();
        trainer
            .reorder_embeddings(&|name| dataset.original_ids_of(types.find_type(name).ok()?))
            .map_err(train_error)?;
        trainer.choose_kept(options.keep);
        if let Some(weights) = class_weights(dataset, options.class_weights.as_ref())? {
            trainer.weigh_classes(&weights).map_err(train_error)?;
        }
        if let Some((kernels, stream)) = gpu.ahead {
            trainer.run_ahead(kernels, stream).map_err(train_error)?;
        }
        if trainer.device() != TrainDevice::Cpu
            && let Err(error) = trainer.rehearse()
        {
            // A rehearsal only saves time while the other roles start and make the first batch. It uses a second
            // network's memory for that time. A permanent error also ends the first step.
            tracing::warn!(%error, "no rehearsal of a training step");
        }
        if let Some(directory) = &options.checkpoint {
            // Leftovers of a run that could not clean up. One run at a time writes there, and now it is this one.
            stored::remove_leftovers(directory).map_err(checkpoint_error)?;
        }
        let mut state = TrainingState::default();
        let mut resumed = false;
        let epochs = receiver.schedule().passes().epochs;
        if let Some(directory) = options.checkpoint.as_ref().filter(|_| options.resume) {
            if let Some(saved) = stored::read(directory).map_err(checkpoint_error)? {
                checkpoint::restore(&saved, &mut trainer, &options.fingerprint).map_err(checkpoint_error)?;
                state = saved.state().map_err(checkpoint_error)?;
                resumed = true;
            } else {
                let directory = directory.display();
                observer.note(&format!("no checkpoint in {directory} yet: starting at the beginning"));
            }
        }
        state.train_threads = trainer.threads();
        tracing::info!(
            model = options.model.name(),
            hidden = options.hidden,
            parameters = trainer.parameter_count(),
            threads = trainer.threads(),
            device = ?trainer.device(),
            epoch = state.cursor.epoch,
            batch = state.cursor.batch,
            "ready to train"
        );
        let session = Self {
            dataset,
            options,
            trainer,
            caches: receiver.caches().clone(),
            state,
            outcome: TrainingOutcome::default(),
            pending: VecDeque::new(),
            evaluation: Evaluation::default(),
            epochs,
            epoch_began: Instant::now(),
            pass_began: Instant::now(),
            since_checkpoint: 0,
        };
        if resumed {
            observer.note(&session.where_it_goes_on(receiver.schedule().train_batches()));
        }
        Ok(session)
    }

    /// The next step of a resumed run, for the user.
    fn where_it_goes_on(&self, train_batches: u64) -> String {
        let TrainingState { cursor: Cursor { epoch, batch }, epochs_without_gain, .. } = self.state;
        let [epoch_number, batch_number] = [epoch, batch].map(|number| u64::from(number) + 1);
        if self.is_out_of_patience() {
            return format!(
                "nothing is left to train: early stopping ended the run after epoch {epoch}, {epochs_without_gain} after the \
                 best; give --patience {} or more to continue. The model is tested",
                u64::from(epochs_without_gain) + 1
            );
        }
        if self.is_over() {
            return format!(
                "nothing is left to train: the checkpoint has {}; give --epochs {epoch_number} or more to continue. The model \
                 is tested",
                match epoch > self.epochs {
                    true => format!("{epoch} epochs, more than --epochs {}", self.epochs),
                    false => format!("{epoch} of {} epochs", self.epochs),
                }
            );
        }
        if u64::from(batch) >= train_batches {
            return format!("resumed after the last batch of epoch {epoch_number}, at its validation");
        }
        format!("resumed at batch {batch_number} of epoch {epoch_number}")
    }

    fn run(&mut self, receiver: &mut BatchReceiver, observer: &mut dyn Observer) -> Result<(), RuntimeError> {
        let schedule = *receiver.schedule();
        let trained_all = u64::from(self.state.cursor.batch) >= schedule.train_batches();
        if self.is_over() {
            self.end_training(receiver)?;
        } else if trained_all && schedule.valid_batches() == 0 {
            // Interrupted between an epoch's last batch and its full-neighbourhood validation.
            self.end_epoch(receiver, observer)?;
        }
        loop {
            if receiver.stop() >= Stop::Soon {
                return self.interrupt(observer);
            }
            let Some(batch) = receiver.next_batch()? else { break };
            if let Some(choice) = receiver.take_sums_choice() {
                observer.event(&Event::InForce(InForce::of_sums(&choice, batch.layout())))?;
                observer.note(&format!("--aggregate auto: {}", choice.reason));
            }
            match batch.split() {
                Split::Train => {
                    let last = u64::from(batch.index()) + 1 == schedule.train_batches();
                    self.train_batch(&batch, last, observer)?;
                    self.progress(&batch, schedule.train_batches(), self.state.sums, observer);
                    drop(batch);
                    if last {
                        self.end_of_training_pass();
                        if schedule.valid_batches() == 0 {
                            // A full evaluation may take long: a request to end does not wait for it.
                            if receiver.stop() >= Stop::Soon {
                                return self.interrupt(observer);
                            }
                            self.end_epoch(receiver, observer)?;
                        }
                    } else {
                        self.checkpoint_if_due(observer)?;
                    }
                }
                split => {
                    self.evaluate_batch(&batch)?;
                    let batches = match split {
                        Split::Valid => schedule.valid_batches(),
                        _ => schedule.test_batches(),
                    };
                    let last = u64::from(batch.index()) + 1 == batches;
                    self.progress(&batch, batches, sums_of(&self.evaluation), observer);
                    drop(batch);
                    if last && split == Split::Valid {
                        self.end_epoch(receiver, observer)?;
                    }
                }
            }
        }
        // A wait that the stop word ended looks like the end of the schedule.
        if receiver.stop() >= Stop::Soon {
            return self.interrupt(observer);
        }
        let test = match self.options.evaluate_by {
            EvaluateBy::Sampled => std::mem::take(&mut self.evaluation),
            EvaluateBy::Full => self.evaluate_fully(Split::Test, receiver)?,
        };
        (self.outcome.test_accuracy, self.outcome.test_roc_auc) = (test.accuracy(), test.roc_auc());
        (self.outcome.test_mse, self.outcome.test_mae) = (test.mse(), test.mae());
        self.outcome.test_epoch = self.tested_epoch();
        Ok(())
    }

    /// The epoch whose model is kept and tested.
    fn tested_epoch(&self) -> Option<u32> {
        let best = self.state.best.filter(|_| self.options.keep == Keep::Best);
        best.map(|best| best.epoch).or(self.state.cursor.epoch.checked_sub(1))
    }

    /// Whether early stopping ends training here. Evaluated at an epoch's end and on a resume, which may have another
    /// number of epochs or another patience; so a checkpoint does not store the result.
    fn is_out_of_patience(&self) -> bool {
        let state = &self.state;
        state.cursor.batch == 0
            && state.cursor.epoch < self.epochs
            && self.options.patience.is_some_and(|patience| state.epochs_without_gain >= patience)
    }

    fn is_over(&self) -> bool {
        self.is_out_of_patience() || self.state.cursor.epoch >= self.epochs
    }

    /// Sets the number of threads that an operation uses in training.
    pub(crate) fn use_threads(&mut self, threads: usize) {
        self.trainer.set_threads(threads);
    }

    /// Trains on a batch; `last` marks the last of its pass. On a GPU its step is only enqueued, except at the last
    /// batch of a pass, which waits for the results of all batches up to it.
    pub(crate) fn train_batch(
        &mut self,
        batch: &Batch,
        last: bool,
        observer: &mut dyn Observer,
    ) -> Result<(), RuntimeError> {
        let began = since_boot();
        let columns = batch.columns();
        let (epoch, index) = (batch.epoch(), batch.index());
        let told = last || (index + 1).is_multiple_of(self.options.loss_every);
        let mut event = BatchEvent {
            train_at_us: began.as_micros() as u64,
            ..BatchEvent::of(batch, self.caches.are_there())
        };
        self.state.cursor = Cursor { epoch, batch: index + 1 };
        self.outcome.batches += 1;
        self.outcome.unpadded += u64::from(event.padded == Some(false));
        self.outcome.oversized += u64::from(event.oversized);
        self.since_checkpoint += 1;
        if self.trainer.runs_ahead() {
            self.trainer.enqueue_batch(epoch, index, &columns, told).map_err(train_error)?;
            event.loss = told.then_some(0.0);
            let on_cpu = Duration::from_nanos(batch.header().gather_ns());
            self.pending.push_back(Pending { event, on_cpu, receipt: batch.receipt() });
            return self.read_results(last, observer);
        }
        let mut confirm = || batch.confirm().map_err(|error| error.to_string());
        let step = self
            .trainer
            .train_batch(epoch, index, &columns, &mut confirm)
            .map_err(|error| train_or_batch_error(error, batch))?;
        self.state.sums.loss += f64::from(step.loss) * step.labelled as f64;
        self.state.sums.correct += step.correct as u64;
        self.state.sums.labelled += step.labelled as u64;
        // Only known now if the batch is on a GPU.
        event.gather_us = batch.gather_time().as_micros() as u64;
        event.set_row_hits(batch.rows_cached());
        event.loss = told.then_some(step.loss);
        event.train_us = since_boot().saturating_sub(began).as_micros() as u64;
        self.tell(event, observer)
    }

    /// Reads the results that have arrived from a GPU, and with `all` waits for the outstanding ones. Otherwise it
    /// waits only if the next batch could not be enqueued.
    pub(crate) fn read_results(
        &mut self,
        all: bool,
        observer: &mut dyn Observer,
    ) -> Result<(), RuntimeError> {
        loop {
            match self.trainer.reading(all || self.trainer.must_read()) {
                Ok(Some(reading)) => self.count(&reading, observer)?,
                Ok(None) => return Ok(()),
                // The first incomplete batch has the error that ends the run.
                Err(TrainError::Unconfirmed(reason)) => {
                    let receipts = self.pending.iter().filter_map(|batch| batch.receipt.as_ref());
                    let told = receipts.into_iter().find_map(|receipt| receipt.confirm().err());
                    return Err(told.unwrap_or(RuntimeError::failed(reason)));
                }
                Err(error) => return Err(train_error(error)),
            }
        }
    }

    fn count(&mut self, reading: &Reading, observer: &mut dyn Observer) -> Result<(), RuntimeError> {
        self.state.sums.loss += reading.loss_sum;
        self.state.sums.correct += reading.correct;
        self.state.sums.labelled += reading.labelled;
        let pending: Vec<Pending> = self.pending.drain(..reading.batches.len()).collect();
        for (read, Pending { mut event, on_cpu, receipt }) in reading.batches.iter().zip(pending) {
            event.train_us = read.time.as_micros() as u64;
            if let Some(receipt) = receipt {
                event.gather_us = (on_cpu + receipt.gather_time()).as_micros() as u64;
                event.set_row_hits(receipt.rows_cached());
            }
            // A batch whose loss is reported is the last of its reading.
            event.loss = event.loss.map(|_| reading.loss);
            self.tell(event, observer)?;
        }
        Ok(())
    }

    /// Counts the cache hits of a trained batch and the producer's sums in it, and reports the batch.
    fn tell(&mut self, event: BatchEvent, observer: &mut dyn Observer) -> Result<(), RuntimeError> {
        if let Some(counts) = event.cache {
            let totals = self.outcome.cache.get_or_insert_default();
            totals.add(counts, event.epoch, self.caches.counted_epochs);
        }
        if let Some(sums) = &event.aggregate {
            self.outcome.aggregate += sums.amounts;
            self.outcome.summed_batches += u64::from(sums.is_summed());
        }
        observer.event(&Event::Batch(Box::new(event)))
    }

    fn evaluate_batch(&mut self, batch: &Batch) -> Result<(), RuntimeError> {
        let columns = batch.columns();
        let mut confirm = || batch.confirm().map_err(|error| error.to_string());
        let evaluation = self
            .trainer
            .evaluate_batch(&columns, &mut confirm)
            .map_err(|error| train_or_batch_error(error, batch))?;
        self.evaluation += evaluation;
        Ok(())
    }

    fn evaluate_fully(&self, split: Split, receiver: &BatchReceiver) -> Result<Evaluation, RuntimeError> {
        let dataset = self.dataset;
        if dataset.split(split).is_empty() {
            return Ok(Evaluation::default());
        }
        let data = whole_rows(dataset, receiver.loader_options())?;
        // A failure or kill here does not belong to the last batch.
        receiver.note_evaluation(Some((split, self.state.cursor.epoch)));
        let evaluation =
            self.trainer.evaluate_full(data, dataset.labels(), dataset.split(split)).map_err(train_error)?;
        receiver.note_evaluation(None);
        Ok(evaluation)
    }

    fn end_of_training_pass(&mut self) {
        self.outcome.training_seconds += self.pass_began.elapsed().as_secs_f64();
    }

    /// Ends an epoch after its last batch, and after its validation if that used the slots.
    fn end_epoch(
        &mut self,
        receiver: &mut BatchReceiver,
        observer: &mut dyn Observer,
    ) -> Result<(), RuntimeError> {
        if self.options.evaluate_by == EvaluateBy::Full {
            self.evaluation = self.evaluate_fully(Split::Valid, receiver)?;
        }
        let epoch = self.state.cursor.epoch;
        let metric = self.trainer.task().metric;
        if let Some(value) = self.evaluation.judged_by(metric).filter(|value| !value.is_nan()) {
            if self.state.best.is_none_or(|best| metric.is_better(value, best.value)) {
                self.state.best = Some(Best { epoch, value });
                self.state.epochs_without_gain = 0;
                self.trainer.keep_best().map_err(train_error)?;
            } else {
                self.state.epochs_without_gain += 1;
            }
        }
        let regression = self.trainer.task().kind.regression().is_some();
        observer.event(&Event::Epoch(EpochEvent {
            epoch,
            train_loss: self.state.sums.mean_loss(),
            train_accuracy: (!regression).then(|| self.state.sums.accuracy().unwrap_or(0.0)),
            valid_accuracy: self.evaluation.accuracy(),
            valid_roc_auc: self.evaluation.roc_auc(),
            regression,
            valid_mse: self.evaluation.mse(),
            valid_mae: self.evaluation.mae(),
            seconds: self.epoch_began.elapsed().as_secs_f64(),
        }))?;
        self.state.sums = PassSums::default();
        self.evaluation = Evaluation::default();
        self.state.cursor = Cursor { epoch: epoch + 1, batch: 0 };
        self.write_checkpoint()?;
        if self.is_over() {
            self.end_training(receiver)?;
        }
        self.pass_began = Instant::now();
        self.epoch_began = Instant::now();
        Ok(())
    }

    /// Only the test pass remains, which tests the kept model. The last parameters are already in a checkpoint.
    fn end_training(&mut self, receiver: &mut BatchReceiver) -> Result<(), RuntimeError> {
        if self.options.keep == Keep::Best && self.state.best.is_some() {
            self.trainer.restore_best().map_err(train_error)?;
        }
        receiver.end_training();
        Ok(())
    }

    /// Saves the training since the last checkpoint. If there was none, the existing checkpoint stays: an interrupt
    /// before the first batch must not replace another run's checkpoint with an untrained model.
    fn interrupt(&mut self, observer: &mut dyn Observer) -> Result<(), RuntimeError> {
        self.read_results(true, observer)?;
        self.outcome.interrupted = true;
        if self.since_checkpoint == 0 { Ok(()) } else { self.write_checkpoint() }
    }

    fn checkpoint_if_due(&mut self, observer: &mut dyn Observer) -> Result<(), RuntimeError> {
        match self.options.checkpoint_every {
            Some(every) if self.since_checkpoint >= every => {
                self.read_results(true, observer)?;
                self.write_checkpoint()
            }
            _ => Ok(()),
        }
    }

    fn write_checkpoint(&mut self) -> Result<(), RuntimeError> {
        let Some(directory) = &self.options.checkpoint else { return Ok(()) };
        checkpoint::write(directory, &self.trainer, &self.options.fingerprint, &self.state)
            .map_err(checkpoint_error)?;
        self.since_checkpoint = 0;
        Ok(())
    }

    fn progress(&self, batch: &Batch, batches: u64, pass: PassSums, observer: &mut dyn Observer) {
        let progress = RunProgress {
            split: batch.split(),
            epoch: batch.epoch(),
            epochs: self.epochs,
            batch: u64::from(batch.index()) + 1,
            batches,
            loss: self.state.sums.mean_loss(),
            accuracy: pass.accuracy().unwrap_or(0.0),
            regression_loss: self.trainer.task().kind.regression().map(|_| pass.mean_loss()),
        };
        observer.progress(&progress, "");
    }
}

/// The progress bar's view of a running evaluation.
fn sums_of(evaluation: &Evaluation) -> PassSums {
    PassSums {
        loss: evaluation.loss_sum,
        correct: evaluation.correct as u64,
        labelled: evaluation.labelled as u64,
    }
}

/// An incomplete batch has its own error, with which the run ends.
pub(crate) fn train_or_batch_error(error: TrainError, batch: &Batch) -> RuntimeError {
    match error {
        TrainError::Unconfirmed(reason) => batch.confirm().err().unwrap_or(RuntimeError::failed(reason)),
        error if !batch.is_on_device() => train_error(error.of_seeds(batch.seeds())),
        error => train_error(error),
    }
}

pub(crate) fn train_error(error: TrainError) -> RuntimeError {
    if error.is_usage() {
        RuntimeError::input(error.to_string())
    } else {
        RuntimeError::failed(error.to_string())
    }
}
