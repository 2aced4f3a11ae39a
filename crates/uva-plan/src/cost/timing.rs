//! Timed runs with caches of several sizes: what the caches hold, and the points that the times make.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use uva_graph::{Progress, mix};
use uva_options::named;

use crate::{CacheError, CostModel, Line, Profile};

named! {
    /// What the caches of timed runs hold. Their sizes are the same either way: evenly spaced in hits.
    pub enum TimedBy = Rank {
        /// The nodes that are read most, as a run caches them.
        Rank = "rank",
        /// Random nodes, as in DUCATI.
        Random = "random",
    }
}

/// One timed run of a few batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedRun {
    /// Share of the reads that hit in these very batches: of list reads, or of rows.
    pub hit_rate: f64,
    /// Milliseconds a batch, the median or the mean.
    pub ms: f64,
}

/// Times caches where they are used. Implemented in a crate above this one, which has samplers, gathers and a device.
pub trait TimedCaches {
    /// Samples a few batches with the lists of the first `cached` nodes of `order` cached. A plan passes the same
    /// `order` in consecutive calls: the nodes that may be cached, in the order of [`TimedBy`].
    ///
    /// # Errors
    /// Any error ends the plan.
    fn sampling(
        &mut self,
        order: &[i64],
        cached: usize,
    ) -> Result<TimedRun, Box<dyn std::error::Error + Send + Sync>>;

    /// Gathers the rows of a few batches with the rows of the nodes `cached` cached.
    ///
    /// # Errors
    /// Any error ends the plan.
    fn gathering(&mut self, cached: &[i64]) -> Result<TimedRun, Box<dyn std::error::Error + Send + Sync>>;
}

/// How well lines of time against hit rate fit the timed runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedFit {
    /// What the caches held.
    pub by: TimedBy,
    /// R² of the line of sampling; `None` where the points make no line.
    pub sampling_r2: Option<f64>,
    /// R² of the line of gathering; `None` where the points make no line.
    pub gathering_r2: Option<f64>,
}

/// The points of one way to fill the timed caches: (hit rate, milliseconds a batch).
#[derive(Clone, Debug)]
pub(crate) struct TimedPoints {
    pub by: TimedBy,
    pub sampling: Vec<(f64, f64)>,
    pub gathering: Vec<(f64, f64)>,
}

impl TimedPoints {
    pub(crate) fn fit(&self) -> TimedFit {
        let r2 = |points: &[(f64, f64)]| Line::fit(points).map(|line| line.r2);
        TimedFit { by: self.by, sampling_r2: r2(&self.sampling), gathering_r2: r2(&self.gathering) }
    }
}

/// What is to be timed.
pub(crate) struct Timing<'r> {
    /// The ways to fill the caches, the one whose lines value hits first.
    pub ways: Vec<TimedBy>,
    /// Sizes of each cache.
    pub points: usize,
    /// The most bytes of a cache, its map included.
    pub budget_bytes: u64,
    /// Whether the run has a cache of lists, and one of rows: others are not timed.
    pub lists: bool,
    pub rows: bool,
    /// Keys random choices.
    pub seed: u64,
    /// Called after every timed run.
    pub progress: Option<&'r (dyn Fn(Progress) + Sync)>,
}

