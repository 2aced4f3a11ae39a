//! Rows of several tables read from disk in the real binary: batches and losses of rows in memory, metrics by table,
//! faulty files, and bad input.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use uva_graph::npy::{NpyType, write_array};

use crate::support::command::{recorded, run_with};
use crate::support::runs::{Metrics, wait_for_batches};
use crate::support::typed::write_mag;
use crate::support::{Uvatrain, directory, uvatrain};

/// Writes a graph of four types: rows of papers and of authors differ in width and type, fields and institutions have
/// no features.
fn write_mixed(directory: &Path) -> PathBuf {
    write_mag(directory);
    let authors = directory.join("graph/nodes/author");
    let rows: Vec<u8> = (0..2270_u32 * 13).map(|at| (at % 251) as u8).collect();
    fs::create_dir_all(&authors).unwrap();
    write_array(&authors.join("feat.npy"), NpyType::U8, &[13], &rows).unwrap();
    directory.join("graph")
}

#[test]
fn a_command_gets_the_rows_of_every_type_from_disk() {
    let temp = directory();
    write_mixed(temp.path());
    let said = |options: &str| {
        let _ = fs::remove_file(temp.path().join("record"));
        let steps = "attach; contents; pass valid 0; close";
        let said = run_with(temp.path(), options, None, steps).run().succeeds().stdout;
        (said, recorded(temp.path()))
    };
    let expected = said("--samplers 2 --features memory");
    assert!(expected.0.contains("x.author") || expected.0.lines().count() > 4, "{expected:?}");
    for options in [
        "--samplers 2",
        "--samplers 1 --reader pread --look-ahead 0",
        "--samplers 2 --prepare whole --reader mmap",
        "--samplers 2 --host-cache 100KiB --look-ahead 3",
        "--samplers 2 --host-cache 1KiB --look-ahead 1",
        "--samplers 2 --slot-bytes 4MiB --host-cache 10MiB",
    ] {
        assert_eq!(said(&format!("{options} --features disk")), expected, "{options}");
    }
}

fn train(directory: &Path, options: &str) -> Uvatrain {
    let line =
        "train graph --model rgcn --fanouts 5,4 --batch-size 100 --hidden 16 --train-threads 1 --device cpu";
    uvatrain(directory, format!("{line} --metrics run.jsonl {options}").split_whitespace())
}

#[test]
fn models_over_relations_have_the_losses_of_memory_with_rows_from_disk() {
    let temp = directory();
    let words = "generate graph --kind typed --nodes 2000 --seed 7";
    uvatrain(temp.path(), words.split_whitespace()).run().succeeds();
    let learned = |options: &str| {
        train(temp.path(), &format!("--epochs 2 --eval sampled {options}")).run().succeeds();
        let metrics = Metrics::read(&temp.path().join("run.jsonl"));
        let end = metrics.of("end").last().expect("an end").clone();
        (metrics.trained(), end["test_accuracy"].to_string(), metrics)
    };
    let (expected, accuracy, metrics) = learned("--features memory");
    assert!(metrics.of("end").last().unwrap().get("disk").is_none());
    for (options, has_rows) in
        [("", "ahead_rows"), ("--look-ahead 0", "demanded_rows"), ("--host-cache 1MiB", "kept_rows")]
    {
        let (found, of_test, metrics) = learned(&format!("--features disk {options}"));
        assert_eq!((found, of_test), (expected.clone(), accuracy.clone()), "{options}");
        let start = metrics.of("start").next().unwrap();
        assert_eq!(start["in_force"]["features"]["from"], "disk", "{start}");
        let number = |value: &Value, name: &str| value[name].as_u64().unwrap_or_else(|| panic!("{value}"));
        let rows_of = |disk: &Value| {
            let names = ["cached_rows", "kept_rows", "ahead_rows", "demanded_rows"];
            names.iter().map(|name| number(disk, name)).sum::<u64>()
        };
        for batch in metrics.of("batch") {
            let by_type = batch["rows_by_type"].as_object().unwrap().values();
            let rows: u64 = by_type.map(|rows| rows.as_u64().unwrap()).sum();
            assert_eq!(rows_of(&batch["disk"]), rows, "{options}: {batch}");
        }
        let end = metrics.of("end").last().unwrap();
        assert!(number(&end["disk"], has_rows) > 0, "{options}: {end}");
    }
}

#[test]
fn bytes_asked_are_those_of_the_rows_of_all_tables() {
    let temp = directory();
    write_mixed(temp.path());
    let bench = |options: &str| {
        let words = format!(
            "bench pipeline graph --fanouts 5,4 --batch-size 100 --samplers 2 --epochs 1 --json {options}"
        );
        uvatrain(temp.path(), words.split_whitespace()).run().succeeds().json()
    };
    let memory = bench("--features memory");
    let disk = bench("--features disk --look-ahead 0");
    assert_eq!(disk["hash"], memory["hash"]);
    assert!(disk["feature_bytes"].as_u64().unwrap() > 0, "{disk}");
    assert_eq!(disk["disk"]["bytes_asked"], disk["feature_bytes"], "{disk}");
}

#[test]
fn a_table_of_one_type_that_changes_ends_the_run_by_name() {
    type Deed = fn(&Path);
    let deeds: [(Deed, &str); 2] = [
        (
            |table| {
                File::options().write(true).open(table).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap()
            },
            "it was written to",
        ),
        (|table| File::options().write(true).open(table).unwrap().set_len(4096).unwrap(), "and has 4096"),
    ];
    for (way, (deed, says)) in ["--prepare roles", "--prepare whole"].into_iter().zip(deeds) {
        let temp = directory();
        let table = write_mixed(temp.path()).join("nodes/author/feat.npy");
        let options = format!("--epochs 100000 --eval sampled --features disk --samplers 2 {way}");
        let mut run = train(temp.path(), &options).limit(Duration::from_secs(60)).start();
        wait_for_batches(&mut run, &temp.path().join("run.jsonl"), 3);
        deed(&table);
        let ended = run.wait().ends_with(1);
        for what in ["nodes/author/feat.npy: it changed while it was read", says] {
            assert!(ended.stderr.contains(what), "{way}: {}", ended.stderr);
        }
    }
}

#[test]
fn options_of_the_disk_that_cannot_work_are_refused_with_what_to_do() {
    let temp = directory();
    let graph = write_mixed(temp.path());
    let refused = |options: &str, code: i32, named: &[&str]| {
        let words = format!("run graph --fanouts 5,4 --batch-size 100 --device cpu {options} -- true");
        uvatrain(temp.path(), words.split_whitespace()).run().refuses(code, named);
    };
    refused("--features memory --reader pread", 2, &["--reader", "--features"]);
    refused("--features disk --look-ahead 8", 2, &["--look-ahead 8", "7 or less"]);
    refused("--features disk --reader cufile", 2, &["--reader cufile", "hop set"]);
    refused("--features disk --host-cache 900TiB", 3, &["--host-cache", "are available"]);
    refused("--features disk --host-cache 1MiB --prepare whole", 2, &["--host-cache", "--prepare whole"]);
    for of in ["paper", "author"] {
        fs::remove_file(graph.join(format!("nodes/{of}/feat.npy"))).unwrap();
    }
    refused("--features disk", 2, &["--features disk", "no node type has a feat.npy"]);
}
