//! SIEVE (Zhang et al., NSDI 2024): first in, first out, except that a hand passes over rows that were hit.
//!
//! Rows queue in the order in which they came. A hit marks its row as visited and moves nothing. For an eviction the
//! hand moves from the oldest row (the tail) towards the newest (the head). It clears the mark of each visited row and
//! evicts the first row without one. It then stays there until the next eviction, and wraps to the tail when it has
//! passed the head.

use super::policy::Eviction;
use super::slots::SlotOrder;

pub(super) static POLICY: Eviction = Eviction::new::<Sieve>(
    "sieve",
    "Rows that were hit since the hand last passed them; the cache changes during the run (SIEVE)",
);

/// No slot.
const NONE: u32 = u32::MAX;

/// A doubly linked queue of slots.
#[derive(Debug)]
struct Sieve {
    slots: Vec<Slot>,
    /// The number of used slots; the others are free.
    used: usize,
    /// The newest slot.
    head: u32,
    /// The oldest slot.
    tail: u32,
    /// The next candidate for eviction; [`NONE`] for the tail.
    hand: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    newer: u32,
    older: u32,
    visited: bool,
}

impl Sieve {
    /// Takes the evicted slot out of the queue.
    fn evict(&mut self) -> u32 {
        let mut slot = if self.hand == NONE { self.tail } else { self.hand };
        // At most one full round, after which no row is marked as visited.
        while self.slots[slot as usize].visited {
            self.slots[slot as usize].visited = false;
            let newer = self.slots[slot as usize].newer;
            slot = if newer == NONE { self.tail } else { newer };
        }
        let Slot { newer, older, .. } = self.slots[slot as usize];
        self.hand = newer;
        match newer {
            NONE => self.head = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.tail = newer,
            older => self.slots[older as usize].newer = newer,
        }
        slot
    }
}

impl SlotOrder for Sieve {
    const SEES_HITS: bool = true;

    fn new(capacity: usize) -> Self {
        let slots = vec![Slot { newer: NONE, older: NONE, visited: false }; capacity];
        Self { slots, used: 0, head: NONE, tail: NONE, hand: NONE }
    }

    fn hit(&mut self, slot: usize) {
        self.slots[slot].visited = true;
    }

    fn next_slot(&mut self) -> usize {
        let slot = if self.used < self.slots.len() {
            self.used += 1;
            self.used as u32 - 1
        } else {
            self.evict()
        };
        self.slots[slot as usize] = Slot { newer: NONE, older: self.head, visited: false };
        match self.head {
            NONE => self.tail = slot,
            head => self.slots[head as usize].newer = slot,
        }
        self.head = slot;
        slot as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::eviction::slots::{EvictingSlots, PolicySlots};

    /// Row ids cached now, ascending.
    fn cached(slots: &PolicySlots<Sieve>) -> Vec<usize> {
        (0..slots.map().len()).filter(|&id| slots.map()[id] >= 0).collect()
    }

    #[test]
    fn a_hit_row_survives_the_hand_once() {
        let mut slots = PolicySlots::<Sieve>::new(20, 3).unwrap();
        for id in [1, 2, 3] {
            slots.insert_misses(&[id]);
        }
        slots.insert_misses(&[1]);
        // The hand clears the mark of 1, and evicts 2.
        slots.insert_misses(&[4]);
        assert_eq!(cached(&slots), [1, 3, 4]);
        // The hand continues from there: 3, then 4. Past the head it wraps to the tail, at 1.
        slots.insert_misses(&[5]);
        assert_eq!(cached(&slots), [1, 4, 5]);
        slots.insert_misses(&[6]);
        assert_eq!(cached(&slots), [1, 5, 6]);
        slots.insert_misses(&[5, 6, 7]);
        assert_eq!(cached(&slots), [5, 6, 7]);
    }

    #[test]
    fn if_every_row_was_hit_the_first_under_the_hand_is_evicted() {
        let mut slots = PolicySlots::<Sieve>::new(20, 2).unwrap();
        slots.insert_misses(&[1]);
        slots.insert_misses(&[2]);
        slots.insert_misses(&[1, 2, 3]);
        assert_eq!(cached(&slots), [2, 3]);
    }

    /// Reference implementation of SIEVE over a plain list.
    struct Plain {
        /// Rows and whether they were visited, the oldest first.
        queue: Vec<(i64, bool)>,
        hand: usize,
        capacity: usize,
    }

    impl Plain {
        /// Whether the request hits.
        fn request(&mut self, row: i64) -> bool {
            if let Some((_, visited)) = self.queue.iter_mut().find(|(cached, _)| *cached == row) {
                *visited = true;
                return true;
            }
            if self.queue.len() == self.capacity {
                while self.queue[self.hand].1 {
                    self.queue[self.hand].1 = false;
                    self.hand = (self.hand + 1) % self.capacity;
                }
                self.queue.remove(self.hand);
                // Past the newest the hand begins at the oldest again.
                self.hand %= self.queue.len().max(1);
            }
            self.queue.push((row, false));
            false
        }
    }

    #[test]
    fn a_zipf_trace_hits_as_often_as_the_plain_algorithm_of_the_paper() {
        const ROWS: usize = 500;
        // The chance of the k-th row is proportional to 1 / k.
        let ends: Vec<f64> = (1..=ROWS)
            .scan(0.0, |sum, rank| {
                *sum += 1.0 / rank as f64;
                Some(*sum)
            })
            .collect();
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        let trace: Vec<i64> = (0..20_000)
            .map(|_| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let drawn = (random >> 11) as f64 / (1_u64 << 53) as f64 * ends[ROWS - 1];
                ends.partition_point(|&end| end <= drawn) as i64
            })
            .collect();
        for capacity in [1, 2, 10, 50, 200, 499] {
            let mut slots = PolicySlots::<Sieve>::new(ROWS, capacity).unwrap();
            let mut plain = Plain { queue: Vec::new(), hand: 0, capacity };
            let (mut hits, mut expected) = (0, 0);
            for &row in &trace {
                hits += u32::from(slots.map()[row as usize] >= 0);
                expected += u32::from(plain.request(row));
                slots.insert_misses(&[row]);
            }
            assert_eq!(hits, expected, "{capacity} slots");
            let mut left: Vec<usize> = plain.queue.iter().map(|&(row, _)| row as usize).collect();
            left.sort_unstable();
            assert_eq!(cached(&slots), left, "{capacity} slots");
        }
    }

    #[test]
    fn a_single_slot_holds_the_last_miss() {
        let mut slots = PolicySlots::<Sieve>::new(20, 1).unwrap();
        for id in [4, 4, 9, 9, 2] {
            slots.insert_misses(&[id]);
        }
        slots.insert_misses(&[7, 8, 2]);
        assert_eq!(cached(&slots), [8]);
    }
}
