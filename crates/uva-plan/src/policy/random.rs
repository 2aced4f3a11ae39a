//! Ranking at random.

use rayon::prelude::*;
use uva_graph::mix;

use super::cache_policy::{CachePolicy, Ranking};
use super::hotness_policy::HotnessPolicy;
use crate::{CacheError, Hotness, Workload};

impl CachePolicy {
    /// [`Random`].
    pub const RANDOM: Self =
        Self::Ranking(&Ranking { name: "random", help: "Random nodes", policy: &Random { seed: 0 } });
}

/// Random nodes: the baseline of a cache without information.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    /// The seed of the choice.
    pub seed: u64,
}

impl HotnessPolicy for Random {
    fn hotness(&self, workload: &Workload<'_>) -> Result<Hotness, CacheError> {
        workload.batches()?;
        let word = |node: usize| mix(self.seed ^ mix(node as u64));
        // Every node is included: a count of 0 would mean that it is never read.
        let row = |node: usize| (word(node) >> 32) as u32 | 1;
        // Lists are ranked by reads per byte; a list whose reads are proportional to its length has a random rank.
        let list = |node: usize| {
            let entries = (workload.csc.degree(node) as u64).saturating_add(2).min(u64::from(u16::MAX));
            ((word(node) as u16 | 1) as u32) * entries as u32
        };
        let nodes = workload.csc.nodes();
        Ok(Hotness {
            feature_reads: (0..nodes).into_par_iter().map(row).collect(),
            list_reads: (0..nodes).into_par_iter().map(list).collect(),
            ..Hotness::default()
        })
    }
}
