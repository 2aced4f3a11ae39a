//! Typed launches of the kernels in the folder `kernels` of this repository.

pub mod cache;
pub mod copies;
pub mod gather;
pub mod order;
pub mod sample;
pub mod sums;
pub mod tables;
pub mod train;
