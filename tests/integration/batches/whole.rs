//! Workers that prepare whole batches: the losses of samplers and a producer, refusals with a remedy, and no leftovers
//! of a run whose workers fail or are killed.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use uva_sample::SamplerKind;

use crate::support::arrays::{npy, write_weights};
use crate::support::command::{RECORD, recorded, run_with};
use crate::support::extent::some_of;
use crate::support::runs::{
    Metrics, Process, Traces, checkpoint_files, processes_of, role_of, small_graph, wait_for_batches,
    wait_until,
};
use crate::support::slots::{Rings, STATES};
use crate::support::{Uvatrain, directory, uvatrain};

const TRAIN: &str = "train graph --fanouts 5,4 --batch-size 100 --hidden 16 --train-threads 1 --device cpu";

fn train(directory: &Path, metrics: &str, extra: &str) -> Uvatrain {
    uvatrain(directory, format!("{TRAIN} --metrics {metrics} {extra}").split_whitespace())
}

/// Results that must not depend on the way to prepare: hashes and losses of all batches, the validation of each epoch,
/// and the test.
type Learned = (Vec<(u64, u64, String, String)>, Vec<String>, String);

fn learned(directory: &Path, metrics: &str, options: &str) -> Learned {
    train(directory, metrics, options).run().succeeds();
    of_metrics(&Metrics::read(&directory.join(metrics)))
}

fn of_metrics(metrics: &Metrics) -> Learned {
    let valid = metrics.of("epoch").map(|epoch| epoch["valid_accuracy"].to_string()).collect();
    let end = metrics.of("end").last().expect("an end");
    (metrics.trained(), valid, end["test_accuracy"].to_string())
}

fn in_force(metrics: &Metrics) -> &Value {
    &metrics.of("start").last().expect("a start")["in_force"]
}

#[test]
fn hashes_and_losses_are_equal_for_both_ways_to_prepare_and_all_samplers() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let edges = fs::metadata(graph.join("indices.npy")).unwrap().len() / 4 - 32;
    write_weights(&graph, edges);
    for (model, aggregate) in some_of(&[("sage", "off"), ("sage", "host"), ("gcn", "host")]) {
        for kind in SamplerKind::ALL.into_iter().map(SamplerKind::name) {
            // Of these, hops are over one subgraph.
            let fanouts = if kind.starts_with("saint") { "400,400" } else { "5,4" };
            let line = format!(
                "train graph --fanouts {fanouts} --batch-size 100 --hidden 16 --train-threads 1 --device cpu --epochs 1 \
                 --in-process --model {model} --aggregate {aggregate} --sampler-kind {kind} --metrics run.jsonl"
            );
            let run = |way: &str| {
                uvatrain(temp.path(), format!("{line} {way}").split_whitespace()).run().succeeds();
                of_metrics(&Metrics::read(&temp.path().join("run.jsonl")))
            };
            let expected = run("--samplers 1 --gather-threads 1");
            assert!(expected.0.len() > 10);
            assert_eq!(run("--prepare whole --samplers 3"), expected, "{model} {aggregate} {kind}");
        }
    }
}

#[test]
#[ignore = "4 s of a core: scripts/measure/long_tests.sh"]
fn any_number_of_workers_trains_the_same_in_threads_and_processes() {
    let temp = directory();
    small_graph(temp.path());
    for (model, aggregate) in some_of(&[("sage", "off"), ("sage", "host"), ("gcn", "off"), ("gcn", "host")]) {
        let options = format!("--model {model} --aggregate {aggregate} --epochs 3 --eval sampled");
        let run = |name: &str, more: &str| learned(temp.path(), name, &format!("{options} {more}"));
        let expected = run("roles.jsonl", "--samplers 2 --gather-threads 1");
        assert_eq!((expected.1.len(), expected.0.len() % 3), (3, 0));
        for workers in some_of(&[2, 1, 3]) {
            let whole = format!("--prepare whole --samplers {workers}");
            assert_eq!(
                run("threads.jsonl", &format!("{whole} --in-process")),
                expected,
                "{model} {aggregate} {workers}"
            );
            assert_eq!(run("processes.jsonl", &whole), expected, "{model} {aggregate} {workers}");
            let metrics = Metrics::read(&temp.path().join("processes.jsonl"));
            let in_force = in_force(&metrics);
            assert_eq!(in_force["prepare"], "whole");
            assert_eq!((&in_force["samplers"], &in_force["gather_threads"]), (&workers.into(), &1.into()));
            assert_eq!(
                (&in_force["feature_slots"], &in_force["batch_slots"]),
                (&(workers + 1).into(), &0.into())
            );
            let end = metrics.of("end").next().unwrap();
            let roles = &end["roles"];
            assert_eq!(
                (&roles["sampler"]["processes"], &roles["producer"]["processes"]),
                (&workers.into(), &0.into())
            );
            assert!(roles["sampler"]["working_s"].as_f64().unwrap() > 0.0, "{roles}");
            assert!(["worker", "consumer"].contains(&end["bottleneck"].as_str().unwrap()), "{end}");
            let processes = end["memory"].as_array().unwrap().iter().map(|process| &process["process"]);
            assert_eq!(processes.filter(|name| *name == "workers").count(), 1, "{end}");
            for batch in metrics.of("batch") {
                assert!(batch["sampler"].as_u64().unwrap() < workers, "{batch}");
                assert!(batch["sample_us"].as_u64().unwrap() > 0 && batch["gather_us"].is_u64(), "{batch}");
                assert_eq!(batch["pace"], 1, "{batch}");
            }
        }
        let roles = Metrics::read(&temp.path().join("roles.jsonl"));
        assert_eq!(in_force(&roles)["prepare"], "roles");
    }
}

