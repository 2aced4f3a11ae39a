//! A small dataset, and functions that damage it.
#![allow(dead_code, reason = "uva-io's tests use a share of it")]

pub mod typed;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use uva_graph::npy::{NpyType, write_array};
use uva_graph::{Dataset, Verify};

/// A dataset of 4 nodes and 5 edges, 2 features, 3 classes, in a directory of its own.
pub struct Small {
    pub directory: tempfile::TempDir,
    pub path: PathBuf,
}

pub const INDPTR: [i64; 5] = [0, 2, 2, 3, 5];
pub const INDICES: [i32; 5] = [1, 2, 0, 1, 0];
pub const FEATURES: [f32; 8] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
pub const LABELS: [i64; 4] = [0, 2, -1, 1];

pub fn small() -> Small {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("small");
    fs::create_dir(&path).unwrap();
    let small = Small { directory, path };
    small.write("indptr", NpyType::I64, &[], &INDPTR);
    small.write("indices", NpyType::I32, &[], &INDICES);
    small.write("feat", NpyType::F32, &[2], &FEATURES);
    small.write("label", NpyType::I64, &[], &LABELS);
    small.write("train_idx", NpyType::I64, &[], &[3_i64, 0]);
    small.write("valid_idx", NpyType::I64, &[], &[1_i64]);
    small.write("test_idx", NpyType::I64, &[], &[2_i64]);
    small
}

impl Small {
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.npy"))
    }

    /// Replaces an array.
    pub fn write<T: bytemuck::NoUninit>(&self, name: &str, kind: NpyType, row: &[usize], values: &[T]) {
        let _ = fs::remove_file(self.file(name));
        write_array(&self.file(name), kind, row, values).unwrap();
    }

    /// Changes a file's bytes.
    pub fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.file(name)).unwrap();
        change(&mut bytes);
        fs::write(self.file(name), bytes).unwrap();
    }

    /// Replaces text in a header, which keeps its length.
    pub fn change_header(&self, name: &str, from: &str, to: &str) {
        assert_eq!(from.len(), to.len());
        self.change(name, |bytes| {
            let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        });
    }

    pub fn meta(&self, json: &str) {
        fs::write(self.path.join("meta.json"), json).unwrap();
    }

    pub fn open(&self) -> Dataset {
        Dataset::open(&self.path).unwrap()
    }

    /// The error message of opening, after checking that it is an input error and that nothing was written.
    pub fn refusal(&self, how: Verify) -> String {
        let before = names(&self.path);
        let error = Dataset::open_verified(&self.path, how).unwrap_err();
        assert!(error.is_bad_input(), "{error}");
        assert_eq!(names(&self.path), before, "refusing wrote something");
        let message = error.to_string();
        assert!(!message.contains('\n'), "more than one line: {message}");
        message
    }
}

/// Names in a directory, sorted.
pub fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

/// Waits until the last change of a directory's files is long enough ago for a stamp.
pub fn settle(directory: &Path) {
    let began = std::time::Instant::now();
    let is_young = |name: &String| {
        let file = fs::metadata(directory.join(name)).unwrap();
        let changed = Duration::new(file.ctime() as u64, file.ctime_nsec() as u32);
        SystemTime::now() < std::time::UNIX_EPOCH + changed + Duration::from_millis(110)
    };
    while names(directory).iter().any(is_young) {
        assert!(began.elapsed() < Duration::from_secs(60), "the clock stands still");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Replaces an array of an opened dataset by other bytes, with a stamp that is valid for them.
pub fn change_behind_a_stamp(small: &Small, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    settle(&small.path);
    assert!(small.open().verification().stamp.is_some());
    let before = fs::metadata(small.file(name)).unwrap().len();
    small.change(name, change);
    let file = fs::metadata(small.file(name)).unwrap();
    assert_eq!(file.len(), before);
    let path = small.path.join(".uvatrain-stamp.json");
    let mut stamp: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let nanoseconds = |seconds: i64, rest: i64| serde_json::json!(seconds * 1_000_000_000 + rest);
    let entry = &mut stamp["files"][format!("{name}.npy")];
    entry["modified_ns"] = nanoseconds(file.mtime(), file.mtime_nsec());
    entry["changed_ns"] = nanoseconds(file.ctime(), file.ctime_nsec());
    fs::write(&path, stamp.to_string()).unwrap();
}
