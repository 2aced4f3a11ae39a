//! Tests that import the published Cora and Citeseer files. These are not part of this repository: the tests search
//! them in `$UVATRAIN_SHARED/datasets` or in `../shared/datasets` next to the workspace, and print a message if they
//! skip.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::common::names;
use super::importer;
use uva_graph::csc::SelfLoops;
use uva_graph::{Dataset, Labels, Split, Verify};
use uva_io::import::{ImportOptions, ImportWatch};

fn raw() -> Option<PathBuf> {
    let shared = std::env::var_os("UVATRAIN_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let raw = shared.join("datasets/raw/planetoid");
    if raw.is_dir() {
        return Some(raw);
    }
    eprintln!("skipped: {} is missing", raw.display());
    None
}

fn import(source: &Path, out: &str, options: &ImportOptions) -> (tempfile::TempDir, Dataset) {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join(out);
    importer("planetoid").run(source, &out, options, &ImportWatch::NONE).unwrap();
    let dataset = Dataset::open_verified(&out, Verify::FullWithFeatures).unwrap();
    (directory, dataset)
}

fn labels(dataset: &Dataset) -> &[i64] {
    match dataset.labels() {
        Labels::Single(labels) => labels,
        _ => panic!("one class a node"),
    }
}

fn row_of(dataset: &Dataset, node: usize) -> &[f32] {
    let features = dataset.features();
    bytemuck::cast_slice(&features.bytes[node * features.row_bytes()..][..features.row_bytes()])
}

#[test]
fn cora_has_its_published_numbers() {
    let Some(raw) = raw() else { return };
    let (_directory, cora) = import(&raw.join("ind.cora"), "anything", &ImportOptions::default());
    assert_eq!(cora.name(), "cora");
    assert_eq!((cora.nodes(), cora.edges(), cora.classes(), cora.features().dim), (2708, 10_556, 7, 1433));
    assert!(cora.split(Split::Train).iter().copied().eq(0..140));
    assert!(cora.split(Split::Valid).iter().copied().eq(140..640));
    assert!(cora.split(Split::Test).iter().copied().eq(1708..2708));
    let mut counts = HashMap::new();
    labels(&cora).iter().for_each(|label| *counts.entry(*label).or_insert(0) += 1);
    // Sen et al. 2008: 351 case based, 217 genetic algorithms, 418 neural networks, … in Planetoid's order.
    assert_eq!((0..7).map(|class| counts[&class]).collect::<Vec<_>>(), [351, 217, 418, 818, 426, 298, 180]);
    let ones: usize = (0..2708).map(|node| row_of(&cora, node).iter().filter(|x| **x == 1.0).count()).sum();
    assert_eq!(ones, 49_216);
}

#[test]
fn citeseers_gaps_are_nodes_without_features_or_labels() {
    let Some(raw) = raw() else { return };
    let (_directory, citeseer) = import(&raw, "citeseer", &ImportOptions::default());
    assert_eq!(citeseer.name(), "citeseer");
    assert_eq!((citeseer.nodes(), citeseer.edges(), citeseer.classes()), (3327, 9104, 6));
    assert_eq!(citeseer.features().dim, 3703);
    assert_eq!(Split::ALL.map(|split| citeseer.split(split).len()), [120, 500, 1000]);
    let gaps: Vec<usize> = (0..3327).filter(|&node| labels(&citeseer)[node] == -1).collect();
    assert_eq!(gaps.len(), 15);
    for &node in &gaps {
        assert!(row_of(&citeseer, node).iter().all(|x| *x == 0.0));
        assert!(!citeseer.split(Split::Test).contains(&(node as i64)));
    }
}

#[test]
fn edge_options_count_as_they_should() {
    let Some(raw) = raw() else { return };
    let raw = raw.join("ind.cora.graph");
    let as_it_lies = ImportOptions {
        symmetrise: Some(false.into()),
        deduplicate: Some(false.into()),
        self_loops: Some(SelfLoops::Keep.into()),
        name: Some("mine".into()),
        ..Default::default()
    };
    let (_directory, cora) = import(&raw, "x", &as_it_lies);
    assert_eq!(cora.name(), "mine");
    // 5,429 citations, each in both lists.
    assert_eq!(cora.edges(), 10_858);
    let looped = ImportOptions { self_loops: Some(SelfLoops::Add.into()), ..Default::default() };
    let (_directory, cora) = import(&raw, "x", &looped);
    assert_eq!(cora.edges(), 10_556 + 2708);
    let csc = cora.csc();
    for node in 0..cora.nodes() {
        let list: Vec<i64> =
            (csc.indptr[node]..csc.indptr[node + 1]).map(|i| csc.indices.get(i as usize)).collect();
        assert!(list.is_sorted_by(|a, b| a < b) && list.contains(&(node as i64)));
    }
}

#[test]
fn a_directory_of_several_graphs_needs_a_name() {
    let Some(raw) = raw() else { return };
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("graph");
    let error =
        importer("planetoid").run(&raw, &out, &ImportOptions::default(), &ImportWatch::NONE).unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("(citeseer, cora)"), "{error}");
    let error = importer("planetoid")
        .run(&raw.join("ind.pubmed"), &out, &ImportOptions::default(), &ImportWatch::NONE)
        .unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("ind.pubmed.graph"), "{error}");
    let named = ImportOptions { name: Some("cora".into()), ..Default::default() };
    importer("planetoid").run(&raw, &out, &named, &ImportWatch::NONE).unwrap();
    assert_eq!(Dataset::open(&out).unwrap().nodes(), 2708);
}

