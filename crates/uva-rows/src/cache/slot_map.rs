//! Slot maps: the location in a cache of each row of a table.

use uva_mem::ZeroedPages;

use super::pages::zeroed_pages;
use crate::error::GatherError;

/// The maximum number of rows of a cache: slots are int32.
pub const MOST_CACHED_ROWS: usize = i32::MAX as usize;

/// The value of a row without a slot in a slot map.
pub(crate) const NO_SLOT: i32 = -1;

/// Bytes of the slot map of a table of `table_rows` rows.
pub fn map_bytes(table_rows: usize) -> u64 {
    4 * table_rows as u64
}

/// The slot of each row of a table, in host memory: [`NO_SLOT`], or one below the number of slots.
#[derive(Debug)]
pub(crate) struct SlotMap {
    pages: ZeroedPages,
}

impl SlotMap {
    /// Creates a map without slots.
    pub fn new(table_rows: usize) -> Result<Self, GatherError> {
        let mut pages = zeroed_pages(4, table_rows)?;
        // All ones is -1.
        pages.bytes_mut().fill(0xff);
        Ok(Self { pages })
    }

    pub fn slots(&self) -> &[i32] {
        // Page-aligned. A table without rows has no page.
        if self.pages.bytes().is_empty() { &[] } else { bytemuck::cast_slice(self.pages.bytes()) }
    }

    /// The map as stored in memory.
    pub fn bytes(&self) -> &[u8] {
        self.pages.bytes()
    }

    pub fn slots_mut(&mut self) -> &mut [i32] {
        let bytes = self.pages.bytes_mut();
        if bytes.is_empty() { &mut [] } else { bytemuck::cast_slice_mut(bytes) }
    }

    /// Assigns slot `i` to the `i`-th of `ids`.
    ///
    /// # Errors
    /// [`GatherError::IdOutOfRange`], [`GatherError::RepeatedId`], [`GatherError::TooManyCached`].
    pub fn assign(&mut self, ids: &[i64]) -> Result<(), GatherError> {
        check_capacity(ids.len())?;
        let map = self.slots_mut();
        let rows = map.len();
        for (position, &id) in ids.iter().enumerate() {
            let place = usize::try_from(id).ok().and_then(|id| map.get_mut(id));
            let place = place.ok_or(GatherError::IdOutOfRange { position, id, rows })?;
            if *place != NO_SLOT {
                return Err(GatherError::RepeatedId { position, id });
            }
            *place = position as i32;
        }
        Ok(())
    }
}

/// Checks that the number of slots fits 32 bits.
pub(crate) fn check_capacity(rows: usize) -> Result<(), GatherError> {
    if rows > MOST_CACHED_ROWS { Err(GatherError::TooManyCached { rows }) } else { Ok(()) }
}
