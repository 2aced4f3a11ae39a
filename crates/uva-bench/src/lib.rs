//! Benchmarks of row gathers: on the CPU compared with a plain copy ([`measure`]), and over the link to a GPU compared
//! with the copy engine ([`pcie`]). `uvatrain bench gather` and `uvatrain bench pcie` use them.
//!
//! Of the product crates only the command line depends on this crate, which must not depend on datasets, batches or
//! terminals. [`pcie`] describes the method. The code under test is `uva-rows` (sources of rows) and `uva-cuda`
//! (kernels).

#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod gather;
pub mod pcie;

pub use gather::{MeasureError, MeasureOptions, Measurement, measure};
