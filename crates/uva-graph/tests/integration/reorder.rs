//! A dataset in another order, on disk and in memory: the same graph by its nodes' original ids.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::common::{self, Small, change_behind_a_stamp, names, small};
use proptest::prelude::*;
use uva_graph::npy::NpyType;
use uva_graph::reorder::{NodeOrder, ReorderedLayout, write_reordered};
use uva_graph::{Csc, Dataset, Progress, Split, Verify, mix};

/// A node described only by original ids.
#[derive(Debug, PartialEq)]
struct Node {
    /// Its neighbours, each with the edge's weight in bits and its features.
    list: Vec<(i64, Option<u32>, Vec<u8>)>,
    features: Vec<u8>,
    label: Vec<u8>,
}

fn original(csc: &Csc<'_>, node: i64) -> i64 {
    csc.original_ids.map_or(node, |ids| ids[node as usize])
}

/// Every node of a dataset, and its splits, by original ids.
fn by_original_id(dataset: &Dataset) -> (BTreeMap<i64, Node>, [Vec<i64>; 3]) {
    let (csc, features, labels) = (dataset.csc(), dataset.features(), dataset.labels());
    let nodes = (0..csc.nodes()).map(|node| {
        let list = (csc.indptr[node]..csc.indptr[node + 1]).map(|edge| {
            let edge = edge as usize;
            let weight = dataset.weights().map(|weights| weights[edge].to_bits());
            let features = dataset.edge_features().map_or(Vec::new(), |table| {
                table.bytes[edge * table.row_bytes()..(edge + 1) * table.row_bytes()].to_vec()
            });
            (original(&csc, csc.indices.get(edge)), weight, features)
        });
        let row = |bytes: &[u8], size: usize| bytes[node * size..(node + 1) * size].to_vec();
        let content = Node {
            list: list.collect(),
            features: row(features.bytes, features.row_bytes()),
            label: row(labels.bytes(), labels.row_bytes()),
        };
        (original(&csc, node as i64), content)
    });
    let nodes: BTreeMap<i64, Node> = nodes.collect();
    assert_eq!(nodes.len(), csc.nodes());
    let split =
        |split: Split| dataset.split(split).iter().map(|&node| original(&csc, node)).collect::<Vec<i64>>();
    (nodes, Split::ALL.map(split))
}

/// Room for a region.
struct Memory(Vec<[u64; 8]>);

