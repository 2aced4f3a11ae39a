//! Typed graphs: what `info` shows of them, and the commands that refuse them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::arrays::{npy, six_nodes};
use crate::support::{Outcome, directory, uvatrain};

fn run(directory: &Path, words: &str) -> Outcome {
    uvatrain(directory, words.split_whitespace()).run()
}

/// Writes a graph of 4 papers, 3 authors, 2 institutions and 2 tags, the last of which nothing reads.
fn write_library(directory: &Path) {
    let write = |name: &str, bytes: Vec<u8>| {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    let lists = |relation: &str, indptr: &[i64], indices: &[i32]| {
        write(&format!("edges/{relation}/indptr.npy"), npy(&[indptr.len() as u64], false, indptr));
        write(&format!("edges/{relation}/indices.npy"), npy(&[indices.len() as u64], false, indices));
    };
    lists("author__writes__paper", &[0, 2, 2, 3, 4], &[0, 1, 2, 0]);
    lists("institution__employs__author", &[0, 1, 1, 3], &[0, 0, 1]);
    lists("paper__rev_writes__author", &[0, 2, 3, 4], &[0, 3, 0, 2]);
    write("edges/author__writes__paper/time.npy", npy::<i64>(&[4], false, &[5, 6, 1, 2]));
    write("edges/author__writes__paper/weight.npy", npy::<f32>(&[4], false, &[1.0; 4]));
    write("nodes/paper/feat.npy", npy::<f32>(&[4, 2], false, &[0.5; 8]));
    write("nodes/paper/label.npy", npy::<i64>(&[4], false, &[0, 1, -1, 1]));
    write("nodes/paper/train_idx.npy", npy::<i64>(&[2], false, &[3, 1]));
    write("nodes/paper/time.npy", npy::<i64>(&[4], false, &[2, -3, 4, 1]));
    write("nodes/paper/year.npy", npy::<i32>(&[4], false, &[2020; 4]));
    write("nodes/institution/feat.npy", npy::<u8>(&[2, 3], false, &[1; 6]));
    let meta = json!({
        "version": 2, "name": "lib", "target": "paper", "licence": "CC0",
        "nodes": [
            {"type": "paper", "num": 4}, {"type": "author", "num": 3}, {"type": "institution", "num": 2},
            {"type": "tag", "num": 2}
        ],
        "edges": [
            {"type": ["author", "writes", "paper"], "reverse": ["paper", "rev_writes", "author"], "order": "time"},
            {"type": ["institution", "employs", "author"]},
            {"type": ["paper", "rev_writes", "author"]}
        ]
    });
    write("meta.json", meta.to_string().into_bytes());
}

#[test]
fn info_shows_types_relations_and_what_batches_lack() {
    let temp = directory();
    write_library(&temp.path().join("lib"));
    let shown = run(temp.path(), "info lib --verify").succeeds().stdout;
    for line in [
        "version 2, 4 types, 3 relations",
        "tag is not reached from paper in 3 hops",
        "author has no features",
        "paper also has year.npy, not in batches",
        "institution__employs__author has no time: its entries are always visible",
        "author__writes__paper",
        "reverse paper__rev_writes__author",
        "2 / 0 / 0",
        "-3 to 4",
    ] {
        assert!(shown.contains(line), "{line}:\n{shown}");
    }
    let facts = run(temp.path(), "info lib --json").succeeds().json();
    let types: Vec<Value> =
        ["type", "nodes", "feature_dim", "feature_type", "hops_from_target", "classes", "labelled_nodes"]
            .map(|key| facts["types"].as_array().unwrap().iter().map(|facts| facts[key].clone()).collect())
            .into();
    assert_eq!(types[0], json!(["paper", "author", "institution", "tag"]));
    assert_eq!(
        types[1..4],
        [json!([4, 3, 2, 2]), json!([2, null, 3, null]), json!(["f32", null, "u8", null])]
    );
    assert_eq!(types[4..], [json!([0, 1, 2, null]), json!([2, 0, 0, 0]), json!([3, 0, 0, 0])]);
    assert_eq!(facts["types"][0]["splits"], json!({"train": 2, "valid": 0, "test": 0}));
    assert_eq!(facts["types"][0]["time"], json!({"min": -3, "max": 4}));
    let mut writes = facts["relations"][0].clone();
    assert_eq!(writes["average_degree"].take(), json!(1.0));
    let expected = json!({
        "type": ["author", "writes", "paper"], "edges": 4, "average_degree": null, "max_degree": 2, "empty_lists": 1,
        "weight": true, "time": {"min": 1, "max": 6}, "order": "time", "reverse": "paper__rev_writes__author",
        "feature_dim": null
    });
    assert_eq!(writes, expected);
    let sums = ["version", "layout", "target", "nodes", "edges", "licence", "feature_bytes", "graph_bytes"];
    let sums: Vec<_> = sums.map(|key| facts[key].clone()).into();
    // Three indptr of 5, 4 and 4 entries of 8 bytes, and 11 ids of 4 bytes.
    assert_eq!(json!(sums), json!([2, "relation", "paper", 11, 11, "CC0", 38, 13 * 8 + 11 * 4]));
    assert_eq!(facts["fingerprint"].as_str().unwrap().len(), 16);
}

#[test]
fn info_names_the_offsets_of_blocks_if_they_outnumber_the_edges() {
    let temp = directory();
    let library = temp.path().join("lib");
    write_library(&library);
    let note = "most lists of its relations are empty";
    let shown = run(temp.path(), "info lib").succeeds().stdout;
    assert!(!shown.contains(note), "10 lists, 11 edges:\n{shown}");
    fs::create_dir(library.join("edges/paper__about__tag")).unwrap();
    let arrays = [("indptr", npy::<i64>(&[3], false, &[0; 3])), ("indices", npy::<i32>(&[0], false, &[]))];
    for (name, bytes) in arrays {
        fs::write(library.join(format!("edges/paper__about__tag/{name}.npy")), bytes).unwrap();
    }
    let path = library.join("meta.json");
    let mut meta: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    meta["edges"].as_array_mut().unwrap().push(json!({"type": ["paper", "about", "tag"]}));
    fs::write(&path, meta.to_string()).unwrap();
    let shown = run(temp.path(), "info lib").succeeds().stdout;
    let line = format!("a layer of all nodes has 12 lists (48 B of offsets) and 11 edges: {note}");
    assert!(shown.contains(&line), "{shown}");
}

#[test]
fn commands_for_one_type_refuse_a_typed_graph() {
    let temp = directory();
    write_library(&temp.path().join("lib"));
    for words in ["batch lib", "export lib out --to edgelist", "partition lib out --parts 2"] {
        let wanted =
            ["lib/meta.json", "4 node types and 3 relations", "typed graphs are not supported here yet"];
        run(temp.path(), words).refuses(2, &wanted);
    }
    assert!(!temp.path().join("out").exists());
}

#[test]
fn a_typed_graph_is_imported_and_exported() {
    let temp = directory();
    write_library(&temp.path().join("lib"));
    run(temp.path(), "import --from npy lib mine --name lib").succeeds();
    let fingerprint = |name: &str| {
        run(temp.path(), &format!("info {name} --json")).succeeds().json()["fingerprint"].clone()
    };
    assert_eq!(fingerprint("lib"), fingerprint("mine"));
    for format in ["npy", "graphbolt"] {
        run(temp.path(), &format!("export mine {format} --to {format}")).succeeds();
        assert!(temp.path().join(format).join("edges/author__writes__paper/edge_index.npy").exists());
        run(temp.path(), &format!("import --from {format} {format} again-{format} --name lib")).succeeds();
        assert_eq!(fingerprint("lib"), fingerprint(&format!("again-{format}")));
    }
}

#[test]
fn options_of_an_import_name_relations_and_types() {
    let temp = directory();
    write_library(&temp.path().join("lib"));
    let refused = |options: &str, says: &str| {
        run(temp.path(), &format!("import --from npy lib out {options}")).refuses(2, &[says]);
    };
    refused("--dedup=writs", "--dedup: there is no relation \"writs\", did you mean \"writes\"?");
    refused(
        "--self-loops add=writes",
        "--self-loops: author__writes__paper leads from one node type to another",
    );
    refused("--self-loops more", "expected keep, add or remove");
    refused("--feat-dtype e4m3=papr", "--feat-dtype: there is no node type \"papr\"");
    refused("--feat-dtype f16", "expected e4m3, or e4m3 and names");
    run(temp.path(), "import --from npy lib out --feat-dtype e4m3=paper").succeeds();
    let facts = run(temp.path(), "info out --json").succeeds().json();
    let elements: Vec<_> = facts["types"].as_array().unwrap().iter().map(|of| &of["feature_type"]).collect();
    assert_eq!(elements.iter().filter(|element| **element == "e4m3").count(), 1, "{elements:?}");
}

#[test]
fn info_of_format_1_is_unchanged() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    let mut facts = run(temp.path(), "info six --json").succeeds().json();
    let facts = facts.as_object_mut().unwrap();
    for varies in ["verification", "files_in_memory"] {
        assert!(facts.shift_remove(varies).is_some(), "{varies}");
    }
    let expected = r#"{"name":"six","path":"six","nodes":6,"edges":8,"average_degree":1.3333333333333333,"max_degree":3,"isolated_nodes":1,"reordered":false,"feature_dim":3,"feature_type":"f32","feature_row_bytes":12,"classes":2,"multi_label":false,"labelled_nodes":5,"splits":{"train":2,"valid":1,"test":2},"memory_bytes":248,"graph_bytes":88,"feature_bytes":72,"fingerprint":"14b148de4581b2ec"}"#;
    assert_eq!(serde_json::to_string(facts).unwrap(), expected);
}

