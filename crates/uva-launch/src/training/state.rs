//! The state of a run in a checkpoint, and the result of a run.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uva_model::checkpoint::{self, Checkpoint, CheckpointError, TrainerState};
use uva_model::{Metric, TaskKind};

use super::job::TrainingOptions;
use uva_runtime::options::Cursor;
use uva_runtime::telemetry::metrics::{CacheTotals, PassSums};
use uva_runtime::{AggregateAmounts, RuntimeError};

/// The content of a checkpoint other than tensors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingState {
    /// The next batch to train.
    pub cursor: Cursor,
    /// Sums of the epoch under way.
    pub sums: PassSums,
    /// The best validation and its epoch.
    pub best: Option<Best>,
    /// Epochs since the best validation.
    pub epochs_without_gain: u32,
    /// Threads of the last training: equal losses need equal numbers.
    pub train_threads: usize,
}

/// The best epoch so far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// The epoch, from 0.
    pub epoch: u32,
    /// Its validation result, by the run's metric.
    pub value: f64,
}

/// The result of training.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingOutcome {
    /// Epochs finished, earlier runs included.
    pub epochs: u32,
    /// Training batches of this run.
    pub batches: u64,
    /// Seconds of this run during which training batches were used or awaited.
    pub training_seconds: f64,
    /// See [`uva_runtime::telemetry::metrics::End::test_accuracy`].
    pub test_accuracy: Option<f64>,
    /// See [`uva_runtime::telemetry::metrics::End::test_roc_auc`].
    pub test_roc_auc: Option<f64>,
    /// See [`uva_runtime::telemetry::metrics::End::test_mse`].
    pub test_mse: Option<f64>,
    /// See [`uva_runtime::telemetry::metrics::End::test_mae`].
    pub test_mae: Option<f64>,
    /// See [`uva_runtime::telemetry::metrics::End::test_epoch`].
    pub test_epoch: Option<u32>,
    /// The best epoch by validation.
    pub best: Option<Best>,
    /// Whether early stopping ended it.
    pub stopped_early: bool,
    /// Cache counts of this run's training batches; `None` without caches.
    pub cache: Option<CacheTotals>,
    /// The producer's sums in this run's training batches; zeros if it made none.
    pub aggregate: AggregateAmounts,
    /// Training batches with such sums.
    pub summed_batches: u64,
    /// Training batches that did not fit the static shapes.
    pub unpadded: u64,
    /// Training batches that did not fit their feature slots on a GPU.
    pub oversized: u64,
    /// Whether SIGINT or SIGTERM ended it; a checkpoint was written if there is a directory for checkpoints.
    pub interrupted: bool,
}

/// A checkpoint from which a run resumes.
#[derive(Debug)]
pub struct SavedState {
    checkpoint: Checkpoint,
    /// Its state.
    pub state: TrainingState,
}

/// The state in the checkpoint directory, if there is a checkpoint. Reads and checks its files as bytes, without
/// libtorch.
///
/// # Errors
/// [`RuntimeError::Input`] if the checkpoint is for other options or another dataset (the message has the differences),
/// or cannot be read.
pub fn saved_state(options: &TrainingOptions) -> Result<Option<SavedState>, RuntimeError> {
    let Some(directory) = options.checkpoint.as_ref().filter(|_| options.resume) else { return Ok(None) };
    let Some(checkpoint) = checkpoint::read(directory).map_err(checkpoint_error)? else { return Ok(None) };
    checkpoint.check_fingerprint(&options.fingerprint).map_err(checkpoint_error)?;
    checkpoint.model().map_err(checkpoint_error)?;
    let state = checkpoint.state().map_err(checkpoint_error)?;
    Ok(Some(SavedState { checkpoint, state }))
}

impl SavedState {
    /// Checks everything that a resumed run relies on, for epochs of `train_batches` training batches.
    ///
    /// # Errors
    /// [`RuntimeError::Input`] with the file and the field.
    pub fn check(&self, train_batches: u64) -> Result<(), RuntimeError> {
        check_resumable(&self.checkpoint, &self.state, train_batches).map_err(checkpoint_error)
    }
}

