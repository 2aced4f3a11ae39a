//! `--from graphbolt`.

use uva_graph::Split;
use uva_graph::csc::SelfLoops;

use super::*;

/// The example of DGL's documentation, for 4 nodes: edges as text, seeds and labels of three sets.
pub const METADATA: &str = "\
dataset_name: homogeneous_graph_nc_lp
graph:
  nodes:
    - num: 4
  edges:
    - format: csv
      path: edges.csv
feature_data:
  - domain: node
    name: feat
    format: numpy
    path: node-feat.npy
tasks:
  - name: node_classification
    num_classes: 3
    train_set:
      - data:
          - name: seeds
            format: numpy
            in_memory: true
            path: train-seeds.npy
          - name: labels
            format: numpy
            path: train-labels.npy
    validation_set:
      - data:
          - {name: seeds, format: numpy, path: valid-seeds.npy}
          - {name: labels, format: numpy, path: valid-labels.npy}
    test_set: []
";

pub fn write(place: &Place, metadata: &str) {
    place.write("graph/metadata.yaml", metadata);
    place.write("graph/edges.csv", "3,0\n1,0\n2,2\n");
    place.npy("graph/node-feat.npy", NpyType::F16, &[1], &[0x3c00_u16, 0, 0, 0]);
    place.npy("graph/train-seeds.npy", NpyType::I32, &[], &[3_i32, 0]);
    place.npy("graph/train-labels.npy", NpyType::I64, &[], &[2_i64, 1]);
    place.npy("graph/valid-seeds.npy", NpyType::I64, &[], &[1_i64]);
    place.npy("graph/valid-labels.npy", NpyType::F32, &[1], &[0_f32]);
}

#[test]
fn the_documentations_example_becomes_a_dataset() {
    let place = Place::new();
    write(&place, METADATA);
    let plain = ImportOptions::default();
    for source in ["graph", "graph/metadata.yaml"] {
        let dataset = place.import("graphbolt", source, &plain).unwrap();
        assert_eq!((dataset.name(), dataset.classes()), ("homogeneous_graph_nc_lp", 3));
        assert_eq!(lists(&dataset), [vec![3, 1], vec![], vec![2], vec![]]);
        assert_eq!(dataset.features().bytes[..2], [0, 0x3c]);
        assert_eq!(labels(&dataset), [1, 0, -1, 2]);
        assert_eq!(dataset.split(Split::Train), [3, 0]);
        assert_eq!(dataset.split(Split::Valid), [1]);
        assert!(dataset.split(Split::Test).is_empty());
    }
    let looped = ImportOptions { self_loops: Some(SelfLoops::Add.into()), ..plain };
    let dataset = place.import("graphbolt", "graph", &looped).unwrap();
    assert_eq!(lists(&dataset), [vec![3, 1, 0], vec![1], vec![2], vec![3]]);
}

#[test]
fn arrays_of_edges_older_names_and_several_classes_are_read() {
    let place = Place::new();
    let metadata = METADATA
        .replace("format: csv\n      path: edges.csv", "format: numpy\n      path: edges.npy")
        .replace("          - name: seeds\n            format", "          - format")
        .replace("          - name: labels\n            format", "          - format")
        .replace("{name: seeds,", "{name: seed_nodes,");
    write(&place, &metadata);
    place.npy("graph/edges.npy", NpyType::I32, &[3], &[3_i32, 1, 2, 0, 0, 2]);
    place.npy("graph/train-labels.npy", NpyType::F32, &[3], &[1_f32, 0.0, 1.0, 0.0, 0.0, 1.0]);
    place.npy("graph/valid-labels.npy", NpyType::U8, &[3], &[1_u8, 1, 1]);
    let dataset = place.import("graphbolt", "graph", &ImportOptions::default()).unwrap();
    assert_eq!(lists(&dataset), [vec![3, 1], vec![], vec![2], vec![]]);
    assert!(matches!(
        dataset.labels(),
        Labels::Multi { classes: 3, values: [0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 1] }
    ));
}

