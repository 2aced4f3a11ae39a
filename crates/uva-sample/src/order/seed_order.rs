//! The order and the batches in which an epoch visits the nodes of a split.

use std::ops::Range;

use rayon::prelude::*;
use uva_graph::Split;
use uva_ops::{Vectors, vectorized};

use crate::limits::MAX_EPOCH;
use crate::philox::{RandomPurpose, StreamKey, lanes};
use crate::{InvalidOption, SampleError};

/// Number of seeds below which one thread is faster than waking others.
const PARALLEL_FROM: usize = 1 << 15;

/// The approximate number of seeds per bucket of the shuffle. Only a bucket's keys are in memory at a time, 384 KiB per
/// thread; keys of all seeds would need 16 bytes each.
const BUCKET: usize = 1 << 14;
/// The maximum number of buckets, as a power of two: the shuffle writes to all of them alternately.
const MOST_BUCKETS: u32 = 12;

/// The batches of an epoch, as positions in the split's index file.
///
/// If the seeds are shuffled, each epoch has a new order. Every position gets a 64-bit random key and positions are
/// sorted by (key, position), so the order depends on neither threads nor earlier epochs. Otherwise every epoch keeps
/// the order of the file.
pub struct SeedOrder {
    seed: u64,
    split: Split,
    shuffle: bool,
    batch_size: usize,
    /// Seeds in batches: all, or those of the full batches.
    used: usize,
    vectors: Vectors,
    /// Scratch of the shuffle of few seeds.
    bucket: BucketSort,
    order: Vec<u32>,
}

impl SeedOrder {
    /// Creates the order for a split of `len` nodes. Starts in the order of the file; [`prepare`](Self::prepare)
    /// shuffles for an epoch. `drop_last` omits a last batch smaller than `batch_size`.
    ///
    /// # Errors
    /// A batch size of 0, and a split of 2³² nodes or more.
    pub fn new(
        seed: u64,
        split: Split,
        len: usize,
        shuffle: bool,
        batch_size: usize,
        drop_last: bool,
    ) -> Result<Self, SampleError> {
        if batch_size == 0 {
            return Err(InvalidOption::BatchSizeZero.into());
        }
        let Ok(end) = u32::try_from(len) else {
            return Err(InvalidOption::TooManySeeds { split, len }.into());
        };
        Ok(Self {
            seed,
            split,
            shuffle,
            batch_size,
            used: if drop_last { len - len % batch_size } else { len },
            vectors: Vectors::widest(),
            bucket: BucketSort::with_capacity(if shuffle && len < PARALLEL_FROM { len } else { 0 }),
            order: (0..end).collect(),
        })
    }

    /// Whether [`prepare`](Self::prepare) uses the current rayon pool, which must then exist.
    #[must_use]
    pub fn uses_threads(&self) -> bool {
        self.shuffle && self.order.len() >= PARALLEL_FROM
    }

    /// Orders the seeds of `epoch`. Uses the current rayon pool for large splits; the order does not depend on it.
    ///
    /// # Errors
    /// An epoch above [`MAX_EPOCH`].
    pub fn prepare(&mut self, epoch: u32) -> Result<(), SampleError> {
        if epoch > MAX_EPOCH {
            return Err(InvalidOption::Epoch { epoch }.into());
        }
        if !self.shuffle {
            return Ok(());
        }
        let stream = StreamKey {
            seed: self.seed,
            node: 0,
            purpose: RandomPurpose::SeedShuffle,
            layer: 0,
            batch: 0,
            epoch,
            split: self.split,
        };
        let vectors = self.vectors;
        let write_keys = |positions: &[u32], keys: &mut [u64]| keys_of(vectors, &stream, positions, keys);
        if self.order.len() < PARALLEL_FROM {
            (0..).zip(&mut self.order).for_each(|(position, place)| *place = position);
            self.bucket.sort(&mut self.order, 0, write_keys);
        } else {
            sort_in_buckets(&mut self.order, write_keys);
        }
        Ok(())
    }

    /// Batches in an epoch.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.used.div_ceil(self.batch_size)
    }

    /// Seeds in an epoch: all, or those of the full batches.
    #[must_use]
    pub fn seeds(&self) -> usize {
        self.used
    }

    /// Positions, in the split's index file, of the seeds of batch `batch` in the epoch prepared last; empty if there
    /// is no such batch.
    #[must_use]
    pub fn batch(&self, batch: usize) -> &[u32] {
        let begin = batch.saturating_mul(self.batch_size).min(self.used);
        let end = begin.saturating_add(self.batch_size).min(self.used);
        &self.order[begin..end]
    }

    /// All positions, so that another order can overwrite them.
    pub(super) fn order_mut(&mut self) -> &mut [u32] {
        &mut self.order
    }
}

