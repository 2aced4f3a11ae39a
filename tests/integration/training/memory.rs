//! The memory of a run's processes: it is reported, and within the documented bounds. Tests of the real binary.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::support::runs::{
    Metrics, Process, processes_of, small_graph, train, wait_for_batches, wait_until,
};
use crate::support::{directory, uvatrain, uvatrain_behind};
use rustix::process::Signal;
use serde_json::Value;

/// The end line's `memory`, by process.
fn by_process(end: &Value) -> BTreeMap<String, BTreeMap<String, u64>> {
    let processes = end["memory"].as_array().unwrap_or_else(|| panic!("no memory in {end}"));
    let process = |one: &Value| {
        let fields = one.as_object().expect("an object").iter();
        let bytes = fields.filter_map(|(name, value)| Some((name.clone(), value.as_u64()?))).collect();
        (one["process"].as_str().expect("a name").to_owned(), bytes)
    };
    processes.iter().map(process).collect()
}

#[test]
fn a_run_ends_with_a_table_of_every_process_and_the_end_line_holds_it_too() {
    let temp = directory();
    small_graph(temp.path());
    let several = ["consumer", "janitor", "launcher", "producer", "sampler 0", "sampler 1", "sampler 2"];
    for (options, processes) in [("", &several[..]), ("--in-process", &["all roles"])] {
        let options = format!("--epochs 2 --samplers 3 --json --verbose {options}");
        let outcome = train(temp.path(), "run.jsonl", &options).run().succeeds();
        let end = outcome.json();
        let memory = by_process(&end);
        assert!(memory.keys().eq(processes), "{end}");
        for (process, bytes) in &memory {
            let of = |name: &str| bytes[&format!("{name}_bytes")];
            assert_eq!(of("resident"), of("own") + of("file") + of("shared"), "{process}: {end}");
            assert!(of("own") > 500_000 && of("file") > 500_000, "{process}: {end}");
            assert!(of("peak") >= of("resident"), "{process}: {end}");
            // After the table of the roles' times.
            let mut table = outcome.stderr.lines().skip_while(|line| !line.starts_with("process "));
            let row = table.find(|line| line.starts_with(&format!("{process} ")));
            let row = row.unwrap_or_else(|| panic!("no row of {process}: {outcome}"));
            assert!(row.matches('B').count() == 5, "{row}");
        }
        let metrics = Metrics::read(&temp.path().join("run.jsonl"));
        assert_eq!(metrics.0.last(), Some(&end));
    }
}

#[test]
fn a_process_that_was_killed_is_left_out_of_the_table() {
    let temp = directory();
    small_graph(temp.path());
    let mut run = train(temp.path(), "run.jsonl", "--epochs 200 --samplers 1 --json --verbose").start();
    wait_for_batches(&mut run, &temp.path().join("run.jsonl"), 3);
    // A process whose end does not end the run.
    let processes = processes_of(&run, 1);
    processes.iter().find(|process| process.role == "janitor").unwrap().signal(Signal::KILL);
    let outcome = run.wait().succeeds();
    let memory = by_process(&outcome.json());
    assert!(memory.keys().eq(["consumer", "launcher", "producer", "sampler 0"]), "{outcome}");
    assert!(outcome.stderr.contains("\nsampler 0 ") && !outcome.stderr.contains("janitor "), "{outcome}");
}

#[test]
fn bench_pipeline_reports_the_memory_of_its_one_process() {
    let temp = directory();
    small_graph(temp.path());
    let bench = "bench pipeline graph --fanouts 5,4 --batch-size 100";
    let outcome = uvatrain(temp.path(), bench.split(' ')).run().succeeds();
    assert!(outcome.stdout.lines().any(|line| line.starts_with("all roles ")), "{outcome}");
    let outcome = uvatrain(temp.path(), format!("{bench} --json").split(' ')).run().succeeds();
    assert!(by_process(&outcome.json()).keys().eq(["all roles"]), "{outcome}");
}

/// Proportional share of what a process has mapped of files with this in their path, in bytes: summed over all
/// processes that map a page it is that page once.
fn share_of_files(pid: i32, part: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps")).expect("the process is there");
    let (mut bytes, mut within) = (0, false);
    for line in text.lines() {
        let first = line.split_whitespace().next().unwrap_or_default();
        if !first.ends_with(':') {
            within = line.contains(part);
        } else if within && first == "Pss:" {
            bytes += kibibytes(line);
        }
    }
    bytes
}

/// A field of the sum over all mappings of a process, in bytes.
fn rolled_up(pid: i32, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("the process is there");
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(field));
    kibibytes(line.unwrap_or_else(|| panic!("{field} in {text}")))
}

fn kibibytes(line: &str) -> u64 {
    line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok()).expect("a number") * 1024
}

fn generate(directory: &Path, options: &str) {
    uvatrain(directory, format!("generate graph {options}").split_whitespace()).run().succeeds();
}

