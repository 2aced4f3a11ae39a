//! The state after a run is killed, stopped or interrupted: only its exit code, its message and its last good
//! checkpoint. Every wait has a watchdog.

use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::support::runs::{
    Metrics, Process, TRAIN, Traces, checkpoint_files, processes_of, role_of, small_graph, train,
    wait_for_batches, wait_until,
};
use crate::support::{self, Running, directory, uvatrain};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// A run that would continue for minutes, after some batches, with two samplers.
fn long_run(directory: &Path, metrics: &str, extra: &str) -> (Running, Vec<Process>) {
    let temporary = directory.join("tmp");
    fs::create_dir_all(&temporary).unwrap();
    let options = format!("--epochs 100000 --samplers 2 --checkpoint kept --checkpoint-every 2 {extra}");
    let mut run = train(directory, metrics, &options).env("TMPDIR", &temporary).start();
    let processes = processes_of(&run, 2);
    wait_for_batches(&mut run, &directory.join(metrics), 10);
    (run, processes)
}

fn one<'a>(processes: &'a [Process], role: &str) -> &'a Process {
    processes.iter().find(|process| process.role == role).unwrap_or_else(|| panic!("no {role}"))
}

/// Asserts that the run left no files or processes, and that its checkpoint can be resumed.
fn nothing_is_left(directory: &Path, processes: &[Process], before: &Traces) {
    for process in processes {
        wait_until(&format!("the {} (process {}) ends", process.role, process.pid), || process.has_ended());
    }
    assert_eq!(before, &Traces::now(&directory.join("tmp")));
    let kept = checkpoint_files(&directory.join("kept"));
    assert_eq!(kept.len(), 2, "a checkpoint is two files: {kept:?}");
    let taken_up = "--epochs 1 --samplers 2 --checkpoint kept --resume";
    train(directory, "after.jsonl", taken_up).run().succeeds();
}

fn traces(directory: &Path) -> Traces {
    fs::create_dir_all(directory.join("tmp")).unwrap();
    Traces::now(&directory.join("tmp"))
}

#[test]
fn a_role_that_is_killed_ends_the_run_by_name_and_nothing_is_left() {
    let temp = directory();
    small_graph(temp.path());
    for role in ["sampler", "producer", "consumer"] {
        let _ = fs::remove_dir_all(temp.path().join("kept"));
        let before = traces(temp.path());
        let (run, processes) = long_run(temp.path(), &format!("{role}.jsonl"), "");
        one(&processes, role).signal(Signal::KILL);
        let outcome =
            run.wait().refuses(1, &[&format!("the {role}"), "killed by SIGKILL ", "epoch ", "--resume"]);
        assert!(!outcome.stderr.contains("panicked"), "{outcome}");
        nothing_is_left(temp.path(), &processes, &before);
    }
}

#[test]
fn a_killed_launcher_leaves_nothing_that_its_janitor_does_not_clean_up() {
    let temp = directory();
    small_graph(temp.path());
    let before = traces(temp.path());
    let (run, processes) = long_run(temp.path(), "run.jsonl", "");
    assert!(processes.iter().any(|process| process.role == "janitor"));
    kill_process(Pid::from_child(&run.child), Signal::KILL).unwrap();
    run.wait().ends_with(128 + 9);
    nothing_is_left(temp.path(), &processes, &before);
}

#[test]
fn a_launcher_killed_while_its_roles_are_stopped_leaves_nothing_either() {
    let temp = directory();
    small_graph(temp.path());
    let before = traces(temp.path());
    let (run, processes) = long_run(temp.path(), "run.jsonl", "");
    for role in ["sampler", "producer", "consumer"] {
        one(&processes, role).signal(Signal::STOP);
    }
    kill_process(Pid::from_child(&run.child), Signal::KILL).unwrap();
    run.wait().ends_with(128 + 9);
    nothing_is_left(temp.path(), &processes, &before);
}

#[test]
fn an_interrupt_finishes_the_batch_keeps_it_and_ends_with_130() {
    let temp = directory();
    small_graph(temp.path());
    for (signal, code, name) in [(Signal::INT, 130, "SIGINT"), (Signal::TERM, 143, "SIGTERM")] {
        let _ = fs::remove_dir_all(temp.path().join("kept"));
        let before = traces(temp.path());
        let metrics = format!("{name}.jsonl");
        let (run, processes) = long_run(temp.path(), &metrics, "");
        kill_process(Pid::from_child(&run.child), signal).unwrap();
        run.wait().refuses(code, &[name, "finishing this batch"]);
        let trained = Metrics::read(&temp.path().join(&metrics)).trained();
        let (epoch, batch, ..) = trained.last().unwrap();
        let state = fs::read_to_string(temp.path().join("kept/checkpoint.json")).unwrap();
        let state: serde_json::Value = serde_json::from_str(&state).unwrap();
        let cursor = &state["state"]["cursor"];
        // The cursor is after the last batch trained, or at the next epoch's start if that was an epoch's last.
        let next = (cursor["epoch"].as_u64().unwrap(), cursor["batch"].as_u64().unwrap());
        assert!(next == (*epoch, batch + 1) || next == (epoch + 1, 0), "{next:?} after {epoch}.{batch}");
        nothing_is_left(temp.path(), &processes, &before);
    }
}