vectorized! {
    /// The random keys of these positions: the first two words of each, the low one first.
    fn keys_of<const LANES: usize>(stream: &StreamKey, positions: &[u32], keys: &mut [u64]) {
        let [_, c1, c2, c3] = stream.counter(0);
        for (positions, keys) in positions.chunks(LANES).zip(keys.chunks_mut(LANES)) {
            let mut c0 = [0; LANES];
            c0[..positions.len()].copy_from_slice(positions);
            let [low, high, ..] = lanes(stream.key(), c0, [c1; LANES], [c2; LANES], c3);
            for (lane, key) in keys.iter_mut().enumerate() {
                *key = u64::from(high[lane]) << 32 | u64::from(low[lane]);
            }
        }
    }
}

/// Sorts positions whose keys begin with the same bits. Its memory is kept for the next bucket.
#[derive(Default)]
struct BucketSort {
    keys: Vec<u64>,
    pairs: Vec<(u64, u32)>,
    ends: Vec<u32>,
}

impl BucketSort {
    /// Room for `len` positions, so that sorting that many allocates nothing.
    fn with_capacity(len: usize) -> Self {
        Self {
            keys: Vec::with_capacity(len),
            pairs: Vec::with_capacity(len),
            ends: Vec::with_capacity(1 << Self::group_bits(len)),
        }
    }

    /// The groups of `len` positions, as a power of two: about four positions each.
    fn group_bits(len: usize) -> u32 {
        (len / 4).max(2).ilog2()
    }

    /// Sorts positions by (key, position). Their keys, which `write_keys` computes, begin with the same `common` bits.
    ///
    /// Keys are random, so the bits that follow divide the positions into groups of a few, in one pass.
    fn sort(&mut self, positions: &mut [u32], common: u32, write_keys: impl Fn(&[u32], &mut [u64])) {
        let Self { keys, pairs, ends } = self;
        keys.resize(positions.len(), 0);
        pairs.resize(positions.len(), (0, 0));
        write_keys(positions, keys);
        let bits = Self::group_bits(positions.len());
        let group = |key: u64| ((key << common) >> (64 - bits)) as usize;
        ends.clear();
        ends.resize(1 << bits, 0);
        keys.iter().for_each(|key| ends[group(*key)] += 1);
        let mut begin = 0;
        for end in &mut *ends {
            // Where the group begins, until its pairs have been written.
            begin += std::mem::replace(end, begin);
        }
        for (key, position) in keys.iter().zip(&*positions) {
            let place = &mut ends[group(*key)];
            pairs[*place as usize] = (*key, *position);
            *place += 1;
        }
        let mut begin = 0;
        for end in &*ends {
            // No two pairs are equal, so an unstable sort has one result.
            pairs[begin..*end as usize].sort_unstable();
            begin = *end as usize;
        }
        positions.iter_mut().zip(&*pairs).for_each(|(place, (_, position))| *place = *position);
    }
}

