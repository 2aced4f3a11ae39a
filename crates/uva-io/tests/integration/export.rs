//! An exported and imported dataset is the same, byte for byte.

use uva_io::export::{self, EXPORTERS, ExportOptions};
use uva_io::import::{EdgeList, Ids, Separator, ThirdColumn};

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
    let rows: Vec<u16> = (0..8000).map(|i| (random(i + 77) & 0x3fff) as u16).collect();
    place.npy("source/edge_feat.npy", NpyType::U16, &[2], &rows);
    place.npy("source/train_idx.npy", NpyType::I64, &[], &[7_i64, 3, 299]);
    place.npy("source/valid_idx.npy", NpyType::I64, &[], &[0_i64]);
    place.npy::<i64>("source/test_idx.npy", NpyType::I64, &[], &[]);
    place.npy(
        "source/orig_id.npy",
        NpyType::I64,
        &[],
        &(0..nodes as i64).map(|i| 1000 - i).collect::<Vec<_>>(),
    );
    place.write(
        "source/meta.json",
        r#"{"name": "all \"of\" it: #1", "feat_dtype": "bf16", "edge_feat_dtype": "bf16", "mine": [1, 2]}"#,
    );
    place.import("npy", "source", &ImportOptions::default()).unwrap();
    let dataset = place.path("dataset");
    fs::rename(place.path("out"), &dataset).unwrap();
    dataset
}

/// Exports a dataset, imports the result as the export's message specifies, and compares all files except the stamp.
/// Returns the reported losses.
pub fn there_and_back(place: &Place, dataset: &Path, format: &str, gzip: bool) -> Vec<String> {
    let exported = place.path("exported");
    let _ = fs::remove_dir_all(&exported);
    let exporter = export::exporter(format).unwrap();
    let notes = std::cell::RefCell::new(Vec::new());
    let note = |line: &str| notes.borrow_mut().push(line.to_owned());
    let opened = Dataset::open(dataset).unwrap();
    let printed = exporter.run(&opened, &exported, ExportOptions { gzip }, &|_| {}, &note).unwrap();
    place.import(format, "exported", &as_printed(&printed)).unwrap();
    let files = |directory: &Path| -> Vec<String> {
        names(directory).into_iter().filter(|name| !name.starts_with('.')).collect()
    };
    let notes = notes.into_inner();
    let kept = |name: &String| !notes.iter().any(|note| note.starts_with(name.as_str()));
    let before: Vec<String> = files(dataset).into_iter().filter(kept).collect();
    assert_eq!(before, files(&place.path("out")).into_iter().filter(kept).collect::<Vec<_>>(), "{format}");
    for name in before {
        let (before, after) = (fs::read(dataset.join(&name)), fs::read(place.path("out").join(&name)));
        assert!(before.unwrap() == after.unwrap(), "{name} differs after {format}");
    }
    notes
}

/// The options that an export prints, as `import` takes them.
pub fn as_printed(printed: &[String]) -> ImportOptions {
    let mut options = ImportOptions::default();
    let mut words = printed.iter().map(String::as_str);
    while let Some(option) = words.next() {
        let mut value = || words.next().unwrap();
        let lines = &mut options.edge_list;
        match option {
            "--regression" => options.regression = Some(true.into()),
            "--third-column" => {
                assert_eq!((value(), lines.third_column = Some(ThirdColumn::Weight)).0, "weight")
            }
            "--ids" => assert_eq!((value(), lines.ids = Ids::Name).0, "name"),
            "--separator" => lines.separator = Some(Separator::from_text(value()).unwrap()),
            "--skip-lines" => lines.skip_lines = Some(value().parse().unwrap()),
            other => panic!("{other}"),
        }
    }
    options
}

#[test]
fn every_target_comes_back_the_same() {
    for multi in [false, true] {
        let place = Place::new();
        let dataset = everything(&place, multi);
        for (format, gzip) in [("npy", false), ("edgelist", false), ("edgelist", true), ("graphbolt", false)]
        {
            assert!(there_and_back(&place, &dataset, format, gzip).is_empty());
        }
    }
}

#[test]
fn ids_that_were_kept_are_those_of_the_edge_list() {
    let place = Place::new();
    place.write("graph.txt", "70 -5\n70 900\n-5 70\n");
    place.import("edgelist", "graph.txt", &ImportOptions::default()).unwrap();
    fs::rename(place.path("out"), place.path("numbers")).unwrap();
    there_and_back(&place, &place.path("numbers"), "edgelist", false);
    assert_eq!(fs::read_to_string(place.path("exported/edges.tsv")).unwrap(), "70\t-5\n-5\t70\n70\t900\n");

    place.write("graph.txt", "x,y z\ny z,w\nw,x\n");
    let named =
        ImportOptions { edge_list: EdgeList { ids: Ids::Name, ..Default::default() }, ..Default::default() };
    place.import("edgelist", "graph.txt", &named).unwrap();
    fs::rename(place.path("out"), place.path("names")).unwrap();
    there_and_back(&place, &place.path("names"), "edgelist", false);
    assert_eq!(fs::read_to_string(place.path("exported/edges.tsv")).unwrap(), "w\tx\nx\ty z\ny z\tw\n");
}

