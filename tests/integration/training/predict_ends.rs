//! `predict` that is killed, stopped or refused at any moment, and two that write the same arrays: the final array is
//! that of the process that reported success, and the same command always resumes.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use uva_mem::mix;

use crate::support::runs::{small_graph, train, wait_until};
use crate::support::{Running, Uvatrain, directory, uvatrain, uvatrain_behind};

fn call(directory: &Path, line: &str) -> Uvatrain {
    uvatrain(directory, line.split_whitespace())
}

/// A graph and two models of it, whose predictions differ.
fn furnish(directory: &Path) {
    small_graph(directory);
    for (name, options) in [("one", "--lr 0.03"), ("two", "--lr 0.0001 --seed 5")] {
        let options = format!("--checkpoint {name} --epochs 1 {options}");
        train(directory, "run.jsonl", &options).run().succeeds();
    }
}

const SLOW: &str = "--eval sampled --batch-size 1";

fn send(run: &Running, signal: Signal) {
    kill_process(Pid::from_child(&run.child), signal).unwrap();
}

/// The arrays of a finished call.
fn read(directory: &Path, names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| fs::read(directory.join(name)).unwrap()).collect()
}

#[test]
fn a_second_process_is_refused_while_the_first_runs_or_is_stopped() {
    let temp = directory();
    furnish(temp.path());
    call(temp.path(), &format!("predict graph --checkpoint one --output whole.npy {SLOW}")).run().succeeds();
    let line = |model: &str, more: &str| format!("predict graph --checkpoint {model} --output p.npy {more}");
    let mut first = call(temp.path(), &line("one", SLOW)).start();
    let part = temp.path().join("p.npy.part");
    wait_until("there is a part", || part.exists() || first.child.try_wait().unwrap().is_some());
    send(&first, Signal::STOP);
    // With the same request, with another one, as one output of several, and with permission to replace files.
    for (model, more) in
        [("one", SLOW), ("two", ""), ("two", "--probabilities q.npy"), ("two", "--overwrite")]
    {
        let refused = call(temp.path(), &line(model, more)).run();
        refused.refuses(2, &["p.npy.part", "another process is writing it"]);
        assert!(!temp.path().join("q.npy.part").exists(), "{more}");
    }
    send(&first, Signal::CONT);
    first.wait().succeeds();
    assert_eq!(read(temp.path(), &["p.npy"]), read(temp.path(), &["whole.npy"]));
    assert!(!part.exists());
}

#[test]
#[ignore = "9 s of a core: scripts/measure/long_tests.sh"]
fn of_processes_that_write_one_array_at_once_a_successful_ones_stays() {
    let temp = directory();
    furnish(temp.path());
    let models = ["one", "two"];
    let files = "--output p.npy --probabilities q.npy";
    let expected = models.map(|model| {
        let (line, names) = ("predict graph --checkpoint", ["p.npy", "q.npy"]);
        call(temp.path(), &format!("{line} {model} {files}")).run().succeeds();
        let arrays = read(temp.path(), &names);
        names.iter().for_each(|name| fs::remove_file(temp.path().join(name)).unwrap());
        arrays
    });
    assert_ne!(expected[0], expected[1]);
    for round in 0..8 {
        let overwrite = if round % 2 == 0 { "" } else { "--overwrite" };
        let runs = models.map(|model| {
            let swapped = if model == "two" { "--probabilities q.npy --output p.npy" } else { files };
            call(temp.path(), &format!("predict graph --checkpoint {model} {swapped} {overwrite}")).start()
        });
        let succeeded = runs.map(|run| {
            let ended = run.wait();
            assert!(matches!(ended.code(), 0 | 2), "{ended}");
            ended.code() == 0
        });
        let found = read(temp.path(), &["p.npy", "q.npy"]);
        let owner = expected.iter().position(|arrays| *arrays == found);
        let owner = owner.expect("the arrays are those of one process");
        assert!(succeeded[owner], "the arrays of a process that failed stay: {succeeded:?}");
        if overwrite.is_empty() {
            assert_eq!(succeeded.iter().filter(|success| **success).count(), 1, "{succeeded:?}");
        }
        let left: Vec<_> =
            fs::read_dir(temp.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| !name.to_string_lossy().contains(".part")), "{left:?}");
        ["p.npy", "q.npy"].iter().for_each(|name| fs::remove_file(temp.path().join(name)).unwrap());
    }
}

/// The record at the end of an unfinished array: mark, job, units, whether complete, and a hash of the three.
fn record(job: u64, units: u64, complete: bool) -> Vec<u8> {
    let words = [job, units, u64::from(complete)];
    let hash = words.into_iter().fold(0, |hash, word| mix(hash ^ word));
    let words = words.into_iter().chain([hash]).flat_map(u64::to_le_bytes);
    b"uvarows1".iter().copied().chain(words).collect()
}

