//! Files that commands remove, rename or truncate: only their own files, under their own names.
//!
//! Such a name may belong to something else: a link, a directory or a file of the user's, or a forged record. Each such
//! name has a line in a table here, and a new call in the sources fails a test until it has one.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{as_another_user, assert_same_contents, contents, directory, uvatrain, uvatrain_behind};

/// A call that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// A source file, its number of calls that remove, rename, replace or truncate a file by name, a description of these
/// files, and the tests that plant something there.
struct Site(&'static str, usize, &'static str, &'static str);

/// Every file with such a call, outside `uva_mem::files`, which contains the calls themselves. A new one is tested with
/// a link, a directory, a foreign file and a forged record at the name.
const SITES: &[Site] = &[
    Site(
        "uva-cuda/src/code/cubin_cache.rs",
        2,
        "kernels in the cache directory, under random names",
        "its own",
    ),
    Site("uva-files/src/staging.rs", 4, "OUT and OUT.partial-<word> of datasets", "PLANTED"),
    Site("uva-files/src/staging/replacement.rs", 4, "a dataset that is replaced", "its own"),
    Site("uva-files/src/staging/sibling.rs", 10, "OUT.partial-<word>", "PLANTED"),
    Site("uva-graph/src/csc/buckets.rs", 1, "a file without a name", "none can be planted"),
    Site("uva-graph/src/description/meta.rs", 1, "meta.json of a staged directory", "PLANTED"),
    Site("uva-graph/src/npy/rows.rs", 4, "NAME.part of predictions", "PREDICTIONS"),
    Site("uva-graph/src/storage/stamp.rs", 1, "the stamp of a dataset", "planted::"),
    Site("uva-io/src/import/formats/npy/typed/edges.rs", 1, "a file of a staged directory", "PLANTED"),
    Site("uva-io/src/import/formats/nt.rs", 1, "a directory made in a staged directory", "PLANTED"),
    Site("uva-io/src/import/formats/tables/typed.rs", 1, "a file of a staged directory", "PLANTED"),
    Site("uva-io/src/import/writing/output.rs", 1, "a file of a staged directory", "PLANTED"),
    Site("uva-launch/src/checkpoint_files.rs", 3, "the lock of a checkpoint", "CHECKPOINTS"),
    Site("uva-launch/src/mps/leftover.rs", 5, "directories of an MPS daemon", "mps::"),
    Site("uva-model/src/checkpoint/durable.rs", 1, "files of a checkpoint", "CHECKPOINTS"),
    Site("uva-model/src/checkpoint/folder.rs", 1, "unfinished files of a checkpoint", "CHECKPOINTS"),
    Site("uva-plan/src/plan_file.rs", 3, "the plan and its ids", "planted::"),
    Site("uva-propagate/src/run.rs", 1, "OUT of a hop set", "PLANTED"),
    Site("uva-propagate/src/resumption/folder.rs", 4, "OUT.propagating", "PLANTED"),
    Site("uva-propagate/src/resumption/journal.rs", 3, "OUT.propagating", "PLANTED"),
    Site("uva-propagate/src/resumption/lock.rs", 2, "OUT.propagating, once it is empty", "PLANTED"),
    Site("uva-propagate/src/resumption/part.rs", 1, "OUT.propagating", "PLANTED"),
    Site("uva-propagate/src/resumption/transpose.rs", 2, "OUT.propagating", "PLANTED"),
    Site(
        "uva-runtime/src/tune/measurement/stored.rs",
        1,
        "measurements in the cache directory",
        "measured::",
    ),
    Site("uva-runtime/src/telemetry/metrics.rs", 3, "--metrics", "planted::"),
    Site("uva-runtime/src/sampler/order_making/file.rs", 1, "--out of order", "planted::"),
    Site("uva-runtime/src/telemetry/trace.rs", 1, "--trace", "planted::"),
    Site("uva-train/src/graph/full_table.rs", 1, "a file without a name", "none can be planted"),
    Site("uvatrain/src/commands/bench/pcie.rs", 1, "--svg", "planted::"),
    Site("uvatrain/src/commands/training/plan.rs", 1, "--svg", "planted::"),
    Site("uvatrain/src/commands/training/predict/ids.rs", 1, "--ids", "planted::"),
    Site("uvatrain/src/commands/training/predict/table.rs", 1, "--output of a table", "planted::"),
    Site("uvatrain/src/commands/training/report/mod.rs", 1, "--out", "planted::"),
    Site("uvatrain/src/runs/trainer.rs", 1, "a note in the cache directory", "planted::"),
];

const CALLS: [&str; 18] = [
    "remove_file(",
    "remove_dir(",
    "remove_dir_all(",
    "remove_tree(",
    "remove_directory(",
    "remove_content(",
    "fs::rename(",
    "renameat(",
    "renameat_with(",
    "rename_to(",
    "rename_without_replacing(",
    "unlinkat(",
    "set_len(",
    "open_output(",
    "write_output(",
    "Replacement::of(",
    "UnfinishedFile::",
    "nameless(",
];

/// Number of these calls in a line. `replace(` counts unless it is a method of text.
fn calls(line: &str) -> usize {
    if ["//", "use ", "fn "].iter().any(|start| line.starts_with(start)) || line.contains(" fn ") {
        return 0;
    }
    let is_function = |at: usize| {
        let before = line[..at].trim_end_matches("files::");
        !before.ends_with(|last: char| last.is_alphanumeric() || "_.:".contains(last))
    };
    let replaced = line.match_indices("replace(").filter(|(at, _)| is_function(*at)).count();
    replaced + CALLS.iter().map(|call| line.matches(call).count()).sum::<usize>()
}

/// The sources of the programs, without the simulators and without tests.
fn sources() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
    let mut folders: Vec<PathBuf> =
        fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path().join("src")).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let text = path.to_string_lossy();
            let left_out = ["cuda-sim", "kernel-sim", "tests", "testing", "uva-mem/src/files"];
            if left_out.iter().any(|part| text.contains(part)) {
            } else if path.is_dir() {
                folders.push(path);
            } else if text.ends_with(".rs") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn every_call_that_removes_or_replaces_by_name_is_in_the_table() {
    let mut found = BTreeMap::new();
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let of_file: usize = code.lines().map(|line| calls(line.trim_start())).sum();
        if of_file > 0 {
            let path = path.to_string_lossy().into_owned();
            found.insert(path.split_once("/crates/").unwrap().1.to_owned(), of_file);
        }
    }
    let known: BTreeMap<String, usize> = SITES.iter().map(|site| (site.0.to_owned(), site.1)).collect();
    assert_eq!(found, known, "a call came or went: mend the table, and plant something in its place");
    assert!(SITES.iter().all(|site| !site.2.is_empty() && !site.3.is_empty()));
}

