//! Ranking by counts over the first epochs.

use std::ops::Range;

use super::cache_policy::{CachePolicy, Ranking};
use super::hotness_policy::{HotnessPolicy, count};
use crate::{CacheError, EpochSize, Hotness, Workload};

/// Minimum number of batches that the usual policy counts. Two short epochs are too few.
///
/// Per cent of row reads that hit in a cache of 10 % of the rows, over 20 epochs that were not counted, by the number
/// of counted batches. In the last column these 20 epochs were counted.
///
/// | graph, batches an epoch | two epochs | 50 | 100 | 200 | 400 | optimum |
/// |---|---|---|---|---|---|---|
/// | citation, 1 M nodes, 10 | 98.33 | 98.67 | 98.80 | 98.87 | 98.91 | 99.02 |
/// | power law, 1 M nodes, 10 | 23.34 | 23.77 | 23.91 | 23.98 | 24.02 | 24.12 |
/// | web, 1 M nodes, 10 | 23.97 | 24.41 | 24.55 | 24.62 | 24.66 | 24.77 |
/// | minesweeper, 20 | 12.17 | 12.34 | 12.40 | 12.51 | 12.58 | 12.75 |
/// | coauthor_physics, 1 | 60.07 | 70.52 | 70.74 | 70.91 | 71.01 | 72.65 |
/// | amazon_computers, 1 | 23.03 | 28.73 | 28.77 | 28.79 | 28.79 | 29.12 |
/// | cora, 1 | 23.01 | 23.58 | 23.58 | 23.58 | 23.58 | 23.59 |
const LEAST_BATCHES: u64 = 200;

/// Seeds of the batches after which no further epoch is counted, so that larger batches take no longer than 200 batches
/// of a thousand.
const MOST_SEEDS: u64 = 200_000;

/// The first of the epochs that are sampled only to be counted. A run has fewer epochs, so its hit rates are for
/// batches that were not counted.
const BEYOND: u32 = 1 << 29;

impl CachePolicy {
    /// [`Presample`] over two epochs, and at least 200 batches.
    pub const PRESAMPLE: Self = Self::Ranking(&Ranking {
        name: "presample",
        help: "Nodes read most in the run's first two epochs, and at least 200 batches, which are sampled in advance (GNNLab)",
        policy: &Presample { epochs: 2, least_batches: LEAST_BATCHES },
    });
}

/// Counts over the sampled first epochs, GNNLab's PreSC#K (Yang et al., EuroSys 2022).
#[derive(Clone, Copy, Debug)]
pub struct Presample {
    /// Epochs of the run to sample: 1 or 2 suffice if they have enough batches.
    pub epochs: u32,
    /// Minimum number of batches to count. If those epochs have fewer, further epochs that no run has are sampled until
    /// there are this many batches, or 200,000 seeds in them.
    pub least_batches: u64,
}

impl HotnessPolicy for Presample {
    fn hotness(&self, workload: &Workload<'_>) -> Result<Hotness, CacheError> {
        let of_run = count(CachePolicy::PRESAMPLE.name(), workload, self.counted_epochs())?;
        match self.further_epochs(&workload.epoch()?) {
            0 => Ok(of_run),
            further => {
                Ok(of_run.and(&count(CachePolicy::PRESAMPLE.name(), workload, BEYOND..BEYOND + further)?))
            }
        }
    }

    fn counted_epochs(&self) -> Range<u32> {
        0..self.epochs
    }

    fn further_epochs(&self, epoch: &EpochSize) -> u32 {
        let missing = |least: u64, each: u64| least.div_ceil(each.max(1)).saturating_sub(self.epochs.into());
        let epochs = missing(self.least_batches, epoch.batches).min(missing(MOST_SEEDS, epoch.seeds));
        u32::try_from(epochs).map_or(BEYOND, |epochs| epochs.min(BEYOND))
    }
}
