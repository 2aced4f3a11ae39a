//! Which adjacency lists and which feature rows are worth their bytes in GPU memory.
//!
//! On real graphs a few per cent of lists and rows take most reads. This crate finds out which ([`HotnessPolicy`]: a
//! guess from the graph, a calculation, or counts of really sampled epochs), what a hit saves ([`CostModel`]: a line
//! fitted to a few timed runs, or bytes where no line fits), and how to divide a budget of bytes between the two caches
//! ([`allocate()`]). [`plan()`] does all of it; its product is a [`CachePlan`], a file that a run reads back.
//!
//! Ids are the dataset's own throughout. Cached lists are a prefix of an order, hottest byte first, so that a graph
//! rewritten in that order finds a cached list by comparing one number.
//!
//! ```
//! use uva_plan::{CachePlan, PlanRequest, Workload, plan};
//! use uva_graph::Dataset;
//! use uva_io::generate;
//! use uva_sample::SamplerOptions;
//!
//! let parent = tempfile::tempdir()?;
//! let out = parent.path().join("graph");
//! generate::power_law(&out, &generate::PowerLaw { nodes: 2000, ..Default::default() }, &|_| {})?;
//! let dataset = Dataset::open(&out)?;
//!
//! let options = SamplerOptions { fanouts: vec![5, 5], ..SamplerOptions::default() };
//! let workload = Workload::of(&dataset, options.clone(), 100);
//! let plan = plan(&PlanRequest::new(&dataset, workload, 200_000), None)?;
//! let (lists, rows) = (&plan.lists, &plan.rows);
//! println!("{} lists and {} rows, {:.0} % of rows hit", lists.count, rows.count, 100.0 * rows.hit_rate);
//!
//! let path = parent.path().join("plan.json");
//! plan.write(&path)?;
//! let warnings = CachePlan::read(&path)?.check(&dataset, &options, 100)?;
//! assert!(warnings.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What this crate must not know: processes, devices, and what the caches are made of. Whoever has them times them
//! through [`TimedCaches`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod allocate;
mod analytic;
mod cache_policy;
mod compare;
mod curve;
mod error;
mod hotness;
mod model;
mod plan;
mod plan_file;
mod policy;
mod profile;
mod rank;
mod simulation;
mod workload;

pub use allocate::{Allocation, Item, RowItems, Weights, allocate};
pub use analytic::Analytic;
pub use cache_policy::{CachePolicy, UnknownPolicy};
pub use compare::{PolicyHits, PolicyPoint, compare_policies};
pub use curve::{CurvePoint, curve, hit_rate};
pub use error::CacheError;
pub use hotness::{Hotness, count, count_batches};
pub use model::{
    Basis, Benefits, CostModel, LIST_READ_BYTES, Line, Prediction, ReadsPerBatch, row_link_bytes,
};
pub use plan::{CachedKinds, PlanRequest, Timed, TimedCaches, plan, plan_and_profile};
pub use plan_file::{
    CachePlan, IdFile, PLAN_VERSION, PlanCurves, PlanDataset, PlanOptions, PlanPredictions, PlanProfile,
    PlanShare, PlanWarning,
};
pub use policy::{Degree, HotnessPolicy, Optimal, Presample, Random};
pub use profile::{Profile, SweepPoint};
pub use rank::{Sizes, rank_lists, rank_rows};
pub use simulation::Simulation;
pub use workload::Workload;