#[test]
fn what_is_not_read_is_named_with_what_would_do() {
    let refused = |from: &str, to: &str, part: &str| {
        let place = Place::new();
        assert!(METADATA.contains(from), "{from}");
        write(&place, &METADATA.replacen(from, to, 1));
        let message = place.refusal("graphbolt", "graph", &ImportOptions::default());
        assert!(message.contains("metadata.yaml") && message.contains(part), "{message} instead of {part}");
    };
    refused(
        "    - num: 4\n",
        "    - {type: user, num: 4}\n    - {type: item, num: 2}\n",
        "the type of edges[0], '', is not SOURCE:RELATION:DESTINATION",
    );
    refused("format: numpy", "format: torch", "node-feat.npy is a PyTorch file");
    refused("format: csv", "format: parquet", "the format 'parquet': expected csv or numpy");
    refused("domain: node", "domain: edge", "no features of nodes");
    refused("num: 4", "num: four", "metadata.yaml: ");
    refused(
        "graph:\n",
        "graph_topology: {type: x, path: y}\ngrapf:\n",
        "import the metadata.yaml that it was made of",
    );
    refused("dataset_name: homogeneous_graph_nc_lp\n", "dataset_name: [\n", "metadata.yaml: ");
    refused(
        "      - data:\n",
        "      - {type: user, data: []}\n      - data:\n",
        "train_set is of several types: user",
    );
    refused("name: seeds", "name: node_pairs", "train_set has no seeds");
}

#[test]
fn a_wrong_value_is_reported_with_its_file_and_place() {
    let refused = |change: &dyn Fn(&Place), part: &str| {
        let place = Place::new();
        write(&place, METADATA);
        change(&place);
        let message = place.refusal("graphbolt", "graph", &ImportOptions::default());
        assert!(message.contains(part), "{message} instead of {part}");
    };
    refused(
        &|p| drop(p.write("graph/edges.csv", "3,0\n1,4\n")),
        "edges.csv: line 2 is '1,4': its destination is 4, outside the ids 0 to 3 (metadata.yaml has num: 4)",
    );
    refused(
        &|p| drop(p.write("graph/edges.csv", "src,dst\n1,4\n")),
        "edges.csv: line 1 is 'src,dst': expected source,destination",
    );
    refused(&|p| fs::remove_file(p.path("graph/edges.csv")).unwrap(), "edges.csv: cannot open");
    refused(
        &|p| p.npy("graph/train-seeds.npy", NpyType::I32, &[], &[3_i32, 4]),
        "train-seeds.npy: entry 1 at offset 132, seed 1, is 4, outside the ids 0 to 3",
    );
    refused(
        &|p| p.npy("graph/train-seeds.npy", NpyType::I32, &[], &[3_i32, 3]),
        "train-seeds.npy: entry 1 at offset 132 is 3, named twice",
    );
    refused(
        &|p| p.npy("graph/train-seeds.npy", NpyType::I32, &[2], &[3_i32, 0]),
        "pairs of nodes are another task",
    );
    refused(
        &|p| p.npy("graph/train-labels.npy", NpyType::I64, &[], &[2_i64]),
        "train-labels.npy: the shape is [1]",
    );
    refused(
        &|p| p.npy("graph/train-labels.npy", NpyType::I64, &[], &[3_i64, 0]),
        "train-labels.npy: entry 0 at offset 128 is 3, a label outside -1 to 2",
    );
    refused(
        &|p| p.npy("graph/node-feat.npy", NpyType::F32, &[1], &[0_f32]),
        "node-feat.npy: the shape is [1, 1]",
    );
    refused(&|p| drop(p.write("graph/node-feat.npy", "short")), "node-feat.npy: not a .npy file");
    refused(&|p| fs::remove_file(p.path("graph/metadata.yaml")).unwrap(), "metadata.yaml: cannot open");
}

#[test]
fn features_of_edges_follow_them_into_the_lists() {
    let metadata = METADATA.replace(
        "feature_data:\n",
        "feature_data:\n  - {domain: edge, name: feat, format: numpy, path: edge-feat.npy}\n",
    );
    let place = Place::new();
    write(&place, &metadata);
    // Of 3→0, 1→0 and 2→2.
    place.npy("graph/edge-feat.npy", NpyType::F16, &[2], &[1_u16, 2, 3, 4, 5, 6]);
    let dataset = place.import("graphbolt", "graph", &ImportOptions::default()).unwrap();
    let table = dataset.edge_features().unwrap();
    assert_eq!(lists(&dataset), [vec![3, 1], vec![], vec![2], vec![]]);
    assert_eq!((table.dim, table.element), (2, uva_graph::ElementType::F16));
    assert_eq!(table.bytes, bytemuck::cast_slice::<u16, u8>(&[1, 2, 3, 4, 5, 6]));
    // Text does not contain its number of edges at the beginning.
    for rows in [2, 4] {
        place.npy("graph/edge-feat.npy", NpyType::F16, &[1], &vec![0_u16; rows]);
        let message = place.import("graphbolt", "graph", &ImportOptions::default()).unwrap_err().to_string();
        assert!(message.contains(&format!("{rows} rows of features")), "{message}");
    }
}

