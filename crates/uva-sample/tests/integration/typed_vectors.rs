//! The committed test vectors of typed graphs and of trees in them, made by a second implementation in plain Python,
//! compared with this crate.

use serde_json::Value;
use uva_graph::{Csc, EntryTimes, Indices, NodeType, Relation, Split};
use uva_sample::{
    BatchBounds, BatchKey, Expand, FanoutPer, Fanouts, GraphSize, GraphView, MiniBatch, RelationEnds,
    RelationSize, RelationView, SamplerKind, SamplerOptions, SeedOrder, Seeds, SortedTimes, TimeLimit,
    TimePick, TimeRule, Trees, TypeView, TypedView, sampler,
};

use crate::vectors::{entries, integer, integers, split, vectors};

/// A graph of the file.
struct TypedGraph {
    /// The number of nodes of each type, and their original ids.
    types: Vec<(usize, Option<Vec<i64>>)>,
    /// The times of the nodes of each type.
    node_times: Vec<Option<Vec<i64>>>,
    relations: Vec<Lists>,
}

struct Lists {
    ends: RelationEnds,
    indptr: Vec<i64>,
    indices: Vec<i32>,
    weights: Option<Vec<f32>>,
    times: Option<Vec<i64>>,
}

impl TypedGraph {
    fn of(value: &Value) -> Self {
        let names: Vec<&Value> = entries(value, "nodes").iter().map(|node| &node["type"]).collect();
        let type_of = |name: &Value| {
            NodeType(names.iter().position(|other| *other == name).expect("a type of the graph") as u16)
        };
        let types = entries(value, "nodes").iter().map(|node| {
            (integer(&node["num"]), (!node["orig_id"].is_null()).then(|| integers(&node["orig_id"])))
        });
        let relations = entries(value, "edges").iter().map(|edge| Lists {
            ends: RelationEnds { source: type_of(&edge["type"][0]), destination: type_of(&edge["type"][2]) },
            indptr: integers(&edge["indptr"]),
            indices: integers(&edge["indices"]),
            weights: (!edge["weight_bits"].is_null())
                .then(|| integers(&edge["weight_bits"]).into_iter().map(f32::from_bits).collect()),
            times: times_of(edge),
        });
        let node_times = entries(value, "nodes").iter().map(times_of);
        Self { types: types.collect(), node_times: node_times.collect(), relations: relations.collect() }
    }

    fn view(&self) -> TypedView<'_> {
        let types = self
            .types
            .iter()
            .map(|(nodes, original_ids)| TypeView { nodes: *nodes, original_ids: original_ids.as_deref() });
        let relations = self.relations.iter().map(|lists| {
            let indices = Indices::I32(&lists.indices);
            let csc = Csc { indptr: &lists.indptr, indices, original_ids: None, degrees: None };
            RelationView {
                ends: lists.ends,
                lists: GraphView { weights: lists.weights.as_deref(), ..csc.into() },
                times: self.times_of(lists),
            }
        });
        TypedView { types: types.collect(), relations: relations.collect() }
    }

    fn times_of<'a>(&'a self, lists: &'a Lists) -> Option<SortedTimes<'a>> {
        let of_edges = lists.times.as_deref().map(EntryTimes::Edges);
        let of_sources = || self.node_times[lists.ends.source.index()].as_deref().map(EntryTimes::Sources);
        of_edges.or_else(of_sources).map(|times| SortedTimes { times, sorted: true })
    }

    fn size(&self) -> GraphSize {
        let relations =
            self.relations.iter().map(|lists| RelationSize { ends: lists.ends, edges: lists.indices.len() });
        GraphSize {
            nodes: self.types.iter().map(|(nodes, _)| *nodes).collect(),
            relations: relations.collect(),
        }
    }

    /// The fanouts of a case for each relation: in the file [hop][relation], or [hop][type] if they are per node.
    fn fanouts(&self, hops: &Value, per: FanoutPer) -> Fanouts {
        let hops: Vec<Vec<i32>> = hops.as_array().unwrap().iter().map(integers).collect();
        let column = |(relation, lists): (usize, &Lists)| match per {
            FanoutPer::Relation => relation,
            FanoutPer::Node => lists.ends.destination.index(),
        };
        let columns = self.relations.iter().enumerate().map(column);
        let of_relations: Vec<Vec<i32>> =
            columns.map(|column| hops.iter().map(|hop| hop[column]).collect()).collect();
        Fanouts::of_relations(&of_relations)
    }
}

fn times_of(value: &Value) -> Option<Vec<i64>> {
    (!value["time"].is_null()).then(|| integers(&value["time"]))
}

/// The trees of a case of `trees`.
fn trees_of(options: &Value) -> Trees {
    let Some(rule) = options["time_rule"].as_str() else { return Trees::default() };
    let rule = TimeRule::from_name(rule).expect("a rule");
    let window = options["time_window"].as_i64();
    let pick =
        options["time_pick"].as_str().map_or(TimePick::Uniform, |name| TimePick::from_name(name).unwrap());
    Trees { time: Some(TimeLimit { rule, window, pick }) }
}

