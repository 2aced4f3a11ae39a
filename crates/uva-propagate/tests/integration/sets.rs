//! The contents of a hop set: rows, their order, types, and refusals.

use std::fs;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use uva_graph::npy::{NpyArray, NpyType, write_array};
use uva_graph::{Dataset, GraphError, Split, Verify};
use uva_propagate::{HopSet, HopType, KeptNodes, Layout, PropagateOptions, RowOrder, propagate};
use uva_sample::philox::{RandomPurpose, StreamKey};

use crate::support::{Counted, DIM, NODES, floats, graph, ids, make, options};

#[test]
fn kept_rows_are_those_of_the_splits_of_labelled_nodes_or_of_all() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let (train, valid) = (ids(&path.join("train_idx.npy")), ids(&path.join("valid_idx.npy")));
    let test = ids(&path.join("test_idx.npy"));
    let mut all = None;
    for nodes in [KeptNodes::All, KeptNodes::Splits, KeptNodes::Labelled] {
        let out = temp.path().join(nodes.name());
        let made = make(&path, &out, &PropagateOptions { nodes, ..options("sym", 2) });
        let found = ids(&out.join("node_idx.npy"));
        let mut expected = [&train[..], &valid, &test].concat();
        match nodes {
            KeptNodes::Splits => {}
            KeptNodes::Labelled => expected.retain(|node| *node < 490),
            KeptNodes::All => {
                let rest: Vec<i64> = (0..NODES as i64).filter(|node| !expected.contains(node)).collect();
                expected.extend(rest);
            }
        }
        assert_eq!(found, expected, "{nodes}");
        let [tests, end] = made.set.split("test");
        assert_eq!((made.set.split("train"), made.set.split("valid")), ([0, 200], [200, 250]));
        assert_eq!((tests, end), (250, if nodes == KeptNodes::Labelled { 252 } else { 253 }));
        let labels = ids(&path.join("label.npy"));
        let of_rows: Vec<i64> = found.iter().map(|node| labels[*node as usize]).collect();
        assert_eq!(ids(&out.join("label.npy")), of_rows);
        // Other rows do not change these.
        let rows = floats(&out.join("sym.2.npy"));
        let all = all.get_or_insert_with(|| (found.clone(), rows.clone()));
        for (node, row) in found.iter().zip(rows.chunks(DIM)) {
            let place = all.0.iter().position(|other| other == node).unwrap();
            assert_eq!(row, &all.1[place * DIM..][..DIM]);
        }
    }
}

#[test]
fn rows_in_node_order_are_those_of_all_nodes_by_id_and_of_no_split() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let made = |name: &str, row_order| {
        let out = temp.path().join(name);
        let set =
            make(&path, &out, &PropagateOptions { nodes: KeptNodes::All, row_order, ..options("row", 1) })
                .set;
        (set, ids(&out.join("node_idx.npy")), floats(&out.join("row.1.npy")))
    };
    let (set, nodes, rows) = made("nodes", RowOrder::Nodes);
    assert_eq!(nodes, (0..NODES as i64).collect::<Vec<_>>());
    assert_eq!(["train", "valid", "test"].map(|name| set.split(name)), [[0, 0]; 3]);
    let (_, order, other) = made("file", RowOrder::File);
    for (node, row) in order.iter().zip(other.chunks(DIM)) {
        assert_eq!(row, &rows[*node as usize * DIM..][..DIM], "node {node}");
    }
    let options =
        PropagateOptions { row_order: RowOrder::Nodes, nodes: KeptNodes::Splits, ..options("row", 1) };
    let dataset = Dataset::open(&path).unwrap();
    let refused = propagate(&dataset, &temp.path().join("few"), &options, false, &mut Counted::default());
    assert!(refused.unwrap_err().to_string().contains("`nodes=all`"));
}

