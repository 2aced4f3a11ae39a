//! `partition.json` of any origin: invalid values are refused by key.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::common::{Small, small};
use crate::parts::map_of;
use uva_graph::part::{PartOptions, verify_parts, write_parts};
use uva_graph::ranges::{RangeParts, verify_ranges, write_ranges};
use uva_graph::{Dataset, PartitionMap, PartitionSummary, Verify};

/// A dataset of four nodes in two parts, in either layout.
fn written(layout: &str) -> (Small, Dataset, PathBuf, Value) {
    let small = small();
    small.write("train_idx", uva_graph::npy::NpyType::I64, &[], &[0_i64, 2]);
    small.write("valid_idx", uva_graph::npy::NpyType::I64, &[], &[1_i64]);
    small.write("test_idx", uva_graph::npy::NpyType::I64, &[], &[3_i64]);
    let dataset = small.open();
    let map = map_of(&dataset, &[0, 0, 1, 1], 2);
    let out = small.directory.path().join("out");
    match layout {
        "ranges" => drop(write_ranges(&dataset, &map, &out, &|_| ()).unwrap()),
        _ => {
            let options = PartOptions { map: &map, hops: 1, split_eval: true };
            drop(write_parts(&dataset, &options, &out, &|_| ()).unwrap());
        }
    }
    let text = serde_json::from_slice(&fs::read(out.join("partition.json")).unwrap()).unwrap();
    (small, dataset, out, text)
}

fn write(out: &Path, text: &Value) {
    fs::write(out.join("partition.json"), text.to_string()).unwrap();
}

#[test]
fn what_no_partition_has_is_refused_by_its_key() {
    let many: Vec<u64> = vec![0; 70_000];
    for (layout, cases) in [
        (
            "ranges",
            vec![
                ("/boundaries", json!([0, 3, 2]), "\"boundaries\""),
                ("/boundaries", json!([5, 7, 9]), "\"boundaries\" begins with 5"),
                ("/boundaries", json!([0, 2, 1_u64 << 62]), "\"boundaries\" gives part 1"),
                ("/boundaries", json!([0, 2]), "\"boundaries\" has 2 entries, it needs 3"),
                ("/boundaries", json!(many), "more than 65536 entries"),
                ("/graph/edges", json!(1_u64 << 63), "\"graph\" has 9223372036854775808 edges"),
                ("/graph/bytes", json!(1), "\"graph\" has 1 bytes"),
                ("/graph/bytes", json!(1_u64 << 63), "\"graph\" has 9223372036854775808 bytes"),
                ("/graph/dir", json!("/etc"), "\"dir\" is '/etc'"),
                ("/graph/dir", json!("../ds"), "\"dir\" is '../ds'"),
                ("/graph/dir", json!("part-0"), "\"dir\" is 'part-0' twice"),
                ("/written/0/dir", json!("/etc"), "\"dir\" is '/etc'"),
                ("/written/0/dir", json!(""), "\"dir\" is ''"),
                ("/written/0/rows", json!(1_u64 << 62), "\"written\" gives part 0"),
                ("/written/0/edges", json!(u64::MAX), "\"graph\" has 5 edges"),
                ("/written/0/train", json!(2), "\"written\" gives part 0 2 training nodes"),
                ("/written/1/test", json!(3), "\"written\" gives part 1"),
                ("/written/1/bytes", json!(u64::MAX), "\"written\" gives part 1"),
                ("/edge_cut", json!(6), "\"edge_cut\" is 6"),
                ("/layout", json!("heap"), "\"layout\" is heap"),
                ("/layout", Value::Null, "\"layout\" is missing"),
            ],
        ),
        (
            "closure",
            vec![
                ("/written/0/dir", json!("../ds"), "\"dir\" is '../ds'"),
                ("/written/1/dir", json!("part-0"), "\"dir\" is 'part-0' twice"),
                ("/written/0/nodes", json!(1_u64 << 62), "\"written\" gives part 0"),
                ("/written/0/halo", json!(5), "\"written\" gives part 0"),
                (
                    "/written/0/edges",
                    json!(1_u64 << 63),
                    "\"written\" gives part 0 9223372036854775808 edges",
                ),
                ("/written/1/valid", json!(9), "\"written\" gives part 1"),
                ("/written", json!([]), "\"written\" has 0 entries, it needs 2"),
                ("/written", Value::Null, "\"written\" is missing"),
                ("/written", json!(5), "invalid type: integer `5`, expected an array"),
                ("/nodes", json!([1_u64 << 63, 1_u64 << 63]), "\"nodes\" has more nodes"),
                ("/nodes", json!([4]), "\"nodes\" has 1 entries, it needs 2"),
                ("/train", json!([3, 1]), "\"train\" of part 0 is 3"),
                ("/parts", json!(0), "\"parts\" is 0"),
                ("/parts", json!(70_000), "\"parts\" is 70000"),
                ("/hops", json!(33), "\"hops\" is 33"),
                ("/blocks", json!([5, 1]), "\"blocks\" is [5, 1]"),
                ("/edge_cut", json!(1_u64 << 63), "\"edge_cut\" is 9223372036854775808"),
                ("/new", json!(many), "keys that this version does not know have more than 65536 values"),
            ],
        ),
    ] {
        let (_small, _dataset, out, text) = written(layout);
        PartitionSummary::read(&out).unwrap();
        for (pointer, value, message) in cases {
            let mut changed = text.clone();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            match changed.pointer_mut(parent).unwrap() {
                Value::Object(keys) => drop(keys.insert(key.to_owned(), value)),
                Value::Array(entries) => entries[key.parse::<usize>().unwrap()] = value,
                other => panic!("{other}"),
            }
            write(&out, &changed);
            for error in
                [PartitionSummary::read(&out).unwrap_err(), PartitionMap::open_alone(&out, None).unwrap_err()]
            {
                assert!(error.is_bad_input() && error.to_string().contains(message), "{pointer}: {error}");
            }
        }
    }
}

/// A change of the text: a byte, a number in place of another, or an end.
fn mutated(text: &str, at: usize, how: u8, number: u64) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let at = at % bytes.len();
    match how % 3 {
        0 => bytes[at] = number as u8,
        1 => {
            // The first number after the position.
            let first = (at..bytes.len()).find(|place| bytes[*place].is_ascii_digit());
            if let Some(first) = first {
                let end = (first..bytes.len()).find(|place| !bytes[*place].is_ascii_digit());
                bytes.splice(first..end.unwrap_or(bytes.len()), number.to_string().into_bytes());
            }
        }
        _ => bytes.truncate(at),
    }
    bytes
}

#[test]
fn no_change_of_the_text_makes_a_reader_panic() {
    for layout in ["ranges", "closure"] {
        let (_small, dataset, out, text) = written(layout);
        let text = text.to_string();
        let numbers = prop_oneof![any::<u64>(), 0_u64..9, Just(1 << 31), Just(1 << 62), Just(1 << 63)];
        let mut runner =
            TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
        runner
            .run(&(any::<usize>(), any::<u8>(), numbers), |(at, how, number)| {
                fs::write(out.join("partition.json"), mutated(&text, at, how, number)).unwrap();
                let _ = PartitionMap::open(&out, &dataset);
                let _ = RangeParts::open(&out, &[0, 1], Verify::Stamp);
                let _ = verify_parts(&out, None);
                let _ = verify_ranges(&out, Some(&dataset));
                Ok(())
            })
            .unwrap();
    }
}
