//! Loops over rows for each set of vector instructions ([`rows`]), and the means to write more of them.
//!
//! A portable x86-64 program may assume no more than SSE2. So hot loops are compiled once for each [`Set`], by
//! [`vectorized!`] from plain loops or by hand from intrinsics. A value of [`Vectors`], which names only instructions
//! that the processor has, selects one at run time.
//!
//! This crate must not know what a row means, where tables come from, threads or devices. `uva-rows` has the sources
//! of rows that use these loops; `uva-train` has loops of its own over [`vectorized!`].
#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod prefetch;
pub mod rows;
mod vectorized;
mod vectors;

pub use prefetch::prefetch;
pub use vectors::{Set, Vectors};