fn options_of(case: &Value, graph: &TypedGraph) -> SamplerOptions {
    let options = &case["options"];
    let or_default = |name: &str, default: u32| match &options[name] {
        Value::Null => default,
        value => integer(value),
    };
    let fanout_per = options["fanout_per"]
        .as_str()
        .map_or(FanoutPer::Relation, |name| FanoutPer::from_name(name).expect("a value of fanout_per"));
    SamplerOptions {
        kind: options["kind"]
            .as_str()
            .map_or(SamplerKind::NEIGHBOR, |name| SamplerKind::from_name(name).expect("a kind of sampler")),
        fanouts: graph.fanouts(&options["fanouts"], fanout_per),
        fanout_per,
        replace: options["replace"].as_bool().unwrap(),
        seed: integer(&options["seed"]),
        batch_dependency: or_default("batch_dependency", 1),
        expand: options["expand"].as_str().map_or(Expand::All, |name| Expand::from_name(name).unwrap()),
        edge_ids: options["edge_ids"].as_bool().unwrap_or(false),
        trees: (!case["times"].is_null()).then(|| trees_of(options)),
        ..SamplerOptions::default()
    }
}

/// The nodes, or times, of the seeds of each type: of the positions of a batch, in the concatenation of the types' splits.
fn of_seeds(positions: &[u32], of_types: &[Vec<i64>]) -> Vec<Vec<i64>> {
    let mut seeds = vec![Vec::new(); of_types.len()];
    for &position in positions {
        let mut at = position as usize;
        for (seeds, of_type) in seeds.iter_mut().zip(of_types) {
            if let Some(&seed) = of_type.get(at) {
                seeds.push(seed);
                break;
            }
            at -= of_type.len();
        }
    }
    seeds
}

fn slices(of_types: &[Vec<i64>]) -> Vec<&[i64]> {
    of_types.iter().map(Vec::as_slice).collect()
}

#[test]
fn typed_batches_are_those_of_the_second_implementation() {
    assert_eq!(batches_of_cases_agree(&vectors()["typed"]), 18);
}

#[test]
fn trees_are_those_of_the_second_implementation() {
    assert_eq!(batches_of_cases_agree(&vectors()["trees"]), 13);
}

/// Compares all batches of a part of the file; the result is the number of its cases.
fn batches_of_cases_agree(part: &Value) -> usize {
    let graphs: Vec<TypedGraph> = entries(part, "graphs").iter().map(TypedGraph::of).collect();
    let cases = entries(part, "cases");
    for case in cases {
        batches_agree(case, &graphs[integer::<usize>(&case["graph"])]);
    }
    cases.len()
}

fn batches_agree(case: &Value, graph: &TypedGraph) {
    let name = &case["name"];
    let options = options_of(case, graph);
    let batch_size: usize = integer(&case["batch_size"]);
    let of_split = |of: &str, split: Split| -> Vec<Vec<i64>> {
        case[of][split.name()].as_array().into_iter().flatten().map(integers).collect()
    };
    let mut room = graph.size();
    // A repeated seed counts as one more node.
    room.nodes.iter_mut().for_each(|nodes| *nodes += batch_size);
    let seeds = vec![batch_size; graph.types.len()];
    let bounds = BatchBounds::for_graph(&options, &seeds, &room, Some(1 << 20)).unwrap();
    let mut batch = MiniBatch::with_bounds(&bounds);
    let mut sampler = sampler(graph.view(), &options).unwrap();
    for expected in entries(case, "batches") {
        let key = BatchKey {
            split: split(&expected["split"]),
            epoch: integer(&expected["epoch"]),
            batch: integer(&expected["batch"]),
        };
        let of_types = of_split("splits", key.split);
        let (all, shuffle) = (of_types.iter().map(Vec::len).sum(), key.split == Split::Train);
        let mut order = SeedOrder::new(options.seed, key.split, all, shuffle, batch_size, false).unwrap();
        order.prepare(key.epoch).unwrap();
        let positions = order.batch(key.batch as usize);
        let seeds = of_seeds(positions, &of_types);
        let times = of_seeds(positions, &of_split("times", key.split));
        let (ids, times) = (slices(&seeds), slices(&times));
        let seeds = Seeds { ids: &ids, times: &times };
        let counts = batch.fill(|out| sampler.sample_types(key, seeds, out)).unwrap();
        let levels: Vec<Vec<usize>> =
            expected["num_nodes"].as_array().unwrap().iter().map(integers).collect();
        for (at, size) in counts.types().iter().enumerate() {
            let of = NodeType(at as u16);
            assert_eq!((size.seeds, size.nodes), (levels[0][at], levels[levels.len() - 1][at]), "{name}");
            let nodes = integers::<i64>(&expected["nodes"][at]);
            assert_eq!(batch.nodes_of(of), nodes, "{name}: {key}, type {at}");
            let trees = expected["trees"][at].as_array().into_iter().flatten();
            let trees: Vec<i32> = trees.map(integer).collect();
            assert_eq!(batch.trees_of(of), trees, "{name}: {key}, type {at}");
        }
        for layer in 0..options.fanouts.hops() {
            for (at, lists) in graph.relations.iter().enumerate() {
                let block = batch.block_of(layer, Relation(at as u16)).unwrap();
                let expected = &expected["blocks"][layer][at];
                let place = format!("{name}: {key}, layer {layer}, relation {at}");
                assert_eq!(block.indptr, integers::<i32>(&expected["indptr"]), "{place}");
                assert_eq!(block.indices, integers::<i32>(&expected["indices"]), "{place}");
                assert_eq!(block.destinations, levels[layer][lists.ends.destination.index()], "{place}");
                assert_eq!(block.sources, levels[layer + 1][lists.ends.source.index()], "{place}");
                if options.edge_ids {
                    assert_eq!(block.edge_ids, integers::<i64>(&expected["edge_ids"]), "{place}");
                }
            }
        }
        let hash = format!("{:016x}", counts.hash);
        assert_eq!(Some(hash.as_str()), expected["hash"].as_str(), "{name}: {key}");
    }
}
