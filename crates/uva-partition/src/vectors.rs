//! Tests of every stage against the second implementation (tests/reference/partitions.py).

use serde_json::Value;
use uva_graph::Dataset;

use crate::graphs::graph::OriginalGraph;
use crate::graphs::order;
use crate::methods::blocks::block_graph::BlockGraph;
use crate::methods::blocks::search::{self, Blocks};
use crate::methods::blocks::{assign, merge};
use crate::methods::levels::{multilevel, refine};
use crate::methods::{closures, simple, stream};
use crate::testing::{Lists, on_threads, shuffled, unwatched};
use crate::{Count, Method, PartitionOptions, Scan, partition, task};

fn vectors() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/test-vectors.json");
    let vectors: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    vectors["partitions"].as_array().unwrap().clone()
}

fn numbers<T: TryFrom<u64>>(value: &Value) -> Vec<T> {
    let number = |value: &Value| T::try_from(value.as_u64().unwrap()).ok().unwrap();
    value.as_array().unwrap().iter().map(number).collect()
}

fn lists(vector: &Value) -> Lists {
    let (ends, entries) = (numbers::<usize>(&vector["indptr"]), numbers::<usize>(&vector["indices"]));
    let lists = ends.windows(2).map(|ends| entries[ends[0]..ends[1]].to_vec()).collect();
    Lists { lists, train: numbers(&vector["train"]) }
}

fn options(vector: &Value) -> PartitionOptions {
    let number = |name: &str| vector["options"][name].as_u64().unwrap();
    PartitionOptions {
        hops: number("hops") as u32,
        sources: number("sources") as u32,
        block_nodes: Some(number("block_nodes")),
        refine: Some(number("refine") as u32),
        seed: number("seed"),
        ..PartitionOptions::of_parts(number("parts") as u32)
    }
}

fn compare(vector: &Value, dataset: &Dataset) {
    let options = options(vector);
    let (parts, passes) = (options.parts, options.passes());
    let graph = OriginalGraph::of(dataset, &unwatched).unwrap();
    let order = order::by_key(graph.nodes(), options.seed);
    assert_eq!(order, numbers::<u32>(&vector["order"]), "the order");
    let caps = task::caps(&options, &graph);
    let blocks = search::grow(&graph, &order, options.sources as usize, caps, &unwatched);
    assert_eq!(blocks.of, numbers::<u32>(&vector["blocks"]), "blocks");
    check_sizes(&blocks, &graph);
    let merged = merge::merge(&blocks, &BlockGraph::of(&graph, &blocks), caps);
    assert_eq!(merged.of, numbers::<u32>(&vector["merged"]), "merged blocks");
    check_sizes(&merged, &graph);
    let between = BlockGraph::of(&graph, &merged);
    let largest_first = assign::largest_first(&merged);
    let of_blocks = |count| {
        let of = assign::assign(&merged, &between, &largest_first, parts, count, &unwatched).unwrap();
        merged.of_nodes(&of)
    };
    let made = [
        ("bgl_edges", of_blocks(Count::Edges)),
        ("bgl_blocks", of_blocks(Count::Blocks)),
        ("ldg", stream::assign(&graph, parts, &unwatched)),
        ("range", simple::range(graph.nodes(), parts)),
        ("random", simple::random(&order, parts)),
    ];
    for (name, mut of) in made {
        assert_eq!(of, numbers::<u16>(&vector[name]), "{name}");
        refine::refine(&graph, &order, &mut of, parts, passes, &unwatched);
        assert_eq!(of, numbers::<u16>(&vector["refined"][name]), "{name}, refined");
    }
    let of = multilevel::assign(&graph, &order, parts, options.seed, &unwatched).unwrap();
    assert_eq!(of, numbers::<u16>(&vector["multilevel"]), "multilevel");
    for (scan, train) in [("pagraph", graph.train()), ("pagraph_shuffled", &shuffled_train(&order, &graph))] {
        let of = closures::assign(&graph, train, parts, options.hops, &unwatched).unwrap();
        assert_eq!(of, numbers::<u16>(&vector[scan]), "{scan}");
    }
}

fn shuffled_train(order: &[u32], graph: &OriginalGraph<'_>) -> Vec<u32> {
    order.iter().copied().filter(|&node| graph.trains(node)).collect()
}

fn check_sizes(blocks: &Blocks, graph: &OriginalGraph<'_>) {
    let (mut nodes, mut train) = (vec![0; blocks.count()], vec![0; blocks.count()]);
    for (node, &block) in (0..).zip(&blocks.of) {
        nodes[block as usize] += 1;
        train[block as usize] += u64::from(graph.trains(node));
    }
    assert_eq!((&blocks.nodes, &blocks.train), (&nodes, &train));
}

#[test]
fn stages_equal_the_second_implementation_for_any_threads_and_order() {
    let vectors = vectors();
    assert!(vectors.len() >= 4);
    for vector in &vectors {
        let temp = tempfile::tempdir().unwrap();
        let lists = lists(vector);
        let dataset = lists.dataset(&temp.path().join("data"));
        let reordered = lists.reordered(&temp.path().join("reordered"), &shuffled(dataset.nodes()));
        for threads in [1, 2, 8] {
            on_threads(threads, || compare(vector, &dataset));
        }
        on_threads(2, || compare(vector, &reordered));
    }
}

#[test]
fn the_methods_are_these_stages() {
    let vector = &vectors()[1];
    let temp = tempfile::tempdir().unwrap();
    let dataset = lists(vector).dataset(temp.path());
    let made = |method, count, refine| {
        let options = PartitionOptions { method, count, refine, ..options(vector) };
        partition(&dataset, &options, &unwatched).unwrap()
    };
    let passes = options(vector).refine;
    let cases = [
        (Method::Bgl, Count::Edges, "bgl_edges"),
        (Method::Bgl, Count::Blocks, "bgl_blocks"),
        (Method::Ldg, Count::Edges, "ldg"),
        (Method::Range, Count::Edges, "range"),
        (Method::Random, Count::Edges, "random"),
    ];
    for (method, count, name) in cases {
        let plain = made(method, count, Some(0));
        assert_eq!((&plain.of, plain.method.as_str()), (&numbers(&vector[name]), method.name()), "{name}");
        let refined = made(method, count, passes);
        assert_eq!(refined.of, numbers::<u16>(&vector["refined"][name]), "{name}, refined");
        assert_eq!(refined.method, format!("{method}+refine"));
        assert_eq!(plain.blocks.is_some(), method == Method::Bgl);
    }
    for (scan, name) in [(Scan::File, "pagraph"), (Scan::Shuffled, "pagraph_shuffled")] {
        let options = PartitionOptions { method: Method::Pagraph, refine: None, scan, ..options(vector) };
        let found = partition(&dataset, &options, &unwatched).unwrap();
        assert_eq!(found.of, numbers::<u16>(&vector[name]), "{name}");
    }
}
