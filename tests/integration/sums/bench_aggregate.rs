//! `bench aggregate`: its counts and bytes equal those computed by hand for a list of six nodes, with any cache.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::arrays::{header, six_nodes};
use crate::support::{Uvatrain, directory, uvatrain};

/// With batches of both training nodes and whole lists, so that every batch has the same blocks.
fn bench(directory: &Path, more: &str) -> Uvatrain {
    let line = format!("bench aggregate six --batch-size 2 --batches 3 {more}");
    uvatrain(directory, line.split_whitespace())
}

fn measured(directory: &Path, more: &str) -> Value {
    bench(directory, &format!("{more} --json")).run().succeeds().json()
}

/// In-neighbours of each node.
const LISTS: [&[usize]; 6] = [&[1, 2], &[0], &[0, 3, 4], &[2], &[2], &[]];

/// The nodes of a batch of nodes 0 and 1 with this many hops of whole lists, and how many of them are destinations of
/// the last hop.
fn block(hops: usize) -> (Vec<usize>, usize) {
    let mut nodes = vec![0, 1];
    let mut destinations = 0;
    for _ in 0..hops {
        destinations = nodes.len();
        for node in 0..destinations {
            for &source in LISTS[nodes[node]] {
                if !nodes.contains(&source) {
                    nodes.push(source);
                }
            }
        }
    }
    (nodes, destinations)
}

/// The expected report on such batches with these cached rows: counts of a batch, and bytes for rows of `row` bytes and
/// sums of 12.
fn by_hand(hops: usize, cached: &[usize], row: usize) -> [(&'static str, Value); 4] {
    let (nodes, destinations) = block(hops);
    let missed = |node: &&usize| !cached.contains(*node);
    let (own, lists) = (&nodes[..destinations], nodes[..destinations].iter().map(|&node| LISTS[node]));
    let missed_of = |list: &[usize]| list.iter().filter(missed).count();
    let listed = nodes.iter().filter(missed).filter(|node| lists.clone().any(|list| list.contains(node)));
    let listed = listed.count();
    let missing = lists.clone().filter(|list| missed_of(list) > 0).count();
    let missing_with_own =
        own.iter().zip(lists.clone()).filter(|(node, list)| missed(node) || missed_of(list) > 0).count();
    let (misses, own_misses) = (nodes.iter().filter(missed).count(), own.iter().filter(missed).count());
    let ratio = |raw: usize, sums: usize| (sums > 0).then(|| raw as f64 / sums as f64);
    let (off, mean, gcn) = (misses * row, missing * 12 + own_misses * row, missing_with_own * 12);
    // A read over the link transfers whole lines of 128 bytes, and rows may begin anywhere that their size allows.
    let common = if row == 12 { 4 } else { 2 };
    [
        (
            "per_batch",
            json!({
                "destinations": destinations as f64,
                "sources": nodes.len() as f64,
                "entries": lists.clone().map(<[usize]>::len).sum::<usize>() as f64,
                "misses": misses as f64,
                "listed_misses": listed as f64,
                "missed_entries": lists.clone().map(missed_of).sum::<usize>() as f64,
                "missing_sums": missing as f64,
                "own_misses": own_misses as f64,
                "missing_sums_with_own": missing_with_own as f64,
            }),
        ),
        (
            "link_bytes",
            json!({
                "off": off as f64,
                "mean": mean as f64,
                "gcn": gcn as f64,
                "off_zero_copy": (misses * (row + 128 - common)) as f64,
            }),
        ),
        (
            "link_ratios",
            json!({
                "neighbors": ratio(listed * row, missing * 12),
                "mean": ratio(off, mean),
                "gcn": ratio(off, gcn),
            }),
        ),
        (
            "slot_bytes",
            json!({
                "off": (nodes.len() * 12) as f64,
                "mean": (destinations * 24) as f64,
                "gcn": (destinations * 12) as f64,
            }),
        ),
    ]
}

#[test]
fn counts_and_bytes_are_those_of_a_small_graph_by_hand_whatever_is_cached() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    // By out-degree, and then by id: 2 is in three lists, 0 in two, all others but 5 in one.
    for (options, cached) in [
        ("", &[][..]),
        ("--cached-rows 0", &[]),
        ("--cached-rows 17", &[2]),
        ("--cached-rows 34 --cache-policy degree", &[2, 0]),
        ("--cached-rows 100", &[2, 0, 1, 3, 4]),
        // Four bytes a node for the map, and two rows of 12.
        ("--gpu-cache 48B", &[2, 0]),
    ] {
        for (hops, fanouts) in [(1, "--fanouts 5"), (2, "--fanouts 5,5")] {
            for sums in ["mean", "gcn"] {
                let report = measured(temp.path(), &format!("{fanouts} --aggregate {sums} {options}"));
                for (name, expected) in by_hand(hops, cached, 12) {
                    assert_eq!(report[name], expected, "{fanouts} {sums} {options}: {name}");
                }
                assert_eq!(report["aggregate"], sums);
                let rows = if options.is_empty() { Value::Null } else { json!(cached.len()) };
                assert_eq!(report["cache"]["rows"], rows, "{options}");
            }
        }
    }
}

