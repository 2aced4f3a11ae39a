//! Tests of `uvatrain partition` and `uvatrain bench partition`.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use uva_graph::npy::{NpyArray, NpyType, write_array};

use crate::support::runs::wait_until;
use crate::support::{Uvatrain, contents, directory, uvatrain};

const PARTS: usize = 4;

/// Four groups of ids modulo 4, nearly all edges within a group.
const GRAPH: &str =
    "generate graph --kind sbm --nodes 1200 --classes 4 --avg-degree 12 --homophily 0.97 --feat-dim 3";

fn call(directory: &Path, line: &str) -> Uvatrain {
    uvatrain(directory, line.split_whitespace())
}

fn generated(directory: &Path) {
    call(directory, GRAPH).run().succeeds();
}

fn integers(path: &Path) -> Vec<i64> {
    let array = NpyArray::open(path).unwrap();
    match array.kind() {
        NpyType::I64 => array.elements::<i64>(NpyType::I64).unwrap().to_vec(),
        NpyType::I32 => {
            array.elements::<i32>(NpyType::I32).unwrap().iter().map(|id| i64::from(*id)).collect()
        }
        NpyType::U16 => {
            array.elements::<u16>(NpyType::U16).unwrap().iter().map(|id| i64::from(*id)).collect()
        }
        other => panic!("{}: {other}", path.display()),
    }
}

fn numbers(value: &Value) -> Vec<usize> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Asserts every count of `partition.json` against the map and the dataset.
fn check(graph: &Path, out: &Path) -> Value {
    let said: Value = serde_json::from_slice(&fs::read(out.join("partition.json")).unwrap()).unwrap();
    let parts = said["parts"].as_u64().unwrap() as usize;
    let of = integers(&out.join("partition.npy"));
    let (ends, entries) = (integers(&graph.join("indptr.npy")), integers(&graph.join("indices.npy")));
    assert_eq!(of.len(), ends.len() - 1);
    let (mut nodes, mut train, mut cut) = (vec![0; parts], vec![0; parts], 0);
    of.iter().for_each(|part| nodes[*part as usize] += 1);
    integers(&graph.join("train_idx.npy")).iter().for_each(|node| train[of[*node as usize] as usize] += 1);
    for node in 0..of.len() {
        let list = &entries[ends[node] as usize..ends[node + 1] as usize];
        cut += list.iter().filter(|entry| of[**entry as usize] != of[node]).count();
    }
    assert_eq!((numbers(&said["nodes"]), numbers(&said["train"])), (nodes, train), "{said}");
    assert_eq!(said["edge_cut"], cut, "{said}");
    said
}

