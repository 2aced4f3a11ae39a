//! Loops over rows for each set of vector instructions ([`rows`]), and tools to write more of them.
//!
//! A portable x86-64 program may only assume SSE2. So hot loops are compiled once for each [`Set`], by [`vectorized!`]
//! from plain loops or by hand from intrinsics. A value of [`Vectors`], which names only instructions that the
//! processor has, selects one at run time.
//!
//! [`lists`] has the loops of a GNN's layers over sampled blocks: sums, maxima, attention, and their gradients. [`adam`]
//! updates a row of a trained table.
//!
//! This crate must not depend on the meaning of rows, the origin of tables, or devices; threads are provided by the
//! caller. `uva-rows` has the sources of rows that use these loops, `uva-train` and the Python module the layers that
//! use lists.
#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod adam;
pub mod lists;
mod prefetch;
pub mod rows;
mod vectorized;
mod vectors;

pub use adam::{RowAdam, RowAdamStep, adam};
pub use prefetch::prefetch;
pub use vectors::{Set, Vectors, multiplies_bfloat16};
