//! Ranking by counts over the evaluated epochs.

use std::ops::Range;

use super::cache_policy::{CachePolicy, Ranking};
use super::hotness_policy::{HotnessPolicy, count};
use crate::{CacheError, Hotness, Workload};

impl CachePolicy {
    /// [`Optimal`], over twenty epochs.
    pub const OPTIMAL: Self = Self::Ranking(&Ranking {
        name: "optimal",
        help: "Nodes read most in the run's first twenty epochs, known in advance: for comparisons only",
        policy: &Optimal { epochs: 0..20 },
    });
}

/// Counts over the same epochs that are evaluated afterwards: an upper bound for every real policy.
#[derive(Clone, Debug)]
pub struct Optimal {
    /// The epochs of the evaluation.
    pub epochs: Range<u32>,
}

impl HotnessPolicy for Optimal {
    fn hotness(&self, workload: &Workload<'_>) -> Result<Hotness, CacheError> {
        count(CachePolicy::OPTIMAL.name(), workload, self.counted_epochs())
    }

    fn counted_epochs(&self) -> Range<u32> {
        self.epochs.clone()
    }

    fn is_oracle(&self) -> bool {
        true
    }
}
