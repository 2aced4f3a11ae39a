//! Disjoint trees: each is what its seed alone has in the part of the graph that it sees.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use uva_graph::{EntryTimes, NodeType};
use uva_sample::{
    BatchBounds, Expand, GraphSize, MiniBatch, RelationView, SamplerKind, SamplerOptions, Seeds, SortedTimes,
    TimeLimit, TimePick, TimeRule, Trees, TypedView, sampler,
};

use crate::common::{Graph, assert_distributed, assert_uniform, key};

/// A graph with a time for each edge, and maybe weights.
#[derive(Clone, Debug)]
struct Timed {
    lists: Vec<Vec<i64>>,
    times: Vec<Vec<i64>>,
    weights: Option<Vec<Vec<f32>>>,
}

impl Timed {
    fn graph(&self) -> Graph {
        let graph = Graph::from_lists(&self.lists);
        match &self.weights {
            Some(weights) => graph.weighted(weights),
            None => graph,
        }
    }

    /// The graph with the entries of each list that are in `keeps`.
    fn part(&self, keeps: impl Fn(&[i64]) -> Vec<usize>) -> Self {
        let kept: Vec<Vec<usize>> = self.times.iter().map(|times| keeps(times)).collect();
        fn of<T: Copy>(lists: &[Vec<T>], kept: &[Vec<usize>]) -> Vec<Vec<T>> {
            lists.iter().zip(kept).map(|(list, kept)| kept.iter().map(|at| list[*at]).collect()).collect()
        }
        Self {
            lists: of(&self.lists, &kept),
            times: of(&self.times, &kept),
            weights: self.weights.as_ref().map(|weights| of(weights, &kept)),
        }
    }
}

/// The entries that a seed sees, by the definition; of these the latest `last`.
fn visible(limit: &TimeLimit, times: &[i64], seed: i64, last: Option<i32>) -> Vec<usize> {
    let from = limit.window.map(|window| i128::from(seed) - i128::from(window));
    let sees = |&at: &usize| {
        let (tau, seed) = (i128::from(times[at]), i128::from(seed));
        match limit.rule {
            TimeRule::UntilSeed => tau <= seed && from.is_none_or(|from| from < tau),
            TimeRule::BeforeSeed => tau < seed && from.is_none_or(|from| from <= tau),
            TimeRule::Decreasing => unreachable!("what a node sees depends on its path"),
        }
    };
    let seen: Vec<usize> = (0..times.len()).filter(sees).collect();
    let latest = last.and_then(|last| usize::try_from(last).ok()).unwrap_or(usize::MAX);
    seen[seen.len().saturating_sub(latest)..].to_vec()
}

/// A batch of trees around seeds with times.
fn trees(graph: &Timed, options: &SamplerOptions, seeds: &[i64], times: &[i64]) -> MiniBatch {
    let stored = graph.graph();
    let all: Vec<i64> = graph.times.concat();
    let lists = stored.view();
    let mut view = TypedView::from(lists);
    let times_of_edges = SortedTimes { times: EntryTimes::Edges(&all), sorted: true };
    view.relations[0] = RelationView { times: Some(times_of_edges), ..view.relations[0] };
    let size = GraphSize::homogeneous(stored.csc().nodes(), stored.csc().edges());
    let bounds = BatchBounds::for_graph(options, &[seeds.len()], &size, Some(1 << 24)).unwrap();
    let mut batch = MiniBatch::with_bounds(&bounds);
    let mut sampler = sampler(view, options).unwrap();
    let of_batch = Seeds { ids: &[seeds], times: &[times] };
    batch.fill(|out| sampler.sample_types(key(5), of_batch, out)).unwrap();
    batch
}

/// The nodes of a tree in their order, and its block in each layer: each destination with its picks, as positions among
/// these nodes.
type Tree = (Vec<i64>, Vec<Vec<Vec<usize>>>);

