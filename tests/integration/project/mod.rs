//! Documents and scripts of the repository.

mod docs;
#[cfg(feature = "train")]
mod gpu_suite;
mod peers;
