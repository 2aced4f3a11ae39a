//! A feature cache on the GPU of a run whose roles are threads of this process.

use std::sync::{Arc, OnceLock};

use uva_cuda::Context;
use uva_graph::Dataset;
use uva_options::OptionError;
use uva_plan::{CachePolicy, CachedKinds, PlanRequest};
use uva_rows::cache::map_bytes;

use super::measure::{cacheable, workload};
use super::request::{Budget, GPU_CACHE};
use super::search::Search;
use crate::RuntimeError;
use crate::backend::{Backend, CudaBackend, GatherChoice};
use crate::feed::rows::RowTree;
use crate::plan::RunPlan;
use crate::sampler::cache::{CacheContents, CacheRanks, JoinRequest, summary};

/// The requested cache.
#[derive(Clone, Debug)]
pub struct GpuCache {
    /// Memory of this GPU, maps included.
    pub budget: Budget,
    /// The policy that chooses rows.
    pub policy: CachePolicy,
    /// The ranks whose GPUs share the rows; `None` if this GPU holds all of its rows.
    pub ranks: Option<Arc<CacheRanks>>,
    /// The result for a cache of this GPU alone, which roles that start again reuse.
    found: Arc<OnceLock<CacheContents>>,
}

impl GpuCache {
    /// A cache of this GPU alone.
    #[must_use]
    pub fn new(budget: Budget, policy: CachePolicy) -> Self {
        Self { budget, policy, ranks: None, found: Arc::default() }
    }

    /// Divides the cache among the GPUs of these ranks.
    #[must_use]
    pub fn between(self, ranks: CacheRanks) -> Self {
        Self { ranks: Some(Arc::new(ranks)), ..self }
    }
}

/// The contents of such a cache in a run of this plan, determined in this process. Empty if batches are in host memory.
///
/// # Errors
/// [`RuntimeError::Option`] for a cache that would not be read; see also [`Search::run`] and [`CacheRanks::join`].
pub(crate) fn gpu_cache_contents(
    dataset: &Arc<Dataset>,
    plan: &RunPlan,
    asked: &GpuCache,
    note: &dyn Fn(&str),
) -> Result<CacheContents, RuntimeError> {
    let Some(cuda) = plan.backend.device_slots() else {
        note(&format!("`{GPU_CACHE}` is not used: batches are in host memory"));
        if let Some(ranks) = &asked.ranks {
            ranks.leave();
        }
        return Ok(CacheContents::default());
    };
    let Budget::Bytes(bytes) = asked.budget else {
        let reason = "the memory that training leaves is not known here: give a size";
        return Err(OptionError::new("gpu_cache", asked.budget, reason).into());
    };
    check_cached_sums(plan, "gpu_cache")?;
    check_kinds(cacheable(&plan.backend, &plan.options), &plan.backend)?;
    if let Some(ranks) = &asked.ranks {
        return between_ranks(dataset, plan, (cuda, bytes, asked.policy), ranks, note);
    }
    if let Some(found) = asked.found.get() {
        return Ok(found.clone());
    }
    let search = Search { caches: Some((bytes, asked.policy)), ..Search::default() };
    let found = search.run(dataset, &plan.options, &plan.backend, note)?;
    let Some(cached) = found.plan else {
        return Err(RuntimeError::failed("nothing was planned for the cache on the GPU"));
    };
    note(&format!("caches: {}", summary(&cached)));
    let counted = cached.counted_epochs(&workload(dataset, &plan.options)?);
    let contents = CacheContents::of_plan(dataset, &cached)?.chosen_by(counted);
    Ok(asked.found.get_or_init(|| contents).clone())
}

/// The rows that the GPUs of this machine's ranks share. Every rank chooses from the batches of all ranks, and so
/// chooses the same rows.
fn between_ranks(
    dataset: &Arc<Dataset>,
    plan: &RunPlan,
    (cuda, bytes, policy): (&CudaBackend, u64, CachePolicy),
    ranks: &CacheRanks,
    note: &dyn Fn(&str),
) -> Result<CacheContents, RuntimeError> {
    if let Some(eviction) = policy.eviction() {
        let reason = "not supported with `gpu_cache_share`, whose rows do not change during a run: choose a policy that ranks \
                      them beforehand, or omit `gpu_cache_share`";
        return Err(OptionError::new("cache_policy", eviction.name, reason).into());
    }
    if cuda.gather != GatherChoice::ZeroCopy {
        let reason = format!(
            "kernels read rows that several GPUs share, but with `gather={}` the CPU copies them: omit `gpu_cache_share`, or \
             give `features=memory` if rows are read from disk",
            plan.backend.gather_name()
        );
        return Err(OptionError::of("gpu_cache_share", reason).into());
    }
    let (row_bytes, counted) = (dataset.table().row_bytes(), workload(dataset, &plan.options)?);
    let choose = |rows: usize| {
        let bytes = map_bytes(dataset.nodes()) + (rows * row_bytes) as u64;
        let kinds = CachedKinds { lists: false, rows: true };
        let request = PlanRequest { policy, kinds, ..PlanRequest::new(dataset, counted.clone(), bytes) };
        // With rows alone there is no division, so no times are needed.
        let (chosen, _) = uva_plan::plan_and_profile(&request, None)?;
        Ok(chosen.row_ids)
    };
    let context = Context::primary(cuda.ordinal)?;
    let asked = JoinRequest {
        context: &context,
        dataset,
        threads: plan.options.gather_threads,
        bytes,
        policy: policy.name(),
    };
    let rows = ranks.join(&asked, &choose)?;
    note(&format!("caches: {}; chosen by {policy}", rows.summary(row_bytes)));
    Ok(CacheContents::of_joined(&rows)?.chosen_by(policy.counted_epochs()))
}

/// Rejects a cache on the GPU that a run with these kinds would not read.
///
/// # Errors
/// [`RuntimeError::Option`] with the kinds that would be read.
pub fn check_kinds(kinds: CachedKinds, backend: &Backend) -> Result<(), RuntimeError> {
    if kinds.lists || kinds.rows {
        return Ok(());
    }
    let reason = format!(
        "caches on the GPU are read by `sampler=gpu` (lists), and by `gather=zero-copy` and `gather=dma` (rows; with `dma` of \
         sums only the CPU's, `mean` or `gcn`). This run has `sampler=cpu` and `gather={}`",
        backend.gather_name()
    );
    Err(OptionError::of("gpu_cache", reason).into())
}

/// Rejects a cache on the GPU, requested by `option`, if the CPU begins sums with rows from disk.
///
/// # Errors
/// [`RuntimeError::Option`] with an alternative.
pub fn check_cached_sums(plan: &RunPlan, option: &str) -> Result<(), RuntimeError> {
    let tree = RowTree::of(plan);
    if tree.sums().is_none() || !tree.reads_disk() {
        return Ok(());
    }
    let reason = "not supported with `features=disk`: with a cache on the GPU the CPU begins sums with rows in memory. Give \
                  `host_cache` instead, or `aggregate=off`";
    Err(OptionError::of(option, reason).into())
}
