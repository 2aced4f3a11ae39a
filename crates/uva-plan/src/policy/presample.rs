//! Counts over the first epochs.

use std::ops::Range;

use super::cache_policy::{CachePolicy, Ranking};
use super::hotness_policy::{HotnessPolicy, count};
use crate::{CacheError, Hotness, Workload};

impl CachePolicy {
    /// [`Presample`], over two epochs.
    pub const PRESAMPLE: Self = Self::Ranking(&Ranking {
        name: "presample",
        help: "Those read most in two epochs sampled beforehand, the run's first (GNNLab)",
        policy: &Presample { epochs: 2 },
    });
}

/// Counts over the first epochs, actually sampled: GNNLab's PreSC#K (Yang et al., EuroSys 2022).
#[derive(Clone, Copy, Debug)]
pub struct Presample {
    /// Epochs to sample: 1 or 2 suffice.
    pub epochs: u32,
}

impl HotnessPolicy for Presample {
    fn hotness(&self, workload: &Workload<'_>) -> Result<Hotness, CacheError> {
        count(CachePolicy::PRESAMPLE.name(), workload, self.counted_epochs())
    }

    fn counted_epochs(&self) -> Range<u32> {
        0..self.epochs
    }
}
