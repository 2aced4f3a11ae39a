//! What is exported and imported again is the same, byte for byte.

use uva_io::export::{self, EXPORTERS, ExportOptions};
use uva_io::import::{EdgeList, Ids, ThirdColumn};

use super::*;

/// A graph with everything a dataset can have: repeated edges, self-loops, lonely nodes, weights, original ids.
fn everything(place: &Place, multi: bool) -> PathBuf {
    let nodes = 300_u64;
    let random = |i: u64| uva_graph::mix(i);
    let edges: Vec<(i64, i64)> =
        (0..4000).map(|i| ((random(i) % 280) as i64, (random(i + 10_000) % 300) as i64)).collect();
    let (sources, destinations): (Vec<i64>, Vec<i64>) = edges.into_iter().unzip();
    place.npy("source/edge_index.npy", NpyType::I64, &[4000], &[sources, destinations].concat());
    let weights: Vec<f32> = (0..4000).map(|i| f32::from_bits(random(i) as u32 & 0xbfff_ffff)).collect();
    place.npy(
        "source/weight.npy",
        NpyType::F32,
        &[],
        &weights.iter().map(|w| if w.is_finite() { *w } else { 0.5 }).collect::<Vec<_>>(),
    );
    place.npy(
        "source/feat.npy",
        NpyType::U16,
        &[3],
        &(0..3 * nodes).map(|i| (random(i) & 0x3fff) as u16).collect::<Vec<_>>(),
    );
    if multi {
        place.npy(
            "source/label.npy",
            NpyType::U8,
            &[2],
            &(0..2 * nodes).map(|i| (random(i) & 1) as u8).collect::<Vec<_>>(),
        );
    } else {
        place.npy(
            "source/label.npy",
            NpyType::I64,
            &[],
            &(0..nodes as i64).map(|i| i % 5 - 1).collect::<Vec<_>>(),
        );
    }
    place.npy("source/train_idx.npy", NpyType::I64, &[], &[7_i64, 3, 299]);
    place.npy("source/valid_idx.npy", NpyType::I64, &[], &[0_i64]);
    place.npy::<i64>("source/test_idx.npy", NpyType::I64, &[], &[]);
    place.npy(
        "source/orig_id.npy",
        NpyType::I64,
        &[],
        &(0..nodes as i64).map(|i| 1000 - i).collect::<Vec<_>>(),
    );
    place.write("source/meta.json", r#"{"name": "all \"of\" it: #1", "feat_dtype": "bf16", "mine": [1, 2]}"#);
    place.import("npy", "source", &ImportOptions::default()).unwrap();
    let dataset = place.path("dataset");
    fs::rename(place.path("out"), &dataset).unwrap();
    dataset
}

/// Exports a dataset, imports that, and compares all files but the stamp.
fn there_and_back(place: &Place, dataset: &Path, format: &str, gzip: bool, options: &ImportOptions) {
    let exported = place.path("exported");
    let _ = fs::remove_dir_all(&exported);
    let exporter = export::exporter(format).unwrap();
    exporter.run(&Dataset::open(dataset).unwrap(), &exported, ExportOptions { gzip }, &|_| {}).unwrap();
    place.import(format, "exported", options).unwrap();
    let files = |directory: &Path| -> Vec<String> {
        names(directory).into_iter().filter(|name| !name.starts_with('.')).collect()
    };
    assert_eq!(files(dataset), files(&place.path("out")), "{format}");
    for name in files(dataset) {
        let (before, after) = (fs::read(dataset.join(&name)), fs::read(place.path("out").join(&name)));
        assert!(before.unwrap() == after.unwrap(), "{name} differs after {format}");
    }
}

#[test]
fn every_target_comes_back_the_same() {
    for multi in [false, true] {
        let place = Place::new();
        let dataset = everything(&place, multi);
        let plain = ImportOptions::default();
        let weights = EdgeList { third_column: Some(ThirdColumn::Weight), ..Default::default() };
        let weights = ImportOptions { edge_list: weights, ..Default::default() };
        there_and_back(&place, &dataset, "npy", false, &plain);
        there_and_back(&place, &dataset, "edgelist", false, &weights);
        there_and_back(&place, &dataset, "edgelist", true, &weights);
        there_and_back(&place, &dataset, "graphbolt", false, &plain);
    }
}

#[test]
fn ids_that_were_kept_are_those_of_the_edge_list() {
    let place = Place::new();
    place.write("graph.txt", "70 -5\n70 900\n-5 70\n");
    place.import("edgelist", "graph.txt", &ImportOptions::default()).unwrap();
    fs::rename(place.path("out"), place.path("numbers")).unwrap();
    there_and_back(&place, &place.path("numbers"), "edgelist", false, &ImportOptions::default());
    assert_eq!(fs::read_to_string(place.path("exported/edges.tsv")).unwrap(), "70\t-5\n-5\t70\n70\t900\n");

    place.write("graph.txt", "x,y z\ny z,w\nw,x\n");
    let named =
        ImportOptions { edge_list: EdgeList { ids: Ids::Name, ..Default::default() }, ..Default::default() };
    place.import("edgelist", "graph.txt", &named).unwrap();
    fs::rename(place.path("out"), place.path("names")).unwrap();
    there_and_back(&place, &place.path("names"), "edgelist", false, &named);
    assert_eq!(fs::read_to_string(place.path("exported/edges.tsv")).unwrap(), "w\tx\nx\ty z\ny z\tw\n");
}

#[test]
fn an_empty_graph_comes_back_too() {
    let place = Place::new();
    place.write("graph.txt", "# nothing\n");
    let five = EdgeList { nodes: Some(5), ..Default::default() };
    place.import("edgelist", "graph.txt", &ImportOptions { edge_list: five, ..Default::default() }).unwrap();
    fs::rename(place.path("out"), place.path("dataset")).unwrap();
    let plain = ImportOptions::default();
    for exporter in EXPORTERS {
        there_and_back(&place, &place.path("dataset"), exporter.name, false, &plain);
    }
}

#[test]
fn an_existing_directory_is_refused_and_kept() {
    let place = Place::new();
    let dataset = everything(&place, false);
    place.write("exported/mine", "");
    let (dataset, out) = (Dataset::open(&dataset).unwrap(), place.path("exported"));
    let exporter = export::exporter("npy").unwrap();
    let error = exporter.run(&dataset, &out, ExportOptions::default(), &|_| {}).unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("exists already"), "{error}");
    assert_eq!(names(&place.path("exported")), ["mine"]);
}

