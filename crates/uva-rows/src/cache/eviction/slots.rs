//! Slots whose rows change with each batch, for any eviction policy.

use uva_cuda::kernels::cache::CacheInsertion;

use crate::cache::slot_map::{NO_SLOT, SlotMap, check_capacity};
use crate::error::GatherError;

/// The order in which slots are used, implemented by each policy of [`PolicySlots`].
pub(super) trait SlotOrder: Send + std::fmt::Debug + 'static {
    /// Whether [`SlotOrder::hit`] does anything: otherwise hits are not passed on.
    const SEES_HITS: bool;

    /// Creates an order of `capacity` free slots, at least one.
    fn new(capacity: usize) -> Self;

    /// Records a hit of the row in this slot.
    fn hit(&mut self, slot: usize);

    /// The slot for an inserted row: a free one, or else one whose row is evicted.
    fn next_slot(&mut self) -> usize;
}

/// The assignment of rows to slots, independent of the location of the cached rows.
pub trait EvictingSlots: Send + std::fmt::Debug {
    /// The number of slots.
    fn capacity(&self) -> usize;

    /// The slot of each row of the table; negative for a row without a slot.
    fn map(&self) -> &[i32];

    /// Inserts the misses of a batch, in batch order, after all its rows have been looked up. So a row that this batch
    /// itself evicts may still have counted as a hit. Ids outside of the table have no effect.
    ///
    /// Returns each changed slot once, with its row before and after the batch. No row occurs twice, neither as evicted
    /// nor as inserted.
    fn insert_misses(&mut self, ids: &[i64]) -> &[CacheInsertion];
}

/// [`EvictingSlots`] in the order of a policy.
#[derive(Debug)]
pub(super) struct PolicySlots<O> {
    map: SlotMap,
    /// The row in each slot; -1 for a free one.
    owners: Vec<i64>,
    /// `None` if there are no slots.
    order: Option<O>,
    /// Positions of a batch's misses; kept to reuse the allocation.
    misses: Vec<usize>,
    /// The changes of the last batch.
    insertions: Vec<CacheInsertion>,
    /// For each slot, its index in `insertions` while a batch is inserted; otherwise -1.
    changed: Vec<i32>,
}

impl<O: SlotOrder> PolicySlots<O> {
    /// Creates `capacity` free slots, but at most as many as the table has rows.
    ///
    /// # Errors
    /// [`GatherError::TooManyCached`], [`GatherError::CacheMemory`].
    pub fn new(table_rows: usize, capacity: usize) -> Result<Self, GatherError> {
        let capacity = capacity.min(table_rows);
        check_capacity(capacity)?;
        let map = SlotMap::new(table_rows)?;
        let lack = |error: std::collections::TryReserveError| GatherError::CacheMemory {
            bytes: 12 * capacity as u128,
            reason: error.to_string(),
        };
        let (mut owners, mut changed) = (Vec::new(), Vec::new());
        owners.try_reserve_exact(capacity).map_err(lack)?;
        owners.resize(capacity, -1);
        changed.try_reserve_exact(capacity).map_err(lack)?;
        changed.resize(capacity, -1);
        let order = (capacity > 0).then(|| O::new(capacity));
        Ok(Self { map, owners, order, misses: Vec::new(), insertions: Vec::new(), changed })
    }
}

impl<O: SlotOrder> EvictingSlots for PolicySlots<O> {
    fn capacity(&self) -> usize {
        self.owners.len()
    }

    fn map(&self) -> &[i32] {
        self.map.slots()
    }

    fn insert_misses(&mut self, ids: &[i64]) -> &[CacheInsertion] {
        let Self { map, owners, order, misses, insertions, changed } = self;
        insertions.clear();
        let map = map.slots_mut();
        let Some(order) = order else { return insertions };
        if uva_ops::rows::any_outside(uva_ops::Vectors::widest(), ids, map.len()) {
            return insertions;
        }
        // All lookups come first: an insertion may evict a row that a later id of this batch has hit.
        misses.clear();
        for (position, &id) in ids.iter().enumerate() {
            match map[id as usize] {
                NO_SLOT => misses.push(position),
                slot if O::SEES_HITS => order.hit(slot as usize),
                _ => {}
            }
        }
        for &position in &*misses {
            let id = ids[position];
            // The same id occurred earlier in this batch.
            if map[id as usize] != NO_SLOT {
                continue;
            }
            let slot = order.next_slot();
            let owner = std::mem::replace(&mut owners[slot], id);
            if owner >= 0 {
                map[owner as usize] = NO_SLOT;
            }
            map[id as usize] = slot as i32;
            let inserted =
                CacheInsertion { evicted: owner, inserted: id, position: position as u64, slot: slot as i64 };
            match usize::try_from(changed[slot]) {
                // The slot's row was inserted and evicted within this batch, so the row from before the batch loses the
                // slot.
                Ok(place) => {
                    let evicted = insertions[place].evicted;
                    insertions[place] = CacheInsertion { evicted, ..inserted };
                }
                Err(_) => {
                    changed[slot] = insertions.len() as i32;
                    insertions.push(inserted);
                }
            }
        }
        for insertion in &*insertions {
            changed[insertion.slot as usize] = -1;
        }
        insertions
    }
}
