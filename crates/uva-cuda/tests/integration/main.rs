//! Tests of the crate over NVIDIA's driver, or over the stand-in for it, in one program with a module per subject.
//!
//! A test that requires the stand-in starts this program again for that test alone, by its full name: a process loads
//! its libcuda only once.

mod common;

mod gather;
mod memory;
mod objects;
mod unavailable;
