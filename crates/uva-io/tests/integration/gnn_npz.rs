//! `--from gnn-npz`.

use uva_graph::Split;
use uva_graph::csc::SelfLoops;
use uva_io::import::SplitRule;

use super::*;

/// 4 nodes: 0→1 twice over two directions, 2→2, 3→0, and a stored zero 1→3.
fn adjacency(prefix: &str) -> Vec<(String, Vec<u8>)> {
    vec![
        (format!("{prefix}data"), npy(NpyType::F32, &[], &[1_f32, 1.0, 0.0, 1.0, 1.0])),
        (format!("{prefix}indices"), npy(NpyType::I32, &[], &[1_i32, 0, 3, 2, 0])),
        (format!("{prefix}indptr"), npy(NpyType::I32, &[], &[0_i32, 1, 3, 4, 5])),
        (format!("{prefix}shape"), npy(NpyType::I64, &[], &[4_i64, 4])),
    ]
}

fn attributes() -> Vec<(String, Vec<u8>)> {
    vec![
        ("attr_data".into(), npy(NpyType::F32, &[], &[1_f32, 2.0, 0.5, 0.25, 4.0])),
        ("attr_indices".into(), npy(NpyType::I32, &[], &[0_i32, 2, 1, 1, 0])),
        ("attr_indptr".into(), npy(NpyType::I64, &[], &[0_i64, 2, 4, 4, 5])),
        ("attr_shape".into(), npy(NpyType::I64, &[], &[4_i64, 3])),
    ]
}

fn archive(place: &Place, members: &[Vec<(String, Vec<u8>)>], compressed: bool) {
    let members: Vec<(&str, Vec<u8>)> =
        members.iter().flatten().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    place.write("graph.npz", npz(&members, compressed));
}

fn label(bytes: Vec<u8>) -> Vec<(String, Vec<u8>)> {
    vec![("labels".into(), bytes)]
}

#[test]
fn rows_become_edges_features_and_splits() {
    let place = Place::new();
    for compressed in [false, true] {
        let members = [adjacency("adj_"), attributes(), label(npy(NpyType::I8, &[], &[1_i8, 0, 1, 1]))];
        archive(&place, &members, compressed);
        let rule = Some(SplitRule::PerClass { train: 1, valid: 1 });
        let options = ImportOptions { split: rule, ..Default::default() };
        let dataset = place.import("gnn-npz", "graph.npz", &options).unwrap();
        assert_eq!(dataset.name(), "graph");
        // Undirected, without the self-loop and without the stored zero.
        assert_eq!(lists(&dataset), [vec![1, 3], vec![0], vec![], vec![0]]);
        // Two values of row 1 in one column add up.
        assert_eq!(floats(&dataset), [1.0, 0.0, 2.0, 0.0, 0.75, 0.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0]);
        assert_eq!((labels(&dataset), dataset.classes()), (&[1, 0, 1, 1][..], 2));
        assert_eq!(Split::ALL.map(|split| dataset.split(split).len()), [2, 1, 1]);
        assert_eq!(dataset.meta().other["split"], "per-class:1,1 seed 0");

        let plain = ImportOptions {
            symmetrise: Some(false.into()),
            deduplicate: Some(false.into()),
            self_loops: Some(SelfLoops::Keep.into()),
            ..options
        };
        let dataset = place.import("gnn-npz", "graph.npz", &plain).unwrap();
        // Row i, column j: from i to j.
        assert_eq!(lists(&dataset), [vec![1, 3], vec![0], vec![2], vec![]]);
    }
}

#[test]
fn other_names_dense_attributes_and_several_classes_are_read() {
    let place = Place::new();
    let members = [
        adjacency("adj_matrix."),
        vec![("attr_matrix".into(), npy(NpyType::F16, &[1], &[0x3c00_u16, 0, 0, 0]))],
        label(npy(NpyType::I64, &[2], &[1_i64, 0, 1, 1, 0, 0, 0, 1])),
    ];
    archive(&place, &members, true);
    let dataset = place.import("gnn-npz", "graph.npz", &ImportOptions::default()).unwrap();
    assert_eq!((dataset.table().row_bytes(), dataset.features().bytes[1]), (2, 0x3c));
    assert!(matches!(dataset.labels(), Labels::Multi { classes: 2, values: [1, 0, 1, 1, 0, 0, 0, 1] }));
    assert_eq!(dataset.meta().other["split"], "random:0.6,0.2 seed 0");

    // Without attributes every node has one; marks may be sparse.
    let sparse = vec![
        ("labels_data".into(), npy(NpyType::F32, &[], &[1_f32, 1.0])),
        ("labels_indices".into(), npy(NpyType::I32, &[], &[1_i32, 0])),
        ("labels_indptr".into(), npy(NpyType::I32, &[], &[0_i32, 1, 1, 1, 2])),
        ("labels_shape".into(), npy(NpyType::I64, &[], &[4_i64, 2])),
    ];
    archive(&place, &[adjacency("adj_"), sparse], true);
    let dataset = place.import("gnn-npz", "graph.npz", &ImportOptions::default()).unwrap();
    assert_eq!(floats(&dataset), [1.0; 4]);
    assert!(matches!(dataset.labels(), Labels::Multi { classes: 2, values: [0, 1, 0, 0, 0, 0, 1, 0] }));
}