#[test]
fn values_that_graphbolt_samples_by_are_read_like_other_features() {
    let of_graph = "edges.csv
  feature_data:
    - {domain: edge, name: weight, format: numpy, path: weight.npy}
    - {domain: edge, name: edge_attr, format: numpy, path: edge-feat.npy}
    - {domain: node, name: timestamp, format: numpy, path: gone.npy}
";
    let place = Place::new();
    // The features of nodes have any name, and are the only ones below the graph.
    write(&place, &METADATA.replace("edges.csv\n", of_graph).replace("name: feat\n", "name: category\n"));
    // Of 3→0, 1→0 and 2→2.
    place.npy("graph/weight.npy", NpyType::F64, &[], &[0.5_f64, 1.5, 2.5]);
    place.npy("graph/edge-feat.npy", NpyType::U8, &[1], &[7_u8, 8, 9]);
    let dataset = place.import("graphbolt", "graph", &ImportOptions::default()).unwrap();
    assert_eq!(dataset.weights(), Some(&[0.5, 1.5, 2.5][..]));
    assert_eq!(dataset.edge_features().unwrap().bytes, [7, 8, 9]);
    assert_eq!(dataset.features().bytes[..2], [0, 0x3c]);
    let notes = place.notes("graphbolt", "graph");
    let unread = "metadata.yaml: feature_data timestamp of the domain node is not read";
    assert!(notes.iter().any(|note| note.ends_with(unread)), "{notes:?}");
}

#[test]
fn each_part_that_is_not_read_is_reported_in_its_own_line() {
    let more = "feature_data:
  - {domain: node, name: category, format: numpy, path: gone.npy}
  - {domain: edge, name: time, format: numpy, path: gone.npy}
  - {domain: node, name: label, format: numpy, path: label.npy}
  - {domain: node, name: y, format: numpy, path: gone.npy}
";
    let place = Place::new();
    let metadata = METADATA.replace("feature_data:\n", more).replace(
        "valid-labels.npy}\n",
        "valid-labels.npy}\n          - {name: indexes, format: numpy, path: gone.npy}\n",
    );
    write(&place, &metadata);
    place.npy("graph/label.npy", NpyType::I64, &[], &[1_i64, 0, -1, 2]);
    let notes = place.notes("graphbolt", "graph");
    let parts = [
        "metadata.yaml: feature_data category of the domain node is not read",
        "metadata.yaml: feature_data time of the domain edge is not read",
        "metadata.yaml: feature_data y of the domain node is not read",
        "metadata.yaml: indexes of the validation_set is not read",
    ];
    assert_eq!(notes.len(), parts.len(), "{notes:?}");
    for (note, part) in notes.iter().zip(parts) {
        assert!(note.ends_with(part), "{notes:?}");
    }
    write(&place, &METADATA.replace("name: node_classification", "name: node_regression"));
    assert!(place.notes("graphbolt", "graph").iter().any(|note| note.contains("`regression` reads targets")));
}

