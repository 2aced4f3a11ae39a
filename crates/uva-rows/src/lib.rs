//! Rows of a table, picked by id, written one after another: how features get from the dataset into a slot.
//!
//! A row is opaque bytes, of any number from 1 (or values of half precision, which are widened on the way); an id is
//! its position in the table. Every backend keeps the contract
//! of [`RowGather`], and the `conformance` module (behind the feature of that name) checks it. Here are the one for the
//! CPU, [`HostGather`], and those for a GPU, in [`cuda`]; building them needs no CUDA. Each may have a [`cache`] of
//! rows that are nearer than the table.
//!
//! This crate must not know what a row means, where a table comes from, or how a slot is handed over.

#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod cache;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod cuda;
mod host;

pub use cache::{CachedRows, FifoCache, Hits, RowCache};
pub use host::{HalfFloat, HostGather, RowCopy};

/// Copies rows of a table, picked by id, into the caller's memory.
///
/// All ids are checked before any byte of the table is read, and `out` is untouched on an error. Ids may repeat and
/// need no order; none at all is fine.
pub trait RowGather {
    /// Rows of the table: valid ids are `0..rows()`.
    fn rows(&self) -> usize;

    /// Bytes of a row.
    fn row_bytes(&self) -> usize;

    /// Writes row `ids[i]` to `out[i * row_bytes()..][..row_bytes()]` for every `i`.
    ///
    /// # Errors
    /// [`GatherError::IdOutOfRange`] for the first id that is no row; [`GatherError::OutputLength`] unless `out` is
    /// exactly `ids.len() * row_bytes()` bytes.
    fn gather(&mut self, ids: &[i64], out: &mut [u8]) -> Result<(), GatherError>;

    /// As [`RowGather::gather`], for 32-bit ids.
    ///
    /// # Errors
    /// As [`RowGather::gather`].
    fn gather_i32(&mut self, ids: &[i32], out: &mut [u8]) -> Result<(), GatherError>;

    /// How many rows came from the backend's cache so far; a gather that failed counts for nothing. All 0 hits without
    /// a cache.
    fn hits(&self) -> Hits;
}

/// Why rows were not gathered, or a gather was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GatherError {
    /// An id is no row of the table.
    #[error("id {id} at position {position} is outside the table of {rows} rows")]
    IdOutOfRange {
        /// Where in the ids it stands.
        position: usize,
        /// The id.
        id: i64,
        /// Rows of the table.
        rows: usize,
    },
    /// The output has another size than the rows asked for.
    #[error("{ids} rows of {row_bytes} bytes need {} bytes of output, not {length}", *ids as u128 * *row_bytes as u128)]
    OutputLength {
        /// How many ids there are.
        ids: usize,
        /// Bytes of a row.
        row_bytes: usize,
        /// Bytes of the output.
        length: usize,
    },
    /// The table's bytes are not whole rows.
    #[error("a table of {length} bytes does not divide into rows of {row_bytes} bytes")]
    TableLength {
        /// Bytes of the table.
        length: usize,
        /// Bytes of a row.
        row_bytes: usize,
    },
    /// A row to be widened is no whole number of 16-bit values.
    #[error("a row of {row_bytes} bytes is no whole number of 16-bit values that could be widened")]
    NotHalves {
        /// Bytes of a row.
        row_bytes: usize,
    },
    /// An id stands twice among the rows to be cached.
    #[error("id {id} at position {position} of the rows to be cached stands there twice")]
    RepeatedId {
        /// Where it stands for the second time.
        position: usize,
        /// The id.
        id: i64,
    },
    /// More rows to be cached than 32-bit slots can count.
    #[error("a cache of {rows} rows: at most {} can be cached", crate::cache::MOST_CACHED_ROWS)]
    TooManyCached {
        /// How many were asked for.
        rows: usize,
    },
    /// There is no memory for a cache.
    #[error("no memory for a cache of rows ({bytes} bytes): {reason}")]
    CacheMemory {
        /// Bytes asked for.
        bytes: u128,
        /// What the system said.
        reason: String,
    },
    /// A cache was made for another table.
    #[error(
        "a cache for {rows} rows of {row_bytes} bytes is none for a table of {table_rows} rows of {table_row_bytes} bytes"
    )]
    OtherTable {
        /// Rows of the table that it was made for.
        rows: usize,
        /// Bytes of each.
        row_bytes: usize,
        /// Rows of the table at hand.
        table_rows: usize,
        /// Bytes of each.
        table_row_bytes: usize,
    },
    /// The threads could not be started.
    #[error(
        "{threads} gather threads could not be started: {reason}; ask for fewer, or raise the limit on processes and \
         threads (ulimit -u, or a container's pids limit)"
    )]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// What the system said.
        reason: String,
    },
    /// The device failed.
    #[error("the gather on the GPU failed: {reason}")]
    Device {
        /// What the driver said, and to which call.
        reason: String,
    },
}
