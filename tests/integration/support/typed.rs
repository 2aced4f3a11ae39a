//! Typed graphs for tests: a generated one, and those of the committed test vectors.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use uva_graph::npy::{NpyType, write_array};

use super::uvatrain;

/// Writes a graph of four node types and seven relations, of which papers have features.
pub fn write_mag(directory: &Path) {
    let words = "generate graph --preset mag --scale 0.002 --feat-dim 4";
    uvatrain(directory, words.split(' ')).run().succeeds();
}

/// The typed part of the committed test vectors.
fn vectors() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/test-vectors.json");
    let vectors: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    vectors["typed"].clone()
}

pub fn integers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|value| value.as_i64().unwrap()).collect()
}

/// Writes a graph of the vectors as a dataset of format 2, with the training nodes of a case.
fn write_dataset(at: &Path, graph: &Value, case: &Value) {
    let entries = |value: &Value| value.as_array().unwrap().clone();
    let save = |name: String, kind, values: &[i64]| {
        let path = at.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_array(&path, kind, &[], values).unwrap();
    };
    let (nodes, edges) = (entries(&graph["nodes"]), entries(&graph["edges"]));
    for (node, train) in nodes.iter().zip(entries(&case["splits"]["train"])) {
        let directory = format!("nodes/{}", node["type"].as_str().unwrap());
        fs::create_dir_all(at.join(&directory)).unwrap();
        if !integers(&train).is_empty() {
            save(format!("{directory}/train_idx.npy"), NpyType::I64, &integers(&train));
        }
        if !node["orig_id"].is_null() {
            save(format!("{directory}/orig_id.npy"), NpyType::I64, &integers(&node["orig_id"]));
        }
    }
    for edge in &edges {
        let names: Vec<&str> =
            edge["type"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        let directory = format!("edges/{}", names.join("__"));
        save(format!("{directory}/indptr.npy"), NpyType::I64, &integers(&edge["indptr"]));
        save(format!("{directory}/indices.npy"), NpyType::I64, &integers(&edge["indices"]));
    }
    let meta = json!({
        "version": 2,
        "target": nodes[0]["type"],
        "nodes": nodes.iter().map(|node| json!({"type": node["type"], "num": node["num"]})).collect::<Vec<_>>(),
        "edges": edges.iter().map(|edge| json!({"type": edge["type"]})).collect::<Vec<_>>(),
    });
    fs::write(at.join("meta.json"), meta.to_string()).unwrap();
}

/// The named case.
pub fn case_of(name: &str) -> Value {
    let vectors = vectors();
    let cases = vectors["cases"].as_array().unwrap();
    cases.iter().find(|case| case["name"] == name).expect("a case of the vectors").clone()
}

/// The dataset of the named case in `data`.
pub fn dataset_of(name: &str, at: &Path) -> Value {
    let (vectors, case) = (vectors(), case_of(name));
    write_dataset(at, &vectors["graphs"][case["graph"].as_u64().unwrap() as usize], &case);
    case
}
