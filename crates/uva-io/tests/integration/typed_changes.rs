//! Options that change typed graphs, for all relations or node types, or for those of some names.

use uva_graph::csc::SelfLoops;
use uva_graph::{ElementType, NodeType, Relation, TypedDataset};
use uva_io::export;
use uva_io::import::{Float8, Scoped};

use super::common::typed::library;
use super::typed_npy::{files, full_library};
use super::*;

/// Papers 0 to 2 and authors 0 to 1: citations with a repeated edge and a loop, and who wrote what.
fn write(place: &Place) {
    place.npy(
        "graph/edges/paper__cites__paper/edge_index.npy",
        NpyType::I64,
        &[4],
        &[1_i64, 1, 2, 0, 0, 0, 2, 1],
    );
    place.npy(
        "graph/edges/author__writes__paper/edge_index.npy",
        NpyType::I64,
        &[3],
        &[0_i64, 1, 1, 2, 0, 0],
    );
    place.npy("graph/nodes/paper/feat.npy", NpyType::F32, &[1], &[1_f32, 2.0, 3.0]);
    place.npy("graph/nodes/author/feat.npy", NpyType::F32, &[1], &[1_f32, 2.0]);
    place.npy("graph/nodes/paper/label.npy", NpyType::I64, &[], &[1_i64, 2, 3]);
    place.write(
        "graph/meta.json",
        r#"{"version": 2, "target": "paper", "nodes": [{"type": "paper", "num": 3}, {"type": "author", "num": 2}],
            "edges": [{"type": ["paper", "cites", "paper"]}, {"type": ["author", "writes", "paper"]}]}"#,
    );
}

fn imported(place: &Place, options: &ImportOptions) -> TypedDataset {
    let out = place.path("out");
    let _ = fs::remove_dir_all(&out);
    importer("npy").run(&place.path("graph"), &out, options, &ImportWatch::NONE).unwrap();
    TypedDataset::open_verified(&out, Verify::FullWithFeatures).unwrap()
}

fn relations(dataset: &TypedDataset) -> Vec<&str> {
    let metagraph = dataset.metagraph();
    metagraph.relations().map(|relation| metagraph.full_name(relation)).collect()
}

fn lists_of(dataset: &TypedDataset, relation: u16) -> Vec<Vec<i64>> {
    let lists = dataset.lists(Relation(relation));
    let list = |pair: &[i64]| (pair[0]..pair[1]).map(|place| lists.indices.get(place as usize)).collect();
    lists.indptr.windows(2).map(list).collect()
}

fn named<T>(value: T, names: &str) -> Option<Scoped<T>> {
    Some(Scoped::of_names(value, names))
}

#[test]
fn changes_apply_to_the_relations_that_can_have_them() {
    let place = Place::new();
    write(&place);
    let plain = ImportOptions::default();
    let as_it_is = imported(&place, &plain);
    assert_eq!(lists_of(&as_it_is, 0), [vec![1, 1], vec![0], vec![2]]);
    let symmetric = imported(&place, &ImportOptions { symmetrise: Some(true.into()), ..plain.clone() });
    assert_eq!(lists_of(&symmetric, 0), [vec![1, 1, 1], vec![0, 0, 0], vec![2]]);
    assert_eq!(lists_of(&symmetric, 1), lists_of(&as_it_is, 1));
    assert_eq!(symmetric.metagraph().reverse(Relation(0)), Some(Relation(0)));
    let deduplicated = imported(&place, &ImportOptions { deduplicate: Some(true.into()), ..plain.clone() });
    assert_eq!(lists_of(&deduplicated, 0), [vec![1], vec![0], vec![2]]);
    let self_loops = Some(SelfLoops::Add.into());
    let looped = imported(&place, &ImportOptions { self_loops, ..plain.clone() });
    assert_eq!(lists_of(&looped, 0), [vec![1, 1, 0], vec![0, 1], vec![2]]);
    assert_eq!(lists_of(&looped, 1), lists_of(&as_it_is, 1));
    let reversed = imported(&place, &ImportOptions { reverse: Some(true.into()), ..plain.clone() });
    assert_eq!(relations(&reversed)[2..], ["paper__rev_cites__paper", "paper__rev_writes__author"]);
    assert_eq!(lists_of(&reversed, 2), [vec![1], vec![0, 0], vec![2]]);
    assert_eq!(lists_of(&reversed, 3), [vec![2], vec![0, 0]]);
    let both = ImportOptions { symmetrise: Some(true.into()), reverse: Some(true.into()), ..plain };
    assert_eq!(relations(&imported(&place, &both))[2..], ["paper__rev_writes__author"]);
}

