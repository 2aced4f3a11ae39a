//! Rows from disk, read ahead of the batch that needs them: [`LookAheadTable`].
//!
//! `retention` decides which rows stay in memory, and `source` combines them with a file.

mod retention;
mod source;

#[cfg(test)]
mod retention_tests;

pub use source::{LOOK_AHEAD_MOST, LookAheadTable, kept_row_bytes};