/// Every file truncated, and some bytes of each changed: refused or read, but never a panic and never leftovers.
#[test]
fn damaged_files_are_refused_and_leave_nothing() {
    let Some(raw) = raw() else { return };
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source");
    fs::create_dir(&source).unwrap();
    let files: Vec<String> = names(&raw).into_iter().filter(|name| name.starts_with("ind.cora.")).collect();
    let whole: HashMap<&String, Vec<u8>> =
        files.iter().map(|name| (name, fs::read(raw.join(name)).unwrap())).collect();
    for (name, bytes) in &whole {
        fs::write(source.join(name), bytes).unwrap();
    }
    let out = directory.path().join("out");
    for (name, bytes) in &whole {
        fs::write(source.join(name), &bytes[..bytes.len() / 2]).unwrap();
        let error = importer("planetoid")
            .run(&source, &out, &ImportOptions::default(), &ImportWatch::NONE)
            .unwrap_err();
        assert!(error.is_bad_input() && error.to_string().contains("source/ind.cora."), "{error}");
        assert_eq!(names(directory.path()), ["source"], "{error}");
        for at in [1, 7, 40, 90, 150, bytes.len() - 2] {
            let mut changed = bytes.clone();
            changed[at] ^= 0x41;
            fs::write(source.join(name), &changed).unwrap();
            match importer("planetoid").run(&source, &out, &ImportOptions::default(), &ImportWatch::NONE) {
                Ok(()) => fs::remove_dir_all(&out).unwrap(),
                Err(error) => assert!(error.is_bad_input(), "{error}"),
            }
            assert_eq!(names(directory.path()), ["source"]);
        }
        fs::write(source.join(name), bytes).unwrap();
    }
    fs::remove_file(source.join("ind.cora.tx")).unwrap();
    let error =
        importer("planetoid").run(&source, &out, &ImportOptions::default(), &ImportWatch::NONE).unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("ind.cora.tx: cannot open"), "{error}");
}

/// Cora's files, which may be changed, in `source` within the returned directory.
fn writable_cora(raw: &Path) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source");
    fs::create_dir(&source).unwrap();
    for name in names(raw).into_iter().filter(|name| name.starts_with("ind.cora.")) {
        // A copy would keep the source's read-only mode.
        fs::write(source.join(&name), fs::read(raw.join(&name)).unwrap()).unwrap();
    }
    (directory, source)
}

