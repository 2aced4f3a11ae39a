//! `uvatrain run` after one of its processes dies: the others end, the message names the dead process, and nothing is
//! left. Every wait has a watchdog, which also notices a process that outlives the run and holds its stderr.

use std::path::Path;

use crate::support::command::{self, recorded, run};
use crate::support::runs::{Process, Traces, role_of, small_graph, wait_until};
use crate::support::{Running, directory};
use rustix::process::{Pid, Signal, kill_process};

/// Runs the command in a shell, so that the attached process is not a child of the launcher.
const SHELL: &str = r#""$@"; exit $?"#;

/// A run whose command takes batches endlessly, after some batches.
fn long_run(directory: &Path, shell: Option<&str>, steps: &str) -> (Running, Vec<Process>) {
    let _ = std::fs::remove_file(directory.join(command::RECORD));
    let run =
        run(directory, "--metrics run.jsonl", shell, steps).env("TMPDIR", directory.join("tmp")).start();
    wait_until("the command takes batches", || recorded(directory).len() >= 5);
    let roles = ["sampler", "producer", "janitor"].map(|role| role_of(&run, role));
    (run, roles.into())
}

fn signal(processes: &[Process], role: &str, signal: Signal) {
    processes.iter().find(|process| process.role == role).expect("a role").signal(signal);
}

fn traces(directory: &Path) -> Traces {
    std::fs::create_dir_all(directory.join("tmp")).unwrap();
    Traces::now(&directory.join("tmp"))
}

fn nothing_is_left(directory: &Path, processes: &[Process], before: &Traces) {
    for process in processes {
        wait_until(&format!("the {} (process {}) ends", process.role, process.pid), || process.has_ended());
    }
    assert_eq!(before, &Traces::now(&directory.join("tmp")));
}

#[test]
fn a_killed_role_is_named_and_the_command_ends_with_its_next_batch() {
    let temp = directory();
    small_graph(temp.path());
    for role in ["sampler", "producer"] {
        for shell in [None, Some(SHELL)] {
            let before = traces(temp.path());
            let (run, processes) = long_run(temp.path(), shell, "attach; take");
            signal(&processes, role, Signal::KILL);
            let outcome = run.wait().ends_with(1);
            for part in [&format!("uvatrain: the {role}"), "was killed by SIGKILL", "of epoch", "command: "] {
                assert!(outcome.stderr.contains(part), "{part}\n{outcome}");
            }
            assert!(!outcome.stderr.contains("panicked"), "{outcome}");
            nothing_is_left(temp.path(), &processes, &before);
        }
    }
}

#[test]
fn a_command_that_ignores_a_dead_role_does_not_make_the_run_succeed() {
    let temp = directory();
    small_graph(temp.path());
    let (run, processes) = long_run(temp.path(), None, "attach; catch; take; say saved; exit 0");
    signal(&processes, "producer", Signal::KILL);
    let outcome = run.wait().ends_with(1);
    assert!(outcome.stderr.contains("the producer was killed by SIGKILL"), "{outcome}");
    assert!(outcome.stdout.contains("saved"), "the command was ended before it exited: {outcome}");
}

#[test]
fn a_command_that_stays_when_a_role_has_died_is_ended_in_the_end() {
    let temp = directory();
    small_graph(temp.path());
    for (shell, steps) in [(None, "attach; take 5; linger"), (Some(SHELL), "ignore; attach; take 5; linger")]
    {
        let before = traces(temp.path());
        let (run, processes) = long_run(temp.path(), shell, steps);
        signal(&processes, "producer", Signal::KILL);
        let outcome = run.wait().ends_with(1);
        assert!(outcome.stderr.contains("the producer was killed by SIGKILL"), "{outcome}");
        nothing_is_left(temp.path(), &processes, &before);
    }
}

#[test]
fn a_role_that_dies_before_the_command_attaches_ends_the_command_too() {
    let temp = directory();
    small_graph(temp.path());
    let run = run(temp.path(), "", None, "linger").start();
    role_of(&run, "producer").signal(Signal::KILL);
    let outcome = run.wait().ends_with(1);
    assert!(outcome.stderr.contains("the producer was killed by SIGKILL"), "{outcome}");
}

