//! Datasets of format 2: their content, stamps and fingerprints, and what format 1 has of these.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::typed::{LISTS, Library, library, write_npy};
use crate::common::{settle, small};
use uva_graph::npy::NpyType;
use uva_graph::{Dataset, ElementType, Indices, Labels, NodeType, Relation, Split, TypedDataset, Verify};

const STAMP: &str = ".uvatrain-stamp.json";
const PAPER: NodeType = NodeType(0);
const AUTHOR: NodeType = NodeType(1);
const TOPIC: NodeType = NodeType(2);

fn ids(indices: Indices<'_>) -> Vec<i64> {
    (0..indices.len()).map(|at| indices.get(at)).collect()
}

#[test]
fn types_and_relations_are_borrowed_from_their_files_unchanged() {
    let library = library();
    let dataset = library.open();
    let metagraph = dataset.metagraph();
    assert_eq!((dataset.name(), dataset.nodes(), dataset.edges()), ("lib", 14, 48));
    assert_eq!(metagraph.types().map(|t| dataset.nodes_of(t)).collect::<Vec<_>>(), [6, 5, 3]);
    assert_eq!((dataset.target(), metagraph.is_named()), (Some(PAPER), true));
    for (relation, (names, indptr, indices)) in metagraph.relations().zip(LISTS) {
        let lists = dataset.lists(relation);
        assert_eq!(metagraph.names(relation), names);
        assert_eq!(lists.indptr, indptr);
        assert!(matches!(lists.indices, Indices::I32(ids) if ids == indices));
        assert_eq!(dataset.edges_of(relation), indices.len());
    }
    let reverses: Vec<_> = metagraph.relations().map(|r| metagraph.reverse(r)).collect();
    let [writes, covers, rev_writes, rev_covers] = [1, 2, 3, 4].map(Relation);
    assert_eq!(reverses, [None, Some(rev_writes), Some(rev_covers), Some(writes), None]);
    assert_eq!(metagraph.find_relation("covers"), Ok(covers));
    let rows = dataset.rows(PAPER).unwrap();
    assert_eq!((rows.rows, rows.dim, rows.element), (6, 4, ElementType::F32));
    assert!(dataset.rows(AUTHOR).is_none());
    assert_eq!(dataset.rows(TOPIC).unwrap().element, ElementType::Bf16);
    assert!(matches!(dataset.labels_of(PAPER), Labels::Single([0, 1, 2, -1, 0, 1])));
    assert!(!dataset.labels_of(AUTHOR).are_there());
    assert_eq!((dataset.classes_of(PAPER), dataset.classes_of(AUTHOR)), (3, 0));
    assert_eq!(dataset.split_of(PAPER, Split::Train), [0, 5, 4]);
    assert_eq!(dataset.split_of(PAPER, Split::Test), [0; 0]);
    assert_eq!(dataset.split_of(TOPIC, Split::Train), [0; 0]);
    assert!(dataset.verification().edges_checked);
    let meta = serde_json::to_value(dataset.meta()).unwrap();
    assert_eq!(meta, library.meta, "unknown keys are kept");
    library.open_fully();
}

impl Library {
    fn open_fully(&self) -> TypedDataset {
        TypedDataset::open_verified(&self.path, Verify::FullWithFeatures).unwrap()
    }
}