/// A dataset whose nodes have these names, each with an edge to the next and the first alone with the last.
fn named_dataset(place: &Place, names: &[&str]) -> PathBuf {
    let nodes = names.len() as i64;
    let (from, to): (Vec<i64>, Vec<i64>) = (0..nodes - 1).map(|node| (node, node + 1)).unzip();
    place.npy("source/edge_index.npy", NpyType::I64, &[names.len() - 1], &[from, to].concat());
    place.npy("source/feat.npy", NpyType::F32, &[1], &vec![0.5_f32; names.len()]);
    for split in ["train", "valid", "test"] {
        place.npy::<i64>(&format!("source/{split}_idx.npy"), NpyType::I64, &[], &[]);
    }
    place.write("source/node_names.txt", names.join("\n") + "\n");
    place.import("npy", "source", &ImportOptions::default()).unwrap();
    let _ = fs::remove_dir_all(place.path("dataset"));
    fs::rename(place.path("out"), place.path("dataset")).unwrap();
    place.path("dataset")
}

#[test]
fn names_of_any_look_come_back_from_every_target() {
    let place = Place::new();
    let names = [
        "source",
        "target",
        "#rust",
        "% x",
        "a\tb",
        "Smith, J",
        "\"quoted\"",
        "5\" disk",
        " blanks ",
        "\u{a0}",
        "1",
        "\"",
        "a|b;c",
        "#",
        "x\ry",
        "Zürich",
        "\\t",
        "--ids",
        "\u{c}",
    ];
    let dataset = named_dataset(&place, &names);
    for exporter in EXPORTERS {
        assert!(there_and_back(&place, &dataset, exporter.name, false).is_empty());
    }
    // Numbers in addition to names: an edge list has the numbers.
    place.npy("dataset/node_id.npy", NpyType::I64, &[], &(0..names.len() as i64).rev().collect::<Vec<_>>());
    for exporter in EXPORTERS {
        there_and_back(&place, &dataset, exporter.name, false);
    }
    for (file, bytes, part) in [
        ("node_names.txt", names.map(|_| "same").join("\n").into_bytes(), "has the name of an earlier one"),
        ("node_names.txt", names.map(|name| name.replace('Z', "\0")).join("\n").into_bytes(), "NUL byte"),
        ("node_id.npy", npy(NpyType::I64, &[], &[7_i64; 19]), "two nodes have the id 7"),
    ] {
        let dataset = named_dataset(&place, &names);
        place.write(&format!("dataset/{file}"), bytes);
        let opened = Dataset::open(&dataset).unwrap();
        let out = place.path("refused");
        let exporter = export::exporter("edgelist").unwrap();
        let error = exporter.run(&opened, &out, ExportOptions::default(), &|_| {}, &|_| {}).unwrap_err();
        assert!(error.is_bad_input() && error.to_string().contains(part), "{error} instead of {part}");
        assert!(!out.exists());
    }
}

#[test]
fn targets_that_are_whole_numbers_come_back_as_targets() {
    for columns in [&[][..], &[1], &[2]] {
        let place = Place::new();
        named_dataset(&place, &["a", "b"]);
        let values: Vec<f32> = (0..2 * columns.first().unwrap_or(&1)).map(|value| value as f32).collect();
        place.npy("source/label.npy", NpyType::F32, columns, &values);
        let regression = ImportOptions { regression: Some(true.into()), ..Default::default() };
        place.import("npy", "source", &regression).unwrap();
        fs::rename(place.path("out"), place.path("targets")).unwrap();
        for exporter in EXPORTERS {
            assert!(there_and_back(&place, &place.path("targets"), exporter.name, false).is_empty());
        }
    }
}

#[test]
fn an_export_reports_first_what_it_omits() {
    let place = Place::new();
    let dataset = named_dataset(&place, &["a", "b"]);
    place.write("dataset/plan.json", "{}");
    place.write("dataset/year.npy", "");
    place.npy("dataset/label.npy", NpyType::U8, &[1], &[0_u8, 1]);
    place.npy("dataset/indices.npy", NpyType::I64, &[], &[0_i64]);
    for exporter in EXPORTERS {
        let notes = there_and_back(&place, &dataset, exporter.name, false);
        let parts =
            ["plan.json is not", "year.npy is not", "label.npy [N, 1]", "indices.npy comes back in 32"];
        assert_eq!(notes.len(), parts.len(), "{notes:?}");
        for (note, part) in notes.iter().zip(parts) {
            assert!(note.starts_with(part), "{notes:?}");
        }
    }
}

#[test]
fn an_empty_graph_comes_back_too() {
    let place = Place::new();
    place.write("graph.txt", "# nothing\n");
    let five = EdgeList { nodes: Some(5), ..Default::default() };
    place.import("edgelist", "graph.txt", &ImportOptions { edge_list: five, ..Default::default() }).unwrap();
    fs::rename(place.path("out"), place.path("dataset")).unwrap();
    for exporter in EXPORTERS {
        there_and_back(&place, &place.path("dataset"), exporter.name, false);
    }
}

#[test]
fn an_existing_directory_is_refused_and_kept() {
    let place = Place::new();
    let dataset = everything(&place, false);
    place.write("exported/mine", "");
    let (dataset, out) = (Dataset::open(&dataset).unwrap(), place.path("exported"));
    let exporter = export::exporter("npy").unwrap();
    let error = exporter.run(&dataset, &out, ExportOptions::default(), &|_| {}, &|_| {}).unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("exists already"), "{error}");
    assert_eq!(names(&place.path("exported")), ["mine"]);
}

#[test]
fn data_changed_after_stamping_is_refused_and_not_exported() {
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
            let error = exporter.run(&dataset, &out, ExportOptions::default(), &|_| {}, &|_| {}).unwrap_err();
            assert!(error.is_bad_input() && error.to_string().contains(part), "{exporter:?}: {error}");
            assert_eq!(names(small.directory.path()), ["small"], "{exporter:?}");
            if name == "weight" {
                assert!(dataset.weights_to_pick_by().is_err_and(|error| error.to_string().contains(part)));
            }
        }
    }
}