#[test]
fn the_last_line_after_an_interrupt_is_the_command_that_resumes() {
    let temp = directory();
    small_graph(temp.path());
    let options = "--epochs 100000 --metrics run.jsonl --overwrite-checkpoint --checkpoint";
    let words = TRAIN.split(' ').chain(options.split(' ')).chain(["it's kept"]);
    let mut run = uvatrain(temp.path(), words).start();
    wait_for_batches(&mut run, &temp.path().join("run.jsonl"), 20);
    kill_process(Pid::from_child(&run.child), Signal::INT).unwrap();
    let outcome = run.wait().ends_with(130);
    let line = outcome.stderr.lines().last().and_then(|line| line.strip_prefix("to resume: "));
    let line = line.unwrap_or_else(|| panic!("no command\n{outcome}"));
    assert!(line.ends_with(r"--checkpoint 'it'\''s kept' --resume"), "{line}");
    // Unchanged it would train for hours.
    let shorter = line.replace("--epochs 100000", "--epochs 1");
    let resumed =
        std::process::Command::new("sh").args(["-c", &shorter]).current_dir(temp.path()).output().unwrap();
    let stderr = String::from_utf8_lossy(&resumed.stderr);
    assert!(resumed.status.success(), "{shorter}\n{stderr}");
    assert!(stderr.contains("resumed ") || stderr.contains("nothing is left to train"), "{stderr}");
}

#[test]
fn an_interrupted_run_without_checkpoints_says_what_would_keep_its_work() {
    let temp = directory();
    small_graph(temp.path());
    let mut run = train(temp.path(), "run.jsonl", "--epochs 100000").start();
    wait_for_batches(&mut run, &temp.path().join("run.jsonl"), 1);
    kill_process(Pid::from_child(&run.child), Signal::TERM).unwrap();
    let outcome = run.wait().ends_with(143);
    let last = outcome.stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("nothing was kept: ") && last.contains("--checkpoint DIR"), "{outcome}");
}

#[test]
fn a_second_interrupt_ends_the_run_at_once() {
    let temp = directory();
    small_graph(temp.path());
    let before = traces(temp.path());
    let (run, processes) = long_run(temp.path(), "run.jsonl", "");
    // Stopped, the consumer cannot finish its batch: only the second signal can end the run.
    one(&processes, "consumer").signal(Signal::STOP);
    let launcher = Pid::from_child(&run.child);
    kill_process(launcher, Signal::INT).unwrap();
    kill_process(launcher, Signal::INT).unwrap();
    // Two that come together may count as one; a third is a second in any case.
    kill_process(launcher, Signal::TERM).unwrap();
    let outcome = run.wait();
    assert!([130, 143].contains(&outcome.code()), "{outcome}");
    nothing_is_left(temp.path(), &processes, &before);
}

#[test]
fn a_role_stopped_for_a_while_is_waited_for_and_changes_no_batch() {
    let temp = directory();
    small_graph(temp.path());
    let mut longest = Vec::new();
    for role in ["sampler", "producer", "consumer"] {
        let metrics = format!("{role}.jsonl");
        let path = temp.path().join(&metrics);
        let (mut run, processes) = long_run(temp.path(), &metrics, "--overwrite-checkpoint");
        one(&processes, role).signal(Signal::STOP);
        // Longer than ten liveness checks: a process that took a stopped role for a dead one would have ended by then.
        let since = std::time::Instant::now();
        wait_until("a second and a half has passed", || since.elapsed().as_millis() > 1500);
        let stopped_at = Metrics::read(&path).trained().len();
        one(&processes, role).signal(Signal::CONT);
        wait_for_batches(&mut run, &path, stopped_at + 50);
        kill_process(Pid::from_child(&run.child), Signal::INT).unwrap();
        run.wait().ends_with(130);
        let trained = Metrics::read(&path).trained();
        let both = trained.len().min(longest.len());
        assert_eq!(longest[..both], trained[..both], "{role}");
        if trained.len() > longest.len() {
            longest = trained;
        }
    }
    let epochs = longest.last().unwrap().0 + 1;
    train(temp.path(), "whole.jsonl", &format!("--epochs {epochs} --samplers 2")).run().succeeds();
    let whole = Metrics::read(&temp.path().join("whole.jsonl")).trained();
    assert_eq!(whole[..longest.len()], longest);
}