#[test]
fn training_rows_are_in_the_order_of_their_keys_and_a_seed_draws_another() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let train = ids(&path.join("train_idx.npy"));
    let mut orders = Vec::new();
    for seed in [0, 1, 1 << 40] {
        let out = temp.path().join(seed.to_string());
        let nodes = KeptNodes::Splits;
        let made = make(
            &path,
            &out,
            &PropagateOptions { row_order: RowOrder::Shuffled, seed, nodes, ..options("row", 1) },
        );
        assert_eq!((made.set.order.seed, made.set.order.purpose), (seed, 6));
        let mut keyed: Vec<(u64, i64)> = (0..train.len() as u64)
            .map(|place| {
                let key = StreamKey {
                    seed,
                    node: place,
                    purpose: RandomPurpose::HopRows,
                    layer: 0,
                    batch: 0,
                    epoch: 0,
                    split: Split::Train,
                };
                let mut words = key.stream();
                let (low, high) = (words.next_u32(), words.next_u32());
                (u64::from(high) << 32 | u64::from(low), train[place as usize])
            })
            .collect();
        keyed.sort_unstable();
        let expected: Vec<i64> = keyed.into_iter().map(|(_, node)| node).collect();
        let found = ids(&out.join("node_idx.npy"));
        assert_eq!(found[..200], expected);
        assert_eq!(found[200..250], ids(&path.join("valid_idx.npy"))[..]);
        orders.push(expected);
    }
    assert!(orders[0] != orders[1] && orders[1] != orders[2] && orders[0] != train);
}

#[test]
fn narrow_types_round_float32_to_nearest_and_layouts_hold_equal_values() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let plain = temp.path().join("plain");
    let set = make(&path, &plain, &options("sym,row", 2)).set;
    let files = set.hop_files();
    assert_eq!(files, ["x.npy", "sym.1.npy", "sym.2.npy", "row.1.npy", "row.2.npy"]);
    let hops: Vec<Vec<f32>> = files.iter().map(|name| floats(&plain.join(name))).collect();
    for element in HopType::ALL {
        for layout in Layout::ALL {
            let out = temp.path().join(format!("{element}-{layout}"));
            let set = make(&path, &out, &PropagateOptions { element, layout, ..options("sym,row", 2) }).set;
            for (place, name) in set.hop_files().iter().enumerate() {
                let array = NpyArray::open(&out.join(name)).unwrap();
                assert_eq!((array.header().data_offset, array.kind()), (4096, element.npy()));
                let narrow = |value: f32| match element {
                    HopType::F32 => value.to_le_bytes().to_vec(),
                    HopType::F16 => half::f16::from_f32(value).to_le_bytes().to_vec(),
                    HopType::Bf16 => half::bf16::from_f32(value).to_le_bytes().to_vec(),
                };
                let expected: Vec<u8> = match layout {
                    Layout::Hops => hops[place].iter().flat_map(|value| narrow(*value)).collect(),
                    Layout::Rows => {
                        assert_eq!(array.shape(), [set.rows, 5, DIM]);
                        let row = |row: usize| hops.iter().flat_map(move |hop| &hop[row * DIM..][..DIM]);
                        (0..set.rows).flat_map(row).flat_map(|value| narrow(*value)).collect()
                    }
                };
                assert_eq!(array.bytes(), expected, "{element} {layout} {name}");
            }
            HopSet::open(&out).unwrap().verify(&out).unwrap();
        }
    }
}

#[test]
fn a_truncated_changed_or_missing_file_is_named_with_its_expectation() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let out = temp.path().join("set");
    let made = make(&path, &out, &options("sym", 2));
    let opened = HopSet::open(&out).unwrap();
    assert_eq!(opened, made.set);
    opened.verify(&out).unwrap();
    let refused = |says: &[&str]| {
        let error = HopSet::open(&out).and_then(|set| set.verify(&out)).unwrap_err();
        let message = error.to_string();
        assert!(error.is_bad_input(), "{message}");
        assert!(says.iter().all(|says| message.contains(says)), "{message}");
    };
    let file = out.join("sym.2.npy");
    let whole = fs::read(&file).unwrap();
    let size = whole.len();
    fs::write(&file, &whole[..size - 1]).unwrap();
    refused(&["sym.2.npy", &format!("{} bytes", size - 1), &size.to_string()]);
    let mut changed = whole.clone();
    changed[size - 5] ^= 1;
    fs::write(&file, &changed).unwrap();
    refused(&["sym.2.npy", "has been changed", &made.set.files["sym.2.npy"].hash]);
    fs::remove_file(&file).unwrap();
    refused(&["sym.2.npy", "No such file"]);
    fs::write(&file, &whole).unwrap();
    fs::write(out.join("hops.json"), "{}").unwrap();
    refused(&["hops.json", "format"]);
}

