//! Every implementation under the conformance checks, and shared memory between threads and processes. One program,
//! with a module per subject.

mod book;
mod processes;
mod shared_memory;
mod single;
