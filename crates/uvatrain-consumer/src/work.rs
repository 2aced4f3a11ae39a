//! The job that a launcher hands over.

use serde_json::Value;
use uva_graph::Dataset;
use uva_launch::training::{Job, to_value};
use uva_runtime::RuntimeError;
use uva_runtime::pipeline::roles::BatchReceiver;
use uva_runtime::telemetry::metrics::Observer;

use crate::{session, stage_times, trial};

/// Runs a [`Job`] on the batches, and returns its result: the function that [`uva_launch::launcher::run_role`] calls.
///
/// # Errors
/// As [`session::train`].
pub fn consume(
    receiver: &mut BatchReceiver,
    dataset: &Dataset,
    job: Value,
    observer: &mut dyn Observer,
) -> Result<Value, RuntimeError> {
    let job: Job = serde_json::from_value(job)
        .map_err(|error| RuntimeError::failed(format!("the training options cannot be read: {error}")))?;
    match job {
        Job::Train(options) => to_value(&session::train(receiver, dataset, &options, observer)?),
        Job::Trial(options) => to_value(&trial::run(receiver, dataset, &options)?),
        Job::Times(job) => to_value(&stage_times::run(receiver, dataset, &job)?),
    }
}
