//! The job that the launcher gives the built-in consumer.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uva_model::{Metric, TrainerOptions};

use uva_runtime::RuntimeError;

/// How validation and test nodes are classified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvaluateBy {
    /// With sampled neighbourhoods, through the slots, like training.
    #[default]
    Sampled,
    /// With full neighbourhoods, layer by layer over the whole graph, in the consumer.
    Full,
}

/// What the consumer does with the batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingOptions {
    /// Model and optimiser. Where it sets no threads, a resume takes the checkpoint's, else
    /// [`usual_threads`](Self::usual_threads).
    pub trainer: TrainerOptions,
    /// Threads where no number was requested; `None` leaves libtorch's own choice.
    #[serde(default)]
    pub usual_threads: Option<usize>,
    /// How to validate and test.
    pub evaluate_by: EvaluateBy,
    /// The metric that selects the best model and controls early stopping; `None` for the usual one
    /// ([`super::task()`]).
    #[serde(default)]
    pub metric: Option<Metric>,
    /// Stop when this many epochs in a row brought no better validation, and test the best model. May change on a
    /// resume.
    pub patience: Option<u32>,
    /// Directory for checkpoints.
    pub checkpoint: Option<PathBuf>,
    /// Write one every this many training batches, besides the one at each epoch's end.
    pub checkpoint_every: Option<u32>,
    /// Continue from the checkpoint in the directory, if there is one.
    pub resume: bool,
    /// Let the first checkpoint replace an existing one in the directory. Without this option and without `resume`,
    /// such a directory is refused.
    #[serde(default)]
    pub overwrite_checkpoint: bool,
    /// What a checkpoint must match for the run to continue from it: options and dataset, field by field.
    pub fingerprint: Value,
}

/// The consumer's job.
#[derive(Debug, Serialize, Deserialize)]
pub enum Job {
    /// Train; the result is a [`TrainingOutcome`](super::TrainingOutcome).
    Train(TrainingOptions),
    /// Train one batch and report the memory it leaves; the result is a [`TrialOutcome`].
    Trial(TrainingOptions),
}

/// What a trial found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialOutcome {
    /// Bytes of the GPU's memory still free after the batch.
    pub free: u64,
    /// Bytes of the GPU's memory.
    pub total: u64,
}

/// As JSON, for the channel between launcher and consumer.
///
/// # Errors
/// [`RuntimeError::Failed`] where it cannot be written as JSON.
pub fn to_value(value: &impl Serialize) -> Result<Value, RuntimeError> {
    serde_json::to_value(value).map_err(|error| RuntimeError::Failed(error.to_string()))
}
