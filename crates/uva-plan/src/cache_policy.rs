//! The table of `--cache-policy`: policies that rank rows and lists before a run, and policies that evict during it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uva_rows::cache::eviction::{self, Eviction};

use crate::{Analytic, CacheError, Degree, HotnessPolicy, Optimal, Presample, Random};

/// `--cache-policy`. In files it is its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum CachePolicy {
    /// [`Degree`].
    Degree,
    /// [`Presample`], over two epochs.
    #[default]
    Presample,
    /// [`Analytic`].
    Analytic,
    /// [`Random`].
    Random,
    /// [`Optimal`], over twenty epochs.
    Optimal,
    /// Takes in misses and evicts by one of [`eviction::POLICIES`]. It caches no lists.
    Evicting(&'static Eviction),
}

/// A policy that ranks, as the table has it.
struct Ranking {
    policy: CachePolicy,
    name: &'static str,
    help: &'static str,
    /// The run's first epochs that it counts.
    counted_epochs: fn() -> u32,
    hotness: fn() -> Box<dyn HotnessPolicy>,
}

static RANKINGS: [Ranking; 5] = [
    Ranking {
        policy: CachePolicy::Degree,
        name: "degree",
        help: "Those in most neighbour lists (PaGraph)",
        counted_epochs: || 0,
        hotness: || Box::new(Degree),
    },
    Ranking {
        policy: CachePolicy::Presample,
        name: "presample",
        help: "Those read most in two epochs sampled beforehand, the run's first (GNNLab)",
        counted_epochs: || Presample::default().epochs,
        hotness: || Box::new(Presample::default()),
    },
    Ranking {
        policy: CachePolicy::Analytic,
        name: "analytic",
        help: "Those most probably in a batch, worked out hop by hop (SALIENT++)",
        counted_epochs: || 0,
        hotness: || Box::new(Analytic),
    },
    Ranking {
        policy: CachePolicy::Random,
        name: "random",
        help: "Any",
        counted_epochs: || 0,
        hotness: || Box::new(Random::default()),
    },
    Ranking {
        policy: CachePolicy::Optimal,
        name: "optimal",
        help: "Those read most in the run's first twenty epochs themselves: for measuring, since it knows what is to come",
        counted_epochs: || Optimal::default().epochs.end,
        hotness: || Box::new(Optimal::default()),
    },
];

impl CachePolicy {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let rankings = RANKINGS.iter().map(|ranking| ranking.policy);
        rankings.chain(eviction::POLICIES.into_iter().map(Self::Evicting))
    }

    fn ranking(self) -> Option<&'static Ranking> {
        RANKINGS.iter().find(|ranking| ranking.policy == self)
    }

    /// The name that options and files use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Evicting(eviction) => eviction.name,
            _ => self.ranking().map_or("", |ranking| ranking.name),
        }
    }

    /// One line for `--help`.
    #[must_use]
    pub fn help(self) -> &'static str {
        match self {
            Self::Evicting(eviction) => eviction.help,
            _ => self.ranking().map_or("", |ranking| ranking.help),
        }
    }

    /// How many of a run's first epochs it chooses by, where it counts any. In these a cache is hit more than in others:
    /// it was made for them.
    #[must_use]
    pub fn counted_epochs(self) -> u32 {
        self.ranking().map_or(0, |ranking| (ranking.counted_epochs)())
    }

    /// How the cache evicts, where it fills itself during the run, so that nothing can be ranked beforehand.
    #[must_use]
    pub fn eviction(self) -> Option<&'static Eviction> {
        match self {
            Self::Evicting(eviction) => Some(eviction),
            _ => None,
        }
    }

    /// Whether the cache changes during the run.
    #[must_use]
    pub fn is_dynamic(self) -> bool {
        self.eviction().is_some()
    }

    /// The policy at its defaults.
    ///
    /// # Errors
    /// [`CacheError::Dynamic`] where [`is_dynamic`](Self::is_dynamic).
    pub fn hotness_policy(self) -> Result<Box<dyn HotnessPolicy>, CacheError> {
        let ranking = self.ranking().ok_or(CacheError::Dynamic { policy: self.name() })?;
        Ok((ranking.hotness)())
    }
}

impl fmt::Display for CachePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no policy has.
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

impl TryFrom<String> for CachePolicy {
    type Error = UnknownPolicy;

    fn try_from(name: String) -> Result<Self, UnknownPolicy> {
        name.parse()
    }
}

impl From<CachePolicy> for String {
    fn from(policy: CachePolicy) -> Self {
        policy.name().to_owned()
    }
}
