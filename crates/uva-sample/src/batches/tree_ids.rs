//! The local ids of the nodes of disjoint trees.

use uva_ops::prefetch;

use super::local_ids::RelabelError;

/// Bits of a key for the node's id. The rest names its tree.
const NODE_BITS: u32 = 40;

/// The largest number of trees in a batch.
pub(crate) const MOST_TREES: usize = 1 << (u64::BITS - NODE_BITS);

/// Slots of a new table: a power of two.
const FIRST_SLOTS: usize = 1 << 10;

/// A hash table from (tree, node) to the local ids of one node type, by open addressing. If nodes have a limit, a node
/// is (tree, node, limit).
///
/// At most half of its slots are used. It grows to the largest batch, after which batches allocate nothing. Its memory
/// depends on batches, not on the graph: up to 64 bytes a node, with its arrays.
pub(crate) struct TreeIds {
    slots: Vec<Slot>,
    /// The bits of a hash that are not its slot.
    shift: u32,
    /// The number of the batch in the slots that belong to it; never 0.
    batch: u32,
    /// The tree of each node of the batch.
    trees: Vec<i32>,
    /// The limit of each node of the batch; empty if nodes have none.
    limits: Vec<i64>,
    /// The hashes of the keys that are being relabelled.
    hashes: Vec<u64>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    key: u64,
    local: u32,
    batch: u32,
}

/// The key of a node in a tree.
#[inline]
pub(crate) fn key_of(tree: i32, node: i64) -> u64 {
    (tree as u64) << NODE_BITS | node as u64
}