#[test]
fn generate_makes_typed_graphs_by_preset_and_by_kind() {
    let temp = directory();
    run(temp.path(), "generate mag --preset mag --scale 0.002 --feat-dim 4").succeeds();
    let facts = run(temp.path(), "info mag --verify --json").succeeds().json();
    let nodes: Vec<_> =
        facts["types"].as_array().unwrap().iter().map(|facts| facts["nodes"].clone()).collect();
    assert_eq!(json!(nodes), json!([1473, 2270, 17, 120]));
    assert_eq!((&facts["target"], &facts["types"][0]["feature_dim"]), (&json!("paper"), &json!(4)));
    assert_eq!(facts["relations"].as_array().unwrap().len(), 7);
    run(
        temp.path(),
        "generate igbh --preset igbh-tiny --scale 0.02 --feat-dim 4 --feat-dtype f16 --classes 40",
    )
    .succeeds();
    let facts = run(temp.path(), "info igbh --verify --json").succeeds().json();
    let of_types = |key: &str| -> Vec<Value> {
        facts["types"].as_array().unwrap().iter().map(|facts| facts[key].clone()).collect()
    };
    assert_eq!(json!(of_types("nodes")), json!([2000, 7141, 175, 1684, 162, 8]));
    assert_eq!(json!(of_types("feature_type")), json!(vec!["f16"; 6]));
    assert_eq!(
        (&facts["types"][0]["classes"], facts["relations"].as_array().unwrap().len()),
        (&json!(40), 11)
    );
    let words =
        "generate typed --kind typed --nodes 3000 --avg-degree 20 --feat-dim 8 --classes 6 --featureless";
    let said = run(temp.path(), words).succeeds().stderr;
    for sees in ["both relations is right for 9", "has alone is right for 4", "buys alone is right for 3"] {
        assert!(said.contains(&format!("the best possible classifier that sees {sees}")), "{sees}:\n{said}");
    }
    let facts = run(temp.path(), "info typed --json").succeeds().json();
    assert_eq!(facts["types"][2]["feature_dim"], json!(null), "users are featureless");
    run(temp.path(), "generate other --kind typed --nodes 3000 --classes 7")
        .refuses(2, &["--classes", "7 is not a product"]);
    run(temp.path(), "generate other --nodes 3000 --featureless").refuses(2, &["--featureless", "typed"]);
}
