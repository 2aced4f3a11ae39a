//! Nodes that cannot be used for training or metrics: without a label, without a metric, with features that are not
//! numbers.

use std::fs;
use std::path::Path;

use uva_graph::npy::{NpyArray, NpyType};

use crate::support::arrays::npy;
use crate::support::runs::{small_graph, train};
use crate::support::{directory, uvatrain};

/// A split of the small graph.
fn split(graph: &Path, name: &str) -> Vec<i64> {
    let array = NpyArray::open(&graph.join(name)).unwrap();
    array.elements::<i64>(NpyType::I64).unwrap().to_vec()
}

/// Changes the classes of these nodes.
fn set_classes(graph: &Path, nodes: &[i64], class: impl Fn(i64) -> i64) {
    let array = NpyArray::open(&graph.join("label.npy")).unwrap();
    let mut classes = array.elements::<i64>(NpyType::I64).unwrap().to_vec();
    nodes.iter().for_each(|&node| classes[node as usize] = class(classes[node as usize]));
    let bytes = npy(&[classes.len() as u64], false, &classes);
    fs::write(graph.join("label.npy"), bytes).unwrap();
}

fn hop_set(directory: &Path) {
    uvatrain(directory, "propagate graph hops --hops 1".split(' ')).run().succeeds();
}

#[test]
fn training_on_unlabelled_nodes_is_refused_with_where_they_come_from() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let unlabelled = split(&graph, "test_idx.npy");
    set_classes(&graph, &unlabelled, |_| -1);
    let ids = npy(&[unlabelled.len() as u64], false, &unlabelled);
    fs::write(temp.path().join("ids.npy"), &ids).unwrap();
    for more in ["", "--in-process", "--eval full"] {
        let refused =
            train(temp.path(), "m.jsonl", &format!("--input-nodes ids.npy --checkpoint kept {more}")).run();
        refused.refuses(2, &["graph", "nodes of --input-nodes", "have no labels"]);
    }
    // One label is enough.
    let some = [&unlabelled[..], &split(&graph, "train_idx.npy")[..1]].concat();
    fs::write(temp.path().join("some.npy"), npy(&[some.len() as u64], false, &some)).unwrap();
    train(temp.path(), "m.jsonl", "--epochs 1 --input-nodes some.npy").run().succeeds();
    fs::write(graph.join("train_idx.npy"), &ids).unwrap();
    train(temp.path(), "m.jsonl", "--checkpoint kept").run().refuses(2, &["training nodes", "train_idx.npy"]);
    hop_set(temp.path());
    let line = "train hops --model sgc --epochs 1 --batch-size 100 --checkpoint kept";
    uvatrain(temp.path(), line.split(' ')).run().refuses(2, &["hops", "training nodes"]);
    assert!(!temp.path().join("kept").exists());
}

#[test]
fn early_stopping_without_validation_is_refused_and_no_metric_is_shown() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let valid = split(&graph, "valid_idx.npy");
    let patient = |says: &[&str]| {
        train(temp.path(), "m.jsonl", "--epochs 2 --patience 1")
            .run()
            .refuses(2, &[&["--patience 1"], says].concat());
        let outcome = train(temp.path(), "m.jsonl", "--epochs 1 --metric accuracy").run().succeeds();
        assert!(says.iter().all(|part| outcome.stderr.contains(part)), "{outcome}");
        assert!(outcome.stderr.contains("--metric accuracy"), "{outcome}");
    };
    set_classes(&graph, &valid, |_| -1);
    patient(&["no validation node has a label"]);
    fs::write(graph.join("valid_idx.npy"), npy::<i64>(&[0], false, &[])).unwrap();
    patient(&["no validation nodes"]);
    // Two classes, of which the validation nodes have one.
    fs::write(graph.join("valid_idx.npy"), npy(&[valid.len() as u64], false, &valid)).unwrap();
    let nodes: Vec<i64> = (0..4000).collect();
    set_classes(&graph, &nodes, |class| class.min(1));
    set_classes(&graph, &valid, |_| 1);
    fs::write(graph.join("meta.json"), r#"{"name": "two", "num_classes": 2}"#).unwrap();
    let of_curve = "--metric roc-auc --patience 1";
    train(temp.path(), "m.jsonl", of_curve)
        .run()
        .refuses(2, &["--patience 1", "all positive, or all negative"]);
    let outcome = train(temp.path(), "m.jsonl", "--epochs 1 --metric roc-auc").run().succeeds();
    assert!(outcome.stderr.contains("--metric roc-auc"), "{outcome}");
    set_classes(&graph, &valid[..1], |_| 0);
    let outcome = train(temp.path(), "m.jsonl", &format!("--epochs 1 {of_curve}")).run().succeeds();
    assert!(!outcome.stderr.contains("all positive"), "{outcome}");
}

#[test]
fn outputs_that_are_not_numbers_end_evaluation_and_prediction_by_node() {
    let temp = directory();
    let graph = small_graph(temp.path());
    train(temp.path(), "m.jsonl", "--epochs 1 --checkpoint kept").run().succeeds();
    let one = split(&graph, "test_idx.npy").into_iter().max().unwrap();
    let not_numbers = |file: &Path, row: usize, width: usize| {
        let mut bytes = fs::read(file).unwrap();
        let at = bytes.len() - (4000 - row) * width * 4;
        bytes[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
        fs::write(file, bytes).unwrap();
    };
    not_numbers(&graph.join("feat.npy"), one as usize, 24);
    fs::write(temp.path().join("one.npy"), npy(&[1], false, &[one])).unwrap();
    let named = format!("node {one} is not a finite number");
    for line in [
        "predict --allow-other-dataset --checkpoint kept graph --nodes one.npy --output p.npy",
        "predict --allow-other-dataset --checkpoint kept graph --nodes one.npy --eval sampled --output p.npy",
        "predict --allow-other-dataset --checkpoint kept graph --nodes one.npy --embeddings p.npy",
    ] {
        let outcome =
            uvatrain(temp.path(), line.split(' ')).run().refuses(1, &[&named, "info DATA --verify"]);
        assert!(!temp.path().join("p.npy").exists(), "{outcome}");
    }
    for line in [
        "evaluate --allow-other-dataset --checkpoint kept graph",
        "evaluate --allow-other-dataset --checkpoint kept graph --eval full",
    ] {
        uvatrain(temp.path(), line.split(' '))
            .run()
            .refuses(1, &["is not a finite number", "info DATA --verify"]);
    }
}
