//! Choices that are measured before a run: caches, the place of sampling, and the speed of gathers. The run's own
//! batches are counted, and its own sampler and gather are timed. Sums are timed for a benchmark. This module is above
//! the roles, since it times their parts; the roles do not depend on it.

mod cached_dataset;
mod device_times;
mod gpu_cache;
mod host_cache;
mod host_times;
mod measure;
mod remote_rows;
mod request;
mod search;
mod stage_times;
mod sum_times;
mod timed_part;

pub use cached_dataset::CachedDataset;
pub(crate) use gpu_cache::gpu_cache_contents;
pub use gpu_cache::{GpuCache, check_cached_sums, check_kinds};
pub use host_cache::HostCacheParts;
pub(crate) use host_cache::host_cache_contents;
pub use measure::{
    PlanAsked, budget_left, budget_on_cpu, cacheable, check_plan_fits, measure_sampler, plan, plan_asked,
    read_plan, workload,
};
pub(crate) use remote_rows::remote_rows;
pub use request::{Budget, CacheOptions, CacheRequest, GPU_CACHE, HOST_CACHE, SamplerVerdict};
pub use search::FoundParts;
pub use search::{Search, SearchResult};
pub use stage_times::time_stages;
pub use sum_times::{SumTimes, SumsToTime, TimedBatch, time_sums};
