//! The readers of byte ranges, and which of them works.

mod mmap;
mod pread;
pub(crate) mod probe;
pub(crate) mod reader;
pub(crate) mod uring;
