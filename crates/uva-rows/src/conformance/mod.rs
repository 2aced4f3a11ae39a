//! The checks that every source passes: the same rows as a plain loop, bit for bit, whatever is cached, and every hit
//! counted.
//!
//! A source's tests call [`run`] (seconds) and [`large_table`] with a function that makes it over a table; those of
//! caches and of widening call [`static_cache`], [`evicting_cache`] and [`widening`]. Sources of device memory are
//! checked through [`ReadBack`](crate::cuda::ReadBack), which is a filler of a run's. Each check panics with the case
//! that failed.

mod cached;
mod check;
mod plain;
mod widened;

pub use cached::{
    FifoReference, MakeCached, MakeEvicting, Reference, SieveReference, evicting_cache, static_cache,
};
pub use check::EDGE_ROW_BYTES;
pub use plain::{Make, every_row_size_at_every_offset, large_table, run, whole_tables};
pub use widened::{MakeWidening, widening};
