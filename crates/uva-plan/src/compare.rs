//! Hit rates of several policies over the same epochs, at several cache sizes.

use std::ops::Range;
use std::time::Instant;

use serde::Serialize;

use crate::access::rank::{rank_lists, rank_rows};
use uva_rows::cache::eviction::Eviction;

use crate::{CacheError, ComparedPolicy, Hotness, Simulation, Sizes, Workload, curve, hit_rate};

/// The hit rates of a policy's caches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyHits {
    /// The policy.
    pub policy: ComparedPolicy,
    /// One for each requested size.
    pub points: Vec<PolicyPoint>,
    /// Seconds to compute the hotness and to rank; 0 for a policy that does neither.
    pub seconds: f64,
}

/// Hit rates at one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PolicyPoint {
    /// Per cent of all rows, and of all bytes of lists, that are cached.
    pub percent: u32,
    /// Share of rows gathered that hit.
    pub rows: f64,
    /// Rows gathered that missed, per epoch.
    pub missed: f64,
    /// Share of list reads that hit; `None` for a policy that caches no lists.
    pub lists: Option<f64>,
}

/// Hit rates of each of `policies` at caches of `percents` of all rows and of all bytes of lists, over the `measured`
/// epochs, whose counts are `observed`. The optimum is computed from these same counts. A cache that evicts starts
/// empty. Maps are not counted.
///
/// # Errors
/// If there is no batch, or a batch cannot be sampled.
///
/// # Panics
/// If `observed` is for another graph.
pub fn compare_policies(
    workload: &Workload<'_>,
    policies: &[ComparedPolicy],
    measured: Range<u32>,
    observed: &Hotness,
    percents: &[u32],
) -> Result<Vec<PolicyHits>, CacheError> {
    let sizes = Sizes::new(&workload.csc, 0).read_by(&workload.options);
    let epochs = measured.len();
    let all_lists: u64 = (0..sizes.nodes() as u32).map(|node| sizes.list_bytes(node)).sum();
    let compare = |&compared: &ComparedPolicy| {
        let ComparedPolicy(policy) = compared;
        if let Some(eviction) = policy.eviction() {
            let points = simulated(eviction, workload, measured.clone(), observed, percents)?;
            return Ok(PolicyHits { policy: compared, points, seconds: 0.0 });
        }
        let began = Instant::now();
        let counted;
        let hotness = if policy.is_oracle() {
            observed
        } else {
            counted = policy.hotness_policy()?.hotness(workload)?;
            &counted
        };
        let (lists, rows) = (rank_lists(hotness, &sizes), rank_rows(hotness));
        let seconds = began.elapsed().as_secs_f64();
        let point = |&percent: &u32| {
            let cached = share_of(sizes.nodes() as u64, percent) as usize;
            let target = share_of(all_lists, percent);
            let lists = curve(&lists, &observed.list_reads, |node| sizes.list_bytes(node), &[target]);
            let rows = hit_rate(&rows[..cached.min(rows.len())], &observed.feature_reads);
            PolicyPoint {
                percent,
                rows,
                missed: missed(rows, observed, epochs),
                lists: lists.first().map(|point| point.hit_rate),
            }
        };
        Ok(PolicyHits { policy: compared, points: percents.iter().map(point).collect(), seconds })
    };
    policies.iter().map(compare).collect()
}

/// Simulates all sizes in one pass.
fn simulated(
    eviction: &Eviction,
    workload: &Workload<'_>,
    measured: Range<u32>,
    observed: &Hotness,
    percents: &[u32],
) -> Result<Vec<PolicyPoint>, CacheError> {
    let epochs = measured.len();
    let nodes = workload.csc.nodes();
    let cache = |&percent: &u32| Simulation::new(eviction, nodes, share_of(nodes as u64, percent) as usize);
    let mut caches = percents.iter().map(cache).collect::<Result<Vec<_>, _>>()?;
    workload.visit_in_order(measured, &mut |batch| {
        for cache in &mut caches {
            cache.gather(batch.nodes());
        }
    })?;
    let point = |(&percent, cache): (&u32, &Simulation)| {
        let rows = cache.hit_rate();
        PolicyPoint { percent, rows, missed: missed(rows, observed, epochs), lists: None }
    };
    Ok(percents.iter().zip(&caches).map(point).collect())
}

/// Rows that missed per epoch, out of those that `epochs` epochs observed. The result is a whole number, despite the
/// rounding of the share.
fn missed(hit_rate: f64, observed: &Hotness, epochs: usize) -> f64 {
    let rows = observed.total_feature_reads() as f64;
    (rows - (rows * hit_rate).round()) / epochs as f64
}

fn share_of(whole: u64, percent: u32) -> u64 {
    // The product may overflow 64 bits; a share of at most 100 % does not.
    (u128::from(whole) * u128::from(percent) / 100) as u64
}
