//! Ranking by out-degree.

use std::sync::atomic::AtomicU32;

use rayon::prelude::*;
use uva_graph::{Indices, Relation};

use super::cache_policy::{CachePolicy, Ranking};
use super::hotness_policy::HotnessPolicy;
use crate::access::hotness;
use crate::{CacheError, Hotness, Workload};

impl CachePolicy {
    /// [`Degree`].
    pub const DEGREE: Self = Self::Ranking(&Ranking {
        name: "degree",
        help: "Nodes in the most neighbour lists (PaGraph)",
        policy: &Degree,
    });
}

/// A node is as hot as its out-degree, the number of lists that name it: PaGraph's rule (Lin et al., SoCC 2020).
#[derive(Clone, Copy, Debug, Default)]
pub struct Degree;

impl HotnessPolicy for Degree {
    /// Assumes that a list is visited as often as its node's row, and read by the mean of all hops' picks.
    fn hotness(&self, workload: &Workload<'_>) -> Result<Hotness, CacheError> {
        workload.batches()?;
        let nodes = workload.csc.nodes();
        let named: Vec<AtomicU32> = (0..nodes).into_par_iter().map(|_| AtomicU32::new(0)).collect();
        let add = |node: usize| {
            // Ids of an opened dataset are in range; those of a graph built in memory may not be.
            if let Some(count) = named.get(node) {
                hotness::add_saturating(count, 1);
            }
        };
        match workload.csc.indices {
            Indices::I32(ids) => ids.par_iter().for_each(|&id| add(id as usize)),
            Indices::I64(ids) => ids.par_iter().for_each(|&id| add(id as usize)),
        }
        let feature_reads: Vec<u32> = named.into_iter().map(AtomicU32::into_inner).collect();
        let fanouts = &workload.options.fanouts;
        let list_reads = feature_reads
            .par_iter()
            .enumerate()
            .map(|(node, &visits)| {
                let degree = workload.csc.degree(node);
                let picks = fanouts
                    .of_relation(Relation::ONLY)
                    .map(|fanout| workload.options.picks_of_list(degree, fanout) as u64);
                let mean = 1 + picks.sum::<u64>().div_ceil(fanouts.hops().max(1) as u64);
                u32::try_from(u64::from(visits).saturating_mul(mean)).unwrap_or(u32::MAX)
            })
            .collect();
        Ok(Hotness { feature_reads, list_reads, ..Hotness::default() })
    }
}