#[test]
fn times_weights_edge_ids_and_original_ids_belong_to_their_type() {
    let mut library = library();
    let [cites, writes, covers] = [0, 1, 2].map(Relation);
    library.write("nodes/author/time", NpyType::I64, &[], &[5_i64, -4, 3, 2, 1]);
    library.write("nodes/author/orig_id", NpyType::I64, &[], &[4_i64, 3, 2, 1, 0]);
    library.write("nodes/paper/train_time", NpyType::I64, &[], &[7_i64, 8, 9]);
    library.write("edges/paper__cites__paper/time", NpyType::I64, &[], &[1_i64, 1, -2, 9]);
    library.write("edges/paper__cites__paper/weight", NpyType::F32, &[], &[1_f32, 2., 3., 4.]);
    library.write("edges/paper__cites__paper/edge_id", NpyType::I64, &[], &[1_i64, 0, 0, 1]);
    library.write("edges/paper__cites__paper/feat", NpyType::F16, &[3], &[0_u16; 6]);
    library.change(|meta| {
        meta["edges"][0]["order"] = json!("time");
        meta["edges"][0]["feat_rows"] = json!("edge_id");
    });
    let dataset = library.open_fully();
    assert_eq!(dataset.node_times(AUTHOR), Some(&[5, -4, 3, 2, 1][..]));
    assert_eq!((dataset.node_times(PAPER), dataset.original_ids_of(PAPER)), (None, None));
    assert_eq!(dataset.original_ids_of(AUTHOR).unwrap()[0], 4);
    let rev_writes = Relation(3);
    assert_eq!(
        dataset.lists(rev_writes).original_ids,
        dataset.original_ids_of(AUTHOR),
        "of the destinations"
    );
    assert_eq!(dataset.lists(writes).original_ids, None);
    assert_eq!(dataset.split_times_of(PAPER, Split::Train), Some(&[7, 8, 9][..]));
    assert_eq!(dataset.split_times_of(PAPER, Split::Valid), None);
    assert_eq!(dataset.edge_times(cites), Some(&[1, 1, -2, 9][..]));
    assert!(dataset.is_ordered_by_time(cites) && !dataset.is_ordered_by_time(writes));
    assert_eq!(dataset.weights_of(cites), Some(&[1., 2., 3., 4.][..]));
    let rows = dataset.edge_rows(cites).unwrap();
    assert_eq!((rows.table.rows, rows.table.dim, rows.row_of), (2, 3, Some(&[1, 0, 0, 1][..])));
    assert!(dataset.edge_rows(covers).is_none());
}

#[test]
fn a_relation_may_have_the_feature_rows_of_its_reverse() {
    let mut library = library();
    let rows: Vec<f32> = (0..12_u8).map(f32::from).collect();
    library.write("edges/author__writes__paper/feat", NpyType::F32, &[1], &rows);
    let of_reverse = [0_i64, 2, 5, 7, 11, 1, 6, 10, 4, 3, 8, 9];
    library.write("edges/paper__rev_writes__author/edge_id", NpyType::I64, &[], &of_reverse);
    library.change(|meta| meta["edges"][3]["feat_of"] = json!(LISTS[1].0));
    let dataset = library.open_fully();
    let [own, shared] = [1, 3].map(|relation| dataset.edge_rows(Relation(relation)).unwrap());
    assert_eq!((own.row_of, shared.row_of), (None, Some(&of_reverse[..])));
    assert_eq!(own.table.bytes.as_ptr(), shared.table.bytes.as_ptr());
    library.write("edges/paper__rev_writes__author/edge_id", NpyType::I64, &[], &[12_i64; 12]);
    let message = library.refusal(Verify::Full);
    assert!(message.contains("entry 0 at offset 128 is 12, outside the rows 0 to 11 of"), "{message}");
}

#[test]
fn a_type_without_nodes_needs_no_files_of_its_own() {
    let mut library = library();
    library.change(|meta| {
        meta["nodes"].as_array_mut().unwrap().push(json!({"type": "venue", "num": 0}));
        meta["edges"].as_array_mut().unwrap().push(json!({"type": ["venue", "prints", "paper"]}));
        meta.as_object_mut().unwrap().shift_remove("target");
    });
    library.write("edges/venue__prints__paper/indptr", NpyType::I64, &[], &[0_i64; 7]);
    library.write("edges/venue__prints__paper/indices", NpyType::I64, &[], &[0_i64; 0]);
    let dataset = library.open_fully();
    assert_eq!((dataset.nodes_of(NodeType(3)), dataset.edges_of(Relation(5))), (0, 0));
    assert_eq!(dataset.target(), None);
}

