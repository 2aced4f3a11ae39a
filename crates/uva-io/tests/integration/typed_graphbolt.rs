//! Typed graphs from and to GraphBolt's `metadata.yaml`.

use uva_graph::{NodeType, Relation, Split, TypedDataset};
use uva_io::export;

use super::common::typed::library;
use super::typed_npy::{files, full_library};
use super::*;

/// Three users, four items: edges as text and as an array, features and sets by type.
const METADATA: &str = r#"
dataset_name: shop
graph:
  nodes:
    - {type: user, num: 3}
    - {type: item, num: 4}
  edges:
    - {type: "user:buys:item", format: csv, path: buys.csv}
    - {type: "item:like it:item", format: numpy, path: like.npy}
  feature_data:
    - {domain: edge, type: "user:buys:item", name: weight, format: numpy, path: weights.npy}
feature_data:
  - {domain: node, type: item, name: embedding, format: numpy, path: items.npy}
  - {domain: node, type: item, name: year, format: numpy, path: years.npy}
  - {domain: edge, type: "user:buys:item", name: feat, format: numpy, path: shares.npy}
  - {domain: edge, type: "user:buys:item", name: time, format: numpy, path: times.npy}
  - {domain: graph, name: size, format: numpy, path: gone.npy}
tasks:
  - name: node_classification
    num_classes: 3
    train_set:
      - type: item
        data:
          - {name: seeds, format: numpy, path: train.npy}
          - {name: labels, format: numpy, path: train-labels.npy}
          - {name: timestamp, format: numpy, path: train-times.npy}
    validation_set:
      - type: user
        data:
          - {name: seeds, format: numpy, path: users.npy}
    test_set: []
"#;

fn write(place: &Place, metadata: &str) {
    place.write("shop/metadata.yaml", metadata);
    place.write("shop/buys.csv", "2,3\n0,3\n1,0\n2,3\n0,0\n");
    place.npy("shop/like.npy", NpyType::I32, &[3], &[0_i32, 2, 1, 2, 2, 0]);
    place.npy("shop/weights.npy", NpyType::F64, &[], &[0.5_f64, 1.5, 2.5, 3.5, 4.5]);
    place.npy("shop/shares.npy", NpyType::U8, &[1], &[10_u8, 11, 12, 13, 14]);
    place.npy("shop/times.npy", NpyType::I32, &[], &[9_i32, 5, 4, 5, 3]);
    place.npy("shop/items.npy", NpyType::F32, &[2], &[0.5_f32; 8]);
    place.npy("shop/years.npy", NpyType::I16, &[], &[1_i16, 2, 3, 4]);
    place.npy("shop/train.npy", NpyType::I32, &[], &[3_i32, 0]);
    place.npy("shop/train-labels.npy", NpyType::I64, &[], &[2_i64, 1]);
    place.npy("shop/train-times.npy", NpyType::I64, &[], &[7_i64, 8]);
    place.npy("shop/users.npy", NpyType::I64, &[], &[1_i64]);
}

/// Imports the directory `source` as the directory `out` next to it, opens it with every check, and returns the notes.
fn imported(
    source: &Path,
    out: &Path,
    options: &ImportOptions,
) -> Result<(TypedDataset, Vec<String>), GraphError> {
    let notes = std::cell::RefCell::new(Vec::new());
    let note = |line: &str| notes.borrow_mut().push(line.to_owned());
    let watch = ImportWatch { note: &note, ..ImportWatch::NONE };
    importer("graphbolt").run(source, out, options, &watch)?;
    Ok((TypedDataset::open_verified(out, Verify::FullWithFeatures).unwrap(), notes.into_inner()))
}

