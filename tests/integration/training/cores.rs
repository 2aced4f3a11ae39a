//! The CPU cores of a run, and how `--cores auto` divides them between the stages.

use std::fs;
use std::path::Path;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::runs::{Metrics, processes_of, small_graph, wait_for_batches};
use crate::support::{Uvatrain, directory, uvatrain};

const STAGES: [&str; 3] = ["sampling", "gathering", "training"];

fn train(directory: &Path, metrics: &str, extra: &str) -> Uvatrain {
    let line = "train graph --fanouts 5,4 --batch-size 100 --hidden 16 --device cpu";
    uvatrain(directory, format!("{line} --metrics {metrics} {extra}").split_whitespace())
}

fn start(directory: &Path, metrics: &str) -> Value {
    Metrics::read(&directory.join(metrics)).of("start").last().expect("a start").clone()
}

/// The times that `lines` give each stage with this many threads.
fn times(cores: &Value, threads: [u64; 3]) -> [f64; 3] {
    let time = |stage: usize| {
        let line = &cores["lines"][STAGES[stage]];
        let part = |name: &str| line[name].as_f64().unwrap();
        part("divided_ms") / threads[stage] as f64 + part("fixed_ms")
    };
    [time(0), time(1), time(2)]
}

/// Milliseconds per batch: the slowest stage; or, if all stages share the cores, all work divided by the cores, if that
/// is more, and if training has all cores, its time plus the work of the others.
fn batch_ms(cores: &Value, threads: [u64; 3], shared: bool) -> f64 {
    let times = times(cores, threads);
    let slowest = times.into_iter().fold(0.0, f64::max);
    if !shared {
        return slowest;
    }
    // Each sampler has a batch of its own; the threads of the other stages share one.
    let others = times[0] * threads[0] as f64 + times[1] * threads[1] as f64
        - cores["lines"]["sampling"]["fixed_ms"].as_f64().unwrap() * (threads[0] - 1) as f64;
    let all = cores["cores"].as_u64().unwrap();
    if threads[2] >= all {
        return slowest.max(times[2] + others);
    }
    slowest.max((others + times[2] * threads[2] as f64) / all as f64)
}

fn counts(of: &Value) -> [u64; 3] {
    STAGES.map(|stage| of[stage].as_u64().unwrap())
}

