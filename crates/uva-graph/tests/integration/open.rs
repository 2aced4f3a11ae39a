//! Opening a dataset: the contents, and the error for every kind of wrong file.

use std::fs;
use std::path::Path;

use crate::common::{self, FEATURES, INDICES, INDPTR, LABELS, names, small};
use uva_graph::npy::NpyType;
use uva_graph::{Dataset, ElementType, Indices, Labels, Repeats, Split, Verify};

#[test]
fn a_dataset_is_borrowed_from_its_files_unchanged() {
    let small = small();
    let dataset = small.open();
    assert_eq!((dataset.nodes(), dataset.edges(), dataset.classes()), (4, 5, 3));
    assert_eq!(dataset.name(), "small");
    let csc = dataset.csc();
    assert_eq!(csc.indptr, INDPTR);
    assert!(matches!(csc.indices, Indices::I32(ids) if ids == INDICES));
    assert_eq!((csc.degree(0), csc.degree(1), csc.indices.get(3)), (2, 0, 1));
    let features = dataset.features();
    assert_eq!(
        (features.rows, features.dim, features.element, features.row_bytes()),
        (4, 2, ElementType::F32, 8)
    );
    assert_eq!(bytemuck::cast_slice::<u8, f32>(features.bytes), FEATURES);
    let labels = dataset.labels();
    assert!(matches!(labels, Labels::Single(values) if values == LABELS));
    assert_eq!((labels.row_bytes(), labels.bytes().len()), (8, 32));
    assert_eq!(dataset.split(Split::Train), [3, 0]);
    assert_eq!(dataset.split(Split::Test), [2]);
    assert_eq!(dataset.original_ids(), None);
    assert!(dataset.verification().edges_checked && !dataset.verification().features_checked);
}

#[test]
fn other_nodes_stand_in_for_a_split_in_this_process_alone() {
    let small = small();
    let fingerprint = small.open().fingerprint();
    let dataset = small.open().with_nodes(Split::Test, vec![3, 0, 1], "nodes").unwrap();
    assert_eq!((dataset.split(Split::Test), dataset.split(Split::Train)), (&[3, 0, 1][..], &[3, 0][..]));
    assert_eq!(dataset.fingerprint(), fingerprint);
    assert_eq!((dataset.repeats(), small.open().repeats()), (Repeats::default(), Repeats::default()));
    assert_eq!(small.open().split(Split::Test), [2]);
    let again = small.open().with_nodes(Split::Test, vec![3, 0, 3, 3], "nodes").unwrap();
    let degree = again.csc().degree(3);
    assert_eq!(again.split(Split::Test), [3, 0, 3, 3]);
    assert_eq!(again.repeats(), Repeats { rows: 2, edges: 2 * degree });
    for (ids, problem) in [
        (vec![0, 4], "`nodes`: entry 1 is 4, outside the ids 0 to 3 of the dataset's 4 nodes"),
        (vec![-1], "`nodes`: entry 0 is -1, outside the ids 0 to 3 of the dataset's 4 nodes"),
    ] {
        let error = small.open().with_nodes(Split::Test, ids, "nodes").unwrap_err();
        assert!(error.is_bad_input() && error.to_string() == problem, "{error}");
    }
}

