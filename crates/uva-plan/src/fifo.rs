//! The dynamic cache, simulated.

/// No slot.
const NONE: u32 = u32::MAX;

/// A cache of feature rows that keeps the rows fetched last, as BGL's (Liu et al., NSDI 2023): the rows of a batch are
/// looked up first; those missing then take slots in order, round and round, whoever sat there before.
#[derive(Clone, Debug)]
pub struct FifoSimulation {
    slot_of: Vec<u32>,
    /// The node in each slot.
    slots: Vec<u32>,
    next: usize,
    lookups: u64,
    hits: u64,
}

impl FifoSimulation {
    /// An empty cache of `capacity` rows for a graph of `nodes` nodes, fewer than 2³². More slots than nodes are no use
    /// and not made.
    #[must_use]
    pub fn new(nodes: usize, capacity: usize) -> Self {
        Self {
            slot_of: vec![NONE; nodes],
            slots: vec![NONE; capacity.min(nodes)],
            next: 0,
            lookups: 0,
            hits: 0,
        }
    }

    /// Looks up the rows of a batch, each node once, and takes in those missing. Returns the hits.
    ///
    /// # Panics
    /// Where a node is beyond the graph's.
    pub fn gather(&mut self, nodes: &[i64]) -> u64 {
        let hits = nodes.iter().filter(|&&node| self.slot_of[node as usize] != NONE).count() as u64;
        self.lookups += nodes.len() as u64;
        self.hits += hits;
        // Who was there when the batch came stays a hit even where a miss of the same batch throws it out: misses are
        // known before the first is taken in.
        let misses: Vec<u32> = nodes
            .iter()
            .filter(|&&node| self.slot_of[node as usize] == NONE)
            .map(|&node| node as u32)
            .collect();
        if self.slots.is_empty() {
            return hits;
        }
        for node in misses {
            let slot = self.next;
            self.next = (slot + 1) % self.slots.len();
            let evicted = std::mem::replace(&mut self.slots[slot], node);
            if evicted != NONE {
                self.slot_of[evicted as usize] = NONE;
            }
            self.slot_of[node as usize] = slot as u32;
        }
        hits
    }

    /// Share of lookups that hit, since the start or the last [`reset`](Self::reset).
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        crate::curve::share(self.hits, self.lookups)
    }

    /// Counts from zero again; the rows stay.
    pub fn reset(&mut self) {
        (self.lookups, self.hits) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_take_slots_in_order_after_all_lookups_of_their_batch() {
        let mut cache = FifoSimulation::new(10, 3);
        assert_eq!(cache.gather(&[1, 2]), 0);
        // 3 takes the last slot, 4 throws out 1, which was still a hit.
        assert_eq!(cache.gather(&[3, 4, 1]), 1);
        assert_eq!(cache.gather(&[2, 3, 4]), 3);
        assert_eq!(cache.gather(&[1]), 0);
        // 1 threw out 2.
        assert_eq!(cache.gather(&[2, 1, 3, 4]), 3);
        assert_eq!(cache.hit_rate(), 7.0 / 13.0);
    }

    #[test]
    fn a_batch_larger_than_the_cache_leaves_its_last_rows() {
        let mut cache = FifoSimulation::new(10, 2);
        assert_eq!(cache.gather(&[1, 2, 3, 4, 5]), 0);
        assert_eq!(cache.gather(&[1, 2, 3]), 0);
        assert_eq!(cache.gather(&[2, 3]), 2);
    }

    #[test]
    fn a_cache_of_nothing_hits_nothing_and_one_of_everything_all_but_the_first_time() {
        let mut none = FifoSimulation::new(5, 0);
        let mut all = FifoSimulation::new(5, usize::MAX);
        for round in 0..3 {
            assert_eq!(none.gather(&[0, 1, 2, 3, 4]), 0);
            assert_eq!(all.gather(&[0, 1, 2, 3, 4]), if round == 0 { 0 } else { 5 });
        }
        all.reset();
        assert_eq!((none.hit_rate(), all.hit_rate()), (0.0, 0.0));
    }
}
