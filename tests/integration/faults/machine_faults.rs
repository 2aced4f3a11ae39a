//! Machines that lack a resource, files that change under a run, clocks that jump: a run either does its work or
//! reports what is missing, and leaves no files.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::extent::some_of;
use crate::support::runs::{
    Metrics, Traces, checkpoint_files, processes_of, role_of, small_graph, train, wait_for_batches,
    wait_until,
};
use crate::support::{
    Outcome, contents, directory, uvatrain, uvatrain_behind, uvatrain_behind_mounts, uvatrain_with_threads,
};
use rustix::process::{Pid, Signal, kill_process};

const TRAIN: &str = "train graph --fanouts 5,4 --batch-size 100 --hidden 16 --train-threads 1 --gather-threads 1 \
                     --samplers 2 --eval full";

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn traces(directory: &Path) -> Traces {
    fs::create_dir_all(directory.join("tmp")).unwrap();
    Traces::now(&directory.join("tmp"))
}

/// Trains an epoch after a line of the shell, checks that no leftovers exist, and returns the outcome.
fn train_behind(directory: &Path, line: &str, options: &str) -> Outcome {
    let before = traces(directory);
    let args = format!("{TRAIN} --epochs 1 {options}");
    let outcome = uvatrain_behind(directory, line, words(&args)).env("TMPDIR", directory.join("tmp")).run();
    assert!(!outcome.stderr.contains("panicked"), "{line}\n{outcome}");
    assert_eq!(before, traces(directory), "{line}");
    outcome
}

/// Lowers a limit step by step. A run under it does its work, or is refused with one of the words; with the highest
/// limit it does its work, and with the lowest it is refused.
fn lowered(directory: &Path, values: &[u64], limit: &dyn Fn(u64) -> String, says: &[&str]) {
    let mut codes = Vec::new();
    for value in values {
        let outcome = train_behind(directory, &limit(*value), "");
        let code = outcome.code();
        if code != 0 {
            assert!([1, 3, 127].contains(&code), "{}\n{outcome}", limit(*value));
            let told = says.iter().any(|word| outcome.stderr.contains(word));
            assert!(told, "{}: the message has none of {says:?}\n{outcome}", limit(*value));
        }
        codes.push(code);
    }
    println!("{}: {values:?} end with {codes:?}", limit(0));
    assert_eq!(codes.first(), Some(&0), "the highest limit must not prevent the run");
    assert_ne!(codes.last(), Some(&0), "the lowest limit must prevent the run");
}

#[test]
fn too_few_descriptors_are_named() {
    let temp = directory();
    small_graph(temp.path());
    let limit = |number| format!("ulimit -n {number}");
    lowered(
        temp.path(),
        &[256, 48, 32, 24, 20, 16, 13, 11, 9, 7],
        &limit,
        &["Too many open files", "os error 24"],
    );
}

#[test]
fn too_few_threads_are_named_unless_a_command_needs_none() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "run.jsonl", "--epochs 1").run().succeeds();
    for most in [1, 2, 3, 5] {
        for (args, without) in [
            ("info graph --verify", false),
            ("generate out --nodes 300 --threads 2", false),
            ("generate more --nodes 300", false),
            ("export graph exported --to npy", false),
            ("bench sample graph --fanouts 3,3 --batches 2 --threads 3", false),
            ("bench gather graph --threads 3", false),
            ("plan graph --gpu-cache 64KiB --fanouts 3,3", false),
            ("train graph --fanouts 3,3 --epochs 1 --train-threads 1", false),
            ("train graph --fanouts 3,3 --epochs 1 --train-threads 1 --in-process", false),
            ("run graph --fanouts 3,3 -- true", false),
            ("report run.jsonl --out report.html", true),
            ("doctor", true),
            ("completions bash", true),
        ] {
            let Some(call) = uvatrain_with_threads(temp.path(), most, words(args)) else { return };
            let outcome = call.run();
            let told = outcome.code() == 3 && outcome.stderr.contains("ulimit -u");
            // `true` takes no batches.
            let done = outcome.code() == 0 || (args.starts_with("run") && outcome.code() == 1);
            assert!(done || (told && !without), "{most}: {args}\n{outcome}");
            assert!(most > 1 || without || told, "{most}: {args}\n{outcome}");
            assert!(!outcome.stderr.contains("panicked"), "{most}: {args}\n{outcome}");
            for written in ["out", "more", "exported"] {
                let _ = fs::remove_dir_all(temp.path().join(written));
            }
        }
    }
}

