//! Device code: compilation by NVRTC, shipped kernels, the cache, modules, and the search for CUDA's and torch's
//! libraries.

pub(crate) mod cubin_cache;
mod image;
pub(crate) mod kernel_bundle;
pub mod libtorch;
pub(crate) mod module;
pub mod nvrtc;
pub(crate) mod toolkit;
