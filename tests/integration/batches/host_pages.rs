//! The pages of files in host memory: batches and losses do not depend on them, and a run reports which it reads.

use std::io::Write;
use std::path::Path;

use serde_json::Value;

use crate::support::extent::some_of;
use crate::support::runs::{Metrics, small_graph};
use crate::support::{directory, uvatrain};

const TRAIN: &str = "train graph --fanouts 5,4 --batch-size 100 --hidden 16 --train-threads 1 --device cpu --epochs 1 --eval sampled";

/// The entry of a file.
fn of<'v>(pages: &'v Value, file: &str) -> &'v Value {
    let mut files = pages.as_array().expect("an array of files").iter();
    files.find(|entry| entry["file"] == file).expect("an entry of the file")
}

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
    for way in some_of(&ways) {
        let (expected, pages) = learned(temp.path(), &format!("{way} --host-pages mapped"));
        let (found, huge) = learned(temp.path(), &format!("{way} --host-pages huge"));
        // No file has 2 MiB, which could be moved.
        for file in ["feat.npy", "indices.npy", "indptr.npy"] {
            assert_eq!(of(&pages, file)["pages"], "mapped", "{way}: {pages}");
            let huge = of(&huge, file);
            assert_eq!((&huge["pages"], &huge["reason"]), (&"copied".into(), &"requested".into()), "{way}");
        }
        assert_eq!(found, expected, "{way}");
    }
    let (_, pages) = learned(temp.path(), "");
    let pages = of(&pages, "feat.npy");
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
    let pages = of(&pages, "feat.npy");
    let number = |name: &str| pages[name].as_f64();
    let measured = ["mapped_gb_per_second", "huge_gb_per_second", "copy_gb_per_second"].map(number);
    match number("huge_share").filter(|&share| share >= 0.9) {
        Some(_) => assert_eq!((&pages["pages"], measured), (&"mapped".into(), [None; 3])),
        None => assert!(measured.iter().all(|rate| rate.is_some_and(|rate| rate > 0.0)), "{pages}"),
    }
}

#[test]
fn a_file_on_small_pages_is_moved_or_copied_and_batches_stay_equal() {
    let temp = directory();
    let generate = "generate graph --nodes 60000 --avg-degree 4 --feat-dim 160 --classes 4 --seed 3";
    uvatrain(temp.path(), generate.split_whitespace()).run().succeeds();
    let small = rewritten_in_small_pieces(&temp.path().join("graph/feat.npy"));
    let (expected, _) = learned(temp.path(), "--host-pages mapped");
    let (found, pages) = learned(temp.path(), "--host-pages huge");
    assert_eq!(found, expected);
    let pages = of(&pages, "feat.npy");
    match small {
        // The kernel chose 2 MiB pages, or reports nothing.
        None => {}
        Some(_) => match pages["pages"].as_str() {
            Some("collapsed" | "read again") => {
                let placed = pages["placed_huge_share"].as_f64().unwrap();
                assert!(placed > pages["huge_share"].as_f64().unwrap(), "{pages}");
            }
            method => assert_eq!(method, Some("copied"), "{pages}"),
        },
    }
}

/// Writes the file again, page by page, for which a file system takes small pages. Returns the share of 2 MiB pages if
/// it is small.
fn rewritten_in_small_pieces(path: &Path) -> Option<f64> {
    let bytes = std::fs::read(path).unwrap();
    std::fs::remove_file(path).unwrap();
    let mut file = std::fs::File::create(path).unwrap();
    bytes.chunks(4096).for_each(|piece| file.write_all(piece).unwrap());
    uva_mem::MappedFile::open(path).unwrap().in_memory().unwrap().huge_share.filter(|&share| share < 0.5)
}

#[test]
fn info_shows_the_part_of_each_file_that_is_in_memory() {
    let temp = directory();
    small_graph(temp.path());
    let shown = uvatrain(temp.path(), ["info", "graph", "--json"]).run().succeeds();
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let feat = of(&shown["files_in_memory"], "feat.npy");
    assert_eq!(feat["share"], 1.0, "{feat}");
    let shown = uvatrain(temp.path(), ["info", "graph"]).run().succeeds();
    assert!(shown.stdout.contains("feat.npy: 100"), "{shown}");
}

#[test]
fn with_rows_from_disk_only_lists_have_pages() {
    let temp = directory();
    small_graph(temp.path());
    let (_, pages) = learned(temp.path(), "--host-pages huge --features disk");
    assert_eq!(of(&pages, "indices.npy")["pages"], "copied", "{pages}");
    assert!(pages.as_array().unwrap().iter().all(|entry| entry["file"] != "feat.npy"), "{pages}");
}

#[test]
fn a_dry_run_shows_the_copy_and_its_memory() {
    let temp = directory();
    small_graph(temp.path());
    let line = format!("{TRAIN} --host-pages huge --dry-run");
    let shown = uvatrain(temp.path(), line.split_whitespace()).run().succeeds();
    for part in ["copy of the file on 2 MiB pages", "copy of the features", "copies of the lists"] {
        assert!(shown.stdout.contains(part), "{part}\n{shown}");
    }
}
