//! Counts, their rankings, and the predictions for any budget.

use serde::{Deserialize, Serialize};

use crate::access::curve::{curve, hit_rate};
use crate::cost::allocate::{Item, ReadWeights, RowItems, allocate};
use crate::{
    Allocation, CacheError, CostModel, CurvePoint, Hotness, HotnessPolicy, Objective, Prediction,
    ReadsPerBatch, Sizes, Workload, count, count_batches, rank_lists, rank_rows,
};

/// The hotness of a graph's nodes under a workload, the two orders that result, and counts over other batches for
/// evaluation.
#[derive(Clone, Debug)]
pub struct Profile<'g> {
    /// The counts that determine the orders.
    pub hotness: Hotness,
    /// Nodes by list reads per byte, descending.
    pub lists: Vec<u32>,
    /// Nodes by row reads, descending.
    pub rows: Vec<u32>,
    /// Counts over other batches, which predict hit rates and times. (The `optimal` policy counts these batches too, by
    /// definition.)
    pub observed: Hotness,
    /// The sizes of lists and rows.
    pub sizes: Sizes<'g>,
}

/// A division of a budget other than the allocator's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// Share of the budget that goes to lists, 0 to 1.
    pub list_share: f64,
    /// Cached lists.
    pub lists: usize,
    /// Cached rows.
    pub rows: usize,
    /// The cost of a batch: see [`CostModel::cost`].
    pub cost: f64,
    /// The prediction for a batch.
    pub prediction: Prediction,
}

/// Steps of a sweep: 0, 10, …, 100 % to lists.
const SWEEP_STEPS: u64 = 10;

/// Number of steps between the divisions that are evaluated if hotness was not counted.
const DIVISIONS: u64 = 256;

/// Minimum number of batches for the evaluation of hit rates, if an epoch has as many. A batch reads thousands of rows,
/// so these determine a hit rate to a fraction of a percentage point.
const LEAST_OBSERVED: usize = 32;

impl<'g> Profile<'g> {
    /// Computes the hotness by `policy`, ranks nodes, and samples other batches for evaluation: a sixteenth of an epoch
    /// (at least 32 batches), or a whole epoch if the policy does not sample.
    ///
    /// # Errors
    /// If there is no batch, or a batch cannot be sampled, and [`CacheError::NothingToCache`] if no neighbour is ever
    /// picked.
    pub fn measure(
        policy: &dyn HotnessPolicy,
        workload: &Workload<'g>,
        row_bytes: usize,
    ) -> Result<Self, CacheError> {
        let hotness = policy.hotness(workload)?;
        let unseen = policy.unseen_epoch();
        let observed = if hotness.batches == 0 {
            count(workload, unseen..unseen + 1)?
        } else {
            count_batches(workload, unseen, 0..workload.batches()?.div_ceil(16).max(LEAST_OBSERVED))?
        };
        if hotness.picks + observed.picks == 0 {
            return Err(CacheError::NothingToCache {
                seeds: workload.train.len(),
                batches: hotness.batches + observed.batches,
                rows: observed.total_feature_reads()
                    + if hotness.batches > 0 { hotness.total_feature_reads() } else { 0 },
            });
        }
        Ok(Self::new(workload, hotness, observed, row_bytes))
    }

    /// Ranks nodes by `hotness`, and predicts from `observed`.
    ///
    /// # Panics
    /// If the counts are for a graph other than the workload's.
    #[must_use]
    pub fn new(workload: &Workload<'g>, hotness: Hotness, observed: Hotness, row_bytes: usize) -> Self {
        let mut sizes = Sizes::new(&workload.csc, row_bytes).read_by(&workload.options);
        let lists = rank_lists(&hotness, &sizes);
        let rows = rank_rows(&hotness);
        let in_place = lists.iter().enumerate().all(|(place, &node)| place == node as usize);
        if in_place {
            // The graph is already in this order, so it is used unchanged, with ids of the file's width. The ids need
            // no translation unless the nodes have original ids, which key the random words. A position is its edge id.
            sizes.index_bytes = workload.csc.indices.id_bytes() as u64;
            sizes.home_bytes = 0;
            if workload.csc.original_ids.is_none() {
                sizes.list_map_bytes = 0;
            }
        }
        Self { hotness, lists, rows, observed, sizes }
    }