#[test]
fn every_feature_type_and_both_id_widths_are_taken() {
    let small = small();
    small.write("indices", NpyType::I64, &[], &INDICES.map(i64::from));
    assert_eq!(small.open().csc().indices.get(1), 2);
    small.write("feat", NpyType::F16, &[3], &[0_u16; 12]);
    assert_eq!(small.open().features().row_bytes(), 6);
    small.write("feat", NpyType::U8, &[3], &[9_u8; 12]);
    assert_eq!(small.open().features().element, ElementType::U8);
    small.write("feat", NpyType::I8, &[3], &[-9_i8; 12]);
    assert_eq!(small.open().features().element, ElementType::I8);
    small.write("feat", NpyType::U16, &[3], &[0x3f80_u16; 12]);
    let message = small.refusal(Verify::Full);
    assert!(message.contains("uint16") && message.contains("\"feat_dtype\": \"bf16\""), "{message}");
    small.meta(r#"{"feat_dtype": "bf16"}"#);
    assert_eq!(small.open().features().element, ElementType::Bf16);
}

#[test]
fn features_of_edges_are_taken_in_every_type_and_count_in_the_fingerprint() {
    let small = small();
    let without = small.open();
    assert!(without.edge_features().is_none());
    small.write("edge_feat", NpyType::F32, &[2], &[1_f32, 2., 3., 4., 5., 6., 7., 8., 9., 10.]);
    let with = small.open();
    let table = with.edge_features().unwrap();
    assert_eq!((table.rows, table.dim, table.element), (5, 2, ElementType::F32));
    assert_eq!(bytemuck::cast_slice::<u8, f32>(&table.bytes[8..16]), [3., 4.]);
    assert_ne!(with.fingerprint(), without.fingerprint());
    small.write("edge_feat", NpyType::U16, &[1], &[0x3f80_u16; 5]);
    let message = small.refusal(Verify::Full);
    assert!(message.contains("\"edge_feat_dtype\": \"bf16\""), "{message}");
    small.meta(r#"{"edge_feat_dtype": "bf16"}"#);
    assert_eq!(small.open().edge_features().unwrap().element, ElementType::Bf16);
    small.write("edge_feat", NpyType::F32, &[1], &[0_f32; 5]);
    assert!(small.refusal(Verify::Full).contains("edge_feat.npy holds float32"));
}

#[test]
fn several_classes_a_node_are_taken() {
    let small = small();
    small.write("label", NpyType::U8, &[3], &[1_u8, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1]);
    let dataset = small.open();
    assert_eq!(dataset.classes(), 3);
    assert!(matches!(dataset.labels(), Labels::Multi { classes: 3, values } if values.len() == 12));
    small.write("label", NpyType::U8, &[3], &[1_u8, 0, 0, 1, 7, 0, 0, 0, 0, 0, 0, 1]);
    let message = small.refusal(Verify::Full);
    assert!(message.contains("label.npy: the label of node 1, column 1, at offset 132 is 7"), "{message}");
}

#[test]
fn meta_is_optional_and_keeps_unknown_keys() {
    let small = small();
    small.meta(r#"{"name": "tiny", "classes": 9, "licence": "MIT", "made_by": ["me", 2]}"#);
    let dataset = small.open();
    assert_eq!((dataset.name(), dataset.classes()), ("tiny", 9));
    assert_eq!(dataset.meta().other["made_by"][1], 2);
    let text = serde_json::to_string(dataset.meta()).unwrap();
    assert!(text.contains(r#""made_by":["me",2]"#), "{text}");
    for (json, part) in [
        ("{", "EOF"),
        (r#"{"classes": "two"}"#, "invalid type"),
        (r#"{"classes": 0}"#, "\"classes\" is 0"),
        (r#"{"classes": 2}"#, "label of node 1 at offset 136 is 2, outside -1 to 1"),
        (r#"{"feat_dtype": "f16"}"#, "feat.npy holds float32"),
        (r#"{"feat_dtype": "fp4"}"#, "\"feat_dtype\" is \"fp4\""),
    ] {
        small.meta(json);
        let message = small.refusal(Verify::Full);
        assert!(message.contains(part), "{json}: {message}");
    }
}

#[test]
fn a_missing_file_or_directory_is_named() {
    let small = small();
    fs::remove_file(small.file("valid_idx")).unwrap();
    assert!(small.refusal(Verify::Full).contains("valid_idx.npy: cannot open"));
    let error = Dataset::open(Path::new("/nowhere/at/all")).unwrap_err();
    assert!(error.is_bad_input() && error.to_string().starts_with("/nowhere/at/all: cannot open"), "{error}");
    let error = Dataset::open(&small.file("feat")).unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("a directory of .npy files"), "{error}");
}

#[test]
fn truncated_files_are_refused() {
    for name in ["indptr", "indices", "feat", "label", "train_idx", "valid_idx", "test_idx"] {
        let small = small();
        small.change(name, |bytes| bytes.truncate(bytes.len() - 1));
        for how in [Verify::Stamp, Verify::HeadersOnly] {
            let message = small.refusal(how);
            assert!(message.contains(&format!("{name}.npy: ")) && message.contains("truncated"), "{message}");
        }
    }
}

#[test]
fn trailing_bytes_fortran_order_big_endian_and_wrong_types_are_refused() {
    let refusal = |change: &dyn Fn(&common::Small)| {
        let small = small();
        change(&small);
        small.refusal(Verify::Full)
    };
    let message = refusal(&|small| small.change("feat", |bytes| bytes.push(0)));
    assert!(message.contains("feat.npy: 1 bytes follow"), "{message}");
    let message =
        refusal(&|small| small.change_header("feat", "'fortran_order': False", "'fortran_order': True "));
    assert!(message.contains("feat.npy: the array is in Fortran order"), "{message}");
    let message = refusal(&|small| small.change_header("label", "<i8", ">i8"));
    assert!(message.contains("label.npy: element type '>i8' is big-endian"), "{message}");
    let message = refusal(&|small| small.write("indptr", NpyType::I32, &[], &[0_i32, 2, 2, 3, 5]));
    assert!(message.contains("indptr.npy: the element type is int32, it has to be int64"), "{message}");
    let message = refusal(&|small| small.write("indices", NpyType::F32, &[], &[0_f32; 5]));
    assert!(
        message.contains("indices.npy: the element type is float32, it has to be int32 or int64"),
        "{message}"
    );
    let message = refusal(&|small| small.write("feat", NpyType::F64, &[2], &[0_f64; 8]));
    assert!(message.contains("feat.npy: the element type is float64"), "{message}");
    let message = refusal(&|small| small.write("train_idx", NpyType::I32, &[], &[0_i32]));
    assert!(message.contains("train_idx.npy: the element type is int32, it has to be int64"), "{message}");
}

#[test]
fn shapes_that_do_not_fit_each_other_are_refused() {
    let small = small();
    small.write("feat", NpyType::F32, &[2], &[0_f32; 10]);
    assert!(
        small.refusal(Verify::Full).contains("feat.npy: the shape is [5, 2], it has to be [4, features]")
    );
    small.write("feat", NpyType::F32, &[2], &FEATURES);
    small.write("label", NpyType::I64, &[], &[0_i64; 5]);
    assert!(small.refusal(Verify::Full).contains("label.npy: the shape is [5], it has to be [4]"));
    small.write("label", NpyType::I64, &[], &LABELS);
    small.write("orig_id", NpyType::I64, &[], &[0_i64; 3]);
    assert!(small.refusal(Verify::Full).contains("orig_id.npy: the shape is [3], it has to be [4]"));
    fs::remove_file(small.file("orig_id")).unwrap();
    small.write("weight", NpyType::F32, &[], &[0_f32; 4]);
    assert!(small.refusal(Verify::Full).contains("weight.npy: the shape is [4], it has to be [5]"));
    fs::remove_file(small.file("weight")).unwrap();
    small.write("edge_feat", NpyType::F32, &[2], &[0_f32; 8]);
    assert!(
        small
            .refusal(Verify::Full)
            .contains("edge_feat.npy: the shape is [4, 2], it has to be [5, features]")
    );
    fs::remove_file(small.file("edge_feat")).unwrap();
    small.write::<i64>("indptr", NpyType::I64, &[], &[]);
    assert!(small.refusal(Verify::Full).contains("indptr.npy: the shape is [0]"));
}

#[test]
fn edge_types_are_uint16_one_per_edge_and_part_of_the_fingerprint() {
    let small = small();
    let without = small.open();
    assert!(without.edge_types().is_none());
    small.write("edge_type", NpyType::U16, &[], &[0_u16, 65_535, 7, 7, 1]);
    let dataset = small.open();
    assert_eq!(dataset.edge_types().unwrap(), [0, 65_535, 7, 7, 1]);
    assert_ne!(dataset.fingerprint(), without.fingerprint());
    small.write("edge_type", NpyType::U16, &[], &[0_u16, 65_535, 7, 7, 2]);
    assert_ne!(small.open().fingerprint(), dataset.fingerprint());

    for how in [Verify::HeadersOnly, Verify::Full] {
        small.write("edge_type", NpyType::U16, &[], &[0_u16; 4]);
        let message = small.refusal(how);
        let wanted =
            "edge_type.npy: the shape is [4], it has to be [5], one type for each edge of indices.npy";
        assert!(message.contains(wanted), "{message}");
        small.write("edge_type", NpyType::U16, &[1], &[0_u16; 5]);
        assert!(small.refusal(how).contains("edge_type.npy: the shape is [5, 1]"));
        small.write("edge_type", NpyType::I64, &[], &[0_i64; 5]);
        let message = small.refusal(how);
        let wanted = "edge_type.npy: the element type is int64, it has to be uint16";
        assert!(message.contains(wanted), "{message}");
        small.write("edge_type", NpyType::U16, &[], &[0_u16; 5]);
        small.change("edge_type", |bytes| bytes.truncate(bytes.len() - 1));
        let message = small.refusal(how);
        assert!(message.contains("edge_type.npy") && message.contains("truncated"), "{message}");
    }
}

#[test]
fn a_table_too_large_for_any_memory_is_refused() {
    let small = small();
    let mut header =
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 4611686018427387904), }".to_vec();
    header.resize(117, b' ');
    header.push(b'\n');
    small.change("feat", |bytes| bytes[10..128].copy_from_slice(&header));
    let message = small.refusal(Verify::Full);
    assert!(
        message.contains("feat.npy: shape [4, 4611686018427387904] of 4-byte elements overflows"),
        "{message}"
    );
}

#[test]
fn an_invalid_indptr_is_refused_with_offset_and_value() {
    let small = small();
    for (indptr, part) in [
        ([1_i64, 2, 2, 3, 5], "entry 0 at offset 128 is 1, it has to be 0"),
        ([0, 2, 1, 3, 5], "entry 2 at offset 144 is 1, less than the 2 before it"),
        ([0, -1, 2, 3, 5], "entry 1 at offset 136 is -1"),
        ([0, 2, 2, 3, 4], "the last entry (4) at offset 160 is 4, but indices.npy has 5 entries"),
        ([0, 2, 2, 3, 6], "the last entry (4) at offset 160 is 6"),
    ] {
        small.write("indptr", NpyType::I64, &[], &indptr);
        let message = small.refusal(Verify::Stamp);
        assert!(message.contains("indptr.npy: ") && message.contains(part), "{message}");
    }
}

#[test]
fn a_neighbour_out_of_range_is_refused_with_its_node() {
    let small = small();
    for wrong in [4, -1, i32::MAX] {
        small.write("indices", NpyType::I32, &[], &[1, 2, wrong, 1, 0]);
        let message = small.refusal(Verify::Stamp);
        let part =
            format!("entry 2 at offset 136, a neighbour of node 2, is {wrong}, outside the ids 0 to 3");
        assert!(message.contains("indices.npy: ") && message.contains(&part), "{message}");
    }
    small.write("indices", NpyType::I64, &[], &[1, 2, 0, 1_i64 << 32, 0]);
    let message = small.refusal(Verify::Stamp);
    assert!(message.contains("entry 3 at offset 152, a neighbour of node 3, is 4294967296"), "{message}");
}

#[test]
fn labels_out_of_range_are_refused() {
    let small = small();
    for wrong in [-2, i64::MIN, i64::MAX] {
        small.write("label", NpyType::I64, &[], &[0, 1, 2, wrong]);
        let message = small.refusal(Verify::Stamp);
        assert!(message.contains(&format!("the label of node 3 at offset 152 is {wrong}")), "{message}");
    }
}

#[test]
fn splits_with_ids_out_of_range_or_twice_are_refused_and_empty_ones_taken() {
    let small = small();
    for (ids, part) in [
        (vec![0_i64, 4], "entry 1 at offset 136 is 4, outside the ids 0 to 3"),
        (vec![-1], "entry 0 at offset 128 is -1"),
        (vec![2, 0, 2], "entry 2 at offset 144 names node 2 again"),
    ] {
        small.write("test_idx", NpyType::I64, &[], &ids);
        let message = small.refusal(Verify::Stamp);
        assert!(message.contains("test_idx.npy: ") && message.contains(part), "{message}");
    }
    small.write::<i64>("test_idx", NpyType::I64, &[], &[]);
    small.write::<i64>("train_idx", NpyType::I64, &[], &[]);
    assert!(small.open().split(Split::Train).is_empty());
}

#[test]
fn original_ids_have_to_be_unique_and_fit_the_random_keys() {
    let small = small();
    small.write("orig_id", NpyType::I64, &[], &[3_i64, 0, 2, 1]);
    assert_eq!(small.open().csc().original_ids.unwrap(), [3, 0, 2, 1]);
    for (ids, part) in [
        ([3, 0, 3, 1], "the original id 3 occurs more than once, again for node 2 at offset 144"),
        ([3, -1, 2, 1], "the original id of node 1 at offset 136 is -1"),
        ([3, 0, 1_i64 << 40, 1], "the original id of node 2"),
    ] {
        small.write("orig_id", NpyType::I64, &[], &ids);
        let message = small.refusal(Verify::Full);
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn features_that_are_not_numbers_are_found_by_full_verification() {
    let small = small();
    let mut features = FEATURES;
    features[5] = f32::NAN;
    small.write("feat", NpyType::F32, &[2], &features);
    assert!(small.open().verification().edges_checked, "training may still open it");
    let message = small.refusal_of_features();
    assert!(message.contains("feat.npy: row 2, column 1, at offset 148 is NaN"), "{message}");
    features[5] = f32::NEG_INFINITY;
    small.write("feat", NpyType::F32, &[2], &features);
    assert!(small.refusal_of_features().contains("is -inf"));

    small.write("feat", NpyType::F16, &[2], &[0_u16, 0, 0, 0x7c00, 0, 0, 0, 0]);
    assert!(small.refusal_of_features().contains("row 1, column 1, at offset 134 is inf"));
    small.meta(r#"{"feat_dtype": "bf16"}"#);
    small.write("feat", NpyType::U16, &[2], &[0_u16, 0, 0, 0, 0x7fc0, 0, 0, 0]);
    assert!(small.refusal_of_features().contains("row 2, column 0, at offset 136 is NaN"));
    small.write("feat", NpyType::U16, &[2], &[0x7c00_u16; 8]);
    small.write("edge_feat", NpyType::F32, &[1], &[0_f32, 0., f32::NAN, 0., 0.]);
    assert!(small.refusal_of_features().contains("edge_feat.npy: row 2, column 0, at offset 136 is NaN"));
    fs::remove_file(small.file("edge_feat")).unwrap();
    let dataset = Dataset::open_verified(&small.path, Verify::FullWithFeatures).unwrap();
    assert!(dataset.verification().features_checked);
}

impl common::Small {
    fn refusal_of_features(&self) -> String {
        // An earlier open may have left a stamp, which refusing must not touch either.
        self.refusal(Verify::FullWithFeatures)
    }
}

#[test]
fn the_fingerprint_is_that_of_every_copy_and_of_no_other_content() {
    let one = small();
    let other = small();
    other.meta(r#"{"name": "renamed", "licence": "MIT"}"#);
    let fingerprint = one.open().fingerprint();
    assert_eq!(fingerprint.len(), 16);
    assert_eq!(other.open().fingerprint(), fingerprint);
    other.write("label", NpyType::I64, &[], &[0_i64, 2, 1, -1]);
    assert_ne!(other.open().fingerprint(), fingerprint);
    other.write("label", NpyType::I64, &[], &LABELS);
    other.write("feat", NpyType::F32, &[2], &FEATURES.map(|x| -x));
    assert_ne!(other.open().fingerprint(), fingerprint);
    other.write("feat", NpyType::F32, &[2], &FEATURES);
    other.write("indices", NpyType::I32, &[], &[2, 1, 0, 1, 0]);
    assert_ne!(other.open().fingerprint(), fingerprint);
    assert!(names(&one.path).iter().all(|name| !name.contains("partial")));
}

#[test]
fn without_labels_a_dataset_keeps_the_fingerprint_of_its_other_files() {
    let small = small();
    let labelled = small.open().fingerprint();
    fs::remove_file(small.file("label")).unwrap();
    let dataset = small.open();
    assert!(matches!(dataset.labels(), Labels::Absent) && !dataset.labels().are_there());
    assert_eq!((dataset.classes(), dataset.labels().bytes().len()), (0, 0));
    assert_ne!(dataset.fingerprint(), labelled);
    small.meta(r#"{"classes": 3}"#);
    assert_eq!(small.open().classes(), 0);
}

#[test]
fn numbers_of_one_or_several_columns_are_taken_and_have_to_be_finite() {
    let small = small();
    small.write("label", NpyType::F32, &[], &[0.5_f32, -1.0, 2.0, 7.25]);
    let dataset = small.open();
    let is = |labels: Labels<'_>| match labels {
        Labels::Regression { columns, values } => (columns, values.to_vec()),
        other => panic!("{other:?}"),
    };
    assert_eq!(is(dataset.labels()), (None, vec![0.5, -1.0, 2.0, 7.25]));
    assert_eq!((dataset.labels().row_bytes(), dataset.classes()), (4, 0));
    assert_eq!(dataset.labels().regression_columns(), Some(1));
    let mut values = [0.5_f32; 12];
    small.write("label", NpyType::F32, &[3], &values);
    assert_eq!(is(small.open().labels()), (Some(3), vec![0.5; 12]));
    for wrong in [f32::NAN, f32::INFINITY] {
        values[7] = wrong;
        small.write("label", NpyType::F32, &[3], &values);
        let message = small.refusal(Verify::Stamp);
        let part = format!("label.npy: the target of node 2, column 1, at offset 156 is {wrong}");
        assert!(message.contains(&part), "{message}");
    }
    small.write("label", NpyType::F64, &[], &[0.5_f64; 4]);
    let message = small.refusal(Verify::Full);
    assert!(
        message.contains("label.npy: the element type is float64, it has to be int64 (classes) or"),
        "{message}"
    );
    small.write("label", NpyType::F32, &[], &[0.5_f32; 4]);
    small.meta(r#"{"classes": 3}"#);
    assert!(small.refusal(Verify::Full).contains("\"classes\" is 3, but label.npy has float32 values"));
}
