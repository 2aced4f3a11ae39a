//! Typed functions for all calls of CUDA:
//! - detection of the driver and of device features
//! - contexts, streams, and events that processes share
//! - kernels compiled for the present device
//! - pinned tables, buffers shared between processes, and partitions of the multiprocessors
//! - reads of files into device memory
//!
//! One binary runs with and without a driver. Nothing links to libcuda, NVRTC or libcufile: each is opened on first use
//! ([`Driver::load`], [`nvrtc::Nvrtc::find`], [`cufile::Cufile::open`]). A missing component is a typed reason
//! ([`Unavailable`]), never a panic. Error texts do not query the driver.
//!
//! This crate must not depend on graphs, batches, or its process's role: it moves opaque bytes. It must not be used
//! after `fork` without `exec`. A process that only launches others does not need it.

#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

#[macro_use]
mod call;
mod code;
pub mod cufile;
mod devices;
mod error;
mod event;
pub mod kernels;
pub mod memory;
pub mod partition;
mod signal;
mod slice;
mod stream;

pub use code::cubin_cache::{CacheKind, user_cache_folder};
pub use code::kernel_bundle::carry_kernels;
pub use code::module::{CodeOrigin, Module, ModuleOptions, ModuleReport};
pub use code::{libtorch, nvrtc};
pub use devices::context::Context;
pub use devices::device::{Device, Feature};
pub use devices::driver::Driver;
pub use devices::probe::{DeviceReport, ProbeReport, Supports, probe};
pub use error::{CudaError, ErrorKind, Unavailable};
pub use event::{CudaEvent, EVENT_HANDLE_BYTES};
pub use signal::{Signal, StampSignal, clear_stamps};
pub use slice::DeviceSlice;
pub use stream::CudaStream;
