//! First in, first out: slots are used round-robin (BGL, Liu et al., NSDI 2023, §3.2).

use super::policy::Eviction;
use super::slots::SlotOrder;

pub(super) static POLICY: Eviction =
    Eviction::new::<Fifo>("fifo", "Rows that were read last; the cache changes during the run (BGL)");

/// The next slot of a round.
#[derive(Debug)]
struct Fifo {
    capacity: usize,
    next: usize,
}

impl SlotOrder for Fifo {
    const SEES_HITS: bool = false;

    fn new(capacity: usize) -> Self {
        Self { capacity, next: 0 }
    }

    fn hit(&mut self, _: usize) {}

    fn next_slot(&mut self) -> usize {
        let slot = self.next;
        self.next = if slot + 1 == self.capacity { 0 } else { slot + 1 };
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::eviction::slots::{EvictingSlots, PolicySlots};
    use crate::cache::slot_map::NO_SLOT;

    type FifoSlots = PolicySlots<Fifo>;

    fn slots_of(fifo: &FifoSlots) -> Vec<(usize, i32)> {
        fifo.map().iter().copied().enumerate().filter(|&(_, slot)| slot != NO_SLOT).collect()
    }

    fn changes(fifo: &mut FifoSlots, ids: &[i64]) -> Vec<(i64, i64, u64, i64)> {
        fifo.insert_misses(ids).iter().map(|i| (i.evicted, i.inserted, i.position, i.slot)).collect()
    }

    #[test]
    fn misses_take_slots_in_order_and_evict_their_rows() {
        let mut fifo = FifoSlots::new(10, 3).unwrap();
        assert_eq!(changes(&mut fifo, &[7, 2]), [(-1, 7, 0, 0), (-1, 2, 1, 1)]);
        assert_eq!(changes(&mut fifo, &[2, 5, 9]), [(-1, 5, 1, 2), (7, 9, 2, 0)]);
        assert_eq!(slots_of(&fifo), [(2, 1), (5, 2), (9, 0)]);
        assert_eq!(changes(&mut fifo, &[9, 5, 2]), []);
    }

    #[test]
    fn a_row_hit_and_then_evicted_by_its_own_batch_is_not_taken_in_again() {
        let mut fifo = FifoSlots::new(10, 2).unwrap();
        changes(&mut fifo, &[1, 2]);
        // 3 evicts 1, which was a hit of this batch.
        assert_eq!(changes(&mut fifo, &[3, 1]), [(1, 3, 0, 0)]);
        assert_eq!(slots_of(&fifo), [(2, 1), (3, 0)]);
    }

    #[test]
    fn more_misses_than_slots_keep_the_last_and_name_the_previous_rows() {
        let mut fifo = FifoSlots::new(20, 3).unwrap();
        changes(&mut fifo, &[0, 1, 2, 3]);
        assert_eq!(slots_of(&fifo), [(1, 1), (2, 2), (3, 0)]);
        let changed = changes(&mut fifo, &[10, 11, 12, 13, 14, 15, 16]);
        assert_eq!(changed, [(1, 16, 6, 1), (2, 14, 4, 2), (3, 15, 5, 0)]);
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
    fn zero_slots_keep_no_row_and_slots_are_at_most_the_rows() {
        let mut fifo = FifoSlots::new(5, 0).unwrap();
        assert_eq!(changes(&mut fifo, &[1, 2]), []);
        assert_eq!(changes(&mut fifo, &[1, 2]), []);
        assert_eq!(FifoSlots::new(5, usize::MAX).unwrap().capacity(), 5);
    }
}
