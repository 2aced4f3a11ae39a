//! Tests of `uvatrain propagate`: hop sets, interruptions, and disks and memory that are too small.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use uva_graph::npy::{NpyArray, NpyType};

use crate::support::runs::wait_until;
use crate::support::{
    Outcome, Running, Uvatrain, directory, uvatrain, uvatrain_behind, uvatrain_behind_mounts,
};

const GRAPH: &str = "generate graph --nodes 4000 --avg-degree 12 --feat-dim 40 --classes 4 --seed 7";

fn call(directory: &Path, line: &str) -> Uvatrain {
    uvatrain(directory, line.split_whitespace())
}

fn generated(directory: &Path) {
    call(directory, GRAPH).run().succeeds();
}

/// Every array of a hop set, by name.
fn arrays(set: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<(String, Vec<u8>)> = fs::read_dir(set)
        .unwrap_or_else(|error| panic!("{}: {error}", set.display()))
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".npy"))
        .map(|name| (name.clone(), fs::read(set.join(name)).unwrap()))
        .collect();
    found.sort();
    found
}

/// The minimum memory for `line`, as printed in its refusal.
fn least_memory(directory: &Path, line: &str) -> u64 {
    let refused = call(directory, &format!("{line} --memory 1MiB")).run().refuses(3, &["--memory 1.0 MiB"]);
    let said = refused.stderr.rsplit('(').next().unwrap().split(' ').next().unwrap();
    said.parse().unwrap_or_else(|_| panic!("no number of bytes\n{refused}"))
}

/// Entries of the journal in a folder: finished parts and files.
fn entries(folder: &Path) -> usize {
    let Ok(text) = fs::read_to_string(folder.join("journal.json")) else { return 0 };
    let journal: Value = serde_json::from_str(&text).expect("a journal is never half written");
    ["parts", "files"].iter().map(|list| journal[list].as_array().unwrap().len()).sum()
}

/// Names of finished parts and files.
fn finished(folder: &Path) -> Vec<String> {
    let Ok(text) = fs::read_to_string(folder.join("journal.json")) else { return Vec::new() };
    let journal: Value = serde_json::from_str(&text).expect("a journal is never half written");
    ["parts", "files"]
        .iter()
        .flat_map(|list| journal[list].as_array().unwrap().iter().map(Value::to_string))
        .collect()
}

fn send(run: &Running, signal: Signal) {
    kill_process(Pid::from_child(&run.child), signal).unwrap();
}

/// Waits until the run has finished this many new parts and files, sends the signal, and waits for the end.
fn interrupted(mut run: Running, folder: &Path, more: usize, signal: Signal) -> Outcome {
    let before = finished(folder);
    wait_until("the journal has more", || {
        let new = finished(folder).iter().filter(|entry| !before.contains(entry)).count();
        new >= more || run.child.try_wait().unwrap().is_some()
    });
    if run.child.try_wait().unwrap().is_none() {
        send(&run, signal);
    }
    run.wait()
}

