//! Sampling as calls, without a loader.

pub mod cached;
pub mod neighbors;
