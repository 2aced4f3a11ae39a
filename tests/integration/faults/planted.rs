//! Names at which the program finds something unexpected: a link to a file of the caller's, a pipe without a writer, a
//! device that never ends, a directory. No call hangs, no file of the caller's changes, and refusals are errors of bad
//! input that name the path.
//!
//! A command that opens or writes another file gets a line in a table here.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
#[cfg(feature = "train")]
use std::process::Stdio;
use std::time::Duration;

#[cfg(feature = "train")]
use crate::support::as_another_user;
use crate::support::extent::all_tests;
use crate::support::stamps::settle;
use crate::support::{directory, uvatrain};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// A call that takes this long hangs: far more than any of these calls takes on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);
const MINE: &str = "a file of the caller's\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plant {
    /// A link to the victim.
    Link,
    Pipe,
    /// A link to /dev/zero.
    Zero,
    Directory,
}

const PLANTS: [Plant; 4] = [Plant::Link, Plant::Pipe, Plant::Zero, Plant::Directory];

/// The expected outcome for a planted file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Exit code 2, and a message that names the file.
    Refused,
    /// The command does its work: the planted file is replaced or ignored.
    Done,
}
use Answer::{Done, Refused};

/// A path of the table with what becomes of a [`Plant`] of each kind, in the order of [`PLANTS`].
struct Case {
    args: &'static str,
    path: &'static str,
    answers: [Answer; 4],
}

const fn reads(args: &'static str, path: &'static str) -> Case {
    Case { args, path, answers: [Refused; 4] }
}

/// The commands that need a dataset, and the files of others that are imported. All end in a moment.
const CASES: &[Case] = &[
    // A dataset.
    reads("info graph", "graph/indptr.npy"),
    reads("info graph", "graph/indices.npy"),
    reads("info graph", "graph/feat.npy"),
    reads("info graph", "graph/label.npy"),
    reads("info graph", "graph/train_idx.npy"),
    reads("info graph", "graph/meta.json"),
    reads("info graph", "graph/weight.npy"),
    reads("info graph", "graph/orig_id.npy"),
    Case { args: "info graph", path: "graph/.uvatrain-stamp.json", answers: [Done; 4] },
    // The former temporary name of a stamp.
    Case { args: "info graph", path: "graph/.uvatrain-stamp.json.partial", answers: [Done; 4] },
    // Options.
    reads("info graph --config planted.toml", "planted.toml"),
    // What is exported.
    reads("export graph out --to edgelist", "graph/node_names.txt"),
    reads("export graph out --to edgelist", "graph/node_id.npy"),
    // Names are copied unchanged.
    Case {
        args: "export graph out --to npy",
        path: "graph/node_names.txt",
        answers: [Done, Refused, Refused, Refused],
    },
    // What is imported.
    reads("import --from edgelist edges.tsv out", "edges.tsv"),
    reads("import --from gnn-npz graph.npz out", "graph.npz"),
    reads("import --from npy graph out", "graph/indptr.npy"),
    reads("import --from graphbolt graphbolt out", "graphbolt/metadata.yaml"),
    reads("import --from planetoid planetoid out --name tiny", "planetoid/ind.tiny.x"),
    // Outputs that must not exist.
    reads("generate out --nodes 100 --avg-degree 3 --feat-dim 2 --classes 2", "out"),
    reads("import --from npy graph out", "out"),
    reads("export graph out --to npy", "out"),
    reads("plan graph --gpu-cache 64KiB --fanouts 3,2 --batch-size 50 --write-reordered out", "out"),
    // A plan, and the ids next to it.
    reads("run graph --plan plan.json --fanouts 3,2 --batch-size 50 -- true", "plan.json"),
    reads("run graph --plan plan.json --fanouts 3,2 --batch-size 50 -- true", "plan.lists.npy"),
    Case {
        args: "plan graph --gpu-cache 64KiB --fanouts 3,2 --batch-size 50 --out plan.json",
        path: "plan.json",
        answers: [Done, Refused, Refused, Refused],
    },
    Case {
        args: "plan graph --gpu-cache 64KiB --fanouts 3,2 --batch-size 50 --out plan.json",
        path: "plan.lists.npy",
        answers: [Done, Refused, Refused, Refused],
    },
    // Runs that are reported.
    reads("report run.jsonl --out page.html", "run.jsonl"),
];

