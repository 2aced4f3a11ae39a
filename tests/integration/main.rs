//! Tests of the real binary. One program with a folder per subject: separate programs would each be linked again.
//!
//! Tests of all modules run concurrently. So a test uses its own directory, cache included, and does not check any
//! state of the machine that another test may change meanwhile.

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