#[test]
fn a_hop_set_is_made_shown_and_checked() {
    let temp = directory();
    generated(temp.path());
    let made = call(temp.path(), "propagate graph hops --operator sym,ppr:0.1,3 --hops 2 --nodes all --json")
        .run()
        .succeeds();
    for said in ["hops: 4,000 rows × 5 hops × 40 features", "of memory", "to read", "to write"] {
        assert!(made.stderr.contains(said), "{said}\n{made}");
    }
    let json = made.json();
    assert_eq!((&json["rows"], &json["hops"]), (&4000.into(), &5.into()), "{json}");
    let set = temp.path().join("hops");
    let names: Vec<String> = arrays(&set).into_iter().map(|(name, _)| name).collect();
    let files = ["ppr-0.1-3.1.npy", "ppr-0.1-3.2.npy", "sym.1.npy", "sym.2.npy", "x.npy"];
    assert_eq!(names[2..], files, "{names:?}");
    assert_eq!(names[..2], ["label.npy", "node_idx.npy"]);
    for name in files {
        let array = NpyArray::open(&set.join(name)).unwrap();
        assert_eq!(array.header().data_offset, 4096);
        assert_eq!((array.kind(), array.shape()), (NpyType::F32, &[4000, 40][..]));
    }
    // Hop 0 is the features of the nodes that are named.
    let features = NpyArray::open(&temp.path().join("graph/feat.npy")).unwrap();
    let nodes = NpyArray::open(&set.join("node_idx.npy")).unwrap();
    let expected: Vec<u8> = nodes
        .elements::<i64>(NpyType::I64)
        .unwrap()
        .iter()
        .flat_map(|&node| features.bytes()[node as usize * 160..][..160].to_vec())
        .collect();
    assert_eq!(NpyArray::open(&set.join("x.npy")).unwrap().bytes(), expected);
    let shown = call(temp.path(), "info hops --verify").run().succeeds();
    for said in ["sym, 2 hops", "ppr:0.1,3, 2 hops", "40 × f32", "shuffled", "hashes of all files"] {
        assert!(shown.stdout.contains(said), "{said}\n{shown}");
    }
    let facts = call(temp.path(), "info hops --json").run().succeeds().json();
    assert_eq!((&facts["kind"], &facts["bytes"]), (&"hop_set".into(), &json["bytes"]), "{facts}");
    let graph = call(temp.path(), "info graph --json").run().succeeds().json();
    assert_eq!(facts["dataset"]["fingerprint"], graph["fingerprint"]);
    // A changed file is found, and named.
    let file = set.join("sym.2.npy");
    let mut bytes = fs::read(&file).unwrap();
    bytes[5000] ^= 1;
    fs::write(&file, &bytes).unwrap();
    call(temp.path(), "info hops").run().succeeds();
    call(temp.path(), "info hops --verify").run().refuses(2, &["sym.2.npy", "has been changed"]);
    fs::write(&file, &bytes[..6000]).unwrap();
    call(temp.path(), "info hops").run().refuses(2, &["sym.2.npy", "6000 bytes", &bytes.len().to_string()]);
}

#[test]
#[ignore = "5 s of a core: scripts/measure/long_tests.sh"]
fn a_run_that_is_killed_twenty_times_ends_with_the_same_bytes() {
    let temp = directory();
    generated(temp.path());
    // Enough sums that a run is still busy when its journal is read.
    let operators = "ppr:0.1,60,heat:2,60,ppr:0.3,60,heat:3,60,ppr:0.5,60,heat:4,60,col";
    for (layout, wanted) in [("hops", 20), ("rows", 6)] {
        let line = format!("graph --operator {operators} --hops 2 --type f16 --layout {layout}");
        let line = |out: &str| format!("propagate {}", line.replacen("graph", &format!("graph {out}"), 1));
        call(temp.path(), &line("whole")).run().succeeds();
        let expected = arrays(&temp.path().join("whole"));
        let memory = least_memory(temp.path(), &line("killed"));
        let folder = temp.path().join("killed.propagating");
        let mut kills = 0;
        for turn in 0.. {
            assert!(turn < 200, "it comes nowhere: {kills} kills");
            let resume = if turn > 0 { "--resume" } else { "" };
            // A panel of all columns once, then of 16; one thread, then two.
            let memory = if turn % 9 == 5 { 4 * memory } else { memory + 400_000 };
            let threads = 1 + turn % 2;
            let line = format!("{} --memory {memory} --threads {threads} {resume}", line("killed"));
            let run = call(temp.path(), &line).start();
            let outcome = match kills < wanted {
                // Both in the middle of a panel and after one.
                true => interrupted(run, &folder, 1 + turn % 3, Signal::KILL),
                false => run.wait(),
            };
            match outcome.code() {
                0 => break,
                137 => kills += 1,
                _ => panic!("{outcome}"),
            }
            assert!(!temp.path().join("killed").exists() || !folder.join("set").exists());
        }
        assert!(kills >= wanted, "only {kills} kills");
        assert_eq!(arrays(&temp.path().join("killed")), expected, "{layout}");
        assert!(!folder.exists());
        call(temp.path(), "info killed --verify").run().succeeds();
        for name in ["whole", "killed"] {
            fs::remove_dir_all(temp.path().join(name)).unwrap();
        }
    }
}