#[cfg(feature = "train")]
const OF_TRAINING: &[Case] = &[
    reads("train graph TRAIN --resume", "kept/checkpoint.json"),
    reads("train graph TRAIN --resume", "kept/TENSORS"),
    reads("train graph TRAIN --resume", "kept/.uvatrain-lock"),
    reads("train graph TRAIN", "kept/checkpoint.json"),
    Case {
        args: "train graph TRAIN --overwrite-checkpoint",
        path: "kept/checkpoint.json",
        answers: [Done, Done, Done, Refused],
    },
    // The former temporary file of a checkpoint.
    Case {
        args: "train graph TRAIN --overwrite-checkpoint",
        path: "kept/checkpoint-partial-1-0",
        answers: [Done; 4],
    },
    // A name that checkpoints use, and that this command does not write.
    Case {
        args: "train graph TRAIN --overwrite-checkpoint",
        path: "kept/tensors-0123456789abcdef.safetensors",
        answers: [Done; 4],
    },
    // What predictions read.
    reads("predict graph --checkpoint kept", "kept/checkpoint.json"),
    reads("evaluate graph --checkpoint kept", "kept/TENSORS"),
    reads("predict graph --checkpoint kept --nodes ids.npy", "ids.npy"),
    reads("predict graph --checkpoint kept --nodes ids.txt", "ids.txt"),
    Case {
        args: "predict graph --checkpoint kept --ids out",
        path: "graph/node_names.txt",
        answers: [Refused; 4],
    },
    // Outputs of predictions, which must not exist; unfinished files have other names.
    reads("predict graph --checkpoint kept --output p.npy", "p.npy"),
    reads("predict graph --checkpoint kept --ids p.npy", "p.npy"),
    reads("predict graph --checkpoint kept --output p.csv", "p.csv"),
    reads("predict graph --checkpoint kept --output p.csv", "graph/node_names.txt"),
    reads("predict graph --checkpoint kept --output p.csv", "graph/node_id.npy"),
    reads("predict graph --checkpoint kept --output p.csv --overwrite", "p.csv.part"),
    Case {
        args: "predict graph --checkpoint kept --output p.csv --overwrite",
        path: "p.csv",
        answers: [Done, Done, Done, Refused],
    },
    reads("predict graph --checkpoint kept --output p.npy --overwrite", "p.npy.part"),
    Case {
        args: "predict graph --checkpoint kept --output p.npy --overwrite",
        path: "p.npy",
        answers: [Done, Done, Done, Refused],
    },
];

fn plant(what: Plant, path: &Path, victim: &Path) {
    let _ = fs::remove_file(path);
    let _ = fs::remove_dir_all(path);
    match what {
        Plant::Link => symlink(victim, path).unwrap(),
        Plant::Pipe => mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
        Plant::Zero => symlink("/dev/zero", path).unwrap(),
        Plant::Directory => fs::create_dir(path).unwrap(),
    }
}

/// Files of every kind in the table, complete.
fn furnish(directory: &Path) {
    let run = |line: &str| drop(uvatrain(directory, line.split(' ')).run().succeeds());
    run("generate graph --nodes 300 --avg-degree 5 --feat-dim 4 --classes 2 --seed 1");
    run("plan graph --gpu-cache 64KiB --fanouts 3,2 --batch-size 50 --out plan.json");
    for folder in ["graphbolt", "planetoid"] {
        fs::create_dir(directory.join(folder)).unwrap();
    }
    fs::write(directory.join("planetoid/ind.tiny.graph"), "").unwrap();
    fs::write(directory.join("victim"), MINE).unwrap();
}

