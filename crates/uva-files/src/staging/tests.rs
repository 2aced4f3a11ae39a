use std::os::unix::fs::{PermissionsExt, symlink};

use uva_mem::files::is_word;

use super::*;

/// The required files of a dataset in these tests. It may also have `weight.npy`.
const FILES: [&str; 7] =
    ["indptr.npy", "indices.npy", "feat.npy", "label.npy", "train_idx.npy", "valid_idx.npy", "test_idx.npy"];

const DATASET: DirectoryKind = DirectoryKind {
    name: "a dataset",
    may_have: |path| {
        let of_types = ["types/a.npy", "types/paper/a.npy"];
        FILES.iter().chain(&["weight.npy"]).chain(&of_types).any(|known| path == Path::new(known))
    },
    may_have_directory: |path| ["types", "types/paper"].iter().any(|known| path == Path::new(known)),
    check: |directory| {
        let missing = FILES.iter().find(|name| !directory.join(name).exists());
        missing.map_or(Ok(()), |name| Err(format!("{name} is missing")))
    },
};

/// Writes every required file of a dataset.
fn dataset(directory: &Path) {
    fs::create_dir(directory).unwrap();
    for name in FILES {
        fs::write(directory.join(name), name).unwrap();
    }
}

/// Marks a directory as a killed process leaves it.
fn mark(directory: &Path) {
    let marker = directory.join(sibling::MARKER);
    fs::write(&marker, sibling::UNFINISHED).unwrap();
    fs::set_permissions(marker, fs::Permissions::from_mode(0o600)).unwrap();
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_committed_directory_appears_with_its_files_and_nothing_else() {
    let parent = tempfile::tempdir().unwrap();
    let staged = StagedDirectory::new(&parent.path().join("graph"), &DATASET).unwrap();
    fs::write(staged.path().join("a"), "1").unwrap();
    let beside = names(parent.path());
    let word = beside[0].strip_prefix("graph.partial-").unwrap_or_default();
    assert!(beside.len() == 1 && is_word(word), "{beside:?}");
    staged.commit().unwrap();
    assert_eq!(names(parent.path()), ["graph"]);
    assert_eq!(names(&parent.path().join("graph")), ["a"]);
}

#[test]
fn a_dropped_directory_leaves_nothing_not_even_the_parents_it_needed() {
    let parent = tempfile::tempdir().unwrap();
    let staged = StagedDirectory::new(&parent.path().join("new/er/graph"), &DATASET).unwrap();
    fs::write(staged.path().join("a"), "1").unwrap();
    drop(staged);
    assert!(names(parent.path()).is_empty());
}

#[test]
fn an_existing_directory_is_refused_and_left_alone() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("graph");
    fs::create_dir(&out).unwrap();
    let error = StagedDirectory::new(&out, &DATASET).unwrap_err();
    assert!(matches!(error, FileError::Usage { .. }));
    assert!(error.to_string().contains("graph exists already"), "{error}");
    assert_eq!(names(parent.path()), ["graph"]);
}

#[test]
fn a_directory_that_appears_meanwhile_is_not_replaced() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("graph");
    let staged = StagedDirectory::new(&out, &DATASET).unwrap();
    fs::create_dir(&out).unwrap();
    assert!(staged.commit().unwrap_err().to_string().contains("exists already"));
    assert_eq!(names(parent.path()), ["graph"]);
}

#[test]
fn what_a_killed_run_left_is_removed_but_not_what_a_living_one_writes() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("graph");
    // The state after a killed process: the name, and an unlocked marker.
    let left = parent.path().join("graph.partial-0123456789abcdef");
    fs::create_dir(&left).unwrap();
    mark(&left);
    fs::write(left.join("feat.npy"), "half").unwrap();
    fs::create_dir(left.join("deeper")).unwrap();
    let first = StagedDirectory::new(&out, &DATASET).unwrap();
    assert!(!left.exists());
    let second = StagedDirectory::new(&out, &DATASET).unwrap();
    assert!(first.path().exists() && second.path().exists());
    assert_ne!(first.path(), second.path());
    drop((first, second));
    assert!(names(parent.path()).is_empty());
}

