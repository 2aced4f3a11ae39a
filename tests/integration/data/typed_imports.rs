//! Importers of typed graphs, driven as a program.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::arrays::npy;
use crate::support::{Outcome, directory, uvatrain};

fn run(directory: &Path, words: &str) -> Outcome {
    uvatrain(directory, words.split_whitespace()).run()
}

fn write(directory: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// The types with their nodes, and the relations with their edges, as `info --verify` reports them.
fn found(directory: &Path) -> [Value; 2] {
    let facts = run(directory, "info out --verify --json").succeeds().json();
    let of = |group: &str, count: &str| -> Value {
        let entry = |facts: &Value| {
            let name = match &facts["type"] {
                Value::Array(names) => {
                    json!(names.iter().map(|name| name.as_str().unwrap()).collect::<Vec<_>>().join(" "))
                }
                name => name.clone(),
            };
            json!([name, facts[count]])
        };
        facts[group].as_array().unwrap().iter().map(entry).collect()
    };
    [of("types", "nodes"), of("relations", "edges")]
}

#[test]
fn tables_of_types_and_relations_are_imported() {
    let temp = directory();
    write(temp.path(), "tables/nodes/paper.csv", "id,year,label\n10,1.5,x\n20,2,y\n");
    write(temp.path(), "tables/edges/author__writes__paper.csv", "src,dst\nann,20\nbob,10\nann,10\n");
    run(temp.path(), "import --from csv tables out --reverse").succeeds();
    let relations = json!([["author writes paper", 3], ["paper rev_writes author", 3]]);
    assert_eq!(found(temp.path()), [json!([["author", 2], ["paper", 2]]), relations]);
    write(temp.path(), "tables/edges/author__writes__paper.csv", "src,dst\nann,30\n");
    run(temp.path(), "import --from csv tables again")
        .refuses(2, &["author__writes__paper", "table of paper"]);
}

#[test]
fn igb_is_imported_with_all_types_and_as_mlperf_trains_it() {
    let temp = directory();
    let array = |name: &str, bytes: Vec<u8>| write(temp.path(), &format!("tiny/processed/{name}.npy"), bytes);
    array("paper/node_feat", npy(&[3, 2], false, &[0_f32; 6]));
    array("paper/node_label_19", npy(&[3], false, &[0_f32, 18.0, 3.0]));
    array("paper/node_label_2K", npy(&[3], false, &[2982_f32, 0.0, 3.0]));
    array("author/node_feat", npy(&[2, 2], false, &[0_f32; 4]));
    array("paper__cites__paper/edge_index", npy(&[2, 2], false, &[2_i64, 0, 1, 1]));
    array("paper__written_by__author/edge_index", npy(&[2, 2], false, &[2_i64, 1, 0, 1]));
    let said = run(temp.path(), "import --from igb tiny out").succeeds().stderr;
    assert!(said.contains("--variant typed reads all types and relations"), "{said}");
    fs::remove_dir_all(temp.path().join("out")).unwrap();
    run(temp.path(), "import --from igb tiny out --variant mlperf").succeeds();
    let relations =
        json!([["paper cites paper", 8], ["paper written_by author", 2], ["author rev_written_by paper", 2]]);
    assert_eq!(found(temp.path()), [json!([["paper", 3], ["author", 2]]), relations]);
    run(temp.path(), "import --from igb tiny again --variant mlperf --self-loops add")
        .refuses(2, &["--self-loops", "--variant typed"]);
    run(temp.path(), "import --from igb tiny again --variant mlperf --ids name").refuses(2, &["--ids"]);
}

#[test]
fn chunked_graphs_are_imported_with_their_types_and_changed_edges() {
    let temp = directory();
    let metadata = r#"{"node_type": ["paper", "author"], "num_nodes_per_chunk": [[2, 1], [2, 0]],
        "edge_type": ["author:writes:paper"], "edges": {"author:writes:paper":
            {"format": {"name": "csv", "delimiter": " "}, "data": ["writes0.txt", "writes1.txt"]}},
        "node_data": {"paper": {"feat": {"format": {"name": "numpy"}, "data": ["feat-0.npy", "feat-1.npy"]}}}}"#;
    write(temp.path(), "chunks/metadata.json", metadata);
    write(temp.path(), "chunks/writes0.txt", "0 2\n1 2\n");
    write(temp.path(), "chunks/writes1.txt", "1 0\n");
    write(temp.path(), "chunks/feat-0.npy", npy(&[2, 1], false, &[0.5_f32, 1.0]));
    write(temp.path(), "chunks/feat-1.npy", npy(&[1, 1], false, &[2.0_f32]));
    run(temp.path(), "import --from dgl-chunked chunks out --reverse").succeeds();
    let relations = json!([["author writes paper", 3], ["paper rev_writes author", 3]]);
    assert_eq!(found(temp.path()), [json!([["paper", 3], ["author", 2]]), relations]);
    write(temp.path(), "chunks/writes1.txt", "1 3\n");
    run(temp.path(), "import --from dgl-chunked chunks again")
        .refuses(2, &["writes1.txt", "line 1", "metadata.json has 3 of paper"]);
    assert!(!temp.path().join("again").exists());
}
