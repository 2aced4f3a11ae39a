//! What the consumer's process does with its batches.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::session::TrainingOptions;
use crate::RuntimeError;

/// What the consumer's process does with its batches.
#[derive(Serialize, Deserialize)]
pub(super) enum Job {
    /// Trains.
    Train(TrainingOptions),
    /// Trains one batch, to see what that leaves.
    Trial(TrainingOptions),
}

pub(super) fn to_value(value: &impl serde::Serialize) -> Result<Value, RuntimeError> {
    serde_json::to_value(value).map_err(|error| RuntimeError::Failed(error.to_string()))
}
