//! What the CUDA kernels in `kernels/` and their launchers share, written once: sources and compile options, entry points,
//! argument structs, tuning constants and limits.
//!
//! The constants are read from the CUDA headers, and the layout of each struct is compared with its header, both while this
//! crate is compiled: a change on one side alone does not build.
//!
//! This crate must not know drivers, devices or compilers: it holds data and opens nothing. Next: `uva-cuda` launches the
//! kernels, `cuda-sim` and `uva-kernel-sim` run them without a GPU, docs/kernels.md explains them.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

#[macro_use]
mod header;
mod arrays;
pub mod cache;
mod entry;
pub mod gather;
pub mod sample;
mod source;

pub use arrays::{Access, KernelArray};
pub use entry::{EntryPoint, Takes, entry_points};
pub use source::{GATHER, KernelSource, OPTIONS, SAMPLE, SOURCES};