#[test]
fn a_description_that_no_hop_set_has_is_refused_and_the_key_is_named() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let out = temp.path().join("set");
    make(&path, &out, &PropagateOptions { nodes: KeptNodes::Splits, ..options("sym,row", 2) });
    let file = out.join("hops.json");
    let whole: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let check = |change: &dyn Fn(&mut Value), says: &[&str]| {
        let mut set = whole.clone();
        change(&mut set);
        fs::write(&file, serde_json::to_vec(&set).unwrap()).unwrap();
        let error = HopSet::open(&out).unwrap_err();
        let message = error.to_string();
        assert!(error.is_bad_input() && message.contains("hops.json"), "{message}");
        assert!(says.iter().all(|says| message.contains(says)), "{says:?}: {message}");
    };
    for (key, value, says) in [
        ("/operators/0/hops", json!(u32::MAX), "operators[0].hops is 4294967295"),
        ("/operators/1/hops", json!(0), "operators[1].hops is 0"),
        ("/operators/0/name", json!("../sym"), "operators[0].name"),
        ("/operators/0/file", json!("../../sym"), "operators[0].file"),
        ("/operators/1", whole["operators"][0].clone(), "operators[1].name is sym, which is there twice"),
        ("/operators", json!([]), "operators has 0 entries"),
        ("/dim", json!(0), "dim is 0"),
        ("/data_offset", json!(128), "data_offset is 128"),
        ("/classes", json!(1_u64 << 31), "classes is 2147483648"),
        ("/rows", json!(1_u64 << 62), "the features of all rows"),
        ("/splits/train", json!([5, 3]), "splits.train is [5, 3]"),
        ("/splits/train", json!([0, 1_000_000_000]), "splits.train is [0, 1000000000]"),
        ("/splits/valid", json!([199, 250]), "splits.valid is [199, 250]"),
        ("/splits/test", json!([250, 254]), "within 253 rows"),
        ("/splits", json!({"train": [0, 1], "valid": [1, 1]}), "splits has no test"),
        ("/files", json!({}), "files has no x.npy"),
    ] {
        check(&|set| *set.pointer_mut(key).unwrap() = value.clone(), &[says]);
    }
    for name in ["x.npy", "row.2.npy", "node_idx.npy"] {
        let says = format!("files has no {name}");
        check(&|set| drop(set["files"].as_object_mut().unwrap().remove(name)), &[&says]);
    }
    for name in ["../graph/feat.npy", "/etc/passwd", "other.npy"] {
        let facts = json!({"bytes": 1, "hash": "0"});
        check(&|set| set["files"][name] = facts.clone(), &[name, "not a file of this hop set"]);
    }
    check(&|set| set["splits"]["more"] = json!([0, 0]), &["splits has others"]);
    let many = vec![whole["operators"][0].clone(); 65];
    check(&|set| set["operators"] = json!(many), &["operators has 65 entries", "expected 1 to 64"]);
    // Ids and labels are those of the rows.
    let ids = ids(&out.join("node_idx.npy"));
    for (name, kind) in [("node_idx.npy", "int64"), ("label.npy", "int64")] {
        let file = out.join(name);
        let bytes = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        write_array(&file, NpyType::I64, &[], &ids[1..]).unwrap();
        let length = fs::metadata(&file).unwrap().len();
        let mut set = whole.clone();
        set["files"][name]["bytes"] = json!(length);
        fs::write(out.join("hops.json"), serde_json::to_vec(&set).unwrap()).unwrap();
        let message = HopSet::open(&out).unwrap_err().to_string();
        for says in [name, kind, "[252]", "[253]"] {
            assert!(message.contains(says), "{says}: {message}");
        }
        fs::write(&file, bytes).unwrap();
    }
}