#[test]
fn auto_chooses_threads_by_its_times_and_losses_follow_the_threads() {
    let temp = directory();
    small_graph(temp.path());
    let outcome = train(temp.path(), "auto.jsonl", "--epochs 1 --cores auto").run().succeeds();
    assert!(outcome.stderr.contains("--cores auto: on one core, a batch takes"), "{outcome}");
    assert!(outcome.stderr.contains(" ms a batch were predicted, and "), "{outcome}");
    // The best known setting is not suggested to be changed.
    assert!(!outcome.stdout.contains("to try"), "{outcome}");
    let found = start(temp.path(), "auto.jsonl");
    let cores = &found["in_force"]["cores"];
    let available = thread::available_parallelism().unwrap().get() as u64;
    assert_eq!(cores["cores"], available, "{cores}");
    for stage in STAGES {
        let points = cores["timed"][stage].as_array().unwrap();
        assert!(points.iter().all(|point| point["ms"].as_f64().unwrap() > 0.0), "{points:?}");
        let mut expected = vec![1, available.div_ceil(2), available];
        if stage == "sampling" {
            // Each sampler has tables of its own.
            expected.iter_mut().for_each(|threads| *threads = (*threads).min(8));
        }
        expected.dedup();
        assert!(points.iter().map(|point| point["threads"].as_u64().unwrap()).eq(expected), "{points:?}");
    }
    let (threads, usual) = (counts(&cores["threads"]), counts(&cores["usual"]));
    let near = |one: f64, other: f64| (one - other).abs() <= 1e-9 * one.abs().max(1.0);
    let usual_ms = batch_ms(cores, usual, true);
    assert!(near(cores["usual_ms"].as_f64().unwrap(), usual_ms), "{cores}");
    let shared = available < 3;
    let mut best = f64::INFINITY;
    let of_one = times(cores, [1, usual[1], 1]);
    // If all share two cores, the model gets both only if there is little other work.
    if shared && of_one[0] + of_one[1] * usual[1] as f64 <= 0.2 * of_one[2] {
        best = batch_ms(cores, [usual[0], usual[1], available], shared);
    }
    for sampling in 1..=available {
        for gathering in 1..=available {
            for training in 1..=available {
                if !shared && sampling + gathering + training <= available {
                    best = best.min(batch_ms(cores, [sampling, gathering, training], shared));
                }
            }
        }
    }
    let enough = if shared { 0.9 } else { 0.95 };
    let expected = if best < enough * usual_ms { best } else { usual_ms };
    assert!(near(cores["batch_ms"].as_f64().unwrap(), expected), "{cores}: best {best}");
    // If they divide the cores, each stage is pinned to its own, unless a quota is smaller than the mask.
    let kept_on = &cores["kept_on"];
    let has_quota = cores_of(std::process::id() as i32).len() as u64 != available;
    assert_eq!(kept_on.is_null(), cores["shared"] == true || has_quota, "{cores}");
    if !kept_on.is_null() {
        let list = |stage: &str| kept_on[stage].as_array().unwrap().iter().map(|core| core.as_u64().unwrap());
        let mut all: Vec<u64> = STAGES.into_iter().flat_map(list).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]) && all.len() as u64 == available, "{kept_on}");
        assert_eq!(
            [list(STAGES[0]).count() as u64, list(STAGES[1]).count() as u64],
            threads[..2],
            "{kept_on}"
        );
    }
    // The chosen numbers are those of the run.
    assert_eq!(found["in_force"]["train_threads"], threads[2], "{found}");
    let [samplers, gather_threads, train_threads] = threads;
    let given = format!(
        "--epochs 1 --samplers {samplers} --gather-threads {gather_threads} --train-threads {train_threads}"
    );
    train(temp.path(), "given.jsonl", &given).run().succeeds();
    let trained = |metrics: &str| Metrics::read(&temp.path().join(metrics)).trained();
    assert_eq!(trained("auto.jsonl"), trained("given.jsonl"));
    assert_eq!(start(temp.path(), "given.jsonl")["in_force"]["cores"], Value::Null);
}

#[test]
fn threads_that_are_given_stay_and_those_of_a_checkpoint_too() {
    let temp = directory();
    small_graph(temp.path());
    let all = "--epochs 1 --cores auto --samplers 2 --gather-threads 3 --train-threads 1 --checkpoint kept";
    train(temp.path(), "given.jsonl", all).run().succeeds();
    let threads = start(temp.path(), "given.jsonl")["in_force"]["cores"]["threads"].clone();
    assert_eq!(counts(&threads), [2, 3, 1]);
    let options = "--epochs 2 --cores auto --checkpoint kept --resume --samplers 2 --batch-slots 4 --features disk \
                   --look-ahead 2 --reader mmap";
    train(temp.path(), "resumed.jsonl", options).run().succeeds();
    let resumed = start(temp.path(), "resumed.jsonl");
    assert_eq!(resumed["in_force"]["cores"]["threads"]["training"], 1, "{resumed}");
}

#[test]
fn listed_cores_are_those_of_every_process_of_the_run() {
    let temp = directory();
    small_graph(temp.path());
    let [first, _] = two_cores();
    let mut run = train(temp.path(), "run.jsonl", &format!("--epochs 100000 --cores {first}")).start();
    let processes = processes_of(&run, 1);
    wait_for_batches(&mut run, &temp.path().join("run.jsonl"), 3);
    for process in processes.iter().filter(|process| process.role != "janitor") {
        assert_eq!(cores_of(process.pid), [first], "{}", process.role);
    }
    kill_process(Pid::from_child(&run.child), Signal::INT).unwrap();
    run.wait().ends_with(130);
}