#[test]
fn an_interrupt_keeps_the_journal_and_says_how_to_resume() {
    let temp = directory();
    generated(temp.path());
    let line = "propagate graph hops --operator ppr:0.1,100 --hops 20";
    call(temp.path(), &line.replace(" hops ", " whole ")).run().succeeds();
    let folder = temp.path().join("hops.propagating");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let resume = if folder.exists() { "--resume" } else { "" };
        let run = call(temp.path(), &format!("{line} {resume}")).start();
        let outcome = interrupted(run, &folder, 3, signal).ends_with(code);
        assert!(outcome.stderr.contains("hops.propagating: the same command with --resume"), "{outcome}");
        assert!(outcome.stderr.contains("a smaller --memory makes panels shorter"), "{outcome}");
        assert!(entries(&folder) > 0 && !temp.path().join("hops").exists());
    }
    // Without --resume nothing is overwritten, and the message has both remedies.
    call(temp.path(), line).run().refuses(2, &["hops.propagating", "--resume", "rm -r"]);
    let resumed = call(temp.path(), &format!("{line} --resume --json")).run().succeeds();
    assert!(resumed.json()["resumed_bytes"].as_u64().unwrap() > 0);
    assert!(resumed.stderr.contains("are finished already"), "{resumed}");
    assert_eq!(arrays(&temp.path().join("hops")), arrays(&temp.path().join("whole")));
    // A complete set is not changed.
    let again = call(temp.path(), &format!("{line} --resume")).run().succeeds();
    assert!(again.stderr.contains("an earlier run has made all of it"), "{again}");
}

#[test]
fn two_processes_do_not_make_the_same_hop_set() {
    let temp = directory();
    generated(temp.path());
    let line = "propagate graph hops --operator ppr:0.1,100 --hops 64";
    let first = call(temp.path(), line).start();
    let folder = temp.path().join("hops.propagating");
    wait_until("the first is at it", || entries(&folder) > 2);
    // The first is stopped, so that it is not done before the second checks.
    send(&first, Signal::STOP);
    // Neither is advised to remove the folder in which the first works.
    for line in [line, &format!("{line} --resume")] {
        let second = call(temp.path(), line).run().refuses(2, &["another process is making it"]);
        assert!(!second.stderr.contains("rm -r"), "{second}");
    }
    send(&first, Signal::CONT);
    send(&first, Signal::KILL);
    first.wait();
}

#[test]
fn a_disk_that_fills_up_keeps_the_journal_and_a_small_one_is_refused() {
    let temp = directory();
    generated(temp.path());
    let line = "propagate graph small/hops --operator sym,row --hops 3 --threads 1";
    call(temp.path(), &line.replace("small/", "")).run().succeeds();
    let mount = |disk: &str| {
        format!(
            "mkdir -p small after\nmount -t tmpfs -o {disk} none small\ncode=0\n\"$@\" || code=$?\n\
             cp -r small/. after\nexit $code"
        )
    };
    let words = || line.split_whitespace();
    let Some(run) = uvatrain_behind_mounts(temp.path(), &mount("size=2m"), words()) else { return };
    run.run().refuses(3, &["small/hops", "there is room for 2.0 MiB", "for the hop set"]);
    assert_eq!(fs::read_dir(temp.path().join("after")).unwrap().count(), 0);
    // Room for bytes, but not for as many files.
    let memory = least_memory(temp.path(), line);
    let line = format!("{line} --memory {}", memory + 400_000);
    let full = uvatrain_behind_mounts(temp.path(), &mount("size=64m,nr_inodes=16"), line.split_whitespace());
    full.unwrap().run().refuses(1, &["No space left on device", "small/hops.propagating", "--resume"]);
    let after = temp.path().join("after/hops.propagating");
    assert!(entries(&after) >= 5, "{}", entries(&after));
    let resumed = line.replace("small/", "after/") + " --resume --json";
    let resumed = call(temp.path(), &resumed).run().succeeds().json();
    assert!(resumed["resumed_bytes"].as_u64().unwrap() > 500_000, "{resumed}");
    assert_eq!(arrays(&temp.path().join("after/hops")), arrays(&temp.path().join("hops")));
}

