//! Seed orders, sampler kinds and batches, on the CPU and on a GPU. A separate program tests allocations.

mod citation_pattern;
mod common;
mod cuda;
mod divided;
mod invariants;
mod labor;
mod parts;
mod ppr;
mod reordered;
mod together;
mod trees;
mod typed_vectors;
mod uniformity;
mod vectors;
mod walks;
mod weighted;