    /// The observed reads of a batch.
    #[must_use]
    pub fn reads_per_batch(&self) -> ReadsPerBatch {
        let batches = self.observed.batches.max(1) as f64;
        ReadsPerBatch {
            lists: self.observed.total_list_reads() as f64 / batches,
            rows: self.observed.total_feature_reads() as f64 / batches,
        }
    }

    /// Divides `budget` bytes between both caches.
    ///
    /// If hotness was counted and the cost is a sum, each list and row is valued by its own count ([`allocate()`]).
    /// Otherwise items have no values of their own: hotness that was not counted only orders nodes, and if the slowest
    /// stage determines the time, the value of a list depends on the rows. The division is then the best of 257 by the
    /// reads that were counted, or else observed. Of divisions with equal slowest stages, the one with the least sum is
    /// taken.
    #[must_use]
    pub fn allocate(&self, budget: u64, model: &CostModel) -> Allocation {
        if self.hotness.batches == 0 {
            return self.best_division(budget, model, &self.observed);
        }
        if model.is_sum() {
            return self.allocate_some(budget, model, self.lists.len(), self.rows.len());
        }
        self.best_division(budget, model, &self.hotness)
    }

    fn best_division(&self, budget: u64, model: &CostModel, by: &Hotness) -> Allocation {
        let (list_map, row_map) = (self.sizes.list_map_bytes, self.sizes.row_map_bytes);
        let lists = self.list_curve(by, &shares(budget, DIVISIONS, list_map));
        let rows = self.row_curve(by, &shares(budget, DIVISIONS, row_map));
        let added = model.clone().by(Objective::Sum);
        let cost = |(lists, rows): &(&CurvePoint, &CurvePoint)| {
            [model, &added].map(|model| model.cost(lists.hit_rate, rows.hit_rate))
        };
        let compare =
            |[a, a_sum]: [f64; 2], [b, b_sum]: [f64; 2]| a.total_cmp(&b).then(a_sum.total_cmp(&b_sum));
        let best = lists.iter().zip(rows.iter().rev()).min_by(|a, b| compare(cost(a), cost(b)));
        let Some((lists, rows)) = best else { return Allocation::default() };
        let weights = ReadWeights::new(&model.benefits(), by);
        let value = |weight: u32, nodes: &[u32], reads: &[u32]| -> u128 {
            nodes.iter().map(|&node| u128::from(ReadWeights::value(weight, reads[node as usize]))).sum()
        };
        let (list_count, row_count) = (lists.count as usize, rows.count as usize);
        Allocation {
            lists: list_count,
            rows: row_count,
            list_bytes: lists.bytes,
            list_map_bytes: if list_count > 0 { list_map } else { 0 },
            row_bytes: rows.bytes,
            row_map_bytes: if row_count > 0 { row_map } else { 0 },
            value: value(weights.list_read, &self.lists[..list_count], &by.list_reads)
                + value(weights.row_read, &self.rows[..row_count], &by.feature_reads),
            misfit: None,
        }
    }

    /// Allocates all of `budget` to lists.
    #[must_use]
    pub fn allocate_lists(&self, budget: u64, model: &CostModel) -> Allocation {
        self.allocate_some(budget, model, self.lists.len(), 0)
    }

    /// Allocates all of `budget` to rows.
    #[must_use]
    pub fn allocate_rows(&self, budget: u64, model: &CostModel) -> Allocation {
        self.allocate_some(budget, model, 0, self.rows.len())
    }

