//! The two caches of a run: neighbour lists and feature rows.
//!
//! A [`CachePlan`] (made by `uva-plan`, here or in an earlier run) says which lists and rows are worth their bytes.
//! [`CacheContents`] turns it into memory that the roles share: samplers work on the graph in the order of the list
//! cache, in which a cached list is one of the first ones; the producer reads cached rows from its own copy. A batch's
//! ids are translated back before anybody else sees them, so everything behind the sampler is as without caches.

mod contents;
mod dataset;
mod device_times;
mod engine;
mod graph;
mod host_times;
mod planning;
mod request;

use serde::{Deserialize, Serialize};

pub use contents::CacheContents;
pub(crate) use contents::{open_graph, open_rows};
pub use dataset::CachedDataset;
pub(crate) use engine::{Engine, OnGpu};
pub(crate) use graph::SampledGraph;
pub(crate) use planning::cacheable;
pub use planning::{budget_left, budget_on_cpu, check_plan_fits, measure_sampler, plan, read_plan, workload};
pub(crate) use request::FoundParts;
pub use request::{Budget, CacheRequest, Found, SamplerVerdict, Search};
use uva_plan::PlanShare;
pub use uva_plan::{CachePlan, CachePolicy};
use uva_rows::cache::eviction::Eviction;

/// What is cached in a run. Part of every role's plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caches {
    /// How many lists: those of the first so many nodes in the samplers' order.
    pub lists: usize,
    /// Whether the samplers' order is another than the dataset's, so that they work on a reordered graph.
    pub reordered: bool,
    /// How many rows the feature cache holds.
    pub rows: usize,
    /// The policy by which the feature cache evicts, where it changes as the run goes instead of holding the same rows
    /// throughout.
    pub dynamic: Option<&'static Eviction>,
    /// How many of the run's first epochs the choice was made by: their hits say nothing of others.
    #[serde(default)]
    pub counted_epochs: u32,
}

impl Caches {
    /// Whether there is any.
    pub fn are_there(&self) -> bool {
        self.lists > 0 || self.rows > 0
    }

    /// Whether there is a feature cache that holds the same rows throughout.
    pub fn holds_chosen_rows(&self) -> bool {
        self.rows > 0 && self.dynamic.is_none()
    }
}

/// A plan in a line for people.
pub fn summary(plan: &CachePlan) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let part = |what: &str, share: &PlanShare| {
        format!(
            "{} {what} ({:.1} MiB, {:.1} % of the reads expected)",
            share.count,
            mib(share.bytes + share.map_bytes),
            100.0 * share.hit_rate
        )
    };
    format!(
        "{} and {} of {:.1} MiB; chosen by {}",
        part("lists", &plan.lists),
        part("rows", &plan.rows),
        mib(plan.budget_bytes),
        plan.policy
    )
}

/// A plan as the metrics' first line has it: sizes and expectations, without the curves. `counted_epochs` of the run were
/// counted for it.
pub fn described(plan: &CachePlan, counted_epochs: u32) -> serde_json::Value {
    serde_json::json!({
        "counted_epochs": counted_epochs,
        "policy": plan.policy,
        "budget_bytes": plan.budget_bytes,
        "lists": plan.lists,
        "rows": plan.rows,
        "model": plan.model,
        "predictions": plan.predictions,
        "planned_s": plan.profile.seconds,
    })
}
