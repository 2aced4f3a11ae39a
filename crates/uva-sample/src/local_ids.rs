//! Which local id a node has in the batch at hand.

use std::hint::select_unpredictable;

/// A direct map from node to local id, 8 bytes a node, emptied in constant time.
///
/// An entry is `stamp << 32 | local id`, and holds for the batch of its stamp only. Stamps rise, so an entry is of
/// this batch exactly if it is not below `stamp << 32`.
pub(crate) struct LocalIds {
    entries: Vec<u64>,
    stamp: u32,
}

/// Why ids could not be relabelled; `at` is the position in the slice given.
#[derive(Debug, PartialEq, Eq)]
pub enum RelabelError {
    /// The id there is no node.
    NotANode { at: usize },
    /// The id there is a new node, and there is no room for it.
    NoRoom,
}

impl LocalIds {
    pub(crate) fn new(nodes: usize) -> Self {
        // Zero is below every stamp. Zeroed memory costs nothing until it is touched.
        Self { entries: vec![0; nodes], stamp: 0 }
    }

    /// Forgets every local id.
    pub(crate) fn begin_batch(&mut self) {
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            // Four thousand million batches later: entries of old stamps would look new.
            self.entries.fill(0);
            self.stamp = 1;
        }
    }

    /// Gives `node`, which must be in range, the id `local`. False where it has one already.
    pub(crate) fn insert(&mut self, node: usize, local: u32) -> bool {
        let base = u64::from(self.stamp) << 32;
        let entry = &mut self.entries[node];
        let is_new = *entry < base;
        if is_new {
            *entry = base | u64::from(local);
        }
        is_new
    }

    /// The local id of `node`; `None` where it has none, and an error where it is no node.
    #[inline]
    pub(crate) fn get(&self, node: i64) -> Result<Option<usize>, RelabelError> {
        let entry = self.entries.get(node as usize).ok_or(RelabelError::NotANode { at: 0 })?;
        Ok((*entry >= u64::from(self.stamp) << 32).then_some(*entry as u32 as usize))
    }

    /// Replaces node ids by local ids: `locals[i]` is that of `ids[i]`.
    ///
    /// A node met for the first time gets the next local id, `first + *found`, and is appended to `fresh`, of which
    /// `*found` entries are taken. The entry of `fresh` behind the last one taken holds anything afterwards.
    ///
    /// `first + fresh.len()` must not exceed `i32::MAX`.
    pub(crate) fn relabel(
        &mut self,
        ids: &[i64],
        first: usize,
        fresh: &mut [i64],
        found: &mut usize,
        locals: &mut [i32],
    ) -> Result<(), RelabelError> {
        let base = u64::from(self.stamp) << 32;
        let mut next = *found;
        for ((at, &id), local) in ids.iter().enumerate().zip(locals) {
            let Some(entry) = self.entries.get_mut(id as usize) else {
                return Err(RelabelError::NotANode { at });
            };
            // Without a branch on what the entry says: that is a coin's toss, and a branch guessed wrong throws away
            // the loads of the entries that follow, which is where the time goes on a graph larger than the caches.
            let is_new = *entry < base;
            *entry = select_unpredictable(is_new, base | (first + next) as u64, *entry);
            *local = *entry as u32 as i32;
            match fresh.get_mut(next) {
                Some(place) => *place = id,
                None if is_new => return Err(RelabelError::NoRoom),
                None => {}
            }
            next += usize::from(is_new);
        }
        *found = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_numbered_by_first_appearance_after_those_inserted() {
        let mut map = LocalIds::new(10);
        for _ in 0..3 {
            map.begin_batch();
            assert!(map.insert(7, 0));
            assert!(map.insert(3, 1));
            assert!(!map.insert(7, 2));
            let (mut fresh, mut found, mut locals) = ([0; 4], 0, [0; 5]);
            map.relabel(&[9, 7, 0, 9, 3], 2, &mut fresh, &mut found, &mut locals).unwrap();
            assert_eq!((found, &fresh[..2], locals), (2, &[9, 0][..], [2, 0, 3, 2, 1]));
            map.relabel(&[0, 5], 2, &mut fresh, &mut found, &mut locals).unwrap();
            assert_eq!((found, &fresh[..3], &locals[..2]), (3, &[9, 0, 5][..], &[3, 4][..]));
            assert_eq!([7, 5, 4].map(|node| map.get(node)), [Ok(Some(0)), Ok(Some(4)), Ok(None)]);
        }
    }

    #[test]
    fn room_is_needed_for_new_nodes_only() {
        let mut map = LocalIds::new(10);
        map.begin_batch();
        let (mut fresh, mut found, mut locals) = ([0; 1], 0, [0; 3]);
        map.relabel(&[4, 4, 4], 0, &mut fresh, &mut found, &mut locals).unwrap();
        assert_eq!((found, locals), (1, [0; 3]));
        let refused = map.relabel(&[4, 5], 0, &mut fresh, &mut found, &mut locals);
        assert_eq!(refused, Err(RelabelError::NoRoom));
    }

    #[test]
    fn an_id_out_of_range_is_named_by_its_position() {
        let mut map = LocalIds::new(3);
        map.begin_batch();
        for bad in [3, -1, i64::MIN, i64::MAX] {
            let refused = map.relabel(&[2, bad], 0, &mut [0; 4], &mut 0, &mut [0; 2]);
            assert_eq!(refused, Err(RelabelError::NotANode { at: 1 }));
            assert_eq!(map.get(bad), Err(RelabelError::NotANode { at: 0 }));
        }
    }

    #[test]
    fn a_stamp_that_wraps_leaves_no_old_entry_behind() {
        let mut map = LocalIds::new(2);
        map.begin_batch();
        assert!(map.insert(0, 5));
        map.stamp = u32::MAX;
        assert!(map.insert(1, 6));
        map.begin_batch();
        assert!(map.insert(0, 0) && map.insert(1, 1));
    }
}