#[test]
fn without_proc_commands_fail_before_they_start_processes() {
    let temp = directory();
    small_graph(temp.path());
    let line = "mount -t tmpfs -o size=64k none /proc";
    for args in [
        "train graph --fanouts 5,4 --epochs 1 --metrics run.jsonl",
        "train graph --fanouts 5,4 --epochs 1 --metrics run.jsonl --in-process",
        "run graph --fanouts 5,4 --metrics run.jsonl -- true",
        "plan graph --gpu-cache 64KiB --fanouts 5,4 --out plan.json",
        "bench pipeline graph --fanouts 5,4",
        "mps start",
        "mps status",
        "mps stop",
    ] {
        let Some(call) = uvatrain_behind_mounts(temp.path(), line, words(args)) else { return };
        call.run().refuses(3, &["/proc is not mounted", "mount -t proc proc /proc"]);
        assert!(!temp.path().join("run.jsonl").exists() && !temp.path().join("plan.json").exists());
    }
    let behind = |args| uvatrain_behind_mounts(temp.path(), line, words(args)).unwrap().run().succeeds();
    let found = behind("doctor").stdout;
    assert!(found.contains("✗ /proc") && found.contains("cannot train yet"), "{found}");
    // Files alone need no processes.
    for args in ["info graph --verify", "export graph out --to npy"] {
        behind(args);
    }
}

/// If libtorch's libraries do not fit, it is not started. Under slightly higher limits, a role or a command gets no
/// memory.
#[test]
#[ignore = "7 s of a core: scripts/measure/long_tests.sh"]
fn too_little_memory_is_named_with_the_limit_and_what_takes_less() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "run.jsonl", "--epochs 1 --checkpoint kept").run().succeeds();
    // MiB of addresses, or of data.
    let with_libtorch: [(&str, &[u64]); 2] =
        [("v", &[700, 520, 460, 430, 400, 250, 90]), ("d", &[90, 40, 20])];
    for (args, limits, remedy) in [
        ("train graph --fanouts 5,5 --epochs 1 --train-threads 1", with_libtorch, "--batch-size"),
        (
            "train graph --fanouts 5,5 --epochs 1 --train-threads 1 --in-process",
            with_libtorch,
            "--batch-size",
        ),
        ("evaluate graph --checkpoint kept", with_libtorch, "--eval sampled"),
        ("predict graph --checkpoint kept --overwrite", with_libtorch, "--eval sampled"),
    ] {
        let mut codes = Vec::new();
        for (kind, limits) in limits {
            for mib in some_of(limits) {
                let line = format!("ulimit -{kind} {}", mib << 10);
                let outcome = uvatrain_behind(temp.path(), &line, words(args)).run();
                codes.push(outcome.code());
                // libgomp ends a process if one of its threads gets no stack.
                if outcome.code() == 0 || outcome.stderr.contains("libgomp: Thread creation failed") {
                    continue;
                }
                assert!([1, 3].contains(&outcome.code()), "{line}\n{outcome}");
                // An error with its own message has its own remedy. A second thread may write after the line.
                let raise = format!("ulimit -{kind}");
                let explains =
                    |line: &str| line.contains(&raise) && (outcome.code() == 3 || line.contains(remedy));
                assert!(outcome.stderr.lines().any(explains), "{line}\n{outcome}");
            }
        }
        println!("{args}: {codes:?}");
        assert!(codes.iter().any(|code| *code != 0), "{args}: no limit limits it");
    }
}

#[test]
fn a_run_on_the_cpu_pins_nothing_and_has_no_use_for_shared_memory_by_name() {
    let temp = directory();
    small_graph(temp.path());
    train_behind(temp.path(), "ulimit -l 0", "").succeeds();
    let line = "mount -t tmpfs -o size=4k none /dev/shm";
    let args = format!("{TRAIN} --epochs 1");
    if let Some(run) = uvatrain_behind_mounts(temp.path(), line, words(&args)) {
        run.run().succeeds();
    }
}

