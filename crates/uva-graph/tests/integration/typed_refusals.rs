//! Datasets of format 2 that are refused: one test for each kind of fault, with the message.

use std::fs;

use serde_json::json;

use crate::common::typed::{LISTS, library};
use uva_graph::npy::NpyType;
use uva_graph::{TypedDataset, Verify};

const WRITES: &str = "edges/author__writes__paper";

#[test]
fn another_version_is_refused() {
    let mut library = library();
    for (version, shown) in [(json!(3), "3"), (json!(0), "0"), (json!(2.5), "2.5")] {
        library.change(|meta| meta["version"] = version.clone());
        let message = library.refusal(Verify::Stamp);
        assert_eq!(message, format!("meta.json: \"version\" is {shown}: this program reads 1 and 2"));
    }
}

#[test]
fn entries_of_meta_json_are_refused_by_their_place() {
    for (key, entry, value, wanted) in [
        ("nodes", 1, json!({"type": "author"}), "meta.json: nodes[1]: missing field `num`"),
        ("nodes", 1, json!({"type": "author", "num": -5}), "meta.json: nodes[1]: invalid value"),
        ("edges", 2, json!({"type": ["a", "b"]}), "meta.json: edges[2]: invalid length 2"),
        (
            "edges",
            0,
            json!({"type": LISTS[0].0, "order": "size"}),
            "meta.json: edges[0]: unknown variant `size`",
        ),
    ] {
        let mut library = library();
        library.change(|meta| meta[key][entry] = value);
        let message = library.refusal(Verify::Stamp);
        assert!(message.starts_with(wanted), "{message}");
    }
    for (key, value, wanted) in [
        ("nodes", json!({"paper": 6}), "\"nodes\" is not an array of objects"),
        ("edges", json!(null), "\"edges\" is not an array of objects"),
        ("layout", json!("node"), "\"layout\" is \"node\", which is not supported yet"),
        ("layout", json!("csr"), "\"layout\": unknown variant `csr`"),
        (
            "nodes",
            json!([{"type": "paper", "num": 6}, {"type": "author", "num": 5}, {"type": "topic", "num": 3},
          {"type": "x", "num": 1_u64 << 41}]),
            "\"num\" of x is 2199023255552, it has to be at most 2^40",
        ),
        ("target", json!("papr"), "\"target\": there is no node type \"papr\", did you mean \"paper\"?"),
        (
            "classes",
            json!(3),
            "\"classes\" is a key of version 1: in version 2 it belongs to an entry of \"nodes\"",
        ),
        ("part", json!({}), "\"part\" is a key of version 1: parts of typed graphs are not supported yet"),
    ] {
        let mut library = library();
        library.change(|meta| meta[key] = value);
        let message = library.refusal(Verify::Stamp);
        assert!(message.starts_with(&format!("meta.json: {wanted}")), "{message}");
    }
    let mut library = library();
    library.change(|meta| {
        meta.as_object_mut().unwrap().shift_remove("edges");
    });
    let message = library.refusal(Verify::Stamp);
    assert_eq!(message, "meta.json: \"edges\" is absent: a dataset of version 2 requires it");
}

#[test]
fn names_unknown_ends_and_repeats_are_refused() {
    for (key, entry, value, wanted) in [
        (
            "nodes",
            1,
            json!({"type": "a.b", "num": 5}),
            "node type \"a.b\": a name has letters, digits, _ and -, begins and ends with a letter or digit, and holds no \
             \"__\"",
        ),
        (
            "edges",
            3,
            json!({"type": ["author", "writes", "papr"]}),
            "edges[3] is author__writes__papr: there is no node type \"papr\", did you mean \"paper\"?",
        ),
        ("edges", 4, json!({"type": LISTS[1].0}), "edges[4] repeats author__writes__paper"),
    ] {
        let mut library = library();
        library.change(|meta| meta[key][entry] = value);
        assert_eq!(library.refusal(Verify::Stamp), format!("meta.json: {wanted}"));
    }
}

