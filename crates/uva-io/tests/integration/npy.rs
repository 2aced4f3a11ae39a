//! Importing directories of `.npy` files.

use std::fs;
use std::path::PathBuf;

use super::common::{FEATURES, INDICES, INDPTR, LABELS, Small, names, small};
use super::importer;
use uva_graph::csc::SelfLoops;
use uva_graph::npy::NpyType;
use uva_graph::{Dataset, ElementType, GraphError, Indices, Labels, Split, Verify};
use uva_io::import::{Float8, ImportOptions, ImportWatch};

fn import(small: &Small, options: &ImportOptions) -> Result<Dataset, GraphError> {
    let out = out(small);
    let _ = fs::remove_dir_all(&out);
    importer("npy").run(&small.path, &out, options, &ImportWatch::NONE)?;
    Ok(Dataset::open_verified(&out, Verify::FullWithFeatures).unwrap())
}

fn out(small: &Small) -> PathBuf {
    small.directory.path().join("out")
}

/// The refusal, after checking that no files are left.
fn refusal(small: &Small, options: &ImportOptions) -> String {
    let error = import(small, options).unwrap_err();
    assert!(error.is_bad_input(), "{error}");
    assert_eq!(names(small.directory.path()), ["small"], "something is left behind");
    error.to_string()
}

fn ids(dataset: &Dataset) -> Vec<i64> {
    (0..dataset.edges()).map(|edge| dataset.csc().indices.get(edge)).collect()
}

fn remove(small: &Small, files: &[&str]) {
    for name in files {
        fs::remove_file(small.file(name)).unwrap();
    }
}

