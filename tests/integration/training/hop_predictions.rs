//! Tests of `predict` and `evaluate` with a model of a hop set.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use uva_graph::npy::{NpyArray, NpyType};

use crate::support::arrays::npy;
use crate::support::runs::small_graph;
use crate::support::{Uvatrain, directory, uvatrain};

fn call(directory: &Path, line: &str) -> Uvatrain {
    uvatrain(directory, line.split_whitespace())
}

fn integers(path: &Path) -> Vec<i64> {
    NpyArray::open(path).unwrap().elements::<i64>(NpyType::I64).unwrap().to_vec()
}

/// The graph, and hop sets of it: in both layouts, and of all its nodes.
fn sets(directory: &Path) {
    small_graph(directory);
    for (name, options) in
        [("hops", ""), ("rows", "--layout rows"), ("all", "--nodes all"), ("shorter", "--hops 2")]
    {
        call(directory, &format!("propagate graph {name} {options}")).run().succeeds();
    }
}

fn train(directory: &Path, options: &str) -> Value {
    let line = "--batch-size 100 --hidden 16 --lr 0.02 --epochs 3 --train-threads 1 --in-process --json";
    call(directory, &format!("train {line} {options}")).run().succeeds().json()
}

#[test]
fn rows_are_evaluated_and_predicted_as_training_tested_in_both_layouts() {
    let temp = directory();
    sets(temp.path());
    let test = integers(&temp.path().join("graph/test_idx.npy"));
    let labels = integers(&temp.path().join("graph/label.npy"));
    for (model, options) in
        [("sgc", "--use-hops 2"), ("s2gc", ""), ("sign", "--layers 3"), ("hoga", "--heads 2")]
    {
        let mut answers = Vec::new();
        for set in ["hops", "rows"] {
            let kept = format!("{model}-{set}");
            let end = train(temp.path(), &format!("{set} --model {model} {options} --checkpoint {kept}"));
            let line = format!("evaluate {set} --checkpoint {kept} --threads 1 --json");
            let told = call(temp.path(), &line).run().succeeds().json();
            assert_eq!(told["test"]["accuracy"], end["test_accuracy"], "{model}: {told} {end}");
            assert_eq!(told["valid"]["accuracy"], end["best_valid_accuracy"], "{model}: {told} {end}");
            assert_eq!((&told["epoch"], &told["kept"]), (&end["test_epoch"], &"best".into()), "{told} {end}");
            let line = format!("predict {set} --checkpoint {kept} --threads 1 --overwrite --json");
            let files = "--output c.npy --probabilities p.npy --ids i.npy";
            let said = call(temp.path(), &format!("{line} {files} --nodes test")).run().succeeds().json();
            assert_eq!(said["rows"], test.len(), "{said}");
            let file = |name: &str| temp.path().join(name);
            assert_eq!(integers(&file("i.npy")), test, "rows of a split are in the order of its file");
            let classes = integers(&file("c.npy"));
            let right =
                test.iter().zip(&classes).filter(|(id, class)| labels[**id as usize] == **class).count();
            assert_eq!(Some(right as f64 / test.len() as f64), end["test_accuracy"].as_f64(), "{model}");
            let bytes = ["c.npy", "p.npy"].map(|name| fs::read(file(name)).unwrap());
            answers.push((bytes, told["train"].clone(), told["test"].clone()));
        }
        assert_eq!(answers[0], answers[1], "{model}: both layouts");
    }
}

#[test]
fn every_row_and_any_nodes_are_answered_about_by_their_ids_in_the_dataset() {
    let temp = directory();
    sets(temp.path());
    train(temp.path(), "all --model sign --checkpoint kept");
    let line = "predict all --checkpoint kept --threads 1 --output c.npy --ids i.npy --overwrite";
    let answered = |nodes: &str| {
        call(temp.path(), &format!("{line} {nodes}")).run().succeeds();
        (integers(&temp.path().join("i.npy")), integers(&temp.path().join("c.npy")))
    };
    let (ids, classes) = answered("");
    assert_eq!(ids, integers(&temp.path().join("all/node_idx.npy")));
    assert_eq!(ids.len(), 4000);
    let of_node: BTreeMap<i64, i64> = ids.into_iter().zip(classes).collect();
    // Any order, and a node twice; and a mask, which names them by id.
    let wanted = [3999_i64, 7, 7, 0, 1234];
    fs::write(temp.path().join("some.npy"), npy(&[5], false, &wanted)).unwrap();
    assert_eq!(answered("--nodes some.npy"), (wanted.to_vec(), wanted.map(|id| of_node[&id]).to_vec()));
    // Another batch size, and so several batches, gives the same answers.
    assert_eq!(answered("--nodes some.npy --batch-size 2").0, wanted);
    let train = integers(&temp.path().join("graph/train_idx.npy"));
    let (mut ids, classes) = answered("--nodes train --batch-size 1000");
    assert!(ids.iter().zip(&classes).all(|(id, class)| of_node[id] == *class));
    let mut expected = train;
    ids.sort_unstable();
    expected.sort_unstable();
    assert_eq!(ids, expected);
}

#[test]
fn models_and_hop_sets_that_do_not_fit_each_other_are_refused_by_name() {
    let temp = directory();
    sets(temp.path());
    train(temp.path(), "hops --model sign --checkpoint kept");
    let blocks =
        "train graph --fanouts 3,2 --hidden 8 --epochs 1 --in-process --device cpu --checkpoint of-graph";
    call(temp.path(), blocks).run().succeeds();
    for command in ["evaluate", "predict"] {
        let refuse = |line: &str, parts: &[&str]| {
            call(temp.path(), &format!("{command} {line}")).run().refuses(2, parts);
        };
        refuse("graph --checkpoint kept", &["--checkpoint kept", "--model sign", "graph is a dataset"]);
        refuse("hops --checkpoint of-graph", &["--checkpoint of-graph", "--model sage", "hops is a hop set"]);
        refuse("shorter --checkpoint kept", &["--checkpoint kept", "another dataset", "shorter"]);
        refuse("hops --checkpoint kept --eval sampled", &["--eval sampled", "hop set"]);
        refuse("hops --checkpoint kept --device cuda:0", &["--device", "hop set"]);
        refuse("hops --checkpoint nowhere", &["--checkpoint nowhere", "checkpoint.json"]);
    }
    // Without labels, only the hops that a model reads are required.
    fs::remove_file(temp.path().join("graph/label.npy")).unwrap();
    call(temp.path(), "propagate graph unlabelled").run().succeeds();
    call(temp.path(), "propagate graph unlabelled2 --hops 2").run().succeeds();
    let said = call(temp.path(), "predict unlabelled --checkpoint kept --json").run().succeeds().json();
    assert!(said["rows"].as_u64().unwrap() > 0, "{said}");
    fs::remove_file(temp.path().join("predictions.npy")).unwrap();
    let refused = call(temp.path(), "predict unlabelled2 --checkpoint kept").run();
    refused.refuses(2, &["--checkpoint kept", "requires 3 hops", "the hop set has 2"]);
    let refuse = |line: &str, parts: &[&str]| {
        call(temp.path(), &format!("predict hops --checkpoint kept {line}")).run().refuses(2, parts);
    };
    refuse("--embeddings e.npy", &["--embeddings", "hop sets"]);
    fs::write(temp.path().join("none.txt"), "99999\n").unwrap();
    refuse("--nodes none.txt", &["--nodes: none.txt", "no row of node 99999", "propagate --nodes all"]);
    assert!(!temp.path().join("predictions.npy").exists() && !temp.path().join("e.npy").exists());
}
