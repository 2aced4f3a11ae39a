//! Reads of other parts by batches of each part's own training nodes.
//!
//! The training nodes of a part, in the order of the split, make that part's batches: they are shuffled and cut as
//! those of a dataset with just these training nodes. So a batch here is the batch that a run on the part would make.

use std::ops::Range;

use rayon::prelude::*;
use uva_graph::{Dataset, GraphError, PartitionMap, Split};
use uva_sample::{
    BatchBounds, BatchKey, BatchSampler, Expand, GraphView, MiniBatch, SampleError, SamplerOptions,
    SeedOrder, sampler,
};

/// The maximum number of parts whose visits are counted pair by pair: 8 bytes a pair, for each thread.
pub const MOST_PAIRED: usize = 1024;

/// Bytes of a node id between parts.
const ID_BYTES: u64 = 8;

/// The batches that are counted.
#[derive(Clone, Debug)]
pub struct Batches {
    /// The sampling of the batches, by a kind for which [`counts`] holds.
    pub sampling: SamplerOptions,
    /// Seeds per batch.
    pub batch_size: usize,
    /// The epochs.
    pub epochs: Range<u32>,
    /// The maximum number of batches of a part in an epoch, from the first on; `None` for all.
    pub most: Option<usize>,
}

/// The reads of batches, summed over all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visits {
    /// Number of batches.
    pub batches: u64,
    /// Neighbour lists from which neighbours were picked, counted in each hop.
    pub list_visits: u64,
    /// Visited lists of nodes of other parts.
    pub remote_list_visits: u64,
    /// Feature rows.
    pub rows: u64,
    /// Feature rows of nodes of other parts.
    pub remote_rows: u64,
    /// Lists visited, by the part of the batch and the part of the list, row by row; empty for more than
    /// [`MOST_PAIRED`] parts.
    pub by_pair: Vec<u64>,
    /// Messages to other parts: in each hop one to each part whose lists are requested, and one for rows.
    pub requests: u64,
    /// Bytes between parts: 8 for each requested list or row, 8 for each returned neighbour, and the rows.
    pub bytes: u64,
}

impl Visits {
    fn of_parts(parts: usize) -> Visits {
        let pairs = if parts <= MOST_PAIRED { parts * parts } else { 0 };
        Visits { by_pair: vec![0; pairs], ..Visits::default() }
    }

    fn add(mut self, other: &Visits) -> Visits {
        self.batches += other.batches;
        self.list_visits += other.list_visits;
        self.remote_list_visits += other.remote_list_visits;
        self.rows += other.rows;
        self.remote_rows += other.remote_rows;
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.by_pair.iter_mut().zip(&other.by_pair).for_each(|(sum, visits)| *sum += visits);
        self
    }
}

/// Whether visits of lists can be counted for these samplers: a list's owner can draw its picks alone.
#[must_use]
pub fn counts(options: &SamplerOptions) -> bool {
    options.kind.picks_in_lists() && !options.kind.draws_together()
}

/// Counts the visits. Uses the current rayon pool; the result does not depend on it.
///
/// # Errors
/// [`VisitError::Map`] if the map does not fit the dataset, [`VisitError::Sample`] if options and graph do not fit each
/// other.
///
/// # Panics
/// If [`counts`] does not hold.
pub fn count(dataset: &Dataset, map: &PartitionMap, batches: &Batches) -> Result<Visits, VisitError> {
    assert!(counts(&batches.sampling), "{} reads no lists of others", batches.sampling.kind);
    let of = map.by_node(dataset)?;
    let parts = map.parts as usize;
    let mut seeds = vec![Vec::new(); parts];
    for &node in dataset.split(Split::Train) {
        seeds[usize::from(of[node as usize])].push(node);
    }
    let mut orders = Vec::with_capacity(parts);
    for seeds in &seeds {
        let size = batches.batch_size;
        orders.push(SeedOrder::new(batches.sampling.seed, Split::Train, seeds.len(), true, size, false)?);
    }
    // No slot limits this memory: if lists are taken whole, only the graph does.
    let bytes = batches.sampling.fanouts.hop_of_all().map(|_| usize::MAX);
    let (nodes, edges) = (dataset.nodes(), dataset.edges());
    let bounds = BatchBounds::for_options(&batches.sampling, batches.batch_size, nodes, edges, bytes)?;
    let graph = GraphView { weights: dataset.weights(), ..dataset.csc().into() };
    let row_bytes = dataset.table().row_bytes() as u64;
    let threads = rayon::current_num_threads();
    let mut workers = Vec::with_capacity(threads);
    for _ in 0..threads {
        let counted = Visits::of_parts(parts);
        let marks = vec![false; parts];
        let batch = MiniBatch::with_bounds(&bounds);
        workers.push(Worker { sampler: sampler(graph, &batches.sampling)?, batch, marks, counted });
    }
    for epoch in batches.epochs.clone() {
        let mut made = Vec::new();
        for (part, order) in orders.iter_mut().enumerate() {
            order.prepare(epoch)?;
            made.extend(
                (0..order.batches().min(batches.most.unwrap_or(usize::MAX))).map(|batch| (part, batch)),
            );
        }
        let (orders, seeds, of, made) = (&orders, &seeds, &of[..], &made);
        workers.par_iter_mut().enumerate().try_for_each(|(index, worker)| {
            for &(part, batch) in made.iter().skip(index).step_by(threads) {
                let of_part = &seeds[part];
                let seeds: Vec<i64> =
                    orders[part].batch(batch).iter().map(|place| of_part[*place as usize]).collect();
                let key = BatchKey { split: Split::Train, epoch, batch: batch as u32 };
                worker.sampler.sample_into(key, &seeds, &mut worker.batch)?;
                worker.count(part, of, row_bytes);
            }
            Ok::<(), SampleError>(())
        })?;
    }
    Ok(workers.iter().fold(Visits::of_parts(parts), |sum, worker| sum.add(&worker.counted)))
}