#[test]
#[ignore = "4 s of a core: scripts/measure/long_tests.sh"]
fn a_checkpoint_of_one_way_to_prepare_resumes_with_the_other() {
    let temp = directory();
    small_graph(temp.path());
    let [roles, whole] = ["--samplers 2 --gather-threads 1", "--prepare whole --samplers 2"];
    let expected = learned(temp.path(), "uninterrupted.jsonl", &format!("--epochs 2 {roles}"));
    for (name, first, second) in
        [("to-whole", roles, whole), ("to-roles", whole, roles), ("whole", whole, whole)]
    {
        let (metrics, kept) = (format!("{name}.jsonl"), format!("--checkpoint {name}"));
        learned(temp.path(), &metrics, &format!("--epochs 1 {kept} {first}"));
        train(temp.path(), &metrics, &format!("--epochs 2 {kept} --resume {second}")).run().succeeds();
        let resumed = of_metrics(&Metrics::read(&temp.path().join(&metrics)));
        assert_eq!((resumed.0, resumed.1), (expected.0.clone(), expected.1.clone()), "{name}");
    }
}

#[test]
fn early_stopping_ends_the_workers_too() {
    let temp = directory();
    small_graph(temp.path());
    let options = "--epochs 50 --patience 1 --lr 0.5 --eval sampled";
    let expected = learned(temp.path(), "roles.jsonl", &format!("{options} --samplers 2 --gather-threads 1"));
    for more in ["--in-process", ""] {
        let found =
            learned(temp.path(), "whole.jsonl", &format!("{options} --prepare whole --samplers 3 {more}"));
        assert!(found.1.len() < 50, "it stopped early");
        assert_eq!(found, expected, "{more}");
    }
}

#[test]
fn a_command_of_the_users_gets_the_batches_of_workers() {
    let temp = directory();
    small_graph(temp.path());
    let steps = "attach; pass train 0; pass valid 0; pass train 1; pass test 0; close";
    let mut found = Vec::new();
    for way in ["--samplers 2", "--prepare whole --samplers 2", "--prepare whole --samplers 3"] {
        let _ = fs::remove_file(temp.path().join(RECORD));
        run_with(temp.path(), way, None, steps).run().succeeds();
        found.push(recorded(temp.path()));
    }
    assert!(found[0].len() > 30);
    assert!(found[1] == found[0] && found[2] == found[0]);
}

#[test]
fn bench_pipeline_takes_the_batches_of_workers() {
    let temp = directory();
    small_graph(temp.path());
    let bench = |way: &str| {
        let line = format!("bench pipeline graph --fanouts 5,4 --batch-size 100 --epochs 2 --json {way}");
        let outcome = uvatrain(temp.path(), line.split_whitespace()).run().succeeds();
        let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
        (report["hash"].clone(), report["batches"].clone(), report["bottleneck"].clone())
    };
    let (roles, whole) = (bench("--samplers 1 --gather-threads 1"), bench("--prepare whole --samplers 2"));
    assert_eq!((&whole.0, &whole.1), (&roles.0, &roles.1));
    assert!(["worker", "consumer"].contains(&whole.2.as_str().unwrap()), "{whole:?}");
}

