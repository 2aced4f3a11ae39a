//! The trainer on a device, with memory and libraries of CUDA.

pub(crate) mod cuda;
mod device_input;
pub(crate) mod on_device;
