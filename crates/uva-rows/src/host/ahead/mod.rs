//! Rows from disk, read before the batch that needs them turns up: [`LookAheadTable`].
//!
//! `kept` decides which rows lie in memory, and `source` puts them before a file.

mod kept;
mod source;

#[cfg(test)]
mod kept_tests;

pub use source::{LOOK_AHEAD_MOST, LookAheadTable, kept_row_bytes};
