//! `--from parquet`.

use std::sync::Arc;

use ::parquet::basic::{Compression, Encoding, GzipLevel};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, FloatType, Int32Type, Int64Type};
use ::parquet::file::properties::{WriterProperties, WriterVersion};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use uva_graph::Split;

use super::*;

/// A column of one row group: values without nulls, and the levels with their positions.
pub(super) enum Column<'v> {
    Long(&'v [i64], &'v [i16]),
    Int(&'v [i32]),
    Double(&'v [f64], &'v [i16]),
    Float(&'v [f32]),
    Bool(&'v [bool]),
    Text(&'v [&'v str], &'v [i16]),
    /// Definition and repetition levels.
    List(&'v [f32], &'v [i16], &'v [i16]),
}

pub(super) fn table(schema: &str, properties: WriterProperties, groups: &[&[Column<'_>]]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(&format!("message table {{ {schema} }}")).unwrap());
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    for columns in groups {
        let mut group = file.next_row_group().unwrap();
        for column in *columns {
            let mut writer = group.next_column().unwrap().unwrap();
            let levels = |levels: &'_ [i16]| (!levels.is_empty()).then(|| levels.to_vec());
            match column {
                Column::Long(values, nulls) => {
                    writer.typed::<Int64Type>().write_batch(values, levels(nulls).as_deref(), None).unwrap()
                }
                Column::Int(values) => writer.typed::<Int32Type>().write_batch(values, None, None).unwrap(),
                Column::Double(values, nulls) => {
                    writer.typed::<DoubleType>().write_batch(values, levels(nulls).as_deref(), None).unwrap()
                }
                Column::Float(values) => writer.typed::<FloatType>().write_batch(values, None, None).unwrap(),
                Column::Bool(values) => writer.typed::<BoolType>().write_batch(values, None, None).unwrap(),
                Column::Text(values, nulls) => {
                    let values: Vec<ByteArray> = values.iter().map(|&value| value.into()).collect();
                    writer
                        .typed::<ByteArrayType>()
                        .write_batch(&values, levels(nulls).as_deref(), None)
                        .unwrap()
                }
                Column::List(values, nulls, starts) => {
                    writer.typed::<FloatType>().write_batch(values, Some(nulls), Some(starts)).unwrap()
                }
            };
            writer.close().unwrap();
        }
        group.close().unwrap();
    }
    file.into_inner().unwrap()
}

pub(super) fn plain() -> WriterProperties {
    WriterProperties::builder().build()
}

const NAMES: &str = "required binary src (UTF8); required binary dst (UTF8);";
const NUMBERS: &str = "required int64 src; required int64 dst;";
const NODES: &str = "required binary id (UTF8); \
                     optional group feat (LIST) { repeated group list { optional float element; } } \
                     optional int64 label; optional binary split (UTF8);";

/// Edges between named nodes, in two row groups.
pub(super) fn edges(properties: WriterProperties) -> Vec<u8> {
    let first = [Column::Text(&["a", "b", "a"], &[]), Column::Text(&["b", "c", "c"], &[])];
    table(NAMES, properties, &[&first, &[Column::Text(&["d"], &[]), Column::Text(&["a"], &[])]])
}

/// Their nodes, in two row groups.
pub(super) fn nodes(properties: WriterProperties) -> Vec<u8> {
    let first = [
        Column::Text(&["d", "c"], &[]),
        Column::List(&[0.5, 1.0, 2.0, 3.0], &[3; 4], &[0, 1, 0, 1]),
        Column::Long(&[2], &[1, 0]),
        Column::Text(&["train", "val"], &[1, 1]),
    ];
    let second = [
        Column::Text(&["b", "a"], &[]),
        Column::List(&[4.0, 5.0, 6.0, 7.0], &[3; 4], &[0, 1, 0, 1]),
        Column::Long(&[0, 1], &[1, 1]),
        Column::Text(&["test"], &[0, 1]),
    ];
    table(NODES, properties, &[&first, &second])
}

#[test]
fn tables_with_text_ids_become_a_dataset_in_every_compression_and_version() {
    for compression in
        [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::GZIP(GzipLevel::default())]
    {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for dictionary in [true, false] {
                let properties = || {
                    let builder = WriterProperties::builder().set_compression(compression);
                    // Without a dictionary version 2 chooses DELTA for text and integers.
                    builder.set_writer_version(version).set_dictionary_enabled(dictionary).build()
                };
                let place = Place::new();
                place.write("graph/edges.parquet", edges(properties()));
                place.write("graph/nodes.parquet", nodes(properties()));
                let dataset = place.import("parquet", "graph", &ImportOptions::default()).unwrap();
                // d, c, b, a are 0 to 3.
                assert_eq!(lists(&dataset), [vec![], vec![2, 3], vec![3], vec![0]]);
                assert_eq!(floats(&dataset), [0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
                assert_eq!((labels(&dataset), dataset.classes()), (&[2, -1, 0, 1][..], 3));
                assert_eq!(
                    Split::ALL.map(|split| dataset.split(split).to_vec()),
                    [vec![0], vec![1], vec![3]]
                );
                assert_eq!(fs::read_to_string(place.path("out/node_names.txt")).unwrap(), "d\nc\nb\na\n");
            }
        }
    }
}

#[test]
fn a_directory_of_part_files_is_one_table_in_the_order_of_their_names() {
    let place = Place::new();
    let long = |name: &str, from: &[i64], to: &[i64]| {
        place.write(name, table(NUMBERS, plain(), &[&[Column::Long(from, &[]), Column::Long(to, &[])]]));
    };
    long("graph/edges.parquet/part-00001.snappy.parquet", &[2], &[0]);
    long("graph/edges.parquet/part-00000.snappy.parquet", &[1, 0], &[0, 1]);
    long("graph/edges.parquet/part-00002.snappy.parquet", &[], &[]);
    let schema =
        "required int64 id; required group feat (LIST) { repeated group list { required float element; } }";
    let nodes = |name: &str, ids: &[i64], values: &[f32]| {
        let width = values.len() / ids.len();
        let starts: Vec<i16> = (0..values.len()).map(|at| i16::from(at % width > 0)).collect();
        let groups = [Column::Long(ids, &[]), Column::List(values, &vec![1; values.len()], &starts)];
        place.write(name, table(schema, plain(), &[&groups]));
    };
    nodes("graph/nodes.parquet/part-1.parquet", &[0], &[5.0, 6.0]);
    nodes("graph/nodes.parquet/part-0.parquet", &[2, 1], &[1.0, 2.0, 3.0, 4.0]);
    for own in ["_SUCCESS", "_metadata", ".part-0.parquet.crc"] {
        place.write(&format!("graph/nodes.parquet/{own}"), "x");
    }
    place.write("graph/nodes.parquet/notes.txt", "x");
    place.write("graph/node.parquet", "x");
    let dataset = place.import("parquet", "graph", &ImportOptions::default()).unwrap();
    // 2, 1, 0 are 0 to 2.
    assert_eq!(lists(&dataset), [vec![], vec![2], vec![1, 0]]);
    assert_eq!(floats(&dataset), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let notes = place.notes("parquet", "graph");
    let left: Vec<&String> = notes.iter().filter(|note| note.ends_with("is not read")).collect();
    assert!(left[0].ends_with("graph: node.parquet is not read"), "{left:?}");
    assert!(left[1].ends_with("nodes.parquet: notes.txt is not read") && left.len() == 2, "{left:?}");
    // The directory of a table of edges is a complete source.
    assert_eq!(place.import("parquet", "graph/edges.parquet", &ImportOptions::default()).unwrap().edges(), 3);

    let refused = |part: &str| {
        let message = place.refusal("parquet", "graph", &ImportOptions::default());
        assert!(message.contains(part), "{message} instead of {part}");
    };
    // Messages name the file, and the row in it.
    nodes("graph/nodes.parquet/part-1.parquet", &[1], &[5.0, 6.0]);
    refused("part-1.parquet: column id, row 0: 1 is the id of an earlier node");
    nodes("graph/nodes.parquet/part-1.parquet", &[0], &[5.0, 6.0, 7.0, 8.0]);
    refused("part-1.parquet: column feat, row group 0: 4 values in 1 rows");
    long("graph/nodes.parquet/part-1.parquet", &[0], &[0]);
    refused("part-1.parquet: column 1 is src of INT64");
    fs::create_dir(place.path("graph/nodes.parquet/label=1")).unwrap();
    refused("label=1 is a directory: a table is one directory of files");
    fs::remove_dir_all(place.path("graph/nodes.parquet")).unwrap();
    place.write("graph/nodes.parquet/_SUCCESS", "");
    refused("nodes.parquet has no .parquet files");
}

/// One column of every type that DELTA has, in the encoding and version, over several pages.
fn in_delta(
    version: WriterVersion,
    text: Encoding,
    longs: &[i64],
    ints: &[i32],
    texts: &[Option<String>],
) -> Vec<u8> {
    let schema = "required binary id (UTF8); required int64 feat_0; required int32 feat_1; optional binary split (UTF8); \
                  optional int64 label;";
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_writer_version(version)
        .set_data_page_row_count_limit(100)
        .set_write_batch_size(50)
        .set_encoding(Encoding::DELTA_BINARY_PACKED)
        .set_column_encoding("id".into(), text)
        .set_column_encoding("split".into(), text)
        .build();
    let ids: Vec<String> = (0..longs.len()).map(|row| format!("node{}{row}", longs[row] % 3)).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let present: Vec<i16> = texts.iter().map(|text| text.is_some().into()).collect();
    let splits: Vec<&str> = texts.iter().flatten().map(String::as_str).collect();
    let labels: Vec<i64> = (0..splits.len() as i64).map(|row| row * 7 % 5).collect();
    let columns = [
        Column::Text(&ids, &[]),
        Column::Long(longs, &[]),
        Column::Int(ints),
        Column::Text(&splits, &present),
        Column::Long(&labels, &present),
    ];
    table(schema, properties, &[&columns])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn values_in_the_delta_encodings_come_back(
        rows in prop::collection::vec((any::<i32>(), any::<i32>(), prop::option::of(0_usize..4), 0_u32..32), 1..700),
        second in any::<bool>(),
        prefixed in any::<bool>(),
    ) {
        let version = if second { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
        let text = if prefixed { Encoding::DELTA_BYTE_ARRAY } else { Encoding::DELTA_LENGTH_BYTE_ARRAY };
        // Of all widths, and exact in float32.
        let longs: Vec<i64> = rows.iter().map(|row| i64::from(row.0 >> row.3.max(8)) << 30).collect();
        let ints: Vec<i32> = rows.iter().map(|row| row.1 >> row.3 >> 8 << 8).collect();
        let names = ["train", "valid", "test", "none"];
        let texts: Vec<Option<String>> = rows.iter().map(|row| row.2.map(|at| names[at].to_owned())).collect();
        let place = Place::new();
        place.write("graph/nodes.parquet", in_delta(version, text, &longs, &ints, &texts));
        place.write("graph/edges.parquet", table(NAMES, plain(), &[]));
        let dataset = place.import("parquet", "graph", &ImportOptions::default()).unwrap();
        let features: Vec<f32> = longs.iter().zip(&ints).flat_map(|(&long, &int)| [long as f32, int as f32]).collect();
        prop_assert_eq!(floats(&dataset), features);
        for (at, split) in Split::ALL.into_iter().enumerate() {
            let wanted = (0..).zip(&rows).filter(|(_, row)| row.2 == Some(at)).map(|(row, _)| row);
            prop_assert!(dataset.split(split).iter().copied().eq(wanted));
        }
        let mut labelled = 0..;
        let wanted: Vec<i64> = texts.iter().map(|text| text.as_ref().map_or(-1, |_| labelled.next().unwrap() * 7 % 5)).collect();
        prop_assert_eq!(labels(&dataset), wanted);
        let ids = fs::read_to_string(place.path("out/node_names.txt")).unwrap();
        let wanted: String = (longs.iter().enumerate()).map(|(row, long)| format!("node{}{row}\n", long % 3)).collect();
        prop_assert_eq!(ids, wanted);
        // A changed byte is refused, or gives other values; it uses no more memory than the page permits.
        let mut bytes = fs::read(place.path("graph/nodes.parquet")).unwrap();
        let at = uva_graph::mix(rows.len() as u64) as usize % bytes.len();
        bytes[at] ^= 1 << (rows.len() % 8);
        place.write("graph/nodes.parquet", bytes);
        if let Err(error) = place.import("parquet", "graph", &ImportOptions::default()) {
            prop_assert!(error.is_bad_input(), "{error}");
        }
    }
}

/// 1.25 with a scale of 2 is the integer 125.
#[test]
fn decimals_are_not_taken_for_their_integers() {
    let place = Place::new();
    let schema = "required int64 id; required int64 feat_0 (DECIMAL(10, 2));";
    place.write(
        "graph/edges.parquet",
        table(NUMBERS, plain(), &[&[Column::Long(&[0], &[]), Column::Long(&[0], &[])]]),
    );
    let columns = [Column::Long(&[0], &[]), Column::Long(&[125], &[])];
    place.write("graph/nodes.parquet", table(schema, plain(), &[&columns]));
    let message = place.refusal("parquet", "graph", &ImportOptions::default());
    assert!(message.contains("column feat_0: its type is INT64 (DECIMAL), it has to be"), "{message}");
}

#[test]
fn columns_of_features_follow_their_edges_into_the_lists() {
    let schema = "required int64 src; required int64 dst; required float feat_0; required int32 feat_1;";
    let columns = [
        Column::Long(&[2, 0, 1], &[]),
        Column::Long(&[1, 2, 1], &[]),
        Column::Float(&[0.5, 1.5, 2.5]),
        Column::Int(&[7, 8, 9]),
    ];
    let place = Place::new();
    place.write("edges.parquet", table(schema, plain(), &[&columns]));
    let dataset = place.import("parquet", "edges.parquet", &ImportOptions::default()).unwrap();
    assert_eq!(lists(&dataset), [vec![], vec![2, 1], vec![0]]);
    let rows = dataset.edge_features().unwrap();
    assert_eq!(bytemuck::cast_slice::<u8, f32>(rows.bytes), [0.5, 7.0, 2.5, 9.0, 1.5, 8.0]);
    let symmetric = ImportOptions { symmetrise: Some(true.into()), ..Default::default() };
    let message = place.import("parquet", "edges.parquet", &symmetric).unwrap_err().to_string();
    assert!(message.contains("the edge features in") && message.contains("not supported with"), "{message}");
}

/// Columns of one float per row: row 0 has the columns' positions in the table, row 1 these plus 100.
pub fn numbered(ids: &str, names: &[&str]) -> Vec<u8> {
    let columns: String = names.iter().map(|name| format!("required float {name}; ")).collect();
    let values: Vec<[f32; 2]> = (0..names.len()).map(|at| [at as f32, 100.0 + at as f32]).collect();
    let mut group: Vec<Column<'_>> = ids.matches("int64").map(|_| Column::Long(&[0, 1], &[])).collect();
    group.extend(values.iter().map(|values| Column::Float(values)));
    table(&format!("{ids} {columns}"), plain(), &[&group])
}

#[test]
fn numbered_columns_are_taken_in_the_order_of_their_numbers() {
    // The names, and the positions of the columns in the order of the features.
    let cases: [(&[&str], &[f32]); 8] = [
        (&["feat_1", "feat_2"], &[0.0, 1.0]),
        (&["feat_00", "feat_01", "feat_02"], &[0.0, 1.0, 2.0]),
        (&["feat_0", "feat_1", "feat_5"], &[0.0, 1.0, 2.0]),
        (&["feat_10", "feat_9", "feat_008"], &[2.0, 1.0, 0.0]),
        (&["x1", "x2", "x10", "x3"], &[0.0, 1.0, 3.0, 2.0]),
        (&["features_2020", "features_2021"], &[0.0, 1.0]),
        (&["node_feat_3"], &[0.0]),
        (&["feat_99999999999999999999", "feat_99999999999999999998"], &[1.0, 0.0]),
    ];
    for (names, places) in cases {
        let place = Place::new();
        place.write("graph/edges.parquet", numbered(NUMBERS, &[]));
        place.write("graph/nodes.parquet", numbered("required int64 id;", names));
        let dataset = place.import("parquet", "graph", &ImportOptions::default()).unwrap();
        let rows: Vec<f32> = places.iter().copied().chain(places.iter().map(|at| at + 100.0)).collect();
        assert_eq!((dataset.table().dim, floats(&dataset)), (places.len(), &rows[..]), "{names:?}");
    }
    for (names, places) in [
        (&["edge_attr_1", "edge_attr_2"][..], &[0.0_f32, 1.0][..]),
        (&["edge_feat_02", "edge_feat_01", "edge_feat_07"], &[1.0, 0.0, 2.0]),
        (&["feat7"], &[0.0]),
    ] {
        let place = Place::new();
        place.write("edges.parquet", numbered(NUMBERS, names));
        let dataset = place.import("parquet", "edges.parquet", &ImportOptions::default()).unwrap();
        let rows: Vec<f32> = places.iter().copied().chain(places.iter().map(|at| at + 100.0)).collect();
        let table = dataset.edge_features().unwrap();
        assert_eq!(bytemuck::cast_slice::<u8, f32>(table.bytes), rows, "{names:?}");
    }
}

#[test]
fn numbered_columns_that_cannot_all_be_taken_are_refused_by_name() {
    let place = Place::new();
    place.write("graph/edges.parquet", numbered(NUMBERS, &[]));
    let refused = |names: &[&str], part: &str| {
        place.write("graph/nodes.parquet", numbered("required int64 id;", names));
        let message = place.refusal("parquet", "graph", &ImportOptions::default());
        assert!(message.contains("nodes.parquet") && message.contains(part), "{message} instead of {part}");
    };
    refused(&["feat_1", "feat_01"], "columns feat_01 and feat_1 have the same number");
    refused(&["feat_0", "feat_2", "feat0"], "have the same number");
    let many: Vec<String> = (1..=4097).map(|number| format!("feat_{number}")).collect();
    refused(
        &many.iter().map(String::as_str).collect::<Vec<_>>(),
        "4097 columns feat_0, feat_1, …, and at most 4096",
    );
    let text = [Column::Long(&[0, 1], &[]), Column::Float(&[1.0, 2.0]), Column::Text(&["a", "b"], &[])];
    let schema = "required int64 id; required float feat_1; required binary feat_2 (UTF8);";
    place.write("graph/nodes.parquet", table(schema, plain(), &[&text]));
    let message = place.refusal("parquet", "graph", &ImportOptions::default());
    assert!(message.contains("column feat_2: its type is BYTE_ARRAY (UTF8)"), "{message}");
}

#[test]
fn nodes_without_features_get_one_and_a_line_says_so() {
    let place = Place::new();
    place.write("graph/edges.parquet", numbered(NUMBERS, &[]));
    place.write("graph/nodes.parquet", numbered("required int64 id;", &["feature_a"]));
    let notes = place.notes("parquet", "graph");
    assert!(
        notes.iter().any(|note| note.contains("nodes.parquet has no features (no column feat, x,")),
        "{notes:?}"
    );
}

#[test]
fn columns_that_are_not_read_are_named() {
    let place = Place::new();
    place.write("graph/edges.parquet", numbered(NUMBERS, &["weight", "year"]));
    place.write("graph/nodes.parquet", numbered("required int64 id;", &["x_1", "age", "feat_1", "y"]));
    let notes = place.notes("parquet", "graph");
    for part in [
        "edges.parquet: year is not read",
        "nodes.parquet: x_1 is not read",
        "nodes.parquet: age is not read",
    ] {
        assert_eq!(notes.iter().filter(|note| note.ends_with(part)).count(), 1, "{part} in {notes:?}");
    }
    assert_eq!(notes.len(), 3, "{notes:?}");
}

#[test]
fn names_that_are_not_text_are_refused_with_their_row() {
    let place = Place::new();
    let group = [Column::Text(&["a", "b"], &[]), Column::Text(&["c", "d\0"], &[])];
    place.write("edges.parquet", table(NAMES, plain(), &[&group]));
    let message = place.refusal("parquet", "edges.parquet", &ImportOptions::default());
    assert!(message.contains("column dst, row 1: the name 'd\\x00' contains a NUL byte"), "{message}");
    place.write("edges.parquet", table(NUMBERS, plain(), &[]));
    assert!(place.refusal("parquet", "edges.parquet", &ImportOptions::default()).contains("has no nodes"));
}

#[test]
fn a_column_of_numbers_is_targets_on_request_and_then_has_no_gaps() {
    let place = Place::new();
    let schema = "required int64 id; required float x_0; optional double y;";
    let rows = |y: &[f64], nulls: &[i16]| {
        let columns = [Column::Long(&[0, 1], &[]), Column::Float(&[1.0, 2.0]), Column::Double(y, nulls)];
        table(schema, plain(), &[&columns])
    };
    let edges = [Column::Long(&[0], &[]), Column::Long(&[1], &[])];
    place.write("graph/edges.parquet", table(NUMBERS, plain(), &[&edges]));
    place.write("graph/nodes.parquet", rows(&[2.0, 0.25], &[1, 1]));
    let regression = ImportOptions { regression: Some(true.into()), ..Default::default() };
    let dataset = place.import("parquet", "graph", &regression).unwrap();
    let labels = dataset.labels();
    assert!(matches!(labels, Labels::Regression { columns: None, values: [2.0, 0.25] }), "{labels:?}");
    fs::remove_dir_all(place.path("out")).unwrap();
    let error = place.import("parquet", "graph", &ImportOptions::default()).unwrap_err().to_string();
    assert!(error.contains("invalid class") && error.contains("`regression`"), "{error}");
    place.write("graph/nodes.parquet", rows(&[2.0], &[1, 0]));
    let error = place.import("parquet", "graph", &regression).unwrap_err().to_string();
    assert!(error.contains("not a finite float32"), "{error}");
}

#[test]
fn without_a_table_of_nodes_they_are_the_ids_that_occur() {
    let place = Place::new();
    let named = place.write("named.parquet", edges(plain()));
    let dataset = place.import("parquet", "named.parquet", &ImportOptions::default()).unwrap();
    assert_eq!(lists(&dataset), [vec![3], vec![0], vec![1, 0], vec![]]);
    assert_eq!(fs::read_to_string(place.path("out/node_names.txt")).unwrap(), "a\nb\nc\nd\n");
    assert_eq!((dataset.table().dim, labels(&dataset)), (1, &[][..]));
    fs::remove_file(named).unwrap();

    let sources = [Column::Long(&[70, 70, -5], &[]), Column::Int(&[900, -5, 70])];
    let schema = "required int64 source; required int32 target;";
    place.write("numbers.parquet", table(schema, plain(), &[&sources]));
    let dataset = place.import("parquet", "numbers.parquet", &ImportOptions::default()).unwrap();
    assert_eq!(lists(&dataset), [vec![1], vec![0], vec![1]]);
    let both = ImportOptions { symmetrise: Some(true.into()), ..Default::default() };
    assert_eq!(place.import("parquet", "numbers.parquet", &both).unwrap().edges(), 6);
}

#[test]
fn weights_and_features_in_columns_of_their_own_are_taken() {
    let place = Place::new();
    let weighted = [Column::Long(&[1, 0], &[]), Column::Long(&[0, 0], &[]), Column::Double(&[0.5, 2.0], &[])];
    let schema = format!("{NUMBERS} required double weight;");
    place.write("graph/edges.parquet", table(&schema, plain(), &[&weighted]));
    let columns = [
        Column::Long(&[0, 1], &[]),
        Column::Float(&[1.5, 2.5]),
        Column::Int(&[3, 4]),
        Column::Double(&[f64::NAN, 1.0], &[]),
    ];
    let schema = "required int64 node_id; required float feat_0; required int32 feat_1; required double y;";
    place.write("graph/nodes.parquet", table(schema, plain(), &[&columns]));
    let dataset = place.import("parquet", "graph", &ImportOptions::default()).unwrap();
    assert_eq!(lists(&dataset), [vec![1, 0], vec![]]);
    assert_eq!(dataset.weights().unwrap(), [0.5, 2.0]);
    assert!(
        place.notes("parquet", "graph").iter().any(|note| note.ends_with("weight: float64 becomes float32"))
    );
    assert_eq!((floats(&dataset), labels(&dataset)), (&[1.5, 3.0, 2.5, 4.0][..], &[-1, 1][..]));
    // Ids that are the row numbers need no file.
    assert!(!place.path("out/node_id.npy").exists());
    let changed = ImportOptions { deduplicate: Some(true.into()), ..Default::default() };
    assert!(place.refusal("parquet", "graph", &changed).contains("`dedup`"));
}

#[test]
fn a_mismatch_is_reported_with_file_column_and_row() {
    let refused = |edges: Vec<u8>, nodes: Option<Vec<u8>>, part: &str| {
        let place = Place::new();
        place.write("graph/edges.parquet", edges);
        if let Some(nodes) = nodes {
            place.write("graph/nodes.parquet", nodes);
        }
        let message = place.refusal("parquet", "graph", &ImportOptions::default());
        assert!(message.contains(part), "{message} instead of {part}");
    };
    let ends = [Column::Text(&["a"], &[]), Column::Text(&["b"], &[])];
    let of = |schema: &str, columns: &[Column<'_>]| table(schema, plain(), &[columns]);
    refused(
        of("required binary src; required binary other;", &ends),
        None,
        "edges.parquet: it has no column dst or destination or target or dst_id or to: it has src, other",
    );
    refused(
        of("required float src; required int64 dst;", &[Column::Float(&[1.0]), Column::Long(&[1], &[])]),
        None,
        "edges.parquet: column src: its type is FLOAT, it has to be integers or text",
    );
    refused(
        of("required int64 src; required binary dst;", &[Column::Long(&[1], &[]), Column::Text(&["a"], &[])]),
        None,
        "column dst: its type is BYTE_ARRAY, it has to be integers, as the sources of the edges are",
    );
    refused(
        of(
            "required int64 src; optional int64 dst;",
            &[Column::Long(&[1, 2], &[]), Column::Long(&[3], &[1, 0])],
        ),
        None,
        "column dst, row 1: the id is null",
    );
    refused(
        of(NAMES, &[Column::Text(&["a\nb"], &[]), Column::Text(&["c"], &[])]),
        None,
        "column src, row 0: the id is empty, or has an end of line in it",
    );
    refused(
        of("required boolean src; required int64 dst;", &[Column::Bool(&[true]), Column::Long(&[1], &[])]),
        None,
        "BOOLEAN",
    );
    refused(
        of(NAMES, &[Column::Text(&["a", "a"], &[]), Column::Text(&["b", "x"], &[])]),
        Some(nodes(plain())),
        "column dst, row 1: its destination is 'x', but no node has this name: the table of nodes has the names",
    );
    let twice = of("required binary id;", &[Column::Text(&["a", "b", "a"], &[])]);
    refused(edges(plain()), Some(twice), "nodes.parquet: column id, row 2: 'a' is the id of an earlier node");
    let two = || of(NAMES, &ends);
    let list = "optional group feat (LIST) { repeated group list { optional float element; } }";
    let lists = |values: &[f32], nulls: &[i16], starts: &[i16]| {
        let columns = [Column::Text(&["a", "b"], &[]), Column::List(values, nulls, starts)];
        Some(of(&format!("required binary id; {list}"), &columns))
    };
    refused(
        two(),
        lists(&[1.0, 2.0, 3.0], &[3; 3], &[0, 0, 1]),
        "column feat, row group 0: 3 values in 2 rows",
    );
    refused(
        two(),
        lists(&[1.0, 2.0, 3.0, 4.0], &[3; 4], &[0, 0, 1, 1]),
        "column feat, row 0: expected a list of 2",
    );
    refused(
        two(),
        lists(&[1.0, 2.0, 4.0], &[3, 3, 2, 3], &[0, 1, 0, 1]),
        "column feat, row 1: a list or a value",
    );
    refused(two(), lists(&[1.0, f32::NAN], &[3; 2], &[0, 0]), "feat: row 1, column 0, is NaN");
    let labelled = |label: f64| {
        of(
            "required binary id; required double y;",
            &[Column::Text(&["a", "b"], &[]), Column::Double(&[label, 1.0], &[])],
        )
    };
    refused(two(), Some(labelled(0.5)), "column y, row 0: invalid class");
    let split = of(
        "required binary id; required binary split;",
        &[Column::Text(&["a", "b"], &[]), Column::Text(&["trian", "test"], &[])],
    );
    refused(two(), Some(split), "column split, row 0: invalid split 'trian'");
    refused(
        b"PAR1 and nothing".to_vec(),
        None,
        "edges.parquet: not a Parquet file that can be read: it does not end with PAR1",
    );
    refused(b"PAR1\xff\xff\xff\x00PAR1".to_vec(), None, "its footer would take 16777215 of 12 bytes");
}
