//! The methods put together.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use uva_graph::partition_map::PARTITION_FORMAT;
use uva_graph::{Dataset, GraphError, PartitionMap, PartitionSource, PartitionSummary, Progress};
use uva_sample::{Expand, SamplerKind, SamplerOptions, Walks};

use crate::block_graph::BlockGraph;
use crate::blocks::Caps;
use crate::graph::Graph;
use crate::limits::Sizes;
use crate::options::{Method, Options};
use crate::visits::{self, Batches, VisitError};
use crate::{assign, blocks, closures, counts, merge, order, refine, simple, stream};

/// The most parts between which edges are counted pair by pair.
pub const MOST_PAIRED: u32 = 64;

/// The largest share of training nodes over the mean that auto takes.
const BALANCED: f64 = 1.05;

/// What auto counts visits over: this fanout in each hop, but in no more hops than these, batches of this size, and
/// about so many of them.
const FANOUT: i32 = 10;
const MOST_HOPS: u32 = 3;
const BATCH_SIZE: usize = 1024;
const BATCHES: usize = 64;

/// A method that auto has tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The method, as in `partition.json`.
    pub method: String,
    /// Lists that its batches visited.
    pub list_visits: u64,
    /// Those of other parts.
    pub remote_list_visits: u64,
    /// The most training nodes of a part over the mean.
    pub train_balance: f64,
}

/// Which part each node belongs to.
#[derive(Clone, Debug)]
pub struct Partition {
    /// How many parts there are.
    pub parts: u32,
    /// The part of each node, by original id.
    pub of: Vec<u16>,
    /// What made it: the method's name, with `+refine` if it was refined.
    pub method: String,
    /// Nodes of each part.
    pub nodes: Vec<u64>,
    /// Training nodes of each part.
    pub train: Vec<u64>,
    /// Blocks before and after merging, of bgl.
    pub blocks: Option<[u64; 2]>,
    /// Entries of neighbour lists whose node is in another part than the list's.
    pub edge_cut: u64,
    /// Entries of neighbour lists by the part of the list and that of the entry, row by row; `None` of more than
    /// [`MOST_PAIRED`] parts.
    pub between: Option<Vec<u64>>,
    /// What auto tried; empty of other methods.
    pub candidates: Vec<Candidate>,
    /// Wall-clock seconds of each stage.
    pub seconds: BTreeMap<String, f64>,
}

impl Partition {
    /// As the files of a partition have it.
    #[must_use]
    pub fn into_map(self, dataset: &Dataset, options: &Options) -> PartitionMap {
        let mut other = Map::new();
        other.insert("options".to_owned(), described(dataset, options));
        if !self.candidates.is_empty() {
            other.insert("candidates".to_owned(), json!(self.candidates));
        }
        let source = PartitionSource { name: dataset.name().to_owned(), fingerprint: dataset.fingerprint() };
        let summary = PartitionSummary {
            format: PARTITION_FORMAT,
            dataset: source,
            parts: self.parts,
            method: self.method,
            seed: options.seed,
            hops: options.hops,
            nodes: self.nodes,
            train: self.train,
            blocks: self.blocks,
            edge_cut: self.edge_cut,
            seconds: self.seconds,
            other,
        };
        PartitionMap { parts: self.parts, of: self.of, summary: Some(summary) }
    }
}

/// The options from which a partition can be made again.
fn described(dataset: &Dataset, options: &Options) -> serde_json::Value {
    let mut described = json!({"method": options.method, "refine": options.passes()});
    if matches!(options.method, Method::Auto | Method::Bgl) {
        described["block_nodes"] = json!(options.nodes_a_block(dataset.nodes()));
        described["sources"] = json!(options.sources);
        described["count"] = json!(options.count);
    }
    described
}

