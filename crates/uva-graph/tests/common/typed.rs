//! A small dataset of format 2: papers, authors and topics.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use uva_graph::npy::{NpyType, write_array};
use uva_graph::{TypedDataset, Verify};

/// A dataset of 6 papers, 5 authors and 3 topics, with five relations, in a directory of its own. Papers have features,
/// labels and splits, topics have features, authors have none.
pub struct Library {
    pub directory: tempfile::TempDir,
    pub path: PathBuf,
    pub meta: Value,
}

/// Names of a relation, the ends of its lists, and its lists.
pub type Lists = ([&'static str; 3], &'static [i64], &'static [i32]);

pub const LISTS: [Lists; 5] = [
    (["paper", "cites", "paper"], &[0, 2, 2, 2, 4, 4, 4], &[1, 3, 4, 0]),
    (["author", "writes", "paper"], &[0, 4, 4, 5, 9, 9, 12], &[3, 0, 1, 0, 4, 0, 1, 0, 4, 4, 1, 0]),
    (["topic", "covers", "paper"], &[0, 1, 4, 6, 8, 9, 10], &[1, 2, 0, 2, 2, 2, 2, 1, 0, 0]),
    (["paper", "rev_writes", "author"], &[0, 5, 8, 8, 9, 12], &[0, 0, 3, 3, 5, 0, 3, 5, 0, 2, 3, 5]),
    (["paper", "rev_covers", "topic"], &[0, 3, 5, 10], &[1, 4, 5, 0, 3, 1, 1, 2, 2, 3]),
];

pub fn library() -> Library {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("library");
    let edges = LISTS.map(|(names, ..)| json!({ "type": names }));
    let mut meta = json!({
        "version": 2, "name": "lib", "target": "paper", "made_by": ["me", 2],
        "nodes": [
            {"type": "paper", "num": 6, "classes": 3, "source_name": "Paper"},
            {"type": "author", "num": 5}, {"type": "topic", "num": 3, "feat_dtype": "bf16"}
        ],
        "edges": edges
    });
    meta["edges"][1]["reverse"] = json!(LISTS[3].0);
    meta["edges"][3]["reverse"] = json!(LISTS[1].0);
    meta["edges"][2]["reverse"] = json!(LISTS[4].0);
    let library = Library { directory, path, meta };
    for (names, indptr, indices) in LISTS {
        let relation = format!("edges/{}", names.join("__"));
        library.write(&format!("{relation}/indptr"), NpyType::I64, &[], indptr);
        library.write(&format!("{relation}/indices"), NpyType::I32, &[], indices);
    }
    let features: Vec<f32> = (0..24_u8).map(f32::from).collect();
    library.write("nodes/paper/feat", NpyType::F32, &[4], &features);
    library.write("nodes/paper/label", NpyType::I64, &[], &[0_i64, 1, 2, -1, 0, 1]);
    library.write("nodes/paper/train_idx", NpyType::I64, &[], &[0_i64, 5, 4]);
    library.write("nodes/paper/valid_idx", NpyType::I64, &[], &[1_i64]);
    library.write("nodes/topic/feat", NpyType::U16, &[2], &[0x3f80_u16; 6]);
    library.save_meta();
    library
}

impl Library {
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.npy"))
    }

    /// Replaces an array.
    pub fn write<T: bytemuck::NoUninit>(&self, name: &str, kind: NpyType, row: &[usize], values: &[T]) {
        write_npy(&self.file(name), kind, row, values);
    }

    pub fn save_meta(&self) {
        fs::write(self.path.join("meta.json"), self.meta.to_string()).unwrap();
    }

    /// Changes `meta.json`.
    pub fn change(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.meta);
        self.save_meta();
    }

    pub fn open(&self) -> TypedDataset {
        TypedDataset::open(&self.path).unwrap()
    }

    /// The error message of opening, without the path of the dataset, after checking that it is an input error.
    pub fn refusal(&self, how: Verify) -> String {
        let error = TypedDataset::open_verified(&self.path, how).unwrap_err();
        assert!(error.is_bad_input(), "{error}");
        let message = error.to_string();
        assert!(!message.contains('\n'), "more than one line: {message}");
        let prefix = format!("{}/", self.path.display());
        message.strip_prefix(&prefix).unwrap_or_else(|| panic!("no path: {message}")).to_owned()
    }
}

/// Writes an array into directories that need not exist.
pub fn write_npy<T: bytemuck::NoUninit>(path: &Path, kind: NpyType, row: &[usize], values: &[T]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(path);
    write_array(path, kind, row, values).unwrap();
}
