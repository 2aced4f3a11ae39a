//! Which batch has which sequence number.
//!
//! A run's batches are numbered 0, 1, 2, … through all its passes, and the number alone decides the sampler and the
//! slots of a batch. Every role computes the schedule for itself. One thing only is decided while the run goes on:
//! where training ends, early or not. The consumer announces that as the *cut* in the control page, and the test
//! pass, if there is one, begins there.
//!
//! | sequence `s` | before the cut is known | when it is known to be `c` |
//! |---|---|---|
//! | `s` < training end, `s` < c | the batch of the schedule | nothing, handed over as such |
//! | training end ≤ `s` < c | nothing, handed over as such | nothing, handed over as such |
//! | c ≤ `s` < c + test batches | — | test batch `s` − c |
//! | `s` = c + test batches | — | end |
//!
//! So between training's end and the cut the rings carry a few empty hand-overs, and nobody needs to wait for the
//! cut as such: a sampler that runs ahead is held back by the slots, as ever.
//!
//! Invariant: no sampler has begun a batch ≥ c when the cut becomes visible to it. The consumer chooses c so far
//! ahead ([`Schedule::cut_after`]) that the slot of batch c can be free only after a chain of hand-overs which began
//! behind the store of the cut; each link is a release met by an acquire, so the sampler that owns batch c sees it.

use serde::{Deserialize, Serialize};
use uva_graph::Split;
use uva_sample::BatchKey;

use crate::options::Passes;

/// What stands at one sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A batch to sample, gather and use.
    Batch(BatchKey),
    /// Nothing: training has ended, or is about to.
    Skipped,
    /// The run's last hand-over; nothing follows.
    End,
}

/// Where training ends and whether the test pass follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The first sequence number that does not belong to training.
    pub sequence: u64,
    /// Whether the test pass follows.
    pub test: bool,
}

const TEST_FOLLOWS: u64 = 1 << 63;

impl Cut {
    /// As one word of the control page; 0 stands for no cut.
    pub fn to_word(self) -> u64 {
        (self.sequence + 1) | if self.test { TEST_FOLLOWS } else { 0 }
    }

    /// Back from a word of the control page.
    pub fn from_word(word: u64) -> Option<Self> {
        (word != 0).then(|| Self { sequence: (word & !TEST_FOLLOWS) - 1, test: word & TEST_FOLLOWS != 0 })
    }
}

/// The order of a run's batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    passes: Passes,
    train_batches: u64,
    valid_batches: u64,
    test_batches: u64,
}

impl Schedule {
    /// A schedule over splits of the given numbers of batches.
    pub fn new(passes: Passes, train_batches: usize, valid_batches: usize, test_batches: usize) -> Self {
        Self {
            passes,
            train_batches: train_batches as u64,
            valid_batches: if passes.validate { valid_batches as u64 } else { 0 },
            test_batches: if passes.test { test_batches as u64 } else { 0 },
        }
    }

    /// Training batches an epoch.
    pub fn train_batches(&self) -> u64 {
        self.train_batches
    }

    /// Validation batches after each epoch that go through the slots.
    pub fn valid_batches(&self) -> u64 {
        self.valid_batches
    }

    /// Test batches at the end that go through the slots.
    pub fn test_batches(&self) -> u64 {
        self.test_batches
    }

    /// The passes it was made from.
    pub fn passes(&self) -> Passes {
        self.passes
    }

    /// How many sequence numbers training takes, validation included, if nothing ends it early.
    pub fn training_end(&self) -> u64 {
        let start = self.passes.start;
        let epochs = u64::from(self.passes.epochs.saturating_sub(start.epoch));
        (epochs * self.epoch_batches()).saturating_sub(if epochs == 0 { 0 } else { u64::from(start.batch) })
    }

    /// What stands at `sequence`.
    pub fn item(&self, sequence: u64, cut: Option<Cut>) -> Item {
        match cut {
            None if sequence < self.training_end() => Item::Batch(self.training_key(sequence)),
            None => Item::Skipped,
            Some(cut) if sequence < cut.sequence => Item::Skipped,
            Some(cut) => {
                let batch = sequence - cut.sequence;
                if cut.test && batch < self.test_batches {
                    Item::Batch(BatchKey { split: Split::Test, epoch: 0, batch: batch as u32 })
                } else {
                    Item::End
                }
            }
        }
    }

