//! The caches requested before a run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uva_plan::CachePolicy;

/// How much memory the caches may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Budget {
    /// This many bytes, maps included.
    Bytes(u64),
    /// The memory left after one training batch, less a reserve.
    Auto,
}

/// What to cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheRequest {
    /// The contents of this file.
    Planned(PathBuf),
    /// The lists and rows that are worth it.
    Find {
        /// Within this budget.
        budget: Budget,
        /// By this policy.
        policy: CachePolicy,
    },
}

/// Where sampling is faster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplerVerdict {
    /// On the GPU.
    pub on_gpu: bool,
    /// What was measured, for people.
    pub reason: String,
}
