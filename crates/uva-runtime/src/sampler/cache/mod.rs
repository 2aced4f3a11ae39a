//! The two caches of a run: neighbour lists and feature rows.
//!
//! A [`CachePlan`] (made by [`crate::tune::planning`], here or in an earlier run) names the lists and rows to cache.
//! [`CacheContents`] turns it into memory that the roles share. Samplers work on the graph in the order of the list
//! cache, with the cached lists first. The producer reads cached rows from its own copy. Batches carry the dataset's
//! ids, so the later stages see no difference.

mod caches;
mod contents;
mod described;
mod engine;
mod graph;
mod joined;

pub use caches::Caches;
pub use contents::CacheContents;
pub(crate) use contents::{ids, no_memory, reordered_graph};
pub use contents::{open_graph, open_rows};
pub use described::{described, summary};
pub(crate) use engine::{Engine, OnGpu};
pub(crate) use graph::SampledGraph;
pub use joined::CacheRanks;
pub(crate) use joined::JoinRequest;
pub use uva_plan::{CachePlan, CachePolicy};
