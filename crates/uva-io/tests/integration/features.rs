//! Every importer's treatment of features, weights and labels that a dataset cannot store unchanged.

use super::*;

/// The message about a source whose features hold `value` at row 1, column 1 (of two columns, four nodes or more).
fn refused(format: &str, value: f32) -> String {
    let place = Place::new();
    let plain = ImportOptions::default();
    let table = |rows: usize| -> Vec<f32> {
        (0..2 * rows).map(|at| if at == 3 { value } else { at as f32 }).collect()
    };
    match format {
        "npy" | "edgelist" => {
            place.npy("graph/feat.npy", NpyType::F32, &[2], &table(4));
            place.npy("graph/label.npy", NpyType::I64, &[], &[0_i64, 1, 0, 1]);
            place.npy("graph/src.npy", NpyType::I64, &[], &[0_i64]);
            place.npy("graph/dst.npy", NpyType::I64, &[], &[1_i64]);
            place.write("graph/edges.txt", "0 1\n");
            for split in ["train", "valid", "test"] {
                place.npy(&format!("graph/{split}_idx.npy"), NpyType::I64, &[], &[0_i64]);
            }
            place.refusal(format, "graph", &plain)
        }
        "graphbolt" => {
            graphbolt::write(&place, graphbolt::METADATA);
            place.npy("graph/node-feat.npy", NpyType::F32, &[2], &table(4));
            place.refusal(format, "graph", &plain)
        }
        "igb" => {
            igb::write(&place);
            place.npy("tiny/processed/paper/node_feat.npy", NpyType::F32, &[2], &table(5));
            place.refusal(format, "tiny", &plain)
        }
        "ogb" => {
            ogb::text_layout(&place, "ogbn_arxiv", "time");
            let rows: Vec<String> =
                table(4).chunks(2).map(|row| format!("{},{}\n", row[0], row[1])).collect();
            place.write("ogbn_arxiv/raw/node-feat.csv.gz", gz(&rows.concat()));
            place.refusal(format, "ogbn_arxiv", &plain)
        }
        "gnn-npz" => {
            let rows = [0_i32, 1, 2, 2, 2];
            let members = [
                ("adj_data", npy(NpyType::F32, &[], &[1_f32, 1.0])),
                ("adj_indices", npy(NpyType::I32, &[], &[1_i32, 0])),
                ("adj_indptr", npy(NpyType::I32, &[], &rows)),
                ("adj_shape", npy(NpyType::I64, &[], &[4_i64, 4])),
                ("attr_data", npy(NpyType::F32, &[], &[1_f32, value])),
                ("attr_indices", npy(NpyType::I32, &[], &[0_i32, 1])),
                ("attr_indptr", npy(NpyType::I32, &[], &rows)),
                ("attr_shape", npy(NpyType::I64, &[], &[4_i64, 2])),
                ("labels", npy(NpyType::I64, &[], &[0_i64, 1, 0, 1])),
            ];
            place.write("graph.npz", npz(&members, true));
            place.refusal(format, "graph.npz", &plain)
        }
        "planetoid" => {
            foreign::planetoid(&place);
            let file = "graph/ind.fuzz.allx";
            let mut bytes = fs::read(place.path(file)).unwrap();
            // Both rows have a one: in column 1, and in column 0.
            let one = 1_f32.to_le_bytes();
            let second = bytes.windows(8).position(|window| window == [one, one].concat()).unwrap() + 4;
            bytes[second..second + 4].copy_from_slice(&value.to_le_bytes());
            place.write(file, bytes);
            place.refusal(format, "graph", &plain)
        }
        other => panic!("this test requires a case for features of {other}"),
    }
}

#[test]
fn every_importer_refuses_features_that_are_not_finite_by_row_and_column() {
    let all = [
        ("npy", "feat.npy: row 1, column 1, at offset 140"),
        ("edgelist", "feat.npy: row 1, column 1, at offset 140"),
        ("graphbolt", "node-feat.npy: row 1, column 1, at offset 140"),
        ("igb", "node_feat.npy: row 1, column 1, at offset 140"),
        ("ogb", "node-feat.csv.gz: line 2 is '2,"),
        ("gnn-npz", "graph.npz/attr_data.npy: row 1, column 1,"),
        ("planetoid", "ind.fuzz.allx: row 1, column 0,"),
    ];
    for (format, start) in all {
        for (value, name) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")] {
            let message = refused(format, value);
            assert!(
                message.contains(start) && message.contains(&format!("is {name}")),
                "{format:?}: {message}"
            );
            assert!(message.contains("features have to be finite"), "{format:?}: {message}");
        }
    }
}

