//! The pages of feature rows in host memory: batches and losses do not depend on them, and a run reports which it reads.

use std::path::Path;

use serde_json::Value;

use crate::support::runs::{Metrics, small_graph};
use crate::support::{directory, uvatrain};

const TRAIN: &str = "train graph --fanouts 5,4 --batch-size 100 --hidden 16 --train-threads 1 --device cpu --epochs 1 --eval sampled";

/// Trains, and returns the hashes and losses of the batches, and `host_pages` of the metrics' first line.
fn learned(directory: &Path, options: &str) -> (Vec<(u64, u64, String, String)>, Value) {
    let line = format!("{TRAIN} --metrics run.jsonl {options}");
    uvatrain(directory, line.split_whitespace()).run().succeeds();
    let metrics = Metrics::read(&directory.join("run.jsonl"));
    let start = metrics.of("start").last().expect("a start").clone();
    (metrics.trained(), start["in_force"]["host_pages"].clone())
}

#[test]
fn a_copy_on_huge_pages_gives_the_batches_of_the_mapped_file() {
    let temp = directory();
    small_graph(temp.path());
    let ways = [
        "",
        "--in-process --gather-threads 3",
        "--prepare whole --samplers 2",
        "--gpu-cache 96KiB --cache-policy sieve",
        "--gpu-cache 96KiB --cache-policy degree",
        "--model gcn --aggregate host",
    ];
    for way in ways {
        let (expected, pages) = learned(temp.path(), &format!("{way} --host-pages mapped"));
        assert_eq!(pages["pages"], "mapped", "{way}: {pages}");
        let (found, pages) = learned(temp.path(), &format!("{way} --host-pages huge"));
        assert_eq!((&pages["pages"], &pages["reason"]), (&"huge".into(), &"requested".into()), "{way}");
        assert_eq!(found, expected, "{way}");
    }
    let (_, pages) = learned(temp.path(), "");
    assert_eq!(pages["pages"], "mapped", "{pages}");
    assert!(pages["reason"].as_str().unwrap().contains("less than 32 MiB"), "{pages}");
}

#[test]
fn auto_measures_both_kinds_of_pages_of_a_table_that_is_large_enough() {
    let temp = directory();
    let generate = "generate graph --nodes 60000 --avg-degree 4 --feat-dim 160 --classes 4 --seed 3";
    uvatrain(temp.path(), generate.split_whitespace()).run().succeeds();
    let (expected, _) = learned(temp.path(), "--host-pages mapped");
    let (found, pages) = learned(temp.path(), "--host-pages auto");
    assert_eq!(found, expected);
    let number = |name: &str| pages[name].as_f64();
    let measured = ["mapped_gb_per_second", "huge_gb_per_second", "copy_gb_per_second"].map(number);
    match number("file_huge_share").filter(|&share| share >= 0.9) {
        Some(_) => assert_eq!((&pages["pages"], measured), (&"mapped".into(), [None; 3])),
        None => assert!(measured.iter().all(|rate| rate.is_some_and(|rate| rate > 0.0)), "{pages}"),
    }
}

#[test]
fn a_copy_of_rows_that_are_read_from_disk_is_refused() {
    let temp = directory();
    small_graph(temp.path());
    let line = format!("{TRAIN} --host-pages huge --features disk");
    uvatrain(temp.path(), line.split_whitespace()).run().refuses(2, &["--host-pages", "--features"]);
}

#[test]
fn a_dry_run_shows_the_copy_and_its_memory() {
    let temp = directory();
    small_graph(temp.path());
    let line = format!("{TRAIN} --host-pages huge --dry-run");
    let shown = uvatrain(temp.path(), line.split_whitespace()).run().succeeds();
    for part in ["copy of the file on 2 MiB pages", "copy of the features"] {
        assert!(shown.stdout.contains(part), "{part}\n{shown}");
    }
}