#[test]
fn directories_of_no_type_or_relation_are_refused() {
    let library = library();
    fs::write(library.path.join("nodes/notes.txt"), "files next to the types are ignored").unwrap();
    library.open();
    fs::create_dir(library.path.join("nodes/papr")).unwrap();
    let ignored = "a file in it would be ignored; rename or remove it";
    assert_eq!(
        library.refusal(Verify::Stamp),
        format!("nodes/papr: meta.json has no such node type: {ignored}")
    );
    fs::remove_dir(library.path.join("nodes/papr")).unwrap();
    fs::create_dir(library.path.join("edges/paper__writes__author")).unwrap();
    let wanted = format!("edges/paper__writes__author: meta.json has no such relation: {ignored}");
    assert_eq!(library.refusal(Verify::Stamp), wanted);
}

#[test]
fn files_of_format_1_are_refused_in_format_2() {
    let library = library();
    library.write("indptr", NpyType::I64, &[], &[0_i64]);
    let message = library.refusal(Verify::Stamp);
    assert_eq!(message, "indptr.npy: a file of format 1 in a dataset of version 2: remove it");
}

#[test]
fn shapes_are_refused_by_the_type_that_they_belong_to() {
    let floats = [0_f32; 20];
    let longs = [0_i64; 7];
    let library = |name: &str, kind: NpyType, row: &[usize], count: usize| {
        let library = library();
        match kind {
            NpyType::F32 => library.write(name, kind, row, &floats[..count]),
            _ => library.write(name, kind, row, &longs[..count]),
        }
        library.refusal(Verify::HeadersOnly)
    };
    for (name, kind, row, count, wanted) in [
        (
            "nodes/paper/feat",
            NpyType::F32,
            &[4][..],
            20,
            "the shape is [5, 4], it has to be [6, features], one row for each paper",
        ),
        (
            "nodes/author/time",
            NpyType::I64,
            &[],
            4,
            "the shape is [4], it has to be [5], one time for each author",
        ),
        (
            "nodes/author/orig_id",
            NpyType::I64,
            &[],
            4,
            "the shape is [4], it has to be [5], one id for each author",
        ),
        (
            "nodes/paper/train_time",
            NpyType::I64,
            &[],
            2,
            "the shape is [2], it has to be [3], one time for each entry of train_idx.npy",
        ),
        (
            "nodes/author/test_time",
            NpyType::I64,
            &[],
            2,
            "the shape is [2], it has to be [0], one time for each entry of test_idx.npy",
        ),
        (
            "edges/author__writes__paper/indptr",
            NpyType::I64,
            &[],
            6,
            "the shape is [6], it has to be [7], one more than the nodes of paper",
        ),
        (
            "edges/author__writes__paper/weight",
            NpyType::F32,
            &[],
            5,
            "the shape is [5], it has to be [12], one weight for each edge of indices.npy",
        ),
        (
            "edges/author__writes__paper/edge_id",
            NpyType::I64,
            &[],
            5,
            "the shape is [5], it has to be [12], one id for each edge of indices.npy",
        ),
        (
            "edges/author__writes__paper/feat",
            NpyType::F32,
            &[2],
            6,
            "the shape is [3, 2], it has to be [12, features], one row for each edge of indices.npy",
        ),
    ] {
        assert_eq!(library(name, kind, row, count), format!("{name}.npy: {wanted}"));
    }
}

#[test]
fn ids_outside_their_type_are_refused() {
    let mut ids = LISTS[1].2.to_vec();
    ids[2] = 99;
    let narrow = library();
    narrow.write(&format!("{WRITES}/indices"), NpyType::I32, &[], &ids);
    let wanted = format!(
        "{WRITES}/indices.npy: entry 2 at offset 136, a neighbour of paper 0, is 99, outside the author ids 0 to 4"
    );
    assert_eq!(narrow.refusal(Verify::Stamp), wanted);
    let wide: Vec<i64> = LISTS[1].2.iter().map(|&id| if id == 3 { -1 } else { id.into() }).collect();
    narrow.write(&format!("{WRITES}/indices"), NpyType::I64, &[], &wide);
    let message = narrow.refusal(Verify::Stamp);
    assert!(
        message.contains("entry 0 at offset 128, a neighbour of paper 0, is -1, outside the author"),
        "{message}"
    );
    // A paper's id would do for a paper.
    let five: Vec<i32> = LISTS[1].2.iter().map(|&id| if id == 4 { 5 } else { id }).collect();
    narrow.write(&format!("{WRITES}/indices"), NpyType::I32, &[], &five);
    assert!(narrow.refusal(Verify::Stamp).contains("is 5, outside the author ids 0 to 4"));
}