#[test]
fn what_only_looks_like_a_leftover_stays() {
    let parent = tempfile::tempdir().unwrap();
    let foreign = [
        // Copies by a user, and possible remains of another version's crash: no random word, no marker.
        "graph.partial-2",
        "graph.partial-mine",
        "graph.partial-0123456789abcdef",
        "graph.partial-0123456789ABCDE0",
        "graph.partial-0123456789abcdef0",
        "other.partial-0123456789abcdef",
    ];
    for name in foreign {
        fs::create_dir(parent.path().join(name)).unwrap();
        fs::write(parent.path().join(name).join("thesis.tex"), "years").unwrap();
    }
    for name in foreign.iter().filter(|name| **name != "graph.partial-0123456789abcdef") {
        mark(&parent.path().join(name));
    }
    // A marker that another program wrote, next to another file.
    let planted = parent.path().join("graph.partial-2222222222222222");
    fs::create_dir(&planted).unwrap();
    fs::write(planted.join(sibling::MARKER), "").unwrap();
    fs::write(planted.join("thesis.tex"), "years").unwrap();
    // A link to a marked directory, and a marker that is a link.
    let marked = parent.path().join("elsewhere");
    fs::create_dir(&marked).unwrap();
    mark(&marked);
    fs::write(marked.join("thesis.tex"), "years").unwrap();
    symlink(&marked, parent.path().join("graph.partial-0000000000000000")).unwrap();
    let linked = parent.path().join("graph.partial-1111111111111111");
    fs::create_dir(&linked).unwrap();
    symlink(marked.join(sibling::MARKER), linked.join(sibling::MARKER)).unwrap();
    let before = names(parent.path());
    drop(StagedDirectory::new(&parent.path().join("graph"), &DATASET).unwrap());
    assert_eq!(names(parent.path()), before);
    for name in foreign.into_iter().chain(["elsewhere", "graph.partial-2222222222222222"]) {
        assert_eq!(fs::read(parent.path().join(name).join("thesis.tex")).unwrap(), b"years", "{name}");
    }
}

#[test]
fn a_dataset_makes_way_only_in_the_moment_of_the_commit() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("graph");
    dataset(&out);
    let staged = StagedDirectory::replacing(&out, &DATASET).unwrap();
    fs::write(staged.path().join("indptr.npy"), "new").unwrap();
    assert!(out.join("feat.npy").exists());
    staged.commit().unwrap();
    assert_eq!(names(parent.path()), ["graph"]);
    assert_eq!(names(&out), ["indptr.npy"]);
    fs::remove_dir_all(&out).unwrap();
    dataset(&out);
    // A missing or an empty directory may be replaced too. A writer that gives up leaves the old directory.
    let (other, empty) = (parent.path().join("other"), parent.path().join("empty"));
    StagedDirectory::replacing(&other, &DATASET).unwrap().commit().unwrap();
    fs::create_dir(&empty).unwrap();
    StagedDirectory::replacing(&empty, &DATASET).unwrap().commit().unwrap();
    drop(StagedDirectory::replacing(&out, &DATASET).unwrap());
    assert_eq!(names(parent.path()), ["empty", "graph", "other"]);
    assert_eq!(names(&out).len(), 7);
}

#[test]
fn files_added_to_a_replaced_dataset_are_kept() {
    let parent = tempfile::tempdir().unwrap();
    let old = parent.path().join("graph.partial-0123456789abcdef");
    dataset(&old);
    fs::write(old.join("thesis.tex"), "years").unwrap();
    // The state after a process was killed while it removed the old dataset.
    fs::write(old.join(sibling::MARKER), sibling::REPLACED).unwrap();
    fs::set_permissions(old.join(sibling::MARKER), fs::Permissions::from_mode(0o600)).unwrap();
    drop(StagedDirectory::new(&parent.path().join("graph"), &DATASET).unwrap());
    assert_eq!(names(&old), ["thesis.tex"]);
    dataset(&old.join("again"));
    fs::rename(old.join("again/feat.npy"), old.join("feat.npy")).unwrap();
    replacement::remove(&old, &DATASET);
    assert_eq!(names(&old), ["again", "thesis.tex"]);
    fs::remove_dir_all(old.join("again")).unwrap();
    drop(StagedDirectory::new(&parent.path().join("graph"), &DATASET).unwrap());
    assert_eq!(names(&old), ["thesis.tex"]);
}

