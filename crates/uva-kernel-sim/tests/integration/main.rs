//! The kernels on the host, and the shim that runs them.

mod block;
mod cache;
mod conformance;
mod continued_sums;
mod copies;
mod order;
mod requests;
mod shim;
mod sums;
mod tables;
mod verdict;
