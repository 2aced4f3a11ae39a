//! The location of a table.

/// The location of a table in its file: contiguous rows of the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableShape {
    /// The byte at which the first row begins.
    pub offset: u64,
    /// The number of rows.
    pub rows: usize,
    /// Bytes of a row, at least 1.
    pub row_bytes: usize,
}

impl TableShape {
    /// The byte at which the table ends.
    pub(crate) fn end(&self) -> u64 {
        let bytes = (self.rows as u64).checked_mul(self.row_bytes as u64);
        bytes.and_then(|bytes| bytes.checked_add(self.offset)).unwrap_or(u64::MAX)
    }
}