/// The kind of a planted file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plant {
    LinkToDirectory,
    LinkToFile,
    /// A directory with a file in it.
    Directory,
    File,
}

const PLANTS: [Plant; 4] = [Plant::LinkToDirectory, Plant::LinkToFile, Plant::Directory, Plant::File];
const MINE: &str = "years of work\n";

fn plant(what: Plant, path: &Path, victims: &Path) {
    let _ = fs::remove_file(path);
    let _ = fs::remove_dir_all(path);
    match what {
        Plant::LinkToDirectory => symlink(victims, path).unwrap(),
        Plant::LinkToFile => symlink(victims.join("film.mkv"), path).unwrap(),
        Plant::Directory => {
            fs::create_dir(path).unwrap();
            fs::write(path.join("thesis.tex"), MINE).unwrap();
        }
        Plant::File => fs::write(path, MINE).unwrap(),
    }
}

/// Whether the planted file is unchanged, without following links.
fn is_unchanged(what: Plant, path: &Path) -> bool {
    match what {
        Plant::LinkToDirectory | Plant::LinkToFile => {
            fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
        }
        Plant::Directory => fs::read_to_string(path.join("thesis.tex")).is_ok_and(|text| text == MINE),
        Plant::File => fs::read_to_string(path).is_ok_and(|text| text == MINE),
    }
}