#[inline]
fn hash_of(key: u64, limit: i64) -> u64 {
    let mixed = (key ^ key >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (limit as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

impl TreeIds {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![Slot::default(); FIRST_SLOTS],
            shift: u64::BITS - FIRST_SLOTS.ilog2(),
            batch: 1,
            trees: Vec::new(),
            limits: Vec::new(),
            hashes: Vec::new(),
        }
    }

    /// Clears all local ids.
    pub(crate) fn begin_batch(&mut self) {
        self.trees.clear();
        self.limits.clear();
        self.batch = match self.batch.checked_add(1) {
            Some(batch) => batch,
            None => {
                self.slots.fill(Slot::default());
                1
            }
        };
    }

    /// The tree of each node of the batch, by local id.
    pub(crate) fn trees(&self) -> &[i32] {
        &self.trees
    }

    /// The limit of each node of the batch, by local id; empty if nodes have none.
    pub(crate) fn limits(&self) -> &[i64] {
        &self.limits
    }

    /// Replaces the keys of nodes by local ids: `locals[i]` is that of `keys[i]`, with `limits[i]` if nodes have limits.
    ///
    /// A node seen for the first time gets the next local id, and its id is appended to `fresh`, of which `found` entries
    /// are used.
    pub(crate) fn relabel(
        &mut self,
        keys: &[u64],
        limits: &[i64],
        fresh: &mut [i64],
        found: &mut usize,
        locals: &mut [i32],
    ) -> Result<(), RelabelError> {
        self.reserve(keys.len());
        let limit_of = |at: usize| limits.get(at).copied().unwrap_or(0);
        // All slots are known before the first is read, so their cache misses overlap.
        let mut hashes = std::mem::take(&mut self.hashes);
        hashes.clear();
        for (at, &key) in keys.iter().enumerate() {
            let hash = hash_of(key, limit_of(at));
            prefetch(self.slots.as_ptr().wrapping_add((hash >> self.shift) as usize).cast::<u8>());
            hashes.push(hash);
        }
        let mut relabelled = Ok(());
        for (at, ((&key, &hash), local)) in keys.iter().zip(&hashes).zip(locals).enumerate() {
            let limit = limits.get(at).copied();
            let next = self.trees.len() as u32;
            *local = self.find_or_insert(key, limit, hash, next) as i32;
            if *local as u32 == next {
                let Some(place) = fresh.get_mut(*found) else {
                    relabelled = Err(RelabelError::NoRoom);
                    break;
                };
                *place = (key & ((1 << NODE_BITS) - 1)) as i64;
                *found += 1;
                self.trees.push((key >> NODE_BITS) as i32);
                self.limits.extend(limit);
            }
        }
        self.hashes = hashes;
        relabelled
    }

    /// The local id of a key, which is `next` if it has none yet.
    #[inline]
    fn find_or_insert(&mut self, key: u64, limit: Option<i64>, hash: u64, next: u32) -> u32 {
        let last = self.slots.len() - 1;
        let mut at = (hash >> self.shift) as usize;
        loop {
            let slot = &mut self.slots[at & last];
            if slot.batch != self.batch {
                *slot = Slot { key, local: next, batch: self.batch };
                return next;
            }
            if slot.key == key && limit.is_none_or(|limit| self.limits[slot.local as usize] == limit) {
                return slot.local;
            }
            at += 1;
        }
    }

    /// Makes room for `more` nodes.
    fn reserve(&mut self, more: usize) {
        let wanted = (2 * (self.trees.len() + more)).next_power_of_two();
        if wanted <= self.slots.len() {
            return;
        }
        let before = std::mem::replace(&mut self.slots, vec![Slot::default(); wanted]);
        self.shift = u64::BITS - wanted.ilog2();
        for Slot { key, local, .. } in before.into_iter().filter(|slot| slot.batch == self.batch) {
            let limit = self.limits.get(local as usize).copied().unwrap_or(0);
            let mut at = (hash_of(key, limit) >> self.shift) as usize;
            while self.slots[at & (wanted - 1)].batch == self.batch {
                at += 1;
            }
            self.slots[at & (wanted - 1)] = Slot { key, local, batch: self.batch };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn ids_are_those_of_a_map_in_the_order_of_first_appearance() {
        let mut ids = TreeIds::new();
        for (round, with_limits) in [false, true, false, true].into_iter().enumerate() {
            ids.begin_batch();
            let mut known: HashMap<(u64, i64), i32> = HashMap::new();
            let mut fresh = vec![0; 1 << 16];
            let mut found = 0;
            // More nodes in each round, so that the table grows within one.
            for group in 0..40 << round {
                let draw = |at: u64, bound: u64| uva_graph::mix(group << 20 | at << 2 | round as u64) % bound;
                let keys: Vec<u64> =
                    (0..97).map(|at| key_of(draw(at, 50) as i32, draw(at + 1000, 70) as i64)).collect();
                let limits: Vec<i64> = (0..97).map(|at| draw(at + 2000, 3) as i64 - 1).collect();
                let limits = if with_limits { &limits[..] } else { &[] };
                let mut locals = vec![0; keys.len()];
                ids.relabel(&keys, limits, &mut fresh, &mut found, &mut locals).unwrap();
                for (at, key) in keys.iter().enumerate() {
                    let next = known.len() as i32;
                    let named = (*key, limits.get(at).copied().unwrap_or(0));
                    assert_eq!(locals[at], *known.entry(named).or_insert(next));
                }
            }
            assert_eq!((found, ids.trees().len()), (known.len(), known.len()));
            assert_eq!(ids.limits().len(), if with_limits { found } else { 0 });
            for ((key, limit), local) in known {
                let local = local as usize;
                assert_eq!(key_of(ids.trees()[local], fresh[local]), key);
                assert!(!with_limits || ids.limits()[local] == limit);
            }
        }
    }

    #[test]
    fn nodes_and_trees_of_any_size_have_different_ids() {
        let mut ids = TreeIds::new();
        ids.begin_batch();
        let (node, tree) = ((1 << NODE_BITS) - 1, MOST_TREES as i32 - 1);
        let keys = [key_of(0, 0), key_of(0, node), key_of(tree, 0), key_of(tree, node), key_of(0, node)];
        let (mut fresh, mut found, mut locals) = ([0; 4], 0, [0; 5]);
        ids.relabel(&keys, &[], &mut fresh, &mut found, &mut locals).unwrap();
        assert_eq!((locals, fresh), ([0, 1, 2, 3, 1], [0, node, 0, node]));
        assert_eq!(ids.trees(), [0, 0, tree, tree]);
        let refused = ids.relabel(&[key_of(1, 1)], &[], &mut fresh, &mut found, &mut locals);
        assert_eq!(refused, Err(RelabelError::NoRoom));
    }

    #[test]
    fn earlier_batches_stay_forgotten_when_the_numbers_restart() {
        let mut ids = TreeIds::new();
        ids.batch = u32::MAX - 1;
        for _ in 0..4 {
            ids.begin_batch();
            let (mut fresh, mut found, mut locals) = ([0; 1], 0, [7; 1]);
            ids.relabel(&[key_of(3, 9)], &[], &mut fresh, &mut found, &mut locals).unwrap();
            assert_eq!((locals, found), ([0], 1));
        }
    }
}
