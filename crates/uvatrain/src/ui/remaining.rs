//! An estimate of a run's remaining time from the times of its passes.

use std::time::Instant;

use uva_graph::Split;
use uva_runtime::telemetry::metrics::RunProgress;

/// The duration of an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpochTime {
    /// Seconds from one epoch's first batch to the next one's.
    pub seconds: f64,
    /// The part of these seconds after the last training batch: validation, and the checkpoint.
    pub behind_training: f64,
}

/// The times of a run's epochs.
#[derive(Debug, Default)]
pub struct Epochs {
    /// The current epoch.
    current: Option<Current>,
    /// The last completely observed epoch, or what is known so far about the first.
    known: Option<EpochTime>,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    epoch: u32,
    began: Instant,
    /// Batches of this epoch that were done by then: more than one after a resume.
    first_batch: u64,
    /// When the last training batch of this epoch was done.
    trained: Option<Instant>,
}

impl Epochs {
    /// Updates the times with the progress of a run.
    pub fn observe(&mut self, progress: &RunProgress, now: Instant) {
        if progress.split != Split::Train {
            return;
        }
        let RunProgress { epoch, batch, batches, .. } = *progress;
        let since = |from: Instant| now.duration_since(from).as_secs_f64();
        let current = match self.current {
            Some(current) if current.epoch == epoch => current,
            before => {
                if let Some(Current { began, first_batch: 0..=1, trained: Some(trained), .. }) = before {
                    self.known = Some(EpochTime { seconds: since(began), behind_training: since(trained) });
                }
                Current { epoch, began: now, first_batch: batch, trained: None }
            }
        };
        let done = batch == batches;
        if done && self.known.is_none() && batch > current.first_batch {
            // During the first epoch, only its training time is known.
            let whole = batches as f64 / (batch - current.first_batch) as f64;
            self.known = Some(EpochTime { seconds: since(current.began) * whole, behind_training: 0.0 });
        }
        self.current = Some(Current { trained: if done { Some(now) } else { current.trained }, ..current });
    }

    /// The duration of an epoch of this run, once it can be estimated.
    pub fn known(&self) -> Option<EpochTime> {
        self.known
    }
}

/// Remaining seconds of a run: the current pass at `rate` batches a second (0 if unknown), and the epochs after it.
/// With early stopping it is an upper bound. `None` if there is no basis for an estimate, or the number of epochs is
/// unknown.
pub fn remaining(progress: &RunProgress, rate: f64, known: Option<EpochTime>) -> Option<f64> {
    let RunProgress { split, epoch, epochs, batch, batches, .. } = *progress;
    if epochs == 0 {
        return None;
    }
    let pass = (rate > 0.0).then(|| batches.saturating_sub(batch) as f64 / rate);
    let behind = f64::from(epochs.saturating_sub(epoch).saturating_sub(1));
    match split {
        Split::Test => pass,
        Split::Valid => {
            let known = known?;
            Some(pass.unwrap_or(known.behind_training) + behind * known.seconds)
        }
        Split::Train => {
            let EpochTime { seconds, behind_training } = match known {
                Some(known) => known,
                None => {
                    EpochTime { seconds: (rate > 0.0).then(|| batches as f64 / rate)?, behind_training: 0.0 }
                }
            };
            let this = pass.map_or(seconds, |pass| pass + behind_training);
            Some(this + behind * seconds)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(split: Split, epoch: u32, batch: u64) -> RunProgress {
        RunProgress {
            split,
            epoch,
            epochs: 5,
            batch,
            batches: 100,
            loss: 0.0,
            accuracy: 0.0,
            regression_loss: None,
        }
    }

    const KNOWN: Option<EpochTime> = Some(EpochTime { seconds: 30.0, behind_training: 10.0 });

    #[test]
    fn all_epochs_that_are_left_count_and_not_only_the_one_under_way() {
        // 50 batches at 5 a second, and 4 epochs of 100.
        assert_eq!(remaining(&at(Split::Train, 0, 50), 5.0, None), Some(10.0 + 4.0 * 20.0));
        // With what validation took.
        assert_eq!(remaining(&at(Split::Train, 2, 50), 5.0, KNOWN), Some(10.0 + 10.0 + 2.0 * 30.0));
        assert_eq!(remaining(&at(Split::Valid, 2, 80), 5.0, KNOWN), Some(4.0 + 2.0 * 30.0));
        assert_eq!(remaining(&at(Split::Valid, 4, 100), 5.0, KNOWN), Some(0.0));
        assert_eq!(remaining(&at(Split::Test, 0, 50), 5.0, KNOWN), Some(10.0));
    }

    #[test]
    fn nothing_is_shown_without_a_basis_for_an_estimate() {
        assert_eq!(remaining(&at(Split::Train, 0, 1), 0.0, None), None);
        assert_eq!(remaining(&at(Split::Valid, 0, 1), 5.0, None), None);
        assert_eq!(remaining(&at(Split::Test, 0, 1), 0.0, KNOWN), None);
        let endless = RunProgress { epochs: 0, ..at(Split::Train, 7, 50) };
        assert_eq!(remaining(&endless, 5.0, KNOWN), None);
        // At the first batch of a pass its speed is unknown, but the duration of an epoch is known.
        assert_eq!(remaining(&at(Split::Train, 3, 1), 0.0, KNOWN), Some(60.0));
        assert_eq!(remaining(&at(Split::Valid, 3, 1), 0.0, KNOWN), Some(40.0));
    }

    #[test]
    fn an_epoch_is_timed_from_its_first_batch_to_the_next_ones() {
        let start = Instant::now();
        let mut epochs = Epochs::default();
        let mut seen = |split, epoch, batch, seconds| {
            epochs.observe(&at(split, epoch, batch), start + Duration::from_secs(seconds));
            epochs.known()
        };
        assert_eq!(seen(Split::Train, 0, 1, 0), None);
        assert_eq!(seen(Split::Train, 0, 50, 10), None);
        // The first one's training alone, with the time of its first batch.
        let first = seen(Split::Train, 0, 100, 99).unwrap();
        assert_eq!(first, EpochTime { seconds: 100.0, behind_training: 0.0 });
        assert_eq!(seen(Split::Valid, 0, 7, 120), Some(first));
        let whole = Some(EpochTime { seconds: 130.0, behind_training: 31.0 });
        assert_eq!(seen(Split::Train, 1, 1, 130), whole);
        assert_eq!(seen(Split::Train, 1, 100, 190), whole);
    }

    #[test]
    fn an_epoch_resumed_in_the_middle_is_scaled_to_a_whole_one() {
        let start = Instant::now();
        let mut epochs = Epochs::default();
        let mut seen = |epoch, batch, seconds| {
            epochs.observe(&at(Split::Train, epoch, batch), start + Duration::from_secs(seconds));
            epochs.known().map(|known| known.seconds)
        };
        assert_eq!(seen(3, 80, 0), None);
        assert_eq!(seen(3, 100, 10), Some(50.0));
        // Its own length does not predict the others'.
        assert_eq!(seen(4, 1, 12), Some(50.0));
    }
}
