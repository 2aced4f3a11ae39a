//! `--from dgl-chunked`.

use serde_json::{Value, json};
use uva_graph::{NodeType, Relation, Split, TypedDataset};

use super::*;

fn chunks(format: &str, files: &[&str]) -> Value {
    json!({"format": {"name": format, "delimiter": " "}, "data": files})
}

/// Four nodes in two chunks, as DGL writes a graph of one type.
fn homogeneous(place: &Place) -> Value {
    place.write("graph/edge_index/0.txt", "3 0\n1 0\n");
    place.write("graph/edge_index/1.txt", "2 2\n");
    place.npy("graph/feat-0.npy", NpyType::F32, &[2], &[0_f32, 1.0, 2.0, 3.0, 4.0, 5.0]);
    place.npy("graph/feat-1.npy", NpyType::F32, &[2], &[6_f32, 7.0]);
    place.write("graph/label.csv", "1\n0\n2\n1\n");
    place.write("graph/train-0.csv", "True\nFalse\n");
    place.write("graph/train-1.csv", "False\nTrue\n");
    place.npy("graph/val.npy", NpyType::U8, &[], &[0_u8, 1, 0, 0]);
    place.npy("graph/test.npy", NpyType::U8, &[], &[0_u8, 0, 1, 0]);
    place.npy("graph/weight-0.npy", NpyType::F32, &[], &[0.5_f32, 1.5]);
    place.npy("graph/weight-1.npy", NpyType::F32, &[], &[2.5_f32]);
    json!({
        "graph_name": "tiny",
        "node_type": ["_N"],
        "num_nodes_per_chunk": [[2, 2]],
        "edge_type": ["_N:_E:_N"],
        "num_edges_per_chunk": [[2, 1]],
        "edges": {"_N:_E:_N": chunks("csv", &["edge_index/0.txt", "edge_index/1.txt"])},
        "node_data": {"_N": {
            "feat": chunks("numpy", &["feat-0.npy", "feat-1.npy"]),
            "label": chunks("csv", &["label.csv"]),
            "train_mask": chunks("csv", &["train-0.csv", "train-1.csv"]),
            "val_mask": chunks("numpy", &["val.npy"]),
            "test_mask": chunks("numpy", &["test.npy"]),
        }},
        "edge_data": {"_N:_E:_N": {"weight": chunks("numpy", &["weight-0.npy", "weight-1.npy"])}},
    })
}

fn describe(place: &Place, metadata: &Value) {
    place.write("graph/metadata.json", metadata.to_string());
}