/// Checks everything in a checkpoint that a resumed run relies on, except the tensors, for epochs with this many
/// training batches.
///
/// # Errors
/// [`CheckpointError::Damaged`] with the file and the field.
pub fn check_resumable(
    checkpoint: &Checkpoint,
    state: &TrainingState,
    train_batches: u64,
) -> Result<(), CheckpointError> {
    let model = checkpoint.model()?;
    // Per seed, a class, or each of its labels or numbers.
    let of_seed = if model.kind == TaskKind::SingleLabel { 1 } else { model.outputs as u64 };
    let fingerprint = checkpoint.fingerprint();
    let batch_size = fingerprint.get("batch_size").and_then(Value::as_u64).unwrap_or(u64::MAX);
    let bounds = Bounds { train_batches, of_batch: batch_size.saturating_mul(of_seed) };
    let metric = fingerprint.get("metric").and_then(Value::as_str).and_then(Metric::from_name);
    state
        .check(checkpoint.trainer(), metric.unwrap_or_default())
        .and_then(|()| state.check_sums(checkpoint.trainer(), &bounds))
        .map_err(|problem| checkpoint.damaged(problem))
}

/// The sizes of an epoch.
struct Bounds {
    train_batches: u64,
    /// Maximum number of labels in a batch.
    of_batch: u64,
}

impl TrainingState {
    /// Checks the state alone, and against the checkpoint's description of its tensors.
    ///
    /// # Errors
    /// The field, its value, and the valid values.
    pub(super) fn check(&self, trainer: &TrainerState, metric: Metric) -> Result<(), String> {
        let Cursor { epoch, batch } = self.cursor;
        // Every epoch has a batch, and every step of the optimiser belongs to a batch.
        let begun = u64::from(epoch) + u64::from(batch > 0);
        require(begun <= trainer.adam_steps, "state.cursor", || {
            format!("is batch {batch} of epoch {epoch}, and trainer.adam_steps is {}", trainer.adam_steps)
        })?;
        let threads = self.train_threads;
        require((1..=MOST_THREADS).contains(&threads), "state.train_threads", || {
            format!("is {threads}, not from 1 to {MOST_THREADS}")
        })?;
        require(trainer.best == self.best.is_some(), "state.best", || {
            let [has, there] =
                [self.best.is_some(), trainer.best].map(|is| if is { "is there" } else { "is absent" });
            format!("{has}, and by trainer.best the model of the best epoch {there}")
        })?;
        let Some(Best { epoch: of_best, value }) = self.best else {
            return require(self.epochs_without_gain == 0, "state.epochs_without_gain", || {
                format!("is {}, and there is no best epoch", self.epochs_without_gain)
            });
        };
        require(of_best < epoch, "state.best.epoch", || {
            format!("is {of_best}, and state.cursor is in epoch {epoch}: the best epoch is an earlier one")
        })?;
        let most = match metric {
            Metric::Accuracy | Metric::RocAuc => 1.0,
            Metric::Mse | Metric::Mae => f64::MAX,
        };
        require((0.0..=most).contains(&value), "state.best.value", || {
            format!("is {value}, which is not a possible {}", metric.name())
        })?;
        let since = epoch - 1 - of_best;
        require(self.epochs_without_gain <= since, "state.epochs_without_gain", || {
            format!("is {}, and there were {since} epochs since the best", self.epochs_without_gain)
        })
    }

    /// Checks the values that the number of batches bounds.
    fn check_sums(&self, trainer: &TrainerState, bounds: &Bounds) -> Result<(), String> {
        let [epoch, batch] = [self.cursor.epoch, self.cursor.batch].map(u64::from);
        let Bounds { train_batches, of_batch } = *bounds;
        require(batch <= train_batches, "state.cursor.batch", || {
            format!("is {batch}, and an epoch has {train_batches} training batches")
        })?;
        let most = epoch.saturating_mul(train_batches).saturating_add(batch);
        require(trainer.adam_steps <= most, "trainer.adam_steps", || {
            format!(
                "is {}, and there were {most} training batches up to batch {batch} of epoch {epoch}",
                trainer.adam_steps
            )
        })?;
        let PassSums { loss, correct, labelled } = self.sums;
        let most = batch.saturating_mul(of_batch);
        require(labelled <= most, "state.sums.labelled", || {
            format!("is {labelled}, and the {batch} batches of the epoch so far have at most {most} labels")
        })?;
        require(correct <= labelled, "state.sums.correct", || {
            format!("is {correct}, and state.sums.labelled is {labelled}")
        })?;
        require(loss.is_finite() && (labelled > 0 || loss == 0.0), "state.sums.loss", || {
            format!("is {loss}, of {labelled} labels")
        })
    }
}

/// Maximum number of threads of the model's arithmetic, in `train_threads`.
const MOST_THREADS: usize = 1024;

fn require(holds: bool, field: &str, problem: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{field} {}", problem())) }
}

/// Converts a checkpoint's error to the run's.
pub fn checkpoint_error(error: CheckpointError) -> RuntimeError {
    if error.is_usage() {
        RuntimeError::input(error.to_string())
    } else if error.is_missing() {
        RuntimeError::missing(error.to_string())
    } else {
        RuntimeError::failed(error.to_string())
    }
}