#[test]
fn a_test_index_names_existing_nodes_once_and_not_far_behind_the_files() {
    let Some(raw) = raw() else { return };
    let (directory, source) = writable_cora(&raw);
    let index = source.join("ind.cora.test.index");
    let whole = fs::read_to_string(&index).unwrap();
    let (first, rest) = whole.split_once('\n').unwrap();
    let second = rest.lines().next().unwrap();
    for (line, message) in [
        ("5416", "line 1 is '5416', not a node id below 5416 (allx and tx describe 2708 nodes)"),
        ("38622222", "line 1 is '38622222', not a node id below 5416"),
        ("-1", "line 1 is '-1', not a node id"),
        ("1707", "line 1 names node 1707, which allx describes already (it has 1708 rows)"),
        (second, &format!("line 2 names node {second} again")),
    ] {
        fs::write(&index, format!("{line}\n{rest}")).unwrap();
        let out = directory.path().join("out");
        let error = importer("planetoid").run(&source, &out, &ImportOptions::default(), &ImportWatch::NONE);
        let error = error.unwrap_err();
        assert!(error.is_bad_input() && error.to_string().contains(message), "{error}");
        assert_eq!(names(directory.path()), ["source"], "{error}");
    }
    // In range, so that there is a gap, and a list that names the node whose line was removed is valid.
    fs::write(&index, format!("5415\n{rest}")).unwrap();
    let (_directory, dataset) = import(&source, "out", &ImportOptions::default());
    assert_eq!(dataset.nodes(), 5416);
    assert_eq!(labels(&dataset)[first.parse::<usize>().unwrap()], -1);
}

#[test]
fn a_hostile_pickle_is_refused_by_the_name_it_calls() {
    let Some(raw) = raw() else { return };
    let (directory, source) = writable_cora(&raw);
    let witness = directory.path().join("witness");
    fs::write(source.join("ind.cora.graph"), format!("cposix\nsystem\n(S'touch {}'\ntR.", witness.display()))
        .unwrap();
    let error = importer("planetoid")
        .run(&source, &directory.path().join("out"), &ImportOptions::default(), &ImportWatch::NONE)
        .unwrap_err();
    assert!(
        error.to_string().contains("ind.cora.graph: the pickle names posix.system at offset 0"),
        "{error}"
    );
    assert_eq!(names(directory.path()), ["source"]);
}

/// Files of a graph of three nodes, as `pickle.dumps` of Python 3.11 with numpy 2.2 and the classes of scipy writes
/// them: matrices of 2 and of 1 row, labels of 2 and of 1 row, and a defaultdict. Each is preceded by its length in 4
/// bytes.
const PYTHON_3: [&[u8]; 6] = [
    include_bytes!("pickles/python3_protocol0.bin"),
    include_bytes!("pickles/python3_protocol1.bin"),
    include_bytes!("pickles/python3_protocol2.bin"),
    include_bytes!("pickles/python3_protocol3.bin"),
    include_bytes!("pickles/python3_protocol4.bin"),
    include_bytes!("pickles/python3_protocol5.bin"),
];

#[test]
fn pickles_of_python_3_are_read_in_every_protocol() {
    for (protocol, mut packed) in PYTHON_3.into_iter().enumerate() {
        let mut next = || {
            let (length, rest) = packed.split_first_chunk().unwrap();
            let (pickle, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
            packed = rest;
            pickle
        };
        let [matrix, row, labels_of_two, label, graph] = std::array::from_fn(|_| next());
        let directory = tempfile::tempdir().unwrap();
        for (part, bytes) in [
            ("x", matrix),
            ("allx", matrix),
            ("tx", row),
            ("y", labels_of_two),
            ("ally", labels_of_two),
            ("ty", label),
            ("graph", graph),
            ("test.index", b"\xef\xbb\xbf2\n"),
        ] {
            fs::write(directory.path().join(format!("ind.three.{part}")), bytes).unwrap();
        }
        let (_directory, dataset) = import(directory.path(), "out", &ImportOptions::default());
        assert_eq!(
            (dataset.nodes(), dataset.edges(), labels(&dataset)),
            (3, 4, &[1, 0, 1][..]),
            "{protocol}"
        );
        let rows: Vec<&[f32]> = (0..3).map(|node| row_of(&dataset, node)).collect();
        assert_eq!(rows, [[0.0, 1.5], [2.0, 0.0], [-0.25, 200.0]], "{protocol}");
    }
}
