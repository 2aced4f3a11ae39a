//! `uvatrain fetch` as its users call it, from a directory. S3 is in crates/uva-fetch/tests/s3.rs.

use std::fs;
use std::path::Path;

use crate::support::{Uvatrain, contents, directory, uvatrain};

fn generated(directory: &Path) {
    let line = "generate graph --kind sbm --nodes 600 --classes 3 --avg-degree 6 --feat-dim 3";
    uvatrain(directory, line.split_whitespace()).run().succeeds();
}

/// `uvatrain fetch file:///…/FROM OPTIONS`, run in `directory`.
fn fetched(directory: &Path, from: &str, options: &str) -> Uvatrain {
    let url = format!("file://{}", directory.join(from).display());
    uvatrain(directory, ["fetch", &url].into_iter().chain(options.split_whitespace()))
}

#[test]
fn a_dataset_comes_as_it_is_and_one_line_says_how_fast() {
    let temp = directory();
    generated(temp.path());
    let there = contents(&temp.path().join("graph"));
    let outcome = fetched(temp.path(), "graph", "copy").run().succeeds();
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    let line = format!("copy: dataset, {} files, ", there.len());
    assert!(outcome.stderr.starts_with(&line), "{}", outcome.stderr);
    assert!(outcome.stderr.trim_end().ends_with(" GB/s)"), "{}", outcome.stderr);
    // A stamp may have come since: they are compared by what was there.
    let come = contents(&temp.path().join("copy"));
    for (name, bytes) in &there {
        assert!(come.get(name) == Some(bytes), "{}", name.display());
    }
    uvatrain(temp.path(), ["info", "copy", "--verify"]).run().succeeds();
}

#[test]
fn one_part_of_a_partition_in_ranges_comes_with_the_graph() {
    let temp = directory();
    generated(temp.path());
    uvatrain(temp.path(), "partition graph parts --parts 3 --layout ranges".split_whitespace())
        .run()
        .succeeds();
    let said =
        fetched(temp.path(), "parts", "copy --only graph --only part-2 --json").run().succeeds().json();
    assert_eq!((&said["kind"], &said["path"]), (&"partition".into(), &"copy".into()));
    assert!(said["gigabytes_per_second"].as_f64() > Some(0.0), "{said}");
    assert!(temp.path().join("copy/graph").is_dir() && temp.path().join("copy/part-2").is_dir());
    assert!(!temp.path().join("copy/part-0").exists());
    let verified = uvatrain(temp.path(), ["info", "copy", "--verify", "--json"]).run().succeeds().json();
    assert_eq!(verified["verified"]["parts"], serde_json::json!([2]), "{verified}");
    assert_eq!(verified["verified"]["absent"], serde_json::json!([0, 1]), "{verified}");
    let part = fetched(temp.path(), "parts/part-1", "part --json").run().succeeds().json();
    assert_eq!(part["kind"], "range_part", "{part}");
}

#[test]
fn what_is_nothing_of_ours_comes_too() {
    let temp = directory();
    fs::create_dir(temp.path().join("notes")).unwrap();
    fs::write(temp.path().join("notes/a.txt"), "text").unwrap();
    let said = fetched(temp.path(), "notes", "copy --json").run().succeeds().json();
    assert_eq!((&said["kind"], &said["bytes"]), (&serde_json::Value::Null, &4.into()));
}

#[test]
fn what_cannot_be_fetched_is_refused_with_what_to_do_and_nothing_is_left() {
    let temp = directory();
    generated(temp.path());
    fetched(temp.path(), "graph", "copy --only part-1")
        .run()
        .refuses(2, &["nothing is named part-1 there", "there is nothing"]);
    fetched(temp.path(), "nowhere", "copy").run().refuses(2, &["nowhere: there is no such directory"]);
    fetched(temp.path(), "graph", "graph").run().refuses(2, &["graph exists already"]);
    uvatrain(temp.path(), ["fetch", "graph", "copy"])
        .run()
        .refuses(2, &["a URL of an object store is s3://BUCKET/PREFIX or file:///DIRECTORY"]);
    assert!(!temp.path().join("copy").exists());
}

#[test]
fn a_dataset_that_is_damaged_in_the_store_is_fetched_and_cannot_be_opened() {
    let temp = directory();
    generated(temp.path());
    fs::write(temp.path().join("graph/indices.npy"), "text").unwrap();
    fetched(temp.path(), "graph", "copy")
        .run()
        .refuses(1, &["copy: all of it was fetched, and it cannot be opened: ", "indices.npy"]);
    assert!(temp.path().join("copy").is_dir());
}