#[test]
fn the_feature_table_is_in_memory_once_however_many_samplers_there_are() {
    let temp = directory();
    generate(temp.path(), "--nodes 60000 --avg-degree 8 --feat-dim 256 --classes 4 --train-share 0.5");
    let table = fs::metadata(temp.path().join("graph/feat.npy")).unwrap().len();
    let shares = [1, 3].map(|samplers| {
        let options = format!(
            "train graph --fanouts 5,4 --batch-size 500 --hidden 4 --train-threads 1 --gather-threads 1 \
             --epochs 100000 --samplers {samplers} --metrics {samplers}.jsonl"
        );
        let run = uvatrain(temp.path(), options.split_whitespace()).start();
        let metrics = temp.path().join(format!("{samplers}.jsonl"));
        wait_until("an epoch has been through", || Metrics::read(&metrics).of("epoch").count() > 0);
        let processes = processes_of(&run, samplers);
        let pids: Vec<i32> = processes.iter().map(|p| p.pid).chain([run.child.id() as i32]).collect();
        let share: u64 = pids.iter().map(|pid| share_of_files(*pid, "/graph/feat.npy")).sum();
        // Not of all files: those of the program and its libraries are shared with other processes of the machine.
        let files: u64 = pids.iter().map(|pid| share_of_files(*pid, "/graph/")).sum();
        // Nor is it copied: apart from the program's own memory, which the idle janitor shows, no process has private
        // memory of that size.
        let own = |process: &Process| rolled_up(process.pid, "Pss_Anon:");
        let idle = own(processes.iter().find(|process| process.role == "janitor").unwrap());
        for process in processes.iter().filter(|process| process.role != "consumer") {
            let more = own(process).saturating_sub(idle);
            assert!(more < table / 4, "{}: {more} bytes of its own, the table has {table}", process.role);
        }
        rustix::process::kill_process(rustix::process::Pid::from_child(&run.child), Signal::INT).unwrap();
        run.wait().ends_with(130);
        (share, files)
    });
    for (share, _) in shares {
        // An epoch reads nearly every row.
        assert!((table / 10 * 8..=table + (1 << 20)).contains(&share), "{share} of {table} bytes");
    }
    let [(_, one), (_, three)] = shares;
    assert!(three < one + table / 4, "files of one sampler's run: {one} bytes, of three's: {three}");
}

#[test]
fn a_sampler_has_at_most_12_bytes_of_its_own_for_each_node() {
    const NODES: u64 = 3_000_000;
    // Memory for a batch: scratch of a few thousand edges, and an epoch's order for each thread.
    const BATCHES: u64 = 3 << 20;
    let temp = directory();
    generate(
        temp.path(),
        &format!("--nodes {NODES} --avg-degree 1 --feat-dim 1 --classes 2 --train-share 0.6"),
    );
    let options = "train graph --fanouts 2,2 --batch-size 8000 --hidden 2 --train-threads 1 --gather-threads 1 \
                   --epochs 1 --samplers 2 --json";
    let end = uvatrain(temp.path(), options.split_whitespace()).run().succeeds().json();
    let memory = by_process(&end);
    // Slots are shared memory, here of a size that exceeds the kernel's counting error.
    for (process, bytes) in &memory {
        let has_slots = !["launcher", "janitor"].contains(&process.as_str());
        assert_eq!(bytes["shared_bytes"] > 300_000, has_slots, "{process}: {end}");
    }
    // The program itself uses as much as the idle janitor.
    let own = |process: &str| memory[process]["own_bytes"];
    for sampler in ["sampler 0", "sampler 1"] {
        let bytes = own(sampler).saturating_sub(own("janitor"));
        assert!(bytes <= 12 * NODES + BATCHES, "{sampler}: {bytes} bytes for {NODES} nodes: {end}");
        // The array of all nodes is there, and has been used.
        assert!(bytes >= 8 * NODES / 2, "{sampler}: {bytes} bytes for {NODES} nodes: {end}");
    }
}

/// Two matrices of 16,000,000 × 65,536 are 7 TiB.
const LARGE: &str =
    "train graph --fanouts 5,4 --batch-size 100 --hidden 65536 --epochs 1 --metrics new.jsonl";

#[test]
fn a_model_larger_than_any_memory_is_refused_before_anything_starts() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let meta = graph.join("meta.json");
    let mut said: Value = serde_json::from_slice(&fs::read(&meta).unwrap()).unwrap();
    said["classes"] = 16_000_000.into();
    fs::write(&meta, said.to_string()).unwrap();
    for mode in ["", "--in-process", "--eval full --model gcn --residual", "--model gat"] {
        let line = format!("{LARGE} --checkpoint kept {mode}");
        let refused = uvatrain(temp.path(), line.split_whitespace()).run().refuses(
            3,
            &["--hidden 65536", "16,000,000 classes", "\"classes\" in graph/meta.json", "GiB", "at least"],
        );
        assert!(!refused.stderr.contains("killed"), "{refused}");
        for name in ["new.jsonl", "kept"] {
            assert!(!temp.path().join(name).exists(), "{name} was made for a run that cannot begin");
        }
    }
    // If labels are that large, the message names the labels.
    said.as_object_mut().unwrap().remove("classes");
    fs::write(&meta, said.to_string()).unwrap();
    let mut labels = fs::read(graph.join("label.npy")).unwrap();
    let last = labels.len() - 8;
    labels[last..].copy_from_slice(&15_999_999_i64.to_le_bytes());
    fs::write(graph.join("label.npy"), labels).unwrap();
    let refused = uvatrain(temp.path(), LARGE.split(' ')).run();
    refused.refuses(3, &["the largest label in graph/label.npy", "16,000,000 classes"]);
}

#[test]
fn a_model_larger_than_the_process_may_become_is_refused_by_that_limit() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let meta = graph.join("meta.json");
    let mut said: Value = serde_json::from_slice(&fs::read(&meta).unwrap()).unwrap();
    said["classes"] = 1_000_000.into();
    fs::write(&meta, said.to_string()).unwrap();
    // 2.6 GiB of parameters, moments and gradients, which many a machine has.
    let line = "train graph --fanouts 5,4 --batch-size 100 --hidden 80 --epochs 1";
    let refused = uvatrain_behind(temp.path(), "ulimit -v 2000000", line.split(' ')).run();
    refused.refuses(3, &["RLIMIT_AS", "ulimit -v", "1,000,000 classes"]);
}
