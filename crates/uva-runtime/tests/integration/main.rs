//! The loader as a program that embeds it has it, and MPS as a launcher uses it. One program, one module a subject.
//!
//! Two programs beside it stay alone: `gpu_processes`, whose executable is also its roles, and `threads`, which counts the
//! threads of its process.

#[path = "../common/mod.rs"]
mod common;

mod caches;
mod consumer;
mod feature_types;
mod mps;
mod pipeline;