#[test]
fn a_batch_larger_than_its_slot_ends_the_run_and_names_the_option() {
    let temp = directory();
    small_graph(temp.path());
    let outcome = run(temp.path(), "--slot-bytes 12KiB", None, "attach; take").run().ends_with(2);
    for part in ["--slot-bytes", "sampler", "command: "] {
        assert!(outcome.stderr.contains(part), "{part}\n{outcome}");
    }
}

#[test]
fn a_launcher_that_is_killed_takes_everybody_with_it() {
    let temp = directory();
    small_graph(temp.path());
    for (shell, steps) in [
        (None, "attach; take"),
        (Some(SHELL), "attach; take"),
        (Some(SHELL), "ignore; attach; take 5; linger"),
    ] {
        let before = traces(temp.path());
        let (run, processes) = long_run(temp.path(), shell, steps);
        kill_process(Pid::from_child(&run.child), Signal::KILL).unwrap();
        // Waits for the pipes too, which the command holds.
        run.wait().ends_with(128 + 9);
        nothing_is_left(temp.path(), &processes, &before);
    }
}

#[test]
fn a_launcher_killed_while_an_attached_process_is_stopped_leaves_nothing() {
    let temp = directory();
    small_graph(temp.path());
    let before = traces(temp.path());
    let (run, processes) = long_run(temp.path(), Some(SHELL), "attach; pid attached; take");
    let number = std::fs::read_to_string(temp.path().join("attached")).unwrap();
    let attached = number.parse().ok().and_then(Pid::from_raw).unwrap();
    // While stopped it can neither see the end nor end itself: the janitor ends it.
    kill_process(attached, Signal::STOP).unwrap();
    kill_process(Pid::from_child(&run.child), Signal::KILL).unwrap();
    run.wait().ends_with(128 + 9);
    nothing_is_left(temp.path(), &processes, &before);
}

#[test]
fn without_its_janitor_a_run_works_and_a_command_sees_its_launcher_die() {
    let temp = directory();
    small_graph(temp.path());
    for killed_too in [false, true] {
        let before = traces(temp.path());
        let (run, processes) = long_run(temp.path(), Some(SHELL), "attach; take");
        signal(&processes, "janitor", Signal::KILL);
        let so_far = recorded(temp.path()).len();
        wait_until("the command takes more batches", || recorded(temp.path()).len() > so_far + 10);
        let launcher = Pid::from_child(&run.child);
        if killed_too {
            kill_process(launcher, Signal::KILL).unwrap();
            let outcome = run.wait().ends_with(128 + 9);
            assert!(outcome.stderr.contains("command: ") && outcome.stderr.contains("launcher"), "{outcome}");
        } else {
            kill_process(launcher, Signal::TERM).unwrap();
            run.wait().ends_with(143);
        }
        nothing_is_left(temp.path(), &processes, &before);
    }
}

#[test]
fn what_attached_may_end_before_its_shell_which_decides_how_the_run_went() {
    let temp = directory();
    small_graph(temp.path());
    let goes_on = r#""$@"; echo "code $?"; exit 0"#;
    let outcome = run(temp.path(), "", Some(goes_on), "attach; take 3; exit 9").run().succeeds();
    assert!(outcome.stdout.contains("code 9"), "{outcome}");
    let told = run(temp.path(), "", Some(SHELL), "attach; take 3; kill").run().ends_with(1);
    assert!(told.stderr.contains("ended with exit code 137"), "{told}");
}

#[test]
fn attached_processes_left_by_a_command_end_with_their_batches() {
    let temp = directory();
    small_graph(temp.path());
    // The shell ends at once; the attached process would take batches endlessly.
    let leaves = r#""$@" & while ! test -s record; do :; done"#;
    run(temp.path(), "", Some(leaves), "attach; take").run().succeeds();
    // A process that does not use batches: it outlives the run until its file exists.
    let other = r#"(while ! test -e over; do :; done; touch ended) >/dev/null 2>&1 & "$@""#;
    run(temp.path(), "", Some(other), "attach; take 3").run().succeeds();
    assert!(!temp.path().join("ended").exists());
    std::fs::write(temp.path().join("over"), "").unwrap();
    wait_until("it ends", || temp.path().join("ended").exists());
}