#[test]
fn a_stamp_has_every_file_of_every_type_and_relation() {
    let library = library();
    settle_all(&library.path);
    let first = library.open();
    assert_eq!(first.verification().stamp.as_deref(), Some(library.path.join(STAMP).as_path()));
    let second = library.open();
    assert!(second.verification().from_stamp && !second.verification().edges_checked);
    let stamp: Value = serde_json::from_slice(&fs::read(library.path.join(STAMP)).unwrap()).unwrap();
    let files: BTreeMap<String, Value> = serde_json::from_value(stamp["files"].clone()).unwrap();
    assert_eq!((&stamp["version"], files.len()), (&json!(2), 1 + 10 + 5));
    for file in ["meta.json", "nodes/paper/train_idx.npy", "edges/author__writes__paper/indices.npy"] {
        assert!(files.contains_key(file), "{file}");
    }
    library.write("edges/paper__cites__paper/weight", NpyType::F32, &[], &[1_f32; 4]);
    settle_all(&library.path);
    assert!(library.open().verification().edges_checked, "a new file is a change");
    assert!(library.open().verification().from_stamp);
    library.write("edges/author__writes__paper/indices", NpyType::I32, &[], &[9_i32; 12]);
    assert!(library.refusal(Verify::Stamp).contains("outside the author ids 0 to 4"));
}

/// Waits until a stamp is possible.
fn settle_all(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            settle_all(&entry.path());
        }
    }
    settle(directory);
}

/// A change of the dataset.
type Change = fn(&mut Library);

#[test]
fn everything_but_place_and_name_changes_the_fingerprint() {
    let mut seen = vec![library().open().fingerprint()];
    assert_eq!(library().open().fingerprint(), seen[0], "a copy");
    let mut renamed = library();
    renamed.change(|meta| meta["name"] = json!("other"));
    assert_eq!(renamed.open().fingerprint(), seen[0], "another name");
    let changes: [(&str, Change); 8] = [
        ("an id", |l| l.write("edges/topic__covers__paper/indices", NpyType::I32, &[], &[0_i32; 10])),
        ("a relation's type", |l| {
            l.change(|meta| meta["edges"][0]["type"][1] = json!("quotes"));
            fs::rename(l.path.join("edges/paper__cites__paper"), l.path.join("edges/paper__quotes__paper"))
                .unwrap();
        }),
        ("the order of types", |l| l.change(|meta| meta["nodes"].as_array_mut().unwrap().swap(1, 2))),
        ("the order of relations", |l| l.change(|meta| meta["edges"].as_array_mut().unwrap().swap(0, 1))),
        ("a reverse", |l| l.change(|meta| meta["edges"][0]["reverse"] = json!(LISTS[0].0))),
        ("a split of another type", |l| l.write("nodes/author/train_idx", NpyType::I64, &[], &[0_i64, 4])),
        ("features of the same bytes", |l| {
            l.change(|meta| {
                meta["nodes"][2].as_object_mut().unwrap().shift_remove("feat_dtype").map_or((), drop)
            });
            l.write("nodes/topic/feat", NpyType::F16, &[2], &[0x3f80_u16; 6]);
        }),
        ("times", |l| l.write("nodes/author/time", NpyType::I64, &[], &[0_i64; 5])),
    ];
    for (what, change) in changes {
        let mut library = library();
        change(&mut library);
        let fingerprint = library.open().fingerprint();
        assert!(!seen.contains(&fingerprint), "{what}");
        seen.push(fingerprint);
    }
}

#[test]
fn code_for_one_type_refuses_several_in_one_place() {
    let library = library();
    let error = Dataset::open(&library.path).unwrap_err();
    assert!(error.is_bad_input());
    let message = error.to_string();
    assert!(message.contains("meta.json: the graph has 3 node types and 5 relations"), "{message}");
    assert_eq!(library.open().single_type().unwrap_err().to_string(), message);
}

/// The small dataset of format 1 as one type and one relation of format 2.
fn as_typed(directory: &Path) -> Value {
    let small = small();
    for name in ["feat", "label", "train_idx", "valid_idx", "test_idx"] {
        let to = directory.join(format!("nodes/thing/{name}.npy"));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(small.file(name), to).unwrap();
    }
    for name in ["indptr", "indices"] {
        let to = directory.join(format!("edges/thing__likes__thing/{name}.npy"));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(small.file(name), to).unwrap();
    }
    let meta = json!({
        "version": 2, "nodes": [{"type": "thing", "num": 4, "classes": 4}],
        "edges": [{"type": ["thing", "likes", "thing"]}]
    });
    fs::write(directory.join("meta.json"), meta.to_string()).unwrap();
    meta
}