/// Divides the nodes of a dataset. Uses the current rayon pool; the result does not depend on it.
///
/// # Errors
/// As [`Options::check`]; if a method would take too much time or memory; if the dataset is a part of another.
pub fn partition(
    dataset: &Dataset,
    options: &Options,
    progress: &dyn Fn(Progress),
) -> Result<Partition, GraphError> {
    options.check(dataset)?;
    let mut seconds = Seconds::default();
    let order = seconds.of("order", || order::by_key(dataset.nodes(), options.seed));
    let graph = seconds.of("lists", || Graph::of(dataset, progress))?;
    let task = Task { dataset, graph, order, options, progress };
    let mut candidates = Vec::new();
    let (method, made) = match options.method {
        Method::Auto => task.best(&mut seconds, &mut candidates)?,
        method => (method, task.refined(method, &mut seconds)?),
    };
    let Task { graph, .. } = &task;
    let sizes = Sizes::of(&made.of, options.parts, |node| graph.trains(node));
    let (edge_cut, between) = seconds.of("count", || match options.parts {
        parts if parts <= MOST_PAIRED => {
            let between = counts::between(graph, &made.of, parts);
            let within: u64 = between.iter().step_by(parts as usize + 1).sum();
            (between.iter().sum::<u64>() - within, Some(between))
        }
        _ => (counts::edge_cut(graph, &made.of), None),
    });
    Ok(Partition {
        parts: options.parts,
        method: name(method, options),
        nodes: sizes.nodes,
        train: sizes.train,
        blocks: made.blocks,
        edge_cut,
        between,
        candidates,
        seconds: seconds.0,
        of: made.of,
    })
}

fn name(method: Method, options: &Options) -> String {
    let refined = if options.passes() > 0 { "+refine" } else { "" };
    format!("{method}{refined}")
}

/// The wall-clock time of stages.
#[derive(Default)]
struct Seconds(BTreeMap<String, f64>);

impl Seconds {
    fn of<T>(&mut self, stage: &str, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        *self.0.entry(stage.to_owned()).or_default() += start.elapsed().as_secs_f64();
        done
    }
}

/// The result of one method.
struct Made {
    of: Vec<u16>,
    blocks: Option<[u64; 2]>,
}

/// A graph to divide.
struct Task<'t> {
    dataset: &'t Dataset,
    graph: Graph<'t>,
    order: Vec<u32>,
    options: &'t Options,
    progress: &'t dyn Fn(Progress),
}

impl Task<'_> {
    /// The best of three methods: the one with the smallest share of remote visits, of those whose training nodes are
    /// balanced, or where none is, the most balanced one; the first of equal ones.
    fn best(
        &self,
        seconds: &mut Seconds,
        candidates: &mut Vec<Candidate>,
    ) -> Result<(Method, Made), GraphError> {
        let mut best: Option<(Candidate, Method, Made)> = None;
        for method in [Method::Range, Method::Ldg, Method::Bgl] {
            let made = self.refined(method, seconds)?;
            let (candidate, made) = seconds.of("visits", || self.judged(method, made))?;
            candidates.push(candidate.clone());
            if best.as_ref().is_none_or(|(best, ..)| is_better(&candidate, best)) {
                best = Some((candidate, method, made));
            }
        }
        // Three methods were tried.
        best.map(|(_, method, made)| (method, made))
            .ok_or_else(|| GraphError::usage("--method", "auto has tried no method".to_owned()))
    }

    fn judged(&self, method: Method, made: Made) -> Result<(Candidate, Made), GraphError> {
        let Options { parts, hops, seed, .. } = *self.options;
        (self.progress)(Progress { stage: "visits", done: 0, total: 1 });
        let batches = Batches {
            sampling: SamplerOptions {
                kind: SamplerKind::default(),
                fanouts: vec![FANOUT; hops.min(MOST_HOPS) as usize],
                replace: false,
                seed,
                batch_dependency: 1,
                expand: Expand::All,
                edge_ids: false,
                walks: Walks::default(),
            },
            batch_size: BATCH_SIZE,
            epochs: 0..1,
            most: Some((BATCHES / parts as usize).max(1)),
        };
        let map = PartitionMap { parts, of: made.of, summary: None };
        let visits = visits::count(self.dataset, &map, &batches).map_err(|error| match error {
            VisitError::Map(error) => error,
            // The options are our own: only the machine can be at fault.
            VisitError::Sample(error) => GraphError::Lacking {
                path: self.dataset.path().to_owned(),
                message: format!("batches of parts could not be sampled: {error}"),
            },
        })?;
        let sizes = Sizes::of(&map.of, parts, |node| self.graph.trains(node));
        let candidate = Candidate {
            method: name(method, self.options),
            list_visits: visits.list_visits,
            remote_list_visits: visits.remote_list_visits,
            train_balance: counts::over_mean(&sizes.train),
        };
        Ok((candidate, Made { of: map.of, blocks: made.blocks }))
    }

    fn refined(&self, method: Method, seconds: &mut Seconds) -> Result<Made, GraphError> {
        let mut made = self.made(method, seconds)?;
        let Options { parts, .. } = *self.options;
        let passes = self.options.passes();
        if passes > 0 {
            let (graph, order) = (&self.graph, &self.order);
            seconds.of("refine", || refine::refine(graph, order, &mut made.of, parts, passes, self.progress));
        }
        Ok(made)
    }

    fn made(&self, method: Method, seconds: &mut Seconds) -> Result<Made, GraphError> {
        let Task { graph, order, options, progress, .. } = self;
        let parts = options.parts;
        let of = match method {
            Method::Bgl | Method::Auto => return self.of_blocks(seconds),
            Method::Pagraph => {
                seconds.of("closures", || closures::assign(graph, parts, options.hops, progress))?
            }
            Method::Ldg => seconds.of("stream", || stream::assign(graph, parts, progress)),
            Method::Range => simple::range(graph.nodes(), parts),
            Method::Random => simple::random(order, parts),
        };
        Ok(Made { of, blocks: None })
    }

    fn of_blocks(&self, seconds: &mut Seconds) -> Result<Made, GraphError> {
        let Task { graph, order, options, progress, .. } = self;
        let caps = caps(options, graph);
        let (merged, grown) = seconds.of("blocks", || {
            let blocks = blocks::grow(graph, order, options.sources as usize, caps, progress);
            let merged = merge::merge(&blocks, &BlockGraph::of(graph, &blocks), caps);
            (merged, blocks.count())
        });
        let of = seconds.of("assign", || {
            let between = BlockGraph::of(graph, &merged);
            assign::assign(&merged, &between, options.parts, options.count, progress)
        })?;
        Ok(Made { of, blocks: Some([grown as u64, merged.count() as u64]) })
    }
}

