//! The loader as used by a program that embeds it. One program, with a module per subject.
//!
//! `threads` is a separate program, because it counts the threads of its process.

#[path = "../common/mod.rs"]
mod common;

mod aggregate;
mod caches;
mod consumer;
mod edge_attr;
mod edge_type;
mod feature_types;
mod gpu_cache;
mod hops;
mod input_nodes;
mod pad;
mod pipeline;
mod ranks;
mod rows;
mod stand_in;
mod typed;
mod typed_disk;
mod typed_trees;
mod whole;
