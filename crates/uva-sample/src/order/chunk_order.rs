//! The order and the batches in which an epoch visits the rows of a hop set: chunk by chunk.

use std::ops::Range;

use uva_graph::Split;

use super::seed_order::SeedOrder;
use crate::{InvalidOption, SampleError};

/// The batches of an epoch, as runs of places in a split.
///
/// Places are cut into chunks of the same length, of which the last may be shorter. A shuffled epoch visits the chunks
/// in the order of [`SeedOrder`] for that many seeds, and the places of a chunk in ascending order. With chunks of one
/// place the order is that of [`SeedOrder`]. Otherwise every epoch visits all places in their order.
pub struct ChunkOrder {
    /// The order of the chunks; `None` for ascending order.
    chunks: Option<SeedOrder>,
    chunk: usize,
    /// Places of the split.
    len: usize,
    batch_size: usize,
    /// Places in batches: all, or those of the full batches.
    used: usize,
    /// The position of the shorter chunk in the epoch that was prepared last.
    short_at: usize,
}

impl ChunkOrder {
    /// Creates the order for a split of `len` places in chunks of `chunk`; `None` for no shuffle. Starts in the order
    /// of the split; [`prepare`](Self::prepare) shuffles for an epoch. `drop_last` omits a last batch smaller than
    /// `batch_size`.
    ///
    /// # Errors
    /// A batch size of 0, and a split of 2³² chunks or more.
    ///
    /// # Panics
    /// If `chunk` is 0.
    pub fn new(
        seed: u64,
        split: Split,
        len: usize,
        chunk: Option<usize>,
        batch_size: usize,
        drop_last: bool,
    ) -> Result<Self, SampleError> {
        if batch_size == 0 {
            return Err(InvalidOption::BatchSizeZero.into());
        }
        assert!(chunk != Some(0), "a chunk has one place at least");
        let order = |chunk| {
            let count = len.div_ceil(chunk);
            SeedOrder::new(seed, split, count, true, count.max(1), false)
        };
        let chunks = chunk.map(order).transpose()?;
        // A chunk longer than the split is the whole split.
        let chunk = chunk.unwrap_or(len).min(len).max(1);
        let used = if drop_last { len - len % batch_size } else { len };
        let short_at = len.div_ceil(chunk).saturating_sub(1);
        Ok(Self { chunks, chunk, len, batch_size, used, short_at })
    }

    /// Whether [`prepare`](Self::prepare) uses the current rayon pool, which must then exist.
    #[must_use]
    pub fn uses_threads(&self) -> bool {
        self.chunks.as_ref().is_some_and(SeedOrder::uses_threads)
    }

    /// Orders the places of `epoch`. Uses the current rayon pool for many chunks; the order does not depend on it.
    ///
    /// # Errors
    /// An epoch above [`MAX_EPOCH`](crate::MAX_EPOCH).
    pub fn prepare(&mut self, epoch: u32) -> Result<(), SampleError> {
        let Some(chunks) = &mut self.chunks else { return Ok(()) };
        chunks.prepare(epoch)?;
        let last = self.len.div_ceil(self.chunk).saturating_sub(1) as u32;
        self.short_at = chunks.batch(0).iter().position(|chunk| *chunk == last).unwrap_or(0);
        Ok(())
    }

