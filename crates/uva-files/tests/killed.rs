//! The state that a process leaves when it is killed or interrupted while it writes a directory.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use uva_files::staging::{DirectoryKind, StagedDirectory, remove_unfinished};

const OUT: &str = "UVATRAIN_TEST_STAGED_OUT";

const KIND: DirectoryKind = DirectoryKind {
    name: "a directory of this test",
    may_have: |_| false,
    may_have_directory: |_| false,
    check: |_| Ok(()),
};

/// Names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

/// Runs this test in another process, which stages a directory, reports that, and follows commands on its standard
/// input.
fn child(test: &str, out: &Path) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(OUT, out)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("staged") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "the child ended early");
    }
    (child, said)
}

/// In the child: stages, and waits for a line.
fn stage(out: &std::ffi::OsStr) -> StagedDirectory {
    let staged = StagedDirectory::new(Path::new(out), &KIND).unwrap();
    std::fs::write(staged.path().join("feat.npy"), "half").unwrap();
    println!("staged");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    staged
}

#[test]
fn what_a_killed_process_leaves_is_named_so_and_removed_by_the_next() {
    if let Some(out) = std::env::var_os(OUT) {
        drop(stage(&out));
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("graph");
    let (mut child, _said) = child("what_a_killed_process_leaves_is_named_so_and_removed_by_the_next", &out);
    let left = names(parent.path());
    assert!(left.len() == 1 && left[0].starts_with("graph.partial-"), "{left:?}");
    let while_alive = StagedDirectory::new(&out, &KIND).unwrap();
    assert!(names(parent.path()).contains(&left[0]), "a living process lost its directory");
    drop(while_alive);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(parent.path()), left);
    StagedDirectory::new(&out, &KIND).unwrap().commit().unwrap();
    assert_eq!(names(parent.path()), ["graph"]);
}

#[test]
fn an_interrupted_process_can_remove_what_its_threads_are_writing() {
    if let Some(out) = std::env::var_os(OUT) {
        let out_again = out.clone();
        let staged = stage(&out);
        let none = remove_unfinished();
        assert!(!staged.path().exists());
        // A directory that is begun now waits for the end of the process, so it leaves nothing.
        let (begins, begun) = std::sync::mpsc::channel();
        let out = out.clone();
        let later = std::thread::spawn(move || {
            begins.send(()).unwrap();
            StagedDirectory::new(Path::new(&out), &KIND)
        });
        begun.recv().unwrap();
        for _ in 0..1000 {
            assert!(names(Path::new(&out_again).parent().unwrap()).is_empty());
            std::thread::yield_now();
        }
        drop(none);
        assert!(staged.commit().is_err());
        drop(later.join().unwrap());
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("graph");
    let (mut child, _said) = child("an_interrupted_process_can_remove_what_its_threads_are_writing", &out);
    assert_eq!(names(parent.path()).len(), 1);
    child.stdin.take().unwrap().write_all(b"continue\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert!(names(parent.path()).is_empty());
}