/// A thread's sampler and counts.
struct Worker<'g> {
    sampler: Box<dyn BatchSampler + 'g>,
    batch: MiniBatch,
    /// Parts to which a request is sent.
    marks: Vec<bool>,
    counted: Visits,
}

impl Worker<'_> {
    /// Counts the last sampled batch, whose seeds belong to `part`. `of` is the part of each node of the dataset.
    fn count(&mut self, part: usize, of: &[u16], row_bytes: u64) {
        let Self { sampler, batch, marks, counted } = self;
        let parts = marks.len();
        let part_of = |node: i64| usize::from(of[node as usize]);
        let mut expanded = 0;
        for block in batch.blocks() {
            for destination in expanded..block.destinations {
                let owner = part_of(batch.nodes()[destination]);
                counted.list_visits += 1;
                if let Some(pair) = counted.by_pair.get_mut(part * parts + owner) {
                    *pair += 1;
                }
                if owner != part {
                    let picks = block.indptr[destination + 1] - block.indptr[destination];
                    counted.remote_list_visits += 1;
                    counted.bytes += ID_BYTES + ID_BYTES * picks as u64;
                    marks[owner] = true;
                }
            }
            counted.requests += asked(marks);
            if sampler.options().expand == Expand::New {
                expanded = block.destinations;
            }
        }
        for owner in batch.nodes().iter().map(|node| part_of(*node)).filter(|owner| *owner != part) {
            counted.remote_rows += 1;
            counted.bytes += ID_BYTES + row_bytes;
            marks[owner] = true;
        }
        counted.rows += batch.nodes().len() as u64;
        counted.requests += asked(marks);
        counted.batches += 1;
    }
}

/// The number of marked parts. Clears the marks.
fn asked(marks: &mut [bool]) -> u64 {
    marks.iter_mut().map(|mark| u64::from(std::mem::take(mark))).sum()
}

