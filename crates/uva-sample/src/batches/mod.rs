//! Sampled batches: their arrays, bounds of these, local ids and hashes.

pub(crate) mod batch;
pub(crate) mod bounds;
pub(crate) mod hash;
pub(crate) mod local_ids;
pub mod sizes;
pub(crate) mod tree_ids;
