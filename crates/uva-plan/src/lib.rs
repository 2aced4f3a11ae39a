//! Choice of the adjacency lists and feature rows to cache in GPU memory.
//!
//! On real graphs a few per cent of lists and rows receive most reads. A [`HotnessPolicy`] predicts these: it estimates
//! from the graph, calculates, or counts sampled epochs. A [`CostModel`] values a hit by a line fitted to a few timed
//! runs, or by bytes if no line fits. [`allocate()`] divides a budget of bytes between the two caches. [`plan()`]
//! combines these steps into a [`CachePlan`], a file that a run reads.
//!
//! Ids are the dataset's own throughout. Cached lists are a prefix of an order, hottest byte first. In a graph
//! rewritten in that order, one comparison determines whether a list is cached.
//!
//! ```
//! use uva_plan::{CachePlan, PlanRequest, Workload, plan};
//! use uva_graph::Dataset;
//! use uva_io::generate::{self, Common, PowerLaw};
//! use uva_sample::SamplerOptions;
//!
//! let parent = tempfile::tempdir()?;
//! let out = parent.path().join("graph");
//! let graph = PowerLaw::of(Common { nodes: 2000, ..Common::default() });
//! generate::write(&out, &graph, &|_| {})?;
//! let dataset = Dataset::open(&out)?;
//!
//! let options = SamplerOptions { fanouts: [5, 5].into(), ..SamplerOptions::default() };
//! let workload = Workload::of(&dataset, options.clone(), 100);
//! let plan = plan(&PlanRequest::new(&dataset, workload, 200_000), None)?;
//! let (lists, rows) = (&plan.lists, &plan.rows);
//! println!("{} lists and {} rows, {:.0} % of rows hit", lists.count, rows.count, 100.0 * rows.hit_rate);
//!
//! let path = parent.path().join("plan.json");
//! plan.write(&path)?;
//! let warnings = CachePlan::read(&path)?.check(&dataset, &options, 100, None)?;
//! assert!(warnings.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate must not know processes, devices, or the implementation of caches. `uva-runtime`, which has them, times
//! them through [`TimedCaches`]. Start at [`plan()`] and [`CachePolicy`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod access;
mod compare;
mod cost;
mod error;
mod placement;
mod plan;
mod plan_file;
mod policy;

pub use access::curve::{CurvePoint, READ_SHARES, ShareBytes, bytes_for_shares, curve, hit_rate};
pub use access::hotness::{Hotness, count, count_batches};
pub use access::rank::{Sizes, rank_lists, rank_rows};
pub use access::simulation::Simulation;
pub use access::workload::{EpochSize, Workload};
pub use compare::{PolicyHits, PolicyPoint, compare_policies};
pub use cost::allocate::{Allocation, Item, ReadWeights, RowItems, allocate};
pub use cost::model::{
    Basis, Benefits, CostModel, LIST_READ_BYTES, Line, Objective, Prediction, ReadsPerBatch, row_link_bytes,
};
pub use cost::profile::{Profile, SweepPoint};
pub use cost::sums::SumCounts;
pub use cost::timing::{TimedBy, TimedCaches, TimedFit, TimedRun};
pub use error::CacheError;
pub use placement::cores::{CoreDivision, OfStages, StageFit, TimedThreads, divide_cores};
pub use placement::roles::{
    GpuCounts, GpuStageTimes, QueueOrder, RolesEpoch, RolesOutcome, in_turns_ms, samplers_by,
    samplers_by_ratio, slower_side_ms, standby_pays,
};
pub use placement::switch::SwitchedRun;
pub use plan::{CachedKinds, PlanRequest, plan, plan_and_profile};
pub use plan_file::{
    CachePlan, IdFile, PLAN_VERSION, PlanCurves, PlanDataset, PlanOptions, PlanPredictions, PlanProfile,
    PlanShare, PlanWarning,
};
pub use policy::{
    Analytic, CachePolicy, ComparedPolicy, Degree, HotnessPolicy, Optimal, Presample, Random, Ranking,
    UnknownPolicy,
};
