//! Values that an import would change or omit silently: each is reported or refused.

use uva_io::import::{EdgeList, ThirdColumn};

use super::*;

/// The files of an importer's small source, in `graph`, with these changed or added.
fn source(place: &Place, name: &str, changed: &[(&str, &[u8])]) {
    let source = sources::SOURCES.iter().find(|source| source.name == name).unwrap();
    let mut files = source.files().clone();
    files.extend(changed.iter().map(|&(name, bytes)| (name.to_owned(), bytes.to_vec())));
    sources::pack(&place.path("graph"), &files, zip::CompressionMethod::Stored);
}

fn said(notes: &[String], end: &str) {
    assert!(notes.iter().any(|note| note.ends_with(end)), "{end}: {notes:?}");
}

#[test]
fn numbers_that_float32_rounds_are_reported() {
    let place = Place::new();
    let edge_list = EdgeList { third_column: Some(ThirdColumn::Weight), ..EdgeList::default() };
    let weighted = ImportOptions { edge_list, ..Default::default() };
    place.write("graph.txt", "0 1 16777217\n1 2 1e-60\n2 0 0\n0 2 16777216\n1 0 0.1\n");
    said(
        &place.notes_of("edgelist", "graph.txt", &weighted),
        "graph.txt: 2 weights are rounded, or 0, as float32",
    );
    place.write(
        "graph.txt",
        "0 1 16777218\n1 2 0.0\n2 0 -0.3e1\n0 2 3.4e38\n1 0 340000000000000000000000000000000000000\n",
    );
    assert!(place.notes_of("edgelist", "graph.txt", &weighted).is_empty());

    let options = ImportOptions { symmetrise: Some(false.into()), ..Default::default() };
    source(&place, "ogb-text", &[("raw/node-feat.csv.gz", b"16777217,0\n1,1e-50\n3,4\n0.1,7\n")]);
    said(&place.notes_of("ogb", "graph", &options), "csv.gz: 2 features are rounded, or 0, as float32");

    let values = npy(NpyType::I64, &[], &[16_777_217_i64, 2, 3]);
    source(&place, "gnn-npz", &[("graph.npz/attr_data", &values)]);
    said(&place.notes("gnn-npz", "graph/graph.npz"), "attr_data.npy: int64 becomes float32");
}

#[test]
fn more_weights_than_lines_of_edges_are_refused() {
    let place = Place::new();
    let weight = "feature_data:\n  - {domain: edge, name: weight, format: numpy, path: weight.npy}\n";
    let metadata = graphbolt::METADATA.replace("feature_data:\n", weight);
    let plain = ImportOptions::default();
    for (weights, fits) in [(&[16_777_217_i64, 2, 3][..], true), (&[1, 2, 3, 4], false), (&[1, 2], false)] {
        graphbolt::write(&place, &metadata);
        place.npy("graph/weight.npy", NpyType::I64, &[], weights);
        if fits {
            said(&place.notes("graphbolt", "graph"), "weight.npy: int64 becomes float32");
        } else {
            let message = place.refusal("graphbolt", "graph", &plain);
            assert!(message.contains("weight.npy") && message.contains("one weight for each"), "{message}");
        }
    }
}

#[test]
fn a_symmetric_matrix_with_both_of_its_halves_is_refused() {
    let place = Place::new();
    let matrix = |entries: &str| {
        place.write(
            "graph.mtx",
            format!("%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n{entries}"),
        )
    };
    matrix("1 2\n1 1\n2 1\n");
    let message = place.refusal("edgelist", "graph.mtx", &ImportOptions::default());
    assert!(message.contains("line 5") && message.contains("on both sides of the diagonal"), "{message}");
    for half in ["2 1\n1 1\n3 1\n", "1 2\n1 1\n1 3\n"] {
        matrix(half);
        assert_eq!(place.import("edgelist", "graph.mtx", &ImportOptions::default()).unwrap().edges(), 5);
    }
}

#[test]
fn files_that_are_not_read_are_named() {
    let place = Place::new();
    source(&place, "npy", &[("edges.csv", b"0,1\n"), ("nodes.csv", b"id\n"), ("more.tsv.gz", b"x")]);
    let notes = place.notes("edgelist", "graph");
    said(&notes, "graph: nodes.csv is not read");
    said(&notes, "graph: more.tsv.gz is not read");

    let array = npy(NpyType::I64, &[], &[1_i64]);
    let added: [(&str, &[u8]); 2] =
        [("processed/author/node_feat.npy", &array), ("processed/paper__cites__paper/edge_feat.npy", &array)];
    source(&place, "igb", &added);
    let notes = place.notes("igb", "graph");
    said(&notes, "processed: author is not read");
    said(&notes, "paper__cites__paper: edge_feat.npy is not read");
}

#[test]
fn class_names_that_targets_drop_are_reported() {
    let place = Place::new();
    source(&place, "npy", &[("meta.json", br#"{"classes": 2, "class_names": ["a", "b"]}"#)]);
    let regression = ImportOptions { regression: Some(true.into()), ..Default::default() };
    let notes = place.notes_of("npy", "graph", &regression);
    said(&notes, "meta.json are dropped: targets of regression have none");
    assert!(place.notes("npy", "graph").iter().all(|note| !note.contains("dropped")));
}