/// A command and a name that it removes, renames or replaces.
struct Case {
    args: &'static str,
    path: &'static str,
    /// Whether the command owns a regular file at this name by its name alone: within a folder that is marked as its
    /// own, or as the output that the user named.
    is_its_own: bool,
}

const fn foreign(args: &'static str, path: &'static str) -> Case {
    Case { args, path, is_its_own: false }
}

const fn own(args: &'static str, path: &'static str) -> Case {
    Case { args, path, is_its_own: true }
}

const PROPAGATE: &str = "propagate graph hops --operator sym,col --hops 2 --layout rows --threads 1 --resume";
const GENERATE: &str = "generate new --nodes 30 --avg-degree 2 --feat-dim 2 --classes 2";

const PLANTED: &[Case] = &[
    foreign(PROPAGATE, "hops.propagating"),
    foreign(PROPAGATE, "hops.propagating/lock"),
    foreign(PROPAGATE, "hops.propagating/journal.json"),
    foreign(PROPAGATE, "hops.propagating/parts"),
    foreign(PROPAGATE, "hops.propagating/set"),
    foreign(PROPAGATE, "hops.propagating/transposed"),
    foreign(PROPAGATE, "hops.propagating/transposed.partial"),
    foreign(PROPAGATE, "hops.propagating/notes"),
    own(PROPAGATE, "hops.propagating/parts/0.1.0-40.npy"),
    own(PROPAGATE, "hops.propagating/set/sym.1.npy"),
    own(PROPAGATE, "hops.propagating/set/hops.json"),
    foreign(PROPAGATE, "hops.propagating/parts/notes.npy"),
    foreign(PROPAGATE, "hops.propagating/set/notes.npy"),
    foreign(PROPAGATE, "hops"),
    // The hop set is complete, and only the folder is left.
    foreign("propagate graph whole --operator sym,col --hops 2 --layout rows --resume", "whole.propagating"),
    foreign(GENERATE, "new"),
    foreign(GENERATE, "new.partial-0123456789abcdef"),
    foreign("import --from npy graph new", "new.partial-0123456789abcdef"),
    foreign("export graph new --to graphbolt", "new.partial-0123456789abcdef"),
    foreign("partition graph new --parts 2 --method ldg", "new.partial-0123456789abcdef"),
];

/// An unfinished hop set, a finished one, a dataset, and files of the user's.
fn furnish(place: &Path) {
    let run = |line: &str| drop(uvatrain(place, line.split(' ')).run().succeeds());
    run("generate graph --nodes 4000 --avg-degree 12 --feat-dim 40 --classes 4 --seed 7");
    run("propagate graph whole --operator sym,col --hops 2 --layout rows --threads 1");
    // In blocks of 512 bytes: 1 MB, which holds each hop but not all of them side by side.
    let limited =
        uvatrain_behind(place, "ulimit -f 2000", PROPAGATE.replace(" --resume", "").split(' ')).run();
    limited.refuses(1, &["hops.propagating", "--resume"]);
    fs::create_dir(place.join("victims")).unwrap();
    for name in ["film.mkv", "lock", "thesis.tex"] {
        fs::write(place.join("victims").join(name), MINE).unwrap();
    }
}

fn copy_of(furnished: &Path) -> tempfile::TempDir {
    let temp = directory();
    let copied = Command::new("cp").arg("-a").arg(furnished.join(".")).arg(temp.path()).status();
    assert!(copied.unwrap().success());
    temp
}

fn try_all(furnished: &Path, cases: &[Case]) {
    for case in cases {
        for what in PLANTS {
            let temp = copy_of(furnished);
            let (path, victims) = (temp.path().join(case.path), temp.path().join("victims"));
            plant(what, &path, &victims);
            let before = contents(&victims);
            let outcome = uvatrain(temp.path(), case.args.split_whitespace()).limit(LIMIT).run();
            let said = format!("{what:?} instead of {}\n{outcome}", case.path);
            assert!(matches!(outcome.code(), 0 | 2), "{said}");
            assert!(!outcome.stderr.contains("panicked"), "{said}");
            assert_same_contents(&before, &contents(&victims));
            let replaced = case.is_its_own && !matches!(what, Plant::Directory);
            assert!(replaced || is_unchanged(what, &path), "it was removed: {said}");
        }
    }
}

