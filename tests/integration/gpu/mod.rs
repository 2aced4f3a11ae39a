//! The GPU path, under the stand-in driver.

#[cfg(feature = "train")]
mod cuda;
mod disk_gpu;
mod gpu_slots;
#[cfg(feature = "train")]
mod hops_cufile;
#[cfg(feature = "train")]
mod hops_gpu;
mod mps;
mod run_gpu;
mod typed_gpu;