fn tree_of(batch: &MiniBatch, tree: i32) -> Tree {
    let trees = batch.trees_of(NodeType::ONLY);
    let members: Vec<usize> = (0..trees.len()).filter(|at| trees[*at] == tree).collect();
    let place: HashMap<usize, usize> = members.iter().enumerate().map(|(place, at)| (*at, place)).collect();
    let blocks = batch.blocks().map(|block| {
        let destinations = members.iter().filter(|at| **at < block.destinations);
        let picks = destinations.map(|&at| {
            let ends = block.indptr[at] as usize..block.indptr[at + 1] as usize;
            let locals = block.indices[ends].iter();
            locals.map(|local| *place.get(&(*local as usize)).expect("an edge within the tree")).collect()
        });
        picks.collect()
    });
    (members.iter().map(|at| batch.nodes()[*at]).collect(), blocks.collect())
}

/// The batch that a seed alone has, without trees.
fn alone(graph: &Timed, options: &SamplerOptions, seed: i64) -> Tree {
    let options = SamplerOptions { trees: None, ..options.clone() };
    let graph = graph.graph();
    let mut batch = graph.room_for(1, &options);
    graph.sampler_for(&options).sample_into(key(5), &[seed], &mut batch).unwrap();
    let blocks = batch.blocks().map(|block| {
        let ends = block.indptr.windows(2).map(|ends| ends[0] as usize..ends[1] as usize);
        ends.map(|ends| block.indices[ends].iter().map(|local| *local as usize).collect()).collect()
    });
    (batch.nodes().to_vec(), blocks.collect())
}

fn times() -> impl Strategy<Value = i64> {
    prop_oneof![8 => -4..9_i64, 1 => Just(i64::MIN), 1 => Just(i64::MAX), 1 => Just(i64::MIN + 1)]
}

fn timed() -> impl Strategy<Value = Timed> {
    let list = proptest::collection::vec((0..30_i64, times(), 0..4_u8), 0..14);
    (proptest::collection::vec(list, 30), any::<bool>()).prop_map(|(mut lists, weighted)| {
        lists.iter_mut().for_each(|list| list.sort_by_key(|(_, time, _)| *time));
        let weights = |list: &Vec<(i64, i64, u8)>| list.iter().map(|of| f32::from(of.2) / 2.0).collect();
        Timed {
            lists: lists.iter().map(|list| list.iter().map(|of| of.0).collect()).collect(),
            times: lists.iter().map(|list| list.iter().map(|of| of.1).collect()).collect(),
            weights: weighted.then(|| lists.iter().map(weights).collect()),
        }
    })
}

fn seeds() -> impl Strategy<Value = Vec<(i64, i64)>> {
    proptest::collection::vec((0..30_i64, times()), 1..40)
}

fn options_for(graph: &Timed, seed: u64) -> SamplerOptions {
    SamplerOptions {
        kind: if graph.weights.is_some() { SamplerKind::WEIGHTED } else { SamplerKind::NEIGHBOR },
        fanouts: [[3, 2, 2], [-1, 1, 2], [2, 17, 1]][seed as usize % 3].into(),
        replace: seed & 8 != 0,
        expand: if seed & 16 == 0 { Expand::All } else { Expand::New },
        batch_dependency: 1 + (seed >> 5) as u32 % 2,
        seed,
        ..SamplerOptions::default()
    }
}