#[test]
fn a_node_that_two_files_label_differently_is_refused_with_both() {
    let labelled = |change: &dyn Fn(&Place)| {
        let place = Place::new();
        let table = "feature_data:\n  - {domain: node, name: label, format: numpy, path: label.npy}\n";
        write(&place, &METADATA.replace("feature_data:\n", table));
        place.npy("graph/label.npy", NpyType::I64, &[], &[1_i64, -1, 2, 2]);
        change(&place);
        place.import("graphbolt", "graph", &ImportOptions::default()).map(|dataset| labels(&dataset).to_vec())
    };
    // A label missing in one file is present in another.
    assert_eq!(labelled(&|_| {}).unwrap(), [1, 0, 2, 2]);
    let table = |place: &Place| place.npy("graph/label.npy", NpyType::I64, &[], &[0_i64, 0, 2, 2]);
    let message = labelled(&table).unwrap_err().to_string();
    assert!(
        message.contains("label.npy: entry 0")
            && message.contains("is 0, the label of node 0, which is 1 in"),
        "{message}"
    );
    assert!(message.contains("train-labels.npy"), "{message}");
    let sets = |place: &Place| place.npy("graph/valid-seeds.npy", NpyType::I64, &[], &[3_i64]);
    let message = labelled(&sets).unwrap_err().to_string();
    assert!(message.contains("valid-labels.npy") && message.contains("node 3, which is 2 in"), "{message}");
    // Several classes a node, likewise.
    let marks = |first: u8| {
        let place = Place::new();
        write(&place, METADATA);
        place.npy("graph/train-labels.npy", NpyType::U8, &[3], &[1_u8, 0, 1, 1, 1, 0]);
        place.npy("graph/valid-seeds.npy", NpyType::I64, &[], &[3_i64]);
        place.npy("graph/valid-labels.npy", NpyType::U8, &[3], &[first, 0, 1]);
        place.import("graphbolt", "graph", &ImportOptions::default())
    };
    marks(1).unwrap();
    let place = Place::new();
    write(&place, METADATA);
    place.npy("graph/train-labels.npy", NpyType::U8, &[2], &[1_u8, 0, 0, 1]);
    let message = place.refusal("graphbolt", "graph", &ImportOptions::default());
    assert!(
        message.contains("train-labels.npy: the shape is [2, 2]") && message.contains("3 classes"),
        "{message}"
    );
    let message = marks(0).unwrap_err().to_string();
    assert!(
        message.contains("valid-labels.npy") && message.contains("of node 3, whose classes are others in"),
        "{message}"
    );
}

#[test]
fn one_hot_labels_are_reported_as_several_labels_per_node() {
    let one_hot = |place: &Place, format: &str, source: &str| {
        place
            .notes_of(format, source, &ImportOptions { symmetrise: Some(false.into()), ..Default::default() })
            .iter()
            .any(|note| note.contains("no row marks more than one class"))
    };
    for (marks, said) in
        [([1_u8, 0, 0, 1], true), ([0, 0, 0, 1], true), ([1, 1, 0, 1], false), ([0; 4], false)]
    {
        let place = Place::new();
        write(&place, &METADATA.replace("num_classes: 3", "num_classes: 2"));
        place.npy("graph/train-labels.npy", NpyType::U8, &[2], &marks);
        place.npy("graph/valid-labels.npy", NpyType::U8, &[2], &[0_u8, 0]);
        assert_eq!(one_hot(&place, "graphbolt", "graph"), said, "{marks:?}");
        place.npy("arrays/edge_index.npy", NpyType::I64, &[1], &[0_i64, 1]);
        place.npy("arrays/feat.npy", NpyType::F32, &[1], &[0_f32; 2]);
        place.npy("arrays/label.npy", NpyType::U8, &[2], &marks);
        for split in ["train_idx", "valid_idx", "test_idx"] {
            place.npy::<i64>(&format!("arrays/{split}.npy"), NpyType::I64, &[], &[]);
        }
        assert_eq!(one_hot(&place, "npy", "arrays"), said, "{marks:?}");
        ogb::text_layout(&place, "mine", "time");
        let rows = format!("{},{}\n{},{}\n0,0\n0,0\n", marks[0], marks[1], marks[2], marks[3]);
        place.write("mine/raw/node-label.csv.gz", gz(&rows));
        assert_eq!(one_hot(&place, "ogb", "mine"), said, "{marks:?}");
        let array = |values: &[i64]| npy(NpyType::I64, &[], values);
        let members = [
            ("adj_data", array(&[1])),
            ("adj_indices", array(&[1])),
            ("adj_indptr", array(&[0, 1, 1])),
            ("adj_shape", array(&[2, 2])),
            ("labels", npy(NpyType::U8, &[2], &marks)),
        ];
        place.write("graph.npz", npz(&members, false));
        assert_eq!(one_hot(&place, "gnn-npz", "graph.npz"), said, "{marks:?}");
    }
}