#[test]
fn half_precision_is_checked_as_it_is_and_float64_as_it_becomes() {
    let place = Place::new();
    graphbolt::write(&place, graphbolt::METADATA);
    let plain = ImportOptions::default();
    place.npy("graph/node-feat.npy", NpyType::F16, &[1], &[0x3c00_u16, 0, 0x7e00, 0]);
    let message = place.refusal("graphbolt", "graph", &plain);
    assert!(message.contains("node-feat.npy: row 2, column 0, at offset 132 is NaN"), "{message}");
    place.npy("graph/meta.json", NpyType::U8, &[], &[0_u8]);
    fs::write(place.path("graph/meta.json"), r#"{"feat_dtype": "bf16"}"#).unwrap();
    place.npy("graph/node-feat.npy", NpyType::U16, &[1], &[0x3f80_u16, 0xff80, 0, 0]);
    let message = place.refusal("graphbolt", "graph", &plain);
    assert!(message.contains("row 1, column 0, at offset 130 is -inf"), "{message}");
    fs::remove_file(place.path("graph/meta.json")).unwrap();
    place.npy("graph/node-feat.npy", NpyType::F64, &[1], &[1_f64, -1e39, 0.0, 0.0]);
    let message = place.refusal("graphbolt", "graph", &plain);
    let part = "row 1, column 0, at offset 136 is -1000000000000000000000000000000000000000, which float32 cannot hold";
    assert!(message.contains(part), "{message}");
}

#[test]
fn narrowed_and_missing_arrays_are_reported_in_a_line() {
    let place = Place::new();
    graphbolt::write(&place, graphbolt::METADATA);
    assert_eq!(place.notes("graphbolt", "graph"), [""; 0]);
    place.npy("graph/node-feat.npy", NpyType::F64, &[1], &[1_f64, 0.1, 0.0, 0.0]);
    let notes = place.notes("graphbolt", "graph");
    assert!(
        notes.len() == 1 && notes[0].ends_with("graph/node-feat.npy: float64 becomes float32"),
        "{notes:?}"
    );

    place.npy("arrays/x.npy", NpyType::F64, &[1], &[1_f64, 0.1]);
    place.npy("arrays/edge_index.npy", NpyType::I64, &[1], &[0_i64, 1]);
    place.npy("arrays/weight.npy", NpyType::F64, &[], &[0.25_f64]);
    for split in ["train", "valid", "test"] {
        place.npy(&format!("arrays/{split}_idx.npy"), NpyType::I64, &[], &[0_i64]);
    }
    let notes = place.notes("npy", "arrays");
    for part in [
        "arrays has no labels (none of label.npy, labels.npy, y.npy, node_label.npy): the dataset has none",
        "arrays/x.npy: float64 becomes float32",
        "arrays/weight.npy: float64 becomes float32",
    ] {
        assert!(notes.iter().any(|note| note.contains(part)), "{part} is missing: {notes:?}");
    }
    let dataset = Dataset::open(&place.path("out")).unwrap();
    assert_eq!((labels(&dataset), dataset.classes()), (&[][..], 0));
    assert_eq!(floats(&dataset), [1.0, 0.1]);
}

#[test]
fn a_missing_or_wrong_source_is_reported_with_what_the_format_reads() {
    let place = Place::new();
    place.write("file", "0 1\n");
    fs::create_dir(place.path("folder")).unwrap();
    let plain = ImportOptions::default();
    for (format, reads) in [
        ("npy", "`from=npy` reads a directory of .npy files"),
        ("gnn-npz", "`from=gnn-npz` reads one .npz file"),
        ("edgelist", "`from=edgelist` reads a file with one edge per line, or a directory"),
        ("ogb", "`from=ogb` reads the directory that OGB's package unpacks"),
        ("graphbolt", "`from=graphbolt` reads a directory with metadata.yaml"),
        ("igb", "`from=igb` reads a directory with processed/paper/node_feat.npy"),
        ("planetoid", "`from=planetoid` reads a directory with ind.NAME.x"),
    ] {
        let message = place.refusal(format, "nosuch", &plain);
        assert!(message.contains("nosuch") && message.contains(reads), "{message}");
    }
    for format in ["npy", "ogb", "igb"] {
        assert!(place.refusal(format, "file", &plain).contains("file is not a directory; `from="));
    }
    assert!(place.refusal("gnn-npz", "folder", &plain).contains("folder is a directory; `from=gnn-npz`"));
    let arrays = import::EdgeList { arrays: Some(place.path("nosuch")), ..Default::default() };
    let options = ImportOptions { edge_list: arrays, ..plain };
    let message = place.refusal("edgelist", "file", &options);
    assert!(message.starts_with("`arrays`: ") && message.contains("nosuch is not a directory"), "{message}");
}

#[test]
fn arrays_that_are_not_read_are_named_and_a_byte_order_mark_is_dropped() {
    let place = Place::new();
    place.npy("arrays/edge_index.npy", NpyType::I64, &[1], &[0_i64, 1]);
    place.npy("arrays/feat.npy", NpyType::F32, &[1], &[0_f32; 2]);
    for name in ["train_idx", "valid_idx", "test_idx", "x", "year", "label"] {
        place.npy::<i64>(
            &format!("arrays/{name}.npy"),
            NpyType::I64,
            &[],
            if name == "label" { &[0, 0] } else { &[] },
        );
    }
    place.write("arrays/meta.json", "\u{feff}{\"name\": \"marked\"}");
    place.write("arrays/node_names.txt", "\u{feff}a\nb\n");
    let notes = place.notes("npy", "arrays");
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes[0].ends_with("arrays: x.npy is not read") && notes[1].ends_with("arrays: year.npy is not read")
    );
    let dataset = place.import("npy", "arrays", &ImportOptions::default()).unwrap();
    assert_eq!(dataset.name(), "marked");
    assert_eq!(fs::read_to_string(place.path("out/node_names.txt")).unwrap(), "a\nb\n");
    place.npy::<f32>("arrays/feat.npy", NpyType::F32, &[1], &[]);
    for name in ["edge_index", "label"] {
        fs::remove_file(place.path(&format!("arrays/{name}.npy"))).unwrap();
    }
    fs::remove_file(place.path("arrays/node_names.txt")).unwrap();
    place.npy::<i64>("arrays/src.npy", NpyType::I64, &[], &[]);
    place.npy::<i64>("arrays/dst.npy", NpyType::I64, &[], &[]);
    assert!(place.refusal("npy", "arrays", &ImportOptions::default()).contains("has no nodes"));
}