/// Before any batch: while roles are started, while libtorch is loaded, while the consumer is set up.
#[test]
fn an_interrupt_while_the_roles_start_ends_with_130_and_leaves_nothing() {
    let temp = directory();
    small_graph(temp.path());
    let before = traces(temp.path());
    for role in ["janitor", "consumer", "sampler"] {
        let options = "--epochs 100000 --samplers 2 --checkpoint kept";
        let run = train(temp.path(), "run.jsonl", options).env("TMPDIR", temp.path().join("tmp")).start();
        let first = role_of(&run, role);
        kill_process(Pid::from_child(&run.child), Signal::INT).unwrap();
        let outcome = run.wait().refuses(130, &["interrupted by SIGINT"]);
        assert!(!outcome.stderr.contains("panicked"), "{outcome}");
        wait_until(&format!("the {role} ends"), || first.has_ended());
        assert_eq!(before, Traces::now(&temp.path().join("tmp")));
    }
}

#[test]
fn a_role_that_is_killed_before_its_first_batch_is_named_too() {
    let temp = directory();
    small_graph(temp.path());
    let before = traces(temp.path());
    for role in ["consumer", "producer", "sampler"] {
        let options = "--epochs 100000 --samplers 1";
        let run = train(temp.path(), "run.jsonl", options).env("TMPDIR", temp.path().join("tmp")).start();
        role_of(&run, role).signal(Signal::KILL);
        run.wait().refuses(1, &[&format!("the {role} was killed by SIGKILL ")]);
        assert_eq!(before, Traces::now(&temp.path().join("tmp")));
    }
}

/// As for Ctrl-C on a terminal: the signal reaches every process of the run except the janitor.
#[test]
fn an_interrupt_of_the_whole_process_group_is_the_launchers_alone() {
    let temp = directory();
    small_graph(temp.path());
    let before = traces(temp.path());
    let (run, processes) = long_run(temp.path(), "run.jsonl", "");
    kill_process_group(Pid::from_child(&run.child), Signal::INT).unwrap();
    run.wait().refuses(130, &["finishing this batch"]);
    nothing_is_left(temp.path(), &processes, &before);
}

#[test]
fn metrics_that_cannot_be_written_any_more_end_the_run_by_name() {
    let temp = directory();
    small_graph(temp.path());
    let before = traces(temp.path());
    for mode in ["", "--in-process"] {
        let _ = fs::remove_dir_all(temp.path().join("kept"));
        let pipe = temp.path().join(format!("pipe{mode}"));
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, 0o600.into(), 0).unwrap();
        // Opened before the run does, which would wait for a reader; and read without waiting.
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let mut reader = fs::File::options().read(true).custom_flags(nonblocking).open(&pipe).unwrap();
        let options = format!("--epochs 100000 --samplers 2 --checkpoint kept --checkpoint-every 2 {mode}");
        let name = pipe.file_name().unwrap().to_string_lossy().into_owned();
        let run = train(temp.path(), &name, &options).env("TMPDIR", temp.path().join("tmp")).start();
        let processes = if mode.is_empty() { processes_of(&run, 2) } else { Vec::new() };
        let mut lines = 0;
        wait_until("ten batches are reported", || {
            let mut chunk = [0; 4096];
            let count = reader.read(&mut chunk).unwrap_or(0);
            lines += chunk[..count].iter().filter(|byte| **byte == b'\n').count();
            lines > 10
        });
        drop(reader);
        run.wait().refuses(1, &[&format!("{name}: the metrics cannot be written"), "Broken pipe"]);
        nothing_is_left(temp.path(), &processes, &before);
    }
}

#[test]
fn a_run_works_without_its_janitor() {
    let temp = directory();
    small_graph(temp.path());
    let before = traces(temp.path());
    let (mut run, processes) = long_run(temp.path(), "run.jsonl", "");
    one(&processes, "janitor").signal(Signal::KILL);
    let path = temp.path().join("run.jsonl");
    let trained = Metrics::read(&path).trained().len();
    wait_for_batches(&mut run, &path, trained + 10);
    kill_process(Pid::from_child(&run.child), Signal::TERM).unwrap();
    run.wait().ends_with(143);
    nothing_is_left(temp.path(), &processes, &before);
}

#[test]
fn a_role_is_not_started_by_hand() {
    let temp = directory();
    for role in ["sampler", "producer", "consumer", "janitor"] {
        support::uvatrain(temp.path(), [role, "--channel=7"]).run().refuses(2, &["not by hand"]);
    }
}