#[test]
#[ignore = "2 s of a core: scripts/measure/long_tests.sh"]
fn nothing_planted_among_the_names_of_hop_sets_and_datasets_is_removed() {
    let furnished = directory();
    furnish(furnished.path());
    try_all(furnished.path(), PLANTED);
    // Without anything planted, the same folder is resumed.
    uvatrain(furnished.path(), PROPAGATE.split(' ')).run().succeeds();
    assert!(!furnished.path().join("hops.propagating").exists());
}

#[test]
fn a_forged_journal_of_a_hop_set_can_name_only_files_of_its_own() {
    let furnished = directory();
    furnish(furnished.path());
    let text = fs::read_to_string(furnished.path().join("hops.propagating/journal.json")).unwrap();
    let journal: serde_json::Value = serde_json::from_str(&text).unwrap();
    for forge in [
        (|journal| journal["files"][0]["name"] = "../../victims/film.mkv".into())
            as fn(&mut serde_json::Value),
        |journal| journal["files"][0]["name"] = "/etc/passwd".into(),
        |journal| journal["parts"][0]["hop"] = 4_000_000_000_u32.into(),
        |journal| journal["parts"][0]["operator"] = 9.into(),
        |journal| journal["parts"][0]["columns"] = serde_json::json!({"start": 9, "end": 3}),
        |journal| journal["parts"][0]["columns"] = serde_json::json!({"start": 0, "end": u64::MAX}),
        |journal| journal["parts"][0]["bytes"] = u64::MAX.into(),
    ] {
        let temp = copy_of(furnished.path());
        let mut forged = journal.clone();
        forge(&mut forged);
        fs::write(temp.path().join("hops.propagating/journal.json"), forged.to_string()).unwrap();
        let before = contents(&temp.path().join("victims"));
        uvatrain(temp.path(), PROPAGATE.split(' ')).limit(LIMIT).run().succeeds();
        assert_same_contents(&before, &contents(&temp.path().join("victims")));
        assert_same_contents(&arrays(&temp.path().join("whole")), &arrays(&temp.path().join("hops")));
    }
}

/// The files of a hop set whose bytes do not depend on when it was made.
fn arrays(set: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    contents(set).into_iter().filter(|(path, _)| path.extension().is_some_and(|kind| kind == "npy")).collect()
}

/// Runs lines of the shell as another user in a directory where everybody may create names and remove only their own.
fn by_another_user(words: &[&str], place: &Path, line: &str) {
    fs::set_permissions(place, Permissions::from_mode(0o1777)).unwrap();
    let done = Command::new(words[0])
        .args(&words[1..])
        .args(["sh", "-ec", line])
        .current_dir(place)
        .status()
        .unwrap();
    assert!(done.success(), "{line}");
}