#[test]
fn a_graph_is_divided_described_drawn_and_counted() {
    let temp = directory();
    generated(temp.path());
    let made = call(temp.path(), "partition graph out --parts 4 --json").run().succeeds().json();
    let said = check(&temp.path().join("graph"), &temp.path().join("out"));
    for key in
        ["format", "dataset", "parts", "method", "seed", "hops", "nodes", "train", "edge_cut", "seconds"]
    {
        assert_eq!(made[key], said[key], "{key}");
    }
    assert_eq!((&said["format"], &said["dataset"]["name"]), (&1.into(), &"graph".into()));
    assert_eq!(said["candidates"].as_array().unwrap().len(), 4, "{said}");
    assert!(made["balance"]["train"].as_f64().unwrap() <= 1.05, "{made}");

    // The groups that were planted are the parts.
    let of = integers(&temp.path().join("out/partition.npy"));
    let right: usize = (0..PARTS)
        .map(|part| {
            let in_part = |group: usize| {
                (group..of.len()).step_by(PARTS).filter(|node| of[*node] == part as i64).count()
            };
            (0..PARTS).map(in_part).max().unwrap()
        })
        .sum();
    assert!(right * 100 >= of.len() * 95, "{right} of {}", of.len());

    let shown = call(temp.path(), "info out").run().succeeds();
    assert!(shown.stdout.contains("1,200 in 4 parts"), "{shown}");
    let shown = call(temp.path(), "info out --json").run().succeeds().json();
    assert_eq!((&shown["kind"], &shown["edge_cut"]), (&"partition".into(), &said["edge_cut"]), "{shown}");

    let bench = "bench partition graph --fanouts 4,3 --batch-size 50 --epochs 2 --json --map";
    let counted = call(temp.path(), &format!("{bench} out")).run().succeeds().json();
    let by_pair: Vec<Vec<u64>> = serde_json::from_value(counted["by_pair"].clone()).unwrap();
    let sum = |keep: &dyn Fn(usize, usize) -> bool| -> u64 {
        let pairs = (0..PARTS).flat_map(|a| (0..PARTS).map(move |b| (a, b)));
        pairs.filter(|(a, b)| keep(*a, *b)).map(|(a, b)| by_pair[a][b]).sum()
    };
    assert_eq!(counted["list_visits"], sum(&|_, _| true), "{counted}");
    assert_eq!(counted["remote_list_visits"], sum(&|a, b| a != b), "{counted}");
    let batches: usize = numbers(&said["train"]).iter().map(|train| train.div_ceil(50)).sum();
    assert_eq!(counted["batches"], 2 * batches, "{counted}");
    assert_eq!(counted["balance"]["train"], made["balance"]["train"]);

    // A map that another program has made, without a description.
    let random: Vec<u16> =
        (0..1200_u32).map(|node| (node.wrapping_mul(2_654_435_761) >> 30) as u16).collect();
    write_array(&temp.path().join("other.npy"), NpyType::U16, &[], &random).unwrap();
    let other = call(temp.path(), &format!("{bench} other.npy")).run().succeeds().json();
    let remote = |counted: &Value| counted["remote_list_visits"].as_f64().unwrap();
    assert!(remote(&counted) < 0.56 * remote(&other), "{counted}\n{other}");
    assert_eq!((&other["parts"], &other["method"]), (&4.into(), &Value::Null));
}