#[test]
fn a_read_only_dataset_is_trained_on_and_its_stamp_is_in_the_cache() {
    let temp = directory();
    small_graph(temp.path());
    let _ = fs::remove_file(temp.path().join("graph/.uvatrain-stamp.json"));
    let line = "mount --bind graph graph\nmount -o remount,bind,ro graph\nif touch graph/x; then exit 99; fi";
    let args = format!("{TRAIN} --epochs 1");
    let before = contents(&temp.path().join("graph"));
    let Some(run) = uvatrain_behind_mounts(temp.path(), line, words(&args)) else { return };
    run.run().succeeds();
    assert!(before == contents(&temp.path().join("graph")), "something was written");
    assert!(temp.path().join("cache/uvatrain/stamps").is_dir(), "no stamp in the cache");
}

#[test]
fn a_full_disk_under_the_metrics_ends_the_run_by_name() {
    let temp = directory();
    small_graph(temp.path());
    for mode in ["", "--in-process"] {
        let outcome = train_behind(temp.path(), ":", &format!("--metrics /dev/full {mode}"));
        outcome.refuses(1, &["/dev/full", "No space left on device"]);
    }
}

#[test]
fn a_full_disk_ends_the_run_by_name_and_the_last_checkpoint_resumes() {
    let temp = directory();
    small_graph(temp.path());
    train_behind(temp.path(), ":", "--checkpoint sized").succeeds();
    let sized = temp.path().join("sized");
    let bytes = |name: &String| fs::metadata(sized.join(name)).unwrap().len() + 4096;
    let bytes: u64 = checkpoint_files(&sized).iter().map(bytes).sum();
    // One checkpoint fits, and the next, which is written next to it, does not.
    let size = bytes * 3 / 2;
    let line = format!(
        "mkdir -p kept\nmount -t tmpfs -o size={size} none kept\ncode=0\n\"$@\" || code=$?\ncp -r kept after\nexit $code"
    );
    let args = format!("{TRAIN} --epochs 50 --checkpoint kept --checkpoint-every 1");
    let Some(run) = uvatrain_behind_mounts(temp.path(), &line, words(&args)) else { return };
    run.run().refuses(1, &["No space left on device", "kept"]);
    let names = checkpoint_files(&temp.path().join("after"));
    assert_eq!(names.len(), 2, "a checkpoint is two files: {names:?}");
    let resumed = train_behind(temp.path(), ":", "--checkpoint after --resume --metrics resumed.jsonl");
    let resumed = resumed.succeeds();
    assert!(resumed.stderr.contains("resumed at batch"), "{resumed}");
}

#[test]
fn a_full_disk_under_a_new_dataset_is_named_and_no_part_of_it_stays() {
    let temp = directory();
    let source = "generate source --nodes 20000 --avg-degree 8 --feat-dim 16 --classes 3";
    uvatrain(temp.path(), words(source)).run().succeeds();
    // One disk reports beforehand that it lacks space; the other has space for the bytes, but not for as many files.
    for (disk, code, message) in
        [("size=256k", 3, "there is room for 25"), ("size=64m,nr_inodes=6", 1, "No space left on device")]
    {
        let line = format!(
            "mkdir -p small\nmount -t tmpfs -o {disk} none small\ncode=0\n\"$@\" || code=$?\nls -A small > left\n\
             exit $code"
        );
        for args in [
            "import --from npy source small/graph",
            "generate small/graph --nodes 20000 --avg-degree 8 --feat-dim 16",
        ] {
            let Some(run) = uvatrain_behind_mounts(temp.path(), &line, words(args)) else { return };
            let outcome = run.run().ends_with(code);
            assert!(outcome.stderr.contains(message) && outcome.stderr.contains("small/"), "{outcome}");
            assert_eq!(fs::read_to_string(temp.path().join("left")).unwrap(), "", "{disk}: {args}");
        }
    }
}

/// Conditions that the estimate cannot foresee: here a limit on the size of files, like a disk that another process
/// fills meanwhile.
#[test]
fn a_limited_temporary_file_ends_the_import_by_name_and_leaves_nothing() {
    let temp = directory();
    // Edges that take 80 MB in memory: with less of it they go through a file of 40 MB.
    let thousand: String = (0..1000).map(|edge| format!("{} {}\n", edge % 91, edge % 83)).collect();
    fs::write(temp.path().join("edges.txt"), thousand.repeat(5000)).unwrap();
    let args = "import --from edgelist edges.txt kept/graph --memory 64MiB";
    fs::create_dir(temp.path().join("kept")).unwrap();
    // In blocks of 512 bytes: 10 MB.
    let outcome = uvatrain_behind(temp.path(), "ulimit -f 20000", words(args)).run();
    outcome.refuses(1, &["kept/", "File too large"]);
    assert_eq!(fs::read_dir(temp.path().join("kept")).unwrap().count(), 0);
}

