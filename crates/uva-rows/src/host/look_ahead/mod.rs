//! Rows from disk, read before the batch that needs them turns up: [`LookAheadTable`].
//!
//! `retention` decides which rows lie in memory, and `source` puts them before a file.

mod retention;
mod source;

#[cfg(test)]
mod retention_tests;

pub use source::{LOOK_AHEAD_MOST, LookAheadTable, kept_row_bytes};