#[test]
fn values_of_nodes_are_refused_by_their_type() {
    let library = || {
        let library = library();
        library.write("nodes/author/label", NpyType::I64, &[], &[0_i64; 5]);
        library
    };
    for (name, values, wanted) in [
        (
            "author/label",
            vec![0_i64, 0, 0, -2, 0],
            "the label of author 3 at offset 152 is -2, outside -1 to",
        ),
        ("author/train_idx", vec![4, 5], "entry 1 at offset 136 is 5, outside the ids 0 to 4"),
        (
            "author/train_idx",
            vec![4, 2, 4],
            "entry 2 at offset 144 names author 4 again: a split names a author at most",
        ),
        ("author/orig_id", vec![0, 1, 2, 3, -4], "the original id of author 4 at offset 160 is -4, outside"),
        (
            "author/orig_id",
            vec![0, 1, 2, 3, 0],
            "the original id 0 occurs more than once, again for author 4",
        ),
    ] {
        let library = library();
        library.write(&format!("nodes/{name}"), NpyType::I64, &[], &values);
        let message = library.refusal(Verify::Stamp);
        assert!(message.starts_with(&format!("nodes/{name}.npy: {wanted}")), "{message}");
    }
    let mut classes = library();
    classes.change(|meta| meta["nodes"][1]["classes"] = json!(0));
    let message = classes.refusal(Verify::Stamp);
    assert_eq!(message, "meta.json: \"classes\" of author is 0, it has to be at least 1 and fit 32 bits");
    classes.change(|meta| meta["nodes"][1] = json!({"type": "author", "num": 1_u64 << 41}));
    let message = classes.refusal(Verify::Stamp);
    assert!(message.starts_with("edges/paper__rev_writes__author/indptr.npy: the shape is [6]"), "{message}");
    classes.change(|meta| meta["nodes"][1] = json!({"type": "author", "num": 5, "feat_dtype": "f33"}));
    classes.write("nodes/author/feat", NpyType::F32, &[1], &[0_f32; 5]);
    let message = classes.refusal(Verify::Stamp);
    assert!(message.starts_with("meta.json: \"feat_dtype\" of author is \"f33\""), "{message}");
}

#[test]
fn lists_that_do_not_ascend_by_time_are_refused() {
    let mut library = library();
    // The list of paper 3 has entries 5 to 8.
    let times = [1_i64, 2, 2, 3, 0, 10, 41, 30, 50, 9, 9, 9];
    library.write(&format!("{WRITES}/time"), NpyType::I64, &[], &times);
    library.open();
    library.change(|meta| meta["edges"][1]["order"] = json!("time"));
    let wanted = format!(
        "{WRITES}/time.npy: entry 7 at offset 184, in the list of paper 3, is 30 after 41: \"order\""
    );
    let message = library.refusal(Verify::Stamp);
    assert!(message.starts_with(&wanted), "{message}");
    fs::remove_file(library.file(&format!("{WRITES}/time"))).unwrap();
    let message = library.refusal(Verify::Stamp);
    let wanted =
        "\"order\" of author__writes__paper is \"time\", but neither the relation nor author has a time.npy";
    assert!(message.contains(wanted), "{message}");
    // Without times of edges, the order is that of the authors: 3, 0, 1, 0 in the list of paper 0.
    library.write("nodes/author/time", NpyType::I64, &[], &[1_i64, 2, 0, 0, 9]);
    let wanted = format!(
        "{WRITES}/indices.npy: entry 3 at offset 140, in the list of paper 0, is of time 1 (that of its author) after 2: \"order\""
    );
    let message = library.refusal(Verify::Stamp);
    assert!(message.starts_with(&wanted), "{message}");
    library.write("nodes/author/time", NpyType::I64, &[], &[4_i64, 4, 0, 4, 4]);
    library.open();
}