/// Runs each case with each plant, on a copy of the files that `furnish` made.
fn try_all(furnished: &Path, cases: &[Case], of_case: &dyn Fn(&str) -> String) {
    for (number, case) in cases.iter().enumerate() {
        for (kind, (what, answer)) in PLANTS.into_iter().zip(case.answers).enumerate() {
            // Each case with a third of the plants, and each plant with a third of the cases.
            if !all_tests() && !(number + kind).is_multiple_of(3) {
                continue;
            }
            let temp = directory();
            let copied = Command::new("cp").arg("-a").arg(furnished.join(".")).arg(temp.path()).status();
            assert!(copied.unwrap().success());
            let (args, path) = (of_case(case.args), of_case(case.path));
            let (planted, victim) = (temp.path().join(&path), temp.path().join("victim"));
            plant(what, &planted, &victim);
            let said = format!("{args}, {what:?} instead of {path}");
            let outcome = uvatrain(temp.path(), args.split_whitespace()).limit(LIMIT).run();
            assert!(!outcome.stderr.contains("panicked"), "{said}\n{outcome}");
            match answer {
                Refused => {
                    let name = Path::new(&path).file_name().unwrap().to_string_lossy().into_owned();
                    assert!(outcome.code() == 2, "{said}: not refused with 2\n{outcome}");
                    assert!(outcome.stderr.contains(&name), "{said}: it is not named\n{outcome}");
                }
                Done => assert!(outcome.code() == 0, "{said}: it should work without the file\n{outcome}"),
            }
            assert_eq!(fs::read_to_string(&victim).unwrap(), MINE, "{said}\n{outcome}");
            if path.contains("partial") || path.contains("tensors-0123456789abcdef") {
                assert!(fs::symlink_metadata(&planted).is_ok(), "{said}: what is not ours was removed");
            }
            if answer == Refused && path != "out" {
                assert!(!temp.path().join("out").exists(), "{said}: something was written");
            }
        }
    }
}

#[test]
fn whatever_is_planted_at_a_files_name_no_call_hangs_or_changes_others() {
    let furnished = directory();
    furnish(furnished.path());
    try_all(furnished.path(), CASES, &str::to_owned);
}

#[cfg(feature = "train")]
const TRAIN: &str = "--fanouts 3,2 --batch-size 100 --hidden 4 --epochs 1 --train-threads 1 --gather-threads 1 \
                     --checkpoint kept";

#[cfg(feature = "train")]
#[test]
#[ignore = "9 s of a core: scripts/measure/long_tests.sh"]
fn whatever_is_planted_among_checkpoints_no_run_hangs_or_changes_others() {
    let furnished = directory();
    furnish(furnished.path());
    let train = format!("train graph {TRAIN}");
    uvatrain(furnished.path(), train.split_whitespace()).run().succeeds();
    let tensors = crate::support::runs::checkpoint_files(&furnished.path().join("kept"));
    let tensors = tensors.into_iter().find(|name| name.starts_with("tensors-")).unwrap();
    let of_case = |text: &str| text.replace("TENSORS", &tensors).replace("TRAIN", TRAIN);
    try_all(furnished.path(), OF_TRAINING, &of_case);
}

