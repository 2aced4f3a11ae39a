//! One training batch beside everything that a run has on the GPU, to see how much memory that leaves.

use serde::{Deserialize, Serialize};
use uva_graph::Dataset;

use super::session::{Session, TrainingOptions};
use crate::RuntimeError;
use crate::metrics::{Event, Observer, Progress};
use crate::roles::BatchReceiver;

/// What a trial found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TrialOutcome {
    /// Bytes of the GPU's memory that nobody had taken behind the batch.
    pub free: u64,
    /// Bytes of the GPU's memory.
    pub total: u64,
}

/// Trains the first batch and asks the driver what is left. libtorch keeps what it has taken, so that is what its peak
/// leaves; the other roles have theirs at that moment too.
pub(super) fn run(
    receiver: &mut BatchReceiver,
    dataset: &Dataset,
    options: &TrainingOptions,
) -> Result<TrialOutcome, RuntimeError> {
    let alone = TrainingOptions { checkpoint: None, resume: false, ..options.clone() };
    let mut session = Session::begin(receiver, dataset, &alone, &mut Nobody)?;
    if let Some(batch) = receiver.next_batch()? {
        session.train_batch(&batch, &mut Nobody)?;
    }
    let slots = receiver.device_slots().ok_or_else(|| {
        RuntimeError::Usage("--gpu-cache auto: this run has no feature slots on a GPU to cache beside".into())
    })?;
    let (free, total) = slots.context().memory()?;
    receiver.end_training();
    while receiver.next_batch()?.is_some() {}
    Ok(TrialOutcome { free, total })
}

/// Hears of a trial: it is no run that anybody keeps metrics of.
struct Nobody;

impl Observer for Nobody {
    fn event(&mut self, _: &Event) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn progress(&mut self, _: &Progress, _: &str) {}

    fn note(&mut self, _: &str) {}
}

/// The launcher's ears during a trial: it hears notes only.
pub(super) struct NotesOnly<'a>(pub &'a mut dyn Observer);

impl Observer for NotesOnly<'_> {
    fn event(&mut self, _: &Event) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn progress(&mut self, _: &Progress, _: &str) {}

    fn note(&mut self, line: &str) {
        self.0.note(line);
    }
}
