//! Least recently used, and least frequently used. Each hit moves its row in a tree, which is too slow for a run, so
//! both are simulated only.

use std::collections::BTreeSet;

use super::policy::Eviction;
use super::slots::SlotOrder;

pub(super) static LRU: Eviction =
    Eviction::new::<Ranked<false>>("lru", "The rows that were used last (simulated only)");

pub(super) static LFU: Eviction = Eviction::new::<Ranked<true>>(
    "lfu",
    "The rows that were used most often since they came in; of equal ones those that were used last (simulated only)",
);

/// The use count of a slot's row since its insertion (0 if the policy does not count), and the time of its last use.
type Rank = (u64, u64);

/// Slots by the rank of their rows. The lowest is evicted.
#[derive(Debug)]
struct Ranked<const COUNTS: bool> {
    /// The rank of each used slot; the other slots are free.
    ranks: Vec<Rank>,
    /// The same slots by their ranks. No two ranks are equal, since no two uses are at the same time.
    order: BTreeSet<(Rank, usize)>,
    capacity: usize,
    /// The number of uses so far.
    time: u64,
}

impl<const COUNTS: bool> Ranked<COUNTS> {
    fn rank(&mut self, uses: u64) -> Rank {
        self.time += 1;
        (if COUNTS { uses } else { 0 }, self.time)
    }
}

impl<const COUNTS: bool> SlotOrder for Ranked<COUNTS> {
    const SEES_HITS: bool = true;

    fn new(capacity: usize) -> Self {
        Self { ranks: Vec::with_capacity(capacity), order: BTreeSet::new(), capacity, time: 0 }
    }

    fn hit(&mut self, slot: usize) {
        let before = self.ranks[slot];
        let rank = self.rank(before.0 + 1);
        self.order.remove(&(before, slot));
        self.order.insert((rank, slot));
        self.ranks[slot] = rank;
    }

    fn next_slot(&mut self) -> usize {
        let rank = self.rank(1);
        let slot = if self.ranks.len() < self.capacity {
            self.ranks.push(rank);
            self.ranks.len() - 1
        } else {
            // There is at least one slot, so one is in use here.
            let slot = self.order.pop_first().map_or(0, |(_, slot)| slot);
            self.ranks[slot] = rank;
            slot
        };
        self.order.insert((rank, slot));
        slot
    }
}

#[cfg(test)]
mod tests {
    use uva_mem::mix;

    use super::*;
    use crate::cache::eviction::slots::{EvictingSlots, PolicySlots};
    use crate::cache::slot_map::NO_SLOT;

    /// A reference cache: rows with use counts and the time of the last use.
    struct Plain {
        rows: Vec<(i64, u64, u64)>,
        capacity: usize,
        counts: bool,
        time: u64,
    }

    impl Plain {
        fn batch(&mut self, ids: &[i64]) {
            let found: Vec<bool> = ids.iter().map(|id| self.rows.iter().any(|(row, ..)| row == id)).collect();
            for (id, _) in ids.iter().zip(&found).filter(|(_, found)| **found) {
                self.time += 1;
                let row = self.rows.iter_mut().find(|(row, ..)| row == id).unwrap();
                (row.1, row.2) = (row.1 + 1, self.time);
            }
            for (&id, _) in ids.iter().zip(&found).filter(|(_, found)| !**found) {
                if self.rows.iter().any(|(row, ..)| *row == id) {
                    continue;
                }
                if self.rows.len() == self.capacity {
                    let rank =
                        |(_, uses, last): &(i64, u64, u64)| (if self.counts { *uses } else { 0 }, *last);
                    let least = (0..self.capacity).min_by_key(|place| rank(&self.rows[*place])).unwrap();
                    self.rows.swap_remove(least);
                }
                self.time += 1;
                self.rows.push((id, 1, self.time));
            }
        }
    }

    fn held(slots: &dyn EvictingSlots) -> Vec<i64> {
        let map = slots.map().iter().enumerate();
        map.filter(|(_, slot)| **slot != NO_SLOT).map(|(row, _)| row as i64).collect()
    }

    #[test]
    fn they_hold_the_rows_that_a_plain_list_holds() {
        for (policy, counts) in [(&LRU, false), (&LFU, true)] {
            for capacity in [1, 2, 7, 20] {
                let mut slots = policy.slots(40, capacity).unwrap();
                let mut plain = Plain { rows: Vec::new(), capacity, counts, time: 0 };
                for batch in 0..300_u64 {
                    // Low rows come more often.
                    let draw = |place: u64| {
                        (mix(batch << 8 | place) % 40 * (mix(batch << 16 | place) % 40) / 40) as i64
                    };
                    let ids: Vec<i64> = (0..batch % 9).map(draw).collect();
                    slots.insert_misses(&ids);
                    plain.batch(&ids);
                    let mut expected: Vec<i64> = plain.rows.iter().map(|(row, ..)| *row).collect();
                    expected.sort_unstable();
                    assert_eq!(held(&*slots), expected, "{policy:?} {capacity} {batch}");
                }
            }
        }
    }

    #[test]
    fn a_hit_row_outlives_one_without_hits_and_a_frequent_one_a_recent_one() {
        let mut lru = PolicySlots::<Ranked<false>>::new(9, 2).unwrap();
        let mut lfu = PolicySlots::<Ranked<true>>::new(9, 2).unwrap();
        for ids in [&[1][..], &[2], &[1], &[1], &[2], &[3]] {
            lru.insert_misses(ids);
            lfu.insert_misses(ids);
        }
        assert_eq!((held(&lru), held(&lfu)), (vec![2, 3], vec![1, 3]));
    }
}
