//! The reading half of a loop over rows: addresses of rows, in a table or in a cache before it.

use crate::prefetch::prefetch;

/// The addresses of rows in this process's memory.
pub trait RowAddresses: Copy {
    /// The address of the row, and 1 if it is in a cache.
    ///
    /// # Safety
    /// The id is a row of the table.
    unsafe fn row(self, id: i64) -> (*const u8, u64);

    /// Prefetches the data that [`RowAddresses::row`] will read, for an id that is a row of the table.
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

impl RowAddresses for TableRows<'_> {
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
    /// Creates a cached table. `map` has the cache's slot of every row of the table (negative: not cached), `rows` the
    /// cached rows.
    ///
    /// # Safety
    /// `map` has as many entries as the table has rows, and each is negative or below `rows.len() / row_bytes`.
    pub unsafe fn new(table: &'t [u8], map: &'t [i32], rows: &'t [u8], row_bytes: usize) -> Self {
        Self { table, map, rows, row_bytes }
    }
}

impl RowAddresses for CachedTable<'_> {
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

/// Several tables of rows of one size, numbered through: the rows of the first come first.
#[derive(Clone, Copy)]
pub struct JoinedTables<'t, const N: usize> {
    tables: [&'t [u8]; N],
    /// The number of each table's first row.
    starts: [usize; N],
    rows: usize,
    row_bytes: usize,
}

impl<'t, const N: usize> JoinedTables<'t, N> {
    /// Joins these tables, with contiguous rows of `row_bytes` bytes each (at least 1). A table may be empty.
    ///
    /// # Panics
    /// If a table is not whole rows.
    pub fn new(tables: [&'t [u8]; N], row_bytes: usize) -> Self {
        let mut rows = 0;
        let starts = tables.map(|table| {
            assert!(table.len().is_multiple_of(row_bytes), "{} bytes in rows of {row_bytes}", table.len());
            let start = rows;
            rows += table.len() / row_bytes;
            start
        });
        Self { tables, starts, rows, row_bytes }
    }

    /// How many rows all tables have.
    pub fn rows(&self) -> usize {
        self.rows
    }
}

impl<const N: usize> RowAddresses for JoinedTables<'_, N> {
    #[inline(always)]
    unsafe fn row(self, id: i64) -> (*const u8, u64) {
        let row = id as usize;
        // The last table that begins at the row or before it. An empty one begins where the next one does, and if it is
        // the last, it begins after every row.
        let (mut table, mut start) = (self.tables[0], 0);
        for (&next, &begin) in self.tables.iter().zip(&self.starts).skip(1) {
            if row >= begin {
                (table, start) = (next, begin);
            }
        }
        // SAFETY: the id is below the number of all rows, so this table has the row at that distance from its first one,
        // and the product does not overflow.
        (unsafe { table.as_ptr().add((row - start) * self.row_bytes) }, 0)
    }

    #[inline(always)]
    fn expect(self, _: i64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_joined_tables_are_numbered_consecutively_past_empty_ones() {
        let memory: Vec<u8> = (0..30).collect();
        let (first, second) = memory.split_at(12);
        let none: &[u8] = &[];
        for tables in [[first, second, none], [none, first, second], [first, none, second]] {
            let joined = JoinedTables::new(tables, 3);
            assert_eq!(joined.rows(), 10);
            for row in 0..10 {
                // SAFETY: there are ten rows.
                let (address, hit) = unsafe { joined.row(row) };
                assert_eq!((address, hit), (memory[row as usize * 3..].as_ptr(), 0), "row {row}");
            }
        }
        assert_eq!(JoinedTables::new([none, none], 3).rows(), 0);
    }
}
