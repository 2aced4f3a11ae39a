//! `--from ogb`: the layouts that OGB's package unpacks, see `ogb/io/read_graph_raw.py` and `ogb/io/README.md` there.

use uva_graph::{ElementType, Split};

use super::*;

/// A directory like `ogbn_products`: 4 nodes, 3 edges, 2 features.
pub fn text_layout(place: &Place, directory: &str, scheme: &str) {
    let file = |name: &str, text: &str| {
        place.write(&format!("{directory}/{name}.csv.gz"), gz(text));
    };
    file("raw/edge", "3,0\n1,0\n2,2\n");
    file("raw/node-feat", "0.5,-1e-3\n1,2\n3.25,4\n0.0,nan\n".replace("nan", "7").as_str());
    file("raw/node-label", "1\n0\n\n2.0\n");
    file("raw/num-node-list", "4\n");
    file("raw/num-edge-list", "3\n");
    file(&format!("split/{scheme}/train"), "3\n0\n");
    file(&format!("split/{scheme}/valid"), "1\n");
    file(&format!("split/{scheme}/test"), "2\n");
}

/// A directory like `ogbn_papers100M`.
pub fn binary_layout(place: &Place, directory: &str, compressed: bool) {
    let data = [
        ("edge_index", npy_2d(NpyType::I64, &[3_i64, 1, 2, 0, 0, 2], 3)),
        ("node_feat", npy(NpyType::F32, &[2], &[0.5_f32, -0.001, 1.0, 2.0, 3.25, 4.0, 0.0, 7.0])),
        ("node_year", npy(NpyType::I64, &[1], &[2001_i64, 2002, 2003, 2004])),
        ("num_nodes_list", npy(NpyType::I64, &[], &[4_i64])),
        ("num_edges_list", npy(NpyType::I64, &[], &[3_i64])),
    ];
    place.write(&format!("{directory}/raw/data.npz"), npz(&data, compressed));
    let labels = [("node_label", npy(NpyType::F32, &[1], &[1_f32, 0.0, f32::NAN, 2.0]))];
    place.write(&format!("{directory}/raw/node-label.npz"), npz(&labels, compressed));
    for (name, text) in [("train", "3\n0\n"), ("valid", "1\n"), ("test", "2\n")] {
        place.write(&format!("{directory}/split/time/{name}.csv.gz"), gz(text));
    }
}

fn npy_2d<T: bytemuck::NoUninit>(kind: NpyType, values: &[T], columns: usize) -> Vec<u8> {
    npy(kind, &[columns], values)
}

fn check(dataset: &Dataset, lists_of: &[Vec<i64>]) {
    assert_eq!(lists(dataset), lists_of);
    assert_eq!(floats(dataset), [0.5, -0.001, 1.0, 2.0, 3.25, 4.0, 0.0, 7.0]);
    assert_eq!((labels(dataset), dataset.classes()), (&[1, 0, -1, 2][..], 3));
    assert_eq!(dataset.split(Split::Train), [3, 0]);
    assert_eq!(dataset.split(Split::Valid), [1]);
    assert_eq!(dataset.split(Split::Test), [2]);
    assert_eq!(dataset.table().element, ElementType::F32);
}

#[test]
fn text_files_become_a_dataset_with_the_directions_that_ogb_gives() {
    let place = Place::new();
    let plain = ImportOptions::default();
    text_layout(&place, "ogbn_arxiv", "time");
    let dataset = place.import("ogb", "ogbn_arxiv", &plain).unwrap();
    check(&dataset, &[vec![3, 1], vec![], vec![2], vec![]]);
    assert_eq!((dataset.name(), &dataset.meta().other["split"]), ("ogbn-arxiv", &serde_json::json!("time")));

    text_layout(&place, "ogbn_products", "sales_ranking");
    let both = [vec![1, 3], vec![0], vec![2], vec![0]];
    check(&place.import("ogb", "ogbn_products", &plain).unwrap(), &both);
    let one = ImportOptions { symmetrise: Some(false.into()), ..plain.clone() };
    check(&place.import("ogb", "ogbn_products", &one).unwrap(), &[vec![3, 1], vec![], vec![2], vec![]]);

    text_layout(&place, "mine", "random");
    let message = place.refusal("ogb", "mine", &plain);
    assert!(message.contains("give `symmetrise`=true or `symmetrise`=false"), "{message}");
    let both_ways = ImportOptions { symmetrise: Some(true.into()), ..plain };
    check(&place.import("ogb", "mine", &both_ways).unwrap(), &both);
}

