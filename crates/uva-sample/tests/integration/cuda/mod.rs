//! The sampler on a GPU makes the batches of the one on the CPU, and its kernels do so individually.

mod equal;
mod gpu;
mod kernels;
mod kinds;
mod machine;
mod random;
