//! A choice between several methods by the reads of other parts that their batches cause.

use serde::{Deserialize, Serialize};
use uva_graph::{GraphError, PartitionMap, Progress};
use uva_sample::{Expand, FanoutPer, SamplerKind, SamplerOptions, Walks};

use crate::graphs::counts;
use crate::graphs::limits::PartSizes;
use crate::graphs::weighted::WeightedGraph as _;
use crate::options::{Method, PartitionOptions};
use crate::task::{MethodResult, PartitionTask, StageSeconds, name};
use crate::visits::{self, Batches, VisitError};

/// The largest ratio of training nodes to the mean that auto accepts.
pub(crate) const BALANCED: f64 = 1.05;

/// The batches over which auto counts visits: this fanout in each hop, at most this many hops, batches of this size,
/// and about this many of them.
const FANOUT: i32 = 10;
const MOST_HOPS: u32 = 3;
const BATCH_SIZE: usize = 1024;
const BATCHES: usize = 64;

/// The largest number of list entries for which auto tries multilevel. On two cores, 20 M entries took a minute and a
/// half. A limit on entries, not on seconds or bytes, makes every machine try the same methods.
const MOST_ENTRIES: u64 = 1 << 26;

/// A method that auto tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The method, as in `partition.json`.
    pub method: String,
    /// Lists that the method's batches visited.
    pub list_visits: u64,
    /// Visited lists of other parts.
    pub remote_list_visits: u64,
    /// The largest ratio of a part's training nodes to the mean.
    pub train_balance: f64,
    /// Parts without a training node.
    pub untrained_parts: usize,
}

/// The methods that auto tries on a graph with this many list entries.
pub(crate) fn tried(entries: u64) -> &'static [Method] {
    let all = &[Method::Range, Method::Ldg, Method::Bgl, Method::Multilevel];
    if entries <= MOST_ENTRIES { all } else { &all[..3] }
}

/// The best of several methods, among those with the fewest parts without training nodes: the one with the smallest
/// share of remote visits whose training nodes are balanced, otherwise the most balanced one; the first of equal ones.
pub(crate) fn best(
    task: &PartitionTask<'_>,
    seconds: &mut StageSeconds,
    candidates: &mut Vec<Candidate>,
) -> Result<(Method, MethodResult), GraphError> {
    let mut best: Option<(Candidate, Method, MethodResult)> = None;
    for &method in tried(task.graph.entries()) {
        let made = task.refined(method, seconds)?;
        let (candidate, made) = seconds.of("visits", || judged(task, method, made))?;
        candidates.push(candidate.clone());
        if best.as_ref().is_none_or(|(best, ..)| is_better(&candidate, best)) {
            best = Some((candidate, method, made));
        }
    }
    // At least three methods were tried.
    best.map(|(_, method, made)| (method, made))
        .ok_or_else(|| GraphError::usage("method", "auto has tried no method".to_owned()))
}

fn judged(
    task: &PartitionTask<'_>,
    method: Method,
    made: MethodResult,
) -> Result<(Candidate, MethodResult), GraphError> {
    let PartitionOptions { parts, hops, seed, .. } = *task.options;
    (task.progress)(Progress { stage: "visits", done: 0, total: 1 });
    let batches = Batches {
        sampling: SamplerOptions {
            kind: SamplerKind::default(),
            fanouts: vec![FANOUT; hops.min(MOST_HOPS) as usize].into(),
            fanout_per: FanoutPer::Relation,
            replace: false,
            seed,
            batch_dependency: 1,
            expand: Expand::All,
            edge_ids: false,
            trees: None,
            walks: Walks::default(),
        },
        batch_size: BATCH_SIZE,
        epochs: 0..1,
        most: Some((BATCHES / parts as usize).max(1)),
    };
    let map = PartitionMap { parts, of: made.of, summary: None };
    let visits = visits::count(task.dataset, &map, &batches).map_err(|error| match error {
        VisitError::Map(error) => error,
        // The options are set here, so only the machine can be at fault.
        VisitError::Sample(error) => GraphError::Lacking {
            path: task.dataset.path().to_owned(),
            message: format!("batches of parts could not be sampled: {error}"),
        },
    })?;
    let sizes = PartSizes::of(&map.of, parts, |node| task.graph.size(node));
    let candidate = Candidate {
        method: name(method, task.options),
        list_visits: visits.list_visits,
        remote_list_visits: visits.remote_list_visits,
        train_balance: counts::over_mean(&sizes.train),
        untrained_parts: sizes.train.iter().filter(|nodes| **nodes == 0).count(),
    };
    Ok((candidate, MethodResult { of: map.of, blocks: made.blocks }))
}

/// Whether a candidate replaces the best so far. A candidate with fewer parts without training nodes wins, whatever its
/// visits.
pub(crate) fn is_better(candidate: &Candidate, best: &Candidate) -> bool {
    if candidate.untrained_parts != best.untrained_parts {
        return candidate.untrained_parts < best.untrained_parts;
    }
    match (candidate.train_balance <= BALANCED, best.train_balance <= BALANCED) {
        (true, true) => {
            let share = |of: &Candidate, with: &Candidate| {
                u128::from(of.remote_list_visits) * u128::from(with.list_visits)
            };
            share(candidate, best) < share(best, candidate)
        }
        (false, false) => candidate.train_balance < best.train_balance,
        (candidate, _) => candidate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multilevel_is_tried_on_graphs_that_are_small_enough() {
        assert!(tried(MOST_ENTRIES).contains(&Method::Multilevel));
        assert_eq!(tried(MOST_ENTRIES + 1), [Method::Range, Method::Ldg, Method::Bgl]);
    }
}