#[test]
fn values_of_edges_follow_them_from_the_order_of_their_file() {
    let place = Place::new();
    write(&place, METADATA);
    let (dataset, notes) =
        imported(&place.path("shop"), &place.path("out"), &ImportOptions::default()).unwrap();
    let metagraph = dataset.metagraph();
    assert_eq!(metagraph.types().map(|of| metagraph.type_name(of)).collect::<Vec<_>>(), ["user", "item"]);
    let relations: Vec<&str> = metagraph.relations().map(|relation| metagraph.full_name(relation)).collect();
    assert_eq!(relations, ["user__buys__item", "item__like-it__item"]);
    let buys = Relation(0);
    let lists = dataset.lists(buys);
    assert_eq!(lists.indptr, [0, 2, 2, 2, 5]);
    let neighbours: Vec<i64> = (0..5).map(|place| lists.indices.get(place)).collect();
    assert_eq!(neighbours, [1, 0, 2, 0, 2]);
    assert_eq!(dataset.weights_of(buys), Some(&[2.5, 4.5, 0.5, 1.5, 3.5][..]));
    assert_eq!(dataset.edge_rows(buys).unwrap().table.bytes, [12, 14, 10, 11, 13]);
    assert_eq!(dataset.edge_times(buys), Some(&[4, 3, 9, 5, 5][..]));
    let (user, item) = (NodeType(0), NodeType(1));
    assert_eq!((dataset.name(), dataset.target(), dataset.classes_of(item)), ("shop", Some(item), 3));
    assert!(dataset.rows(user).is_none());
    assert_eq!(dataset.rows(item).unwrap().dim, 2);
    assert_eq!(dataset.other_arrays_of(item), ["year.npy"]);
    assert!(matches!(dataset.labels_of(item), Labels::Single([1, -1, -1, 2])));
    assert_eq!(dataset.split_of(item, Split::Train), [3, 0]);
    assert_eq!(dataset.split_times_of(item, Split::Train), Some(&[7, 8][..]));
    assert_eq!(dataset.split_of(user, Split::Valid), [1]);
    for part in ["relation like it becomes like-it", "feature_data size of the domain graph is not read"] {
        assert!(notes.iter().any(|note| note.ends_with(part)), "{notes:?}");
    }
}

#[test]
fn an_exported_typed_graph_comes_back_byte_for_byte() {
    let library = full_library();
    library.write("nodes/author/label", NpyType::U8, &[2], &[1_u8, 0, 1, 1, 0, 0, 0, 1, 1, 1]);
    library.write("nodes/author/test_idx", NpyType::I64, &[], &[4_i64, 0]);
    let at = |name: &str| library.directory.path().join(name);
    let options = ImportOptions { name: Some("lib".to_owned()), ..ImportOptions::default() };
    importer("npy").run(&library.path, &at("first"), &options, &ImportWatch::NONE).unwrap();
    let first = TypedDataset::open(&at("first")).unwrap();
    let no = |line: &str| panic!("{line}");
    let graphbolt = export::exporter("graphbolt").unwrap();
    graphbolt.run(&first, &at("exported"), Default::default(), &|_| {}, &no).unwrap();
    let (_, notes) = imported(&at("exported"), &at("again"), &options).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    let (first, again) = (files(&at("first")), files(&at("again")));
    assert_eq!(first.keys().collect::<Vec<_>>(), again.keys().collect::<Vec<_>>());
    for (name, bytes) in &first {
        assert!(*bytes == again[name], "{name:?} differs");
    }
    assert_eq!(first.len(), 30, "{:?}", first.keys());
    let yaml = fs::read_to_string(at("exported/metadata.yaml")).unwrap();
    for part in [
        "    - type: \"author:writes:paper\"\n      format: numpy\n      path: \"edges/author__writes__paper/edge_index.npy\"\n",
        "    name: \"feat_by_edge_id\"\n",
        "      - type: \"author\"\n        data:\n          - name: seeds\n",
        "            path: \"nodes/paper/train_time.npy\"\n",
    ] {
        assert!(yaml.contains(part), "{part} in {yaml}");
    }
}

#[test]
fn a_graph_without_features_or_sets_comes_back_too() {
    let library = library();
    for file in ["feat", "label", "train_idx", "valid_idx"] {
        fs::remove_file(library.file(&format!("nodes/paper/{file}"))).unwrap();
    }
    fs::remove_file(library.file("nodes/topic/feat")).unwrap();
    let at = |name: &str| library.directory.path().join(name);
    let options = ImportOptions { name: Some("lib".to_owned()), ..ImportOptions::default() };
    importer("npy").run(&library.path, &at("first"), &options, &ImportWatch::NONE).unwrap();
    let graphbolt = export::exporter("graphbolt").unwrap();
    let first = TypedDataset::open(&at("first")).unwrap();
    graphbolt.run(&first, &at("exported"), Default::default(), &|_| {}, &|_| {}).unwrap();
    imported(&at("exported"), &at("again"), &options).unwrap();
    assert!(files(&at("first")) == files(&at("again")));
}

#[test]
fn aifb_comes_back_byte_for_byte() {
    let Some(source) = shared("typed/aifb") else { return };
    let place = Place::new();
    let options = ImportOptions { name: Some("aifb".to_owned()), ..ImportOptions::default() };
    importer("nt").run(&source, &place.path("first"), &options, &ImportWatch::NONE).unwrap();
    let first = TypedDataset::open(&place.path("first")).unwrap();
    let graphbolt = export::exporter("graphbolt").unwrap();
    graphbolt.run(&first, &place.path("exported"), Default::default(), &|_| {}, &|_| {}).unwrap();
    imported(&place.path("exported"), &place.path("again"), &options).unwrap();
    assert!(files(&place.path("first")) == files(&place.path("again")));
}

