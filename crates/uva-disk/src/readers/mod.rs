//! The readers of byte ranges, and their selection.

mod mmap;
mod pread;
pub(crate) mod probe;
pub(crate) mod reader;
pub(crate) mod uring;
