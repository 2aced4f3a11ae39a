//! The interface of policies that rank nodes before a run.

use std::ops::Range;

use crate::access::hotness;
use crate::{CacheError, EpochSize, Hotness, Workload};

/// A way to predict how often each row and each list will be read.
pub trait HotnessPolicy: Sync {
    /// The hotness of every node.
    ///
    /// # Errors
    /// If there is no batch, or a batch cannot be sampled.
    fn hotness(&self, workload: &Workload<'_>) -> Result<Hotness, CacheError>;

    /// The epochs that [`hotness`](Self::hotness) samples and counts.
    fn counted_epochs(&self) -> Range<u32> {
        0..0
    }

    /// Number of epochs of this size that it samples and counts beyond these. A run never has these epochs.
    fn further_epochs(&self, _epoch: &EpochSize) -> u32 {
        0
    }

    /// Whether it counts the epochs that it is evaluated on, which no policy of a real run can.
    fn is_oracle(&self) -> bool {
        false
    }

    /// An epoch to evaluate a ranking on: one that an oracle counted, or one that any other policy did not count.
    fn unseen_epoch(&self) -> u32 {
        let counted = self.counted_epochs();
        if self.is_oracle() { counted.start } else { counted.end }
    }
}

/// Counts over epochs that are actually sampled, for the policy of this name.
pub(super) fn count(
    policy: &'static str,
    workload: &Workload<'_>,
    epochs: Range<u32>,
) -> Result<Hotness, CacheError> {
    if epochs.is_empty() {
        return Err(CacheError::NoEpochs { policy });
    }
    hotness::count(workload, epochs)
}