#[test]
#[ignore = "8 s of a core: scripts/measure/long_tests.sh"]
fn a_process_killed_between_the_names_of_its_arrays_is_resumed() {
    let temp = directory();
    furnish(temp.path());
    let line =
        format!("predict graph --checkpoint one --output p.npy --probabilities q.npy --ids i.npy {SLOW}");
    // The job, from what an interrupted call leaves.
    let run = call(temp.path(), &line).start();
    let part = temp.path().join("p.npy.part");
    wait_until("there is a part", || part.exists());
    send(&run, Signal::KILL);
    assert_ne!(run.wait().code(), 0);
    let bytes = fs::read(&part).unwrap();
    let job = u64::from_le_bytes(bytes[bytes.len() - 32..][..8].try_into().unwrap());
    call(temp.path(), &line).run().succeeds();
    let names = ["p.npy", "q.npy", "i.npy"];
    let whole = read(temp.path(), &names);
    // Each array as unfinished, as renamed with its record, and as finished: every state between two steps of the end.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum State {
        Part,
        Renamed,
        Finished,
    }
    use State::{Finished, Part, Renamed};
    for states in [
        [Part, Part],
        [Renamed, Part],
        [Part, Renamed],
        [Renamed, Renamed],
        [Finished, Renamed],
        [Renamed, Finished],
    ] {
        for (name, state) in ["p.npy", "q.npy"].into_iter().zip(states) {
            let path = temp.path().join(name);
            if state != Finished {
                let file = fs::File::options().write(true).open(&path).unwrap();
                let length = file.metadata().unwrap().len();
                file.write_all_at(&record(job, 7, true), length).unwrap();
            }
            if state == Part {
                fs::rename(&path, temp.path().join(format!("{name}.part"))).unwrap();
            }
        }
        call(temp.path(), &line).run().succeeds();
        assert_eq!(read(temp.path(), &names), whole, "{states:?}");
        assert!(!part.exists(), "{states:?}");
    }
    // Once it is finished, it exists; a file of another call is never mistaken for one of this call.
    call(temp.path(), &line).run().refuses(2, &["it is there already", "--overwrite"]);
    fs::remove_file(temp.path().join("q.npy")).unwrap();
    call(temp.path(), &line).run().refuses(2, &["p.npy", "it is there already"]);
    fs::remove_file(temp.path().join("p.npy")).unwrap();
    fs::write(temp.path().join("i.npy"), "mine").unwrap();
    call(temp.path(), &line).run().refuses(2, &["--ids i.npy", "it is there already"]);
}

#[test]
#[ignore = "15 s of a core: scripts/measure/long_tests.sh"]
fn a_process_that_is_killed_at_any_moment_is_resumed() {
    let temp = directory();
    furnish(temp.path());
    for output in ["p.npy", "p.csv"] {
        killed_at_any_moment(temp.path(), output);
    }
}

fn killed_at_any_moment(directory: &Path, output: &str) {
    let line = format!("predict graph --checkpoint one --probabilities q.npy --output {output} --ids i.npy");
    let names = [output, "q.npy", "i.npy"];
    names.iter().for_each(|name| drop(fs::remove_file(directory.join(name))));
    let begun = std::time::Instant::now();
    call(directory, &line).run().succeeds();
    let whole = begun.elapsed();
    let expected = read(directory, &names);
    for round in 0..12 {
        names.iter().for_each(|name| drop(fs::remove_file(directory.join(name))));
        let run = call(directory, &line).start();
        // Only the moment varies: the result does not depend on it.
        std::thread::sleep(whole * (4 + round) / 16);
        send(&run, Signal::KILL);
        let killed = run.wait();
        if killed.code() == 0 {
            continue;
        }
        let again = call(directory, &line).run();
        // It may have been killed after its very last step.
        if again.code() != 0 {
            again.refuses(2, &["it is there already"]);
        }
        assert_eq!(read(directory, &names), expected, "{output}, round {round}");
        let left = fs::read_dir(directory)
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains(".part"));
        assert_eq!(left.count(), 0, "{output}, round {round}");
    }
}

#[test]
fn a_call_that_fails_at_its_start_leaves_nothing_and_the_next_one_works() {
    let temp = directory();
    furnish(temp.path());
    let line = "predict graph --checkpoint one --output p.npy --probabilities q.npy";
    // In blocks of 512 bytes: the classes fit (32 KB), the probabilities do not (64 KB).
    for limit in ["ulimit -f 8", "ulimit -f 80"] {
        let failed = uvatrain_behind(temp.path(), limit, line.split(' ')).run();
        failed.refuses(1, &[".npy.part", "File too large"]);
        for name in ["p.npy.part", "q.npy.part", "p.npy", "q.npy"] {
            assert!(!temp.path().join(name).exists(), "{limit}: {name}");
        }
    }
    call(temp.path(), line).limit(Duration::from_secs(60)).run().succeeds();
}

#[test]
fn a_copied_unfinished_prediction_leaves_the_original_alone() {
    let temp = directory();
    furnish(temp.path());
    let original = temp.path().join("original");
    fs::create_dir(&original).unwrap();
    let line = |directory: &str, model: &str| {
        format!("predict graph --checkpoint {model} --output {directory}/p.npy {SLOW}")
    };
    let run = call(temp.path(), &line("original", "one")).start();
    let part = original.join("p.npy.part");
    wait_until("there is a part", || part.exists());
    send(&run, Signal::KILL);
    assert_ne!(run.wait().code(), 0);
    let before = fs::read(&part).unwrap();
    let copy = temp.path().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(&part, copy.join("p.npy.part")).unwrap();
    call(temp.path(), &line("copy", "two")).run().succeeds();
    assert_eq!(fs::read(&part).unwrap(), before);
    call(temp.path(), &line("original", "one")).run().succeeds();
}
