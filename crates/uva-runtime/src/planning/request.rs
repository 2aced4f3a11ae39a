//! What is asked for of the caches before a run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uva_plan::CachePolicy;

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

/// Where sampling is faster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SamplerVerdict {
    /// On the GPU.
    pub on_gpu: bool,
    /// What was measured, for people.
    pub reason: String,
}