#[test]
fn no_change_of_the_description_makes_a_reader_panic() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let out = temp.path().join("set");
    make(&path, &out, &PropagateOptions { nodes: KeptNodes::Splits, ..options("sym,row", 2) });
    let file = out.join("hops.json");
    let whole = fs::read(&file).unwrap();
    let numbers = prop_oneof![any::<u64>(), 0_u64..9, Just(1 << 31), Just(1 << 62), Just(1 << 63)];
    let mut runner = TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    runner
        .run(&(0..whole.len(), 0_u8..3, numbers), |(at, how, number)| {
            let mut text = whole.clone();
            match how {
                0 => text[at] = number as u8,
                1 => text.truncate(at),
                _ => {
                    let first = (at..text.len()).find(|place| text[*place].is_ascii_digit()).unwrap_or(at);
                    let end = (first..text.len()).find(|place| !text[*place].is_ascii_digit());
                    text.splice(first..end.unwrap_or(first), number.to_string().into_bytes());
                }
            }
            fs::write(&file, text).unwrap();
            if let Ok(set) = HopSet::open(&out) {
                let _ = set.verify(&out);
            }
            let _ = HopSet::open_dataset(&out, Verify::Full);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_feature_that_is_not_a_number_is_named_by_hop_row_and_node() {
    for layout in Layout::ALL {
        let temp = tempfile::tempdir().unwrap();
        let path = graph(temp.path(), NpyType::F32);
        let mut features = floats(&path.join("feat.npy"));
        features[489 * DIM + 3] = f32::NAN;
        fs::remove_file(path.join("feat.npy")).unwrap();
        write_array(&path.join("feat.npy"), NpyType::F32, &[DIM], &features).unwrap();
        let out = temp.path().join("set");
        let nodes = KeptNodes::Splits;
        let set = make(&path, &out, &PropagateOptions { layout, nodes, ..options("sym", 1) }).set;
        let message = set.verify(&out).unwrap_err().to_string();
        // Row 200 is the first of validation, node 489; in the layout by rows another row's hop may come first.
        let node = message.split("(node ").nth(1).unwrap().split(')').next().unwrap().parse::<i64>().unwrap();
        assert!(message.contains("column 3") && message.contains("NaN"), "{message}");
        if layout == Layout::Hops {
            let place = ids(&out.join("node_idx.npy")).iter().position(|node| *node == 489).unwrap();
            assert_eq!(node, 489, "{message}");
            assert!(message.contains(&format!("hop 0 of row {place} ")), "{message}");
        }
    }
}

#[test]
fn a_value_that_a_narrow_type_cannot_hold_is_named_with_a_wider_type() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let mut features = floats(&path.join("feat.npy"));
    (features[489 * DIM + 3], features[488 * DIM + 5]) = (-65520.0, f32::MAX);
    fs::remove_file(path.join("feat.npy")).unwrap();
    write_array(&path.join("feat.npy"), NpyType::F32, &[DIM], &features).unwrap();
    let dataset = Dataset::open(&path).unwrap();
    for (element, says) in [
        (HopType::F16, "(node 489) has -65520 in column 3, and f16 holds 65504 at most: take bf16 or f32"),
        (HopType::Bf16, "(node 488) has 340282350000000000000000000000000000000 in column 5, and bf16 holds"),
    ] {
        let out = temp.path().join(element.name());
        let asked = PropagateOptions { element, nodes: KeptNodes::Splits, ..options("row", 1) };
        let error = propagate(&dataset, &out, &asked, false, &mut Counted::default()).unwrap_err();
        let message = error.to_string();
        assert!(error.is_bad_input() && message.starts_with("`type`: hop 0 of row "), "{message}");
        assert!(message.contains(says) && message.ends_with("f32"), "{message}");
        assert!(!out.exists());
    }
    // A value that is infinite from the start is stored unchanged, and found when the set is checked.
    features[489 * DIM + 3] = f32::INFINITY;
    features[488 * DIM + 5] = 0.0;
    fs::remove_file(path.join("feat.npy")).unwrap();
    write_array(&path.join("feat.npy"), NpyType::F32, &[DIM], &features).unwrap();
    let out = temp.path().join("infinite");
    let set = make(&path, &out, &PropagateOptions { element: HopType::F16, ..options("row", 1) }).set;
    let message = set.verify(&out).unwrap_err().to_string();
    assert!(message.contains("has inf in column 3: features and their sums"), "{message}");
}

#[test]
fn what_cannot_be_made_is_refused_before_anything_is_written() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let out = temp.path().join("set");
    let dataset = Dataset::open(&path).unwrap();
    let refused = |dataset: &Dataset, options: &PropagateOptions, says: &[&str]| -> GraphError {
        let error = propagate(dataset, &out, options, false, &mut Counted::default()).unwrap_err();
        let message = error.to_string();
        assert!(says.iter().all(|says| message.contains(says)), "{message}");
        let left = fs::read_dir(temp.path()).unwrap().count();
        assert_eq!(left, 1, "only the graph: {message}");
        error
    };
    for hops in [0, 65] {
        assert!(refused(&dataset, &options("sym", hops), &["`hops`", "from 1 to 64"]).is_bad_input());
    }
    let tight = PropagateOptions { memory: 1 << 20, ..options("sym", 1) };
    let error = refused(&dataset, &tight, &["`memory=1.0 MiB`", "16 columns of 500 nodes", "at least"]);
    assert!(matches!(error, GraphError::Lacking { .. }));
    let weighted = PropagateOptions { weighted: true, ..options("sym", 1) };
    let mut weights = floats(&path.join("weight.npy"));
    fs::remove_file(path.join("weight.npy")).unwrap();
    let bare = Dataset::open(&path).unwrap();
    assert!(refused(&bare, &weighted, &["`weighted`", "weight.npy does not exist"]).is_bad_input());
    weights[5] = -1.0;
    write_array(&path.join("weight.npy"), NpyType::F32, &[], &weights).unwrap();
    let negative = Dataset::open(&path).unwrap();
    assert!(refused(&negative, &weighted, &["`weighted`", "edge 5 is -1"]).is_bad_input());
    fs::remove_file(path.join("train_idx.npy")).unwrap();
    write_array::<i64>(&path.join("train_idx.npy"), NpyType::I64, &[], &[]).unwrap();
    let empty = Dataset::open(&path).unwrap();
    let splits = PropagateOptions { nodes: KeptNodes::Splits, ..options("sym", 1) };
    assert!(refused(&empty, &splits, &["train_idx.npy", "is empty", "`nodes=all`"]).is_bad_input());
    make(&path, &out, &options("sym", 1));
    let error = propagate(&empty, &out, &options("sym", 1), false, &mut Counted::default()).unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("exists already"), "{error}");
}