#[test]
fn files_in_directories_of_a_dataset_are_replaced_and_others_kept() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("graph");
    let write = |staged: &StagedDirectory| {
        for name in FILES {
            fs::write(staged.path().join(name), name).unwrap();
        }
        fs::create_dir_all(staged.path().join("types/paper")).unwrap();
        fs::write(staged.path().join("types/paper/a.npy"), "1").unwrap();
    };
    for _ in 0..2 {
        let staged = StagedDirectory::replacing(&out, &DATASET).unwrap();
        write(&staged);
        staged.commit().unwrap();
    }
    assert_eq!(names(parent.path()), ["graph"]);
    assert_eq!(names(&out.join("types/paper")), ["a.npy"]);
    fs::write(out.join("types/paper/thesis.tex"), "years").unwrap();
    let refused = StagedDirectory::replacing(&out, &DATASET).unwrap_err().to_string();
    assert!(refused.contains("types/paper/thesis.tex in it is not a file of a dataset"), "{refused}");
    // A file that appears after the check stays, and so do the directories around it.
    replacement::remove(&out, &DATASET);
    assert_eq!(
        (names(&out), names(&out.join("types/paper"))),
        (vec!["types".into()], vec!["thesis.tex".into()])
    );
}

#[test]
fn only_a_dataset_is_ever_replaced() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("graph");
    fs::create_dir(&out).unwrap();
    let refused = |says: &str| {
        let error = StagedDirectory::replacing(&out, &DATASET).unwrap_err();
        assert!(matches!(error, FileError::Usage { .. }) && error.to_string().contains(says), "{error}");
    };
    fs::write(out.join("thesis.tex"), "years").unwrap();
    refused("thesis.tex in it is not a file of a dataset");
    // A user's own array, under any name.
    for (name, says) in [
        ("measured.npy", "measured.npy in it is not a file of a dataset"),
        ("label.npy", "it does not open as a dataset"),
    ] {
        fs::remove_dir_all(&out).unwrap();
        fs::create_dir(&out).unwrap();
        fs::write(out.join(name), "years").unwrap();
        refused(says);
        assert_eq!(names(&out), [name]);
    }
    fs::remove_dir_all(&out).unwrap();
    dataset(&out);
    let staged = StagedDirectory::replacing(&out, &DATASET).unwrap();
    fs::write(out.join("mine.npy"), "").unwrap();
    assert!(staged.commit().unwrap_err().to_string().contains("mine.npy in it"));
    assert_eq!(names(&out).len(), 8);
    let file = out.join("feat.npy");
    assert!(StagedDirectory::replacing(&file, &DATASET).unwrap_err().to_string().contains("not a directory"));
}

#[test]
fn a_temporary_directory_is_private_and_removed_by_the_next_process() {
    let parent = tempfile::tempdir().unwrap();
    // The state after a killed process, and a lookalike.
    let left = parent.path().join("work.partial-0123456789abcdef");
    fs::create_dir_all(left.join("data")).unwrap();
    mark(&left);
    fs::write(left.join("data/feat.npy"), "half").unwrap();
    let foreign = parent.path().join("work.partial-1111111111111111");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("thesis.tex"), "years").unwrap();
    let first = TemporaryDirectory::create(parent.path(), "work").unwrap();
    let second = TemporaryDirectory::create(parent.path(), "work").unwrap();
    assert!(!left.exists() && first.path().exists() && second.path().exists());
    assert_eq!(fs::metadata(first.path()).unwrap().permissions().mode() & 0o777, 0o700);
    fs::create_dir(first.path().join("data")).unwrap();
    drop((first, second));
    assert_eq!(names(parent.path()), ["work.partial-1111111111111111"]);
    assert_eq!(names(&foreign), ["thesis.tex"]);
}