#[test]
fn one_type_and_one_relation_are_a_dataset_as_in_format_1() {
    let (small, directory) = (small(), tempfile::tempdir().unwrap());
    let mut meta = as_typed(directory.path());
    let (typed, plain) = (Dataset::open(directory.path()).unwrap(), small.open());
    assert_eq!((typed.nodes(), typed.edges(), typed.classes()), (4, 5, 4));
    assert_eq!(typed.csc().indptr, plain.csc().indptr);
    assert_eq!(typed.features().bytes, plain.features().bytes);
    assert_eq!(typed.labels().bytes(), plain.labels().bytes());
    for split in Split::ALL {
        assert_eq!(typed.split(split), plain.split(split));
    }
    assert_eq!(typed.target(), Some(NodeType::ONLY));
    assert!(typed.classes_from().ends_with("meta.json"), "{}", typed.classes_from());
    assert_eq!((plain.metagraph().type_count(), plain.metagraph().is_named()), (1, false));
    assert_eq!(plain.lists(Relation::ONLY).indptr, plain.csc().indptr);
    assert_eq!(plain.rows(NodeType::ONLY).unwrap().bytes, plain.features().bytes);
    fs::remove_file(directory.path().join("nodes/thing/feat.npy")).unwrap();
    let message = Dataset::open(directory.path()).unwrap_err().to_string();
    assert!(message.contains("nodes/thing/feat.npy: cannot open"), "{message}");
    meta["edges"][0]["feat_rows"] = json!("edge_id");
    fs::write(directory.path().join("meta.json"), meta.to_string()).unwrap();
    assert!(TypedDataset::open(directory.path()).is_ok(), "the key alone needs no file");
}

#[test]
fn format_1_keeps_its_fingerprints_and_stamps() {
    let small = small();
    assert_eq!(small.open().fingerprint(), "da244169989ceb90");
    small.write("weight", NpyType::F32, &[], &[0.5_f32, 1.0, 1.5, 2.0, 2.5]);
    small.write("edge_type", NpyType::U16, &[], &[0_u16, 1, 2, 1, 0]);
    let halves = [0., 1., 2., 3., 4., 5., 6., 7., 8., 9.].map(f16_bits);
    small.write("edge_feat", NpyType::F16, &[2], &halves);
    small.write("orig_id", NpyType::I64, &[], &[3_i64, 1, 0, 2]);
    // The keys of format 2 belong to the user here.
    let keys = r#"{"name": "full", "classes": 4, "version": "1.0", "nodes": 7, "made": ["me"]}"#;
    small.meta(keys);
    settle(&small.path);
    let dataset = small.open();
    assert_eq!(dataset.fingerprint(), "b420e18c434e7c3b");
    assert_eq!(serde_json::to_value(dataset.meta()).unwrap(), serde_json::from_str::<Value>(keys).unwrap());
    let stamp = fs::read_to_string(small.path.join(STAMP)).unwrap();
    let start = "{\n  \"version\": 1,\n  \"files\": {\n    \"edge_feat.npy\": {\n      \"bytes\": 148,\n";
    assert!(stamp.starts_with(start), "{stamp}");
    let stamp: Value = serde_json::from_str(&stamp).unwrap();
    assert_eq!(stamp["files"].as_object().unwrap().len(), 12);
}

/// The bits of a small whole number as float16.
fn f16_bits(value: f32) -> u16 {
    if value == 0.0 {
        return 0;
    }
    let bits = value.to_bits();
    let exponent = (bits >> 23) as u16 - 127 + 15;
    (exponent << 10) | (bits >> 13 & 0x3ff) as u16
}

/// A typed graph in memory.
#[derive(Debug, Clone)]
struct Typed {
    counts: Vec<usize>,
    /// Source, destination, and the lists of each destination.
    relations: Vec<(usize, usize, Vec<Vec<u32>>)>,
    wide: bool,
}

/// 1 to 5 types, of which some have no nodes, and 1 to 9 relations: self relations and repeated edges among them.
fn typed() -> impl Strategy<Value = Typed> {
    let counts = prop::collection::vec(0_usize..6, 1..=5);
    (counts, any::<bool>()).prop_flat_map(|(counts, wide)| {
        let types = counts.len();
        let of_counts = counts.clone();
        let relation = (0..types, 0..types).prop_flat_map(move |(source, destination)| {
            let (sources, destinations) = (of_counts[source], of_counts[destination]);
            let longest = if sources == 0 { 0 } else { 4 };
            let list = prop::collection::vec(0..sources.max(1) as u32, 0..=longest);
            prop::collection::vec(list, destinations).prop_map(move |lists| (source, destination, lists))
        });
        let relations = prop::collection::vec(relation, 1..=9);
        relations.prop_map(move |relations| Typed { counts: counts.clone(), relations, wide })
    })
}

