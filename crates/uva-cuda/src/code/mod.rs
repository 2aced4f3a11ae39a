//! Device code: compiled by NVRTC or carried along, cached, loaded as modules; where CUDA's and torch's libraries are.

pub(crate) mod cubin_cache;
mod image;
pub(crate) mod kernel_bundle;
pub mod libtorch;
pub(crate) mod module;
pub mod nvrtc;
pub(crate) mod toolkit;
