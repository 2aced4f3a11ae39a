//! Seed orders, sampler kinds and batches, on the CPU and on a GPU. What a batch allocates is a program of its own.

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
mod uniformity;
mod vectors;
mod walks;
mod weighted;
