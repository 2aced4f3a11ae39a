//! Hotness by calculation of each node's probability to be in a batch, propagated hop by hop.
//!
//! "Vertex inclusion probability" of SALIENT++ (Kaler et al., MLSys 2023). Let p₀ be the probability that a training
//! node is a seed, and q(u) the probability that one of u's neighbours is picked when u's list is read:
//!
//! pₗ₊₁(v) = 1 − (1 − pₗ(v)) · Π over entries (u → v) of (1 − pₗ(u) · qₗ(u))
//!
//! This assumes that nodes enter a batch independently of each other, and that all entries of a list are equally
//! likely. If edges are picked by weight, `presample` is more accurate. Products are sums of logarithms in fixed point,
//! so threads may add in any order and the result is the same.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use uva_graph::{Indices, Relation};

use super::cache_policy::{CachePolicy, Ranking};
use super::hotness_policy::HotnessPolicy;
use crate::{CacheError, Hotness, Workload};

impl CachePolicy {
    /// [`Analytic`].
    pub const ANALYTIC: Self = Self::Ranking(&Ranking {
        name: "analytic",
        help: "Nodes with the highest probability of being in a batch, computed hop by hop (SALIENT++)",
        policy: &Analytic,
    });
}

/// Inclusion probabilities from the graph, the training nodes, the batch size and the fanouts, without sampling. Each
/// hop is one pass over the lists of all nodes reached so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Analytic;

/// Units of −ln(1 − p): 2⁻⁴⁴, so that probabilities down to 10⁻¹³ count.
const LOG_UNIT: f64 = (1_u64 << 44) as f64;

/// The maximum that one entry adds: a probability of 1 − e⁻³² is as good as certain.
const MOST_LOG: f64 = 32.0;

/// The largest count that expected reads are scaled to.
const MOST_COUNT: f64 = (1_u32 << 31) as f64;

impl HotnessPolicy for Analytic {
    fn hotness(&self, workload: &Workload<'_>) -> Result<Hotness, CacheError> {
        let kind = workload.options.kind;
        if kind.draws_together() || !kind.picks_in_lists() {
            return Err(CacheError::AnalyticKind { kind });
        }
        let seed_chance = workload.seed_chance()?;
        let csc = &workload.csc;
        let nodes = csc.nodes();
        let mut chance = vec![0_f64; nodes];
        for &seed in workload.train {
            // Ids of an opened dataset are in range; the sampler reports those that are not.
            if let Some(chance) = chance.get_mut(seed as usize) {
                *chance = seed_chance;
            }
        }
        let mut list_reads = vec![0_f64; nodes];
        // −ln(1 − p), in LOG_UNITs.
        let missing: Vec<AtomicU64> = (0..nodes).into_par_iter().map(|_| AtomicU64::new(0)).collect();
        for fanout in workload.options.fanouts.of_relation(Relation::ONLY) {
            // With a fanout of −1, lists are taken whole.
            let replace = workload.options.replace && fanout >= 0;
            chance.par_iter().zip(&mut list_reads).enumerate().for_each(|(node, (&chance, reads))| {
                let degree = csc.degree(node);
                let picks = workload.options.picks_of_list(degree, fanout);
                *reads += chance * workload.options.visit_reads(degree, picks, fanout).all() as f64;
                if degree == 0 || chance == 0.0 {
                    return;
                }
                let log = log_of_missing(chance * pick_chance(degree, picks, replace));
                let list = csc.indptr[node] as usize..csc.indptr[node + 1] as usize;
                let add = |id: usize| {
                    if let Some(missing) = missing.get(id) {
                        add_saturating(missing, log);
                    }
                };
                match csc.indices {
                    Indices::I32(ids) => ids[list].iter().for_each(|&id| add(id as usize)),
                    Indices::I64(ids) => ids[list].iter().for_each(|&id| add(id as usize)),
                }
            });
            chance.par_iter_mut().zip(&missing).for_each(|(chance, missing)| {
                let log = missing.swap(0, Ordering::Relaxed) as f64 / LOG_UNIT;
                if log > 0.0 {
                    // 1 − (1 − p)·e^−log, without losing small terms: p + (1 − p)·(1 − e^−log).
                    *chance -= (1.0 - *chance) * (-log).exp_m1();
                }
            });
        }
        drop(missing);
        Ok(Hotness { feature_reads: scaled(&chance), list_reads: scaled(&list_reads), ..Hotness::default() })
    }
}

