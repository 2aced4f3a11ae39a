//! Everything that calls CUDA, behind typed functions:
//! - detection of the driver and of device features
//! - contexts, streams, and events that processes share
//! - kernels compiled for the device at hand
//! - pinned tables, buffers shared between processes, and partitions of the multiprocessors
//! - reads of files into device memory
//!
//! One binary runs with and without a driver. Nothing links to libcuda, NVRTC or libcufile: each is opened on first use
//! ([`Driver::load`], [`nvrtc::Nvrtc::find`], [`cufile::Cufile::open`]). A missing component is a typed reason ([`Unavailable`]), never a panic.
//! No error's text asks the driver anything.
//!
//! This crate must not know graphs, batches, or its process's role: it moves opaque bytes. It must not be used after
//! `fork` without `exec`. A process that only launches others has no reason to call it.

#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

#[macro_use]
mod call;
mod carried;
mod context;
mod cubin_cache;
pub mod cufile;
mod device;
mod driver;
mod error;
mod event;
mod image;
pub mod kernels;
pub mod libtorch;
pub mod memory;
mod module;
pub mod nvrtc;
pub mod partition;
mod probe;
mod signal;
mod slice;
mod stream;
mod toolkit;

pub use carried::carry_kernels;
pub use context::Context;
pub use cubin_cache::{CacheKind, user_cache_folder};
pub use device::{Device, Feature};
pub use driver::Driver;
pub use error::{CudaError, ErrorKind, Unavailable};
pub use event::{CudaEvent, EVENT_HANDLE_BYTES};
pub use module::{CodeOrigin, Module, ModuleOptions, ModuleReport};
pub use probe::{DeviceReport, ProbeReport, Supports, probe};
pub use signal::{Signal, StampSignal, clear_stamps};
pub use slice::DeviceSlice;
pub use stream::CudaStream;