#[test]
fn what_another_user_planted_in_a_shared_directory_leads_root_to_no_file() {
    let Some(words) = as_another_user() else { return };
    let furnished = directory();
    furnish(furnished.path());
    let lock = "printf 'uvatrain propagate: an unfinished hop set\\n' > $DIR/lock; chmod 600 $DIR/lock";
    let marker = "printf 'uvatrain: an unfinished directory\\n' > $DIR/.uvatrain-partial; \
                  chmod 600 $DIR/.uvatrain-partial";
    let propagate = "propagate graph new --operator sym --hops 1 --resume";
    for (args, line) in [
        // With the marks themselves, as far as another user can write them.
        (propagate, format!("DIR=new.propagating; mkdir $DIR; {lock}; ln -s ../victims $DIR/parts")),
        (propagate, format!("DIR=new.propagating; mkdir $DIR; {lock}; ln -s ../victims $DIR/set")),
        (propagate, format!("DIR=mine; mkdir $DIR; {lock}; ln -s $PWD/victims new.propagating")),
        (
            GENERATE,
            format!("DIR=new.partial-0123456789abcdef; mkdir $DIR; {marker}; ln -s ../victims $DIR/x"),
        ),
        (GENERATE, "ln -s victims new.partial-0123456789abcdef".to_owned()),
    ] {
        let temp = copy_of(furnished.path());
        by_another_user(&words, temp.path(), &line);
        let before = contents(&temp.path().join("victims"));
        let outcome = uvatrain(temp.path(), args.split_whitespace()).limit(LIMIT).run();
        assert!(matches!(outcome.code(), 0 | 2), "{line}\n{outcome}");
        assert_same_contents(&before, &contents(&temp.path().join("victims")));
        let planted = ["new.propagating", "new.partial-0123456789abcdef"];
        let stays = planted.iter().any(|name| temp.path().join(name).symlink_metadata().is_ok());
        assert!(stays, "what another user made was removed: {line}\n{outcome}");
    }
}

#[test]
fn a_signal_at_any_moment_of_its_start_leaves_no_unfinished_directory() {
    let temp = directory();
    let generate = "generate graph --nodes 3000 --avg-degree 6 --feat-dim 4 --classes 2";
    uvatrain(temp.path(), generate.split(' ')).run().succeeds();
    for line in ["partition graph new --parts 2 --method ldg", GENERATE, "import --from npy graph new"] {
        for milliseconds in 0..16 {
            let run = uvatrain(temp.path(), line.split(' ')).limit(LIMIT).start();
            // Only the moment varies: the result does not depend on it.
            std::thread::sleep(Duration::from_millis(milliseconds));
            kill_process(Pid::from_child(&run.child), Signal::INT).unwrap();
            let ended = run.wait();
            assert!(matches!(ended.code(), 0 | 130), "{ended}");
            // A signal may also arrive between the last rename and the end of the process.
            let new = temp.path().join("new");
            if ended.code() == 0 || new.exists() {
                uvatrain(temp.path(), ["info", "new"]).run().succeeds();
                assert!(!new.join(".uvatrain-partial").exists(), "{line}, {milliseconds} ms");
                fs::remove_dir_all(&new).unwrap();
            }
            let names = fs::read_dir(temp.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("new")).collect();
            assert!(left.is_empty(), "{line}, {milliseconds} ms: {left:?}");
        }
    }
}

