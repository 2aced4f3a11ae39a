//! How hotness is found out.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::atomic::AtomicU32;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use uva_graph::{Indices, mix};

use crate::{Analytic, CacheError, Hotness, Workload, hotness};

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
        CachePolicy::Degree.name()
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
        CachePolicy::Presample.name()
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
        CachePolicy::Optimal.name()
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
        CachePolicy::Random.name()
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

/// `--cache-policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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
    /// The rows fetched last: see [`FifoSimulation`](crate::FifoSimulation). It caches no lists.
    Fifo,
}

impl CachePolicy {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Degree, Self::Presample, Self::Analytic, Self::Random, Self::Optimal, Self::Fifo];

    /// The name that options and files use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Degree => "degree",
            Self::Presample => "presample",
            Self::Analytic => "analytic",
            Self::Random => "random",
            Self::Optimal => "optimal",
            Self::Fifo => "fifo",
        }
    }

    /// How many of a run's first epochs it chooses by, where it counts any. In these a cache is hit more than in others:
    /// it was made for them.
    #[must_use]
    pub fn counted_epochs(self) -> u32 {
        match self {
            Self::Presample => Presample::default().epochs,
            Self::Optimal => Optimal::default().epochs.end,
            Self::Degree | Self::Analytic | Self::Random | Self::Fifo => 0,
        }
    }

    /// Whether the cache fills itself during the run, so that nothing can be ranked beforehand.
    #[must_use]
    pub fn is_dynamic(self) -> bool {
        self == Self::Fifo
    }

    /// The policy at its defaults.
    ///
    /// # Errors
    /// [`CacheError::Dynamic`] where [`is_dynamic`](Self::is_dynamic).
    pub fn hotness_policy(self) -> Result<Box<dyn HotnessPolicy>, CacheError> {
        Ok(match self {
            Self::Degree => Box::new(Degree),
            Self::Presample => Box::new(Presample::default()),
            Self::Analytic => Box::new(Analytic),
            Self::Random => Box::new(Random::default()),
            Self::Optimal => Box::new(Optimal::default()),
            Self::Fifo => return Err(CacheError::Dynamic { policy: self.name() }),
        })
    }
}

impl fmt::Display for CachePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no cache policy {given:?}; take degree, presample, analytic, random, optimal or fifo")]
pub struct UnknownPolicy {
    /// The name given.
    pub given: String,
}

impl FromStr for CachePolicy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownPolicy { given: name.to_owned() })
    }
}