#[test]
fn narrowed_numbers_are_reported() {
    let place = Place::new();
    place.npy("arrays/edge_index.npy", NpyType::I64, &[1], &[0_i64, 1]);
    place.npy("arrays/feat.npy", NpyType::F32, &[1], &[0_f32; 2]);
    for name in ["train_idx", "valid_idx", "test_idx"] {
        place.npy::<i64>(&format!("arrays/{name}.npy"), NpyType::I64, &[], &[]);
    }
    let regression = ImportOptions { regression: Some(true.into()), ..Default::default() };
    let said = |bytes: Vec<u8>, part: Option<&str>| {
        place.write("arrays/label.npy", bytes);
        let notes = place.notes_of("npy", "arrays", &regression);
        assert_eq!(notes.len(), usize::from(part.is_some()), "{notes:?}");
        assert!(notes.iter().all(|note| part.is_some_and(|part| note.ends_with(part))), "{notes:?}");
    };
    said(npy(NpyType::I64, &[], &[1_700_000_001_i64, 2]), Some("label.npy: targets of int64 become float32"));
    said(npy(NpyType::F64, &[], &[0.1_f64, 2.0]), Some("label.npy: targets of float64 become float32"));
    said(npy(NpyType::F32, &[], &[0.1_f32, 2.0]), None);
    said(npy(NpyType::I16, &[], &[1_i16, 2]), None);
}

#[test]
fn weights_and_marks_that_gnn_npz_drops_are_reported_or_refused() {
    let place = Place::new();
    let write = |weight: f32, mark: f32| {
        let ids = |values: &[i64]| npy(NpyType::I64, &[], values);
        let members = [
            ("adj_data", npy(NpyType::F32, &[], &[weight])),
            ("adj_indices", ids(&[1])),
            ("adj_indptr", ids(&[0, 1, 1])),
            ("adj_shape", ids(&[2, 2])),
            ("labels_data", npy(NpyType::F32, &[], &[1.0, 1.0, mark])),
            ("labels_indices", ids(&[0, 1, 1])),
            ("labels_indptr", ids(&[0, 2, 3])),
            ("labels_shape", ids(&[2, 2])),
            ("node_names", ids(&[7])),
        ];
        place.write("graph.npz", npz(&members, false));
    };
    write(0.5, 1.0);
    let notes = place.notes("gnn-npz", "graph.npz");
    for part in [
        "node_names is not read",
        "every node has one feature, 1",
        "1 entries are neither 0 nor 1, and weights are not kept",
    ] {
        assert!(notes.iter().any(|note| note.ends_with(part)), "{part} in {notes:?}");
    }
    write(1.0, 1.0);
    assert_eq!(place.notes("gnn-npz", "graph.npz").len(), 2);
    write(1.0, 2.0);
    let message = place.refusal("gnn-npz", "graph.npz", &ImportOptions::default());
    assert!(message.contains("labels_data: a mark of node 1 is 2, neither 0 nor 1"), "{message}");
}
