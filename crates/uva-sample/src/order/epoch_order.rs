//! The order of a run's seeds, of any kind.

use std::fmt;

use uva_graph::Split;

use super::chunk_order::ChunkOrder;
use super::seed_order::SeedOrder;
use super::sequences::SeedSequences;
use super::turns::InTurns;
use crate::SampleError;
use crate::limits::MAX_EPOCH;

/// The way in which an epoch follows sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// The first `n` sequences give one seed each alternately, each from a start that every epoch draws again.
    InTurns(usize),
    /// Runs of `n` seeds of the first sequence, the last of which may be shorter. Every epoch shuffles the runs again.
    Segments(usize),
}

/// The form in options.
impl fmt::Display for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InTurns(count) => write!(f, "proximity:{count}"),
            Self::Segments(length) => write!(f, "segments:{length}"),
        }
    }
}

/// Sequences, and how epochs follow them.
#[derive(Clone, Debug)]
pub struct Sequenced {
    /// The sequences.
    pub sequences: SeedSequences,
    /// The way in which they are followed.
    pub follow: Follow,
}

/// The batches of an epoch, as positions in the split's index file, in one of several orders. In each of them an epoch
/// has every position once.
pub struct EpochOrder {
    /// Cuts the order into batches. It also makes the order, if that does not follow sequences.
    seeds: SeedOrder,
    follows: Option<Follows>,
}

enum Follows {
    InTurns(InTurns),
    Segments { sequence: SeedSequences, runs: ChunkOrder },
}

impl EpochOrder {
    /// Creates the order for a split of `len` nodes. If `sequenced` is `None`, it is shuffled or in the order of the
    /// file, like [`SeedOrder`]. Sequences require a training split that is shuffled.
    ///
    /// # Errors
    /// As [`SeedOrder::new`].
    ///
    /// # Panics
    /// If sequences have another length, are too few, or are given for a split that is not shuffled, or a segment has
    /// no seeds.
    pub fn new(
        seed: u64,
        split: Split,
        len: usize,
        (shuffle, sequenced): (bool, Option<&Sequenced>),
        batch_size: usize,
        drop_last: bool,
    ) -> Result<Self, SampleError> {
        let Some(Sequenced { sequences, follow }) = sequenced else {
            let seeds = SeedOrder::new(seed, split, len, shuffle, batch_size, drop_last)?;
            return Ok(Self { seeds, follows: None });
        };
        assert!(shuffle && split == Split::Train, "sequences reorder a training split each epoch");
        assert_eq!(sequences.positions(), len, "sequences of the split");
        let seeds = SeedOrder::new(seed, split, len, false, batch_size, drop_last)?;
        let sequences = sequences.clone();
        let follows = match *follow {
            Follow::InTurns(count) => Follows::InTurns(InTurns::new(sequences, count, seed)),
            Follow::Segments(length) => {
                assert!(sequences.count() > 0, "a sequence to cut");
                let runs = ChunkOrder::new(seed, split, len, Some(length), len.max(1), false)?;
                Follows::Segments { sequence: sequences, runs }
            }
        };
        Ok(Self { seeds, follows: Some(follows) })
    }

    /// Whether [`prepare`](Self::prepare) uses the current rayon pool, which must then exist.
    #[must_use]
    pub fn uses_threads(&self) -> bool {
        match &self.follows {
            None => self.seeds.uses_threads(),
            Some(Follows::InTurns(_)) => false,
            Some(Follows::Segments { runs, .. }) => runs.uses_threads(),
        }
    }

    /// Orders the seeds of `epoch`. The order depends on neither threads nor earlier epochs.
    ///
    /// # Errors
    /// An epoch above [`MAX_EPOCH`].
    pub fn prepare(&mut self, epoch: u32) -> Result<(), SampleError> {
        let Some(follows) = &mut self.follows else { return self.seeds.prepare(epoch) };
        if epoch > MAX_EPOCH {
            return Err(crate::InvalidOption::Epoch { epoch }.into());
        }
        let order = self.seeds.order_mut();
        match follows {
            Follows::InTurns(turns) => turns.write(epoch, order),
            Follows::Segments { sequence, runs } => {
                runs.prepare(epoch)?;
                let positions = sequence.sequence(0);
                for (place, at) in order.iter_mut().zip(runs.batch(0).flatten()) {
                    *place = positions[at];
                }
            }
        }
        Ok(())
    }

