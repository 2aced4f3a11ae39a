//! What a checkpoint stores of a run, and what a run results in.

use serde::{Deserialize, Serialize};
use uva_model::checkpoint::{self, CheckpointError};

use super::job::TrainingOptions;
use uva_runtime::metrics::{CacheTotals, PassSums};
use uva_runtime::options::Cursor;
use uva_runtime::{AggregateAmounts, RuntimeError};

/// What a checkpoint holds besides tensors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingState {
    /// The next batch to train.
    pub cursor: Cursor,
    /// Sums of the epoch under way.
    pub sums: PassSums,
    /// The best validation and its epoch.
    pub best: Option<Best>,
    /// Epochs since then.
    pub epochs_without_gain: u32,
    /// Threads of the last training: equal losses need equal numbers. Checkpoints from before this field existed have
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train_threads: Option<usize>,
}

/// The best epoch so far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// From 0.
    pub epoch: u32,
    /// Its validation result, by the run's metric.
    #[serde(alias = "accuracy")]
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
    /// See [`uva_runtime::metrics::End::test_accuracy`].
    pub test_accuracy: Option<f64>,
    /// See [`uva_runtime::metrics::End::test_roc_auc`].
    #[serde(default)]
    pub test_roc_auc: Option<f64>,
    /// See [`uva_runtime::metrics::End::test_mse`].
    #[serde(default)]
    pub test_mse: Option<f64>,
    /// See [`uva_runtime::metrics::End::test_mae`].
    #[serde(default)]
    pub test_mae: Option<f64>,
    /// See [`uva_runtime::metrics::End::test_epoch`].
    #[serde(default)]
    pub test_epoch: Option<u32>,
    /// The best epoch by validation.
    pub best: Option<Best>,
    /// Early stopping ended it.
    pub stopped_early: bool,
    /// Cache counts of this run's training batches; `None` without caches.
    pub cache: Option<CacheTotals>,
    /// The producer's sums in this run's training batches; zeros where it made none.
    #[serde(default)]
    pub aggregate: AggregateAmounts,
    /// Those of the batches that have such sums.
    #[serde(default)]
    pub summed_batches: u64,
    /// Those of the batches that did not fit the static shapes.
    #[serde(default)]
    pub unpadded: u64,
    /// Those of the batches that had no room in their feature slots on a GPU.
    #[serde(default)]
    pub oversized: u64,
    /// SIGINT or SIGTERM ended it; a checkpoint was written where there is a directory for them.
    pub interrupted: bool,
}

/// The state in the checkpoint directory, if there is a checkpoint. Reads and checks its files as bytes, without
/// libtorch.
///
/// # Errors
/// [`RuntimeError::Input`] when the checkpoint is for other options or another dataset (the message names what
/// differs), or cannot be read.
pub fn saved_state(options: &TrainingOptions) -> Result<Option<TrainingState>, RuntimeError> {
    let Some(directory) = options.checkpoint.as_ref().filter(|_| options.resume) else { return Ok(None) };
    let Some(saved) = checkpoint::read(directory).map_err(checkpoint_error)? else { return Ok(None) };
    saved.check_fingerprint(&options.fingerprint).map_err(checkpoint_error)?;
    saved.state().map(Some).map_err(checkpoint_error)
}

/// A checkpoint's error as the run's.
pub fn checkpoint_error(error: CheckpointError) -> RuntimeError {
    if error.is_usage() {
        RuntimeError::Input(error.to_string())
    } else {
        RuntimeError::Failed(error.to_string())
    }
}
