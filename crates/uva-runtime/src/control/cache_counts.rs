//! Cache counts of a run's batches, separately for the epochs that determined the caches.

use serde::{Deserialize, Serialize};

/// Reads and hits of the caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheCounts {
    /// Reads of neighbour lists: one for each list's place, one for each picked neighbour.
    pub list_reads: u64,
    /// Reads of cached lists.
    pub list_hits: u64,
    /// Feature rows.
    pub rows: u64,
    /// Rows from the cache.
    pub row_hits: u64,
}

impl CacheCounts {
    /// Share of list reads that hit the cache; `None` without reads.
    pub fn list_hit_rate(&self) -> Option<f64> {
        share(self.list_hits, self.list_reads)
    }

    /// Share of the rows that came from the cache; `None` without rows.
    pub fn row_hit_rate(&self) -> Option<f64> {
        share(self.row_hits, self.rows)
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// [`CacheCounts`] of a run, with separate sums for the epochs whose batches determined the caches: their hit rate is
/// higher than in other epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheTotals {
    /// For the epochs that were counted beforehand.
    pub counted: CacheCounts,
    /// For all other epochs.
    pub others: CacheCounts,
}

impl CacheTotals {
    /// Adds a batch of this epoch, in a run whose first `counted_epochs` were counted beforehand.
    pub fn add(&mut self, counts: CacheCounts, epoch: u32, counted_epochs: u32) {
        let part = if epoch < counted_epochs { &mut self.counted } else { &mut self.others };
        *part += counts;
    }

    /// Sums over all epochs.
    pub fn all(&self) -> CacheCounts {
        let mut all = self.counted;
        all += self.others;
        all
    }
}

impl std::ops::AddAssign for CacheTotals {
    fn add_assign(&mut self, other: Self) {
        self.counted += other.counted;
        self.others += other.others;
    }
}

impl std::ops::AddAssign for CacheCounts {
    fn add_assign(&mut self, other: Self) {
        for (sum, more) in [
            (&mut self.list_reads, other.list_reads),
            (&mut self.list_hits, other.list_hits),
            (&mut self.rows, other.rows),
            (&mut self.row_hits, other.row_hits),
        ] {
            // A metrics file can contain any numbers.
            *sum = sum.saturating_add(more);
        }
    }
}

/// Hits and expectations of a run's caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheOutcome {
    /// Counted over all training batches of this run.
    #[serde(flatten)]
    pub counts: CacheCounts,
    /// Share of list reads that hit the cache, in the epochs that were not counted beforehand; `None` if the run had no
    /// such epochs.
    pub list_hit_rate: Option<f64>,
    /// Share of the rows that came from the cache, over the same epochs.
    pub row_hit_rate: Option<f64>,
    /// The list hit rate that the plan expected.
    pub expected_list_hit_rate: f64,
    /// The row hit rate that the plan expected.
    pub expected_row_hit_rate: f64,
    /// The epochs whose batches determined the caches, if the run had any of them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub counted_beforehand: Option<CountedBeforehand>,
}

impl CacheOutcome {
    /// A run's totals, with the plan's expectations for lists and rows. Its first `counted_epochs` were counted
    /// beforehand.
    pub fn of(totals: &CacheTotals, expected: [f64; 2], counted_epochs: u32) -> Self {
        let CacheTotals { counted, others } = *totals;
        let beforehand = CountedBeforehand {
            epochs: counted_epochs,
            counts: counted,
            list_hit_rate: counted.list_hit_rate(),
            row_hit_rate: counted.row_hit_rate(),
        };
        Self {
            counts: totals.all(),
            list_hit_rate: others.list_hit_rate(),
            row_hit_rate: others.row_hit_rate(),
            expected_list_hit_rate: expected[0],
            expected_row_hit_rate: expected[1],
            counted_beforehand: (counted != CacheCounts::default()).then_some(beforehand),
        }
    }
}

/// Cache counts of the epochs that determined the caches, which are not representative of other epochs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedBeforehand {
    /// Number of epochs; they are a run's first. The run may have trained only some of them.
    pub epochs: u32,
    /// Counted over their training batches.
    #[serde(flatten)]
    pub counts: CacheCounts,
    /// Share of list reads that hit the cache.
    pub list_hit_rate: Option<f64>,
    /// Share of the rows that came from the cache.
    pub row_hit_rate: Option<f64>,
}
