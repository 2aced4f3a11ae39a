//! Counts of cache hits.

use crate::source::RowsRead;

/// The number of row lookups, and how many of them hit the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Rows of the last gather.
    pub last_rows: u64,
    /// The number of these rows that were cached.
    pub last: u64,
    /// Rows of all gathers so far.
    pub total_rows: u64,
    /// The number of these rows that were cached.
    pub total: u64,
}

impl Hits {
    /// Adds one fill.
    pub fn count(&mut self, read: &RowsRead) {
        (self.last_rows, self.last) = (read.total(), read.hits());
        self.total_rows += self.last_rows;
        self.total += self.last;
    }

    /// The fraction of all rows so far that were cached; 0 without rows.
    pub fn rate(&self) -> f64 {
        if self.total_rows == 0 { 0.0 } else { self.total as f64 / self.total_rows as f64 }
    }
}