#[test]
fn a_trace_has_a_track_for_each_worker_and_no_bars_overlap() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "run.jsonl", "--epochs 1 --prepare whole --samplers 2 --trace trace.json")
        .run()
        .succeeds();
    let text = fs::read_to_string(temp.path().join("trace.json")).unwrap();
    let events: Vec<Value> = serde_json::from_str(&text).unwrap();
    let names = events.iter().filter(|event| event["name"] == "process_name");
    let mut names: Vec<_> = names.map(|event| event["args"]["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["consumer", "worker 0", "worker 1"]);
    let mut ends = std::collections::HashMap::new();
    let mut bars = 0;
    for bar in events.iter().filter(|event| event["ph"] == "X") {
        let number = |name: &str| bar[name].as_u64().unwrap();
        let before = ends.insert(number("pid"), number("ts") + number("dur")).unwrap_or(0);
        // Both ends are cut to microseconds.
        assert!(before <= number("ts") + 1, "bars of a track overlap: {bar}");
        bars += 1;
    }
    assert_eq!(bars, 3 * Metrics::read(&temp.path().join("run.jsonl")).trained().len());
    // The report takes such a run, too.
    uvatrain(temp.path(), ["report", "run.jsonl", "--out", "run.html"]).run().succeeds();
    assert!(fs::metadata(temp.path().join("run.html")).unwrap().len() > 10_000);
}

#[test]
fn top_shows_workers_in_place_of_samplers_and_a_producer() {
    let temp = directory();
    small_graph(temp.path());
    // A port that was just free; the system does not assign such a number again for a while.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let options = format!("--epochs 100000 --prepare whole --samplers 2 --metrics-listen {port}");
    let mut run = train(temp.path(), "run.jsonl", &options).start();
    wait_for_batches(&mut run, &temp.path().join("run.jsonl"), 50);
    let outcome = uvatrain(temp.path(), ["top", &port.to_string(), "--once"]).run().succeeds();
    let row = |name: &str| {
        let line = outcome.stdout.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.map(|line| line.split_whitespace().nth(1).unwrap().to_owned())
    };
    assert_eq!(row("worker").as_deref(), Some("2"), "{outcome}");
    assert_eq!(row("feature").as_deref(), Some("3"), "{outcome}");
    assert!(row("consumer").is_some() && row("workers").is_some(), "{outcome}");
    for absent in ["sampler", "producer", "batch"] {
        assert_eq!(row(absent), None, "{outcome}");
    }
    kill_process(Pid::from_child(&run.child), Signal::INT).unwrap();
    run.wait().ends_with(130);
}

#[test]
fn options_that_workers_do_not_support_are_refused_with_an_alternative() {
    let temp = directory();
    small_graph(temp.path());
    for (options, parts) in [
        ("--gather-threads 2", ["--gather-threads", "--prepare roles"]),
        ("--batch-slots 8", ["--batch-slots", "--prepare roles"]),
        ("--pin-samplers", ["--pin-samplers", "--prepare roles"]),
        ("--slots 1", ["--slots 1", "2 or more"]),
        ("--gpu-cache 100KB --cache-policy fifo", ["--prepare whole", "--cache-policy fifo"]),
        ("--sampler gpu", ["--sampler gpu", "--prepare whole"]),
        ("--pin-cores=1-0", ["--pin-cores", "ends before it begins"]),
        ("--pin-cores=1023", ["--pin-cores 1023", "affinity mask has"]),
    ] {
        let line = format!("--epochs 1 --prepare whole {options}");
        train(temp.path(), "refused.jsonl", &line).run().refuses(2, &parts);
        assert!(!temp.path().join("refused.jsonl").exists(), "{options}");
    }
    let on_gpu = run_with(temp.path(), "--device cuda:0 --prepare whole", None, "attach").simulated();
    on_gpu.run().refuses(2, &["--prepare whole", "GPU 0", "--device cpu"]);
    train(temp.path(), "refused.jsonl", "--epochs 1 --pin-cores")
        .run()
        .refuses(2, &["--pin-cores", "--prepare whole"]);
}

#[test]
fn pinned_workers_stay_on_their_cores() {
    let temp = directory();
    small_graph(temp.path());
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).expect("an affinity mask");
    let allowed = line.split_whitespace().nth(1).unwrap();
    let first = allowed.split([',', '-']).next().unwrap();
    for (pin, own) in [("--pin-cores".to_owned(), None), (format!("--pin-cores={first}"), Some(first))] {
        let metrics = temp.path().join("pinned.jsonl");
        let _ = fs::remove_file(&metrics);
        let options = format!("--epochs 100000 --prepare whole --samplers 2 {pin}");
        let mut run = train(temp.path(), "pinned.jsonl", &options).start();
        let workers = role_of(&run, "worker");
        wait_for_batches(&mut run, &metrics, 10);
        let mut kept = Vec::new();
        for thread in fs::read_dir(format!("/proc/{}/task", workers.pid)).unwrap().flatten() {
            let read = |file| fs::read_to_string(thread.path().join(file)).unwrap();
            let status = read("status");
            let cores =
                status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
            // The last worker is the process's first thread.
            let is_first = thread.file_name().to_str() == Some(workers.pid.to_string().as_str());
            if is_first || read("comm").starts_with("uva-worker") {
                kept.push(cores.to_owned());
            } else {
                assert_eq!(cores, allowed, "{pin}: thread {}", read("comm"));
            }
        }
        assert_eq!(kept.len(), 2, "{pin}: {kept:?}");
        assert!(kept.iter().all(|cores| !cores.contains([',', '-'])), "{pin}: {kept:?}");
        assert!(kept.iter().all(|cores| own.is_none_or(|own| own == cores)), "{pin}: {kept:?}");
        let several = allowed.contains([',', '-']);
        assert_eq!(kept[0] != kept[1], several && own.is_none(), "{pin}: {kept:?}");
        workers.signal(Signal::KILL);
        run.wait().refuses(1, &["the process of the workers was killed by SIGKILL"]);
    }
}