#[test]
fn what_was_changed_behind_a_stamp_is_refused_and_not_exported() {
    let ids = |bytes: &mut Vec<u8>| bytes[144..148].copy_from_slice(&99_i32.to_le_bytes());
    let weight = |bytes: &mut Vec<u8>| bytes[136..140].copy_from_slice(&f32::NAN.to_le_bytes());
    type Change<'c> = &'c dyn Fn(&mut Vec<u8>);
    let changes: [(&str, Change<'_>, &str); 2] = [
        ("indices", &ids, "indices.npy: entry 4 at offset 144, a neighbour of node 3, is 99"),
        ("weight", &weight, "weight.npy: the weight of edge 2 at offset 136 is NaN"),
    ];
    for (name, change, part) in changes {
        for exporter in EXPORTERS {
            let small = common::small();
            small.write("weight", NpyType::F32, &[], &[1_f32; 5]);
            common::change_behind_a_stamp(&small, name, change);
            let dataset = small.open();
            assert!(dataset.verification().from_stamp);
            let out = small.directory.path().join("out");
            let error = exporter.run(&dataset, &out, ExportOptions::default(), &|_| {}).unwrap_err();
            assert!(error.is_bad_input() && error.to_string().contains(part), "{exporter:?}: {error}");
            assert_eq!(names(small.directory.path()), ["small"], "{exporter:?}");
            if name == "weight" {
                assert!(dataset.weights_to_pick_by().is_err_and(|error| error.to_string().contains(part)));
            }
        }
    }
}
