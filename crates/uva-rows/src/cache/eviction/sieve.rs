//! SIEVE (Zhang et al., NSDI 2024): first in, first out, except that a hand passes over rows that were hit.
//!
//! Rows queue in the order in which they came. A hit marks its row as visited and moves nothing. For an eviction the
//! hand goes from the oldest row (the tail) towards the newest (the head): it clears the mark of each visited row and
//! evicts the first row without one. It stays where it is until the next eviction, and begins at the tail again when it
//! has passed the head.

use super::policy::Eviction;
use super::slots::Order;

pub(super) static POLICY: Eviction = Eviction::new::<Sieve>(
    "sieve",
    "Rows that were hit since a hand last passed; the cache changes as the run goes (SIEVE)",
);

/// No slot.
const NONE: u32 = u32::MAX;

/// A queue of slots, linked both ways.
#[derive(Debug)]
struct Sieve {
    slots: Vec<Slot>,
    /// Slots that were used so far: the others are free.
    used: usize,
    /// The newest.
    head: u32,
    /// The oldest.
    tail: u32,
    /// The next candidate; [`NONE`] for the tail.
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
        // At most once round: behind it no row is visited any more.
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

impl Order for Sieve {
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
    use crate::cache::eviction::slots::{EvictingSlots, Slots};

    /// Row ids cached now, ascending.
    fn cached(slots: &Slots<Sieve>) -> Vec<usize> {
        (0..slots.map().len()).filter(|&id| slots.map()[id] >= 0).collect()
    }

    #[test]
    fn a_hit_row_survives_the_hand_once() {
        let mut slots = Slots::<Sieve>::new(20, 3).unwrap();
        for id in [1, 2, 3] {
            slots.insert_misses(&[id]);
        }
        slots.insert_misses(&[1]);
        // The hand clears the mark of 1, and evicts 2.
        slots.insert_misses(&[4]);
        assert_eq!(cached(&slots), [1, 3, 4]);
        // It goes on from there: 3, then 4; past the head it begins at the tail, with 1.
        slots.insert_misses(&[5]);
        assert_eq!(cached(&slots), [1, 4, 5]);
        slots.insert_misses(&[6]);
        assert_eq!(cached(&slots), [1, 5, 6]);
        slots.insert_misses(&[5, 6, 7]);
        assert_eq!(cached(&slots), [5, 6, 7]);
    }

    #[test]
    fn where_every_row_was_hit_the_first_under_the_hand_goes() {
        let mut slots = Slots::<Sieve>::new(20, 2).unwrap();
        slots.insert_misses(&[1]);
        slots.insert_misses(&[2]);
        slots.insert_misses(&[1, 2, 3]);
        assert_eq!(cached(&slots), [2, 3]);
    }

    #[test]
    fn a_single_slot_holds_the_last_miss() {
        let mut slots = Slots::<Sieve>::new(20, 1).unwrap();
        for id in [4, 4, 9, 9, 2] {
            slots.insert_misses(&[id]);
        }
        slots.insert_misses(&[7, 8, 2]);
        assert_eq!(cached(&slots), [8]);
    }
}