#[test]
fn a_missing_label_in_quotes_is_none_and_unread_files_are_named() {
    let place = Place::new();
    text_layout(&place, "ogbn_arxiv", "time");
    place.write("ogbn_arxiv/raw/node-label.csv.gz", gz("\u{feff}1\n0\n\"\"\n2.0\n"));
    place.write("ogbn_arxiv/raw/node_year.csv.gz", gz("1\n"));
    let notes = place.notes("ogb", "ogbn_arxiv");
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].ends_with("ogbn_arxiv/raw: node_year.csv.gz is not read"), "{notes:?}");
    let dataset = place.import("ogb", "ogbn_arxiv", &ImportOptions::default()).unwrap();
    assert_eq!(labels(&dataset), [1, 0, -1, 2]);
    binary_layout(&place, "ogbn_papers100M", true);
    let notes = place.notes("ogb", "ogbn_papers100M");
    assert!(notes.iter().any(|note| note.ends_with("data.npz: node_year is not read")), "{notes:?}");
}

#[test]
fn archives_become_the_same_stored_or_compressed() {
    for compressed in [false, true] {
        let place = Place::new();
        binary_layout(&place, "ogbn_papers100M", compressed);
        let dataset = place.import("ogb", "ogbn_papers100M", &ImportOptions::default()).unwrap();
        check(&dataset, &[vec![3, 1], vec![], vec![2], vec![]]);
        assert_eq!(dataset.name(), "ogbn-papers100M");
    }
}

#[test]
fn float16_features_of_an_archive_stay() {
    let place = Place::new();
    binary_layout(&place, "ogbn_papers100M", true);
    let data = [
        ("edge_index", npy_2d(NpyType::I64, &[3_i64, 0], 1)),
        ("node_feat", npy(NpyType::F16, &[1], &[0x3c00_u16, 0, 0, 0x4000])),
    ];
    place.write("ogbn_papers100M/raw/data.npz", npz(&data, true));
    let dataset = place.import("ogb", "ogbn_papers100M", &ImportOptions::default()).unwrap();
    assert_eq!(dataset.table().element, ElementType::F16);
    assert_eq!(dataset.features().bytes, [0, 0x3c, 0, 0, 0, 0, 0, 0x40]);
}

#[test]
fn several_classes_and_no_features_as_in_proteins() {
    let place = Place::new();
    text_layout(&place, "ogbn_proteins", "species");
    place.write("ogbn_proteins/raw/node-label.csv.gz", gz("1,0,1\n0,0,0\n1,1,1\n0,1,0\n"));
    fs::remove_file(place.path("ogbn_proteins/raw/node-feat.csv.gz")).unwrap();
    let dataset = place.import("ogb", "ogbn_proteins", &ImportOptions::default()).unwrap();
    assert!(matches!(
        dataset.labels(),
        Labels::Multi { classes: 3, values: [1, 0, 1, 0, 0, 0, 1, 1, 1, 0, 1, 0] }
    ));
    assert_eq!(floats(&dataset), [1.0; 4]);
    let notes = place.notes("ogb", "ogbn_proteins");
    assert!(notes.iter().any(|note| note.ends_with("every node has one feature, 1")), "{notes:?}");
    place.write("ogbn_proteins/raw/node-label.csv.gz", gz("1,0,1\n0,2,0\n1,1,1\n0,1,0\n"));
    let message = place.refusal("ogb", "ogbn_proteins", &ImportOptions::default());
    assert!(
        message.contains("node-label.csv.gz: line 2 is '0,2,0': column 2 is neither 0 nor 1"),
        "{message}"
    );
}

#[test]
fn one_of_several_splits_has_to_be_named() {
    let place = Place::new();
    text_layout(&place, "ogbn_arxiv", "time");
    for name in ["train", "valid", "test"] {
        place.write(&format!("ogbn_arxiv/split/random/{name}.csv.gz"), gz(""));
    }
    let message = place.refusal("ogb", "ogbn_arxiv", &ImportOptions::default());
    assert!(message.contains("`variant`") && message.contains("random, time"), "{message}");
    let random = ImportOptions { variant: Some("random".into()), ..Default::default() };
    assert!(place.import("ogb", "ogbn_arxiv", &random).unwrap().split(Split::Train).is_empty());
}