    fn allocate_some(&self, budget: u64, model: &CostModel, lists: usize, rows: usize) -> Allocation {
        let weights = ReadWeights::new(&model.benefits(), &self.hotness);
        let list = |rank: usize| {
            let node = self.lists[rank];
            let reads = self.hotness.list_reads[node as usize];
            Item { bytes: self.sizes.list_bytes(node), value: ReadWeights::value(weights.list_read, reads) }
        };
        let row_value = |rank: usize| {
            let reads = self.hotness.feature_reads[self.rows[rank] as usize];
            ReadWeights::value(weights.row_read, reads)
        };
        let row_items = RowItems { bytes: self.sizes.row_bytes, count: rows, value: &row_value };
        allocate(budget, lists, &list, self.sizes.list_map_bytes, &row_items, self.sizes.row_map_bytes)
    }

    /// The prediction for a batch with this many lists and rows cached, from the observed batches.
    ///
    /// # Panics
    /// If more lists or rows are given than are ranked.
    #[must_use]
    pub fn predict(&self, model: &CostModel, lists: usize, rows: usize) -> Prediction {
        self.predict_by(model, lists, rows, &self.observed)
    }

    /// The prediction for a batch with this many lists and rows cached, from the counts `by`.
    ///
    /// # Panics
    /// If more lists or rows are given than are ranked, or the counts are for another graph.
    #[must_use]
    pub fn predict_by(&self, model: &CostModel, lists: usize, rows: usize, by: &Hotness) -> Prediction {
        model.predict(
            hit_rate(&self.lists[..lists], &by.list_reads),
            hit_rate(&self.rows[..rows], &by.feature_reads),
        )
    }

    /// Eleven divisions of `budget`, from all bytes for rows to all bytes for lists, to compare an allocation with.
    /// Each cache, its map included, is filled up to its share, and evaluated on `by`.
    ///
    /// # Panics
    /// If `by` is for another graph.
    #[must_use]
    pub fn sweep(&self, budget: u64, model: &CostModel, by: &Hotness) -> Vec<SweepPoint> {
        let lists = self.list_curve(by, &shares(budget, SWEEP_STEPS, self.sizes.list_map_bytes));
        let rows = self.row_curve(by, &shares(budget, SWEEP_STEPS, self.sizes.row_map_bytes));
        lists
            .iter()
            .zip(rows.iter().rev())
            .zip(0..)
            .map(|((lists, rows), step)| SweepPoint {
                list_share: f64::from(step) / SWEEP_STEPS as f64,
                lists: lists.count as usize,
                rows: rows.count as usize,
                cost: model.cost(lists.hit_rate, rows.hit_rate),
                prediction: model.predict(lists.hit_rate, rows.hit_rate),
            })
            .collect()
    }

    /// Hit rates of list caches of at most these bytes, in ascending order, evaluated on `by`.
    ///
    /// # Panics
    /// If `by` is for another graph.
    #[must_use]
    pub fn list_curve(&self, by: &Hotness, targets: &[u64]) -> Vec<CurvePoint> {
        curve(&self.lists, &by.list_reads, |node| self.sizes.list_bytes(node), targets)
    }

    /// Hit rates of row caches of at most these bytes, in ascending order, evaluated on `by`.
    ///
    /// # Panics
    /// If `by` is for another graph.
    #[must_use]
    pub fn row_curve(&self, by: &Hotness, targets: &[u64]) -> Vec<CurvePoint> {
        curve(&self.rows, &by.feature_reads, |_| self.sizes.row_bytes, targets)
    }
}

/// 0, 1, …, `steps` parts of `steps` of `budget`, each less a map.
fn shares(budget: u64, steps: u64, map_bytes: u64) -> Vec<u64> {
    // The product of 64 bits and the steps may overflow.
    let part = |step| (u128::from(budget) * u128::from(step) / u128::from(steps)) as u64;
    (0..=steps).map(|step| part(step).saturating_sub(map_bytes)).collect()
}