impl Typed {
    fn names(&self, relation: usize) -> [String; 3] {
        let (source, destination, _) = &self.relations[relation];
        [format!("t{source}"), format!("r-{relation}"), format!("t{destination}")]
    }

    fn write(&self, directory: &Path) {
        let nodes: Vec<Value> = (0..)
            .zip(&self.counts)
            .map(|(t, num): (usize, _)| json!({"type": format!("t{t}"), "num": num}))
            .collect();
        let edges: Vec<Value> =
            (0..self.relations.len()).map(|relation| json!({"type": self.names(relation)})).collect();
        let meta = json!({"version": 2, "nodes": nodes, "edges": edges, "target": "t0"});
        fs::write(directory.join("meta.json"), meta.to_string()).unwrap();
        for (t, &num) in self.counts.iter().enumerate() {
            if t % 2 == 0 {
                let values: Vec<f32> = (0..num * (t + 1)).map(|value| value as f32).collect();
                write_npy(&directory.join(format!("nodes/t{t}/feat.npy")), NpyType::F32, &[t + 1], &values);
            }
        }
        for (relation, (.., lists)) in self.relations.iter().enumerate() {
            let place = directory.join("edges").join(self.names(relation).join("__"));
            let mut ends = vec![0_i64];
            ends.extend(lists.iter().scan(0, |end, list| {
                *end += list.len() as i64;
                Some(*end)
            }));
            write_npy(&place.join("indptr.npy"), NpyType::I64, &[], &ends);
            let entries = lists.iter().flatten();
            if self.wide {
                let entries: Vec<i64> = entries.map(|&id| id.into()).collect();
                write_npy(&place.join("indices.npy"), NpyType::I64, &[], &entries);
            } else {
                let entries: Vec<i32> = entries.map(|&id| id as i32).collect();
                write_npy(&place.join("indices.npy"), NpyType::I32, &[], &entries);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_what_is_read(graph in typed()) {
        let directory = tempfile::tempdir().unwrap();
        graph.write(directory.path());
        let dataset = TypedDataset::open_verified(directory.path(), Verify::FullWithFeatures).unwrap();
        let metagraph = dataset.metagraph();
        prop_assert_eq!(metagraph.type_count(), graph.counts.len());
        prop_assert_eq!(metagraph.relation_count(), graph.relations.len());
        for node_type in metagraph.types() {
            prop_assert_eq!(dataset.nodes_of(node_type), graph.counts[node_type.index()]);
            let width = node_type.index() + 1;
            let has_rows = node_type.index() % 2 == 0;
            prop_assert_eq!(dataset.rows(node_type).map(|rows| rows.dim), has_rows.then_some(width));
            let into: Vec<usize> = metagraph.into_type(node_type).iter().map(|r| r.index()).collect();
            let wanted: Vec<usize> = (0..graph.relations.len())
                .filter(|&relation| graph.relations[relation].1 == node_type.index())
                .collect();
            prop_assert_eq!(into, wanted);
        }
        for relation in metagraph.relations() {
            let (source, destination, lists) = &graph.relations[relation.index()];
            prop_assert_eq!(metagraph.source(relation).index(), *source);
            prop_assert_eq!(metagraph.destination(relation).index(), *destination);
            let csc = dataset.lists(relation);
            prop_assert_eq!(csc.nodes(), lists.len());
            let found = ids(csc.indices);
            for (node, list) in lists.iter().enumerate() {
                let entries = csc.indptr[node] as usize..csc.indptr[node + 1] as usize;
                let list: Vec<i64> = list.iter().map(|&id| id.into()).collect();
                prop_assert_eq!(&found[entries], &list[..]);
            }
        }
        let single = (graph.counts.len(), graph.relations.len()) == (1, 1);
        prop_assert_eq!(dataset.single_type().is_ok(), single);
    }
}
