//! Rows from disk, read before the batch that needs them turns up: [`LookAhead`].
//!
//! `kept` decides which rows lie in memory, and `source` puts them before a file.

mod kept;
mod source;

#[cfg(test)]
mod kept_tests;

pub use source::{LOOK_AHEAD_MOST, LookAhead, kept_row_bytes};
