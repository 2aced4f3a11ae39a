//! `uvatrain batch`: its batches are those of the test vectors and of runs.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::arrays::npy;
use crate::support::command::{self, recorded};
use crate::support::runs::small_graph;
use crate::support::{Outcome, directory, uvatrain};

fn run(directory: &Path, words: &str) -> Outcome {
    uvatrain(directory, words.split_whitespace()).run()
}

fn integers(array: &Value) -> Vec<i64> {
    array.as_array().expect("an array").iter().map(|entry| entry.as_i64().expect("an integer")).collect()
}

/// Writes a graph of the test vectors as a dataset with three features a node. Returns the options that select its
/// nodes: a file of a dataset has each node once, and `--input-nodes` may repeat nodes.
fn write_graph(case: &Value, directory: &Path) -> String {
    fs::create_dir(directory).unwrap();
    let write = |name: &str, bytes: Vec<u8>| fs::write(directory.join(name), bytes).unwrap();
    let ids = |name: &str, ids: &[i64]| write(name, npy(&[ids.len() as u64], false, ids));
    let (indptr, indices) = (integers(&case["indptr"]), integers(&case["indices"]));
    let nodes = indptr.len() as u64 - 1;
    ids("indptr.npy", &indptr);
    match case["indices_dtype"].as_str().unwrap() {
        "int64" => ids("indices.npy", &indices),
        _ => {
            let narrow: Vec<i32> = indices.iter().map(|&id| id as i32).collect();
            write("indices.npy", npy(&[indices.len() as u64], false, &narrow));
        }
    }
    write("feat.npy", npy::<f32>(&[nodes, 3], false, &vec![0.5; 3 * nodes as usize]));
    if !case["orig_id"].is_null() {
        ids("orig_id.npy", &integers(&case["orig_id"]));
    }
    if !case["weight_bits"].is_null() {
        let bits = integers(&case["weight_bits"]);
        let weights: Vec<f32> = bits.iter().map(|&bits| f32::from_bits(bits as u32)).collect();
        write("weight.npy", npy(&[weights.len() as u64], false, &weights));
    }
    let mut options = String::new();
    for split in ["train", "valid", "test"] {
        let of_split = case["splits"].get(split).map(integers).unwrap_or_default();
        let mut once = of_split.clone();
        once.sort_unstable();
        once.dedup();
        if once.len() < of_split.len() {
            assert_eq!(split, "train");
            ids("input.npy", &of_split);
            options = format!("--input-nodes {}/input.npy", directory.file_name().unwrap().display());
        }
        let listed = if once.len() < of_split.len() { &[] } else { &of_split[..] };
        ids(&format!("{split}_idx.npy"), listed);
    }
    options
}

/// The options of a graph of the test vectors as words.
fn words(case: &Value) -> String {
    let (options, text) = (&case["options"], |value: &Value| value.to_string().replace('"', ""));
    let fanouts: Vec<String> = integers(&options["fanouts"]).iter().map(i64::to_string).collect();
    let mut words = format!("--fanouts={} --batch-size {}", fanouts.join(","), case["batch_size"]);
    for (name, value) in options.as_object().unwrap() {
        match name.as_str() {
            "fanouts" | "edge_ids" => {}
            "replace" => words += if value == true { " --replace" } else { "" },
            "kind" => words += &format!(" --sampler-kind {}", text(value)),
            "walks" => {
                let [count, length, stop] = ["count", "length", "stop"].map(|name| &value[name]);
                words += &format!(" --walks {count} --walk-length {length} --walk-stop {stop}");
            }
            name => words += &format!(" --{} {}", name.replace('_', "-"), text(value)),
        }
    }
    words
}

