//! The single definition of everything shared by the CUDA kernels in `kernels/` and their launchers: sources and
//! compile options, entry points, argument structs, tuning constants and limits.
//!
//! While this crate is compiled, it reads the constants from the CUDA headers and compares the layout of each struct
//! with its header. So a change on one side only does not build.
//!
//! This crate must not depend on drivers, devices or compilers: it has only data. Next: `uva-cuda` launches the
//! kernels, `cuda-sim` and `uva-kernel-sim` run them without a GPU, docs/internals/kernels.md explains them.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

#[macro_use]
mod header;
mod arrays;
pub mod block;
pub mod cache;
pub mod copies;
mod entry;
pub mod gather;
pub mod order;
pub mod sample;
mod source;
pub mod sums;
pub mod tables;
pub mod verdict;

pub use arrays::{Access, KernelArray};
pub use entry::{EntryPoint, Takes, entry_points};
pub use source::{GATHER, KernelSource, OPTIONS, SAMPLE, SOURCES, TRAIN};
