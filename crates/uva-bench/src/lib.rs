//! Benchmarks of row gathers: on the CPU beside a plain copy ([`measure`]), and over the link to a GPU beside the copy
//! engine ([`pcie`]). Behind `uvatrain bench gather` and `uvatrain bench pcie`.
//!
//! No product crate depends on it except the command line. It must not know datasets, batches or terminals.
//! [`pcie`] describes the method. The code under test is `uva-rows` (sources of rows) and `uva-cuda` (kernels).

#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod gather;
pub mod pcie;

pub use gather::{MeasureError, MeasureOptions, Measurement, measure};
