//! Partial sums of a batch by the CPU, for a cache elsewhere that has the other rows.

use std::ops::Range;

use rayon::ThreadPool;
use rayon::prelude::*;
use uva_ops::lists::{Lists, ListsError, Weights};

use super::place::{HostPlace, Reduction, SumPlace, SumSource};
use crate::error::GatherError;

/// The alignment of arrays in the memory for begun sums, so that no two share a cache line.
const ALIGNMENT: usize = 64;

/// The number of ids and list entries from which several threads look them up. For fewer, waking threads takes longer
/// than the lookups.
const PARALLEL_FROM: usize = 1 << 14;

/// The rows of a table that a cache elsewhere has: one bit per row.
#[derive(Debug)]
pub struct KeptRows {
    bits: Vec<u64>,
    rows: usize,
}

impl KeptRows {
    /// Creates the set of rows `ids` of a table of `rows` rows.
    ///
    /// # Errors
    /// [`GatherError::IdOutOfRange`].
    pub fn new(rows: usize, ids: &[i64]) -> Result<Self, GatherError> {
        let mut bits = vec![0; rows.div_ceil(64)];
        for (position, &id) in ids.iter().enumerate() {
            let row = usize::try_from(id).ok().filter(|&row| row < rows);
            let row = row.ok_or(GatherError::IdOutOfRange { position, id, rows })?;
            bits[row / 64] |= 1_u64 << (row % 64);
        }
        Ok(Self { bits, rows })
    }

    /// Whether the cache has this row; false for ids outside of the table.
    pub fn has(&self, id: i64) -> bool {
        let row = usize::try_from(id).ok().filter(|&row| row < self.rows);
        row.is_some_and(|row| self.bits[row / 64] >> (row % 64) & 1 == 1)
    }
}

/// The CPU's part of a batch's sums, and its layout in memory. Each range begins on a cache line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialSums {
    /// int32 for each list: the index of its partial sum, or -1 if it begins at zero.
    pub sum_of: Range<usize>,
    /// int32 for each list: the index of its own row among `own`, or -1 if the cache has it. Empty if own rows are part
    /// of the sums.
    pub own_of: Range<usize>,
    /// The sums of those lists that have an uncached row.
    pub sums: Range<usize>,
    /// The uncached own rows.
    pub own: Range<usize>,
    /// The number of sums.
    pub sum_rows: usize,
    /// The number of own rows.
    pub own_rows: usize,
    /// The number of the batch's ids that the cache has.
    pub kept: u64,
}

/// Bytes of a sum and of an own row; the latter is 0 if own rows are part of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialSumBytes {
    /// Bytes of a sum.
    pub sum: usize,
    /// Bytes of an own row.
    pub own: usize,
}

impl PartialSumBytes {
    /// The memory in bytes that is enough for any batch of `lists` lists.
    #[must_use]
    pub fn room(self, lists: usize) -> usize {
        PartialSums::new(lists, self, lists, lists, 0).bytes()
    }
}

impl PartialSums {
    fn new(lists: usize, bytes: PartialSumBytes, sum_rows: usize, own_rows: usize, kept: u64) -> Self {
        let mut end = 0_usize;
        let mut take = |bytes: usize| {
            let start = end.next_multiple_of(ALIGNMENT);
            end = start.saturating_add(bytes);
            start..end
        };
        let numbers = lists.saturating_mul(size_of::<i32>());
        Self {
            sum_of: take(numbers),
            own_of: take(if bytes.own == 0 { 0 } else { numbers }),
            sums: take(sum_rows.saturating_mul(bytes.sum)),
            own: take(own_rows.saturating_mul(bytes.own)),
            sum_rows,
            own_rows,
            kept,
        }
    }

    /// The used bytes of the memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.own.end
    }

    /// The bytes of sums and rows.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.sums.len() + self.own.len()
    }
}

/// A batch's lists, and the memory for the sums that the CPU begins.
pub struct BeginPlace<'p> {
    /// Aligned to a float32, of [`PartialSumBytes::room`] bytes for these lists.
    pub room: &'p mut [u8],
    /// The lists, over the batch's ids.
    pub lists: Lists<'p, i32>,
    /// The weight of each row.
    pub weights: Weights<'p, f32>,
    /// The weight of id `v`'s row in the sum of list `v`; `None` if own rows are next to the sums.
    pub own: Option<&'p [f32]>,
    /// The maximum of the source's threads that work, at least one.
    pub threads: usize,
}

