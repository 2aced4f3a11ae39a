//! Directories fetched from a directory: what comes, and what is refused with nothing left behind.

use std::cell::Cell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use uva_fetch::{FetchError, FetchOptions, Fetched, fetch};

/// A partition as it lies in a store, and room beside it.
struct Store {
    parent: TempDir,
}

impl Store {
    fn new() -> Store {
        let store = Store { parent: tempfile::tempdir().unwrap() };
        for (name, bytes) in [
            ("partition.json", 20),
            ("partition.npy", 4000),
            ("graph/indices.npy", 70_000),
            ("graph/train_idx.npy", 0),
            ("part-0/feat.npy", 90_001),
            ("part-1/feat.npy", 90_002),
            ("part-1/deeper/with space.npy", 3),
        ] {
            store.write(name, bytes);
        }
        store
    }

    fn at(&self) -> PathBuf {
        self.parent.path().join("store")
    }

    fn url(&self) -> String {
        format!("file://{}", self.at().display())
    }

    fn to(&self) -> PathBuf {
        self.parent.path().join("local")
    }

    fn write(&self, name: &str, bytes: usize) {
        let path = self.at().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let content: Vec<u8> = (0..bytes).map(|place| (place * 31 % 251) as u8).collect();
        fs::write(path, content).unwrap();
    }

    fn fetch(&self, only: &[&str]) -> Result<Fetched, FetchError> {
        let only = only.iter().map(|name| (*name).to_owned()).collect();
        fetch(&self.url(), &self.to(), &FetchOptions { only, ..FetchOptions::default() }, &|_| {})
    }

    /// Nothing is beside the store: neither the directory nor an unfinished one.
    fn has_nothing_beside(&self) {
        let names: Vec<_> =
            fs::read_dir(self.parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["store"]);
    }
}

