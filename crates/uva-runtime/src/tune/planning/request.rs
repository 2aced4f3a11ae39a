//! The caches requested before a run.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uva_options::OptionPurpose::Speed;
use uva_options::{ByteSize, Field, OptionValue, options};
use uva_plan::{CachePolicy, TimedBy};

const CACHES: &str = "Caches";

/// The option that gives bytes for caches, wherever they are.
pub const GPU_CACHE: &str = "gpu_cache";

/// The option that sets the bytes for cached rows of a table on disk.
pub const HOST_CACHE: &str = "host_cache";

options! {
    /// What to cache of the graph and of the rows, as requested. Each option is declared here and nowhere else
    /// ([`uva_options`]).
    pub struct CacheOptions {
        /// Memory for caches of neighbour lists and feature rows, on the GPU if one trains: 512MiB, 6GiB, or auto for what one
        /// training batch leaves. On a CPU the caches only count hits
        gpu_cache: Option<Budget> = None
            => Field::text::<Budget>("SIZE|auto", "512MiB, 6GiB, `auto`").of(CACHES, &[Speed]).unless_given("no caches")
                .brief("Memory for caches: 6GiB, or auto"),
        /// Method of ranking lists and rows by reads
        cache_policy: CachePolicy = CachePolicy::PRESAMPLE
            => Field::choice::<CachePolicy>("CACHE_POLICY").of(CACHES, &[Speed]).unless_given("presample")
                .needs("gpu_cache"),
        /// Contents of the caches while the gain of a hit is timed
        timed_by: TimedBy = TimedBy::Rank
            => Field::choice::<TimedBy>("TIMED_BY").of(CACHES, &[Speed]).unless_given("rank").needs("gpu_cache"),
        /// Host memory for rows of a table that is read from disk: 512MiB, 6GiB, or auto for a quarter of the available
        /// memory. One half holds the most-read rows, the other half evicts (docs/guide/disk.md)
        host_cache: Option<Budget> = None
            => Field::text::<Budget>("SIZE|auto", "512MiB, 6GiB, `auto`").of(CACHES, &[Speed])
                .excludes(&["gpu_cache", "cache_policy", "timed_by", "plan"]).unless_given("rows are read again for each batch"),
        /// File of a cache plan, as `uvatrain plan` writes it
        plan: Option<PathBuf> = None
            => Field::path("FILE").of(CACHES, &[Speed]).excludes(&["gpu_cache", "cache_policy", "timed_by"]),
    }
}

impl CacheOptions {
    /// The request in them; `None` without caches.
    #[must_use]
    pub fn request(&self) -> Option<CacheRequest> {
        let (policy, timed_by) = (self.cache_policy, self.timed_by);
        let find = |budget| CacheRequest::Find { budget, policy, timed_by };
        let before_disk = |budget| CacheRequest::BeforeDisk { budget };
        let asked = self.plan.clone().map(CacheRequest::Planned).or_else(|| self.gpu_cache.map(find));
        asked.or_else(|| self.host_cache.map(before_disk))
    }
}

/// How much memory the caches may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// This many bytes, maps included.
    Bytes(u64),
    /// The memory left after one training batch, less a reserve.
    Auto,
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        if text.trim_start_matches('0').is_empty() {
            return Err("0 bytes cache nothing; auto uses the memory that is left".to_owned());
        }
        let size: ByteSize =
            text.parse().map_err(|error| format!("{error}; auto uses the memory that is left"))?;
        Ok(Self::Bytes(size.bytes()))
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Bytes(bytes) => write!(f, "{bytes}"),
        }
    }
}

impl OptionValue for Budget {
    fn of_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> Value {
        match self {
            Self::Auto => "auto".into(),
            Self::Bytes(bytes) => (*bytes).into(),
        }
    }

    fn of_json(value: &Value) -> Option<Self> {
        value.as_u64().map(Self::Bytes).or_else(|| Self::of_text(value.as_str()?))
    }
}

/// What to cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheRequest {
    /// The contents of this file.
    Planned(PathBuf),
    /// The lists and rows whose caching pays.
    Find {
        /// Within this budget.
        budget: Budget,
        /// By this policy.
        policy: CachePolicy,
        /// What the timed caches hold.
        timed_by: TimedBy,
    },
    /// Rows of a table on disk: those that are read most, and others as batches need them.
    BeforeDisk {
        /// Within this budget.
        budget: Budget,
    },
}

impl CacheRequest {
    /// Whether it requests a host cache of rows on disk, which no GPU reads and no policy divides.
    #[must_use]
    pub fn is_before_disk(&self) -> bool {
        matches!(self, Self::BeforeDisk { .. })
    }

    /// The name of the option that requests them.
    #[must_use]
    pub fn option(&self) -> &'static str {
        match self {
            Self::Planned(_) => "plan",
            Self::Find { .. } => GPU_CACHE,
            Self::BeforeDisk { .. } => HOST_CACHE,
        }
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