#[test]
fn sums_of_half_precision_rows_are_twice_as_wide_as_the_rows() {
    let temp = directory();
    let six = temp.path().join("six");
    six_nodes(&six);
    fs::write(six.join("meta.json"), br#"{"name": "six", "classes": 2, "feat_dtype": "f16"}"#).unwrap();
    let rows: Vec<u8> = (0..18_u16).flat_map(|value| (0x3c00 + value).to_le_bytes()).collect();
    fs::write(six.join("feat.npy"), [header("<f2", &[6, 3], false), rows].concat()).unwrap();
    let report = measured(temp.path(), "--fanouts 5 --cached-rows 17");
    for (name, expected) in by_hand(1, &[2], 6) {
        assert_eq!(report[name], expected, "{name}");
    }
}

#[test]
fn times_are_of_the_requested_batches_and_the_speedup_follows_from_them() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    for (options, threads) in [("--gather-threads 1", 1), ("--gather-threads 3 --aggregate gcn", 3)] {
        let report = measured(temp.path(), &format!("--fanouts 5,5 {options}"));
        let time = |name: &str| report["times"][name].as_f64().unwrap();
        assert_eq!((time("batches"), time("threads")), (3.0, f64::from(threads)));
        assert!(["gather_ms", "sum_ms", "off_ms", "host_ms"].iter().all(|name| time(name) > 0.0), "{report}");
        assert_eq!(report["speedup"].as_f64().unwrap(), time("off_ms") / time("host_ms"));
    }
    // The table as text.
    let text = bench(temp.path(), "--fanouts 5 --cached-rows 17").run().succeeds().stdout;
    for part in ["over a link", "in a slot", "sum while reading", "1 rows by degree", "speedup", "verified"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_cannot_be_measured_is_refused_with_what_would_do() {
    let temp = directory();
    let six = temp.path().join("six");
    six_nodes(&six);
    for (options, parts) in [
        ("--cached-rows 101", &["--cached-rows", "0 to 100"][..]),
        ("--cached-rows many", &["--cached-rows", "0 to 100"]),
        ("--cached-rows 5 --gpu-cache 1KB", &["--cached-rows", "--gpu-cache"]),
        ("--cache-policy degree", &["--cache-policy degree", "--cached-rows"]),
        ("--cache-policy fifo --cached-rows 50", &["--cache-policy fifo", "degree"]),
        ("--gpu-cache 20B", &["--gpu-cache", "24 bytes"]),
        ("--aggregate max", &["--aggregate", "mean", "gcn"]),
        ("--batches 0", &["--batches"]),
        ("--fanouts -1", &["--fanouts -1", "--slot-bytes"]),
    ] {
        bench(temp.path(), options).run().refuses(2, parts);
    }
    bench(temp.path(), "--fanouts -1 --slot-bytes 1MiB").run().succeeds();
    fs::write(six.join("meta.json"), br#"{"name": "six", "classes": 2, "feat_dtype": "u8"}"#).unwrap();
    fs::write(six.join("feat.npy"), [header("|u1", &[6, 3], false), vec![1; 18]].concat()).unwrap();
    bench(temp.path(), "--fanouts 5").run().refuses(2, &["feat.npy", "u8", "only floats"]);
}