/// Slots, the stamp, metrics and checkpoints are files to the kernel.
#[test]
fn files_that_may_not_grow_are_named() {
    let temp = directory();
    small_graph(temp.path());
    let options = "--metrics run.jsonl --checkpoint kept";
    let limit = |blocks| format!("ulimit -f {blocks}");
    let mut codes = Vec::new();
    for blocks in [1 << 20, 4000, 400, 40, 10, 3, 1] {
        let _ = fs::remove_dir_all(temp.path().join("kept"));
        let outcome = train_behind(temp.path(), &limit(blocks), options);
        codes.push(outcome.code());
        if outcome.code() != 0 {
            assert!(outcome.code() == 1 && outcome.stderr.contains("File too large"), "{blocks}: {outcome}");
        }
    }
    println!("{codes:?}");
    assert!(codes[0] == 0 && codes[6] != 0);
}

#[test]
fn a_dataset_that_is_cut_under_a_run_ends_it_by_name() {
    let temp = directory();
    let graph = small_graph(temp.path());
    for (name, reader) in [("indices.npy", "sampler"), ("feat.npy", "producer")] {
        let file = graph.join(name);
        let whole = fs::read(&file).unwrap();
        let before = traces(temp.path());
        let options = "--epochs 100000 --samplers 2 --checkpoint kept --checkpoint-every 2";
        let mut run = train(temp.path(), "run.jsonl", options).env("TMPDIR", temp.path().join("tmp")).start();
        let processes = processes_of(&run, 2);
        wait_for_batches(&mut run, &temp.path().join("run.jsonl"), 5);
        cut(&file);
        let told = format!("uvatrain: graph/{name}: it was made shorter while it was mapped");
        let ended = run.wait().refuses(1, &[&told, reader, "ended with exit code 1", "--resume"]);
        assert!(!ended.stderr.contains("SIGBUS"), "{ended}");
        for process in &processes {
            wait_until(&format!("the {} ends", process.role), || process.has_ended());
        }
        assert_eq!(before, traces(temp.path()));
        // The changed dataset is refused by name.
        train(temp.path(), "after.jsonl", "--epochs 1 --checkpoint kept --resume").run().refuses(2, &[name]);
        fs::write(&file, whole).unwrap();
        fs::remove_dir_all(temp.path().join("kept")).unwrap();
        fs::remove_file(temp.path().join("run.jsonl")).unwrap();
    }
}

fn cut(file: &Path) {
    fs::File::options().write(true).open(file).unwrap().set_len(4096).unwrap();
}

#[test]
fn a_table_that_is_cut_under_a_prediction_ends_it_by_name() {
    let temp = directory();
    let graph = small_graph(temp.path());
    train(temp.path(), "run.jsonl", "--epochs 1 --checkpoint kept").run().succeeds();
    let line = "predict graph --checkpoint kept --eval sampled --batch-size 1 --output parts.npy";
    let run = uvatrain(temp.path(), words(line)).start();
    wait_until("there is a part", || temp.path().join("parts.npy.part").exists());
    cut(&graph.join("feat.npy"));
    let told = "graph/feat.npy: it was made shorter while it was mapped";
    let ended = run.wait().refuses(1, &[told]);
    assert!(!ended.stderr.contains("SIGBUS"), "{ended}");
}

