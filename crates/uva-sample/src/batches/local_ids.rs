//! The local ids of the nodes in the current batch.

use std::hint::select_unpredictable;

use bytemuck::{cast_slice, cast_slice_mut};
use uva_mem::ZeroedPages;

use crate::SampleError;
use crate::limits::LOCAL_ID_BYTES;

/// A direct map from node to local id, 4 bytes per node, cleared in constant time.
///
/// The entry of a node of this batch is `base + local id`. Entries of earlier batches are below `base`, which each
/// batch raises by its number of local ids. So an entry belongs to this batch if and only if it is at least `base`.
pub(crate) struct LocalIds {
    pages: ZeroedPages,
    /// Their used bytes: none for a type without nodes.
    bytes: usize,
    /// A value above every entry of earlier batches; never 0, the value of untouched entries.
    base: u32,
    /// Exclusive upper bound of this batch's local ids.
    given: u32,
}

/// The reason why ids could not be relabelled; `at` is the position in the given slice.
#[derive(Debug, PartialEq, Eq)]
pub enum RelabelError {
    /// The id is not a node.
    NotANode { at: usize },
    /// The id is a new node, for which there is no capacity.
    NoRoom,
}

impl LocalIds {
    /// Allocates the map for the ids `0..nodes`.
    ///
    /// # Errors
    /// [`SampleError::Memory`] if the system lacks memory for it.
    pub(crate) fn new(nodes: usize) -> Result<Self, SampleError> {
        let bytes = nodes.saturating_mul(LOCAL_ID_BYTES);
        // No pages would not be aligned.
        let pages = ZeroedPages::new(bytes.max(LOCAL_ID_BYTES))
            .map_err(|error| SampleError::Memory { bytes, reason: error.to_string() })?;
        Ok(Self { pages, bytes, base: 1, given: 0 })
    }

    fn entries(&self) -> &[u32] {
        cast_slice(&self.pages.bytes()[..self.bytes])
    }

    fn entries_mut(&mut self) -> &mut [u32] {
        cast_slice_mut(&mut self.pages.bytes_mut()[..self.bytes])
    }

    /// Clears all local ids.
    pub(crate) fn begin_batch(&mut self) {
        // A batch has at most 2^31 − 1 local ids: more than nodes if seeds repeat.
        match self.base.checked_add(self.given).filter(|base| base.checked_add(i32::MAX as u32).is_some()) {
            Some(base) => self.base = base,
            // Happens after thousands of large batches.
            None => {
                self.entries_mut().fill(0);
                self.base = 1;
            }
        }
        self.given = 0;
    }

    /// Assigns the id `local` to `node`, which must be in range. Returns false if the node already has an id.
    pub(crate) fn insert(&mut self, node: usize, local: u32) -> bool {
        let base = self.base;
        let entry = &mut self.entries_mut()[node];
        let is_new = *entry < base;
        if is_new {
            *entry = base + local;
            self.given = self.given.max(local + 1);
        }
        is_new
    }

    /// The local id of `node`; `None` if it has none, and an error if it is not a node.
    #[inline]
    pub(crate) fn get(&self, node: i64) -> Result<Option<usize>, RelabelError> {
        let entry = self.entries().get(node as usize).ok_or(RelabelError::NotANode { at: 0 })?;
        Ok(entry.checked_sub(self.base).map(|local| local as usize))
    }

    /// Replaces node ids by local ids: `locals[i]` is the local id of `ids[i]`.
    ///
    /// A node seen for the first time gets the next local id, `first + *found`, and is appended to `fresh`, of which
    /// `*found` entries are used. The entry of `fresh` after the last used one is undefined afterwards.
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
        let base = self.base;
        let entries = self.entries_mut();
        let mut next = *found;
        let mut relabelled = Ok(());
        for ((at, &id), local) in ids.iter().enumerate().zip(locals) {
            let Some(entry) = entries.get_mut(id as usize) else {
                relabelled = Err(RelabelError::NotANode { at });
                break;
            };
            // Without a branch on the entry's content, which is unpredictable. A mispredicted branch discards the loads
            // of the entries that follow, and these loads dominate the time on a graph larger than the caches.
            let is_new = *entry < base;
            let of_node = select_unpredictable(is_new, base + (first + next) as u32, *entry);
            *entry = of_node;
            *local = (of_node - base) as i32;
            next += usize::from(is_new);
            match fresh.get_mut(next - usize::from(is_new)) {
                Some(place) => *place = id,
                None if is_new => {
                    relabelled = Err(RelabelError::NoRoom);
                    break;
                }
                None => {}
            }
        }
        // This is needed after an error too: the assigned ids must be below the next batch's base.
        self.given = self.given.max((first + next) as u32);
        *found = next;
        relabelled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_numbered_by_first_appearance_after_those_inserted() {
        let mut map = LocalIds::new(10).unwrap();
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
    fn a_type_without_nodes_has_no_local_ids() {
        let mut map = LocalIds::new(0).unwrap();
        map.begin_batch();
        let refused = map.relabel(&[0], 0, &mut [0; 1], &mut 0, &mut [0; 1]);
        assert_eq!(refused, Err(RelabelError::NotANode { at: 0 }));
    }

    #[test]
    fn room_is_needed_for_new_nodes_only() {
        let mut map = LocalIds::new(10).unwrap();
        map.begin_batch();
        let (mut fresh, mut found, mut locals) = ([0; 1], 0, [0; 3]);
        map.relabel(&[4, 4, 4], 0, &mut fresh, &mut found, &mut locals).unwrap();
        assert_eq!((found, locals), (1, [0; 3]));
        let refused = map.relabel(&[4, 5], 0, &mut fresh, &mut found, &mut locals);
        assert_eq!(refused, Err(RelabelError::NoRoom));
    }

    #[test]
    fn an_id_out_of_range_is_named_by_its_position() {
        let mut map = LocalIds::new(3).unwrap();
        map.begin_batch();
        for bad in [3, -1, i64::MIN, i64::MAX] {
            let refused = map.relabel(&[2, bad], 0, &mut [0; 4], &mut 0, &mut [0; 2]);
            assert_eq!(refused, Err(RelabelError::NotANode { at: 1 }));
            assert_eq!(map.get(bad), Err(RelabelError::NotANode { at: 0 }));
        }
    }

    #[test]
    fn entries_of_earlier_batches_stay_forgotten_when_the_numbers_restart() {
        let mut map = LocalIds::new(3).unwrap();
        map.begin_batch();
        assert!(map.insert(0, 5));
        for base in [u32::MAX - 4, u32::MAX - 3, u32::MAX - 2] {
            map.base = base;
            assert!(map.insert(1, 0) && map.insert(2, 1));
            map.begin_batch();
            assert!((0..3).all(|node| map.get(node) == Ok(None)), "{base}");
            assert!(map.insert(0, 0) && map.insert(1, 1) && !map.insert(1, 2));
            map.begin_batch();
            assert!((0..3).all(|node| map.get(node) == Ok(None)), "{base}");
        }
    }

    #[test]
    fn what_a_refused_batch_gave_is_forgotten_too() {
        let mut map = LocalIds::new(10).unwrap();
        map.begin_batch();
        let (mut fresh, mut found, mut locals) = ([0; 2], 0, [0; 5]);
        assert!(map.relabel(&[4, 5, 6, 7], 0, &mut fresh, &mut found, &mut locals).is_err());
        map.begin_batch();
        assert!(map.relabel(&[1, 2, 99], 0, &mut [0; 4], &mut 0, &mut locals).is_err());
        map.begin_batch();
        assert!((0..10).all(|node| map.get(node) == Ok(None)));
    }
}