#[test]
fn a_graph_of_one_type_becomes_a_dataset_with_its_chunks_in_order() {
    let place = Place::new();
    describe(&place, &homogeneous(&place));
    for source in ["graph", "graph/metadata.json"] {
        let dataset = place.import("dgl-chunked", source, &ImportOptions::default()).unwrap();
        assert_eq!(lists(&dataset), [vec![3, 1], vec![], vec![2], vec![]]);
        assert_eq!(dataset.name(), "tiny");
        assert_eq!(floats(&dataset), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        assert_eq!(labels(&dataset), [1, 0, 2, 1]);
        assert_eq!(Split::ALL.map(|split| dataset.split(split).to_vec()), [vec![0, 3], vec![1], vec![2]]);
    }
}

#[test]
fn the_estimate_is_reported_once_before_chunks_are_joined() {
    let place = Place::new();
    let metadata = homogeneous(&place);
    describe(&place, &metadata);
    let joined = || -> usize {
        let folders = names(place.directory.path()).into_iter().filter(|name| name != "graph");
        folders
            .map(|name| names(&place.path(&name)).iter().filter(|name| name.ends_with(".npy")).count())
            .sum()
    };
    let seen = std::cell::RefCell::new(Vec::new());
    let estimate = |estimate: &import::ImportEstimate| seen.borrow_mut().push((estimate.clone(), joined()));
    let estimates = |options: &ImportOptions| {
        let watch = ImportWatch { estimate: &estimate, ..ImportWatch::NONE };
        importer("dgl-chunked").run(&place.path("graph"), &place.path("out"), options, &watch).unwrap();
        fs::remove_dir_all(place.path("out")).unwrap();
        let seen = std::mem::take(&mut *seen.borrow_mut());
        let [(estimate, 0)] = &seen[..] else { panic!("{seen:?}") };
        (estimate.nodes, estimate.edges, estimate.disk, estimate.temporary)
    };
    // Joined: the ends of three edges, features, labels, one mask, weights.
    let temporary = 3 * 16 + 32 + 32 + 32 + 3 * 4;
    let disk = 32 + 32 + 32 + 4 + 4 + 4 * 8 + 3 * (4 + 4);
    assert_eq!(estimates(&ImportOptions::default()), (Some(4), Some(3), disk, temporary));
    // The same as a typed graph, with reverse edges and without the number of edges.
    let mut typed = metadata;
    let nodes = [("node_type", json!(["_N", "other"])), ("num_nodes_per_chunk", json!([[2, 2], [5, 0]]))];
    nodes.into_iter().for_each(|(key, value)| typed[key] = value);
    typed.as_object_mut().unwrap().remove("num_edges_per_chunk");
    describe(&place, &typed);
    let reverse = ImportOptions { reverse: Some(true.into()), ..ImportOptions::default() };
    assert_eq!(estimates(&reverse), (Some(9), Some(6), disk + 4 * 8 + 3 * (4 + 4), temporary));
}

#[test]
fn types_and_relations_have_their_arrays_and_the_target_has_masks() {
    let place = Place::new();
    place.npy("graph/writes-0.npy", NpyType::I32, &[2], &[1_i32, 2, 0, 2]);
    place.npy("graph/writes-1.npy", NpyType::I32, &[2], &[1_i32, 0]);
    place.write("graph/cites.txt", "0 1\n");
    place.write("graph/feat.csv", "0.5 1\n2 3\n4 5\n");
    place.npy("graph/mask-0.npy", NpyType::U8, &[], &[0_u8]);
    place.npy("graph/mask-1.npy", NpyType::U8, &[], &[1_u8, 1]);
    place.npy("graph/time.npy", NpyType::I64, &[], &[7_i64, 8, 9]);
    let metadata = json!({
        "node_type": ["author", "paper"],
        "num_nodes_per_chunk": [[2], [1, 2]],
        "edge_type": ["author:writes:paper", "paper:cites:paper"],
        "edges": {
            "author:writes:paper": chunks("numpy", &["writes-0.npy", "writes-1.npy"]),
            "paper:cites:paper": chunks("csv", &["cites.txt"]),
        },
        "node_data": {"paper": {
            "feat": chunks("csv", &["feat.csv"]),
            "train_mask": chunks("numpy", &["mask-0.npy", "mask-1.npy"]),
        }},
        "edge_data": {"author:writes:paper": {"time": chunks("numpy", &["time.npy"])}},
    });
    describe(&place, &metadata);
    let out = place.path("out");
    let options = ImportOptions::default();
    importer("dgl-chunked").run(&place.path("graph"), &out, &options, &ImportWatch::NONE).unwrap();
    let dataset = TypedDataset::open_verified(&out, Verify::FullWithFeatures).unwrap();
    let paper = NodeType(1);
    assert_eq!(dataset.target(), Some(paper));
    assert_eq!(dataset.split_of(paper, Split::Train), [1, 2]);
    let features: &[f32] = bytemuck::cast_slice(dataset.rows(paper).unwrap().bytes);
    assert_eq!(features, [0.5, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(dataset.lists(Relation(0)).indptr, [0, 1, 1, 3]);
    assert_eq!(dataset.edge_times(Relation(0)), Some(&[9, 7, 8][..]));
    assert_eq!(dataset.lists(Relation(1)).indptr, [0, 0, 1, 1]);
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_chunks_are_read_like_others() {
    use super::parquet::{Column, plain, table};
    let place = Place::new();
    let mut metadata = homogeneous(&place);
    let schema = "required int64 src_id; required int64 dst_id;";
    let edges = |ids: [&[i64]; 2]| table(schema, plain(), &[&ids.map(|ids| Column::Long(ids, &[]))]);
    place.write("graph/0.parquet", edges([&[3, 1], &[0, 0]]));
    place.write("graph/1.parquet", edges([&[2], &[2]]));
    metadata["edges"]["_N:_E:_N"] = chunks("parquet", &["0.parquet", "1.parquet"]);
    let columns = [Column::Float(&[0.0, 2.0, 4.0, 6.0]), Column::Float(&[1.0, 3.0, 5.0, 7.0])];
    let features = table("required float a; required float b;", plain(), &[&columns]);
    place.write("graph/feat.parquet", features);
    metadata["node_data"]["_N"]["feat"] = chunks("parquet", &["feat.parquet"]);
    describe(&place, &metadata);
    let dataset = place.import("dgl-chunked", "graph", &ImportOptions::default()).unwrap();
    assert_eq!(lists(&dataset), [vec![3, 1], vec![], vec![2], vec![]]);
    assert_eq!(floats(&dataset), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    place.write("graph/1.parquet", edges([&[2], &[4]]));
    let message = place.refusal("dgl-chunked", "graph", &ImportOptions::default());
    assert!(message.contains("1.parquet") && message.contains("it is 4, outside"), "{message}");
}

#[test]
fn faults_are_refused_with_the_chunk_and_what_to_do() {
    let place = Place::new();
    let metadata = homogeneous(&place);
    let refused = |change: &dyn Fn(&mut Value), expected: &[&str]| {
        let mut changed = metadata.clone();
        change(&mut changed);
        describe(&place, &changed);
        let message = place.refusal("dgl-chunked", "graph", &ImportOptions::default());
        assert!(expected.iter().all(|part| message.contains(part)), "{message}");
    };
    let edges = |metadata: &mut Value, value: Value| metadata["edges"]["_N:_E:_N"] = value;
    refused(
        &|of| edges(of, chunks("torch", &["a.pt"])),
        &["metadata.json", "expected csv, numpy or parquet"],
    );
    refused(&|of| edges(of, chunks("csv", &["gone.txt"])), &["gone.txt", "cannot open"]);
    refused(&|of| edges(of, chunks("csv", &["/gone/0.txt"])), &["/gone/0.txt", "give paths relative to it"]);
    place.write("elsewhere.txt", "0 0\n");
    refused(&|of| edges(of, chunks("csv", &["../elsewhere.txt"])), &["elsewhere.txt", "lies outside"]);
    refused(&|of| of["num_edges_per_chunk"] = json!([[2, 2]]), &["3 in its chunks", "has 4"]);
    refused(&|of| of["num_nodes_per_chunk"] = json!([[2, 3]]), &["feat of _N has 4 rows", "expected 5"]);
    refused(&|of| of["edge_type"] = json!(["_N:_E"]), &["'_N:_E'", "SOURCE:RELATION:DESTINATION"]);
    refused(&|of| of["edge_type"] = json!(["_N:_E:x"]), &["an end that is not a node_type: _N"]);
    let delimiter = |of: &mut Value| of["edges"]["_N:_E:_N"]["format"]["delimiter"] = json!(",");
    refused(&delimiter, &["0.txt", "line 1", "separated by ','"]);
    place.npy("graph/val.npy", NpyType::U8, &[], &[0_u8, 7, 0, 0]);
    refused(&|_| {}, &["val.npy", "7"]);
    place.write("graph/train-1.csv", "2\n0\n");
    place.npy("graph/val.npy", NpyType::U8, &[], &[0_u8, 1, 0, 0]);
    refused(&|_| {}, &["train-0.csv and 1 more", "2"]);
    place.npy("graph/feat-1.npy", NpyType::F64, &[2], &[6_f64, 7.0]);
    refused(&|_| {}, &["feat-1.npy", "as of the first chunk"]);
}