/// The most of a block: an eighth of a part's training nodes, besides the nodes.
pub(crate) fn caps(options: &Options, graph: &Graph<'_>) -> Caps {
    let train = graph.train().len() as u64 / (8 * u64::from(options.parts));
    Caps { nodes: options.nodes_a_block(graph.nodes()), train: train.max(1) }
}

fn is_better(candidate: &Candidate, best: &Candidate) -> bool {
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
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::options::Count;
    use crate::testing::{Lists, on_threads, shuffled, unwatched};

    fn made(lists: &Lists, options: &Options) -> Partition {
        let temp = tempfile::tempdir().unwrap();
        partition(&lists.dataset(temp.path()), options, &unwatched).unwrap()
    }

    /// The share of nodes that are in the part of most nodes of their group; groups are ids modulo their number.
    fn recovered(of: &[u16], groups: usize) -> f64 {
        let mut found = vec![vec![0; groups]; groups];
        of.iter().enumerate().for_each(|(node, part)| found[node % groups][usize::from(*part)] += 1);
        let of_group = |counts: &Vec<usize>| (0..groups).max_by_key(|part| counts[*part]).unwrap();
        let parts: BTreeSet<usize> = found.iter().map(of_group).collect();
        assert_eq!(parts.len(), groups, "every group has a part of its own: {found:?}");
        let right: usize = found.iter().map(|counts| counts.iter().max().unwrap()).sum();
        right as f64 / of.len() as f64
    }

    #[test]
    fn planted_groups_are_found() {
        let lists = Lists::planted(3, 2000, 4, 12, 96, 3);
        for method in [Method::Bgl, Method::Ldg, Method::Auto] {
            let found = made(&lists, &Options { method, ..Options::of_parts(4) });
            let share = recovered(&found.of, 4);
            assert!(share >= 0.95, "{method}: {share}");
            assert!(over_mean_of(&found) <= BALANCED, "{method}: {:?}", found.train);
        }
        // The measure tells them apart.
        let random = made(&lists, &Options { method: Method::Range, ..Options::of_parts(4) });
        assert!(random.edge_cut * 3 > made(&lists, &Options::of_parts(4)).edge_cut * 10);
    }

    fn over_mean_of(partition: &Partition) -> f64 {
        counts::over_mean(&partition.train)
    }

    #[test]
    fn auto_keeps_what_asks_least_of_other_parts_and_says_what_it_tried() {
        // Consecutive ids are near each other, so nothing beats a range of them.
        let nodes = 1200;
        let lists = Lists {
            lists: (0..nodes).map(|node| (1..4).map(|by| (node + by) % nodes).collect()).collect(),
            train: (0..nodes).step_by(2).collect(),
        };
        let found = made(&lists, &Options::of_parts(4));
        assert_eq!(found.method, "range+refine");
        let tried: Vec<_> = found.candidates.iter().map(|tried| tried.method.as_str()).collect();
        assert_eq!(tried, ["range+refine", "ldg+refine", "bgl+refine"]);
        let best = &found.candidates[0];
        assert!(found.candidates.iter().all(|tried| tried.remote_list_visits >= best.remote_list_visits));
        let candidate = |remote_list_visits, train_balance| Candidate {
            method: String::new(),
            list_visits: 100,
            remote_list_visits,
            train_balance,
        };
        assert!(is_better(&candidate(5, 1.05), &candidate(6, 1.0)));
        assert!(!is_better(&candidate(6, 1.0), &candidate(6, 1.0)), "the first of equal ones stays");
        assert!(!is_better(&candidate(1, 1.06), &candidate(6, 1.05)), "it is not balanced");
        assert!(is_better(&candidate(6, 1.05), &candidate(1, 1.06)));
        assert!(is_better(&candidate(9, 1.1), &candidate(1, 1.2)), "the more balanced one");
    }

    #[test]
    fn threads_and_the_order_of_the_dataset_change_nothing() {
        let lists = Lists::planted(8, 3000, 3, 5, 80, 4);
        let temp = tempfile::tempdir().unwrap();
        let dataset = lists.dataset(&temp.path().join("data"));
        let reordered = lists.reordered(&temp.path().join("reordered"), &shuffled(3000));
        for method in Method::ALL {
            let options = Options { method, seed: 5, ..Options::of_parts(3) };
            let of = |dataset: &Dataset, threads| {
                let made = on_threads(threads, || partition(dataset, &options, &unwatched).unwrap());
                (made.of, made.method, made.edge_cut, made.between, made.candidates)
            };
            let one = of(&dataset, 1);
            for other in [of(&dataset, 2), of(&dataset, 8), of(&reordered, 2)] {
                assert!(one == other, "{method}");
            }
        }
    }

    #[test]
    fn graphs_of_any_shape_are_divided_and_every_count_can_be_made_again() {
        let nodes = 400;
        let of_star = |node: usize| if node == 0 { (1..nodes).collect() } else { vec![0] };
        let shapes = [
            ("a star", (0..nodes).map(of_star).collect(), (0..100).collect::<Vec<usize>>()),
            ("no edges", vec![Vec::new(); nodes], (0..nodes).collect()),
            (
                "pairs, the last ones train",
                (0..nodes).map(|node| vec![node ^ 1]).collect(),
                (300..nodes).collect(),
            ),
            ("a node alone with itself", vec![vec![0, 0]; 1], vec![0]),
        ];
        for (what, lists, train) in shapes {
            let lists = Lists { lists, train };
            for (method, parts) in Method::ALL.into_iter().flat_map(|method| [(method, 1), (method, 5)]) {
                if parts as usize > lists.train.len() {
                    continue;
                }
                let found = made(&lists, &Options { method, ..Options::of_parts(parts) });
                check(&lists, &found, &format!("{what}, {method}, {parts} parts"));
                // The leaves that do not train fill the hub's part, and leave no room in it for those that do.
                let refined = found.method.ends_with("+refine") && what != "a star";
                if refined || method == Method::Pagraph {
                    let most = *found.train.iter().max().unwrap();
                    let mean = lists.train.len() as f64 / f64::from(parts);
                    assert!(
                        most as f64 <= (1.05 * mean).max(mean.ceil()),
                        "{what}, {method}: {:?}",
                        found.train
                    );
                }
            }
        }
    }

    /// All sizes and cuts, counted in the obvious way.
    fn check(lists: &Lists, found: &Partition, what: &str) {
        let parts = found.parts as usize;
        let part = |node: usize| usize::from(found.of[node]);
        let (mut nodes, mut train, mut between) = (vec![0; parts], vec![0; parts], vec![0; parts * parts]);
        (0..lists.lists.len()).for_each(|node| nodes[part(node)] += 1);
        lists.train.iter().for_each(|&node| train[part(node)] += 1);
        for (node, list) in lists.lists.iter().enumerate() {
            list.iter().for_each(|&entry| between[part(node) * parts + part(entry)] += 1);
        }
        let within: u64 = between.iter().step_by(parts + 1).sum();
        let cut = between.iter().sum::<u64>() - within;
        assert_eq!((&found.nodes, &found.train), (&nodes, &train), "{what}");
        assert_eq!((found.edge_cut, found.between.as_ref()), (cut, Some(&between)), "{what}");
    }

    #[test]
    fn many_parts_have_no_pairs_but_the_same_cut() {
        let lists = Lists::planted(1, 400, 2, 3, 50, 1);
        let found = made(&lists, &Options { method: Method::Range, ..Options::of_parts(65) });
        assert_eq!(found.between, None);
        let part = |node: usize| found.of[node];
        let crossing = |(node, list): (usize, &Vec<usize>)| {
            list.iter().filter(|entry| part(**entry) != part(node)).count() as u64
        };
        assert_eq!(found.edge_cut, lists.lists.iter().enumerate().map(crossing).sum::<u64>());
        assert!(found.nodes.iter().all(|nodes| [6, 7].contains(nodes)), "{:?}", found.nodes);
    }

    #[test]
    fn what_cannot_be_divided_is_refused_with_what_would_do() {
        let temp = tempfile::tempdir().unwrap();
        let lists = Lists::planted(1, 40, 2, 3, 50, 4);
        let dataset = lists.dataset(&temp.path().join("data"));
        let refused = |change: &dyn Fn(&mut Options)| {
            let mut options = Options::of_parts(2);
            change(&mut options);
            let error = partition(&dataset, &options, &unwatched).unwrap_err();
            assert!(error.is_bad_input(), "{error}");
            error.to_string()
        };
        assert_eq!(refused(&|o| o.parts = 0), "--parts: 0 is not from 1 to 65535");
        assert_eq!(
            refused(&|o| o.parts = 11),
            "--parts: 11 is more than the 10 training nodes: a part could not train"
        );
        assert_eq!(refused(&|o| o.hops = 33), "--hops: 33 is not from 1 to 32");
        assert_eq!(refused(&|o| o.sources = 0), "--sources: 0 is not 1 or more");
        assert_eq!(refused(&|o| o.block_nodes = Some(0)), "--block-nodes: 0 is not 1 or more");
        let message = refused(&|o| (o.method, o.refine) = (Method::Pagraph, Some(1)));
        assert!(message.starts_with("--refine: pagraph gives each part as many training nodes"), "{message}");

        let none = Lists { train: Vec::new(), ..lists.clone() }.dataset(&temp.path().join("none"));
        let error = partition(&none, &Options::of_parts(2), &unwatched).unwrap_err();
        assert!(error.to_string().contains("train_idx.npy: the training split is empty"), "{error}");

        let directory = temp.path().join("part");
        drop(lists.reordered(&directory, &(0..40).collect::<Vec<_>>()));
        let ids: Vec<i64> = (0..40).map(|id| if id == 7 { 1000 } else { id }).collect();
        std::fs::remove_file(directory.join("orig_id.npy")).unwrap();
        let kind = uva_graph::npy::NpyType::I64;
        uva_graph::npy::write_array(&directory.join("orig_id.npy"), kind, &[], &ids).unwrap();
        let part = Dataset::open(&directory).unwrap();
        let error = partition(&part, &Options::of_parts(2), &unwatched).unwrap_err();
        assert!(error.to_string().contains("node 7 has the original id 1000"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn every_node_has_a_part_and_limits_hold(
            seed: u64,
            nodes in 8_usize..120,
            groups in 1_usize..5,
            degree in 0_usize..5,
            train_every in 1_usize..3,
            parts in 1_u32..5,
            method in prop::sample::select(Method::ALL.to_vec()),
            count in prop::sample::select(Count::ALL.to_vec()),
            block_nodes in prop::option::of(1_u64..40),
            sources in 1_u32..9,
        ) {
            let lists = Lists::planted(seed, nodes, groups, degree, 70, train_every);
            let options =
                Options { seed, method, count, block_nodes, sources, ..Options::of_parts(parts) };
            prop_assume!(parts as usize <= lists.train.len());
            let found = made(&lists, &options);
            check(&lists, &found, "random");
            let spread = |counts: &[u64]| counts.iter().max().unwrap() - counts.iter().min().unwrap();
            match method {
                Method::Pagraph => prop_assert!(spread(&found.train) <= 1, "{:?}", found.train),
                Method::Range | Method::Random => prop_assert!(spread(&found.nodes) <= 1, "{:?}", found.nodes),
                Method::Auto | Method::Bgl | Method::Ldg => {}
            }
        }
    }
}
