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
        best.map(|(_, method, made)| (method, made)).ok_or_else(|| {
            GraphError::usage("--method", "auto has tried no method".to_owned())
        })
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
