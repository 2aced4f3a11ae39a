//! `--input-nodes`: a file of nodes instead of the training split's.

use std::fs;
use std::path::Path;

use crate::support::arrays::{header, npy};
use crate::support::command::{recorded, run};
use crate::support::runs::{Metrics, small_graph, train};
use crate::support::{directory, uvatrain};

/// Every fourth of the first 1600 nodes, the last first.
fn write_ids(directory: &Path) -> Vec<i64> {
    let ids: Vec<i64> = (0..1600).rev().filter(|id| id % 4 == 0).collect();
    fs::write(directory.join("ids.npy"), npy(&[ids.len() as u64], false, &ids)).unwrap();
    ids
}

fn trained(directory: &Path, metrics: &str, options: &str) -> Vec<(u64, u64, String, String)> {
    train(directory, metrics, options).run().succeeds();
    Metrics::read(&directory.join(metrics)).trained()
}

#[test]
fn a_run_over_given_nodes_equals_one_with_that_training_split() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let ids = write_ids(temp.path());
    let own = trained(temp.path(), "own.jsonl", "--epochs 2");
    let given = trained(temp.path(), "given.jsonl", "--epochs 2 --input-nodes ids.npy --samplers 2");
    assert_eq!(given, trained(temp.path(), "in.jsonl", "--epochs 2 --input-nodes ids.npy --in-process"));
    assert_ne!(given, own);
    let steps = "attach; pass train 0; pass valid 0";
    run(temp.path(), "--input-nodes ids.npy", None, steps).run().succeeds();
    let with_given = recorded(temp.path());
    let bench = "bench pipeline graph --fanouts 5,4 --batch-size 100 --json";
    let hash = |options: &str| {
        let words = format!("{bench} {options}");
        uvatrain(temp.path(), words.split_whitespace()).run().succeeds().json()["hash"].clone()
    };
    let of_given = hash("--input-nodes ids.npy");
    fs::write(graph.join("train_idx.npy"), npy(&[ids.len() as u64], false, &ids)).unwrap();
    assert_eq!(given, trained(temp.path(), "split.jsonl", "--epochs 2"));
    run(temp.path(), "", None, steps).run().succeeds();
    let with_split = recorded(temp.path());
    assert!(!with_given.is_empty() && with_split.ends_with(&with_given), "{with_given:?} {with_split:?}");
    assert_eq!(of_given, hash(""));
}

#[test]
fn a_mask_and_a_text_are_the_nodes_that_they_name() {
    let temp = directory();
    small_graph(temp.path());
    let mut ids = write_ids(temp.path());
    ids.reverse();
    fs::write(temp.path().join("ids.npy"), npy(&[ids.len() as u64], false, &ids)).unwrap();
    let nodes = uvatrain(temp.path(), ["info", "graph", "--json"]).run().succeeds().json()["nodes"].clone();
    let nodes = nodes.as_u64().unwrap();
    let mut mask = header("|b1", &[nodes], false);
    mask.extend((0..nodes as i64).map(|id| u8::from(ids.contains(&id))));
    fs::write(temp.path().join("mask.npy"), mask).unwrap();
    let of = |file: &str| {
        trained(temp.path(), &format!("{file}.jsonl"), &format!("--epochs 1 --input-nodes {file}"))
    };
    assert_eq!(of("ids.npy"), of("mask.npy"));
    let lines: Vec<String> = ids.iter().map(i64::to_string).collect();
    fs::write(temp.path().join("ids.txt"), lines.join("\n")).unwrap();
    assert_eq!(of("ids.npy"), of("ids.txt"));
}

#[test]
fn a_checkpoint_records_the_given_nodes() {
    let temp = directory();
    small_graph(temp.path());
    let mut ids = write_ids(temp.path());
    let kept = "--epochs 2 --checkpoint kept --resume --input-nodes ids.npy";
    let whole = trained(temp.path(), "whole.jsonl", "--epochs 2 --input-nodes ids.npy");
    train(temp.path(), "parts.jsonl", "--epochs 1 --checkpoint kept --input-nodes ids.npy").run().succeeds();
    train(temp.path(), "none.jsonl", "--epochs 2 --checkpoint kept --resume")
        .run()
        .refuses(2, &["input_nodes"]);
    assert_eq!(whole, trained(temp.path(), "parts.jsonl", kept));
    ids.swap(0, 1);
    fs::write(temp.path().join("ids.npy"), npy(&[ids.len() as u64], false, &ids)).unwrap();
    train(temp.path(), "other.jsonl", kept).run().refuses(2, &["input_nodes", "400 nodes"]);
}

#[test]
fn a_node_that_is_given_again_is_trained_on_again() {
    let temp = directory();
    small_graph(temp.path());
    let ids: Vec<i64> = write_ids(temp.path()).into_iter().flat_map(|id| [id, id]).collect();
    fs::write(temp.path().join("ids.npy"), npy(&[ids.len() as u64], false, &ids)).unwrap();
    let of = |metrics: &str, options: &str| {
        trained(temp.path(), metrics, &format!("--epochs 1 --input-nodes ids.npy {options}"))
    };
    let batches = of("one.jsonl", "");
    assert_eq!(batches.len(), ids.len().div_ceil(100));
    assert_eq!(batches, of("in.jsonl", "--in-process --samplers 2"));
    // Caches contain a row whenever it is requested.
    assert_eq!(batches, of("cached.jsonl", "--gpu-cache 100KiB --cache-policy degree"));
    assert_eq!(batches, of("lru.jsonl", "--gpu-cache 100KiB --cache-policy fifo"));
}

#[test]
fn nodes_that_cannot_be_end_with_code_2_and_the_place() {
    let temp = directory();
    small_graph(temp.path());
    let refused = |ids: &[i64], says: &str| {
        fs::write(temp.path().join("bad.npy"), npy(&[ids.len() as u64], false, ids)).unwrap();
        let command = train(temp.path(), "bad.jsonl", "--epochs 1 --input-nodes bad.npy");
        command.run().refuses(2, &["--input-nodes: bad.npy: ", says]);
        assert!(!temp.path().join("bad.jsonl").exists());
    };
    refused(&[], "there is no node in it");
    refused(&[3, -1], "entry 1 is -1, outside the ids 0 to");
    refused(&[3, 1 << 40], "entry 1 is 1099511627776, outside");
    let words = "bench pipeline graph --input-nodes bad.npy";
    uvatrain(temp.path(), words.split_whitespace()).run().refuses(2, &["entry 1 is 1099511627776, outside"]);
    run(temp.path(), "--input-nodes bad.npy", None, "attach").run().refuses(2, &["entry 1 is 1099511627776"]);
    fs::write(temp.path().join("bad.npy"), npy(&[2], false, &[1.0_f32, 2.0])).unwrap();
    let floats = train(temp.path(), "bad.jsonl", "--epochs 1 --input-nodes bad.npy").run();
    floats.refuses(2, &["bad.npy", "float32, it has to be int64 or int32"]);
    fs::write(temp.path().join("bad.txt"), "3\n-1\n").unwrap();
    let text = train(temp.path(), "bad.jsonl", "--epochs 1 --input-nodes bad.txt").run();
    text.refuses(2, &["--input-nodes: bad.txt: line 2 is -1, outside the ids 0 to"]);
    let absent = train(temp.path(), "bad.jsonl", "--epochs 1 --input-nodes nothing.npy").run();
    absent.refuses(2, &["nothing.npy"]);
}
