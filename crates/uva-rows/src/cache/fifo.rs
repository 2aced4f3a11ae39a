//! First in, first out: what was missed last is kept, in slots that are used again in turns.

use rayon::prelude::*;
use uva_cuda::kernels::cache::CacheInsertion;
use uva_mem::ZeroedPages;

use super::{CacheView, NO_SLOT, SlotMap, check_capacity, zeroed_pages};
use crate::GatherError;
use crate::host::RowId;

/// Which row has which slot, without the rows themselves: for a cache wherever its rows lie.
#[derive(Debug)]
pub(crate) struct FifoSlots {
    map: SlotMap,
    /// The row in each slot; -1 for a free one.
    owners: Vec<i64>,
    /// The slot that is used next.
    next: usize,
    /// Positions of a batch's misses, kept for its memory.
    misses: Vec<usize>,
    /// What the last batch changed.
    insertions: Vec<CacheInsertion>,
}

impl FifoSlots {
    /// `capacity` slots, at most as many as the table has rows, all free.
    ///
    /// # Errors
    /// [`GatherError::TooManyCached`], [`GatherError::CacheMemory`].
    pub fn new(table_rows: usize, capacity: usize) -> Result<Self, GatherError> {
        let capacity = capacity.min(table_rows);
        check_capacity(capacity)?;
        let map = SlotMap::new(table_rows)?;
        let mut owners = Vec::new();
        owners.try_reserve_exact(capacity).map_err(|error| GatherError::CacheMemory {
            bytes: 8 * capacity as u128,
            reason: error.to_string(),
        })?;
        owners.resize(capacity, -1);
        Ok(Self { map, owners, next: 0, misses: Vec::new(), insertions: Vec::new() })
    }

    pub fn capacity(&self) -> usize {
        self.owners.len()
    }

    pub fn map(&self) -> &[i32] {
        self.map.slots()
    }

    /// Takes in the misses of a batch whose rows have all been looked up: each gets the next slot, in the order of the
    /// batch. A batch with an id that is no row changes nothing.
    ///
    /// What comes back are the slots that changed, each once, with what it holds in the end, ascending from the one
    /// that was next, modulo the capacity. No row is in there twice, be it as evicted or as inserted.
    pub fn insert_misses<I: RowId>(&mut self, ids: &[I]) -> &[CacheInsertion] {
        self.insertions.clear();
        let map = self.map.slots_mut();
        let rows = map.len();
        // Misses first: an insertion may evict what a later id of this batch has been read from.
        self.misses.clear();
        let capacity = self.owners.len();
        if capacity == 0 || !ids.iter().all(|id| id.is_below(rows)) {
            return &self.insertions;
        }
        self.misses.extend((0..ids.len()).filter(|&position| map[ids[position].index()] == NO_SLOT));
        for &position in &self.misses {
            let id = ids[position].index();
            // The same id before in this batch.
            if map[id] != NO_SLOT {
                continue;
            }
            let slot = self.next;
            self.next = if slot + 1 == capacity { 0 } else { slot + 1 };
            let owner = std::mem::replace(&mut self.owners[slot], id as i64);
            if owner >= 0 {
                map[owner as usize] = NO_SLOT;
            }
            map[id] = slot as i32;
            // A slot that goes to a second row of this batch was not seen with the first: it is the row before the
            // batch that loses it.
            let before = self.insertions.len().checked_sub(capacity);
            let evicted = before.map_or(owner, |before| self.insertions[before].evicted);
            let insertion =
                CacheInsertion { evicted, inserted: id as i64, position: position as u64, slot: slot as i64 };
            self.insertions.push(insertion);
        }
        let outlived = self.insertions.len().saturating_sub(capacity);
        self.insertions.drain(..outlived);
        &self.insertions
    }
}

/// A dynamic cache in host memory (BGL): after each gather the rows that it missed come in, in the order of their
/// ids, into slots that are used in turns; what was in a slot is gone. Nothing is cached at first.
#[derive(Debug)]
pub struct FifoCache {
    slots: FifoSlots,
    rows: ZeroedPages,
    row_bytes: usize,
}

impl FifoCache {
    /// A cache of `capacity` rows of `row_bytes` bytes (at least 1) for a table of `table_rows` rows; at most that many
    /// are kept. With a capacity of 0 nothing ever hits.
    ///
    /// # Errors
    /// [`GatherError::TooManyCached`] above [`MOST_CACHED_ROWS`](super::MOST_CACHED_ROWS);
    /// [`GatherError::CacheMemory`].
    pub fn new(table_rows: usize, row_bytes: usize, capacity: usize) -> Result<Self, GatherError> {
        let slots = FifoSlots::new(table_rows, capacity)?;
        let rows = zeroed_pages(row_bytes, slots.capacity())?;
        Ok(Self { slots, rows, row_bytes })
    }

    /// Rows that it keeps at most.
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Bytes of that many rows; the map comes on top: [`map_bytes`](super::map_bytes).
    pub fn bytes(&self) -> u64 {
        self.rows.bytes().len() as u64
    }

