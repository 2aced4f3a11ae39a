//! Typed graphs from directories of `.npy` files, and back.

use std::collections::BTreeMap;

use uva_graph::{NodeType, Relation, Split, TypedDataset};
use uva_io::export;
use uva_io::import::SplitRule;

use super::common::typed::{Library, library};
use super::*;

/// Imports the directory `source` as the directory `out` next to it, opens it with every check, and returns the notes.
fn imported(
    source: &Path,
    out: &Path,
    options: &ImportOptions,
) -> Result<(TypedDataset, Vec<String>), GraphError> {
    let notes = std::cell::RefCell::new(Vec::new());
    let note = |line: &str| notes.borrow_mut().push(line.to_owned());
    let watch = ImportWatch { note: &note, ..ImportWatch::NONE };
    importer("npy").run(source, out, options, &watch)?;
    Ok((TypedDataset::open_verified(out, Verify::FullWithFeatures).unwrap(), notes.into_inner()))
}

/// The bytes of every file of a dataset, without the stamp.
pub fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(inner) = open.pop() {
        for entry in fs::read_dir(&inner).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if !path.file_name().unwrap().to_str().unwrap().starts_with('.') {
                files.insert(path.strip_prefix(directory).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// The library with everything that a typed dataset can have.
pub fn full_library() -> Library {
    let mut library = library();
    let weights: Vec<f32> = (0..12_u8).map(|e| f32::from(e) / 4.0).collect();
    library.write("edges/author__writes__paper/weight", NpyType::F32, &[], &weights);
    let ids: Vec<i64> = (0..12).map(|e| (e * 5) % 12).collect();
    library.write("edges/author__writes__paper/edge_id", NpyType::I64, &[], &ids);
    let rows: Vec<f32> = (0..24_u8).map(f32::from).collect();
    library.write("edges/author__writes__paper/feat", NpyType::F32, &[2], &rows);
    library.write("edges/paper__cites__paper/time", NpyType::I64, &[], &[1_i64, 4, 2, 3]);
    library.write("edges/paper__cites__paper/feat", NpyType::U8, &[1], &[9_u8, 8, 7, 6]);
    library.write("edges/topic__covers__paper/edge_type", NpyType::U16, &[], &[3_u16; 10]);
    library.write("edges/topic__covers__paper/votes", NpyType::I32, &[], &(0..10).collect::<Vec<i32>>());
    library.write("nodes/paper/time", NpyType::I64, &[], &[3_i64, -1, 2, 0, 0, 9]);
    library.write("nodes/paper/train_time", NpyType::I64, &[], &[7_i64, 8, 9]);
    library.write("nodes/paper/year", NpyType::I32, &[2], &[2020_i32; 12]);
    library.write("nodes/author/orig_id", NpyType::I64, &[], &[4_i64, 3, 2, 1, 0]);
    fs::write(library.path.join("nodes/topic/node_names.txt"), "a\nb\nc\n").unwrap();
    library.change(|meta| {
        meta["edges"][0]["order"] = "time".into();
        meta["edges"][1]["feat_rows"] = "edge_id".into();
    });
    library
}

#[test]
fn an_exported_typed_graph_is_imported_byte_for_byte() {
    let library = full_library();
    let at = |name: &str| library.directory.path().join(name);
    let options = ImportOptions { name: Some("lib".to_owned()), ..ImportOptions::default() };
    let (first, notes) = imported(&library.path, &at("first"), &options).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!(first.fingerprint(), library.open().fingerprint());
    let npy = export::exporter("npy").unwrap();
    let no = |line: &str| panic!("{line}");
    npy.run(&first, &at("exported"), Default::default(), &|_| {}, &no).unwrap();
    let exported = files(&at("exported"));
    assert!(exported.contains_key(Path::new("edges/author__writes__paper/edge_index.npy")));
    assert!(!exported.contains_key(Path::new("edges/author__writes__paper/indices.npy")));
    imported(&at("exported"), &at("again"), &options).unwrap();
    let (first, again) = (files(&at("first")), files(&at("again")));
    assert_eq!(first.keys().collect::<Vec<_>>(), again.keys().collect::<Vec<_>>());
    for (name, bytes) in &first {
        assert!(*bytes == again[name], "{name:?} differs");
    }
    assert_eq!(first.len(), 28, "{:?}", first.keys());
    // Only the keys that the format leaves open are added.
    let meta: serde_json::Value = serde_json::from_slice(&first[Path::new("meta.json")]).unwrap();
    assert_eq!((&meta["made_by"], &meta["layout"]), (&library.meta["made_by"], &"relation".into()));
    assert_eq!(meta["nodes"][0]["source_name"], "Paper");
}

/// A directory of 3 users and 4 items whose edges are pairs, in the order of their times.
fn events(place: &Place) {
    place.npy("events/edges/user__buys__item/src.npy", NpyType::I32, &[], &[2_i32, 0, 1, 2, 0]);
    place.npy("events/edges/user__buys__item/dst.npy", NpyType::I64, &[], &[3_i64, 3, 0, 3, 0]);
    place.npy("events/edges/user__buys__item/time.npy", NpyType::I32, &[], &[9_i32, 5, 4, 5, 3]);
    place.npy("events/edges/user__buys__item/weight.npy", NpyType::F64, &[], &[0.5_f64, 1.5, 2.5, 3.5, 4.5]);
    place.npy("events/edges/user__buys__item/feat.npy", NpyType::I64, &[], &[10_i64, 11, 12, 13, 14]);
    place.npy("events/nodes/item/x.npy", NpyType::F64, &[1], &[0.0_f64, 1.0, 2.0, 3.0]);
    place.npy("events/nodes/item/y.npy", NpyType::I32, &[], &[0_i32, 1, 0, 1]);
    place.npy("events/nodes/item/train_mask.npy", NpyType::Bool, &[], &[1_u8, 0, 0, 1]);
    place.write(
        "events/meta.json",
        r#"{"version": 2, "target": "item", "nodes": [{"type": "user", "num": 3}, {"type": "item", "num": 4}],
            "edges": [{"type": ["user", "buys", "item"], "order": "time"}]}"#,
    );
}

#[test]
fn edges_as_pairs_become_lists_sorted_by_time_with_their_values() {
    let place = Place::new();
    events(&place);
    let (dataset, notes) =
        imported(&place.path("events"), &place.path("out"), &ImportOptions::default()).unwrap();
    let buys = Relation(0);
    let lists = dataset.lists(buys);
    assert_eq!(lists.indptr, [0, 2, 2, 2, 5]);
    let neighbours: Vec<i64> = (0..5).map(|place| lists.indices.get(place)).collect();
    assert_eq!(neighbours, [0, 1, 0, 2, 2]);
    assert_eq!(dataset.edge_times(buys), Some(&[3, 4, 5, 5, 9][..]));
    assert_eq!(dataset.weights_of(buys), Some(&[4.5, 2.5, 1.5, 3.5, 0.5][..]));
    let rows: &[f32] = bytemuck::cast_slice(dataset.edge_rows(buys).unwrap().table.bytes);
    assert_eq!(rows, [14.0, 12.0, 11.0, 13.0, 10.0]);
    assert_eq!(dataset.split_of(NodeType(1), Split::Train), [0, 3]);
    assert!(dataset.is_ordered_by_time(buys));
    assert_eq!(notes.iter().filter(|note| note.contains("becomes float32")).count(), 3, "{notes:?}");
    let rule = ImportOptions { split: SplitRule::from_text("random:0.5,0.25"), ..ImportOptions::default() };
    let (divided, _) = imported(&place.path("events"), &place.path("divided"), &rule).unwrap();
    let sizes = Split::ALL.map(|split| divided.split_of(NodeType(1), split).len());
    assert_eq!(sizes, [2, 1, 1]);
}

#[test]
fn features_that_another_relation_finds_by_place_keep_their_places() {
    let place = Place::new();
    let buys = "graph/edges/user__buys__item";
    place.npy(&format!("{buys}/feat.npy"), NpyType::U8, &[1], &[7_u8, 8, 9]);
    place.npy("graph/edges/item__rev_buys__user/indptr.npy", NpyType::I64, &[], &[0_i64, 1, 3]);
    place.npy("graph/edges/item__rev_buys__user/indices.npy", NpyType::I64, &[], &[0_i64, 0, 1]);
    place.npy("graph/edges/item__rev_buys__user/edge_id.npy", NpyType::I64, &[], &[1_i64, 0, 2]);
    let entry = r#"{"type": ["user", "buys", "item"]}"#;
    let meta = r#"{"version": 2, "nodes": [{"type": "user", "num": 2}, {"type": "item", "num": 2}],
        "edges": [ENTRY, {"type": ["item", "rev_buys", "user"], "feat_of": ["user", "buys", "item"]}]}"#;
    place.write("graph/meta.json", meta.replace("ENTRY", entry));
    let pairs = |sources: &[i64], destinations: &[i64]| {
        place.npy(&format!("{buys}/src.npy"), NpyType::I64, &[], sources);
        place.npy(&format!("{buys}/dst.npy"), NpyType::I64, &[], destinations);
    };
    let features = |out: &str| {
        let out = place.path(out);
        let (dataset, _) = imported(&place.path("graph"), &out, &ImportOptions::default()).unwrap();
        let rows = dataset.edge_rows(Relation(1)).unwrap();
        let ids = dataset.edge_ids_of(Relation(1)).unwrap();
        ids.iter().map(|&id| rows.table.bytes[id as usize]).collect::<Vec<u8>>()
    };
    // In the order of the lists.
    pairs(&[1, 0, 1], &[0, 0, 1]);
    assert_eq!(features("ordered"), [8, 7, 9]);
    pairs(&[0, 1, 1], &[0, 1, 0]);
    let message = place.refusal("npy", "graph", &ImportOptions::default());
    for part in
        ["meta.json: \"feat_of\" of item__rev_buys__user", "user__buys__item/feat.npy", "numpy.arange(3)"]
    {
        assert!(message.contains(part), "`{part}` is missing in: {message}");
    }
    // What the message suggests.
    place.npy(&format!("{buys}/edge_id.npy"), NpyType::I64, &[], &[0_i64, 1, 2]);
    let by_id = r#"{"type": ["user", "buys", "item"], "feat_rows": "edge_id"}"#;
    place.write("graph/meta.json", meta.replace("ENTRY", by_id));
    assert_eq!(features("by_id"), [8, 7, 9]);
}

#[test]
fn wrong_typed_sources_are_refused_by_file_and_type() {
    let refusal = |change: &dyn Fn(&Place), options: &ImportOptions| {
        let place = Place::new();
        events(&place);
        change(&place);
        let before = names(place.directory.path());
        let error = imported(&place.path("events"), &place.path("out"), options).map(drop).unwrap_err();
        assert!(error.is_bad_input(), "{error}");
        assert_eq!(names(place.directory.path()), before, "something is left behind");
        error.to_string()
    };
    let none = ImportOptions::default();
    let user = refusal(
        &|place| place.npy("events/edges/user__buys__item/src.npy", NpyType::I32, &[], &[2_i32, 0, 3, 2, 0]),
        &none,
    );
    assert!(
        user.contains("src.npy: entry 2 at offset 136, the source of edge 2, is 3, outside the ids 0 to 2"),
        "{user}"
    );
    assert!(user.contains("meta.json has 3 of user"), "{user}");
    let item = refusal(
        &|place| place.npy("events/edges/user__buys__item/dst.npy", NpyType::I64, &[], &[3_i64, 3, 0, 4, 0]),
        &none,
    );
    assert!(item.contains("the destination of edge 3, is 4, outside the ids 0 to 3"), "{item}");
    let rows =
        refusal(&|place| place.npy("events/nodes/item/x.npy", NpyType::F32, &[1], &[0.0_f32; 3]), &none);
    assert!(rows.contains("[4, features], one row for each item"), "{rows}");
    let lacking = refusal(
        &|place| fs::remove_file(place.path("events/edges/user__buys__item/src.npy")).unwrap(),
        &none,
    );
    assert!(
        lacking.contains("user__buys__item has no graph: expected indptr.npy, or edge_index.npy, or src.npy"),
        "{lacking}"
    );
    let changed = refusal(&|_| {}, &ImportOptions { deduplicate: Some(true.into()), ..none });
    assert!(changed.contains("not supported with") && changed.contains("user__buys__item"), "{changed}");
}