/// The runs to be timed one way.
struct Runs<'p> {
    by: TimedBy,
    /// The nodes whose lists may be cached, and how many are, run by run.
    lists: (Cow<'p, [u32]>, Vec<usize>),
    /// The same of rows.
    rows: (Cow<'p, [u32]>, Vec<usize>),
}

impl<'p> Runs<'p> {
    fn new(timing: &Timing<'_>, profile: &'p Profile<'_>, by: TimedBy) -> Self {
        // The limit on how full the caches may be is in bytes; their benefit is not known yet.
        let unknown = CostModel::new(&[], &[], profile.reads_per_batch(), profile.sizes.row_bytes);
        let most_lists = profile.allocate_lists(timing.budget_bytes, &unknown).lists;
        let most_rows = profile.allocate_rows(timing.budget_bytes, &unknown).rows;
        let (lists, rows): (Cow<'p, [u32]>, Cow<'p, [u32]>) = match by {
            TimedBy::Rank => (profile.lists[..most_lists].into(), profile.rows[..most_rows].into()),
            TimedBy::Random => {
                let order = |wanted: bool, nodes: &[u32], salt| {
                    if wanted { shuffled(nodes, timing.seed, salt) } else { Vec::new() }
                };
                let mut lists = order(timing.lists, &profile.lists, LISTS);
                let mut left = timing.budget_bytes.saturating_sub(profile.sizes.list_map_bytes);
                // A list that does not fit is left out, and shorter ones after it are not.
                lists.retain(|&node| {
                    let rest = left.checked_sub(profile.sizes.list_bytes(node));
                    left = rest.unwrap_or(left);
                    rest.is_some()
                });
                let mut rows = order(timing.rows, &profile.rows, ROWS);
                rows.truncate(most_rows);
                (lists.into(), rows.into())
            }
        };
        let sizes = |wanted: bool, order: &[u32], reads: &[u32]| {
            if wanted { counts(order, reads, timing.points) } else { Vec::new() }
        };
        let list_counts = sizes(timing.lists, &lists, &profile.hotness.list_reads);
        let row_counts = sizes(timing.rows, &rows, &profile.hotness.feature_reads);
        Self { by, lists: (lists, list_counts), rows: (rows, row_counts) }
    }

    fn count(&self) -> usize {
        self.lists.1.len() + self.rows.1.len()
    }
}

/// Words that keep the random orders of lists and of rows apart.
const LISTS: u64 = 1;
const ROWS: u64 = 2;

/// The nodes in a random order that depends on the seed alone.
fn shuffled(nodes: &[u32], seed: u64, what: u64) -> Vec<u32> {
    let key = mix(seed ^ mix(what));
    let mut nodes = nodes.to_vec();
    nodes.sort_unstable_by_key(|&node| (mix(key ^ u64::from(node)), node));
    nodes
}

/// Times the run's caches in each of these ways.
pub(crate) fn time(
    timing: &Timing<'_>,
    profile: &Profile<'_>,
    timed: &mut dyn TimedCaches,
) -> Result<Vec<TimedPoints>, CacheError> {
    let failed = |what| move |source| CacheError::Timing { what, source };
    let ways: Vec<Runs<'_>> = timing.ways.iter().map(|&by| Runs::new(timing, profile, by)).collect();
    let total = ways.iter().map(Runs::count).sum::<usize>() as u64;
    let mut done = 0;
    let mut report = || {
        done += 1;
        if let Some(progress) = timing.progress {
            progress(Progress { stage: "timing", done, total });
        }
    };
    let wide = |nodes: &[u32]| -> Vec<i64> { nodes.iter().map(|&node| i64::from(node)).collect() };
    let mut all = Vec::new();
    for Runs { by, lists: (lists, list_counts), rows: (rows, row_counts) } in ways {
        let mut points = TimedPoints { by, sampling: Vec::new(), gathering: Vec::new() };
        // Nodes beyond every size need no place in front.
        let order = wide(&lists);
        for cached in list_counts {
            let point = timed.sampling(&order, cached).and_then(finite).map_err(failed("sampling"))?;
            points.sampling.push(point);
            report();
        }
        drop(order);
        let order = wide(&rows);
        for cached in row_counts {
            let point = timed.gathering(&order[..cached]).and_then(finite).map_err(failed("gathering"))?;
            points.gathering.push(point);
            report();
        }
        all.push(points);
    }
    Ok(all)
}

/// A point, if both numbers are finite: JSON has no others.
fn finite(timed: TimedRun) -> Result<(f64, f64), Box<dyn std::error::Error + Send + Sync>> {
    let TimedRun { hit_rate, ms } = timed;
    if hit_rate.is_finite() && ms.is_finite() {
        return Ok((hit_rate, ms));
    }
    Err(format!("a run measured hit rate {hit_rate} and {ms} ms").into())
}

/// Cache sizes without repetition, whose hits are evenly spaced from none to those of all of `order`.
fn counts(order: &[u32], reads: &[u32], points: usize) -> Vec<usize> {
    let read = |node: &u32| u64::from(reads[*node as usize]);
    let total: u64 = order.iter().map(read).sum();
    let steps = points.max(2) as u64 - 1;
    let mut counts = vec![0];
    let (mut hits, mut step) = (0_u64, 1);
    for (place, node) in order.iter().enumerate() {
        hits += read(node);
        if u128::from(hits) * u128::from(steps) >= u128::from(total) * u128::from(step) {
            counts.push(place + 1);
            while u128::from(hits) * u128::from(steps) >= u128::from(total) * u128::from(step) {
                step += 1;
            }
        }
        if step > steps {
            break;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_sizes_are_evenly_spaced_in_hits() {
        let reads = [50, 25, 5, 5, 5, 5, 5];
        let order = [0, 1, 2, 3, 4, 5, 6];
        assert_eq!(counts(&order, &reads, 5), [0, 1, 2, 7]);
        assert_eq!(counts(&order, &reads, 2), [0, 7]);
        assert_eq!(counts(&order, &[1; 7], 8), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(counts(&[], &reads, 5), [0]);
        assert_eq!(counts(&order[..1], &reads, 5), [0, 1]);
    }

    #[test]
    fn random_orders_are_permutations_that_depend_on_the_seed() {
        let nodes: Vec<u32> = (0..500).map(|node| 3 * node).collect();
        let order = shuffled(&nodes, 7, LISTS);
        assert_eq!(order, shuffled(&nodes, 7, LISTS));
        for other in [shuffled(&nodes, 8, LISTS), shuffled(&nodes, 7, ROWS), nodes.clone()] {
            assert_ne!(order, other);
        }
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, nodes);
        // Neither half is preferred.
        let of_first_half = order[..250].iter().filter(|&&node| node < 750).count();
        assert!((100..150).contains(&of_first_half), "{of_first_half}");
    }
}