/// An output that the user names may be a link, a terminal or a device, and is then written to as by any program; a
/// pipe needs a reader.
#[test]
fn a_named_output_is_followed_and_the_wait_for_a_pipes_reader_is_bounded() {
    let temp = directory();
    furnish(temp.path());
    let run = "run graph --fanouts 3,2 --batch-size 50";
    let plan = "plan graph --gpu-cache 64KiB --fanouts 3,2 --batch-size 50";
    uvatrain(temp.path(), format!("{run} --metrics run.jsonl -- true").split(' ')).limit(LIMIT).run();
    let victim = temp.path().join("victim");
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o640)).unwrap();
    for (line, option, works) in [
        (format!("{plan} --svg named"), "--svg named", 0),
        (format!("{run} --metrics named -- true"), "--metrics named", 1),
        (format!("{run} --trace named -- true"), "--trace named", 1),
        ("report run.jsonl --out named".to_owned(), "--out named", 0),
    ] {
        for what in PLANTS {
            let planted = temp.path().join("named");
            plant(what, &planted, &victim);
            let outcome = uvatrain(temp.path(), line.split(' ')).limit(LIMIT).run();
            let said = format!("{line}, {what:?}");
            match what {
                Plant::Link | Plant::Zero => {
                    // The command of `run` takes no batch, which is not the output's fault.
                    assert_eq!(outcome.code(), works, "{said}\n{outcome}");
                    assert!(fs::symlink_metadata(&planted).unwrap().is_symlink(), "{said}");
                }
                Plant::Pipe | Plant::Directory => {
                    assert_eq!(outcome.code(), 2, "{said}\n{outcome}");
                    assert!(outcome.stderr.contains(option), "{said}\n{outcome}");
                }
            }
        }
        assert_eq!(fs::metadata(&victim).unwrap().permissions().mode() & 0o777, 0o640, "{line}");
        assert_ne!(fs::read_to_string(&victim).unwrap(), MINE, "{line}");
        fs::write(&victim, MINE).unwrap();
    }
}

#[test]
fn files_planted_in_the_cache_are_replaced_and_not_written_through() {
    let temp = directory();
    furnish(temp.path());
    let graph = temp.path().join("graph");
    // If a directory has the stamp's name, the stamp is in the cache directory.
    let beside = graph.join(".uvatrain-stamp.json");
    plant(Plant::Directory, &beside, &beside);
    settle(&graph);
    let info = || uvatrain(temp.path(), ["info", "graph", "--json"]).limit(LIMIT).run().succeeds().json();
    assert_eq!(info()["verification"]["from_stamp"], false);
    let stamps = temp.path().join("cache/uvatrain/stamps");
    let stamp = fs::read_dir(&stamps).unwrap().next().unwrap().unwrap().path();
    let victim = temp.path().join("victim");
    for what in PLANTS {
        plant(what, &stamp, &victim);
        assert_eq!(info()["verification"]["from_stamp"], false, "{what:?}");
        assert_eq!(info()["verification"]["from_stamp"], what != Plant::Directory, "{what:?}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), MINE, "{what:?}");
    }
}

#[cfg(feature = "train")]
#[test]
fn another_user_who_may_read_a_directory_of_checkpoints_cannot_lock_it() {
    let Some(words) = as_another_user() else { return };
    let temp = directory();
    furnish(temp.path());
    let train = |more: &str| uvatrain(temp.path(), format!("train graph {TRAIN} {more}").split_whitespace());
    train("").run().succeeds();
    let kept = temp.path().join("kept");
    for open in [temp.path(), &kept] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // All files there that this user may open are locked, and the directory as well.
    let line = "exec 8<. 9<.uvatrain-lock; flock -n 9";
    let locked = Command::new(words[0])
        .args(&words[1..])
        .args(["sh", "-c", line])
        .current_dir(&kept)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(!locked.success(), "another user took the lock");
    let mut holder = Command::new(words[0])
        .args(&words[1..])
        .args(["flock", ".", "sh", "-c", "echo held; read line"])
        .current_dir(&kept)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut held = [0; 4];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut held).unwrap();
    let outcome = train("--resume").limit(LIMIT).run();
    drop(holder.stdin.take());
    holder.wait().unwrap();
    outcome.succeeds();
}

