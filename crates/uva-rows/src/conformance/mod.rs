//! The checks that every source passes: with any cached rows, the output equals that of a plain loop bit for bit, and
//! every hit is counted.
//!
//! A source's tests call [`run`] (which takes seconds) and [`large_table`] with a function that creates the source over
//! a table. Tests of caches, of widening and of sums call [`static_cache`], [`evicting_cache`], [`widening`] and
//! [`summed`]. Sources of device memory are checked through [`ReadBack`](crate::cuda::ReadBack), with the same filler
//! as a run. Each check panics with the failed case.

mod cache;
mod check;
mod plain;
mod sums;
mod widening;

pub use cache::{
    FifoReference, MakeCached, MakeEvicting, Reference, SieveReference, evicting_cache, static_cache,
};
pub use check::{EDGE_ROW_BYTES, Extent};
pub use plain::{Make, every_row_size_at_every_offset, large_table, run, whole_tables};
pub use sums::{MakeSummed, summed};
pub use widening::{MakeWidening, widening};
