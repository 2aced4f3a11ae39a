//! Sources of importers. What an importer has accepted is a dataset, which opens.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use uva_graph::Dataset;
use uva_graph::error::GraphError;
use uva_graph::import::{self, ImportOptions};
use uva_graph::npy::{NpyType, write_array};

use crate::dataset::look_at;
use crate::files::{self, directory};

type Importer = fn(&Path, &Path, &ImportOptions) -> Result<(), GraphError>;

fn import(files: &BTreeMap<String, Vec<u8>>, input: &[u8], importer: Importer) -> bool {
    let mut files = files.clone();
    // The first byte says what is changed on the way in.
    let Some((&how, input)) = input.split_first() else { return false };
    files::change(&mut files, input);
    let directory = directory();
    let (source, out) = (directory.path().join("source"), directory.path().join("out"));
    fs::create_dir(&source).expect("a directory");
    files::write(&source, &files);
    let options = ImportOptions {
        symmetrise: (how & 1 != 0).then_some(how & 2 != 0),
        deduplicate: (how & 4 != 0).then_some(how & 8 != 0),
        ..ImportOptions::default()
    };
    let imported = importer(&source, &out, &options);
    if imported.is_ok() {
        look_at(&Dataset::open(&out).expect("what was imported is a dataset"));
    } else {
        let left: Vec<_> = fs::read_dir(directory.path()).expect("a directory").flatten().collect();
        assert_eq!(left.len(), 1, "an import that failed left something: {left:?}");
    }
    imported.is_ok()
}

fn with_options(seeds: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    seeds.into_iter().map(|seed| [vec![0], seed].concat()).collect()
}

/// A graph as an edge list, its splits as masks and as ids.
fn arrays() -> &'static BTreeMap<String, Vec<u8>> {
    static ARRAYS: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    ARRAYS.get_or_init(|| {
        let directory = directory();
        let path = |name: &str| directory.path().join(name);
        write_array(&path("edge_index.npy"), NpyType::I64, &[4], &[0_i64, 1, 2, 3, 1, 2, 3, 0])
            .expect("room");
        write_array(&path("x.npy"), NpyType::F32, &[2], &[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
            .expect("room");
        write_array(&path("y.npy"), NpyType::I64, &[], &[0_i64, 1, 0, 1]).expect("room");
        write_array(&path("train_mask.npy"), NpyType::U8, &[], &[1_u8, 1, 0, 0]).expect("room");
        write_array(&path("valid_mask.npy"), NpyType::U8, &[], &[0_u8, 0, 1, 0]).expect("room");
        write_array(&path("test_idx.npy"), NpyType::I64, &[], &[3_i64]).expect("room");
        fs::write(path("meta.json"), r#"{"name": "fuzz", "classes": 2}"#).expect("room");
        files::read(directory.path())
    })
}

pub fn npy(input: &[u8]) -> bool {
    import(arrays(), input, import::npy)
}

pub fn npy_seeds() -> Vec<Vec<u8>> {
    with_options(files::seeds(arrays()))
}

/// Cora's form with three nodes. The matrices are pickles of protocol 2, as scipy and numpy of the published files' time
/// wrote them; the graph is one of protocol 0.
fn citations() -> &'static BTreeMap<String, Vec<u8>> {
    static CITATIONS: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    CITATIONS.get_or_init(|| {
        let text = |name: &str, bytes: &[u8]| (format!("ind.fuzz.{name}"), bytes.to_vec());
        BTreeMap::from([
            text("graph", b"(dp0\nI0\n(lp1\nI1\nasI1\n(lp2\nI0\naI2\nasI2\n(lp3\nI1\nas."),
            text("test.index", b"2\n"),
            text("x", include_bytes!("../seeds/csr_2x2.pickle")),
            text("allx", include_bytes!("../seeds/csr_2x2.pickle")),
            text("tx", include_bytes!("../seeds/csr_1x2.pickle")),
            text("y", include_bytes!("../seeds/labels_2x2.pickle")),
            text("ally", include_bytes!("../seeds/labels_2x2.pickle")),
            text("ty", include_bytes!("../seeds/labels_1x2.pickle")),
        ])
    })
}

pub fn planetoid(input: &[u8]) -> bool {
    import(citations(), input, import::planetoid)
}

pub fn planetoid_seeds() -> Vec<Vec<u8>> {
    with_options(files::seeds(citations()))
}