#[test]
fn batches_equal_the_test_vectors_of_every_graph() {
    let temp = directory();
    let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/test-vectors.json");
    let vectors: Value = serde_json::from_str(&fs::read_to_string(vectors).unwrap()).unwrap();
    let mut compared = 0;
    for (number, case) in vectors["graphs"].as_array().unwrap().iter().enumerate() {
        let name = format!("graph-{number}");
        let nodes = write_graph(case, &temp.path().join(&name));
        for expected in case["batches"].as_array().unwrap() {
            let [epoch, batch] = ["epoch", "batch"].map(|name| expected[name].as_u64().unwrap() + 1);
            let split = expected["split"].as_str().unwrap();
            let seeds = if nodes.is_empty() { format!("--split {split}") } else { nodes.clone() };
            let line =
                format!("batch {name} {seeds} --epoch {epoch} --number {batch} {} --json --ids", words(case));
            let found = run(temp.path(), &line).succeeds().json();
            for name in ["split", "epoch", "batch", "hash", "seeds"] {
                assert_eq!(found[name], expected[name], "{name}: {line}");
            }
            let input_nodes = integers(&expected["nodes"]);
            assert_eq!(found["ids"]["input_nodes"], expected["nodes"], "{line}");
            let first = &input_nodes[..expected["seeds"].as_u64().unwrap() as usize];
            assert_eq!(integers(&found["ids"]["seeds"]), first, "{line}");
            assert_eq!(found["input_nodes"], input_nodes.len(), "{line}");
            assert_eq!(found["feature_bytes"], 12 * input_nodes.len(), "{line}");
            let blocks = expected["blocks"].as_array().unwrap();
            assert_eq!(found["layers"].as_array().unwrap().len(), blocks.len(), "{line}");
            for (layer, block) in blocks.iter().enumerate() {
                let (counts, arrays) = (&found["layers"][layer], &found["ids"]["layers"][layer]);
                for name in ["destinations", "sources"] {
                    assert_eq!(counts[name], block[name], "{name} of layer {layer}: {line}");
                }
                for name in ["indptr", "indices"] {
                    assert_eq!(arrays[name], block[name], "{name} of layer {layer}: {line}");
                }
                assert_eq!(counts["edges"], integers(&block["indices"]).len(), "{line}");
                let weights = arrays["weights"].as_array().into_iter().flatten();
                let bits: Vec<i64> =
                    weights.map(|weight| i64::from((weight.as_f64().unwrap() as f32).to_bits())).collect();
                let weighs = block.get("weight_bits").map(integers).unwrap_or_default();
                assert_eq!(bits, weighs, "weights of layer {layer}: {line}");
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 180);
}

#[test]
fn batches_equal_those_of_a_run_in_every_pass_and_order() {
    let temp = directory();
    small_graph(temp.path());
    for options in
        ["--seed 3", "--seed-order proximity:2 --drop-last", "--batch-dependency 4 --seed-order segments:70"]
    {
        let steps = "attach; take 3; pass train 1; pass valid 1; pass test 0";
        command::run(temp.path(), options, None, steps).run().succeeds();
        let batches = recorded(temp.path());
        fs::remove_file(temp.path().join(command::RECORD)).unwrap();
        let mut last = Vec::new();
        for (split, epoch, number, hash) in batches {
            let line = format!(
                "batch graph --fanouts 5,4 --batch-size 100 {options} --split {split} --epoch {} --number {}",
                epoch + 1,
                number + 1
            );
            let found = run(temp.path(), &format!("{line} --json")).succeeds().json();
            assert_eq!(found["hash"], *hash, "{line}");
            assert!(found.get("ids").is_none(), "{line}");
            last.push((split, number + 1, found["batches"].as_u64().unwrap()));
        }
        // The passes went through whole epochs.
        for split in ["train", "valid", "test"] {
            assert!(last.iter().any(|(of, number, batches)| of == split && number == batches), "{last:?}");
        }
    }
}

#[test]
fn text_for_people_counts_from_one_as_messages_do() {
    let temp = directory();
    small_graph(temp.path());
    let line = "batch graph --fanouts 5,4 --batch-size 100 --epoch 3 --number 2";
    let json = run(temp.path(), &format!("{line} --json")).succeeds().json();
    assert_eq!((&json["epoch"], &json["batch"]), (&2.into(), &1.into()));
    let text = run(temp.path(), line).succeeds().stdout;
    let layer = &json["layers"][1];
    assert!(layer["edges"].as_u64().unwrap() < 4000, "{json}");
    for fact in [
        format!("train batch 2 of epoch 3 ({} batches)", json["batches"]),
        json["hash"].as_str().unwrap().to_owned(),
        "layer 0       100 destinations".to_owned(),
    ] {
        assert!(text.contains(&fact), "{fact}: {text}");
    }
}

#[test]
fn a_batch_that_is_not_there_or_cannot_be_made_is_refused() {
    let temp = directory();
    let at = temp.path();
    run(at, "generate graph --nodes 200 --avg-degree 6 --feat-dim 4 --classes 3").succeeds();
    let count = |options: &str| {
        let line = format!("batch graph --fanouts 2 {options} --json");
        run(at, &line).succeeds().json()["batches"].as_u64().unwrap()
    };
    let batches = count("--batch-size 30");
    run(at, &format!("batch graph --fanouts 2 --batch-size 30 --number {batches}")).succeeds();
    let beyond = format!("batch graph --fanouts 2 --batch-size 30 --number {}", batches + 1);
    run(at, &beyond).refuses(2, &["--number", "train split", &format!("{batches} batches")]);
    let whole = count("--batch-size 30 --drop-last");
    assert_eq!(whole + 1, batches);
    run(at, &format!("batch graph --fanouts 2 --batch-size 30 --drop-last --number {batches}"))
        .refuses(2, &["--number", &format!("{whole} batches")]);
    run(at, "batch graph --fanouts 2 --batch-size 5000 --drop-last").refuses(2, &["--drop-last", "5000"]);

    for (words, parts) in [
        ("batch graph --epoch 0", ["--epoch", "0"]),
        ("batch graph --number 0", ["--number", "0"]),
        ("batch graph --split all", ["--split", "valid"]),
        ("batch graph --ids", ["--ids", "--json"]),
        ("batch graph --split valid --input-nodes ids.npy", ["--split", "--input-nodes"]),
        ("batch graph --walks 3", ["--walks", "--sampler-kind"]),
        ("batch graph --sampler-kind weighted", ["weighted", "weight.npy"]),
        ("batch nothing", ["nothing", "No such file"]),
    ] {
        run(at, words).refuses(2, &parts);
    }
    run(at, "propagate graph hops --hops 1").succeeds();
    run(at, "batch hops").refuses(2, &["hops.json", "hop set"]);
    run(at, "partition graph parts --parts 2 --method range --hops 2 --write-parts").succeeds();
    run(at, "batch parts/part-1 --fanouts 3,2").succeeds();
    run(at, "batch parts/part-1 --fanouts 3,2,2").refuses(2, &["--fanouts", "2 in-hops"]);
    fs::write(at.join("graph/test_idx.npy"), npy::<i64>(&[0], false, &[])).unwrap();
    run(at, "batch graph --split test").refuses(2, &["test_idx.npy", "empty"]);
}
