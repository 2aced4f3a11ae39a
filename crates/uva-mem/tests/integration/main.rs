//! Shared memory between threads and processes: frozen bytes, the hand-over channel, the slot ring. One program, with a
//! module per subject.

mod frozen;
mod handover;
mod ring_corrupt;
mod ring_loom;
mod ring_processes;
mod ring_threads;
