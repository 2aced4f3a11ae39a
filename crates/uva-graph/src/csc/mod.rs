//! Edges turned into compressed sparse columns, in memory that is bounded by the caller.
//!
//! Edges go into `buckets` of nodes that follow each other, by destination. What does not fit the memory is written
//! to one temporary file. When all are there, [`CscBuilder::finish`] takes bucket after bucket, sorts it by a counting
//! sort, and appends it to `indptr.npy`, `indices.npy` and `weight.npy`. So the source is read once, in its own order,
//! and edges of one destination keep that order.

mod buckets;
mod builder;
mod changes;

pub use builder::CscBuilder;
pub use changes::{Changes, SelfLoops};
