//! Partitions: which part each node of a graph belongs to, so that training on one part asks little of the others.
//!
//! [`partition()`] divides the nodes by one of several [`Method`]s. The result is a function of the dataset in original
//! ids, the options and the seed: the number of threads and a reordering of the dataset change nothing. [`visits`]
//! counts what batches of the parts' own training nodes then ask of other parts.
//!
//! | file | what it is for |
//! |---|---|
//! | `options` | methods and their parameters |
//! | `graph` | the graph by original ids, with lists in both directions |
//! | `order` | random orders |
//! | `limits` | how many nodes and training nodes a part may have |
//! | `blocks`, `block_graph`, `merge`, `assign` | `bgl`: blocks by breadth-first search, merged, assigned greedily |
//! | `stream` | `ldg`: nodes one after the other, each to the part with most of its neighbours |
//! | `weighted`, `level`, `cluster`, `coarsest`, `multilevel` | `multilevel`: graphs whose nodes stand for several, clusters by label propagation, levels of these, parts of the last |
//! | `closures` | `pagraph`: training nodes to the part that has most of their closure |
//! | `simple` | `range` and `random` |
//! | `tally` | the edges of a node by what they lead to |
//! | `refine` | label propagation with limits |
//! | `counts` | sizes and edges between parts |
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

mod assign;
mod auto;
mod block_graph;
mod blocks;
mod closures;
mod cluster;
mod coarsest;
mod counts;
mod graph;
mod level;
mod limits;
pub mod memory;
mod merge;
mod multilevel;
mod options;
mod order;
mod refine;
mod result;
mod run;
mod simple;
mod stream;
mod tally;
mod task;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod vectors;
pub mod visits;
mod weighted;

pub use auto::Candidate;
pub use counts::over_mean;
pub use options::{Count, Method, PartitionOptions, Scan};
pub use result::NodePartition;
pub use run::partition;