    /// Batches in an epoch.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.used.div_ceil(self.batch_size)
    }

    /// The places of batch `batch` in the epoch prepared last, as runs of consecutive places; none if there is no such
    /// batch. These are at most ⌈batch size / chunk⌉ + 2.
    pub fn batch(&self, batch: usize) -> impl Iterator<Item = Range<usize>> {
        let begin = batch.saturating_mul(self.batch_size).min(self.used);
        let end = begin.saturating_add(self.batch_size).min(self.used);
        let mut at = begin;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let run = self.rest_of_chunk(at);
            let run = run.start..run.end.min(run.start + (end - at));
            at += run.len();
            Some(run)
        })
    }

    /// The places from the epoch's `at`-th to the end of its chunk.
    fn rest_of_chunk(&self, at: usize) -> Range<usize> {
        let missing = self.len.div_ceil(self.chunk) * self.chunk - self.len;
        // Chunks after the shorter one begin that much earlier.
        let short_end = (self.short_at + 1) * self.chunk - missing;
        let from_first = if at < short_end { at } else { at + missing };
        let (turn, within) = (from_first / self.chunk, from_first % self.chunk);
        let chunk = self.chunks.as_ref().map_or(turn, |chunks| chunks.batch(0)[turn] as usize);
        let first = chunk * self.chunk;
        first + within..(first + self.chunk).min(self.len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn order(len: usize, chunk: Option<usize>, batch_size: usize, drop_last: bool) -> ChunkOrder {
        let mut order = ChunkOrder::new(7, Split::Train, len, chunk, batch_size, drop_last).unwrap();
        order.prepare(3).unwrap();
        order
    }

    fn places(order: &ChunkOrder, batch: usize) -> Vec<usize> {
        order.batch(batch).flatten().collect()
    }

    #[test]
    fn chunks_of_one_place_are_the_order_of_seeds() {
        for (len, batch_size, drop_last) in [(0, 4, false), (1, 4, false), (103, 10, false), (103, 10, true)]
        {
            let mut seeds = SeedOrder::new(7, Split::Train, len, true, batch_size, drop_last).unwrap();
            seeds.prepare(3).unwrap();
            let order = order(len, Some(1), batch_size, drop_last);
            assert_eq!(order.batches(), seeds.batches());
            for batch in 0..=seeds.batches() {
                let expected: Vec<usize> = seeds.batch(batch).iter().map(|&place| place as usize).collect();
                assert_eq!(places(&order, batch), expected, "{len} {batch}");
            }
        }
    }

    #[test]
    fn an_order_that_is_not_shuffled_is_one_run_a_batch() {
        let order = order(10, None, 4, false);
        let runs = |batch| order.batch(batch).map(|run| (run.start, run.end)).collect::<Vec<_>>();
        let expected = [vec![(0, 4)], vec![(4, 8)], vec![(8, 10)], vec![]];
        assert_eq!([runs(0), runs(1), runs(2), runs(3)], expected);
    }

    #[test]
    fn each_epoch_reorders_the_chunks_independently_of_earlier_epochs() {
        let epoch = |epochs: &[u32]| {
            let mut order = ChunkOrder::new(7, Split::Train, 95, Some(10), 20, false).unwrap();
            epochs.iter().for_each(|epoch| order.prepare(*epoch).unwrap());
            (0..5).map(|batch| places(&order, batch)).collect::<Vec<_>>()
        };
        assert_ne!(epoch(&[0]), epoch(&[1]));
        assert_eq!(epoch(&[1]), epoch(&[0, 5, 1]));
    }

    #[test]
    fn impossible_orders_are_refused() {
        assert!(ChunkOrder::new(7, Split::Train, 5, Some(2), 0, false).is_err());
        let most = 1_usize << 32;
        assert!(ChunkOrder::new(7, Split::Train, most, Some(1), 9, false).is_err());
    }

    proptest! {
        #[test]
        fn every_place_comes_once_an_epoch_in_few_runs(
            len in 0_usize..500,
            chunk in prop::option::of(1_usize..600),
            batch_size in 1_usize..600,
            drop_last: bool,
        ) {
            let order = order(len, chunk, batch_size, drop_last);
            let mut seen = vec![false; len];
            for batch in 0..order.batches() {
                let runs: Vec<_> = order.batch(batch).collect();
                let rows = runs.iter().map(Range::len).sum::<usize>();
                let last = batch + 1 == order.batches();
                prop_assert!(rows == batch_size || last && !drop_last && (1..batch_size).contains(&rows));
                prop_assert!(runs.len() <= batch_size.div_ceil(chunk.unwrap_or(len.max(1))) + 2, "{:?}", runs);
                for place in runs.into_iter().flatten() {
                    prop_assert!(!std::mem::replace(&mut seen[place], true), "{} twice", place);
                }
            }
            let missing = seen.iter().filter(|seen| !**seen).count();
            prop_assert_eq!(missing, if drop_last { len % batch_size } else { 0 });
            prop_assert_eq!(order.batch(order.batches()).count(), 0);
        }
    }
}
