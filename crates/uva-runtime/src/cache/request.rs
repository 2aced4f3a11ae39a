//! What is asked for, and what is found out for it before a run.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uva_graph::Dataset;
use uva_mem::FrozenBytes;
use uva_plan::{CachePlan, CachePolicy};

use super::{contents, planning};
use crate::backend::Backend;
use crate::{LoaderOptions, RuntimeError};

/// How much memory the caches may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Budget {
    /// So many bytes, maps included.
    Bytes(u64),
    /// What one training batch has shown to be left, less a reserve.
    Auto,
}

/// What to cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheRequest {
    /// What this file says.
    Planned(PathBuf),
    /// What turns out to be worth it.
    Find {
        /// In so many bytes.
        budget: Budget,
        /// How that is found out.
        policy: CachePolicy,
    },
}

/// What is to be found out before a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// What to cache in so many bytes, and how to find it.
    pub caches: Option<(u64, CachePolicy)>,
    /// Whether sampling is faster on the GPU.
    pub sampler: bool,
}

impl Search {
    /// Finds it out in this process. `note` is told what a person may want to know meanwhile.
    ///
    /// # Errors
    /// [`RuntimeError::Missing`] for more bytes than there are; [`RuntimeError::Input`] where there is nothing to count;
    /// what sampling, gathering or the GPU failed of.
    pub fn run(
        &self,
        dataset: &Arc<Dataset>,
        loader: &LoaderOptions,
        backend: &Backend,
        note: &dyn Fn(&str),
    ) -> Result<Found, RuntimeError> {
        planning::find(self, dataset, loader, backend, note)
    }
}

/// What was found out.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// What to cache.
    pub plan: Option<CachePlan>,
    /// Where to sample.
    pub sampler: Option<SamplerVerdict>,
}

/// [`Found`] as it travels between processes: node ids are memory of their own.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FoundParts {
    plan: Option<CachePlan>,
    lists: usize,
    rows: usize,
    sampler: Option<SamplerVerdict>,
}

const LISTS: &str = "uvatrain-planned-lists";
const ROWS: &str = "uvatrain-planned-rows";

impl Found {
    /// In parts, and the memory that goes with them.
    pub(crate) fn parted(self) -> Result<(FoundParts, Vec<FrozenBytes>), RuntimeError> {
        let mut regions = Vec::new();
        let (mut lists, mut rows) = (0, 0);
        if let Some(plan) = &self.plan {
            (lists, rows) = (plan.list_ids.len(), plan.row_ids.len());
            for (name, nodes) in [(LISTS, &plan.list_ids), (ROWS, &plan.row_ids)] {
                if !nodes.is_empty() {
                    regions.push(contents::ids(name, nodes)?);
                }
            }
        }
        Ok((FoundParts { plan: self.plan, lists, rows, sampler: self.sampler }, regions))
    }
}

impl FoundParts {
    /// Whole again, with the descriptors of that memory.
    pub(crate) fn joined(self, fds: Vec<OwnedFd>) -> Result<Found, RuntimeError> {
        let Self { mut plan, lists, rows, sampler } = self;
        let mut fds = fds.into_iter();
        let mut nodes = |name: &str, count: usize| -> Result<Vec<i64>, RuntimeError> {
            if count == 0 {
                return Ok(Vec::new());
            }
            let fd =
                fds.next().ok_or_else(|| RuntimeError::Failed(format!("no {name} came with the plan")))?;
            let bytes = count.saturating_mul(size_of::<i64>());
            let region = FrozenBytes::from_fd(name, fd, bytes).map_err(contents::no_memory)?;
            Ok(bytemuck::cast_slice(region.bytes()).to_vec())
        };
        if let Some(plan) = &mut plan {
            plan.list_ids = nodes(LISTS, lists)?;
            plan.row_ids = nodes(ROWS, rows)?;
        }
        Ok(Found { plan, sampler })
    }
}

/// Where sampling is faster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplerVerdict {
    /// On the GPU.
    pub on_gpu: bool,
    /// What was measured, for people.
    pub reason: String,
}