#[test]
fn named_relations_and_types_are_changed_alone() {
    let place = Place::new();
    write(&place);
    let plain = ImportOptions::default();
    let writes = imported(&place, &ImportOptions { reverse: named(true, "writes"), ..plain.clone() });
    assert_eq!(relations(&writes)[2..], ["paper__rev_writes__author"]);
    let cites = named(true, "paper__cites__paper");
    let deduplicated = imported(&place, &ImportOptions { deduplicate: cites, ..plain.clone() });
    assert_eq!(lists_of(&deduplicated, 0), [vec![1], vec![0], vec![2]]);
    assert_eq!(lists_of(&deduplicated, 1), [vec![1, 1], vec![], vec![0]]);
    let float8 = named(Float8 { saturate: false }, "author");
    let narrow = imported(&place, &ImportOptions { float8, ..plain.clone() });
    let elements = [0, 1].map(|of| narrow.rows(NodeType(of)).unwrap().element);
    assert_eq!(elements, [ElementType::F32, ElementType::E4m3]);
    let targets = imported(&place, &ImportOptions { regression: named(true, "paper"), ..plain.clone() });
    assert!(matches!(targets.labels_of(NodeType(0)), Labels::Regression { values: [1.0, 2.0, 3.0], .. }));
    let none = imported(&place, &ImportOptions { regression: named(true, "author"), ..plain });
    assert!(matches!(none.labels_of(NodeType(0)), Labels::Single([1, 2, 3])));
}

#[test]
fn both_directions_of_edges_share_their_features() {
    let place = Place::new();
    write(&place);
    let reverse = ImportOptions { reverse: named(true, "writes"), ..ImportOptions::default() };
    let relation = "graph/edges/author__writes__paper";
    place.npy(&format!("{relation}/feat.npy"), NpyType::U8, &[1], &[7_u8, 8, 9]);
    let rows = |dataset: &TypedDataset, relation: u16| -> Vec<u8> {
        let rows = dataset.edge_rows(Relation(relation)).unwrap();
        let ids = dataset.edge_ids_of(Relation(relation)).unwrap();
        ids.iter().map(|&id| rows.table.bytes[id as usize]).collect()
    };
    // Lists of papers 0 and 2, then of authors 0 and 1.
    let by_place = imported(&place, &reverse);
    assert_eq!((rows(&by_place, 1), rows(&by_place, 2)), (vec![8, 9, 7], vec![7, 8, 9]));
    place.npy(&format!("{relation}/edge_id.npy"), NpyType::I32, &[], &[2_i32, 0, 0]);
    let message = place.refusal("npy", "graph", &reverse);
    assert!(message.contains("edge_id.npy does not name: set \"feat_rows\" to \"edge_id\""), "{message}");
    let meta = fs::read_to_string(place.path("graph/meta.json")).unwrap();
    let by_id = meta.replace("\"writes\", \"paper\"]", "\"writes\", \"paper\"], \"feat_rows\": \"edge_id\"");
    place.write("graph/meta.json", by_id);
    let by_id = imported(&place, &reverse);
    assert_eq!((rows(&by_id, 1), rows(&by_id, 2)), (vec![7, 7, 9], vec![9, 7, 7]));
    assert!(!place.path("out/edges/paper__rev_writes__author/feat.npy").exists());
}