#[test]
fn a_hop_set_opened_as_a_dataset_lends_its_rows_in_both_layouts() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let mut found = Vec::new();
    for layout in [Layout::Hops, Layout::Rows] {
        let out = temp.path().join(layout.name());
        make(&path, &out, &PropagateOptions { layout, nodes: KeptNodes::Splits, ..options("sym,row", 2) });
        let dataset = HopSet::open_dataset(&out, Verify::Stamp).unwrap();
        let hops = dataset.hops().unwrap();
        assert_eq!((hops.count(), hops.operators(), hops.per_operator()), (5, 2, 2));
        assert_eq!(hops.row_stride(), if layout == Layout::Rows { 5 * 4 * DIM } else { 4 * DIM });
        assert_eq!((dataset.nodes(), dataset.edges(), dataset.classes()), (253, 0, 3));
        assert_eq!(dataset.table().dim, DIM);
        assert!(dataset.graph().is_none() && dataset.feature_rows().is_none());
        assert_eq!(hops.nodes(), ids(&out.join("node_idx.npy")));
        assert_eq!(dataset.split(Split::Valid), &hops.nodes()[hops.rows_of(Split::Valid)]);
        assert_eq!(hops.rows_of(Split::Test), 250..253);
        let rows: Vec<u8> =
            (0..5).flat_map(|hop| (0..253).flat_map(move |row| hops.table(hop).row(row).to_vec())).collect();
        found.push(rows);
        if layout == Layout::Hops {
            let files = ["x", "sym.1", "sym.2", "row.1", "row.2"]
                .map(|name| NpyArray::open(&out.join(format!("{name}.npy"))).unwrap().bytes().to_vec());
            assert_eq!(found[0], files.concat());
            assert!(hops.table(1).is_dense());
            assert_eq!(hops.table(1).rows(3..5), &files[1][3 * 4 * DIM..5 * 4 * DIM]);
        }
    }
    assert!(found[0] == found[1]);
    // Opened as a graph, it gives an error that names its kind.
    let error = Dataset::open(&temp.path().join("hops")).unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("hop set"), "{error}");
}

#[test]
fn a_fingerprint_is_of_the_content_and_not_of_the_time_it_took() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let fingerprint = |name: &str, options: &PropagateOptions| {
        let out = temp.path().join(name);
        make(&path, &out, options);
        HopSet::open_dataset(&out, Verify::HeadersOnly).unwrap().fingerprint()
    };
    let one = fingerprint("one", &options("sym", 2));
    assert_eq!(one, fingerprint("again", &PropagateOptions { memory: 1 << 23, ..options("sym", 2) }));
    assert_ne!(one, fingerprint("fewer", &options("sym", 1)));
    assert_ne!(one, fingerprint("narrow", &PropagateOptions { element: HopType::F16, ..options("sym", 2) }));
    let description = temp.path().join("one/hops.json");
    let mut json: Value = serde_json::from_slice(&fs::read(&description).unwrap()).unwrap();
    json["seconds"] = json!(77.5);
    fs::write(&description, json.to_string()).unwrap();
    assert_eq!(one, HopSet::open(&temp.path().join("one")).unwrap().fingerprint());
    json["operators"][0]["hops"] = json!(1);
    fs::write(&description, json.to_string()).unwrap();
    HopSet::open(&temp.path().join("one")).unwrap_err();
}
