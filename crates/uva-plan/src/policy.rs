//! Policies of hotness, except the calculated one: [`Analytic`](crate::Analytic).

use std::ops::Range;
use std::sync::atomic::AtomicU32;

use rayon::prelude::*;
use uva_graph::{Indices, mix};

use crate::{CacheError, Hotness, Workload, hotness};

/// A way to tell, before a run, how often each row and each list will be read.
pub trait HotnessPolicy {
    /// Its name, as `--cache-policy` takes it.
    fn name(&self) -> &'static str;

    /// The hotness of every node.
    ///
    /// # Errors
    /// Where there is no batch, or one cannot be sampled.
    fn hotness(&self, workload: &Workload<'_>) -> Result<Hotness, CacheError>;

    /// An epoch that a ranking can be judged by: one that [`hotness`](Self::hotness) has not counted.
    fn unseen_epoch(&self) -> u32 {
        0
    }
}

/// A node is as hot as the lists that name it are many: the out-degree, PaGraph's rule (Lin et al., SoCC 2020).
#[derive(Clone, Copy, Debug, Default)]
pub struct Degree;

impl HotnessPolicy for Degree {
    fn name(&self) -> &'static str {
        "degree"
    }

    /// A list is taken to be visited as often as its node's row, and read by the mean of all hops' picks.
    fn hotness(&self, workload: &Workload<'_>) -> Result<Hotness, CacheError> {
        workload.batches()?;
        let nodes = workload.csc.nodes();
        let named: Vec<AtomicU32> = (0..nodes).into_par_iter().map(|_| AtomicU32::new(0)).collect();
        let add = |node: usize| {
            // Ids of a dataset that was opened are in range; those of a hand-made graph may not be.
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
                let picks =
                    fanouts.iter().map(|&fanout| workload.options.picks_of_list(degree, fanout) as u64);
                let mean = 1 + picks.sum::<u64>().div_ceil(fanouts.len().max(1) as u64);
                u32::try_from(u64::from(visits).saturating_mul(mean)).unwrap_or(u32::MAX)
            })
            .collect();
        Ok(Hotness { feature_reads, list_reads, ..Hotness::default() })
    }
}

/// Counts over the first epochs, really sampled: GNNLab's PreSC#K (Yang et al., EuroSys 2022).
#[derive(Clone, Copy, Debug)]
pub struct Presample {
    /// Epochs to sample: 1 or 2 do.
    pub epochs: u32,
}

impl Default for Presample {
    fn default() -> Self {
        Self { epochs: 2 }
    }
}

impl HotnessPolicy for Presample {
    fn name(&self) -> &'static str {
        "presample"
    }

    fn hotness(&self, workload: &Workload<'_>) -> Result<Hotness, CacheError> {
        counted(self.name(), workload, 0..self.epochs)
    }

    fn unseen_epoch(&self) -> u32 {
        self.epochs
    }
}

/// Counts over the very epochs that are measured afterwards: what no real policy can beat.
#[derive(Clone, Debug)]
pub struct Optimal {
    /// The epochs that will be measured.
    pub epochs: Range<u32>,
}

impl Default for Optimal {
    fn default() -> Self {
        Self { epochs: 0..20 }
    }
}

impl HotnessPolicy for Optimal {
    fn name(&self) -> &'static str {
        "optimal"
    }

    fn hotness(&self, workload: &Workload<'_>) -> Result<Hotness, CacheError> {
        counted(self.name(), workload, self.epochs.clone())
    }

    /// By definition one that was counted.
    fn unseen_epoch(&self) -> u32 {
        self.epochs.start
    }
}

fn counted(policy: &'static str, workload: &Workload<'_>, epochs: Range<u32>) -> Result<Hotness, CacheError> {
    if epochs.is_empty() {
        return Err(CacheError::NoEpochs { policy });
    }
    hotness::count(workload, epochs)
}

/// Any nodes: what a cache does without any knowledge.
#[derive(Clone, Copy, Debug, Default)]
pub struct Random {
    /// Which ones.
    pub seed: u64,
}

impl HotnessPolicy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn hotness(&self, workload: &Workload<'_>) -> Result<Hotness, CacheError> {
        workload.batches()?;
        let word = |node: usize| mix(self.seed ^ mix(node as u64));
        // No node is left out: 0 would say that it is never read.
        let row = |node: usize| (word(node) >> 32) as u32 | 1;
        // Lists are ranked by reads a byte; a list that is read in proportion to its length has a random rank.
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
