//! A stand-in libcuda for machines without a GPU: for tests, never shipped.
//!
//! Built twice from one source. As a shared library it exports the CUDA driver's functions that this project calls (the
//! table is `exports.rs`). Device memory is a memfd, a stream is a thread, and a launch runs the shipped kernels,
//! compiled for the host. It also includes a stand-in libcufile. As a Rust library it is the harness that runs tests
//! with that shared library: [`library_folder`], [`environment`] and [`in_process`].
//!
//! This crate must not depend on its callers: it sees only what a driver sees. Its README lists what it does not model.

#![deny(unsafe_op_in_unsafe_fn)]

mod cufile;
mod device_memory;
mod execution;
mod exports;
mod harness;
mod machine;

pub use harness::{
    PATIENCE, cufile_environment, environment, in_process, in_process_with, in_process_with_cufile,
    kernel_cache, library_folder, on_a_gpu,
};
