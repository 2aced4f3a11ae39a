//! The CUDA kernels of `kernels/`, compiled for the host: run without a GPU, with every access to the table recorded.
//!
//! [`launch`] runs an entry point as `cuLaunchKernel` would, thread by thread, with warps, shuffles, shared memory and
//! atomics (`shim/`). [`launch_logged`] also records the addresses that each warp instruction read, and [`requests`]
//! turns that into the reads that a PCIe link would see. So all figures about a kernel come from the shipped code.
//!
//! This crate must not depend on the meaning of rows, on drivers, or on speed.

#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod gather;
pub mod requests;
mod shim;

pub use shim::{AccessLog, LaneAccess, LaunchError, WarpAccess, entry_points, launch, launch_logged};