    pub(super) fn shape(&self) -> (usize, usize) {
        (self.slots.map().len(), self.row_bytes)
    }

    pub(super) fn view(&self) -> CacheView<'_> {
        CacheView { map: self.slots.map(), rows: self.rows.bytes() }
    }

    /// Takes in what a gather of `ids` missed; `row_at` has the table's row for the id at a position.
    pub(crate) fn insert_misses<'r, I: RowId>(
        &mut self,
        ids: &[I],
        row_at: impl Fn(usize) -> &'r [u8] + Sync,
        pool: Option<&rayon::ThreadPool>,
    ) {
        let row_bytes = self.row_bytes;
        let insertions = self.slots.insert_misses(ids);
        let Some(first) = insertions.first() else { return };
        // Slots go up from the first, and once round at most: two stretches of the rows.
        let (wrapped, ahead) = self.rows.bytes_mut().split_at_mut(first.slot as usize * row_bytes);
        let (here, round) = insertions.split_at(insertions.len().min(ahead.len() / row_bytes));
        let copy = |(row, insertion): (&mut [u8], &CacheInsertion)| {
            row.copy_from_slice(row_at(insertion.position as usize));
        };
        for (rows, insertions) in [(ahead, here), (wrapped, round)] {
            match pool {
                Some(pool) if insertions.len() * row_bytes > 1 << 20 => pool.install(|| {
                    let rows = rows.par_chunks_exact_mut(row_bytes).with_min_len(256);
                    rows.zip(insertions).for_each(copy);
                }),
                _ => rows.chunks_exact_mut(row_bytes).zip(insertions).for_each(copy),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots_of(fifo: &FifoSlots) -> Vec<(usize, i32)> {
        fifo.map().iter().copied().enumerate().filter(|&(_, slot)| slot != NO_SLOT).collect()
    }

    fn changes(fifo: &mut FifoSlots, ids: &[i64]) -> Vec<(i64, i64, u64, i64)> {
        fifo.insert_misses(ids).iter().map(|i| (i.evicted, i.inserted, i.position, i.slot)).collect()
    }

    #[test]
    fn misses_take_slots_in_turns_and_evict_what_was_there() {
        let mut fifo = FifoSlots::new(10, 3).unwrap();
        assert_eq!(changes(&mut fifo, &[7, 2]), [(-1, 7, 0, 0), (-1, 2, 1, 1)]);
        assert_eq!(changes(&mut fifo, &[2, 5, 9]), [(-1, 5, 1, 2), (7, 9, 2, 0)]);
        assert_eq!(slots_of(&fifo), [(2, 1), (5, 2), (9, 0)]);
        assert_eq!(changes(&mut fifo, &[9, 5, 2]), []);
    }

    #[test]
    fn a_row_that_was_hit_and_then_evicted_by_its_own_batch_is_not_taken_in_again() {
        let mut fifo = FifoSlots::new(10, 2).unwrap();
        changes(&mut fifo, &[1, 2]);
        // 3 evicts 1, which was a hit of this batch.
        assert_eq!(changes(&mut fifo, &[3, 1]), [(1, 3, 0, 0)]);
        assert_eq!(slots_of(&fifo), [(2, 1), (3, 0)]);
    }

    #[test]
    fn more_misses_than_slots_leave_the_last_ones_and_name_what_was_there_before_the_batch() {
        let mut fifo = FifoSlots::new(20, 3).unwrap();
        changes(&mut fifo, &[0, 1, 2, 3]);
        assert_eq!(slots_of(&fifo), [(1, 1), (2, 2), (3, 0)]);
        let changed = changes(&mut fifo, &[10, 11, 12, 13, 14, 15, 16]);
        assert_eq!(changed, [(2, 14, 4, 2), (3, 15, 5, 0), (1, 16, 6, 1)]);
        assert_eq!(slots_of(&fifo), [(14, 2), (15, 0), (16, 1)]);
    }

    #[test]
    fn repeated_misses_come_in_once() {
        let mut fifo = FifoSlots::new(5, 3).unwrap();
        assert_eq!(changes(&mut fifo, &[4, 4, 0, 4]), [(-1, 4, 0, 0), (-1, 0, 2, 1)]);
    }

    #[test]
    fn a_batch_with_a_bad_id_changes_nothing() {
        let mut fifo = FifoSlots::new(5, 3).unwrap();
        for bad in [-1, 5, i64::MAX, i64::MIN] {
            assert_eq!(changes(&mut fifo, &[4, bad, 1]), []);
        }
        assert_eq!(slots_of(&fifo), []);
    }

    #[test]
    fn no_slots_keep_nothing_and_no_more_slots_are_made_than_there_are_rows() {
        let mut fifo = FifoSlots::new(5, 0).unwrap();
        assert_eq!(changes(&mut fifo, &[1, 2]), []);
        assert_eq!(changes(&mut fifo, &[1, 2]), []);
        assert_eq!(FifoSlots::new(5, usize::MAX).unwrap().capacity(), 5);
    }
}