proptest! {
    #[test]
    fn a_tree_is_the_batch_of_its_seed_alone(graph in timed(), seeds in seeds(), seed in any::<u64>()) {
        let options = SamplerOptions { trees: Some(Trees::default()), ..options_for(&graph, seed) };
        let (ids, times): (Vec<i64>, Vec<i64>) = seeds.into_iter().unzip();
        let batch = trees(&graph, &options, &ids, &times);
        for (tree, &seed) in (0..).zip(&ids) {
            prop_assert_eq!(tree_of(&batch, tree), alone(&graph, &options, seed));
        }
    }

    #[test]
    fn a_timed_tree_is_that_of_the_graph_that_its_seed_sees(
        graph in timed(),
        seeds in seeds(),
        seed in any::<u64>(),
        before in any::<bool>(),
        last in any::<bool>(),
        window in prop_oneof![Just(None), (0..6_i64).prop_map(Some), Just(Some(i64::MAX))],
    ) {
        let rule = if before { TimeRule::BeforeSeed } else { TimeRule::UntilSeed };
        let limit = TimeLimit { rule, window, pick: if last { TimePick::Last } else { TimePick::Uniform } };
        let mut options = SamplerOptions { trees: Some(Trees { time: Some(limit) }), ..options_for(&graph, seed) };
        let latest = last.then_some(2);
        if last {
            // One fanout, so that the latest entries of a list are the same in every hop.
            options = SamplerOptions { fanouts: [2, 2, 2].into(), replace: false, ..options };
        }
        let (ids, times): (Vec<i64>, Vec<i64>) = seeds.into_iter().unzip();
        let batch = trees(&graph, &options, &ids, &times);
        for ((tree, &id), &time) in (0..).zip(&ids).zip(&times) {
            let seen = graph.part(|of_list| visible(&limit, of_list, time, latest));
            prop_assert_eq!(tree_of(&batch, tree), alone(&seen, &options, id));
        }
    }

    #[test]
    fn every_path_of_a_decreasing_tree_decreases(
        graph in timed(),
        seeds in seeds(),
        seed in any::<u64>(),
        window in prop_oneof![Just(None), (0..9_i64).prop_map(Some)],
    ) {
        let limit = TimeLimit { rule: TimeRule::Decreasing, window, pick: TimePick::Uniform };
        let trees_at = Trees { time: Some(limit) };
        let options = SamplerOptions { trees: Some(trees_at), edge_ids: true, ..options_for(&graph, seed) };
        let (ids, times): (Vec<i64>, Vec<i64>) = seeds.into_iter().unzip();
        let batch = trees(&graph, &options, &ids, &times);
        let (all, nodes, trees) = (graph.times.concat(), batch.nodes(), batch.trees_of(NodeType::ONLY));
        let mut limits: HashMap<usize, i64> = times.iter().copied().enumerate().collect();
        for block in batch.blocks() {
            let mut found = Vec::new();
            for at in 0..block.destinations {
                for edge in block.indptr[at] as usize..block.indptr[at + 1] as usize {
                    let (source, tau) = (block.indices[edge] as usize, all[block.edge_ids[edge] as usize]);
                    prop_assert!(trees[source] == trees[at] && tau <= limits[&at]);
                    let from = window.and_then(|window| times[trees[at] as usize].checked_sub(window));
                    prop_assert!(from.is_none_or(|from| from < tau));
                    found.push((source, tau));
                }
            }
            for (source, tau) in found {
                prop_assert_eq!(*limits.entry(source).or_insert(tau), tau);
            }
        }
        // A node is there once for each of its limits in a tree; seeds are there once each.
        let named: HashSet<(i64, i32, i64)> =
            (0..nodes.len()).map(|at| (nodes[at], trees[at], limits[&at])).collect();
        prop_assert_eq!(named.len(), nodes.len());
    }
}

/// One list of 12 entries at the times 0 to 11, from node 0 to nodes 1 to 12, which have no entries.
fn one_list(weights: Option<Vec<f32>>) -> Timed {
    let mut lists = vec![Vec::new(); 13];
    lists[0] = (1..13).collect();
    let mut times = vec![Vec::new(); 13];
    times[0] = (0..12).collect();
    let weights = weights.map(|of_list| {
        let mut weights = vec![Vec::new(); 13];
        weights[0] = of_list;
        weights
    });
    Timed { lists, times, weights }
}