#[test]
fn an_error_names_array_target_and_value() {
    let none = ImportOptions::default();
    let good = || [adjacency("adj_"), attributes(), label(npy(NpyType::I8, &[], &[1_i8, 0, 1, 1]))].concat();
    let refused = |name: &str, bytes: Option<Vec<u8>>, part: &str| {
        let place = Place::new();
        let mut members = good();
        members.retain(|(member, _)| member != name);
        members.extend(bytes.map(|bytes| (name.to_owned(), bytes)));
        archive(&place, &[members], true);
        let message = place.refusal("gnn-npz", "graph.npz", &none);
        assert!(message.contains(part), "{message} instead of {part}");
    };
    refused("adj_indptr", None, "has no adjacency matrix: no array adj_indptr");
    refused("adj_indices", None, "it has no array adj_indices: it has adj_data, adj_indptr");
    refused(
        "adj_indices",
        Some(npy(NpyType::I32, &[], &[1_i32, 0, 3, 2, 4])),
        "graph.npz/adj_indices.npy: entry 4 at offset 144, a column of row 3, is 4, outside the ids 0 to 3",
    );
    refused("adj_indices", Some(npy(NpyType::F32, &[], &[0_f32; 5])), "the element type is float32");
    refused(
        "adj_indptr",
        Some(npy(NpyType::I32, &[], &[0_i32, 3, 1, 4, 5])),
        "adj_indptr.npy: entry 2 at offset 136 is 1, less than the 3",
    );
    refused("adj_indptr", Some(npy(NpyType::I32, &[], &[0_i32, 1, 3, 4, 6])), "but there are 5 indices");
    refused("adj_indptr", Some(npy(NpyType::I32, &[], &[0_i32, 5])), "[4 + 1]");
    refused("adj_shape", Some(npy(NpyType::I64, &[], &[4_i64, 1 << 40])), "adj_shape.npy: entry 1");
    refused(
        "attr_shape",
        Some(npy(NpyType::I64, &[], &[4_i64, 2])),
        "outside the ids 0 to 1 (the matrix has 2 columns)",
    );
    refused(
        "labels",
        Some(npy(NpyType::I8, &[], &[1_i8, 0, -2, 1])),
        "labels.npy: entry 2 at offset 130 is -2",
    );
    refused("labels", Some(npy(NpyType::I8, &[], &[1_i8, 0])), "labels.npy: the shape is [2]");
    refused("labels", Some(b"no array".to_vec()), "labels.npy: not a .npy file");

    let place = Place::new();
    archive(&place, &[good()], true);
    let whole = fs::read(place.path("graph.npz")).unwrap();
    place.write("graph.npz", &whole[..whole.len() / 2]);
    assert!(place.refusal("gnn-npz", "graph.npz", &none).contains("graph.npz: not a whole zip archive"));
    assert!(place.refusal("gnn-npz", "nothing.npz", &none).contains("nothing.npz does not exist"));
    place.write("graph.npz", &whole);
    let with = ImportOptions { variant: Some("x".into()), ..none };
    assert!(
        place.refusal("gnn-npz", "graph.npz", &with).contains("`variant`: not supported with `from=gnn-npz`")
    );
}

#[test]
fn a_damaged_member_is_refused_by_its_check_sum() {
    let place = Place::new();
    let members = [adjacency("adj_"), attributes(), label(npy(NpyType::I8, &[], &[1_i8, 0, 1, 1]))];
    archive(&place, &members, false);
    let mut bytes = fs::read(place.path("graph.npz")).unwrap();
    // The last label, stored uncompressed.
    let at = bytes.windows(4).position(|window| window == [1, 0, 1, 1]).unwrap();
    bytes[at + 3] = 0;
    place.write("graph.npz", bytes);
    let message = place.refusal("gnn-npz", "graph.npz", &ImportOptions::default());
    assert!(message.contains("labels.npy: the content's checksum is"), "{message}");
}

#[test]
fn every_truncation_of_an_archive_is_refused() {
    let place = Place::new();
    let members = [adjacency("adj_"), attributes(), label(npy(NpyType::I8, &[], &[1_i8, 0, 1, 1]))];
    archive(&place, &members, true);
    let whole = fs::read(place.path("graph.npz")).unwrap();
    for length in (0..whole.len()).step_by(97) {
        place.write("graph.npz", &whole[..length]);
        place.refusal("gnn-npz", "graph.npz", &ImportOptions::default());
    }
}

#[test]
fn the_collections_own_files_have_their_published_numbers() {
    let Some(raw) = shared("raw/gnn-npz") else { return };
    // Nodes, features, classes, and both directions of the distinct edges: counted by a few lines of Python.
    for (name, nodes, features, classes) in [("cora", 2708, 1433, 7), ("citeseer", 3312, 3703, 6)] {
        let place = Place::new();
        let out = place.path("out");
        let options = ImportOptions { seed: 3, ..Default::default() };
        importer("gnn-npz")
            .run(&raw.join(format!("{name}.npz")), &out, &options, &ImportWatch::NONE)
            .unwrap();
        let dataset = Dataset::open_verified(&out, Verify::FullWithFeatures).unwrap();
        assert_eq!((dataset.name(), dataset.nodes(), dataset.classes()), (name, nodes, classes));
        assert_eq!(dataset.table().dim, features);
        assert_eq!(dataset.edges(), if name == "cora" { 10_556 } else { 9_072 });
        assert_eq!(dataset.split(Split::Train).len(), 20 * classes);
        assert_eq!(dataset.split(Split::Valid).len(), 30 * classes);
        assert_eq!(dataset.split(Split::Test).len(), nodes - 50 * classes);
        for node in 0..nodes {
            let list = list(&dataset, node);
            assert!(list.is_sorted_by(|a, b| a < b) && !list.contains(&(node as i64)));
        }
    }
}
