use super::*;

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_committed_directory_appears_with_its_files_and_nothing_else() {
    let parent = tempfile::tempdir().unwrap();
    let staged = StagedDirectory::new(&parent.path().join("graph")).unwrap();
    fs::write(staged.path().join("a"), "1").unwrap();
    assert_eq!(names(parent.path()), [format!("graph.partial-{}", std::process::id())]);
    staged.commit().unwrap();
    assert_eq!(names(parent.path()), ["graph"]);
    assert_eq!(names(&parent.path().join("graph")), ["a"]);
}

#[test]
fn a_dropped_directory_leaves_nothing_not_even_the_parents_it_needed() {
    let parent = tempfile::tempdir().unwrap();
    let staged = StagedDirectory::new(&parent.path().join("new/er/graph")).unwrap();
    fs::write(staged.path().join("a"), "1").unwrap();
    drop(staged);
    assert!(names(parent.path()).is_empty());
}

#[test]
fn an_existing_directory_is_refused_and_left_alone() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("graph");
    fs::create_dir(&out).unwrap();
    let error = StagedDirectory::new(&out).unwrap_err();
    assert!(error.is_bad_input());
    assert!(error.to_string().contains("graph exists already"), "{error}");
    assert_eq!(names(parent.path()), ["graph"]);
}

#[test]
fn a_directory_that_appears_meanwhile_is_not_replaced() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("graph");
    let staged = StagedDirectory::new(&out).unwrap();
    fs::create_dir(&out).unwrap();
    assert!(staged.commit().unwrap_err().to_string().contains("exists already"));
    assert_eq!(names(parent.path()), ["graph"]);
}

#[test]
fn what_a_killed_run_left_is_removed_but_not_what_a_living_one_writes() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("graph");
    // Nobody holds these; the third only looks similar.
    fs::create_dir(parent.path().join("graph.partial-1")).unwrap();
    fs::write(parent.path().join("graph.partial-1/feat.npy"), "half").unwrap();
    fs::create_dir(parent.path().join("graph.partial-1-2")).unwrap();
    fs::create_dir(parent.path().join("graph.partial-mine")).unwrap();
    let first = StagedDirectory::new(&out).unwrap();
    let second = StagedDirectory::new(&out).unwrap();
    assert!(first.path().exists() && second.path().exists());
    assert_ne!(first.path(), second.path());
    drop((first, second));
    assert_eq!(names(parent.path()), ["graph.partial-mine"]);
}

#[test]
fn a_dataset_makes_way_only_in_the_moment_of_the_commit() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("graph");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("feat.npy"), "old").unwrap();
    let staged = StagedDirectory::replacing(&out).unwrap();
    fs::write(staged.path().join("indptr.npy"), "new").unwrap();
    assert_eq!(fs::read(out.join("feat.npy")).unwrap(), b"old");
    staged.commit().unwrap();
    assert_eq!(names(parent.path()), ["graph"]);
    assert_eq!(names(&out), ["indptr.npy"]);
    // Nothing there to replace is fine too, and a writer that gives up leaves the old one.
    let other = parent.path().join("other");
    StagedDirectory::replacing(&other).unwrap().commit().unwrap();
    drop(StagedDirectory::replacing(&out).unwrap());
    assert_eq!(names(parent.path()), ["graph", "other"]);
    assert_eq!(names(&out), ["indptr.npy"]);
}

#[test]
fn what_is_no_dataset_is_never_replaced() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("graph");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("thesis.tex"), "years").unwrap();
    let error = StagedDirectory::replacing(&out).unwrap_err();
    assert!(error.to_string().contains("thesis.tex in it is no file of a dataset"), "{error}");
    fs::rename(out.join("thesis.tex"), out.join("feat.npy")).unwrap();
    let staged = StagedDirectory::replacing(&out).unwrap();
    fs::create_dir(out.join("more.npy")).unwrap();
    assert!(staged.commit().unwrap_err().to_string().contains("more.npy in it"));
    assert_eq!(names(&out), ["feat.npy", "more.npy"]);
    assert!(
        StagedDirectory::replacing(&out.join("feat.npy")).unwrap_err().to_string().contains("no directory")
    );
}