#[test]
fn visible_entries_are_equally_likely() {
    let limit = TimeLimit { rule: TimeRule::UntilSeed, window: Some(6), pick: TimePick::Uniform };
    let mut counts = [0; 6];
    for seed in 0..4000 {
        let trees_at = Trees { time: Some(limit) };
        let fanouts = [1].into();
        let options = SamplerOptions { fanouts, seed, trees: Some(trees_at), ..SamplerOptions::default() };
        let picked = trees(&one_list(None), &options, &[0], &[8]).nodes()[1];
        // Times 3 to 8.
        counts[picked as usize - 4] += 1;
    }
    assert_uniform(&counts, 1.0, "visible entries");
}

#[test]
fn visible_entries_are_picked_by_weight() {
    let weights = [8.0, 8.0, 4.0, 2.0, 1.0, 1.0, 0.0, 8.0, 8.0, 8.0, 8.0, 8.0];
    let limit = TimeLimit { rule: TimeRule::BeforeSeed, window: Some(5), pick: TimePick::Uniform };
    for replace in [false, true] {
        let mut counts = [0; 4];
        for seed in 0..4000 {
            let options = SamplerOptions {
                kind: SamplerKind::WEIGHTED,
                fanouts: [1].into(),
                replace,
                seed,
                trees: Some(Trees { time: Some(limit) }),
                ..SamplerOptions::default()
            };
            let picked = trees(&one_list(Some(weights.to_vec())), &options, &[0], &[7]).nodes()[1];
            // Times 2 to 6, of which the last has the weight 0.
            counts[picked as usize - 3] += 1;
        }
        assert_distributed(&counts, &[0.5, 0.25, 0.125, 0.125], 1.0, "visible entries by weight");
    }
}

#[test]
fn invalid_options_of_trees_are_refused_by_name() {
    let graph = one_list(None).graph();
    let limit = |limit: TimeLimit| SamplerOptions {
        trees: Some(Trees { time: Some(limit) }),
        ..SamplerOptions::default()
    };
    let refusal = |options: SamplerOptions, sorted: Option<bool>, times: &[i64]| {
        let mut view = TypedView::from(graph.view());
        let of_edges = |sorted| SortedTimes { times: EntryTimes::Edges(times), sorted };
        view.relations[0] = RelationView { times: sorted.map(of_edges), ..view.relations[0] };
        let refused = sampler(view, &options).err().map(|error| error.to_string());
        refused.unwrap_or_default()
    };
    let (plain, times) = (limit(TimeLimit::default()), [0; 12]);
    assert_eq!(refusal(plain.clone(), Some(true), &times), "");
    assert!(refusal(plain.clone(), None, &times).contains("no relation and no node type has time.npy"));
    assert!(refusal(plain.clone(), Some(false), &times).contains("\"order\": \"time\""));
    assert_eq!(refusal(plain.clone(), Some(true), &times[1..]), "time.npy has 11 entries, expected 12");
    let labor = SamplerOptions { kind: SamplerKind::LABOR, ..plain.clone() };
    assert!(refusal(labor, Some(true), &times).contains("use `sampler_kind=neighbor or weighted`"));
    let window = limit(TimeLimit { window: Some(-1), ..TimeLimit::default() });
    assert_eq!(refusal(window, Some(true), &times), "`time_window=-1`: expected 0 or more");
    let last = limit(TimeLimit { pick: TimePick::Last, ..TimeLimit::default() });
    let replaced = SamplerOptions { replace: true, ..last };
    assert!(refusal(replaced, Some(true), &times).starts_with("`time_pick=last`"));
    let view = TypedView::from(graph.view());
    let mut view = TypedView { relations: view.relations.clone(), ..view };
    view.relations[0].times = Some(SortedTimes { times: EntryTimes::Edges(&times), sorted: true });
    let mut sampler = sampler(view, &plain).unwrap();
    let mut batch = graph.room_for(2, &plain);
    let seeds = Seeds { ids: &[&[0, 1]], times: &[&[3]] };
    let refused = batch.fill(|out| sampler.sample_types(key(0), seeds, out)).unwrap_err().to_string();
    assert_eq!(refused, "the seeds of a type have 1 times, but there are 2 of them");
}