#[test]
fn a_run_that_continues_needs_no_room_for_an_existing_transposed_graph() {
    let temp = directory();
    generated(temp.path());
    let line = "propagate graph small/hops --operator col,ppr:0.1,100 --hops 8 --nodes all --threads 1";
    let begun = line.replace("small/", "");
    let estimate =
        call(temp.path(), &format!("{} --json", begun.replace(" hops ", " whole "))).run().succeeds().json();
    let number = |name: &str| estimate["estimate"][name].as_u64().unwrap();
    let (set, disk) = (number("set_bytes"), number("disk_bytes"));
    let folder = temp.path().join("hops.propagating");
    interrupted(call(temp.path(), &begun).start(), &folder, 4, Signal::KILL).ends_with(137);
    let turned: u64 = fs::read_dir(folder.join("transposed"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    // The existing files, the missing ones, and less additional space than reversing edges needs.
    let room = set + turned + (disk - set) / 3;
    let mount = format!(
        "mkdir -p small after\nmount -t tmpfs -o size={room} none small\ncp -r hops.propagating small\n\
         code=0\n\"$@\" || code=$?\ncp -r small/. after\nexit $code"
    );
    let resumed = format!("{line} --resume");
    let Some(run) = uvatrain_behind_mounts(temp.path(), &mount, resumed.split_whitespace()) else { return };
    run.run().succeeds();
    assert_eq!(arrays(&temp.path().join("after/hops")), arrays(&temp.path().join("whole")));
}

#[test]
fn a_file_that_may_not_grow_is_named_and_finished_parts_stay() {
    let temp = directory();
    generated(temp.path());
    let line = "propagate graph hops --operator sym --hops 2 --layout rows --threads 1";
    call(temp.path(), &line.replace(" hops ", " whole ")).run().succeeds();
    // In blocks of 512 bytes: 1 MB, which holds each hop but not all of them side by side.
    let outcome = uvatrain_behind(temp.path(), "ulimit -f 2000", line.split_whitespace()).run();
    outcome.refuses(1, &["rows.npy", "File too large", "hops.propagating", "--resume"]);
    assert!(entries(&temp.path().join("hops.propagating")) >= 5);
    call(temp.path(), &format!("{line} --resume")).run().succeeds();
    assert_eq!(arrays(&temp.path().join("hops")), arrays(&temp.path().join("whole")));
}

#[test]
#[ignore = "4 s of a core: scripts/measure/long_tests.sh"]
fn memory_stays_within_the_given_bound() {
    let temp = directory();
    let graph = "generate graph --nodes 150000 --avg-degree 8 --feat-dim 64 --classes 4 --seed 7";
    call(temp.path(), graph).run().succeeds();
    let line = "propagate graph hops --operator ppr:0.1,10 --hops 2 --threads 2";
    let memory = least_memory(temp.path(), line);
    let mut run = call(temp.path(), &format!("{line} --memory {memory} --json")).start();
    let status = format!("/proc/{}/status", run.child.id());
    let own = || {
        let text = fs::read_to_string(&status).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
    };
    let mut most = 0;
    wait_until("the run ends", || {
        most = most.max(own().unwrap_or(0));
        run.child.try_wait().unwrap().is_some()
    });
    let estimate = run.wait().succeeds().json()["estimate"].clone();
    assert_eq!(estimate["panels"], 4, "{estimate}");
    // Three tables of 16 columns are most of it.
    let tables = 3 * 150_000 * 16 * 4;
    assert!(most > tables, "the measurement sees the tables: {most}");
    assert!(most <= memory + (64 << 20), "{most} bytes of {memory}");
}

#[test]
fn what_cannot_be_propagated_is_refused_by_name_and_nothing_is_written() {
    let temp = directory();
    generated(temp.path());
    fs::create_dir(temp.path().join("taken")).unwrap();
    for (options, code, named) in [
        ("graph hops --hops 0", 2, &["--hops", "0 is not from 1 to 64"][..]),
        ("graph hops --hops 65", 2, &["--hops", "65 is not from 1 to 64"]),
        ("graph hops --operator sum", 2, &["--operator", "invalid operator 'sum'", "sym-noloop"]),
        ("graph hops --operator ppr:1", 2, &["--operator", "between 0 and 1"]),
        ("graph hops --operator ppr:1e-300,1", 2, &["--operator", "at least 1e-9"]),
        ("graph hops --operator ppr:-0.1", 2, &["--operator", "between 0 and 1"]),
        ("graph hops --operator sym,sym", 2, &["--operator", "sym is given twice"]),
        ("graph hops --type e4m3", 2, &["--type", "e4m3"]),
        ("graph hops --nodes some", 2, &["--nodes", "some"]),
        ("graph hops --threads 0", 2, &["--threads", "0"]),
        ("graph hops --weighted", 2, &["--weighted", "graph/weight.npy does not exist"]),
        ("graph hops --memory 1MiB", 3, &["--memory 1.0 MiB", "at least"]),
        ("nowhere hops", 2, &["nowhere"]),
        ("graph taken", 2, &["taken exists already"]),
        ("graph graph", 2, &["graph"]),
    ] {
        call(temp.path(), &format!("propagate {options}")).run().refuses(code, named);
        let mut left: Vec<_> =
            fs::read_dir(temp.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.retain(|name| name != "cache");
        left.sort();
        assert_eq!(left, ["graph", "taken"], "{options}");
    }
    // A folder of the same name that another user made does not belong to this program.
    let foreign = temp.path().join("hops.propagating");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("notes.txt"), "mine").unwrap();
    call(temp.path(), "propagate graph hops --resume")
        .run()
        .refuses(2, &["hops.propagating", "out of the way"]);
    assert_eq!(fs::read(foreign.join("notes.txt")).unwrap(), b"mine");
    // A split without nodes, as training refuses it.
    fs::remove_dir_all(&foreign).unwrap();
    let train = temp.path().join("graph/train_idx.npy");
    fs::remove_file(&train).unwrap();
    uva_graph::npy::write_array::<i64>(&train, NpyType::I64, &[], &[]).unwrap();
    call(temp.path(), "propagate graph hops").run().refuses(2, &["train_idx.npy", "is empty"]);
    call(temp.path(), "propagate graph hops --nodes all --hops 1").run().succeeds();
}

#[test]
fn two_signals_at_the_end_do_not_leave_the_folder_of_the_job() {
    let temp = directory();
    generated(temp.path());
    let line = "propagate graph hops --operator sym,col,row --hops 3 --layout hops --threads 1";
    let (out, folder) = (temp.path().join("hops"), temp.path().join("hops.propagating"));
    let mut met = 0;
    for round in 0..30 {
        let mut run = call(temp.path(), line).start();
        // Stopped between the rename and the removal of the folder, as far as two processes can coincide there.
        let mut ended = false;
        while !out.exists() && !ended {
            ended = run.child.try_wait().unwrap().is_some();
        }
        if !ended {
            send(&run, Signal::STOP);
            met += usize::from(folder.exists());
            for signal in [Signal::TERM, Signal::TERM, Signal::CONT] {
                send(&run, signal);
            }
        }
        run.wait().succeeds();
        assert!(!folder.exists(), "round {round}");
        fs::remove_dir_all(&out).unwrap();
        if met == 3 {
            return;
        }
    }
    println!("the two processes met {met} times of 30");
}
