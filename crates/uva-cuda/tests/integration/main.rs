//! The crate over NVIDIA's driver, or over the stand-in for it. One program, one module a subject.
//!
//! A test that needs the stand-in starts this program again for itself alone, by its full name: which libcuda a process
//! has is decided once.

mod common;

mod gather;
mod memory;
mod objects;
mod unavailable;
