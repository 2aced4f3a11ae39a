//! Builds compressed sparse columns from edges, in memory bounded by the caller.
//!
//! Edges go into `buckets` of consecutive nodes, by destination. Edges that exceed the memory are written to one
//! temporary file. At the end, [`CscBuilder::finish`] takes bucket after bucket, sorts it by a counting sort, and
//! appends it to `indptr.npy`, `indices.npy` and `weight.npy`. So the source is read once, in its own order, and edges
//! of one destination keep that order.

mod buckets;
mod builder;
mod changes;

pub use builder::{CscBuilder, Ends, LEAST_MEMORY, Numbers, SortKey};
pub use changes::{Changes, SelfLoops};
