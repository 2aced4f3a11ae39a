//! The cache policies. A policy that ranks has one file and one row of [`RANKINGS`]; policies that evict are in
//! [`eviction`].

mod analytic;
mod cache_policy;
mod comparison;
mod degree;
mod hotness_policy;
mod optimal;
mod presample;
mod random;

use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};
use uva_options::Named;
use uva_rows::cache::eviction;

pub use analytic::Analytic;
pub use cache_policy::{CachePolicy, Ranking};
pub use comparison::ComparedPolicy;
pub use degree::Degree;
pub use hotness_policy::HotnessPolicy;
pub use optimal::Optimal;
pub use presample::Presample;
pub use random::Random;

/// Every policy that ranks, in the order of `--help`.
const RANKINGS: [CachePolicy; 5] = [
    CachePolicy::DEGREE,
    CachePolicy::PRESAMPLE,
    CachePolicy::ANALYTIC,
    CachePolicy::RANDOM,
    CachePolicy::OPTIMAL,
];

impl CachePolicy {
    /// All of them: those that rank, then those that evict.
    pub fn all() -> impl Iterator<Item = Self> {
        RANKINGS.into_iter().chain(eviction::POLICIES.into_iter().map(Self::Evicting))
    }
}

impl Named for CachePolicy {
    fn all() -> Vec<Self> {
        CachePolicy::all().collect()
    }

    fn name(self) -> &'static str {
        self.name()
    }

    fn help(self) -> &'static str {
        self.help()
    }
}

impl Default for CachePolicy {
    fn default() -> Self {
        Self::PRESAMPLE
    }
}

/// Error for an unknown policy name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no cache policy {given:?}; take {}", names())]
pub struct UnknownPolicy {
    /// The name given.
    pub given: String,
}

/// All names, in a sentence.
fn names() -> String {
    let names: Vec<_> = CachePolicy::all().map(CachePolicy::name).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    format!("{} or {last}", others.join(", "))
}

impl FromStr for CachePolicy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let found = Self::all().find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownPolicy { given: name.to_owned() })
    }
}

impl<'de> Deserialize<'de> for CachePolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
