//! One training batch with everything else of the run on the GPU, to measure the memory that remains.

use uva_graph::Dataset;
use uva_launch::training::{TrainingOptions, TrialOutcome};
use uva_runtime::RuntimeError;
use uva_runtime::pipeline::roles::BatchReceiver;
use uva_runtime::telemetry::metrics::{Event, Observer, RunProgress};

use crate::session::Session;

/// Trains the first batch and reads the driver's free memory. libtorch keeps the memory it has allocated, so the result
/// accounts for its peak. The other roles hold their memory at that moment as well.
pub(crate) fn run(
    receiver: &mut BatchReceiver,
    dataset: &Dataset,
    options: &TrainingOptions,
) -> Result<TrialOutcome, RuntimeError> {
    let alone = TrainingOptions { checkpoint: None, resume: false, ..options.clone() };
    let mut session = Session::begin(receiver, dataset, &alone, &mut NullObserver)?;
    if let Some(batch) = receiver.next_batch()? {
        session.train_batch(&batch, true, &mut NullObserver)?;
    }
    let slots = receiver.device_slots().ok_or_else(|| {
        RuntimeError::usage("this run has no feature slots on a GPU, so that no trial shows what it leaves")
    })?;
    let (free, total) = slots.context().memory()?;
    receiver.end_training();
    while receiver.next_batch()?.is_some() {}
    Ok(TrialOutcome { free, total })
}

/// Receives the events of a trial and drops them: a trial has no metrics.
pub(crate) struct NullObserver;

impl Observer for NullObserver {
    fn event(&mut self, _: &Event) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn progress(&mut self, _: &RunProgress, _: &str) {}

    fn note(&mut self, _: &str) {}
}