/// A signal arrives while the command still prepares, and the line about it meets a full pipe: the command must not
/// begin its directory meanwhile.
#[test]
fn a_command_that_a_signal_is_ending_begins_no_directory() {
    let temp = directory();
    let generate = "generate graph --nodes 3000 --avg-degree 6 --feat-dim 4 --classes 2";
    uvatrain(temp.path(), generate.split(' ')).run().succeeds();
    uvatrain(temp.path(), "partition graph map --parts 2 --method ldg".split(' ')).run().succeeds();
    let new = || {
        let names = fs::read_dir(temp.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("new")).count()
    };
    for milliseconds in 0..16 {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let flags = rustix::fs::fcntl_getfl(&writer).unwrap();
        rustix::fs::fcntl_setfl(&writer, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
        while rustix::io::write(&writer, &[b'.'; 4096]).is_ok() {}
        rustix::fs::fcntl_setfl(&writer, flags).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_uvatrain"))
            .args("partition graph new --map map".split(' '))
            .current_dir(temp.path())
            .env("XDG_CACHE_HOME", temp.path().join("cache"))
            .stdout(Stdio::null())
            .stderr(writer)
            .spawn()
            .unwrap();
        // Only the moment varies: the result does not depend on it.
        std::thread::sleep(Duration::from_millis(milliseconds));
        let finished = new() > 0;
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        // Long enough to begin and to finish, if the command could.
        let since = std::time::Instant::now();
        while since.elapsed() < Duration::from_millis(150) && new() == 0 {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        let drained = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        let ended = child.wait().unwrap();
        drained.join().unwrap().unwrap();
        assert!(ended.code() == Some(0) || finished || new() == 0, "{milliseconds} ms: {ended}");
        let _ = fs::remove_dir_all(temp.path().join("new"));
    }
}

#[cfg(feature = "train")]
mod trained {
    use super::*;

    const PREDICT: &str = "predict graph --checkpoint kept --output p.npy --probabilities q.npy --eval full";

    const PREDICTIONS: &[Case] = &[
        foreign(PREDICT, "p.npy"),
        foreign(PREDICT, "q.npy"),
        foreign(PREDICT, "p.npy.part"),
        foreign(PREDICT, "q.npy.part"),
        foreign(PREDICT, "p.npy.journal"),
    ];

    const TRAIN: &str = "train graph --fanouts 3,2 --batch-size 1000 --hidden 4 --epochs 1 --train-threads 1 \
                         --gather-threads 1 --checkpoint kept";
    const AGAIN: &str = "train graph --fanouts 3,2 --batch-size 1000 --hidden 4 --epochs 1 --train-threads 1 \
                         --gather-threads 1 --checkpoint kept --overwrite-checkpoint";

    const CHECKPOINTS: &[Case] = &[
        // Despite their names, nothing marks these files as this program's.
        foreign(AGAIN, "kept/tensors-0123456789abcdef.safetensors"),
        foreign(AGAIN, "kept/notes"),
        // The names of a checkpoint, in the directory that the user named for it.
        own(AGAIN, "kept/checkpoint.json"),
        own(AGAIN, "kept/.uvatrain-lock"),
        own(AGAIN, "kept/.checkpoint.json.0123456789abcdef.partial"),
    ];

    fn furnish_with_a_model(place: &Path) {
        let run = |line: &str| drop(uvatrain(place, line.split_whitespace()).run().succeeds());
        run("generate graph --nodes 300 --avg-degree 5 --feat-dim 4 --classes 2 --seed 1");
        run(TRAIN);
        fs::create_dir(place.join("victims")).unwrap();
        for name in ["film.mkv", "film.mkv.part", "thesis.tex"] {
            fs::write(place.join("victims").join(name), MINE).unwrap();
        }
    }

    #[test]
    #[ignore = "16 s of a core: scripts/measure/long_tests.sh"]
    fn no_file_planted_among_predictions_and_checkpoints_is_removed() {
        let furnished = directory();
        furnish_with_a_model(furnished.path());
        try_all(furnished.path(), PREDICTIONS);
        try_all(furnished.path(), CHECKPOINTS);
    }

    #[test]
    fn a_checkpoint_that_names_a_users_file_as_its_tensors_does_not_remove_it() {
        let temp = directory();
        furnish_with_a_model(temp.path());
        let state = temp.path().join("kept/checkpoint.json");
        let mut forged: serde_json::Value = serde_json::from_slice(&fs::read(&state).unwrap()).unwrap();
        forged["tensors"]["file"] = "tensors-0123456789abcdef.safetensors".into();
        fs::write(&state, forged.to_string()).unwrap();
        let theirs = temp.path().join("kept/tensors-0123456789abcdef.safetensors");
        fs::write(&theirs, MINE).unwrap();
        uvatrain(temp.path(), AGAIN.split_whitespace()).limit(LIMIT).run().succeeds();
        assert_eq!(fs::read_to_string(theirs).unwrap(), MINE);
    }

    #[test]
    fn a_forged_journal_of_predictions_leads_to_no_file() {
        let temp = directory();
        furnish_with_a_model(temp.path());
        // As written by an earlier version.
        let film = temp.path().join("victims/film.mkv");
        let journal = serde_json::json!({
            "written_by": "uvatrain", "job": {"files": [["classes", film]]}, "done": 3,
        });
        fs::write(temp.path().join("p.npy.journal"), journal.to_string()).unwrap();
        let before = contents(&temp.path().join("victims"));
        uvatrain(temp.path(), PREDICT.split_whitespace()).limit(LIMIT).run().succeeds();
        assert_same_contents(&before, &contents(&temp.path().join("victims")));
    }
}
