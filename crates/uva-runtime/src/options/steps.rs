//! The steps of a training pass: which ranks have a batch in each of them.
//!
//! In a step each rank has one batch, and the batches of a step follow one another. With standby ranks, a pass has
//! three stretches:
//!
//! | stretch | ranks with a batch in a step |
//! |---|---|
//! | until the batch at which the others join | those that train throughout |
//! | from then on | all |
//! | at the end, while fewer batches than ranks are left | those that train throughout, if there is a batch for each |
//!
//! The number of dropped batches is therefore below the number of ranks that train throughout, as without standby
//! ranks. A pass that begins at the first batch of any step has the remaining steps of the whole pass.

use crate::options::part::{Part, Standby};

/// The steps of a pass over the training batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    /// The number of the pass's first batch.
    first: u64,
    /// Ranks that train throughout.
    trainers: u64,
    /// All ranks.
    ranks: u64,
    /// Steps of the three stretches.
    alone: u64,
    together: u64,
    after: u64,
}

impl Steps {
    /// The steps of a pass that begins at the batch `first` of an epoch of `all`.
    pub fn new(part: Part, standby: Standby, all: u64, first: u64) -> Self {
        let ranks = u64::from(part.of.max(1));
        let trainers = ranks.saturating_sub(u64::from(standby.ranks)).max(1);
        let left = all.saturating_sub(first);
        let until = u64::from(standby.from).saturating_sub(first);
        let alone = until.div_ceil(trainers).min(left / trainers);
        let rest = left - alone * trainers;
        let together = rest / ranks;
        let after = (rest - together * ranks) / trainers;
        Self { first, trainers, ranks, alone, together, after }
    }

    /// Ranks that train throughout.
    pub fn trainers(&self) -> u64 {
        self.trainers
    }

    fn stands_by(&self, rank: u64) -> bool {
        rank >= self.trainers
    }

    /// Number of batches of this rank.
    pub fn count(&self, rank: u64) -> u64 {
        if self.stands_by(rank) { self.together } else { self.alone + self.together + self.after }
    }

    /// The step in which this rank has its batch `n`.
    fn step(&self, rank: u64, n: u64) -> u64 {
        if self.stands_by(rank) { self.alone + n } else { n }
    }

    /// Number of ranks with a batch in the step in which this rank has its batch `n`.
    pub fn ranks_in_step(&self, rank: u64, n: u64) -> u64 {
        let step = self.step(rank, n);
        if (self.alone..self.alone + self.together).contains(&step) { self.ranks } else { self.trainers }
    }

    /// The first batch of the step in which this rank has its batch `n`. If `n` is after its last batch, the first
    /// batch of the step that would follow.
    pub fn position(&self, rank: u64, n: u64) -> u64 {
        let step = self.step(rank, n);
        let together = step.saturating_sub(self.alone).min(self.together);
        let others = (step - together).saturating_mul(self.trainers);
        self.first.saturating_add(others).saturating_add(together * self.ranks)
    }

    /// The index in the pass of this rank's batch with this number in its epoch.
    pub fn of_number(&self, rank: u64, number: u64) -> u64 {
        let behind = number.saturating_sub(self.first);
        let (alone, together) = (self.alone * self.trainers, self.together * self.ranks);
        let step = match (behind.checked_sub(alone), behind.checked_sub(alone + together)) {
            (None, _) => behind / self.trainers,
            (Some(joined), None) => self.alone + joined / self.ranks,
            (_, Some(after)) => self.alone + self.together + after / self.trainers,
        };
        if self.stands_by(rank) { step.saturating_sub(self.alone) } else { step }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn steps(trainers: u32, standby: Standby, all: u64, first: u64) -> Steps {
        Steps::new(Part { index: 0, of: trainers + standby.ranks }, standby, all, first)
    }

    fn numbers(steps: &Steps, rank: u64) -> Vec<u64> {
        (0..steps.count(rank)).map(|n| steps.position(rank, n) + rank).collect()
    }

    #[test]
    fn two_train_throughout_and_a_third_joins_at_the_fourth_batch() {
        let steps = steps(2, Standby { ranks: 1, from: 3 }, 12, 0);
        // 0 1, 2 3, 4 5 6, 7 8 9, 10 11
        assert_eq!(
            [0, 1, 2].map(|rank| numbers(&steps, rank)),
            [vec![0, 2, 4, 7, 10], vec![1, 3, 5, 8, 11], vec![6, 9]]
        );
        assert_eq!([0, 1, 2, 3, 4].map(|n| steps.ranks_in_step(0, n)), [2, 2, 3, 3, 2]);
        assert_eq!([0, 1].map(|n| steps.ranks_in_step(2, n)), [3, 3]);
    }

    #[test]
    fn without_standby_three_ranks_have_every_third_batch_each() {
        let steps = steps(3, Standby::default(), 11, 2);
        assert_eq!(
            [0, 1, 2].map(|rank| numbers(&steps, rank)),
            [vec![2, 5, 8], vec![3, 6, 9], vec![4, 7, 10]]
        );
    }

    proptest! {
        #[test]
        fn every_batch_comes_once_in_order_but_a_remainder_below_the_trainers(
            trainers in 1_u32..6, ranks in 0_u32..6, from in 0_u32..60, all in 0_u64..70, first in 0_u64..70,
        ) {
            let standby = Standby { ranks, from };
            let steps = steps(trainers, standby, all, first);
            let of_rank: Vec<_> = (0..u64::from(trainers + ranks)).map(|rank| numbers(&steps, rank)).collect();
            for (rank, numbers) in of_rank.iter().enumerate() {
                prop_assert!(numbers.is_sorted());
                for (n, number) in numbers.iter().enumerate() {
                    prop_assert_eq!(steps.of_number(rank as u64, *number), n as u64);
                    prop_assert!(rank < trainers as usize || *number >= u64::from(from));
                }
            }
            // All ranks that train throughout take the same steps.
            prop_assert!(of_rank[..trainers as usize].iter().all(|numbers| numbers.len() == of_rank[0].len()));
            let mut seen = of_rank.concat();
            seen.sort_unstable();
            let left = all.saturating_sub(first);
            prop_assert_eq!(&seen, &(first..first + seen.len() as u64).collect::<Vec<_>>());
            prop_assert!(left - (seen.len() as u64) < u64::from(trainers));
        }

        #[test]
        fn a_pass_from_any_step_on_is_the_rest_of_the_whole_one(
            trainers in 1_u32..6, ranks in 0_u32..6, from in 0_u32..60, all in 0_u64..70, done in 0_u64..40,
        ) {
            let standby = Standby { ranks, from };
            let whole = steps(trainers, standby, all, 0);
            let done = done.min(whole.count(0));
            let first = whole.position(0, done);
            let rest = steps(trainers, standby, all, first);
            for rank in 0..u64::from(trainers + ranks) {
                let expected: Vec<_> = numbers(&whole, rank).into_iter().filter(|number| *number >= first).collect();
                prop_assert_eq!(numbers(&rest, rank), expected);
                // A rank's own position leads to the same batches, even for a standby rank.
                for n in 0..whole.count(rank) {
                    let own = steps(trainers, standby, all, whole.position(rank, n));
                    prop_assert_eq!(&numbers(&own, rank)[..], &numbers(&whole, rank)[n as usize..]);
                }
            }
        }
    }
}