#[test]
fn wrong_typed_descriptions_are_refused_by_name() {
    let refusal = |change: &dyn Fn(&Place), from: &str, to: &str| {
        let place = Place::new();
        assert!(METADATA.contains(from), "{from}");
        write(&place, &METADATA.replacen(from, to, 1));
        change(&place);
        place.refusal("graphbolt", "shop", &ImportOptions::default())
    };
    let cases = [
        ("{type: item, num: 4}", "{num: 4}", "nodes[1] has no type"),
        ("{type: item, num: 4}", "{type: user, num: 4}", "nodes[1] repeats user"),
        (
            "user:buys:item\", format",
            "user:buys\", format",
            "edges[0], 'user:buys', is not SOURCE:RELATION:DESTINATION",
        ),
        ("item:like it:item", "item:like it:itm", "names no node type of the file: user, item"),
        ("item:like it:item", "user:buys:item", "the type of edges[1], 'user:buys:item', occurs twice"),
        (
            "node, type: item",
            "node, type: itm",
            "embedding belongs to the node type itm, expected one of user, item",
        ),
        ("node, type: item, name: e", "node, name: e", "belongs to the node type (no name)"),
        (
            "edge, type: \"user:buys:item\", name: f",
            "edge, type: \"user:bays:item\", name: f",
            "user:bays:item",
        ),
        ("      - type: item\n", "      - type: thing\n", "train_set belongs to the node type thing"),
        ("{name: seeds", "{name: pairs", "train_set of item has no seeds"),
        ("format: csv", "format: parquet", "user:buys:item have the format 'parquet': expected csv or numpy"),
        ("format: numpy, path: items", "format: torch, path: items", "items.npy is a PyTorch file"),
        ("path: items.npy", "path: ../../items.npy", "items.npy: cannot open"),
        (
            "{type: user, num: 3}",
            "{type: user, num: 2}",
            "its source is 2, outside the ids 0 to 1 (metadata.yaml has 2 of user)",
        ),
        ("path: times.npy", "path: years.npy", "years.npy: the shape is [4], it has to be [5]"),
    ];
    for (from, to, says) in cases {
        let message = refusal(&|_| {}, from, to);
        assert!(message.contains(says), "{message} instead of {says}");
    }
    let changed = |name: &str, bytes: Vec<u8>, says: &str| {
        let change = |place: &Place| drop(place.write(&format!("shop/{name}"), &bytes));
        let message = refusal(&change, "dataset_name", "dataset_name");
        assert!(message.contains(says), "{message} instead of {says}");
    };
    changed("like.npy", npy(NpyType::I32, &[2], &[0_i32, 1, 2, 2, 0, 1]), "[2, edges]: sources, then");
    changed("like.npy", npy(NpyType::I32, &[1], &[0_i32, 4]), "is 4, outside the ids 0 to 3");
    changed("train.npy", npy(NpyType::I32, &[], &[3_i32, 3]), "is 3, named twice in one set");
    changed("train-labels.npy", npy(NpyType::I64, &[], &[2_i64, 3]), "is 3, a label outside -1 to 2");
    changed("weights.npy", npy(NpyType::F32, &[], &[0_f32, 1.0, f32::NAN, 1.0, 1.0]), "NaN");
    changed("shares.npy", npy(NpyType::U8, &[1], &[1_u8; 4]), "[5, features], one row for each edge");
    changed("buys.csv", b"2,3\n0;3\n".to_vec(), "one weight for each edge");
    changed(
        "meta.json",
        br#"{"version": 2, "nodes": [{"type": "user", "num": 3}], "edges": [{"type": ["user", "a", "user"]}]}"#.to_vec(),
        "are not those of meta.json next to it",
    );
}

#[test]
fn a_number_of_nodes_beyond_every_disk_is_refused() {
    let place = Place::new();
    write(&place, &METADATA.replace("type: item, num: 4}", "type: item, num: 4611686018427387904}"));
    let before = names(place.directory.path());
    let error = imported(&place.path("shop"), &place.path("out"), &ImportOptions::default()).map(drop);
    let error = error.unwrap_err();
    assert!(matches!(error, GraphError::Lacking { .. }) || error.is_bad_input(), "{error}");
    assert_eq!(names(place.directory.path()), before, "something is left behind");
}