impl Memory {
    fn filled(dataset: &Dataset, order: &NodeOrder) -> (ReorderedLayout, Memory) {
        let layout = ReorderedLayout::new(dataset);
        // What was there before must not show.
        let mut memory = Memory(vec![[u64::MAX; 8]; layout.bytes() / 64]);
        layout.fill(dataset, order, bytemuck::cast_slice_mut(&mut memory.0)).unwrap();
        (layout, memory)
    }

    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

fn reordered(dataset: &Dataset, order: &NodeOrder, out: &Path) -> Dataset {
    write_reordered(dataset, order, out, &|_| ()).unwrap();
    Dataset::open_verified(out, Verify::FullWithFeatures).unwrap()
}

/// Checks all properties of `dataset` in `order`, on disk (returned) and in memory.
fn check(dataset: &Dataset, order: &NodeOrder, out: &Path) -> Dataset {
    let copy = reordered(dataset, order, out);
    assert_eq!(by_original_id(&copy), by_original_id(dataset));
    let ids: Vec<i64> = order.nodes().map(|node| original(&dataset.csc(), node)).collect();
    assert_eq!(copy.original_ids().unwrap(), ids);
    assert_eq!(copy.csc().indices.id_bytes(), dataset.csc().indices.id_bytes());

    let (layout, memory) = Memory::filled(dataset, order);
    let view = layout.view(memory.bytes()).unwrap();
    let csc = copy.csc();
    assert_eq!(view.csc.indptr, csc.indptr);
    assert_eq!(view.csc.original_ids, csc.original_ids);
    assert_eq!(view.csc.edges(), csc.edges());
    assert_eq!(view.csc.indices.id_bytes(), 4);
    assert!((0..csc.edges()).all(|edge| view.csc.indices.get(edge) == csc.indices.get(edge)));
    assert!(view.to_dataset.iter().copied().eq(order.nodes()));
    for split in Split::ALL {
        assert_eq!(view.split(split), copy.split(split));
    }
    for start in [view.csc.indptr.as_ptr(), view.to_dataset.as_ptr(), view.split(Split::Test).as_ptr()] {
        assert_eq!((start as usize - memory.bytes().as_ptr() as usize) % 64, 0);
    }
    copy
}

/// A graph of `nodes` nodes: lists of 0 to 60 entries and some of 2000, most neighbours being few nodes of small ids.
fn skewed(nodes: i64) -> Small {
    let small = small();
    let random = |key: i64, below: u64| (mix(key as u64) % below) as i64;
    let length = |node: i64| if node % 500 == 7 { 2000 } else { random(node, 61) };
    let neighbour = |node: i64, at: i64| {
        let below = 1 + random(node * 4096 + at, nodes as u64);
        random(!(node * 4096 + at), below as u64) as i32
    };
    let lists = (0..nodes).flat_map(|node| (0..length(node)).map(move |at| neighbour(node, at)));
    small.write("indices", NpyType::I32, &[], &lists.collect::<Vec<i32>>());
    let ends = (0..nodes).scan(0, |end, node| {
        *end += length(node);
        Some(*end)
    });
    small.write("indptr", NpyType::I64, &[], &std::iter::once(0).chain(ends).collect::<Vec<i64>>());
    small.write("feat", NpyType::F32, &[3], &(0..3 * nodes).map(|i| i as f32).collect::<Vec<f32>>());
    small.write("label", NpyType::I64, &[], &(0..nodes).map(|node| random(node, 5)).collect::<Vec<i64>>());
    for (split, name) in (0..).zip(["train_idx", "valid_idx", "test_idx"]) {
        let of_split = (0..nodes).rev().filter(|&node| random(-node, 10) == split);
        small.write(name, NpyType::I64, &[], &of_split.collect::<Vec<i64>>());
    }
    small
}

/// Some nodes first, in an arbitrary order.
fn scattered(nodes: usize, first: usize) -> NodeOrder {
    let first: Vec<i64> = (0..first).map(|i| ((i * 1_000_003 + 17) % nodes) as i64).collect();
    NodeOrder::from_first(nodes, &first).unwrap()
}

fn weighted(small: &Small) {
    small.write("weight", NpyType::F32, &[], &[0.5_f32, 1.5, 2.5, 3.5, 4.5]);
}

#[test]
fn a_dataset_and_its_copy_in_another_order_are_the_same_by_original_ids() {
    let directory = tempfile::tempdir().unwrap();
    // Large enough for several tasks, with hubs whose lists reach over them.
    let small = skewed(20_000);
    let dataset = small.open();
    assert!(dataset.edges() > 300_000);
    let rows: Vec<i8> = (0..3 * dataset.edges()).map(|value| (value % 127) as i8).collect();
    small.write("edge_feat", NpyType::I8, &[3], &rows);
    let dataset = small.open();
    for (number, first) in [0, 1, 700, 20_000].into_iter().enumerate() {
        check(&dataset, &scattered(20_000, first), &directory.path().join(format!("copy-{number}")));
    }
}

#[test]
fn every_array_moves_with_its_nodes() {
    let small = small();
    weighted(&small);
    small.write("edge_type", NpyType::U16, &[], &[7_u16, 65_535, 0, 3, 9]);
    let rows: Vec<f32> = (0..5).flat_map(|edge| [edge as f32, 10.0 * edge as f32]).collect();
    small.write("edge_feat", NpyType::F32, &[2], &rows);
    small.meta(r#"{"zebra": [1, {"b": 2.5}], "name": "tiny", "classes": 7, "licence": "CC0-1.0"}"#);
    let dataset = small.open();
    let order = NodeOrder::from_first(4, &[3, 0]).unwrap();
    let copy = check(&dataset, &order, &small.directory.path().join("copy"));
    // Places: 3 → 0, 0 → 1, 1 → 2, 2 → 3.
    assert_eq!(copy.original_ids().unwrap(), [3, 0, 1, 2]);
    assert_eq!(copy.csc().indptr, [0, 2, 4, 4, 5]);
    let ids: Vec<i64> = (0..5).map(|edge| copy.csc().indices.get(edge)).collect();
    assert_eq!(ids, [2, 1, 2, 3, 1]);
    assert_eq!(copy.weights().unwrap(), [3.5, 4.5, 0.5, 1.5, 2.5]);
    assert_eq!(copy.edge_types().unwrap(), [3, 9, 7, 65_535, 0]);
    let edge_features = copy.edge_features().unwrap();
    assert_eq!((edge_features.rows, edge_features.dim), (5, 2));
    let rows = [3., 30., 4., 40., 0., 0., 1., 10., 2., 20.];
    assert_eq!(edge_features.bytes, bytemuck::cast_slice::<f32, u8>(&rows));
    assert_eq!(copy.features().bytes, bytemuck::cast_slice::<f32, u8>(&[6., 7., 0., 1., 2., 3., 4., 5.]));
    assert_eq!(copy.labels().bytes(), bytemuck::cast_slice::<i64, u8>(&[1, 0, 2, -1]));
    assert_eq!(copy.split(Split::Train), [0, 1]);
    assert_eq!(copy.split(Split::Valid), [2]);
    assert_eq!(copy.split(Split::Test), [3]);
    assert_eq!(copy.meta(), dataset.meta());
    let meta = |path: PathBuf| std::fs::read(path.join("meta.json")).unwrap();
    assert_eq!(meta(copy.path().to_owned()), meta(small.path.clone()));
    assert_eq!((copy.name(), copy.classes()), ("tiny", 7));
}

#[test]
fn wide_ids_half_floats_bytes_and_many_labels_are_unchanged() {
    let small = small();
    small.write("indices", NpyType::I64, &[], &common::INDICES.map(i64::from));
    small.write("feat", NpyType::U16, &[3], &[1_u16, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    small.meta(r#"{"feat_dtype": "bf16"}"#);
    small.write("label", NpyType::U8, &[2], &[0_u8, 1, 1, 1, 0, 0, 1, 0]);
    let dataset = small.open();
    let copy = check(&dataset, &scattered(4, 3), &small.directory.path().join("copy"));
    assert_eq!(copy.csc().indices.id_bytes(), 8);
    assert_eq!(copy.features().element, uva_graph::ElementType::Bf16);
    assert_eq!(copy.classes(), 2);
}

#[test]
fn reordering_twice_is_reordering_once_by_the_first_ids() {
    let small = small();
    weighted(&small);
    let dataset = small.open();
    let at = |name: &str| small.directory.path().join(name);
    let once = check(&dataset, &NodeOrder::from_first(4, &[2, 3, 1, 0]).unwrap(), &at("once"));
    // Place 3 of `once` is node 0, place 0 is node 2, …
    let twice = check(&once, &NodeOrder::from_first(4, &[3, 0, 2, 1]).unwrap(), &at("twice"));
    assert_eq!(twice.original_ids().unwrap(), [0, 2, 1, 3]);
    let direct = check(&dataset, &NodeOrder::from_first(4, &[0, 2, 1, 3]).unwrap(), &at("direct"));
    assert_eq!(twice.fingerprint(), direct.fingerprint());
    assert_ne!(twice.fingerprint(), dataset.fingerprint());
    for name in names(direct.path()).into_iter().filter(|name| name.ends_with(".npy")) {
        let read = |dataset: &Dataset| std::fs::read(dataset.path().join(&name)).unwrap();
        assert_eq!(read(&twice), read(&direct), "{name}");
    }
}

#[test]
fn original_ids_that_do_not_permute_stay_with_their_nodes() {
    let small = small();
    small.write("orig_id", NpyType::I64, &[], &[900_i64, 5, (1 << 40) - 1, 7]);
    let copy = check(
        &small.open(),
        &NodeOrder::from_first(4, &[2, 1]).unwrap(),
        &small.directory.path().join("copy"),
    );
    assert_eq!(copy.original_ids().unwrap(), [(1 << 40) - 1, 5, 900, 7]);
}

#[test]
fn graphs_of_no_node_and_of_one_can_be_reordered() {
    for nodes in [0_usize, 1] {
        let small = small();
        small.write("indptr", NpyType::I64, &[], &[0_i64, 1][..=nodes]);
        small.write("indices", NpyType::I32, &[], &[0_i32][..nodes]);
        small.write("feat", NpyType::F32, &[2], &[1.0_f32, 2.0][..2 * nodes]);
        small.write("label", NpyType::I64, &[], &[1_i64][..nodes]);
        small.write("train_idx", NpyType::I64, &[], &[0_i64][..nodes]);
        small.write::<i64>("valid_idx", NpyType::I64, &[], &[]);
        small.write::<i64>("test_idx", NpyType::I64, &[], &[]);
        // An empty array has no bytes that show the number of copied rows, but its header does.
        let dataset = small.open();
        check(&dataset, &NodeOrder::identity(nodes), &small.directory.path().join("copy"));
    }
}

#[test]
fn an_order_of_another_graph_and_a_wrong_region_are_refused() {
    let small = small();
    let dataset = small.open();
    let out = small.directory.path().join("copy");
    let before = names(small.directory.path());
    let other = NodeOrder::identity(5);
    let message = write_reordered(&dataset, &other, &out, &|_| ()).unwrap_err().to_string();
    assert!(message.contains("orders 5 nodes") && message.contains("has 4"), "{message}");
    assert_eq!(names(small.directory.path()), before);

    let layout = ReorderedLayout::new(&dataset);
    let mut memory = vec![[0_u64; 8]; layout.bytes() / 64 + 1];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut memory);
    let size = layout.bytes();
    assert!(layout.fill(&dataset, &other, &mut bytes[..size]).is_err());
    let order = NodeOrder::identity(4);
    assert!(layout.fill(&dataset, &order, &mut bytes[..size - 1]).is_err());
    assert!(layout.fill(&dataset, &order, &mut bytes[4..size + 4]).is_err());
    layout.fill(&dataset, &order, &mut bytes[8..size + 8]).unwrap();
    assert!(layout.view(&bytes[8..size + 8]).is_ok());
    assert!(layout.view(&bytes[1..size + 1]).is_err());
    assert!(layout.view(&bytes[..size + 8]).is_err());
}

#[test]
fn progress_ends_at_the_end_of_every_stage() {
    let small = small();
    weighted(&small);
    let seen = Mutex::new(BTreeMap::new());
    let note = |progress: Progress| {
        seen.lock().unwrap().insert(progress.stage, (progress.done, progress.total));
    };
    let summary =
        write_reordered(&small.open(), &scattered(4, 2), &small.directory.path().join("copy"), &note)
            .unwrap();
    assert_eq!((summary.nodes, summary.edges, summary.classes), (4, 5, 3));
    assert_eq!(summary.split_sizes, [2, 1, 1]);
    let stages = seen.into_inner().unwrap();
    let counts = [("edges", 5), ("features", 4), ("labels", 4), ("original ids", 4), ("weights", 5)];
    assert_eq!(stages, counts.map(|(stage, count)| (stage, (count, count))).into());
}

proptest! {
    // Every case writes and flushes two datasets.
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_graph_in_any_order_is_the_same_by_original_ids(
        (lists, order) in (1..40_usize).prop_flat_map(|nodes| {
            let list = |longest| proptest::collection::vec(0..nodes as i32, 0..longest);
            let lists = proptest::collection::vec(prop_oneof![8 => list(6), 1 => list(90)], nodes);
            let ids: Vec<i64> = (0..nodes as i64).collect();
            (lists, Just(ids).prop_shuffle())
        }),
        first in 0..40_usize,
    ) {
        let nodes = lists.len();
        let small = small();
        let ends = lists.iter().scan(0, |end, list| { *end += list.len() as i64; Some(*end) });
        small.write("indptr", NpyType::I64, &[], &std::iter::once(0).chain(ends).collect::<Vec<i64>>());
        let indices = lists.concat();
        small.write("indices", NpyType::I32, &[], &indices);
        small.write("weight", NpyType::F32, &[], &(0..indices.len()).map(|i| i as f32).collect::<Vec<f32>>());
        small.write("feat", NpyType::F32, &[1], &(0..nodes).map(|i| i as f32).collect::<Vec<f32>>());
        small.write("label", NpyType::I64, &[], &(0..nodes as i64).collect::<Vec<i64>>());
        small.write("train_idx", NpyType::I64, &[], &(0..nodes as i64).rev().collect::<Vec<i64>>());
        small.write("valid_idx", NpyType::I64, &[], &[0_i64]);
        small.write::<i64>("test_idx", NpyType::I64, &[], &[]);
        let order = NodeOrder::from_first(nodes, &order[..first.min(nodes)]).unwrap();
        check(&small.open(), &order, &small.directory.path().join("copy"));
    }
}

#[test]
fn ids_changed_after_stamping_are_refused_by_place_and_leave_no_file() {
    let small = small();
    // The last entry, of node 3, after a header of 128 bytes.
    change_behind_a_stamp(&small, "indices", |bytes| bytes[144..148].copy_from_slice(&4_i32.to_le_bytes()));
    let dataset = small.open();
    assert!(dataset.verification().from_stamp);
    let part = "indices.npy: entry 4 at offset 144, a neighbour of node 3, is 4, outside the ids 0 to 3";
    for first in [&[][..], &[3, 0]] {
        let order = NodeOrder::from_first(4, first).unwrap();
        let before = names(small.directory.path());
        let error =
            write_reordered(&dataset, &order, &small.directory.path().join("copy"), &|_| ()).unwrap_err();
        assert!(error.is_bad_input() && error.to_string().contains(part), "{error}");
        assert_eq!(names(small.directory.path()), before);
        let layout = ReorderedLayout::new(&dataset);
        let mut memory = vec![[0_u64; 8]; layout.bytes() / 64];
        let error = layout.fill(&dataset, &order, bytemuck::cast_slice_mut(&mut memory)).unwrap_err();
        assert!(error.is_bad_input() && error.to_string().contains(part), "{error}");
    }
}