/// The names and contents of all files below a directory, by name.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
                found.push((name, fs::read(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn everything_comes_byte_by_byte_with_empty_files_and_directories_in_directories() {
    let store = Store::new();
    let fetched = store.fetch(&[]).unwrap();
    assert_eq!((fetched.files, fetched.bytes), (7, 20 + 4000 + 70_000 + 90_001 + 90_002 + 3));
    assert!(fetched.seconds > 0.0);
    assert!(files(&store.to()) == files(&store.at()));
}

#[test]
fn a_file_of_several_pieces_is_put_together_in_its_order() {
    let store = Store::new();
    store.write("feat.npy", (33 << 20) + 5);
    let options = FetchOptions { at_once: 3, ..FetchOptions::default() };
    let last = Cell::new((0, 0));
    let watch = |progress: uva_graph::Progress| {
        assert!(progress.done >= last.get().0 && progress.done <= progress.total);
        last.set((progress.done, progress.total));
    };
    let fetched = fetch(&store.url(), &store.to(), &options, &watch).unwrap();
    assert_eq!(last.get(), (fetched.bytes, fetched.bytes));
    assert!(files(&store.to()) == files(&store.at()));
}

#[test]
fn only_leaves_out_other_directories_and_no_file_at_the_top() {
    let store = Store::new();
    let fetched = store.fetch(&["graph", "part-1/deeper/"]).unwrap();
    let names: Vec<String> = files(&store.to()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "graph/indices.npy",
            "graph/train_idx.npy",
            "part-1/deeper/with space.npy",
            "partition.json",
            "partition.npy"
        ]
    );
    assert_eq!(fetched.files, 5);
}

#[test]
fn a_name_in_only_that_is_not_there_is_refused_with_those_that_are() {
    let store = Store::new();
    let error = store.fetch(&["part-9"]).unwrap_err();
    assert!(error.is_bad_input());
    assert_eq!(
        error.to_string(),
        format!(
            "{}: nothing is named part-9 there; beside the files at the top there is graph, part-0, part-1",
            store.url()
        )
    );
    store.has_nothing_beside();
}

#[test]
fn a_destination_that_exists_is_refused_and_stays_as_it_is() {
    let store = Store::new();
    fs::create_dir(store.to()).unwrap();
    fs::write(store.to().join("mine"), "kept").unwrap();
    let error = store.fetch(&[]).unwrap_err();
    assert!(matches!(error, FetchError::Local(_)) && error.is_bad_input());
    assert!(error.to_string().contains("exists already: name another directory"), "{error}");
    assert_eq!(files(&store.to()), [("mine".to_owned(), b"kept".to_vec())]);
}

#[test]
fn a_directory_that_is_not_there_or_is_empty_is_refused_by_its_url() {
    let store = Store::new();
    let url = format!("{}/part-9", store.url());
    let error = fetch(&url, &store.to(), &FetchOptions::default(), &|_| {}).unwrap_err();
    assert_eq!(error.to_string(), format!("{url}: there is no such directory"));
    fs::create_dir(store.at().join("part-9")).unwrap();
    let error = fetch(&url, &store.to(), &FetchOptions::default(), &|_| {}).unwrap_err();
    assert!(error.is_bad_input());
    assert_eq!(
        error.to_string(),
        format!("{url}: no object is below this: compare bucket and prefix with a listing of the store")
    );
    store.has_nothing_beside();
}

#[test]
fn a_name_that_cannot_be_a_files_everywhere_is_refused() {
    let store = Store::new();
    store.write("part-0\\feat.npy", 5);
    let error = store.fetch(&[]).unwrap_err();
    assert!(error.is_bad_input());
    assert!(error.to_string().contains("it has a backslash"), "{error}");
    store.has_nothing_beside();
}

#[test]
fn an_object_that_changes_while_it_is_fetched_is_refused() {
    let store = Store::new();
    let large = store.at().join("feat.npy");
    File::create(&large).unwrap().set_len(40 << 20).unwrap();
    // One request at a time, in the order of the names: the first bytes of `feat.npy` are there, and others are not.
    let options = FetchOptions { at_once: 1, ..FetchOptions::default() };
    let shorten = |progress: uva_graph::Progress| {
        if progress.done > 0 && fs::metadata(&large).unwrap().len() > 5 {
            File::options().write(true).open(&large).unwrap().set_len(5).unwrap();
        }
    };
    let error = fetch(&store.url(), &store.to(), &options, &shorten).unwrap_err();
    assert!(matches!(error, FetchError::Store { .. }) && !error.is_bad_input());
    let message = error.to_string();
    assert!(message.starts_with(&format!("{}: feat.npy: it changed while it was fetched", store.url())));
    assert!(message.ends_with("fetch again when nobody writes there any more"), "{message}");
    store.has_nothing_beside();
}

#[test]
fn an_object_that_goes_away_while_others_are_fetched_is_refused() {
    let store = Store::new();
    let options = FetchOptions { at_once: 1, ..FetchOptions::default() };
    let last = store.at().join("partition.npy");
    let remove = |progress: uva_graph::Progress| {
        if progress.done > 0 && last.exists() {
            fs::remove_file(&last).unwrap();
        }
    };
    let error = fetch(&store.url(), &store.to(), &options, &remove).unwrap_err().to_string();
    assert!(error.contains("partition.npy: it changed while it was fetched (it is gone)"), "{error}");
    store.has_nothing_beside();
}

#[test]
fn what_the_disk_has_no_room_for_is_refused_before_a_byte_is_fetched() {
    let store = Store::new();
    // No file system of a test machine has that much room, and some allow no file of that length.
    let file = File::create(store.at().join("feat.npy")).unwrap();
    let Some(_) = (40..=62).rev().find(|bits| file.set_len(1 << bits).is_ok()) else { return };
    let watch = |_| panic!("it began");
    let error = fetch(&store.url(), &store.to(), &FetchOptions::default(), &watch).unwrap_err();
    assert!(matches!(error, FetchError::Local(uva_graph::GraphError::Lacking { .. })), "{error}");
    assert!(error.to_string().contains(", but the files take "), "{error}");
    store.has_nothing_beside();
}
