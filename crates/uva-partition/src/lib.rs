//! Partitions: they assign each node of a graph to a part, so that training on one part reads little from other parts.
//!
//! [`partition()`] partitions the nodes by one of several [`Method`]s. The result is a function of the dataset in
//! original ids, the options and the seed: the number of threads and a reordering of the dataset change nothing.
//! [`visits`] counts the reads of other parts by batches of each part's own training nodes.
//!
//! | module | content |
//! |---|---|
//! | `options` | methods and their parameters |
//! | `graphs` | graphs as input of the methods: weights, orders, limits, counts |
//! | `methods` | the methods, a module each |
//! | `memory` | an estimate of the memory required |
//! | `task` | a graph, and the result of one method |
//! | `auto` | several methods, and the best of them |
//! | `result` | a partition, and the statistics of a map |
//! | `run` | the methods put together |
//! | `visits` | batches of the parts, and the lists and rows of other parts that they read |
//!
//! This crate must not depend on processes, devices, models or the datasets of parts. `uva-graph` stores the map as a
//! file ([`uva_graph::partition_map`]).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod auto;
mod graphs;
pub mod memory;
mod methods;
mod options;
mod result;
mod run;
mod task;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod vectors;
pub mod visits;

pub use auto::Candidate;
pub use graphs::counts::over_mean;
pub use options::{Count, Method, PartitionOptions, Scan};
pub use result::NodePartition;
pub use run::partition;