#[test]
fn each_stage_keeps_to_its_listed_cores_with_a_thread_on_each() {
    let temp = directory();
    small_graph(temp.path());
    let [first, second] = two_cores();
    let cores = format!("--cores {first}/{first}/{second}");
    let mut run = train(temp.path(), "run.jsonl", &format!("--epochs 100000 {cores}")).start();
    let processes = processes_of(&run, 1);
    wait_for_batches(&mut run, &temp.path().join("run.jsonl"), 3);
    let mut both = vec![first, second];
    both.dedup();
    assert_eq!(cores_of(run.child.id() as i32), both, "the launcher");
    for (role, expected) in [("sampler", first), ("producer", first), ("consumer", second)] {
        let process = processes.iter().find(|process| process.role.starts_with(role));
        let process = process.unwrap_or_else(|| panic!("there is no {role}"));
        assert_eq!(cores_of(process.pid), [expected], "{role}");
    }
    kill_process(Pid::from_child(&run.child), Signal::INT).unwrap();
    run.wait().ends_with(130);
    let in_force = &start(temp.path(), "run.jsonl")["in_force"];
    assert_eq!(
        ["samplers", "gather_threads", "train_threads"].map(|name| in_force[name].as_u64()),
        [Some(1); 3],
        "{in_force}"
    );

    // The placement of threads changes no loss.
    train(temp.path(), "kept.jsonl", &format!("--epochs 1 {cores} --samplers 2")).run().succeeds();
    train(temp.path(), "free.jsonl", "--epochs 1 --train-threads 1").run().succeeds();
    let trained = |metrics: &str| Metrics::read(&temp.path().join(metrics)).trained();
    assert_eq!(trained("kept.jsonl"), trained("free.jsonl"));
    assert_eq!(start(temp.path(), "kept.jsonl")["in_force"]["samplers"], 2);
}

/// Two cores that this process may use, or the same one twice.
fn two_cores() -> [usize; 2] {
    let own = cores_of(std::process::id() as i32);
    [own[0], *own.get(1).unwrap_or(&own[0])]
}

/// The cores that a process may use.
fn cores_of(process: i32) -> Vec<usize> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let number = |text: &str| text.trim().parse::<usize>().unwrap();
    let runs = line.split(',').map(|run| match run.split_once('-') {
        Some((first, last)) => number(first)..=number(last),
        None => number(run)..=number(run),
    });
    runs.flatten().collect()
}

#[test]
fn unusable_cores_are_refused_by_name() {
    let temp = directory();
    small_graph(temp.path());
    for (options, parts) in [
        ("--cores 1023", ["--cores 1023", "affinity mask has"]),
        ("--cores none", ["--cores", "'none'"]),
        ("--cores 0/0", ["--cores", "2 lists"]),
        ("--cores 0/1023/0", ["--cores 0/1023/0", "affinity mask has"]),
        ("--cores auto --in-process", ["--cores auto", "--in-process"]),
        ("--cores auto --prepare whole", ["--cores auto", "--prepare whole"]),
        ("--cores auto --seed-order proximity:2", ["--cores auto", "--seed-order"]),
        ("--cores auto --aggregate host", ["--cores auto", "--aggregate"]),
        ("--cores auto --batch-slots 4", ["--cores auto", "--samplers"]),
        ("--cores auto --dry-run --in-process", ["--cores auto", "--in-process"]),
    ] {
        train(temp.path(), "refused.jsonl", &format!("--epochs 1 {options}")).run().refuses(2, &parts);
    }
    let [core, _] = two_cores();
    let lists = format!("--cores {core}/{core}/{core}");
    for (options, part) in [("--in-process", "--in-process"), ("--prepare whole", "workers")] {
        let line = format!("--epochs 1 {lists} {options}");
        train(temp.path(), "refused.jsonl", &line).run().refuses(2, &[&lists, part, "one list"]);
    }
}

#[test]
fn a_resumed_run_keeps_its_checkpoints_threads_or_uses_its_cores() {
    let temp = directory();
    small_graph(temp.path());
    let [core, _] = two_cores();
    let lists = format!("--cores {core}/{core}/{core} --checkpoint kept --resume");
    let threads = |metrics: &str| start(temp.path(), metrics)["in_force"]["train_threads"].clone();
    train(temp.path(), "first.jsonl", &format!("--epochs 1 {lists}")).run().succeeds();
    assert_eq!(threads("first.jsonl"), 1);
    train(temp.path(), "two.jsonl", "--epochs 1 --train-threads 2 --checkpoint two").run().succeeds();
    let lists = lists.replace("kept", "two");
    train(temp.path(), "second.jsonl", &format!("--epochs 2 {lists}")).run().succeeds();
    assert_eq!(threads("second.jsonl"), 2);
}