#[test]
fn our_own_layout_comes_through_unchanged() {
    let small = small();
    small.meta(r#"{"name": "tiny", "classes": 4, "source": "here"}"#);
    small.write("orig_id", NpyType::I64, &[], &[3_i64, 2, 1, 0]);
    small.write("weight", NpyType::F32, &[], &[0.5_f32, 1.5, 2.5, 3.5, 4.5]);
    let dataset = import(&small, &ImportOptions::default()).unwrap();
    assert_eq!((dataset.name(), dataset.classes()), ("tiny", 4));
    assert_eq!(dataset.meta().other["source"], "here");
    assert_eq!(dataset.csc().indptr, INDPTR);
    assert!(matches!(dataset.csc().indices, Indices::I32(ids) if ids == INDICES));
    assert_eq!(bytemuck::cast_slice::<u8, f32>(dataset.features().bytes), FEATURES);
    assert!(matches!(dataset.labels(), Labels::Single(labels) if labels == LABELS));
    assert_eq!(dataset.split(Split::Train), [3, 0]);
    assert_eq!(dataset.original_ids().unwrap(), [3, 2, 1, 0]);
    assert_eq!(dataset.weights().unwrap(), [0.5, 1.5, 2.5, 3.5, 4.5]);
    let renamed =
        import(&small, &ImportOptions { name: Some("other".into()), ..Default::default() }).unwrap();
    assert_eq!(renamed.name(), "other");
}

#[test]
fn pyg_names_pairs_and_masks_are_converted() {
    let small = small();
    remove(&small, &["indptr", "indices", "feat", "label", "train_idx", "valid_idx", "test_idx"]);
    // 3→0, 1→0, 0→1, 2→2, with weights that must follow their edges.
    small.write("edge_index", NpyType::I64, &[4], &[3_i64, 0, 1, 2, 0, 1, 0, 2]);
    small.write("edge_weight", NpyType::F64, &[], &[0.25_f64, 0.5, 0.75, 1.0]);
    small.write("x", NpyType::F64, &[1], &[0.5_f64, 1.5, 2.5, 3.5]);
    small.write("y", NpyType::F32, &[1], &[1_f32, f32::NAN, 0.0, 2.0]);
    small.write("train_mask", NpyType::Bool, &[], &[1_u8, 0, 0, 1]);
    small.write("val_mask", NpyType::U8, &[], &[0_u8, 1, 0, 0]);
    small.write("test_idx", NpyType::I32, &[], &[2_i32]);
    let dataset = import(&small, &ImportOptions::default()).unwrap();
    assert_eq!(dataset.csc().indptr, [0, 2, 3, 4, 4]);
    assert_eq!(ids(&dataset), [3, 1, 0, 2]);
    assert_eq!(dataset.weights().unwrap(), [0.25, 0.75, 0.5, 1.0]);
    assert_eq!(dataset.table().element, ElementType::F32);
    assert_eq!(bytemuck::cast_slice::<u8, f32>(dataset.features().bytes), [0.5, 1.5, 2.5, 3.5]);
    assert!(matches!(dataset.labels(), Labels::Single(labels) if labels == [1, -1, 0, 2]));
    assert_eq!(dataset.split(Split::Train), [0, 3]);
    assert_eq!(dataset.split(Split::Valid), [1]);
    assert_eq!(dataset.split(Split::Test), [2]);
    assert_eq!(dataset.name(), "out");

    // The same edges as rows of pairs, and as two files.
    remove(&small, &["edge_index"]);
    small.write("edge_index", NpyType::I32, &[2], &[3, 0, 0, 1, 1, 0, 2, 2]);
    assert_eq!(ids(&import(&small, &ImportOptions::default()).unwrap()), [3, 1, 0, 2]);
    remove(&small, &["edge_index"]);
    small.write("src", NpyType::U32, &[], &[3_u32, 0, 1, 2]);
    small.write("dst", NpyType::U8, &[], &[0_u8, 1, 0, 2]);
    assert_eq!(ids(&import(&small, &ImportOptions::default()).unwrap()), [3, 1, 0, 2]);
}

#[test]
fn edges_are_symmetrised_deduplicated_and_given_self_loops_as_asked() {
    let small = small();
    let symmetric =
        ImportOptions { symmetrise: Some(true.into()), deduplicate: Some(true.into()), ..Default::default() };
    let dataset = import(&small, &symmetric).unwrap();
    // Lists were 0: 1 2, 1: none, 2: 0, 3: 1 0.
    assert_eq!(dataset.csc().indptr, [0, 3, 5, 6, 8]);
    assert_eq!(ids(&dataset), [1, 2, 3, 0, 3, 0, 0, 1]);
    let looped = ImportOptions { self_loops: Some(SelfLoops::Add.into()), ..symmetric };
    assert_eq!(ids(&import(&small, &looped).unwrap()), [0, 1, 2, 3, 0, 1, 3, 0, 2, 0, 1, 3]);
    small.write("indices", NpyType::I32, &[], &[0, 2, 0, 3, 0]);
    let without = ImportOptions { self_loops: Some(SelfLoops::Remove.into()), ..Default::default() };
    assert_eq!(ids(&import(&small, &without).unwrap()), [2, 0, 0]);
}

#[test]
fn multi_labels_of_any_number_type_become_bytes() {
    let small = small();
    small.write("label", NpyType::F32, &[2], &[0_f32, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
    let dataset = import(&small, &ImportOptions::default()).unwrap();
    assert!(
        matches!(dataset.labels(), Labels::Multi { classes: 2, values } if values == [0, 1, 1, 1, 0, 0, 1, 0])
    );
}

#[test]
fn bfloat16_and_half_features_keep_their_type() {
    let small = small();
    small.write("feat", NpyType::U16, &[1], &[0x3f80_u16, 0, 0, 0]);
    small.meta(r#"{"feat_dtype": "bf16"}"#);
    assert_eq!(import(&small, &ImportOptions::default()).unwrap().features().element, ElementType::Bf16);
    fs::remove_file(small.path.join("meta.json")).unwrap();
    let dataset = import(&small, &ImportOptions::default()).unwrap();
    assert_eq!(bytemuck::cast_slice::<u8, f32>(dataset.features().bytes)[0], 16256.0);
    small.write("feat", NpyType::F16, &[1], &[0x3c00_u16, 0, 0, 0]);
    let dataset = import(&small, &ImportOptions::default()).unwrap();
    assert_eq!((dataset.table().element, dataset.features().bytes[1]), (ElementType::F16, 0x3c));
    small.write("feat", NpyType::Bool, &[1], &[1_u8, 0, 1, 0]);
    let dataset = import(&small, &ImportOptions::default()).unwrap();
    assert_eq!((dataset.table().element, dataset.features().bytes), (ElementType::U8, &[1, 0, 1, 0][..]));
}

#[test]
fn features_become_float8_where_requested_and_few_saturate() {
    let float8 =
        |saturate| ImportOptions { float8: Some(Float8 { saturate }.into()), ..ImportOptions::default() };
    let small = small();
    // 1.0625 lies between 1 and 1.125, whose fraction is odd.
    small.write("feat", NpyType::F32, &[1], &[1_f32, 1.0625, -448.0, 0.001953125]);
    let dataset = import(&small, &float8(false)).unwrap();
    assert_eq!(
        (dataset.table().element, dataset.features().bytes),
        (ElementType::E4m3, &[0x38, 0x38, 0xfe, 0x01][..])
    );
    assert_eq!(dataset.meta().feat_dtype.as_deref(), Some("e4m3"));
    // The other types are handled in the same way, bfloat16 as such and not as uint16.
    small.write("feat", NpyType::U16, &[1], &[0x3f80_u16, 0, 0x4000, 0]);
    small.meta(r#"{"feat_dtype": "bf16"}"#);
    assert_eq!(import(&small, &float8(false)).unwrap().features().bytes, [0x38, 0, 0x40, 0]);
    // A table of float8 stays one.
    small.write("feat", NpyType::U8, &[1], &[0x38_u8, 0xfe, 0, 1]);
    small.meta(r#"{"feat_dtype": "e4m3"}"#);
    let dataset = import(&small, &ImportOptions::default()).unwrap();
    assert_eq!((dataset.table().element, dataset.features().bytes[1]), (ElementType::E4m3, 0xfe));
    assert_eq!(import(&small, &float8(false)).unwrap().features().bytes, [0x38, 0xfe, 0, 1]);
    small.write("feat", NpyType::U8, &[1], &[0x38_u8, 0x7f, 0, 1]);
    let message = import(&small, &ImportOptions::default()).unwrap_err().to_string();
    assert!(message.contains("row 1, column 0") && message.contains("NaN"), "{message}");

    fs::remove_file(small.path.join("meta.json")).unwrap();
    small.write("feat", NpyType::F32, &[1], &[1_f32, 449.0, -1e9, 448.0]);
    let message = import(&small, &float8(false)).unwrap_err().to_string();
    for part in ["feat.npy", "2 of 4 features are beyond ±448", "`saturate`"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(import(&small, &float8(true)).unwrap().features().bytes, [0x38, 0x7e, 0xfe, 0x7e]);
    small.write("feat", NpyType::F32, &[1], &[1_f32, f32::NEG_INFINITY, 0.0, 0.0]);
    let message = import(&small, &float8(true)).unwrap_err().to_string();
    assert!(message.contains("row 1, column 0, at offset 132 is -inf"), "{message}");
}

#[test]
fn what_does_not_fit_is_refused_by_the_sources_name_and_leaves_nothing() {
    let none = ImportOptions::default();
    let refused = |change: &dyn Fn(&Small), part: &str| {
        let small = small();
        change(&small);
        let message = refusal(&small, &none);
        assert!(message.contains(part), "{message} instead of {part}");
        assert!(!message.contains("partial"), "{message}");
    };
    refused(&|s| s.change("feat", |bytes| bytes.truncate(140)), "small/feat.npy: the header promises");
    refused(
        &|s| s.change_header("feat", "'fortran_order': False", "'fortran_order': True "),
        "Fortran order",
    );
    refused(&|s| s.write("indptr", NpyType::I64, &[], &[0_i64, 2, 1, 3, 5]), "small/indptr.npy: entry 2");
    refused(
        &|s| s.write("indices", NpyType::I32, &[], &[0, 0, 0, 0, 4]),
        "small/indices.npy: entry 4 at offset 144, a neighbour of node 3, is 4, outside the ids 0 to 3 (feat.npy has 4 rows)",
    );
    refused(
        &|s| s.write("label", NpyType::I32, &[], &[0, 0, 0, -2]),
        "small/label.npy: the label of node 3 at offset 140",
    );
    refused(&|s| s.write("label", NpyType::F32, &[], &[-2_f32; 4]), "the label of node 0 is -2");
    refused(
        &|s| s.write("train_idx", NpyType::I32, &[], &[1, 1]),
        "small/train_idx.npy: entry 1 at offset 132 names node 1",
    );
    refused(&|s| s.write("train_idx", NpyType::F32, &[], &[1_f32]), "an integer type");
    refused(&|s| remove(s, &["test_idx"]), "no split: expected test_idx.npy, or test_mask.npy");
    refused(&|s| remove(s, &["feat"]), "no features: expected feat.npy, or x.npy");
    refused(&|s| remove(s, &["indptr"]), "no graph: expected indptr.npy, or edge_index.npy, or src.npy");
    refused(&|s| remove(s, &["indices"]), "no neighbours: expected indices.npy");
    refused(&|s| s.meta("{"), "meta.json");
    refused(
        &|s| {
            remove(s, &["valid_idx"]);
            s.write("valid_mask", NpyType::U8, &[], &[0_u8, 2, 0, 0]);
        },
        "valid_mask.npy: entry 1 is 2, neither 0 nor 1",
    );
    refused(&|s| s.write("weight", NpyType::F32, &[], &[f32::NAN; 5]), "weight.npy: the weight of edge 0");
    refused(&|s| s.write("edge_type", NpyType::U16, &[], &[1_u16; 4]), "edge_type.npy: the shape is [4]");
    refused(
        &|s| s.write("edge_type", NpyType::I64, &[], &[1_i64, 0, 65_535, 65_536, -1]),
        "edge_type.npy: the type of edge 3 is 65536, it has to be 0 to 65535",
    );

    let small = small();
    small.write("weight", NpyType::F32, &[], &[1_f32; 5]);
    let message = refusal(&small, &ImportOptions { symmetrise: Some(true.into()), ..none.clone() });
    assert!(message.contains("weight.npy: omit these options"), "{message}");
    remove(&small, &["weight"]);
    small.write("edge_type", NpyType::U16, &[], &[1_u16; 5]);
    let message = refusal(&small, &ImportOptions { symmetrise: Some(true.into()), ..none });
    assert!(message.contains("edge_type.npy: omit these options"), "{message}");
}

#[test]
fn features_of_edges_stay_with_their_edges_in_every_form_of_the_graph() {
    // Edges in an arbitrary order: 3→0, 0→3, 1→0, 0→2, 2→3.
    let (sources, destinations) = ([3_i64, 0, 1, 0, 2], [0_i64, 3, 0, 2, 3]);
    let edge_index: Vec<i64> = sources.into_iter().chain(destinations).collect();
    let of_graph = |small: &Small| {
        remove(small, &["indptr", "indices"]);
        small.write("edge_index", NpyType::I64, &[5], &edge_index);
    };
    let rows = [[0_f32, 1.], [10., 11.], [20., 21.], [30., 31.], [40., 41.]];
    for name in ["edge_feat", "edge_attr", "edge_features"] {
        let small = small();
        of_graph(&small);
        small.write(name, NpyType::F32, &[2], rows.as_flattened());
        let dataset = import(&small, &ImportOptions::default()).unwrap();
        assert_eq!(ids(&dataset), [3, 1, 0, 0, 2]);
        let table = dataset.edge_features().unwrap();
        assert_eq!((table.rows, table.dim, table.element), (5, 2, ElementType::F32));
        let moved = [rows[0], rows[2], rows[3], rows[1], rows[4]];
        assert_eq!(bytemuck::cast_slice::<u8, f32>(table.bytes), moved.as_flattened());
        assert!(!names(&out(&small)).iter().any(|name| name.contains("temporary")));
    }
    // With weights; numbers of a type that a dataset does not support, one per edge.
    let small = small();
    of_graph(&small);
    small.write("edge_attr", NpyType::I64, &[], &[0_i64, 1, 2, 3, 4]);
    small.write("weight", NpyType::F32, &[], &[0_f32, 1., 2., 3., 4.]);
    small.write("edge_type", NpyType::I32, &[], &[0_i32, 10, 20, 30, 65_535]);
    let dataset = import(&small, &ImportOptions::default()).unwrap();
    let table = dataset.edge_features().unwrap();
    assert_eq!(bytemuck::cast_slice::<u8, f32>(table.bytes), dataset.weights().unwrap());
    assert_eq!(dataset.edge_types().unwrap(), [0, 20, 30, 10, 65_535]);
    assert!(!names(&out(&small)).iter().any(|name| name.contains("temporary")));
    // Lists unchanged; bfloat16, as declared in meta.json.
    let small = super::common::small();
    small.write("edge_feat", NpyType::U16, &[1], &[1_u16, 2, 3, 4, 5]);
    small.meta(r#"{"edge_feat_dtype": "bf16"}"#);
    let dataset = import(&small, &ImportOptions::default()).unwrap();
    let table = dataset.edge_features().unwrap();
    assert_eq!(table.element, ElementType::Bf16);
    assert_eq!(table.bytes, bytemuck::cast_slice::<u16, u8>(&[1, 2, 3, 4, 5]));
}

#[test]
fn features_of_edges_that_do_not_fit_are_refused_by_the_sources_name() {
    let none = ImportOptions::default();
    let small = small();
    small.write("edge_attr", NpyType::F32, &[1], &[0_f32; 4]);
    assert!(refusal(&small, &none).contains("small/edge_attr.npy: the shape is [4, 1], it has to be [5"));
    small.write("edge_attr", NpyType::F32, &[1], &[0_f32, 0., 0., f32::NAN, 0.]);
    assert!(refusal(&small, &none).contains("small/edge_attr.npy: row 3, column 0, at offset 140 is NaN"));
    small.write("edge_attr", NpyType::F32, &[1], &[0_f32; 5]);
    let message = refusal(&small, &ImportOptions { symmetrise: Some(true.into()), ..none });
    assert!(message.contains("edge_attr.npy: omit these options"), "{message}");
}

#[test]
fn an_existing_out_is_refused_and_kept() {
    let small = small();
    fs::create_dir(out(&small)).unwrap();
    fs::write(out(&small).join("mine"), "").unwrap();
    let error = importer("npy")
        .run(&small.path, &out(&small), &ImportOptions::default(), &ImportWatch::NONE)
        .unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("exists already"), "{error}");
    assert_eq!(names(&out(&small)), ["mine"]);
}

#[test]
fn fractional_floats_are_targets_and_whole_floats_are_on_request() {
    let small = small();
    let targets = |options: &ImportOptions| match import(&small, options).unwrap().labels() {
        Labels::Regression { columns, values } => (columns, values.to_vec()),
        other => panic!("{other:?}"),
    };
    let (usual, regression) =
        (ImportOptions::default(), ImportOptions { regression: Some(true.into()), ..Default::default() });
    small.write("label", NpyType::F64, &[], &[0.5_f64, 1.0, -2.0, 3.0]);
    // They are not classes, whatever number meta.json has.
    small.meta(r#"{"classes": 7}"#);
    assert_eq!(targets(&usual), (None, vec![0.5, 1.0, -2.0, 3.0]));
    small.write("label", NpyType::F32, &[2], &[0.5_f32, 1.0, -2.0, 3.0, 0.0, 1.0, 1.0, 0.0]);
    assert_eq!(targets(&usual), (Some(2), vec![0.5, 1.0, -2.0, 3.0, 0.0, 1.0, 1.0, 0.0]));
    small.write("label", NpyType::I32, &[1], &[3, 1, -1, 0]);
    assert_eq!(targets(&regression), (Some(1), vec![3.0, 1.0, -1.0, 0.0]));
    small.write("label", NpyType::F64, &[], &[0.5_f64, 1.0, f64::NAN, 3.0]);
    for options in [&usual, &regression] {
        let error = import(&small, options).unwrap_err();
        assert!(error.is_bad_input());
        let part = "label.npy: the target of node 2, column 0, is NaN";
        assert!(error.to_string().contains(part), "{error}");
    }
    remove(&small, &["label"]);
    assert!(matches!(import(&small, &usual).unwrap().labels(), Labels::Absent));
}
