//! The reading half of a loop over rows: addresses of rows, in a table or in a cache before it.

use crate::prefetch::prefetch;

/// The addresses of rows in this process's memory.
pub trait Source: Copy {
    /// Where the row begins, and 1 if that is in a cache.
    ///
    /// # Safety
    /// The id is a row of the table.
    unsafe fn row(self, id: i64) -> (*const u8, u64);

    /// Asks for what [`Source::row`] will read, for an id that is a row of the table.
    fn expect(self, id: i64);
}

/// A table alone.
#[derive(Clone, Copy)]
pub struct TableRows<'t> {
    /// Rows without gaps.
    pub table: &'t [u8],
    /// Bytes of a row.
    pub row_bytes: usize,
}

impl Source for TableRows<'_> {
    #[inline(always)]
    unsafe fn row(self, id: i64) -> (*const u8, u64) {
        // SAFETY: the id is below the number of rows, so the row lies in the table and the product does not overflow.
        (unsafe { self.table.as_ptr().add(id as usize * self.row_bytes) }, 0)
    }

    #[inline(always)]
    fn expect(self, _: i64) {}
}

/// A table with some of its rows in a cache.
#[derive(Clone, Copy)]
pub struct CachedTable<'t> {
    table: &'t [u8],
    map: &'t [i32],
    rows: &'t [u8],
    row_bytes: usize,
}

impl<'t> CachedTable<'t> {
    /// `map` has the cache's slot of every row of the table (negative: not cached), `rows` the cached rows.
    ///
    /// # Safety
    /// `map` has as many entries as the table has rows, and each is negative or below `rows.len() / row_bytes`.
    pub unsafe fn new(table: &'t [u8], map: &'t [i32], rows: &'t [u8], row_bytes: usize) -> Self {
        Self { table, map, rows, row_bytes }
    }
}

impl Source for CachedTable<'_> {
    #[inline(always)]
    unsafe fn row(self, id: i64) -> (*const u8, u64) {
        // SAFETY: by the promise of `new`, the map has an entry for each row of the table, and a slot in it is a row of
        // the cache. The id is one of the table. So the row lies in the table or in the cache, and the product does not
        // overflow.
        unsafe {
            let slot = *self.map.get_unchecked(id as usize);
            if slot < 0 {
                (self.table.as_ptr().add(id as usize * self.row_bytes), 0)
            } else {
                (self.rows.as_ptr().add(slot as usize * self.row_bytes), 1)
            }
        }
    }

    #[inline(always)]
    fn expect(self, id: i64) {
        prefetch(self.map.as_ptr().wrapping_add(id as usize));
    }
}