/// Why visits could not be counted.
#[derive(Debug, thiserror::Error)]
pub enum VisitError {
    /// The map does not fit the dataset.
    #[error(transparent)]
    Map(#[from] GraphError),
    /// Options and graph do not fit each other.
    #[error(transparent)]
    Sample(#[from] SampleError),
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use uva_sample::{FanoutPer, SamplerKind, Walks};

    use super::*;
    use crate::testing::{Lists, on_threads, shuffled};

    fn sampling(fanouts: Vec<i32>, expand: Expand) -> SamplerOptions {
        let (kind, walks) = (SamplerKind::default(), Walks::default());
        SamplerOptions {
            kind,
            fanouts: fanouts.into(),
            fanout_per: FanoutPer::Relation,
            replace: false,
            seed: 3,
            batch_dependency: 1,
            expand,
            edge_ids: false,
            trees: None,
            walks,
        }
    }

    /// Batches of all training nodes of a part whose lists are taken whole, counted naively.
    fn by_hand(lists: &Lists, of: &[u16], parts: usize, hops: usize, expand: Expand) -> Visits {
        let mut visits = Visits::of_parts(parts);
        for part in 0..parts {
            let owner = |node: usize| usize::from(of[node]);
            let mut nodes: BTreeSet<usize> =
                lists.train.iter().copied().filter(|node| owner(*node) == part).collect();
            if nodes.is_empty() {
                continue;
            }
            visits.batches += 1;
            let mut visited = BTreeSet::new();
            for _ in 0..hops {
                let asked: Vec<usize> = match expand {
                    Expand::All => nodes.iter().copied().collect(),
                    Expand::New => nodes.difference(&visited).copied().collect(),
                };
                let mut remote: BTreeMap<usize, usize> = BTreeMap::new();
                for node in asked {
                    visited.insert(node);
                    visits.list_visits += 1;
                    visits.by_pair[part * parts + owner(node)] += 1;
                    if owner(node) != part {
                        visits.remote_list_visits += 1;
                        visits.bytes += 8 + 8 * lists.lists[node].len() as u64;
                        *remote.entry(owner(node)).or_default() += 1;
                    }
                    nodes.extend(&lists.lists[node]);
                }
                visits.requests += remote.len() as u64;
            }
            let remote: Vec<usize> = nodes.iter().copied().filter(|node| owner(*node) != part).collect();
            visits.rows += nodes.len() as u64;
            visits.remote_rows += remote.len() as u64;
            visits.bytes += (8 + 4) * remote.len() as u64;
            visits.requests += remote.iter().map(|node| owner(*node)).collect::<BTreeSet<_>>().len() as u64;
        }
        visits
    }

    #[test]
    fn visits_of_whole_lists_are_those_counted_by_hand() {
        let temp = tempfile::tempdir().unwrap();
        let lists = Lists::planted(6, 80, 3, 2, 70, 6);
        let dataset = lists.dataset(&temp.path().join("data"));
        let reordered = lists.reordered(&temp.path().join("reordered"), &shuffled(80));
        // Part 3 has no training nodes.
        let of: Vec<u16> = (0..80).map(|node| if node % 6 == 5 { 3 } else { node % 3 }).collect();
        let map = PartitionMap { parts: 4, of: of.clone(), summary: None };
        for expand in [Expand::All, Expand::New] {
            let batches = Batches {
                sampling: sampling(vec![-1, -1], expand),
                batch_size: 80,
                epochs: 2..3,
                most: None,
            };
            let expected = by_hand(&lists, &of, 4, 2, expand);
            assert!(expected.remote_rows > 0 && expected.remote_list_visits > 0);
            for (dataset, threads) in [(&dataset, 1), (&dataset, 3), (&reordered, 2)] {
                let counted = on_threads(threads, || count(dataset, &map, &batches).unwrap());
                assert_eq!(counted, expected, "{expand}, {threads} threads");
            }
        }
    }

    #[test]
    fn batches_are_cut_counted_and_limited_part_by_part() {
        let temp = tempfile::tempdir().unwrap();
        let lists = Lists::planted(6, 100, 2, 4, 70, 1);
        let dataset = lists.dataset(temp.path());
        let map = PartitionMap {
            parts: 2,
            of: (0..100).map(|node| u16::from(node >= 30)).collect(),
            summary: None,
        };
        let batches = |most, epochs| {
            let batches = Batches { sampling: sampling(vec![2], Expand::All), batch_size: 20, epochs, most };
            count(&dataset, &map, &batches).unwrap()
        };
        // 30 and 70 seeds in batches of 20.
        let all = batches(None, 0..1);
        assert_eq!((all.batches, all.list_visits), (2 + 4, 100));
        assert_eq!(
            (all.remote_list_visits, &all.by_pair),
            (0, &vec![30, 0, 0, 70]),
            "seeds are a part's own"
        );
        assert_eq!(batches(Some(1), 0..1).batches, 2);
        let more = batches(None, 0..3);
        assert_eq!((more.batches, more.list_visits), (18, 300));
        assert_ne!(more.rows, 3 * all.rows, "every epoch draws again");
    }

    #[test]
    fn kinds_that_require_lists_of_several_owners_are_not_counted() {
        let of_kind = |name: &str| {
            let kind = SamplerKind::ALL.into_iter().find(|kind| kind.name() == name).unwrap();
            counts(&SamplerOptions { kind, ..sampling(vec![2], Expand::All) })
        };
        assert!(of_kind("neighbor") && of_kind("labor") && of_kind("weighted"));
        assert!(!of_kind("ladies") && !of_kind("walk") && !of_kind("ppr"));
    }
}