/// The method of docs/reference/data-format.md: a new file under the old one's name.
#[test]
fn a_dataset_replaced_under_a_run_does_not_change_it_or_its_checkpoint() {
    let temp = directory();
    small_graph(temp.path());
    let options = "--epochs 100000 --samplers 2 --checkpoint kept";
    let metrics = temp.path().join("run.jsonl");
    let mut run = train(temp.path(), "run.jsonl", options).start();
    wait_for_batches(&mut run, &metrics, 5);
    let other = "generate other --nodes 4000 --avg-degree 12 --feat-dim 24 --classes 4 --seed 8";
    uvatrain(temp.path(), words(other)).run().succeeds();
    for entry in fs::read_dir(temp.path().join("other")).unwrap().flatten() {
        fs::rename(entry.path(), temp.path().join("graph").join(entry.file_name())).unwrap();
    }
    let so_far = Metrics::read(&metrics).trained().len();
    wait_for_batches(&mut run, &metrics, so_far + 50);
    kill_process(Pid::from_child(&run.child), Signal::INT).unwrap();
    run.wait().ends_with(130);
    let trained = Metrics::read(&metrics).trained();

    train(temp.path(), "after.jsonl", "--epochs 100000 --checkpoint kept --resume")
        .run()
        .refuses(2, &["checkpoint", "dataset"]);
    fs::remove_dir_all(temp.path().join("graph")).unwrap();
    small_graph(temp.path());
    let epochs = trained.last().unwrap().0 + 1;
    train(temp.path(), "whole.jsonl", &format!("--epochs {epochs}")).run().succeeds();
    assert_eq!(Metrics::read(&temp.path().join("whole.jsonl")).trained()[..trained.len()], trained);
}

#[test]
fn a_second_run_in_a_checkpoint_directory_is_refused_without_harm() {
    let temp = directory();
    small_graph(temp.path());
    let metrics = temp.path().join("first.jsonl");
    let options = "--epochs 100000 --samplers 2 --checkpoint kept --checkpoint-every 2";
    let mut first = train(temp.path(), "first.jsonl", options).start();
    wait_for_batches(&mut first, &metrics, 5);
    let refusal = ["--checkpoint kept", "another run writes its checkpoints to this directory"];
    for more in ["", "--in-process", "--resume"] {
        let second = format!("--epochs 1 --checkpoint kept {more}");
        train(temp.path(), "second.jsonl", &second).run().refuses(2, &refusal);
    }
    // The janitor holds the lock as well: until all processes have ended, no other run can take it.
    let so_far = Metrics::read(&metrics).trained().len();
    wait_for_batches(&mut first, &metrics, so_far + 5);
    let consumer = role_of(&first, "consumer");
    kill_process(Pid::from_child(&first.child), Signal::KILL).unwrap();
    train(temp.path(), "third.jsonl", "--epochs 1 --checkpoint kept --resume").run().succeeds();
    assert!(consumer.has_ended(), "two runs wrote there at a time");
    first.wait().ends_with(128 + 9);
    assert_eq!(checkpoint_files(&temp.path().join("kept")).len(), 2);
}

#[test]
fn a_directory_for_checkpoints_that_gets_none_does_not_stay() {
    let temp = directory();
    small_graph(temp.path());
    // Refused before the first batch, because the plan does not exist.
    train(temp.path(), "run.jsonl", "--epochs 1 --checkpoint kept --plan missing.json").run().ends_with(2);
    assert!(!temp.path().join("kept").exists());
}

/// A library that adds a day to the wall clock at every other read, and subtracts it again.
const JUMPING_CLOCK: &str = r#"
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static atomic_long looks;

int clock_gettime(clockid_t clock, struct timespec *now) {
    int code = syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_REALTIME && atomic_fetch_add(&looks, 1) % 2) now->tv_sec += 86400;
    return code;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    int code = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return code;
}
time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
"#;

#[test]
fn a_wall_clock_that_jumps_changes_neither_batches_nor_durations() {
    let temp = directory();
    small_graph(temp.path());
    fs::write(temp.path().join("clock.c"), JUMPING_CLOCK).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o", "clock.so", "clock.c"])
        .current_dir(temp.path())
        .status();
    assert!(built.is_ok_and(|status| status.success()), "cc cannot build the clock");
    train_behind(temp.path(), ":", "--metrics steady.jsonl").succeeds();
    let run = format!("{TRAIN} --epochs 1 --metrics jumping.jsonl --json");
    let outcome =
        uvatrain(temp.path(), words(&run)).env("LD_PRELOAD", temp.path().join("clock.so")).run().succeeds();
    let seconds = outcome.json()["seconds"].as_f64().unwrap();
    assert!(seconds > 0.0 && seconds < 3600.0, "an hour and more: {outcome}");
    let [steady, jumping] =
        ["steady.jsonl", "jumping.jsonl"].map(|name| Metrics::read(&temp.path().join(name)).trained());
    assert!(!steady.is_empty());
    assert_eq!(steady, jumping);
}
