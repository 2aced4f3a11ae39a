//! The id types: what the hot loop is compiled for.

/// A row's position in the table, signed as the field's arrays have it.
pub(crate) trait RowId: bytemuck::Pod + Sync {
    fn is_below(self, rows: usize) -> bool;
    fn to_i64(self) -> i64;
    /// The id as an index; only for one that [is below](RowId::is_below) some number of rows.
    fn index(self) -> usize;
}

impl RowId for i64 {
    #[inline(always)]
    fn is_below(self, rows: usize) -> bool {
        // A negative id becomes a number of at least 2^63, more rows than a slice of bytes can hold.
        (self as u64) < rows as u64
    }

    fn to_i64(self) -> i64 {
        self
    }

    fn index(self) -> usize {
        self as usize
    }
}

impl RowId for i32 {
    #[inline(always)]
    fn is_below(self, rows: usize) -> bool {
        i64::from(self).is_below(rows)
    }

    fn to_i64(self) -> i64 {
        i64::from(self)
    }

    fn index(self) -> usize {
        self as usize
    }
}
