//! A simulated dynamic cache: the slots of a run's cache, without rows.

use uva_rows::cache::eviction::{EvictingSlots, Eviction};

use crate::CacheError;

/// A cache of feature rows that admits the misses of each batch. It first looks up all rows of a batch; then the misses
/// enter in order.
#[derive(Debug)]
pub struct Simulation {
    slots: Box<dyn EvictingSlots>,
    lookups: u64,
    hits: u64,
}

impl Simulation {
    /// An empty cache of `capacity` rows for a graph of `nodes` nodes; it makes at most one slot a node.
    ///
    /// # Errors
    /// [`CacheError::Memory`] if memory for its slots cannot be allocated.
    pub fn new(policy: &Eviction, nodes: usize, capacity: usize) -> Result<Self, CacheError> {
        let slots = policy.slots(nodes, capacity).map_err(|error| CacheError::Memory(error.to_string()))?;
        Ok(Self { slots, lookups: 0, hits: 0 })
    }

    /// Looks up the rows of a batch and admits the misses. Returns the hits.
    ///
    /// # Panics
    /// If a node is not in the graph.
    pub fn gather(&mut self, nodes: &[i64]) -> u64 {
        let map = self.slots.map();
        let hits = nodes.iter().filter(|&&node| map[node as usize] >= 0).count() as u64;
        self.lookups += nodes.len() as u64;
        self.hits += hits;
        self.slots.insert_misses(nodes);
        hits
    }

    /// Share of lookups that hit, since the start or the last [`reset`](Self::reset).
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        crate::access::curve::share(self.hits, self.lookups)
    }

    /// Resets the counts and keeps the rows.
    pub fn reset(&mut self) {
        (self.lookups, self.hits) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fifo(nodes: usize, capacity: usize) -> Simulation {
        let policy = uva_rows::cache::eviction::by_name("fifo").unwrap();
        Simulation::new(policy, nodes, capacity).unwrap()
    }

    #[test]
    fn misses_take_slots_in_order_after_all_lookups_of_their_batch() {
        let mut cache = fifo(10, 3);
        assert_eq!(cache.gather(&[1, 2]), 0);
        // 3 takes the last slot; 4 evicts 1, which was still a hit.
        assert_eq!(cache.gather(&[3, 4, 1]), 1);
        assert_eq!(cache.gather(&[2, 3, 4]), 3);
        assert_eq!(cache.gather(&[1]), 0);
        // 1 evicted 2.
        assert_eq!(cache.gather(&[2, 1, 3, 4]), 3);
        assert_eq!(cache.hit_rate(), 7.0 / 13.0);
    }

    #[test]
    fn a_batch_larger_than_the_cache_leaves_its_last_rows() {
        let mut cache = fifo(10, 2);
        assert_eq!(cache.gather(&[1, 2, 3, 4, 5]), 0);
        assert_eq!(cache.gather(&[1, 2, 3]), 0);
        assert_eq!(cache.gather(&[2, 3]), 2);
    }

    #[test]
    fn an_empty_cache_hits_nothing_and_a_full_one_all_but_first_reads() {
        let mut none = fifo(5, 0);
        let mut all = fifo(5, usize::MAX);
        for round in 0..3 {
            assert_eq!(none.gather(&[0, 1, 2, 3, 4]), 0);
            assert_eq!(all.gather(&[0, 1, 2, 3, 4]), if round == 0 { 0 } else { 5 });
        }
        all.reset();
        assert_eq!((none.hit_rate(), all.hit_rate()), (0.0, 0.0));
    }
}