/// Orders all positions by (key, position). A bucket holds those whose keys begin with the same bits. Each bucket is
/// sorted separately, with recomputed keys. The result is that of one sort.
fn sort_in_buckets(order: &mut [u32], write_keys: impl Fn(&[u32], &mut [u64]) + Sync) {
    let bits = (order.len() / BUCKET).max(2).ilog2().min(MOST_BUCKETS);
    let bucket = |key: u64| (key >> (64 - bits)) as usize;
    // Not truncated: `SeedOrder::new` rejected longer splits.
    let len = order.len() as u32;
    let pieces: Vec<Range<u32>> =
        (0..len).step_by(BUCKET).map(|first| first..len.min(first + BUCKET as u32)).collect();
    let write_piece = |piece: &Range<u32>, positions: &mut Vec<u32>, keys: &mut Vec<u64>| {
        positions.clear();
        positions.extend(piece.clone());
        keys.resize(positions.len(), 0);
        write_keys(positions, keys);
    };
    let counts = pieces
        .par_iter()
        .fold(
            || (vec![0_u32; 1 << bits], Vec::new(), Vec::new()),
            |(mut counts, mut positions, mut keys), piece| {
                write_piece(piece, &mut positions, &mut keys);
                keys.iter().for_each(|key| counts[bucket(*key)] += 1);
                (counts, positions, keys)
            },
        )
        .map(|(counts, ..)| counts)
        .reduce(
            || vec![0; 1 << bits],
            |mut sums, counts| {
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                sums
            },
        );
    let mut begins = Vec::with_capacity(counts.len());
    let mut begin = 0;
    for count in &counts {
        begins.push(begin);
        begin += count;
    }
    let (mut positions, mut keys) = (Vec::new(), Vec::new());
    for piece in &pieces {
        write_piece(piece, &mut positions, &mut keys);
        for (key, position) in keys.iter().zip(&positions) {
            let place = &mut begins[bucket(*key)];
            order[*place as usize] = *position;
            *place += 1;
        }
    }
    let mut rest = order;
    let mut buckets = Vec::with_capacity(counts.len());
    for count in counts {
        let (bucket, others) = rest.split_at_mut(count as usize);
        buckets.push(bucket);
        rest = others;
    }
    buckets
        .into_par_iter()
        .for_each_init(BucketSort::default, |sort, bucket| sort.sort(bucket, bits, &write_keys));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shuffled(len: usize, epoch: u32) -> SeedOrder {
        let mut order = SeedOrder::new(7, Split::Train, len, true, 100, false).unwrap();
        order.prepare(epoch).unwrap();
        order
    }

    #[test]
    fn each_epoch_is_another_permutation() {
        for len in [1, 999, PARALLEL_FROM + 5] {
            let mut orders: Vec<Vec<u32>> = (0..3).map(|epoch| shuffled(len, epoch).order).collect();
            assert!(len == 1 || (orders[0] != orders[1] && orders[1] != orders[2]));
            for order in &mut orders {
                order.sort_unstable();
                assert!(order.iter().copied().eq(0..len as u32));
            }
        }
    }

    #[test]
    fn the_order_depends_on_neither_threads_nor_history() {
        let len = PARALLEL_FROM * 2;
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| shuffled(len, 4).order)
        };
        let one = on(1);
        assert_eq!(one, on(3));
        let mut used = shuffled(len, 9);
        used.prepare(4).unwrap();
        assert_eq!(one, used.order);
    }

    #[test]
    fn an_order_made_in_buckets_is_that_of_one_sort() {
        let sorted = |len: u32, key: &(dyn Fn(u32) -> u64 + Sync)| {
            let mut pairs: Vec<(u64, u32)> = (0..len).map(|position| (key(position), position)).collect();
            pairs.sort_unstable();
            pairs.into_iter().map(|(_, position)| position).collect::<Vec<u32>>()
        };
        for len in [PARALLEL_FROM, 5 * BUCKET + 3, 40 * BUCKET + 1].map(|len| len as u32) {
            // Keys with equal leading bits make one bucket, and one group, of all.
            let spread = |position: u32| (u64::from(position) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let alike = |position: u32| u64::from(!position);
            let equal = |_: u32| 7;
            for key in [&spread as &(dyn Fn(u32) -> u64 + Sync), &alike, &equal] {
                let write_keys = |positions: &[u32], keys: &mut [u64]| {
                    keys.iter_mut().zip(positions).for_each(|(to, position)| *to = key(*position));
                };
                let mut in_buckets = vec![0; len as usize];
                sort_in_buckets(&mut in_buckets, write_keys);
                assert!(in_buckets == sorted(len, key), "{len}");
                let mut one: Vec<u32> = (0..len).collect();
                BucketSort::default().sort(&mut one, 0, write_keys);
                assert!(one == in_buckets, "{len}");
            }
        }
    }

    #[test]
    fn one_thread_and_many_sort_by_the_same_keys() {
        // The parallel path over a longer split holds, among others, the positions of the shorter one.
        let long = shuffled(PARALLEL_FROM + 1, 2);
        let short = shuffled(PARALLEL_FROM - 1, 2);
        let kept: Vec<u32> =
            long.order.iter().copied().filter(|&position| (position as usize) < PARALLEL_FROM - 1).collect();
        assert_eq!(kept, short.order);
    }

    #[test]
    fn an_order_that_is_not_shuffled_is_that_of_the_file_in_every_epoch() {
        for split in Split::ALL {
            let mut order = SeedOrder::new(7, split, 5, false, 2, false).unwrap();
            order.prepare(3).unwrap();
            assert_eq!(order.order, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn every_split_has_an_order_of_its_own() {
        let orders = Split::ALL.map(|split| {
            let mut order = SeedOrder::new(7, split, 100, true, 2, false).unwrap();
            order.prepare(3).unwrap();
            order.order
        });
        assert!(orders[0] != orders[1] && orders[1] != orders[2] && orders[0] != orders[2]);
    }

    #[test]
    fn the_last_partial_batch_is_kept_or_dropped() {
        let lengths = |len, drop_last| -> Vec<usize> {
            let order = SeedOrder::new(7, Split::Train, len, true, 4, drop_last).unwrap();
            assert!(order.batch(order.batches()).is_empty());
            assert!(order.batch(usize::MAX).is_empty());
            let lengths: Vec<usize> = (0..order.batches()).map(|batch| order.batch(batch).len()).collect();
            assert_eq!(lengths.iter().sum::<usize>(), order.seeds());
            lengths
        };
        assert_eq!(lengths(10, false), [4, 4, 2]);
        assert_eq!(lengths(10, true), [4, 4]);
        assert_eq!(lengths(8, false), [4, 4]);
        assert_eq!(lengths(8, true), [4, 4]);
        assert_eq!(lengths(3, false), [3]);
        assert_eq!(lengths(3, true), [0; 0]);
        assert_eq!(lengths(0, false), [0; 0]);
    }

    #[test]
    fn impossible_orders_are_refused() {
        assert!(SeedOrder::new(7, Split::Train, 5, true, 0, false).is_err());
        let too_long = SeedOrder::new(7, Split::Train, 1 << 32, true, 1, false).err();
        assert_eq!(
            too_long,
            Some(SampleError::InvalidOption(InvalidOption::TooManySeeds {
                split: Split::Train,
                len: 1 << 32
            }))
        );
        let mut order = SeedOrder::new(7, Split::Train, 5, true, 2, false).unwrap();
        assert!(order.prepare(MAX_EPOCH).is_ok());
        assert!(order.prepare(MAX_EPOCH + 1).is_err());
    }
}
