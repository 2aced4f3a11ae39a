//! Every format, read from files that the tests write as they are published, and what is exported
//! read back. One program, because linking takes longer than running.

#[path = "../../../uva-graph/tests/common/mod.rs"]
mod common;
#[path = "../../../../fuzz/src/sources.rs"]
mod sources;

mod csv;
mod dgl_chunked;
mod edgelist;
mod export;
mod features;
mod foreign;
mod gnn_npz;
mod graphbolt;
mod hostile;
mod igb;
mod npy;
mod nt;
mod ogb;
#[cfg(feature = "parquet")]
mod parquet;
mod planetoid;
mod round_trips;
mod rounded_or_left;
mod splits;
mod typed_changes;
mod typed_graphbolt;
mod typed_igb;
mod typed_npy;
mod typed_ogb;
mod typed_tables;
mod typed_writer;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use common::names;
use flate2::Compression;
use flate2::write::GzEncoder;
use uva_graph::npy::{NpyType, write_array};
use uva_graph::{Dataset, GraphError, Labels, Verify};
use uva_io::import::{self, IMPORTERS, ImportOptions, ImportWatch, Importer};

/// The importer of that name.
fn importer(name: &str) -> &'static Importer {
    import::importer(name).unwrap()
}

/// A directory to write sources into and to import from.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file, and the directories above it.
    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn npy<T: bytemuck::NoUninit>(&self, name: &str, kind: NpyType, row: &[usize], values: &[T]) {
        self.write(name, npy(kind, row, values));
    }

    /// Imports the source called `name`, and opens the result with every check.
    fn import(&self, format: &str, name: &str, options: &ImportOptions) -> Result<Dataset, GraphError> {
        let out = self.path("out");
        let _ = fs::remove_dir_all(&out);
        importer(format).run(&self.path(name), &out, options, &ImportWatch::NONE)?;
        Ok(Dataset::open_verified(&out, Verify::FullWithFeatures).unwrap())
    }

    /// The messages of an import about the source, without its estimate.
    fn notes(&self, format: &str, name: &str) -> Vec<String> {
        self.notes_of(format, name, &ImportOptions::default())
    }

    /// The messages of an import with options.
    fn notes_of(&self, format: &str, name: &str, options: &ImportOptions) -> Vec<String> {
        let out = self.path("out");
        let _ = fs::remove_dir_all(&out);
        let notes = std::cell::RefCell::new(Vec::new());
        let note = |line: &str| notes.borrow_mut().push(line.to_owned());
        let watch = ImportWatch { note: &note, ..ImportWatch::NONE };
        importer(format).run(&self.path(name), &out, options, &watch).unwrap();
        notes.into_inner()
    }

    /// The error message of an import, after checking that it is an input error and that no files are left.
    fn refusal(&self, format: &str, name: &str, options: &ImportOptions) -> String {
        let _ = fs::remove_dir_all(self.path("out"));
        let before = names(self.directory.path());
        let error = self.import(format, name, options).expect_err("it was imported");
        assert!(error.is_bad_input(), "{error}");
        assert_eq!(names(self.directory.path()), before, "something is left behind");
        let message = error.to_string();
        assert!(!message.contains('\n') && !message.contains("partial"), "{message}");
        message
    }
}

/// A `.npy` file as bytes.
fn npy<T: bytemuck::NoUninit>(kind: NpyType, row: &[usize], values: &[T]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("array.npy");
    write_array(&path, kind, row, values).unwrap();
    fs::read(path).unwrap()
}

/// An archive of `.npy` files, as `numpy.savez` or `numpy.savez_compressed` writes it: zip64 throughout.
fn npz(members: &[(&str, Vec<u8>)], compressed: bool) -> Vec<u8> {
    let method = if compressed { zip::CompressionMethod::Deflated } else { zip::CompressionMethod::Stored };
    let options = zip::write::SimpleFileOptions::default().compression_method(method).large_file(true);
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        archive.start_file(format!("{name}.npy"), options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn gz(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn list(dataset: &Dataset, node: usize) -> Vec<i64> {
    let csc = dataset.csc();
    (csc.indptr[node]..csc.indptr[node + 1]).map(|edge| csc.indices.get(edge as usize)).collect()
}

fn lists(dataset: &Dataset) -> Vec<Vec<i64>> {
    (0..dataset.nodes()).map(|node| list(dataset, node)).collect()
}

/// The classes; none without labels.
fn labels(dataset: &Dataset) -> &[i64] {
    match dataset.labels() {
        Labels::Absent => &[],
        Labels::Single(labels) => labels,
        _ => panic!("one class a node"),
    }
}

fn floats(dataset: &Dataset) -> &[f32] {
    bytemuck::cast_slice(dataset.features().bytes)
}

/// Files that are not part of this repository: in `$UVATRAIN_SHARED/datasets` or in `../shared/datasets` next to the
/// workspace.
fn shared(name: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("UVATRAIN_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = shared.join("datasets").join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is missing", path.display());
    None
}
