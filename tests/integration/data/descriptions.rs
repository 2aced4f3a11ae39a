//! `partition.json` and `hops.json` of any origin: `info` refuses invalid values, with memory of a few times the file's
//! size. Tests of the real binary.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::runs::smaller_graph;
use crate::support::{directory, uvatrain, uvatrain_behind};

fn run(directory: &Path, line: &str) {
    uvatrain(directory, line.split(' ')).run().succeeds();
}

/// Writes a copy of the description in which this place has another value.
fn change(file: &Path, text: &Value, pointer: &str, value: Value) {
    let mut text = text.clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match text.pointer_mut(parent).unwrap() {
        Value::Object(keys) => drop(keys.insert(key.to_owned(), value)),
        Value::Array(entries) => entries[key.parse::<usize>().unwrap()] = value,
        other => panic!("{other}"),
    }
    fs::write(file, text.to_string()).unwrap();
}

fn read(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

#[test]
fn info_refuses_an_invalid_partition_and_prints_nothing() {
    let temp = directory();
    smaller_graph(temp.path());
    run(temp.path(), "partition graph parts --parts 2 --layout ranges");
    let file = temp.path().join("parts/partition.json");
    let text = read(&file);
    let bytes = text["graph"]["bytes"].as_u64().unwrap();
    for (pointer, value, named) in [
        ("/boundaries", json!([0, 900, 700]), "boundaries"),
        ("/boundaries", json!([5, 600, 1200]), "boundaries"),
        ("/boundaries", Value::Null, "boundaries"),
        ("/boundaries/2", json!(1_u64 << 62), "boundaries"),
        ("/graph/edges", json!(1_u64 << 63), "graph"),
        ("/graph/bytes", json!(bytes + 1), "bytes"),
        ("/written/0/dir", json!("/etc"), "'/etc'"),
        ("/graph/dir", json!("../ds"), "'../ds'"),
    ] {
        change(&file, &text, pointer, value);
        for options in ["", " --json"] {
            let info = uvatrain(temp.path(), format!("info parts{options}").split(' ')).run();
            let refused = info.refuses(2, &["partition.json", named]);
            assert_eq!(refused.stdout, "", "{refused}");
        }
    }
}

#[test]
#[ignore = "12 s of a core: scripts/measure/long_tests.sh"]
fn a_description_takes_memory_of_a_few_times_its_size() {
    let temp = directory();
    smaller_graph(temp.path());
    run(temp.path(), "partition graph parts --parts 2 --layout ranges");
    let file = temp.path().join("parts/partition.json");
    let text = read(&file);
    let entry = text["written"][0].clone();
    let lists: Vec<Value> = vec![json!([]); 10 << 20];
    let stages: serde_json::Map<String, Value> =
        (0..2_000_000).map(|key| (key.to_string(), json!(0))).collect();
    for (pointer, value, named) in [
        ("/written", json!(vec![entry; 200_000]), "more than 65536 entries"),
        ("/nodes", json!(vec![0; 20_000_000]), "more than 65536 entries"),
        ("/seconds", Value::Object(stages), "more than 64 stages"),
        ("/other", Value::Array(lists), "more than 65536 values"),
    ] {
        change(&file, &text, pointer, value);
        // The program and its libraries use most of it, and the text up to 50 MB.
        let limit = format!("ulimit -d {}", 200 << 10);
        uvatrain_behind(temp.path(), &limit, ["info", "parts"]).run().refuses(2, &["partition.json", named]);
    }
}

#[test]
fn info_refuses_classes_that_the_labels_of_a_hop_set_do_not_have() {
    let temp = directory();
    smaller_graph(temp.path());
    run(temp.path(), "propagate graph hops --hops 1");
    let file = temp.path().join("hops/hops.json");
    let text = read(&file);
    for (value, options, named) in [
        (1_u64 << 31, "", "classes is 2147483648"),
        (u64::MAX, "", "classes is 18446744073709551615"),
        (0, " --verify", "hops.json has 0 classes"),
        (3, " --verify", "is 3, but hops.json has 3 classes"),
    ] {
        change(&file, &text, "/classes", json!(value));
        uvatrain(temp.path(), format!("info hops{options}").split(' ')).run().refuses(2, &[named]);
    }
    for (pointer, value, named) in [
        ("/operators/0/hops", json!(1_u64 << 31), "operators[0].hops"),
        ("/rows", json!(1_u64 << 62), "dim is 24: the features"),
        ("/dim", json!(1_u64 << 62), "dim is 4611686018427387904"),
    ] {
        change(&file, &text, pointer, value);
        uvatrain(temp.path(), ["info", "hops"]).run().refuses(2, &["hops.json", named]);
    }
}