/// The probability that one entry of a list of `degree` is among the `picks` made when the list is read.
fn pick_chance(degree: usize, picks: usize, replace: bool) -> f64 {
    if replace {
        // 1 − (1 − 1/d)^f
        -(picks as f64 * (-1.0 / degree as f64).ln_1p()).exp_m1()
    } else {
        picks as f64 / degree as f64
    }
}

/// −ln(1 − `chance`) in units of [`LOG_UNIT`].
fn log_of_missing(chance: f64) -> u64 {
    (-(-chance).ln_1p()).min(MOST_LOG).mul_add(LOG_UNIT, 0.5) as u64
}

/// Adds `more`, saturating: a thread that wraps the sum stores the maximum, so the maximum remains.
fn add_saturating(sum: &AtomicU64, more: u64) {
    if sum.fetch_add(more, Ordering::Relaxed).checked_add(more).is_none() {
        sum.store(u64::MAX, Ordering::Relaxed);
    }
}

/// Expectations as counts, with the largest scaled to [`MOST_COUNT`]. A non-zero expectation counts at least 1.
fn scaled(expected: &[f64]) -> Vec<u32> {
    let most = expected.par_iter().copied().reduce(|| 0.0, f64::max);
    let scale = if most > 0.0 { MOST_COUNT / most } else { 0.0 };
    let count = |&value: &f64| if value > 0.0 { ((value * scale) as u32).max(1) } else { 0 };
    expected.par_iter().map(count).collect()
}

#[cfg(test)]
mod tests {
    use uva_graph::Csc;
    use uva_sample::{SamplerKind, SamplerOptions};

    use super::*;

    fn hotness(
        indptr: &[i64],
        indices: &[i64],
        train: &[i64],
        fanouts: &[i32],
        batch_size: usize,
    ) -> Hotness {
        let options = SamplerOptions { fanouts: fanouts.into(), ..SamplerOptions::default() };
        hotness_for(indptr, indices, train, options, batch_size)
    }

    fn hotness_for(
        indptr: &[i64],
        indices: &[i64],
        train: &[i64],
        options: SamplerOptions,
        batch_size: usize,
    ) -> Hotness {
        let csc = Csc { indptr, indices: Indices::I64(indices), original_ids: None, degrees: None };
        let workload = Workload {
            weights: None,
            csc,
            train,
            options,
            batch_size,
            drop_last: false,
            sequenced: None,
            threads: 1,
            batch_bytes: None,
            progress: None,
        };
        Analytic.hotness(&workload).unwrap()
    }

    /// Counts as shares of the largest.
    fn shares(counts: &[u32]) -> Vec<f64> {
        counts.iter().map(|&count| f64::from(count) / MOST_COUNT).collect()
    }

