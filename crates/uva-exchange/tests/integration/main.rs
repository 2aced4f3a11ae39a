//! Every implementation against the conformance checks, and shared memory between threads and processes. One program, one
//! module a subject.

mod book;
mod processes;
mod shared_memory;
mod single;
