//! All policies over the same epochs: what each hits at several sizes.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::rank::{rank_lists, rank_rows};
use crate::{
    CacheError, CachePolicy, FifoSimulation, Hotness, HotnessPolicy, Presample, Sizes, Workload, count,
    hit_rate,
};

/// What a policy's caches hit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyHits {
    /// The policy.
    pub policy: CachePolicy,
    /// One for each size that was asked for.
    pub points: Vec<PolicyPoint>,
    /// Seconds to find the hotness out and to rank.
    pub seconds: f64,
}

/// Hit rates at one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyPoint {
    /// Share of all rows, and of all bytes of lists, that are cached.
    pub share: f64,
    /// Share of rows gathered that hit.
    pub rows: f64,
    /// Share of list reads that hit; `None` for a policy that caches no lists.
    pub lists: Option<f64>,
}

/// Hit rates of every policy at caches of `shares` of all rows and of all bytes of lists, over `measured` epochs.
/// Presampling counts `presampled` epochs, the optimum those that are measured. Maps are not counted.
///
/// # Errors
/// Where there is no batch, or one cannot be sampled.
pub fn compare_policies(
    workload: &Workload<'_>,
    presampled: u32,
    measured: Range<u32>,
    shares: &[f64],
) -> Result<Vec<PolicyHits>, CacheError> {
    let observed = count(workload, measured.clone())?;
    let mut all = Vec::new();
    for policy in CachePolicy::ALL {
        let start = std::time::Instant::now();
        let hotness = match policy {
            CachePolicy::Fifo => {
                let points = fifo(workload, measured.clone(), shares)?;
                all.push(PolicyHits { policy, points, seconds: 0.0 });
                continue;
            }
            // Counted already.
            CachePolicy::Optimal => observed.clone(),
            CachePolicy::Presample => Presample { epochs: presampled }.hotness(workload)?,
            _ => policy.hotness_policy()?.hotness(workload)?,
        };
        let sizes = Sizes::new(&workload.csc, 0);
        let (lists, rows) = (rank_lists(&hotness, &sizes), rank_rows(&hotness));
        let seconds = start.elapsed().as_secs_f64();
        let points = shares.iter().map(|&share| point(share, &lists, &rows, &observed, &sizes)).collect();
        all.push(PolicyHits { policy, points, seconds });
    }
    Ok(all)
}

fn point(share: f64, lists: &[u32], rows: &[u32], observed: &Hotness, sizes: &Sizes<'_>) -> PolicyPoint {
    let count = (share * sizes.nodes() as f64) as usize;
    let all: u64 = (0..sizes.nodes() as u32).map(|node| sizes.list_bytes(node)).sum();
    let target = (share * all as f64) as u64;
    let curve = crate::curve(lists, &observed.list_reads, |node| sizes.list_bytes(node), &[target]);
    PolicyPoint {
        share,
        rows: hit_rate(&rows[..count.min(rows.len())], &observed.feature_reads),
        lists: curve.first().map(|point| point.hit_rate),
    }
}

/// All sizes side by side, over one pass. The first epoch fills the caches and does not count, unless it is the only
/// one.
fn fifo(
    workload: &Workload<'_>,
    measured: Range<u32>,
    shares: &[f64],
) -> Result<Vec<PolicyPoint>, CacheError> {
    let nodes = workload.csc.nodes();
    let mut caches: Vec<FifoSimulation> =
        shares.iter().map(|share| FifoSimulation::new(nodes, (share * nodes as f64) as usize)).collect();
    let first_epoch = if measured.len() > 1 { workload.batches()? } else { 0 };
    let mut seen = 0;
    workload.visit_in_order(measured, &mut |batch| {
        for cache in &mut caches {
            if seen == first_epoch {
                cache.reset();
            }
            cache.gather(batch.nodes());
        }
        seen += 1;
    })?;
    let point =
        |(&share, cache): (&f64, &FifoSimulation)| PolicyPoint { share, rows: cache.hit_rate(), lists: None };
    Ok(shares.iter().zip(&caches).map(point).collect())
}