#[cfg(feature = "train")]
#[test]
fn a_checkpoint_that_would_be_replaced_is_named_before_anything_starts() {
    let temp = directory();
    furnish(temp.path());
    let train = |more: &str| uvatrain(temp.path(), format!("train graph {TRAIN} {more}").split_whitespace());
    let state = || fs::read(temp.path().join("kept/checkpoint.json")).unwrap();
    train("--epochs 2").run().ends_with(2);
    let twice = format!("train graph {} --metrics first.jsonl", TRAIN.replace("--epochs 1", "--epochs 2"));
    uvatrain(temp.path(), twice.split_whitespace()).run().succeeds();
    let before = state();
    let says = ["--checkpoint kept", "sage", "2 epochs", "ago", "--resume", "--overwrite-checkpoint"];
    let refused = train("--metrics second.jsonl").run().refuses(2, &says);
    assert!(!temp.path().join("second.jsonl").exists(), "{refused}");
    assert_eq!(state(), before);
    train("--overwrite-checkpoint").run().succeeds();
    assert_ne!(state(), before);
    // An unreadable checkpoint may belong to another program as well.
    fs::write(temp.path().join("kept/checkpoint.json"), "{").unwrap();
    train("").run().refuses(2, &["cannot be read", "--overwrite-checkpoint"]);
}

#[cfg(feature = "train")]
#[test]
fn an_unwritable_checkpoint_directory_is_refused_before_anything_starts() {
    let temp = directory();
    furnish(temp.path());
    // No user can make files there, root included; then a directory closed by permissions.
    let closed = temp.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    let mut places = vec!["/sys", "/proc"];
    if rustix::process::getuid().is_root() {
        println!("skipped for a directory of mode 0555: nothing is closed to root");
    } else {
        places.push("closed");
    }
    for place in places {
        let line = format!("train graph {} --metrics run.jsonl", TRAIN.replace("kept", place));
        let outcome = uvatrain(temp.path(), line.split_whitespace()).limit(LIMIT).run();
        outcome.refuses(2, &[&format!("--checkpoint {place}"), "cannot write to the directory"]);
        assert!(!temp.path().join("run.jsonl").exists(), "{place}: a run was begun");
    }
}

#[cfg(feature = "train")]
#[test]
fn files_of_others_among_checkpoints_stay_whatever_they_are_called() {
    let temp = directory();
    furnish(temp.path());
    let train = |more: &str| uvatrain(temp.path(), format!("train graph {TRAIN} {more}").split_whitespace());
    train("").run().succeeds();
    let foreign = [
        "tensors-best.safetensors",
        "tensors-0123456789abcdef.safetensors",
        "checkpoint-partial-notes.txt",
        "checkpoint-partial-1-0",
        ".checkpoint.json.partial",
    ];
    for name in foreign {
        fs::write(temp.path().join("kept").join(name), MINE).unwrap();
    }
    train("--overwrite-checkpoint").run().succeeds();
    for name in foreign {
        assert_eq!(fs::read_to_string(temp.path().join("kept").join(name)).unwrap(), MINE, "{name}");
    }
    // A checkpoint is still two files, the older tensors gone.
    let files = crate::support::runs::checkpoint_files(&temp.path().join("kept"));
    assert_eq!(files.len(), foreign.len() + 2, "{files:?}");
}

/// `clippy.toml` lists the forbidden functions that open files; each crate enables it for its product code.
#[test]
fn every_crate_that_is_shipped_forbids_opening_files_by_hand() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // The stand-in for a driver, which tests alone load.
    let exempt = ["cuda-sim"];
    let mut seen = 0;
    for entry in fs::read_dir(crates).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| entry.path().join(root));
        for root in roots.iter().filter(|root| root.is_file() && !exempt.contains(&name.as_str())) {
            let text = fs::read_to_string(root).unwrap();
            let forbids = "#![cfg_attr(not(test), warn(clippy::disallowed_methods))]";
            assert!(text.contains(forbids), "{} lacks {forbids}", root.display());
            seen += 1;
        }
    }
    assert!(seen >= 11, "only {seen} crates were found");
}
