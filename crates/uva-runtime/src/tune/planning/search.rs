//! A search before a run, in this process or another: caches, the place of sampling, and the speed of gathers.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uva_graph::Dataset;
use uva_mem::FrozenBytes;
use uva_plan::{CachePlan, CachePolicy, CachedKinds, TimedBy};

use super::measure::{PlanAsked, cacheable, measure_sampler, plan_kinds};
use super::request::{GPU_CACHE, HOST_CACHE, SamplerVerdict};
use crate::backend::Backend;
use crate::sampler::cache::{ids, no_memory};
use crate::tune::measurement::{self, Figures};
use crate::{LoaderOptions, RuntimeError};

/// The choices to determine before a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// The bytes and the policy of caches, if any.
    pub caches: Option<(u64, CachePolicy)>,
    /// Whether only rows are cached, before the disk.
    pub rows_only: bool,
    /// The contents of the caches with which the saving of a hit is timed.
    pub timed_by: TimedBy,
    /// Whether to measure where sampling is faster.
    pub sampler: bool,
    /// Whether to measure the speed of gathers ([`measurement`]).
    pub gathers: bool,
}

impl Search {
    /// Runs the search in this process. `note` receives lines for people.
    ///
    /// # Errors
    /// [`RuntimeError::Missing`] if the bytes exceed the memory; [`RuntimeError::Input`] if there is no batch to count;
    /// errors of sampling, gathering and the GPU.
    pub fn run(
        &self,
        dataset: &Arc<Dataset>,
        loader: &LoaderOptions,
        backend: &Backend,
        note: &dyn Fn(&str),
    ) -> Result<SearchResult, RuntimeError> {
        let mut found = SearchResult::default();
        // The CPU reads the rows of a host cache, for slots in any memory.
        let mut backend = if self.rows_only { Backend::Cpu } else { backend.clone() };
        if self.gathers
            && let Some(cuda) = backend.device_slots()
        {
            found.figures = Some(measurement::measure(dataset, loader.gather_threads, cuda)?);
        }
        if self.sampler {
            found.sampler = measure_sampler(dataset, loader, &mut backend)?;
        }
        if let Some((bytes, policy)) = self.caches {
            let option = if self.rows_only { HOST_CACHE } else { GPU_CACHE };
            let kinds = cacheable(&backend, loader);
            let kinds = CachedKinds { lists: kinds.lists && !self.rows_only, ..kinds };
            let asked = PlanAsked::new(bytes, policy).timed_by(self.timed_by);
            found.plan = Some(plan_kinds(dataset, loader, &backend, (kinds, &asked), option, note)?.0);
        }
        Ok(found)
    }
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct SearchResult {
    /// The plan of the caches.
    pub plan: Option<CachePlan>,
    /// The place of sampling.
    pub sampler: Option<SamplerVerdict>,
    /// The speed of gathers.
    pub figures: Option<Figures>,
}

/// [`SearchResult`] in the form for messages between processes; node ids are in separate memory.
#[derive(Debug, Serialize, Deserialize)]
pub struct FoundParts {
    plan: Option<CachePlan>,
    lists: usize,
    rows: usize,
    sampler: Option<SamplerVerdict>,
    figures: Option<Figures>,
}

const LISTS: &str = "uvatrain-planned-lists";
const ROWS: &str = "uvatrain-planned-rows";

impl SearchResult {
    /// Splits it into parts and their memory.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if memory cannot be allocated.
    pub fn parted(self) -> Result<(FoundParts, Vec<FrozenBytes>), RuntimeError> {
        let mut regions = Vec::new();
        let (mut lists, mut rows) = (0, 0);
        if let Some(plan) = &self.plan {
            (lists, rows) = (plan.list_ids.len(), plan.row_ids.len());
            for (name, nodes) in [(LISTS, &plan.list_ids), (ROWS, &plan.row_ids)] {
                if !nodes.is_empty() {
                    regions.push(ids(name, nodes)?);
                }
            }
        }
        let Self { plan, sampler, figures } = self;
        Ok((FoundParts { plan, lists, rows, sampler, figures }, regions))
    }
}

impl FoundParts {
    /// Joins the parts again, with the descriptors of that memory.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if a descriptor is missing or its memory has another size.
    pub fn joined(self, fds: Vec<OwnedFd>) -> Result<SearchResult, RuntimeError> {
        let Self { mut plan, lists, rows, sampler, figures } = self;
        let mut fds = fds.into_iter();
        let mut nodes = |name: &str, count: usize| -> Result<Vec<i64>, RuntimeError> {
            if count == 0 {
                return Ok(Vec::new());
            }
            let fd =
                fds.next().ok_or_else(|| RuntimeError::failed(format!("the plan came without {name}")))?;
            let bytes = count.saturating_mul(size_of::<i64>());
            let region = FrozenBytes::from_fd(name, fd, bytes).map_err(no_memory)?;
            Ok(bytemuck::cast_slice(region.bytes()).to_vec())
        };
        if let Some(plan) = &mut plan {
            plan.list_ids = nodes(LISTS, lists)?;
            plan.row_ids = nodes(ROWS, rows)?;
        }
        Ok(SearchResult { plan, sampler, figures })
    }
}
