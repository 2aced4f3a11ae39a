//! Plans of caches, over generated graphs.

mod common;
mod plan;
mod plan_file;
mod policies;
mod split;
mod workload;
