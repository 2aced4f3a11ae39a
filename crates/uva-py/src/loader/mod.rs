//! Batches: how they are prepared, handed out and lent.

pub mod attach;
pub mod batch;
pub mod cache_tally;
pub mod exchange;
pub mod hops;
pub mod open;
pub mod source;
