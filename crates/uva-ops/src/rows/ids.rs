//! Checks of ids.

crate::vectorized! {
    /// Whether any id is outside a table of `rows` rows.
    pub fn any_outside(ids: &[i64], rows: usize) -> bool {
        // No early exit: such a loop is not vectorized. A negative id becomes a number of at least 2^63, more rows
        // than memory can hold.
        let mut outside = false;
        for &id in ids {
            outside |= id as u64 >= rows as u64;
        }
        outside
    }
}