    /// The sequence number of the end, once the cut is known.
    pub fn end(&self, cut: Option<Cut>) -> Option<u64> {
        cut.map(|cut| cut.sequence + if cut.test { self.test_batches } else { 0 })
    }

    /// Where the cut may be when the consumer has given back every batch before `position` and none after:
    /// behind everything a sampler can have begun by then.
    pub fn cut_after(&self, position: u64, feature_slots: usize, batch_slots: usize) -> u64 {
        // The producer can have filled feature slots up to position + F − 1, so it has freed no batch slot from
        // position + F on; a sampler can have begun what takes the slot of a freed one: up to position + F + S − 1.
        position + (feature_slots + batch_slots) as u64
    }

    fn epoch_batches(&self) -> u64 {
        self.train_batches + self.valid_batches
    }

    fn training_key(&self, sequence: u64) -> BatchKey {
        let start = self.passes.start;
        let absolute = sequence + u64::from(start.batch);
        let epoch = start.epoch + (absolute / self.epoch_batches()) as u32;
        let within = absolute % self.epoch_batches();
        if within < self.train_batches {
            BatchKey { split: Split::Train, epoch, batch: within as u32 }
        } else {
            BatchKey { split: Split::Valid, epoch, batch: (within - self.train_batches) as u32 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Cursor;

    fn schedule(epochs: u32, start: Cursor) -> Schedule {
        Schedule::new(Passes { epochs, validate: true, test: true, start }, 3, 2, 2)
    }

    fn keys(schedule: &Schedule) -> Vec<(Split, u32, u32)> {
        (0..schedule.training_end())
            .map(|sequence| match schedule.item(sequence, None) {
                Item::Batch(key) => (key.split, key.epoch, key.batch),
                other => panic!("{other:?} at {sequence}"),
            })
            .collect()
    }

    #[test]
    fn training_and_validation_alternate_and_the_test_pass_follows_the_cut() {
        let schedule = schedule(2, Cursor::default());
        use Split::{Train, Valid};
        assert_eq!(
            keys(&schedule),
            [
                (Train, 0, 0),
                (Train, 0, 1),
                (Train, 0, 2),
                (Valid, 0, 0),
                (Valid, 0, 1),
                (Train, 1, 0),
                (Train, 1, 1),
                (Train, 1, 2),
                (Valid, 1, 0),
                (Valid, 1, 1)
            ]
        );
        assert_eq!(schedule.item(10, None), Item::Skipped);
        let cut = Some(Cut { sequence: 10, test: true });
        assert_eq!(schedule.item(11, cut), Item::Batch(BatchKey { split: Split::Test, epoch: 0, batch: 1 }));
        assert_eq!(schedule.item(12, cut), Item::End);
        assert_eq!(schedule.item(10, Some(Cut { sequence: 10, test: false })), Item::End);
    }

    #[test]
    fn a_resumed_schedule_is_the_rest_of_the_whole_one() {
        let whole = keys(&schedule(3, Cursor::default()));
        for (epoch, batch, done) in [(0, 2, 2), (1, 0, 5), (1, 3, 8), (2, 1, 11), (3, 0, 15)] {
            assert_eq!(keys(&schedule(3, Cursor { epoch, batch })), whole[done..], "{epoch}.{batch}");
        }
    }

    #[test]
    fn an_early_cut_lies_behind_everything_that_can_be_in_flight_and_skips_it() {
        let schedule = schedule(9, Cursor::default());
        let sequence = schedule.cut_after(5, 2, 4);
        assert_eq!(sequence, 11);
        let cut = Some(Cut { sequence, test: true });
        assert!((5..11).all(|s| schedule.item(s, cut) == Item::Skipped));
        assert!(matches!(schedule.item(11, cut), Item::Batch(BatchKey { split: Split::Test, .. })));
    }

    #[test]
    fn a_cut_survives_its_word() {
        for cut in [Cut { sequence: 0, test: false }, Cut { sequence: 12345, test: true }] {
            assert_eq!(Cut::from_word(cut.to_word()), Some(cut));
        }
        assert_eq!(Cut::from_word(0), None);
    }
}