/// Begins sums: adds the rows that are not in a cache elsewhere, in list order, and skips the others. A list's own row
/// comes last, if it is part of the sum and not cached.
#[derive(Debug)]
pub struct SumBeginner {
    kept: KeptRows,
    bytes: PartialSumBytes,
    /// State of the current batch: whether each id is cached, the results of each thread, and from these the lists of
    /// uncached positions and the own rows.
    is_kept: Vec<bool>,
    found: Vec<MissingRows>,
    offsets: Vec<i32>,
    indices: Vec<i32>,
    weights: Vec<f32>,
    sum_of: Vec<i32>,
    own_of: Vec<i32>,
    own_ids: Vec<i64>,
}

impl SumBeginner {
    /// Creates a beginner for sums and own rows of these sizes; the cache has the rows `kept`.
    #[must_use]
    pub fn new(kept: KeptRows, bytes: PartialSumBytes) -> Self {
        let (is_kept, found, own_ids, weights) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let [offsets, indices, sum_of, own_of] = [const { Vec::new() }; 4];
        Self { kept, bytes, is_kept, found, offsets, indices, weights, sum_of, own_of, own_ids }
    }

    /// Begins the sums of a batch of these ids, with rows of `source`.
    ///
    /// # Errors
    /// As [`RowSource::submit`](crate::RowSource::submit), [`GatherError::Lists`], and [`GatherError::OutputLength`]
    /// for less memory than [`PartialSumBytes::room`].
    ///
    /// # Panics
    /// If there is less than one weight per edge, or the memory is not aligned.
    pub fn begin(
        &mut self,
        source: &mut dyn SumSource,
        ids: &[i64],
        place: BeginPlace<'_>,
    ) -> Result<PartialSums, GatherError> {
        source.check(ids)?;
        let BeginPlace { room, lists, weights, own, threads } = place;
        if lists.rows() != ids.len() || lists.len() > ids.len() {
            return Err(ListsError::Index(ids.len()).into());
        }
        self.split((source.pool(), threads), ids, &lists, (weights, own))?;
        let (sum_rows, own_rows) = (self.offsets.len() - 1, self.own_ids.len());
        let kept = self.is_kept.iter().filter(|&&kept| kept).count() as u64;
        let begun = PartialSums::new(lists.len(), self.bytes, sum_rows, own_rows, kept);
        if begun.bytes() > room.len() {
            let (ids, row_bytes, length) = (sum_rows, self.bytes.sum, room.len());
            return Err(GatherError::OutputLength { ids, row_bytes, length });
        }
        room[begun.sum_of.clone()].copy_from_slice(bytemuck::cast_slice(&self.sum_of));
        if !begun.own_of.is_empty() {
            room[begun.own_of.clone()].copy_from_slice(bytemuck::cast_slice(&self.own_of));
        }
        if sum_rows > 0 {
            let place = SumPlace {
                argmax: &mut [],
                out: bytemuck::cast_slice_mut(&mut room[begun.sums.clone()]),
                own: &mut [],
                lists: Lists::new(&self.offsets, &self.indices, ids.len())?,
                reduction: Reduction::Sum { weights: Weights::Each(&self.weights), own: None },
                threads,
            };
            source.fill(ids, place)?;
        }
        if own_rows > 0 {
            source.fill_rows(&self.own_ids, HostPlace { out: &mut room[begun.own.clone()], threads })?;
        }
        Ok(begun)
    }

