//! The policies of a comparison, which include policies that a run cannot have.

use std::fmt;

use serde::{Serialize, Serializer};
use uva_options::Named;
use uva_rows::cache::eviction;

use super::cache_policy::CachePolicy;

/// A policy in a comparison: one of a run, or one that is only simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComparedPolicy(pub CachePolicy);

impl Named for ComparedPolicy {
    fn all() -> Vec<Self> {
        let simulated = eviction::SIMULATED.into_iter().map(CachePolicy::Evicting);
        <CachePolicy as Named>::all().into_iter().chain(simulated).map(Self).collect()
    }

    fn name(self) -> &'static str {
        self.0.name()
    }

    fn help(self) -> &'static str {
        self.0.help()
    }
}

impl fmt::Display for ComparedPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for ComparedPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}
