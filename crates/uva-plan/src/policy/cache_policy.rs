//! The public type of a cache policy: a handle to a table row with its properties.

use std::fmt;

use serde::{Serialize, Serializer};
use uva_rows::cache::eviction::Eviction;

use super::hotness_policy::HotnessPolicy;
use crate::{CacheError, EpochSize};

/// The policy of a cache (`--cache-policy`). Policies are equal if their names are; files store the name.
#[derive(Clone, Copy)]
pub enum CachePolicy {
    /// Ranks rows and lists before a run.
    Ranking(&'static Ranking),
    /// Admits misses during the run and evicts by one of [`eviction::POLICIES`](uva_rows::cache::eviction::POLICIES).
    /// Lists are not cached.
    Evicting(&'static Eviction),
}

/// The table row of a policy that ranks.
pub struct Ranking {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) policy: &'static dyn HotnessPolicy,
}

impl CachePolicy {
    /// The name that options and files use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ranking(ranking) => ranking.name,
            Self::Evicting(eviction) => eviction.name,
        }
    }

    /// One line for `--help`.
    #[must_use]
    pub fn help(self) -> &'static str {
        match self {
            Self::Ranking(ranking) => ranking.help,
            Self::Evicting(eviction) => eviction.help,
        }
    }

    /// How many of a run's first epochs the policy counts. The cache is made for these epochs, so its hit rate is
    /// higher in them than in others.
    #[must_use]
    pub fn counted_epochs(self) -> u32 {
        self.hotness_policy().map_or(0, |policy| policy.counted_epochs().end)
    }

    /// Number of epochs of this size that the policy samples in total.
    #[must_use]
    pub fn sampled_epochs(self, epoch: &EpochSize) -> u64 {
        let further = self.hotness_policy().map_or(0, |policy| policy.further_epochs(epoch));
        u64::from(self.counted_epochs()) + u64::from(further)
    }

    /// Whether the policy counts the same epochs that it is evaluated on.
    #[must_use]
    pub fn is_oracle(self) -> bool {
        self.hotness_policy().is_ok_and(HotnessPolicy::is_oracle)
    }

    /// The eviction policy, if the cache fills itself during the run.
    #[must_use]
    pub fn eviction(self) -> Option<&'static Eviction> {
        match self {
            Self::Ranking(_) => None,
            Self::Evicting(eviction) => Some(eviction),
        }
    }

    /// Whether the cache changes during the run.
    #[must_use]
    pub fn is_dynamic(self) -> bool {
        self.eviction().is_some()
    }

    /// The policy that ranks, with its defaults.
    ///
    /// # Errors
    /// [`CacheError::Dynamic`] if [`is_dynamic`](Self::is_dynamic).
    pub fn hotness_policy(self) -> Result<&'static dyn HotnessPolicy, CacheError> {
        match self {
            Self::Ranking(ranking) => Ok(ranking.policy),
            Self::Evicting(eviction) => Err(CacheError::Dynamic { policy: eviction.name }),
        }
    }
}

impl PartialEq for CachePolicy {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for CachePolicy {}

impl fmt::Debug for CachePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for CachePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for CachePolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