#[test]
fn an_error_in_a_text_is_reported_with_its_line() {
    let refused = |file: &str, text: Option<&str>, part: &str| {
        let place = Place::new();
        text_layout(&place, "ogbn_arxiv", "time");
        let path = format!("ogbn_arxiv/{file}.csv.gz");
        match text {
            Some(text) => drop(place.write(&path, gz(text))),
            None => fs::remove_file(place.path(&path)).unwrap(),
        }
        let message = place.refusal("ogb", "ogbn_arxiv", &ImportOptions::default());
        assert!(
            message.contains(&format!("{file}.csv.gz")) && message.contains(part),
            "{message} instead of {part}"
        );
    };
    refused(
        "raw/edge",
        Some("3,0\n4,0\n2,2\n"),
        "line 2 is '4,0': its source is 4, outside the ids 0 to 3 (there are 4 nodes)",
    );
    refused("raw/edge", Some("3,0\n1 0\n2,2\n"), "line 2 is '1 0': expected a pair of node ids");
    refused("raw/edge", Some("3,0\n1,0\n"), "it counts 2 edges, but 3 are required");
    refused("raw/edge", None, "cannot open");
    refused(
        "raw/node-feat",
        Some("1,2\n3\n1,2\n1,2\n"),
        "line 2 is '3': it has 1 columns, but the first line has 2",
    );
    refused("raw/node-feat", Some("1,2\n3,\n1,2\n1,2\n"), "line 2 is '3,': column 2 is not a number");
    refused("raw/node-feat", Some("1,2\n1,2\n"), "it counts 2 rows, but 4 are required");
    refused("raw/node-label", Some("1\n0.5\n0\n0\n"), "line 2 is '0.5': expected a class");
    refused("raw/node-label", Some("1\n0\n0\n"), "it counts 3 rows, but 4 are required");
    refused("raw/node-label", None, "cannot open");
    refused("raw/num-node-list", Some("4\n4\n"), "it counts 2 graphs, but 1 are required");
    refused("raw/num-node-list", None, "cannot open");
    refused("split/time/train", Some("3\n9\n"), "line 2 is '9': it is outside the ids 0 to 3");
    refused("split/time/train", Some("3\n3\n"), "it names node 3 more than once");
    refused("split/time/test", None, "cannot open");

    let place = Place::new();
    text_layout(&place, "ogbn_arxiv", "time");
    let whole = fs::read(place.path("ogbn_arxiv/raw/node-feat.csv.gz")).unwrap();
    place.write("ogbn_arxiv/raw/node-feat.csv.gz", &whole[..whole.len() - 4]);
    let message = place.refusal("ogb", "ogbn_arxiv", &ImportOptions::default());
    assert!(message.contains("node-feat.csv.gz: the text breaks off after line"), "{message}");
}

#[test]
fn an_error_in_an_archive_is_reported_with_its_entry() {
    let refused = |name: &str, bytes: Vec<u8>, part: &str| {
        let place = Place::new();
        binary_layout(&place, "ogbn_papers100M", true);
        let mut data = vec![
            ("edge_index", npy_2d(NpyType::I64, &[3_i64, 1, 2, 0, 0, 2], 3)),
            ("node_feat", npy(NpyType::F32, &[1], &[1_f32; 4])),
            ("num_nodes_list", npy(NpyType::I64, &[], &[4_i64])),
        ];
        data.retain(|(member, _)| *member != name);
        let labels = name == "node_label";
        if labels {
            place.write("ogbn_papers100M/raw/node-label.npz", npz(&[(name, bytes.clone())], true));
        } else {
            data.push((name, bytes));
        }
        place.write("ogbn_papers100M/raw/data.npz", npz(&data, true));
        let message = place.refusal("ogb", "ogbn_papers100M", &ImportOptions::default());
        assert!(message.contains(part), "{message} instead of {part}");
    };
    refused(
        "edge_index",
        npy_2d(NpyType::I64, &[3_i64, 1, 2, 0, 4, 2], 3),
        "data.npz/edge_index.npy: entry 4 at offset 160, the destination of edge 1, is 4, outside the ids 0 to 3 (node_feat has 4 rows)",
    );
    refused(
        "edge_index",
        npy(NpyType::I64, &[2], &[3_i64, 1, 2, 0, 0, 2]),
        "the shape is [3, 2], it has to be [2, edges]",
    );
    refused("edge_index", npy_2d(NpyType::F64, &[0_f64; 4], 2), "the element type is float64");
    refused("node_feat", npy(NpyType::F32, &[], &[1_f32; 4]), "node_feat.npy: the shape is [4]");
    refused("num_nodes_list", npy(NpyType::I64, &[], &[5_i64]), "num_nodes_list.npy: entry 0");
    refused(
        "node_label",
        npy(NpyType::F32, &[], &[0.0_f32, 0.5, 1.0, 1.0]),
        "node_label.npy: entry 1 at offset 132 is 0.5, neither a class nor NaN",
    );
    refused("node_label", npy(NpyType::I64, &[], &[0_i64]), "node_label.npy: the shape is [1]");
}
