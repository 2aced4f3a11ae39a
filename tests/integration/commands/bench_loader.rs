//! `bench loader`: every order's batches are compared with the files, and the figures fit each other, from memory and from
//! disk.

use std::path::Path;

use serde_json::Value;

use crate::support::runs::small_graph;
use crate::support::{Uvatrain, directory, uvatrain};

fn call(directory: &Path, line: &str) -> Uvatrain {
    uvatrain(directory, line.split_whitespace())
}

#[test]
fn batches_from_disk_are_verified_and_compared_with_the_reader_alone() {
    let temp = directory();
    small_graph(temp.path());
    for (set, layout) in [("hops", ""), ("rows", "--layout rows")] {
        call(temp.path(), &format!("propagate graph {set} --hops 2 {layout}")).run().succeeds();
        for (reader, workers) in [("auto", 1), ("pread", 2), ("mmap", 1)] {
            let line =
                format!("bench loader {set} --batch-size 100 --chunk 10 --epochs 1 --samplers {workers}");
            let told = call(temp.path(), &format!("{line} --reader {reader} --json")).run().succeeds().json();
            let taken = told["reader"].as_str().unwrap();
            assert!(
                if reader == "auto" { ["uring", "pread"].contains(&taken) } else { reader == taken },
                "{told}"
            );
            assert!(told.get("memcpy_gb_per_second").is_none(), "{told}");
            let alone = told["reads_gb_per_second"].as_f64().unwrap();
            for order in told["orders"].as_array().unwrap() {
                let share = order["gb_per_second"].as_f64().unwrap() / alone;
                assert!((order["share_of_reads"].as_f64().unwrap() / share - 1.0).abs() < 1e-9, "{told}");
                let batches = told["rows"].as_u64().unwrap().div_ceil(100);
                assert_eq!(order["verified_batches"].as_u64(), Some(batches), "{told}");
            }
        }
    }
    let text = call(temp.path(), "bench loader hops --epochs 1 --reader pread").run().succeeds();
    for part in ["of the reader alone", "pread alone"] {
        assert!(text.stdout.contains(part), "{text}");
    }
    call(temp.path(), "bench loader hops --reader cufile")
        .run()
        .refuses(2, &["--reader cufile", "host memory"]);
}

#[test]
fn batches_of_each_order_are_verified_and_compared_with_a_copy() {
    let temp = directory();
    small_graph(temp.path());
    for (set, options, more) in [
        ("hops", "", "--chunk 10,auto"),
        ("rows", "--layout rows --operator sym,row --hops 2 --type f16", "--chunk 7 --samplers 2 --slots 3"),
    ] {
        call(temp.path(), &format!("propagate graph {set} {options}")).run().succeeds();
        let line = format!("bench loader {set} --batch-size 100 --epochs 2 {more}");
        let told = call(temp.path(), &format!("{line} --json")).run().succeeds().json();
        let rows = told["rows"].as_u64().unwrap();
        let (tables, row_bytes) = if set == "hops" { (4, 4 * 24 * 4) } else { (5, 5 * 24 * 2) };
        assert_eq!((&told["tables"], &told["row_bytes"]), (&tables.into(), &row_bytes.into()), "{told}");
        let orders: Vec<&Value> = told["orders"].as_array().unwrap().iter().collect();
        let chunks: Vec<u64> = orders.iter().map(|order| order["chunk"].as_u64().unwrap()).collect();
        assert_eq!(chunks, if set == "hops" { vec![1, 10, 100] } else { vec![1, 7] });
        assert_eq!((&orders[0]["shuffle"], &orders[1]["shuffle"]), (&"full".into(), &"chunks".into()));
        let memcpy = told["memcpy_gb_per_second"].as_f64().unwrap();
        for order in orders {
            assert_eq!(order["verified_batches"].as_u64(), Some(rows.div_ceil(100)), "{order}");
            let figure = |name: &str| order[name].as_f64().unwrap();
            let bytes = figure("rows_per_second") * f64::from(row_bytes) / 1e9;
            assert!((figure("gb_per_second") / bytes - 1.0).abs() < 1e-9, "{order}");
            assert!((figure("share_of_memcpy") * memcpy / bytes - 1.0).abs() < 1e-9, "{order}");
        }
    }
    let text = call(temp.path(), "bench loader hops --batch-size 100 --epochs 1 --chunk 10").run().succeeds();
    for part in ["all rows shuffled", "chunks of 10", "of memcpy", "verified"] {
        assert!(text.stdout.contains(part), "{text}");
    }
    let refuse = |line: &str, parts: &[&str]| {
        call(temp.path(), &format!("bench loader {line}")).run().refuses(2, parts);
    };
    refuse("graph", &["graph", "hops.json", "uvatrain propagate"]);
    refuse("hops --batch-size 10 --chunk 11", &["chunk", "expected at most"]);
    refuse("hops --chunk 0", &["--chunk", "auto, or 1 or more"]);
}