    fn assert_close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-8, "{found} is not {expected}");
        }
    }

    #[test]
    fn chances_of_a_small_graph_are_those_on_paper() {
        // 0 names 1, 2, 3, 4; 1 names 5; training nodes are 0 and 1, one a batch; one neighbour of each is picked.
        let hotness = hotness(&[0, 4, 5, 5, 5, 5, 5], &[1, 2, 3, 4, 5], &[0, 1], &[1, 2], 1);
        // Hop 0: 0 and 1 are seeds with ½; 0 picks each of its four with ¼, 1 picks 5 for certain.
        let (p0, p2, p5) = (0.5, 0.5 * 0.25, 0.5);
        let p1 = 1.0 - 0.5 * (1.0 - 0.125);
        // Hop 1: 0 picks two of its four, 1 all it has.
        let q2 = 1.0 - (1.0 - p2) * (1.0 - p0 * 0.5);
        let q1 = 1.0 - (1.0 - p1) * (1.0 - p0 * 0.5);
        let q5 = 1.0 - (1.0 - p5) * (1.0 - p1);
        let most = q5;
        assert_close(
            &shares(&hotness.feature_reads),
            &[p0 / most, q1 / most, q2 / most, q2 / most, q2 / most, 1.0],
        );
        let reads = [p0 * 2.0 + p0 * 3.0, p0 * 2.0 + p1 * 2.0, p2, p2, p2, p5];
        // Nodes 2 to 5 are destinations of hop 1 only, and their lists are empty: one read each.
        let most = reads[0];
        assert_close(&shares(&hotness.list_reads), &reads.map(|reads| reads / most));
    }

    #[test]
    fn what_is_out_of_reach_counts_nothing_and_what_is_certain_stays_certain() {
        // A cycle of three in which all is certain, and a node outside that names one of them.
        let hotness = hotness(&[0, 1, 2, 3, 4], &[1, 2, 0, 0], &[0, 1, 2], &[5, 5], 3);
        assert_close(&shares(&hotness.feature_reads), &[1.0, 1.0, 1.0, 0.0]);
        assert_eq!((hotness.feature_reads[3], hotness.list_reads[3]), (0, 0));
    }

    #[test]
    fn kinds_that_do_not_pick_by_list_are_refused_with_the_policy_that_can() {
        let csc = Csc { indptr: &[0, 1], indices: Indices::I64(&[0]), original_ids: None, degrees: None };
        let by_list = |kind: SamplerKind| !kind.weighs_edges();
        for kind in SamplerKind::ALL {
            let options = SamplerOptions { kind, fanouts: [1].into(), ..SamplerOptions::default() };
            let workload = Workload {
                weights: None,
                csc,
                train: &[0],
                options,
                batch_size: 1,
                drop_last: false,
                sequenced: None,
                threads: 1,
                batch_bytes: None,
                progress: None,
            };
            match Analytic.hotness(&workload) {
                Ok(_) => assert!(by_list(kind), "{kind}"),
                Err(refused) => {
                    assert!(!by_list(kind) && refused.to_string().contains("presample"), "{refused}");
                }
            }
        }
    }

    #[test]
    fn picks_with_replacement_are_less_likely_to_meet_an_entry() {
        assert_close(
            &[
                pick_chance(4, 2, true),
                pick_chance(4, 2, false),
                pick_chance(2, 2, true),
                pick_chance(1, 2, true),
            ],
            &[1.0 - 0.75 * 0.75, 0.5, 0.75, 1.0],
        );
    }

    #[test]
    fn with_replacement_a_short_list_may_miss_an_entry() {
        // 0 names 1 and 2; 1 names 0; the list of 2 is empty. 0 is the only training node.
        let options = SamplerOptions { fanouts: [3, -1].into(), replace: true, ..SamplerOptions::default() };
        let hotness = hotness_for(&[0, 2, 3, 3], &[1, 2, 0], &[0], options, 1);
        // Three draws miss one of two entries with 1/8. The second hop takes whole lists.
        let met = 1.0 - 0.125;
        assert_close(&shares(&hotness.feature_reads), &[1.0, 1.0, 1.0]);
        let reads = [(1.0 + 3.0) + (1.0 + 2.0), met * 2.0, met];
        assert_close(&shares(&hotness.list_reads), &reads.map(|count| count / reads[0]));
    }

    #[test]
    fn sums_beyond_the_top_stay_there() {
        let sum = AtomicU64::new(u64::MAX - 5);
        for _ in 0..3 {
            add_saturating(&sum, log_of_missing(1.0));
        }
        assert_eq!(sum.into_inner(), u64::MAX);
        assert_eq!(log_of_missing(1.0), (MOST_LOG * LOG_UNIT) as u64);
    }
}