    /// Batches in an epoch.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.seeds.batches()
    }

    /// Seeds in an epoch: all, or those of the full batches.
    #[must_use]
    pub fn seeds(&self) -> usize {
        self.seeds.seeds()
    }

    /// Positions, in the split's index file, of the seeds of batch `batch` in the epoch prepared last; empty if there
    /// is no such batch.
    #[must_use]
    pub fn batch(&self, batch: usize) -> &[u32] {
        self.seeds.batch(batch)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sequences that walk through all positions with different strides.
    fn strided(count: usize, len: usize) -> SeedSequences {
        let positions =
            (0..count).flat_map(|number| (0..len).map(move |place| ((place + 31 * number) % len) as u32));
        SeedSequences::new(positions.collect(), count, len)
    }

    fn order(sequences: &SeedSequences, follow: Follow, epochs: &[u32]) -> Vec<u32> {
        let len = sequences.positions();
        let sequenced = Sequenced { sequences: sequences.clone(), follow };
        let of = (true, Some(&sequenced));
        let mut order = EpochOrder::new(5, Split::Train, len, of, len.max(1), false).unwrap();
        epochs.iter().for_each(|epoch| order.prepare(*epoch).unwrap());
        order.batch(0).to_vec()
    }

    #[test]
    fn without_sequences_it_is_the_order_of_seeds() {
        for (split, shuffle) in [(Split::Train, true), (Split::Train, false), (Split::Valid, true)] {
            let mut seeds = SeedOrder::new(5, split, 103, shuffle, 10, true).unwrap();
            let mut order = EpochOrder::new(5, split, 103, (shuffle, None), 10, true).unwrap();
            seeds.prepare(3).unwrap();
            order.prepare(3).unwrap();
            assert_eq!((order.batches(), order.seeds()), (seeds.batches(), seeds.seeds()));
            (0..11).for_each(|batch| assert_eq!(order.batch(batch), seeds.batch(batch)));
        }
    }

    #[test]
    fn one_sequence_is_its_own_order_from_another_place_each_epoch() {
        let sequences = strided(1, 100);
        let epochs: Vec<Vec<u32>> =
            (0..4).map(|epoch| order(&sequences, Follow::InTurns(1), &[epoch])).collect();
        for epoch in &epochs {
            let rotated = (0..100).map(|place| (epoch[0] + place) % 100);
            assert!(epoch.iter().copied().eq(rotated), "{epoch:?}");
        }
        assert!(epochs.windows(2).all(|two| two[0] != two[1]));
    }

    #[test]
    fn sequences_alternate_and_skip_seeds_that_were_given() {
        let sequences = strided(3, 200);
        let order = order(&sequences, Follow::InTurns(3), &[0]);
        // Each sequence counts up, and so do its seeds, until it reaches seeds that other sequences have given.
        for turn in 0..30 {
            let step = (order[turn + 3] + 200 - order[turn]) % 200;
            assert!((1..=60).contains(&step), "{order:?}");
        }
    }

    #[test]
    fn segments_of_one_seed_shuffle_all_and_longer_ones_stay_together() {
        let sequences = strided(1, 95);
        let one = order(&sequences, Follow::Segments(1), &[2]);
        let mut shuffled = SeedOrder::new(5, Split::Train, 95, true, 95, false).unwrap();
        shuffled.prepare(2).unwrap();
        assert_eq!(one, shuffled.batch(0));
        let tens = order(&sequences, Follow::Segments(10), &[2]);
        let breaks = tens.windows(2).filter(|two| two[1] != two[0] + 1).count();
        assert!((5..10).contains(&breaks), "{tens:?}");
        assert_eq!(order(&sequences, Follow::Segments(100), &[2]), sequences.sequence(0));
    }

    #[test]
    fn epochs_are_independent_and_those_beyond_the_last_are_refused() {
        let sequences = strided(4, 100);
        for follow in [Follow::InTurns(4), Follow::Segments(7)] {
            assert_eq!(order(&sequences, follow, &[9, 0, 3]), order(&sequences, follow, &[3]));
            assert_ne!(order(&sequences, follow, &[2]), order(&sequences, follow, &[3]));
            let sequenced = Sequenced { sequences: sequences.clone(), follow };
            let of = (true, Some(&sequenced));
            let mut order = EpochOrder::new(5, Split::Train, 100, of, 9, false).unwrap();
            assert!(order.prepare(MAX_EPOCH).is_ok());
            assert!(order.prepare(MAX_EPOCH + 1).is_err());
        }
    }

    #[test]
    fn epochs_begin_at_each_seed_equally_often() {
        // 8 places in 8,000 epochs: the square differences from 1,000 of each, over 1,000, are chi-square distributed with
        // 7 degrees of freedom. 24.3 is exceeded once in a thousand; the draws are fixed by the seed.
        let sequences = strided(1, 8);
        let sequenced = Sequenced { sequences, follow: Follow::InTurns(1) };
        let mut order = EpochOrder::new(11, Split::Train, 8, (true, Some(&sequenced)), 8, false).unwrap();
        let mut begins = [0_u32; 8];
        for epoch in 0..8000 {
            order.prepare(epoch).unwrap();
            begins[order.batch(0)[0] as usize] += 1;
        }
        let square = begins.iter().map(|count| (f64::from(*count) - 1000.0).powi(2) / 1000.0).sum::<f64>();
        assert!(square < 24.3, "{begins:?}");
    }

    proptest! {
        #[test]
        fn every_seed_comes_once_an_epoch(
            len in 1_usize..300,
            count in 1_usize..9,
            segment in 1_usize..400,
            in_turns: bool,
            epoch in 0_u32..9,
        ) {
            let follow = if in_turns { Follow::InTurns(count) } else { Follow::Segments(segment) };
            let mut seen = order(&strided(count, len), follow, &[epoch]);
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..len as u32));
        }
    }
}