#[test]
fn wrong_names_and_changes_are_refused_with_the_option() {
    let plain = ImportOptions::default();
    let refusal = |options: &ImportOptions, change: &dyn Fn(&Place)| {
        let place = Place::new();
        write(&place);
        change(&place);
        place.refusal("npy", "graph", options)
    };
    let cases = [
        (
            ImportOptions { deduplicate: named(true, "cite"), ..plain.clone() },
            "`dedup`: there is no relation \"cite\"",
        ),
        (
            ImportOptions { symmetrise: named(true, "writes"), ..plain.clone() },
            "`symmetrise`: author__writes__paper leads from one node type to another",
        ),
        (
            ImportOptions { self_loops: named(SelfLoops::Add, "cites,writes"), ..plain.clone() },
            "`self_loops`: author__writes__paper leads from one node type to another",
        ),
        (ImportOptions { regression: named(true, "papr"), ..plain.clone() }, "did you mean \"paper\"?"),
        (
            ImportOptions { float8: named(Float8 { saturate: true }, "writes"), ..plain.clone() },
            "`feat_dtype`: there is no node type \"writes\"",
        ),
    ];
    for (options, says) in &cases {
        let message = refusal(options, &|_| {});
        assert!(message.contains(says), "{message} instead of {says}");
    }
    let weight = |place: &Place| {
        place.npy("graph/edges/paper__cites__paper/weight.npy", NpyType::F32, &[], &[1_f32; 4]);
    };
    let values = refusal(&ImportOptions { deduplicate: Some(true.into()), ..plain.clone() }, &weight);
    assert!(values.contains("cites__paper/weight.npy: omit these options"), "{values}");
    let pair = |place: &Place| {
        let meta = fs::read_to_string(place.path("graph/meta.json")).unwrap();
        let cites = "{\"type\": [\"paper\", \"cites\", \"paper\"]}";
        let both = "{\"type\": [\"paper\", \"cites\", \"paper\"], \"reverse\": [\"paper\", \"cited\", \"paper\"]}, \
                    {\"type\": [\"paper\", \"cited\", \"paper\"], \"reverse\": [\"paper\", \"cites\", \"paper\"]}";
        assert!(meta.contains(cites));
        place.write("graph/meta.json", meta.replace(cites, both));
        let ends = [0_i64, 0, 2, 1, 1, 1, 2, 0];
        place.npy("graph/edges/paper__cited__paper/edge_index.npy", NpyType::I64, &[4], &ends);
    };
    let one = refusal(&ImportOptions { deduplicate: named(true, "cites"), ..plain.clone() }, &pair);
    assert!(
        one.contains("`dedup`: paper__cited__paper is the reverse of paper__cites__paper: name both"),
        "{one}"
    );
    let again = refusal(&ImportOptions { reverse: named(true, "cites"), ..plain.clone() }, &pair);
    assert!(
        again.contains("`reverse`: paper__cites__paper has the reverse paper__cited__paper already"),
        "{again}"
    );
    let place = Place::new();
    write(&place);
    pair(&place);
    let all = ImportOptions { deduplicate: Some(true.into()), reverse: Some(true.into()), ..plain.clone() };
    let all = imported(&place, &all);
    assert_eq!(lists_of(&all, 1), [vec![1], vec![0], vec![2]]);
    assert_eq!(relations(&all)[3..], ["paper__rev_writes__author"]);
    // A source with one type has no names.
    let place = Place::new();
    for options in [
        ImportOptions { symmetrise: named(true, "cites"), ..plain.clone() },
        ImportOptions { float8: named(Float8 { saturate: true }, "node"), ..plain.clone() },
    ] {
        graphbolt::write(&place, graphbolt::METADATA);
        let message = place.refusal("graphbolt", "graph", &options);
        assert!(message.contains("require a typed graph"), "{message}");
    }
    let reverse = place.refusal("graphbolt", "graph", &ImportOptions { reverse: Some(true.into()), ..plain });
    assert!(reverse.contains("`reverse`: only valid for typed graphs: `symmetrise` adds"), "{reverse}");
}

#[test]
fn targets_of_one_type_come_back_from_every_export() {
    let library = full_library();
    library.write("nodes/author/label", NpyType::F32, &[], &[1_f32, 2.0, 3.0, 4.0, 5.0]);
    let at = |name: &str| library.directory.path().join(name);
    let regression = named(true, "author");
    let options = ImportOptions { name: Some("lib".to_owned()), regression, ..ImportOptions::default() };
    importer("npy").run(&library.path, &at("first"), &options, &ImportWatch::NONE).unwrap();
    let first = TypedDataset::open(&at("first")).unwrap();
    for format in ["npy", "graphbolt"] {
        let exporter = export::exporter(format).unwrap();
        let printed = exporter.run(&first, &at("exported"), Default::default(), &|_| {}, &|_| {}).unwrap();
        assert_eq!(printed, ["--regression=author"]);
        importer(format).run(&at("exported"), &at("again"), &options, &ImportWatch::NONE).unwrap();
        assert!(files(&at("first")) == files(&at("again")), "{format}");
        ["exported", "again"].iter().for_each(|name| fs::remove_dir_all(at(name)).unwrap());
    }
}

#[test]
fn a_typed_graphbolt_source_takes_the_same_changes() {
    let library = library();
    let at = |name: &str| library.directory.path().join(name);
    let graphbolt = export::exporter("graphbolt").unwrap();
    graphbolt.run(&library.open(), &at("exported"), Default::default(), &|_| {}, &|_| {}).unwrap();
    let options = ImportOptions { symmetrise: Some(true.into()), ..ImportOptions::default() };
    for (format, source) in [("npy", library.path.clone()), ("graphbolt", at("exported"))] {
        importer(format).run(&source, &at(format), &options, &ImportWatch::NONE).unwrap();
        let dataset = TypedDataset::open_verified(&at(format), Verify::FullWithFeatures).unwrap();
        let cites = [vec![1, 3, 3], vec![0], vec![], vec![0, 0, 4], vec![3], vec![]];
        assert_eq!(lists_of(&dataset, 0), cites, "{format}");
    }
}
