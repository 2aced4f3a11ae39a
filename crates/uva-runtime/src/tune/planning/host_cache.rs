//! A host cache before a table on disk: the division of its memory, and its fixed rows.

use std::sync::Arc;

use uva_graph::Dataset;
use uva_plan::{CachePolicy, TimedBy};

use super::measure::{budget_of_rows, check_host_budget, check_plan_fits, rows_kept_in, workload};
use super::request::{Budget, HOST_CACHE};
use super::search::Search;
use crate::RuntimeError;
use crate::backend::Backend;
use crate::options::Prepare;
use crate::options::reader::Features;
use crate::plan::RunPlan;
use crate::sampler::cache::{CacheContents, summary};

/// The two parts of a host cache before a table on disk.
#[derive(Clone, Copy, Debug)]
pub struct HostCacheParts {
    /// Bytes for the rows that are read most, and their map.
    planned_bytes: u64,
    /// Number of rows that are kept as batches read them.
    pub kept_rows: usize,
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
        let planned_bytes = match plan.options.prepare {
            Prepare::Roles => bytes / 2,
            // A worker has no batch ahead of its own.
            Prepare::Whole => bytes,
        };
        let kept_rows = rows_kept_in(bytes - planned_bytes, dataset);
        note(&format!(
            "host cache: room for {kept_rows} rows that batches need, in addition to the planned rows"
        ));
        Ok(Some(Self { planned_bytes, kept_rows }))
    }

    /// The search for the planned rows.
    #[must_use]
    pub fn search(self) -> Search {
        let caches = Some((self.planned_bytes, CachePolicy::PRESAMPLE));
        Search { caches, timed_by: TimedBy::Rank, rows_only: true, ..Search::default() }
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
    let found = parts.search().run(dataset, &plan.options, &plan.backend, note)?;
    let Some(cached) = found.plan else {
        return Err(RuntimeError::failed("no rows were planned for the host cache"));
    };
    check_plan_fits(&cached, dataset, &Backend::Cpu, HOST_CACHE)?;
    note(&format!("caches: {}", summary(&cached)));
    let counted = cached.counted_epochs(&workload(dataset, &plan.options)?);
    Ok(CacheContents::of_plan(dataset, &cached)?.chosen_by(counted).keeping(parts.kept_rows))
}