    /// Records the lists of uncached rows, with at most `threads` threads. The result does not depend on the threads.
    fn split(
        &mut self,
        (pool, threads): (Option<&ThreadPool>, usize),
        ids: &[i64],
        lists: &Lists<'_, i32>,
        weights: (Weights<'_, f32>, Option<&[f32]>),
    ) -> Result<(), GatherError> {
        if let (Weights::Heads(_, heads), _) = weights {
            return Err(ListsError::Heads { width: 1, heads }.into());
        }
        let Self {
            kept, is_kept, found, offsets, indices, weights: weighed, sum_of, own_of, own_ids, ..
        } = self;
        let pool = pool.filter(|_| ids.len() + lists.indices().len() >= PARALLEL_FROM);
        let threads = pool.map_or(1, |pool| threads.clamp(1, pool.current_num_threads()));
        is_kept.resize(ids.len(), false);
        let share = ids.len().div_ceil(threads).max(1);
        let look_up = |(is_kept, ids): (&mut [bool], &[i64])| {
            is_kept.iter_mut().zip(ids).for_each(|(is_kept, &id)| *is_kept = kept.has(id));
        };
        each(pool, is_kept.chunks_mut(share).zip(ids.chunks(share)).collect(), look_up);
        let is_kept = &*is_kept;
        found.resize_with(threads, MissingRows::default);
        let parts: Vec<_> = found.iter_mut().zip(shares(lists, threads)).collect();
        each(pool, parts, |(found, part)| found.look_through(part, (is_kept, ids), lists, weights));

        [&mut *offsets, indices, sum_of, own_of].into_iter().for_each(Vec::clear);
        weighed.clear();
        own_ids.clear();
        offsets.push(0);
        for part in found {
            // Local ids are 32 bits, and so are indices of lists.
            let (sums, owns) = (offsets.len() as i32 - 1, own_ids.len() as i32);
            let entries = indices.len();
            for &end in &part.ends {
                let end = entries + end;
                offsets.push(i32::try_from(end).map_err(|_| ListsError::Offsets(end))?);
            }
            let behind = |before: i32| move |&number: &i32| if number < 0 { number } else { before + number };
            sum_of.extend(part.sum_of.iter().map(behind(sums)));
            own_of.extend(part.own_of.iter().map(behind(owns)));
            indices.extend_from_slice(&part.indices);
            weighed.extend_from_slice(&part.weights);
            own_ids.extend_from_slice(&part.own_ids);
        }
        Ok(())
    }
}

/// Runs `run` on each task, by these threads if there are several.
fn each<T: Send>(pool: Option<&ThreadPool>, tasks: Vec<T>, run: impl Fn(T) + Sync + Send) {
    match pool {
        Some(pool) if tasks.len() > 1 => pool.install(|| tasks.into_par_iter().for_each(run)),
        _ => tasks.into_iter().for_each(run),
    }
}

/// Divides the lists into consecutive parts with about the same number of entries.
fn shares(lists: &Lists<'_, i32>, parts: usize) -> impl Iterator<Item = Range<usize>> {
    let entries = lists.indices().len();
    let mut begin = 0;
    (1..=parts).map(move |part| {
        let first = begin;
        begin = if part == parts { lists.len() } else { first };
        while begin < lists.len() && lists.edges(begin).start < entries * part / parts {
            begin += 1;
        }
        first..begin
    })
}

/// The uncached rows of a part of the lists, numbered from the start of the part.
#[derive(Debug, Default)]
struct MissingRows {
    /// The end of each sum's entries.
    ends: Vec<usize>,
    indices: Vec<i32>,
    weights: Vec<f32>,
    sum_of: Vec<i32>,
    own_of: Vec<i32>,
    own_ids: Vec<i64>,
}

impl MissingRows {
    /// Searches this part of the lists.
    fn look_through(
        &mut self,
        part: Range<usize>,
        (is_kept, ids): (&[bool], &[i64]),
        lists: &Lists<'_, i32>,
        (weights, own): (Weights<'_, f32>, Option<&[f32]>),
    ) {
        let Self { ends, indices, weights: weighed, sum_of, own_of, own_ids } = self;
        [&mut *indices, sum_of, own_of].into_iter().for_each(Vec::clear);
        ends.clear();
        weighed.clear();
        own_ids.clear();
        for list in part {
            let edges = lists.edges(list);
            let mean = (1.0 / edges.len() as f64) as f32;
            let before = indices.len();
            for edge in edges.filter(|&edge| !is_kept[lists.row(edge)]) {
                indices.push(lists.indices()[edge]);
                weighed.push(match weights {
                    Weights::Each(weights) => weights[edge],
                    Weights::Mean => mean,
                    Weights::One | Weights::Heads(..) => 1.0,
                });
            }
            let missed = !is_kept[list];
            match own {
                Some(own) if missed => {
                    // Local ids are 32 bits.
                    indices.push(list as i32);
                    weighed.push(own[list]);
                }
                None if missed => {
                    own_of.push(own_ids.len() as i32);
                    own_ids.push(ids[list]);
                }
                _ => own_of.push(-1),
            }
            if indices.len() == before {
                sum_of.push(-1);
            } else {
                sum_of.push(ends.len() as i32);
                ends.push(indices.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::MappedTable;
    use crate::stack::{SummedValues, SummingSource};

    /// A table of rows of two float32: row `i` is `[i, 10 i]`.
    fn table() -> Vec<u8> {
        (0..100).flat_map(|row| [row as f32, 10.0 * row as f32]).flat_map(f32::to_le_bytes).collect()
    }

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|value| f32::from_ne_bytes(*value)).collect()
    }

    fn numbers(bytes: &[u8]) -> Vec<i32> {
        bytes.as_chunks().0.iter().map(|number| i32::from_ne_bytes(*number)).collect()
    }

    /// Three lists over six ids, of which the cache has two: {20, 21, 20}, {}, {10, 22}; the destinations are 10, 11, 12.
    fn begun(kept: &[i64], own: Option<&[f32]>) -> (PartialSums, Vec<u8>) {
        let table = table();
        let values = SummedValues { narrow: None, widened_own: false };
        let mut source = SummingSource::new(MappedTable::new(&table, 8, 2).unwrap(), values).unwrap();
        let ids = [10, 11, 12, 20, 21, 22];
        let bytes = PartialSumBytes { sum: 8, own: if own.is_some() { 0 } else { 8 } };
        let mut beginner = SumBeginner::new(KeptRows::new(100, kept).unwrap(), bytes);
        // Words, so that floats are aligned.
        let mut room = vec![0_u64; bytes.room(3) / 8];
        let place = BeginPlace {
            room: bytemuck::cast_slice_mut(&mut room),
            lists: Lists::new(&[0, 3, 3, 5], &[3, 4, 3, 0, 5], 6).unwrap(),
            weights: Weights::Mean,
            own,
            threads: 2,
        };
        let begun = beginner.begin(&mut source, &ids, place).unwrap();
        (begun, bytemuck::cast_slice(&room).to_vec())
    }

    #[test]
    fn rows_that_are_kept_are_left_out_with_the_weights_of_whole_lists() {
        let (begun, room) = begun(&[20, 11, 22], None);
        assert_eq!((begun.sum_rows, begun.own_rows, begun.kept, begun.row_bytes()), (2, 2, 3, 32));
        assert_eq!(numbers(&room[begun.sum_of]), [0, -1, 1]);
        assert_eq!(numbers(&room[begun.own_of]), [0, -1, 1]);
        let third = (1.0_f64 / 3.0) as f32;
        assert_eq!(floats(&room[begun.sums]), [21.0 * third, 210.0 * third, 5.0, 50.0]);
        assert_eq!(floats(&room[begun.own]), [10.0, 100.0, 12.0, 120.0]);
    }

    #[test]
    fn an_own_row_that_is_not_kept_ends_the_begun_sum_where_it_belongs() {
        let (begun, room) = begun(&[20, 21, 10], Some(&[0.5, 0.25, 2.0]));
        // The first list hits wholly, and so does its own row.
        assert_eq!((begun.sum_rows, begun.own_rows, begun.kept), (2, 0, 3));
        assert_eq!(numbers(&room[begun.sum_of]), [-1, 0, 1]);
        assert_eq!((begun.own_of.len(), begun.own.len()), (0, 0));
        assert_eq!(floats(&room[begun.sums]), [2.75, 27.5, 11.0 + 24.0, 110.0 + 240.0]);
    }

    #[test]
    fn with_everything_kept_nothing_is_begun_and_with_nothing_everything() {
        let (all, room) = begun(&[10, 11, 12, 20, 21, 22], None);
        assert_eq!((all.sum_rows, all.own_rows, all.kept, all.row_bytes()), (0, 0, 6, 0));
        assert_eq!(numbers(&room[all.sum_of]), [-1; 3]);
        let (none, room) = begun(&[], None);
        // An empty list has no partial sum.
        assert_eq!((none.sum_rows, none.own_rows, none.kept), (2, 3, 0));
        assert_eq!(numbers(&room[none.sum_of]), [0, -1, 1]);
    }

    #[test]
    fn what_is_begun_is_the_same_by_any_number_of_threads() {
        let (rows, lists) = (3000_usize, 2500_usize);
        let table: Vec<u8> =
            (0..2 * rows).flat_map(|at| ((at * 7919 % 1013) as f32 / 97.0).to_le_bytes()).collect();
        let ids: Vec<i64> = (0..rows as i64).map(|id| id * 1117 % rows as i64).collect();
        // Some lists are empty, one is much longer than the others, and so are the last ones.
        let length = |v: usize| {
            if v == 700 {
                5000
            } else if v > 2480 {
                0
            } else {
                v * 31 % 17
            }
        };
        let (mut offsets, mut indices) = (vec![0], Vec::new());
        for v in 0..lists {
            indices.extend((0..length(v)).map(|edge| ((v * 131 + edge * 613) % rows) as i32));
            offsets.push(indices.len() as i32);
        }
        assert!(indices.len() > PARALLEL_FROM);
        let weights: Vec<f32> = (0..indices.len()).map(|edge| (edge % 29) as f32 / 7.0).collect();
        let own: Vec<f32> = (0..lists).map(|v| v as f32 / 300.0).collect();
        let kept: Vec<i64> = (0..rows as i64).filter(|id| id % 3 != 0).collect();
        let values = SummedValues { narrow: None, widened_own: false };
        for own in [None, Some(&own[..])] {
            let bytes = PartialSumBytes { sum: 8, own: if own.is_some() { 0 } else { 8 } };
            let begun_by = |threads: usize| {
                let mut source =
                    SummingSource::new(MappedTable::new(&table, 8, threads).unwrap(), values).unwrap();
                let mut beginner = SumBeginner::new(KeptRows::new(rows, &kept).unwrap(), bytes);
                let mut room = vec![0_u64; bytes.room(lists).div_ceil(8)];
                let mut begin = |lists: Lists<'_, i32>, weights: Weights<'_, f32>| {
                    let room = bytemuck::cast_slice_mut(&mut room);
                    let place =
                        BeginPlace { room, lists, weights, own: own.map(|own| &own[..lists.len()]), threads };
                    beginner.begin(&mut source, &ids, place).unwrap()
                };
                // No state of an earlier batch remains.
                begin(Lists::new(&[0, 2], &[3, 5], rows).unwrap(), Weights::One);
                let lists = Lists::new(&offsets, &indices, rows).unwrap();
                let begun = begin(lists, Weights::Each(&weights));
                (begun.clone(), room)
            };
            let (alone, room) = begun_by(1);
            assert!(alone.sum_rows > 1000 && alone.kept == kept.len() as u64, "{alone:?}");
            for threads in [2, 3, 8] {
                assert!(begun_by(threads) == (alone.clone(), room.clone()), "{threads} threads");
            }
        }
    }

    #[test]
    fn ids_that_are_not_rows_and_too_little_room_are_refused() {
        assert!(matches!(KeptRows::new(100, &[3, 100]), Err(GatherError::IdOutOfRange { position: 1, .. })));
        let kept = KeptRows::new(100, &[99, 0]).unwrap();
        assert_eq!(
            [-1, 0, 1, 99, 100, i64::MAX].map(|id| kept.has(id)),
            [false, true, false, true, false, false]
        );
        let table = table();
        let values = SummedValues { narrow: None, widened_own: false };
        let mut source = SummingSource::new(MappedTable::new(&table, 8, 1).unwrap(), values).unwrap();
        let bytes = PartialSumBytes { sum: 8, own: 8 };
        let mut beginner = SumBeginner::new(kept, bytes);
        let mut begin = |ids: &[i64], room: usize| {
            let mut words = vec![0_u64; room / 8];
            let room = bytemuck::cast_slice_mut(&mut words);
            let lists = Lists::new(&[0, 1], &[1], 2).unwrap();
            let place = BeginPlace { room, lists, weights: Weights::One, own: None, threads: 1 };
            beginner.begin(&mut source, ids, place)
        };
        assert!(begin(&[5, 6], bytes.room(1)).is_ok());
        assert!(matches!(begin(&[5, 6], bytes.room(1) - 64), Err(GatherError::OutputLength { .. })));
        assert!(matches!(begin(&[5, 100], 4096), Err(GatherError::IdOutOfRange { position: 1, .. })));
        assert!(matches!(begin(&[5, 6, 7], 4096), Err(GatherError::Lists(_))));
    }
}
