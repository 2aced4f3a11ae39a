//! The real binary, driven as its users drive it. One program, one folder a subject: each would be linked anew otherwise.
//!
//! Tests of all modules run side by side. A test therefore keeps to a directory of its own, cache included, and judges
//! nothing of the machine that another test may change meanwhile.

mod support;

mod batches;
mod commands;
mod data;
mod faults;
mod gpu;
mod project;
mod ranks;
mod sums;
mod training;