#[test]
fn a_reordered_dataset_has_the_same_parts_and_one_part_has_no_remote_rows() {
    let temp = directory();
    generated(temp.path());
    call(
        temp.path(),
        "plan graph --fanouts 3 --gpu-cache 16KiB --cache-policy degree --write-reordered moved",
    )
    .run()
    .succeeds();
    for method in ["auto", "pagraph", "random"] {
        for graph in ["graph", "moved"] {
            let line = format!("partition {graph} {method}-{graph} --parts 3 --method {method} --seed 9");
            let made = call(temp.path(), &line).run().succeeds();
            assert!(made.stdout.is_empty() && made.stderr.contains("3 parts by"), "{made}");
        }
        let map =
            |graph: &str| fs::read(temp.path().join(format!("{method}-{graph}/partition.npy"))).unwrap();
        assert!(map("graph") == map("moved"), "{method}");
    }
    // The map of one is refused with the other: their fingerprints differ.
    call(temp.path(), "bench partition graph --fanouts 3 --map auto-moved")
        .run()
        .refuses(2, &["auto-moved/partition.json: the map is of the dataset ", "(graph), but graph is "]);
    call(temp.path(), "bench partition moved --fanouts 3 --map auto-moved").run().succeeds();

    call(temp.path(), "partition graph whole --parts 1 --method bgl").run().succeeds();
    let said = check(&temp.path().join("graph"), &temp.path().join("whole"));
    assert_eq!((&said["method"], &said["edge_cut"]), (&"bgl+refine".into(), &0.into()));
    assert!(said["blocks"].as_array().is_some_and(|blocks| blocks.len() == 2), "{said}");
    let counted =
        call(temp.path(), "bench partition graph --fanouts 3,2 --map whole --json").run().succeeds().json();
    for key in ["remote_list_visits", "remote_rows", "requests_per_batch", "bytes_per_batch"] {
        assert_eq!(counted[key].as_f64(), Some(0.0), "{key}: {counted}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_and_leaves_nothing() {
    let temp = directory();
    generated(temp.path());
    let train = integers(&temp.path().join("graph/train_idx.npy")).len();
    let before = contents(temp.path());
    let refuses = |line: &str, code: i32, message: &[&str]| {
        call(temp.path(), line).run().refuses(code, message);
    };
    refuses("partition graph out --parts 65536", 2, &["--parts", "65536 is not from 1 to 65535"]);
    refuses("partition graph out --parts 0", 2, &["0 is not from 1 to 65535"]);
    let line = format!("partition graph out --parts {}", train + 1);
    refuses(&line, 2, &[&format!("is more than the {train} training nodes")]);
    refuses(
        "partition graph out --parts 2 --method none",
        2,
        &["auto, bgl, pagraph, ldg, multilevel, range, random"],
    );
    refuses("partition graph out --parts 2 --method pagraph --refine 3", 2, &["--refine", "pagraph"]);
    for (option, method) in [
        ("--sources 9", "ldg"),
        ("--count blocks", "range"),
        ("--block-nodes 70", "pagraph"),
        ("--scan shuffled", "bgl"),
    ] {
        let (name, _) = option.split_once(' ').unwrap();
        let line = format!("partition graph out --parts 2 --method {method} {option}");
        refuses(&line, 2, &[name, &format!("--method {method}")]);
    }
    for (line, what) in [
        ("partition graph out --parts 2 --method pagraph --memory 10KiB", "pagraph takes about"),
        ("partition graph out --parts 2 --memory 10KiB", "auto takes about"),
        ("partition graph out --map nothing.npy --memory 10KiB", "nothing.npy"),
    ] {
        refuses(line, 2, &[what]);
    }
    refuses("partition graph out --parts 1 --layout ranges", 2, &["--parts 1", "--layout"]);
    refuses(
        "partition graph out --parts 2 --layout ranges --split-eval",
        2,
        &["--split-eval", "--layout ranges"],
    );
    refuses("partition graph out --parts 2 --layout ways", 2, &["closure, ranges"]);
    refuses("info graph --source graph", 2, &["--verify"]);
    refuses("info graph --verify --source graph", 2, &["--source", "partition"]);
    refuses("partition graph graph --parts 2", 2, &["graph exists already"]);
    refuses("partition nothing out --parts 2", 2, &["nothing"]);
    refuses("bench partition graph --map nothing --fanouts 3", 2, &["nothing"]);
    refuses("bench partition graph --map graph --fanouts 3", 2, &["partition.json"]);
    let walks = "bench partition graph --map nothing --fanouts 3 --sampler-kind ladies";
    refuses(walks, 2, &["--sampler-kind ladies", "neighbor, labor or weighted"]);
    let without_cache = |mut found: std::collections::BTreeMap<_, _>| {
        found.retain(|path: &std::path::PathBuf, _: &mut Vec<u8>| {
            !path.starts_with("cache") && !path.ends_with(".uvatrain-stamp.json")
        });
        found
    };
    assert!(without_cache(contents(temp.path())) == without_cache(before), "something was written");

    fs::remove_file(temp.path().join("graph/train_idx.npy")).unwrap();
    write_array::<i64>(&temp.path().join("graph/train_idx.npy"), NpyType::I64, &[], &[]).unwrap();
    refuses("partition graph out --parts 2", 2, &["train_idx.npy: the training split is empty"]);
    assert!(!temp.path().join("out").exists());
}

#[test]
fn an_interrupted_partition_leaves_nothing() {
    let temp = directory();
    call(temp.path(), "generate graph --nodes 20000 --avg-degree 20 --feat-dim 1 --classes 2")
        .run()
        .succeeds();
    // Closures of five hops are most of the graph: this takes far longer than the signal.
    let mut run = call(temp.path(), "partition graph deep/out --parts 2 --method pagraph --hops 5").start();
    let parent = temp.path().join("deep");
    wait_until("the partition is being made", || parent.is_dir() || run.child.try_wait().unwrap().is_some());
    kill_process(Pid::from_child(&run.child), Signal::INT).unwrap();
    run.wait().refuses(130, &["SIGINT"]);
    let left = fs::read_dir(&parent).map(|entries| entries.count()).unwrap_or(0);
    assert_eq!(left, 0, "something is left");
}

#[test]
fn a_graph_is_divided_into_described_and_checked_ranges() {
    let temp = directory();
    let at = temp.path();
    generated(at);
    let words = "partition graph out --parts 3 --method ldg --layout ranges --json";
    let made = call(at, words).run().succeeds().json();
    let said = check(&at.join("graph"), &at.join("out"));
    let bounds = numbers(&said["boundaries"]);
    let sizes: Vec<usize> = bounds.windows(2).map(|ends| ends[1] - ends[0]).collect();
    assert_eq!(
        (&said["layout"], bounds[0], bounds[3], sizes),
        (&"ranges".into(), 0, 1200, numbers(&said["nodes"]))
    );
    assert_eq!((&made["written"], &made["boundaries"]), (&said["written"], &said["boundaries"]), "{made}");
    assert_eq!((&made["copies"], made["seconds"].is_object()), (&1.0.into(), true), "{made}");
    for (part, written) in said["written"].as_array().unwrap().iter().enumerate() {
        let directory = at.join("out").join(format!("part-{part}"));
        let rows = NpyArray::open(&directory.join("feat.npy")).unwrap();
        assert_eq!(written["rows"], rows.shape()[0]);
        assert_eq!(written["bytes"], fs::metadata(directory.join("feat.npy")).unwrap().len());
    }
    assert!(at.join("out/partition.npy").is_file() && !at.join("out/graph/feat.npy").exists());

    let shown = call(at, "info out --verify --source graph").run().succeeds();
    for fact in ["ranges: each part", "all values of 3 parts, against the dataset", "first id", "part-2"] {
        assert!(shown.stdout.contains(fact), "{fact}: {shown}");
    }
    let shown = call(at, "info out/part-1").run().succeeds();
    assert!(
        shown.stdout.contains("1 of 0 to 2, of graph") && shown.stdout.contains("rows of 3 × f32"),
        "{shown}"
    );
    let shown = call(at, "info out/graph --json").run().succeeds().json();
    assert_eq!((&shown["kind"], &shown["nodes"]), (&"range_graph".into(), &1200.into()), "{shown}");
    call(at, "train out/part-1").run().refuses(2, &["out/part-1/meta.json", "partition in ranges"]);
    call(at, "bench partition graph --fanouts 3 --map out").run().succeeds();

    // A rank's machine has the graph and one part. A changed value is found.
    fs::remove_dir_all(at.join("out/part-0")).unwrap();
    let shown = call(at, "info out --verify --json").run().succeeds().json();
    assert_eq!(shown["verified"], serde_json::json!({"parts": [1, 2], "absent": [0], "with_source": false}));
    let file = at.join("out/part-2/feat.npy");
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();
    call(at, "info out --verify").run().refuses(2, &["out/partition.json", "part-2"]);

    // By the map of another layout, with the same shape of the output.
    let words = "partition graph cut --map out --hops 1 --json";
    let cut = call(at, words).run().succeeds().json();
    assert_eq!(
        (&cut["layout"], &cut["boundaries"], cut["seconds"].is_object()),
        (&"closure".into(), &Value::Null, true)
    );
    assert!(at.join("cut/partition.npy").is_file() && cut["all_seconds"].is_f64(), "{cut}");
    let shown = call(at, "info cut --verify --source graph --json").run().succeeds().json();
    assert_eq!(shown["verified"]["parts"].as_array().unwrap().len(), 3, "{shown}");
    call(at, "partition graph no --map cut --layout ranges --hops 2")
        .run()
        .refuses(2, &["--hops", "--layout ranges"]);
    assert!(!at.join("no").exists());
}
