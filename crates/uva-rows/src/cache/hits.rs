//! Counts of cache hits.

use crate::source::RowsRead;

/// The number of row lookups, and how many of them hit the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Rows of the last gather.
    pub last_rows: u64,
    /// How many of those were cached.
    pub last: u64,
    /// Rows of all gathers so far.
    pub total_rows: u64,
    /// How many of those were cached.
    pub total: u64,
}

impl Hits {
    /// Takes one fill in.
    pub fn count(&mut self, read: &RowsRead) {
        (self.last_rows, self.last) = (read.total(), read.hits());
        self.total_rows += self.last_rows;
        self.total += self.last;
    }

    /// The share of all rows so far that were cached; 0 when there were none.
    pub fn rate(&self) -> f64 {
        if self.total_rows == 0 { 0.0 } else { self.total as f64 / self.total_rows as f64 }
    }
}