/// A graph in which one training node has a thousand neighbours and all others one.
fn star(directory: &Path) {
    let graph = directory.join("graph");
    fs::create_dir(&graph).unwrap();
    let nodes: i64 = 1200;
    let mut indptr = vec![0, 1000];
    indptr.extend((1..nodes).map(|node| 1000 + node));
    let indices: Vec<i32> = (1..=1000).chain((1..nodes).map(|node| node as i32 - 1)).collect();
    let write = |name: &str, bytes: Vec<u8>| fs::write(graph.join(name), bytes).unwrap();
    write("indptr.npy", npy(&[indptr.len() as u64], false, &indptr));
    write("indices.npy", npy(&[indices.len() as u64], false, &indices));
    let features: Vec<f32> = (0..nodes * 4).map(|value| value as f32 / 4800.0).collect();
    write("feat.npy", npy(&[nodes as u64, 4], false, &features));
    write("label.npy", npy(&[nodes as u64], false, &(0..nodes).map(|node| node % 2).collect::<Vec<_>>()));
    write("train_idx.npy", npy(&[nodes as u64], false, &(0..nodes).collect::<Vec<_>>()));
    write("valid_idx.npy", npy::<i64>(&[1], false, &[5]));
    write("test_idx.npy", npy::<i64>(&[1], false, &[6]));
    write("meta.json", br#"{"name": "star", "classes": 2}"#.to_vec());
}

#[test]
fn a_worker_that_fails_ends_the_others_and_the_run_says_why() {
    let temp = directory();
    star(temp.path());
    fs::create_dir(temp.path().join("tmp")).unwrap();
    let before = Traces::now(&temp.path().join("tmp"));
    for more in ["--samplers 2", "--samplers 3", "--samplers 3 --in-process"] {
        // The batch with that node does not fit; all others do.
        let line = format!(
            "train graph --fanouts -1 --batch-size 10 --hidden 4 --train-threads 1 --device cpu --epochs 3 --slot-bytes 4KiB \
             --prepare whole {more}"
        );
        let run =
            uvatrain(temp.path(), line.split_whitespace()).env("TMPDIR", temp.path().join("tmp")).start();
        let outcome = run.wait().refuses(2, &["--slot-bytes"]);
        assert!(!outcome.stderr.contains("panicked"), "{outcome}");
        assert_eq!(before, Traces::now(&temp.path().join("tmp")), "{more}");
    }
}

/// Stops the roles at a moment when a slot before the consumer is in this state.
fn stop_all_in_state(roles: &[&Process], rings: &Rings, state: usize) {
    let since = Instant::now();
    for round in 0.. {
        for role in roles {
            role.signal(Signal::STOP);
        }
        for role in roles {
            wait_until(&format!("the {} is stopped", role.role), || role.is_stopped());
        }
        if rings.states(0).contains(&state) {
            return;
        }
        assert!(
            since.elapsed() < Duration::from_secs(180),
            "no moment was found when a slot is {}",
            STATES[state]
        );
        // Not yet: the roles continue, one of them slightly later than the other, so that slots run empty and full.
        let late = roles[round % roles.len()];
        for role in roles.iter().filter(|role| role.pid != late.pid) {
            role.signal(Signal::CONT);
        }
        thread::park_timeout(Duration::from_micros(700 * (round as u64 % 11)));
        late.signal(Signal::CONT);
        thread::park_timeout(Duration::from_micros(300 * (round as u64 % 7)));
    }
}

#[test]
#[ignore = "5 s of a core: scripts/measure/long_tests.sh"]
fn killed_workers_leave_nothing_and_a_resumed_run_has_the_same_losses() {
    let temp = directory();
    small_graph(temp.path());
    let temporary = temp.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let before = Traces::now(&temporary);
    let mut trained = std::collections::BTreeMap::new();
    for role in ["worker", "consumer"] {
        for (state, state_name) in STATES.iter().enumerate() {
            let name = format!("{role}-{state_name}.jsonl");
            let options = "--epochs 100000 --prepare whole --samplers 2 --checkpoint kept --checkpoint-every 2 --resume";
            let mut run = train(temp.path(), &name, options).env("TMPDIR", &temporary).start();
            let processes = processes_of(&run, 0);
            wait_for_batches(&mut run, &temp.path().join(&name), 4);
            let one =
                |role: &str| processes.iter().find(|process| process.role == role).expect("it was started");
            let (workers, consumer) = (one("worker"), one("consumer"));
            stop_all_in_state(&[workers, consumer], &Rings::of(workers, &["feature"]), state);
            one(role).signal(Signal::KILL);
            for process in [workers, consumer] {
                let _ = process.try_signal(Signal::CONT);
            }
            let named = if role == "worker" { "the process of the workers" } else { "the consumer" };
            let outcome = run.wait().refuses(1, &[named, "killed by SIGKILL ", "epoch ", "--resume"]);
            assert!(!outcome.stderr.contains("panicked"), "{outcome}");
            for process in &processes {
                wait_until(&format!("the {} ends", process.role), || process.has_ended());
            }
            assert_eq!(before, Traces::now(&temporary), "{role}, {state_name}");
            assert_eq!(checkpoint_files(&temp.path().join("kept")).len(), 2, "{role}, {state_name}");
            for (epoch, batch, hash, loss) in Metrics::read(&temp.path().join(&name)).trained() {
                let known = trained.entry((epoch, batch)).or_insert_with(|| (hash.clone(), loss.clone()));
                assert_eq!(*known, (hash, loss), "epoch {epoch}, batch {batch}: {role}, {state_name}");
            }
        }
    }
    let (&(last, _), _) = trained.last_key_value().unwrap();
    let roles = format!("--epochs {} --samplers 1 --gather-threads 1", last + 1);
    train(temp.path(), "roles.jsonl", &roles).run().succeeds();
    let undisturbed = Metrics::read(&temp.path().join("roles.jsonl")).trained();
    let undisturbed: std::collections::BTreeMap<_, _> =
        undisturbed.into_iter().map(|(epoch, batch, hash, loss)| ((epoch, batch), (hash, loss))).collect();
    for (at, batch) in &trained {
        assert_eq!(undisturbed.get(at), Some(batch), "epoch and batch {at:?}");
    }
}

#[test]
fn a_dry_run_shows_workers_in_one_process_and_no_ring_of_batches() {
    let temp = directory();
    small_graph(temp.path());
    let line = format!("{TRAIN} --prepare whole --samplers 3 --slots 3 --dry-run --json");
    let outcome = uvatrain(temp.path(), line.split_whitespace()).run().succeeds();
    let told: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let stages = told["stages"].as_array().unwrap().iter().map(|stage| {
        let word = |name: &str| stage[name].as_str().unwrap_or_default().to_owned();
        [word("stage"), word("runs"), word("writes")]
    });
    let wanted = [
        ["worker 0", "process 1", "feature"],
        ["worker 1", "process 1", "feature"],
        ["worker 2", "process 1", "feature"],
        ["consumer", "process 2", ""],
    ];
    assert_eq!(stages.collect::<Vec<_>>(), wanted);
    let rings = told["rings"].as_array().unwrap();
    assert_eq!(rings.len(), 1);
    assert_eq!((&rings[0]["ring"], &rings[0]["slots"]), (&"feature".into(), &5.into()));
}
