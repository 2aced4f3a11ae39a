//! The CUDA kernels of `kernels/`, compiled for the host: run without a GPU, with every access to the table seen.
//!
//! [`launch`] runs an entry point as `cuLaunchKernel` would, thread by thread, with warps, shuffles, shared memory and
//! atomics (`shim/`). [`launch_logged`] also keeps which addresses each warp instruction read, and [`requests`] turns
//! that into the reads that a PCIe link would see. So what is said about a kernel is said by the code that ships.
//!
//! This crate must not know what rows mean, what a driver is, or how fast anything runs.

#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod gather;
pub mod requests;
mod shim;

pub use shim::{AccessLog, LaneAccess, LaunchError, WarpAccess, entry_points, launch, launch_logged};
