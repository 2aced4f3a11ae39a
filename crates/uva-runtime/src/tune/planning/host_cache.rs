//! A host cache before a table on disk: the division of its memory, and its fixed rows.

use std::sync::Arc;

use uva_graph::Dataset;
use uva_options::OptionError;
use uva_plan::{CachePolicy, TimedBy};

use super::measure::{budget_of_rows, check_host_budget, check_plan_fits, workload};
use super::request::{Budget, HOST_CACHE};
use super::search::Search;
use crate::RuntimeError;
use crate::backend::Backend;
use crate::feed::rows::RowTree;
use crate::options::Prepare;
use crate::options::batch_kind::RunData;
use crate::options::reader::Features;
use crate::plan::RunPlan;
use crate::sampler::cache::{CacheContents, Caches, summary};

/// The two parts of a host cache before a table on disk.
#[derive(Clone, Copy, Debug)]
pub struct HostCacheParts {
    /// Bytes for the rows that are read most, and their map.
    planned_bytes: u64,
    /// Bytes for rows that are kept as batches read them, and for their maps.
    pub kept_bytes: u64,
}

impl HostCacheParts {
    /// Divides the memory of a plan whose features are chosen; `None` if rows are read from memory. `note` receives
    /// lines for people.
    ///
    /// # Errors
    /// [`RuntimeError::Missing`] if the bytes exceed the memory; [`RuntimeError::Failed`] if the system does not report
    /// its memory.
    pub fn new(
        dataset: &Dataset,
        plan: &RunPlan,
        budget: Budget,
        note: &mut dyn FnMut(&str),
    ) -> Result<Option<Self>, RuntimeError> {
        if plan.options.features != Features::Disk {
            note(&format!("`{HOST_CACHE}` is not used: no feature rows are read from disk by the producer"));
            return Ok(None);
        }
        let bytes = match budget {
            Budget::Bytes(bytes) => bytes,
            Budget::Auto => {
                let (bytes, reason) = budget_of_rows()?;
                note(&format!("`{HOST_CACHE}=auto`: {reason}"));
                bytes
            }
        };
        check_host_budget(HOST_CACHE, bytes, 0)?;
        let of_types = matches!(RunData::of(dataset, &plan.options), RunData::Types(_));
        let planned_bytes = match plan.options.prepare {
            Prepare::Roles if of_types => 0,
            Prepare::Whole if of_types => {
                let reason = "not supported for typed graphs with `prepare=whole` yet: a worker keeps no rows of \
                              several tables; omit one of them";
                return Err(OptionError::of(HOST_CACHE, reason).into());
            }
            Prepare::Roles => bytes / 2,
            // A worker has no batch ahead of its own.
            Prepare::Whole => bytes,
        };
        let kept_bytes = bytes - planned_bytes;
        let kept = Caches { kept_bytes: Some(kept_bytes), ..Caches::default() };
        let kept_rows = RowTree::of(&plan.clone().with_caches(kept)).kept_rows().unwrap_or(0);
        let beside = if planned_bytes > 0 { ", in addition to the planned rows" } else { "" };
        note(&format!("host cache: room for {kept_rows} rows that batches need{beside}"));
        Ok(Some(Self { planned_bytes, kept_bytes }))
    }

    /// The search for the planned rows; an empty one if there are none.
    #[must_use]
    pub fn search(self) -> Search {
        if self.planned_bytes == 0 {
            return Search::default();
        }
        let caches = Some((self.planned_bytes, CachePolicy::PRESAMPLE));
        Search { caches, timed_by: TimedBy::Rank, rows_only: true, ..Search::default() }
    }

    /// The contents of a cache without planned rows.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if memory cannot be allocated.
    pub fn without_plan(self) -> Result<CacheContents, RuntimeError> {
        Ok(CacheContents::of_rows(&[])?.keeping(self.kept_bytes))
    }
}

/// The contents of a host cache of this budget in a run of this plan, determined in this process. Empty if rows are
/// read from memory.
///
/// # Errors
/// See [`HostCacheParts::new`] and [`Search::run`].
pub(crate) fn host_cache_contents(
    dataset: &Arc<Dataset>,
    plan: &RunPlan,
    budget: Budget,
    note: &dyn Fn(&str),
) -> Result<CacheContents, RuntimeError> {
    let Some(parts) = HostCacheParts::new(dataset, plan, budget, &mut |line| note(line))? else {
        return Ok(CacheContents::default());
    };
    if parts.planned_bytes == 0 {
        return parts.without_plan();
    }
    let found = parts.search().run(dataset, &plan.options, &plan.backend, note)?;
    let Some(cached) = found.plan else {
        return Err(RuntimeError::failed("no rows were planned for the host cache"));
    };
    check_plan_fits(&cached, dataset, &Backend::Cpu, HOST_CACHE)?;
    note(&format!("caches: {}", summary(&cached)));
    let counted = cached.counted_epochs(&workload(dataset, &plan.options)?);
    Ok(CacheContents::of_plan(dataset, &cached)?.chosen_by(counted).keeping(parts.kept_bytes))
}
