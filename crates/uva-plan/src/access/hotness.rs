//! How often each node's feature row and adjacency list are read.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rayon::prelude::*;
use uva_graph::{Csc, Relation};
use uva_sample::{MiniBatch, SamplerOptions};

use crate::{CacheError, Workload};

/// Number of reads of every node's row and list, by the dataset's node ids. If a policy does not count (`batches` is
/// 0), only the proportions among rows and those among lists are meaningful.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hotness {
    /// Batches with the node among their input nodes. Each batch gathers the row once.
    pub feature_reads: Vec<u32>,
    /// Reads of the node's list. Each visit reads the list's place and the neighbours picked: 1 + min(degree, fanout),
    /// or 1 + fanout with replacement. Kinds that read whole lists count 1 + degree. Kinds that pick by weight also read
    /// the list's weights ([`VisitReads`](uva_sample::VisitReads)).
    pub list_reads: Vec<u32>,
    /// Batches that were counted; 0 where nothing was sampled.
    pub batches: u64,
    /// Neighbours picked in these batches.
    pub picks: u64,
}

impl Hotness {
    /// The sum of both counts.
    ///
    /// # Panics
    /// If the counts are for graphs with different numbers of nodes.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        add_all(&mut self.feature_reads, &other.feature_reads);
        add_all(&mut self.list_reads, &other.list_reads);
        self.batches += other.batches;
        self.picks += other.picks;
        self
    }

    /// Reads of rows, all nodes together.
    #[must_use]
    pub fn total_feature_reads(&self) -> u64 {
        sum(&self.feature_reads)
    }

    /// Reads of lists, all nodes together.
    #[must_use]
    pub fn total_list_reads(&self) -> u64 {
        sum(&self.list_reads)
    }
}

/// The sum of the counts. The sum fits: there are fewer than 2³² counts of 32 bits each.
pub(crate) fn sum(counts: &[u32]) -> u64 {
    counts.par_iter().map(|&count| u64::from(count)).sum()
}

/// Adds the counts node by node, saturating.
fn add_all(counts: &mut [u32], more: &[u32]) {
    assert_eq!(counts.len(), more.len(), "both count the nodes of one graph");
    counts.par_iter_mut().zip(more).for_each(|(count, more)| *count = count.saturating_add(*more));
}

/// Counts reads over all batches of `epochs`.
///
/// # Errors
/// If there is no batch, or a batch cannot be sampled.
pub fn count(workload: &Workload<'_>, epochs: Range<u32>) -> Result<Hotness, CacheError> {
    let counter = Counter::new(workload);
    let batches = workload.visit(epochs, &|batch| counter.add(batch))?;
    Ok(counter.finish(batches))
}

/// Counts reads over some batches of one epoch.
///
/// # Errors
/// If there is no batch, or a batch cannot be sampled.
pub fn count_batches(
    workload: &Workload<'_>,
    epoch: u32,
    batches: Range<usize>,
) -> Result<Hotness, CacheError> {
    let counter = Counter::new(workload);
    let batches = workload.visit_batches(epoch, batches, &|batch| counter.add(batch))?;
    Ok(counter.finish(batches))
}

/// Counts shared by the threads that sample.
struct Counter<'g> {
    /// The lists, if the number of reads depends on their lengths.
    lists: Option<Csc<'g>>,
    options: SamplerOptions,
    feature_reads: Vec<AtomicU32>,
    list_reads: Vec<AtomicU32>,
    picks: AtomicU64,
}

impl<'g> Counter<'g> {
    fn new(workload: &Workload<'g>) -> Self {
        let nodes = workload.csc.nodes();
        let options = workload.options.clone();
        let depends = options.kind.reads_whole_lists() || options.kind.needs_weights();
        let lists = depends.then_some(workload.csc);
        let zeros = || (0..nodes).into_par_iter().map(|_| AtomicU32::new(0)).collect();
        Self { lists, options, feature_reads: zeros(), list_reads: zeros(), picks: AtomicU64::new(0) }
    }

    fn add(&self, batch: &MiniBatch) {
        for &node in batch.nodes() {
            add_saturating(&self.feature_reads[node as usize], 1);
        }
        for (block, fanout) in batch.blocks().zip(self.options.fanouts.of_relation(Relation::ONLY)) {
            for (&node, ends) in batch.nodes().iter().zip(block.indptr.windows(2)) {
                let picked = (ends[1] - ends[0]) as usize;
                let degree = self.lists.map_or(0, |csc| csc.degree(node as usize));
                let reads = self.options.visit_reads(degree, picked, fanout).all();
                add_saturating(&self.list_reads[node as usize], u32::try_from(reads).unwrap_or(u32::MAX));
            }
        }
        self.picks.fetch_add(batch.counts().edges() as u64, Ordering::Relaxed);
    }

    fn finish(self, batches: u64) -> Hotness {
        let plain = |counts: Vec<AtomicU32>| counts.into_iter().map(AtomicU32::into_inner).collect();
        Hotness {
            feature_reads: plain(self.feature_reads),
            list_reads: plain(self.list_reads),
            batches,
            picks: self.picks.into_inner(),
        }
    }
}

/// Adds `more` to the counter, saturating.
///
/// A thread that wraps the counter stores the maximum right after, and an addition to the maximum wraps again. The last
/// store is therefore the maximum, in any order of the threads.
#[inline]
pub(crate) fn add_saturating(counter: &AtomicU32, more: u32) {
    if counter.fetch_add(more, Ordering::Relaxed).checked_add(more).is_none() {
        counter.store(u32::MAX, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stay_at_the_top() {
        let counter = AtomicU32::new(u32::MAX - 3);
        for _ in 0..5 {
            add_saturating(&counter, 2);
        }
        assert_eq!(counter.into_inner(), u32::MAX);
    }
}
