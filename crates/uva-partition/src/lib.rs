//! Partitions: which part each node of a graph belongs to, so that training on one part asks little of the others.
//!
//! [`partition()`] divides the nodes by one of several [`Method`]s. The result is a function of the dataset in original
//! ids, the options and the seed: the number of threads and a reordering of the dataset change nothing. [`visits`]
//! counts what batches of the parts' own training nodes then ask of other parts.
//!
//! | module | what it is for |
//! |---|---|
//! | `options` | methods and their parameters |
//! | `graphs` | graphs as the methods read them: weights, orders, limits, counts |
//! | `methods` | the methods, a module each |
//! | `memory` | how much memory dividing takes |
//! | `task` | a graph, and what one method makes of it |
//! | `auto` | several methods, and the best of them |
//! | `result` | what a partition is, and what a map comes to |
//! | `run` | the methods put together |
//! | `visits` | batches of the parts, and the lists and rows of other parts that they read |
//!
//! This crate must not know of processes, devices, models or the datasets of parts. Next: `uva-graph` has the map as a
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