#[test]
fn reverses_of_other_ends_or_counts_are_refused() {
    let mut library = library();
    library.change(|meta| meta["edges"][1]["reverse"] = json!(LISTS[4].0));
    let wanted = "meta.json: \"reverse\" of author__writes__paper is paper__rev_covers__topic, whose ends are not those of \
                  author__writes__paper in the other order";
    assert_eq!(library.refusal(Verify::Stamp), wanted);
    library.change(|meta| meta["edges"][1]["reverse"] = json!(["paper", "rev_wrote", "author"]));
    let message = library.refusal(Verify::Stamp);
    assert!(message.contains("there is no relation \"paper__rev_wrote__author\", did you mean"), "{message}");
    library.change(|meta| meta["edges"][1]["reverse"] = json!(LISTS[3].0));
    library.write("edges/paper__rev_writes__author/indptr", NpyType::I64, &[], &[0_i64, 5, 8, 8, 9, 11]);
    library.write("edges/paper__rev_writes__author/indices", NpyType::I32, &[], &LISTS[3].2[..11]);
    let wanted = "meta.json: \"reverse\" of author__writes__paper has 11 edges, it has to have 12";
    assert_eq!(library.refusal(Verify::Stamp), wanted);
}

#[test]
fn reverses_of_other_edges_are_found_by_a_full_check() {
    let library = library();
    let mut ids = LISTS[3].2.to_vec();
    ids[0] = 1;
    library.write("edges/paper__rev_writes__author/indices", NpyType::I32, &[], &ids);
    library.open();
    let message = library.refusal(Verify::FullWithFeatures);
    let wanted =
        format!("{WRITES}/indices.npy: its edges are not those of paper__rev_writes__author in the other");
    assert!(message.starts_with(&wanted), "{message}");
}

#[test]
fn a_relation_may_be_its_own_reverse() {
    let mut library = library();
    library.change(|meta| meta["edges"][0]["reverse"] = json!(LISTS[0].0));
    let message = library.refusal(Verify::FullWithFeatures);
    assert!(message.contains("its edges are not those of paper__cites__paper in the other"), "{message}");
    library.write("edges/paper__cites__paper/indptr", NpyType::I64, &[], &[0_i64, 1, 2, 2, 2, 4, 4]);
    library.write("edges/paper__cites__paper/indices", NpyType::I32, &[], &[1, 0, 4, 4]);
    TypedDataset::open_verified(&library.path, Verify::FullWithFeatures).unwrap();
}

#[test]
fn values_that_are_not_finite_are_found_by_a_full_check() {
    let library = library();
    let mut rows = [0_f32; 12];
    rows[7] = f32::NAN;
    library.write(&format!("{WRITES}/feat"), NpyType::F32, &[1], &rows);
    library.open();
    let message = library.refusal(Verify::FullWithFeatures);
    assert!(
        message.starts_with(&format!("{WRITES}/feat.npy: row 7, column 0, at offset 156 is NaN")),
        "{message}"
    );
    library.write(&format!("{WRITES}/feat"), NpyType::F32, &[1], &[0_f32; 12]);
    library.write("nodes/topic/feat", NpyType::U16, &[2], &[0x7f80_u16; 6]);
    let message = library.refusal(Verify::FullWithFeatures);
    assert!(message.starts_with("nodes/topic/feat.npy: row 0, column 0, at offset 128 is inf"), "{message}");
}

#[test]
fn shared_rows_without_ids_or_rows_are_refused() {
    let mut library = library();
    library.change(|meta| meta["edges"][3]["feat_of"] = json!(LISTS[1].0));
    let message = library.refusal(Verify::Stamp);
    assert!(message.starts_with("edges/paper__rev_writes__author/edge_id.npy: cannot open"), "{message}");
    library.write("edges/paper__rev_writes__author/edge_id", NpyType::I64, &[], &[0_i64; 12]);
    let message = library.refusal(Verify::Stamp);
    assert!(message.starts_with(&format!("{WRITES}/feat.npy: cannot open")), "{message}");
    library.write(&format!("{WRITES}/feat"), NpyType::F32, &[1], &[0_f32; 12]);
    library.open();
    library.write("edges/paper__rev_writes__author/feat", NpyType::F32, &[1], &[0_f32; 12]);
    let message = library.refusal(Verify::Stamp);
    assert!(
        message.contains("\"feat_of\" of meta.json names the features of author__writes__paper"),
        "{message}"
    );
    fs::remove_file(library.file("edges/paper__rev_writes__author/feat")).unwrap();
    library.write("edges/paper__rev_writes__author/edge_id", NpyType::I64, &[], &[-1_i64; 12]);
    let message = library.refusal(Verify::Stamp);
    assert!(message.contains("entry 0 at offset 128 is -1, an id has to be 0 or more"), "{message}");
}
