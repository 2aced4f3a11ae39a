//! Training on hop sets in whole programs: equal losses on every path of the rows, orders that can be recomputed,
//! faults of roles, refusals with a remedy.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use uva_graph::Split;
use uva_graph::npy::{NpyArray, NpyType};
use uva_sample::{ChunkOrder, rows_hash};

use crate::support::arrays::npy;
use crate::support::extent::some_of;
use crate::support::runs::{
    Metrics, Traces, checkpoint_files, processes_of, small_graph, wait_for_batches, wait_until,
};
use crate::support::{Outcome, Uvatrain, directory, uvatrain};

const TRAIN: &str = "--batch-size 100 --hidden 16 --lr 0.05 --train-threads 1";

fn call(directory: &Path, line: &str) -> Uvatrain {
    uvatrain(directory, line.split_whitespace())
}

/// A hop set of the small graph, in `name`.
fn propagated(directory: &Path, name: &str, options: &str) {
    if !directory.join("graph").exists() {
        small_graph(directory);
    }
    call(directory, &format!("propagate graph {name} {options}")).run().succeeds();
}

fn train(directory: &Path, set: &str, metrics: &str, extra: &str) -> Uvatrain {
    call(directory, &format!("train {set} {TRAIN} --metrics {metrics} {extra}"))
}

/// Hashes and losses of all batches, the validation of each epoch, and the test.
type Learned = (Vec<(u64, u64, String, String)>, Vec<String>, String);

fn learned(directory: &Path, set: &str, options: &str) -> Learned {
    let _ = fs::remove_file(directory.join("run.jsonl"));
    train(directory, set, "run.jsonl", options).run().succeeds();
    let metrics = Metrics::read(&directory.join("run.jsonl"));
    let valid = metrics.of("epoch").map(|epoch| epoch["valid_accuracy"].to_string()).collect();
    let end = metrics.of("end").last().expect("an end");
    (metrics.trained(), valid, end["test_accuracy"].to_string())
}

fn last(directory: &Path, event: &str) -> Value {
    Metrics::read(&directory.join("run.jsonl")).of(event).last().expect(event).clone()
}

fn start(directory: &Path) -> Value {
    last(directory, "start")
}

#[test]
#[ignore = "10 s of a core: scripts/measure/long_tests.sh"]
fn slots_workers_processes_and_layouts_change_no_loss() {
    let temp = directory();
    propagated(temp.path(), "hops", "--hops 3");
    propagated(temp.path(), "rows", "--hops 3 --layout rows");
    for model in ["sgc", "sign", "hoga --heads 2"] {
        let run = |set: &str, more: &str| {
            learned(
                temp.path(),
                set,
                &format!("--epochs 2 --model {model} --shuffle chunks --chunk 30 {more}"),
            )
        };
        let expected = run("hops", "--in-process --samplers 1");
        assert_eq!((expected.1.len(), expected.0.len() % 2), (2, 0));
        assert!(expected.0.len() > 20);
        for more in some_of(&[
            "--in-process --slots 1 --samplers 1",
            "--in-process --slots 3 --samplers 1",
            "--in-process --samplers 3",
            "--samplers 1",
            "--slots 1 --samplers 2",
        ]) {
            assert_eq!(run("hops", more), expected, "{model} {more}");
        }
        for more in ["--in-process", ""] {
            assert_eq!(run("rows", more), expected, "{model} {more}");
        }
        let accuracy: f64 = expected.2.parse().unwrap();
        assert!(accuracy > 0.5, "{model} learns: {accuracy}");
    }
}

#[test]
#[ignore = "4 s of a core: scripts/measure/long_tests.sh"]
fn some_hops_of_a_set_train_as_a_set_with_only_those_hops() {
    let temp = directory();
    for (three, two, options, model) in some_of(&[
        ("one3", "one2", "", "sgc"),
        ("one3", "one2", "", "sign"),
        ("all3", "all2", "--operator sym,row", "sign"),
        ("rows3", "all2", "--operator sym,row --layout rows", "sign"),
    ]) {
        for (name, hops, options) in [(three, 3, options), (two, 2, &*options.replace("--layout rows", ""))] {
            if !temp.path().join(name).exists() {
                propagated(temp.path(), name, &format!("--hops {hops} {options}"));
            }
        }
        let run = |set: &str, more: &str| {
            learned(temp.path(), set, &format!("--epochs 2 --in-process --model {model} {more}"))
        };
        let expected = run(two, "");
        assert_eq!(run(three, "--use-hops 2"), expected, "{model} {options}");
        assert_ne!(run(three, "").0, expected.0, "{model} {options}");
    }
}

#[test]
fn narrow_rows_are_trained_on_and_differ_by_their_rounding_alone() {
    let temp = directory();
    propagated(temp.path(), "f32", "");
    let first = |set: &str| -> f64 {
        let found = learned(temp.path(), set, "--epochs 1 --in-process --model sgc");
        found.0[0].3.parse().unwrap()
    };
    let expected = first("f32");
    for name in ["f16", "bf16"] {
        propagated(temp.path(), name, &format!("--type {name}"));
        let found = first(name);
        assert!((found - expected).abs() < 0.02 && found != expected, "{name}: {found}, {expected}");
    }
}

/// Number of rows in the batches of this many epochs, their validation and a test, and number of runs of consecutive
/// rows.
fn rows_and_runs(set: &Path, epochs: u32, chunk: usize) -> (usize, usize) {
    let description: Value = serde_json::from_slice(&fs::read(set.join("hops.json")).unwrap()).unwrap();
    let (mut rows, mut runs) = (0, 0);
    for (split, passes) in [(Split::Train, epochs), (Split::Valid, epochs), (Split::Test, 1)] {
        let of = |end: usize| description["splits"][split.name()][end].as_u64().unwrap() as usize;
        let count = of(1) - of(0);
        let chunk = (split == Split::Train).then_some(chunk);
        let mut order = ChunkOrder::new(5, split, count, chunk, 100, false).unwrap();
        for epoch in 0..passes {
            order.prepare(epoch).unwrap();
            rows += count;
            runs += (0..order.batches()).map(|batch| order.batch(batch).count()).sum::<usize>();
        }
    }
    (rows, runs)
}

#[test]
fn rows_from_disk_have_the_losses_of_memory_and_read_only_needed_pages() {
    let temp = directory();
    propagated(temp.path(), "hops", "--hops 3");
    propagated(temp.path(), "rows", "--hops 3 --layout rows");
    for (order, chunk) in [("--shuffle chunks --chunk 30", 30), ("", 1)] {
        let run = |set: &str, more: &str| {
            learned(temp.path(), set, &format!("--epochs 2 --seed 5 --model sign {order} {more}"))
        };
        let expected = run("hops", "--in-process --place host");
        assert_eq!(start(temp.path())["in_force"]["hops"]["place"], "host");
        assert!(last(temp.path(), "end").get("disk").is_none());
        let (rows, runs) = rows_and_runs(&temp.path().join("hops"), 2, chunk);
        let ways = [
            ("hops", 4, "--features disk"),
            ("rows", 1, "--place disk --reader mmap --samplers 3 --slots 1"),
            ("hops", 4, "--place disk --reader pread --samplers 2 --in-process"),
            ("rows", 1, "--place disk --features disk --in-process"),
        ];
        // Every way with chunks.
        for (set, files, more) in ways.into_iter().take(if chunk > 1 { 4 } else { 2 }) {
            assert_eq!(run(set, more), expected, "{set} {order} {more}");
            let (start, end) = (start(temp.path()), last(temp.path(), "end"));
            let hops = &start["in_force"]["hops"];
            assert_eq!((&hops["place"], &hops["reason"]), (&"disk".into(), &"requested".into()), "{start}");
            assert_eq!(start["in_force"]["features"]["from"], "disk");
            let number = |name: &str| end["disk"][name].as_u64().unwrap() as usize;
            // Four hops of 24 float32.
            assert_eq!(number("bytes_asked"), rows * 4 * 96, "{set} {more}");
            let read = number("bytes_read");
            assert!(
                read >= rows * 4 * 96 && read <= rows * 4 * 96 + 8192 * runs * files,
                "{set} {more}: {end}"
            );
            assert!(number("reads") > 0 && number("reads") <= runs * files, "{set} {more}: {end}");
        }
    }
}

#[test]
fn a_hop_file_truncated_or_replaced_under_a_run_ends_it_by_name() {
    let temp = directory();
    propagated(temp.path(), "hops", "");
    let file = temp.path().join("hops/sym.2.npy");
    let whole = fs::read(&file).unwrap();
    for (mode, replaced, says) in [("", false, "and has 4096"), ("--in-process", true, "another file")] {
        fs::write(&file, &whole).unwrap();
        let options = format!("--model sign --shuffle chunks --chunk 50 --epochs 100000 --place disk {mode}");
        let mut run = train(temp.path(), "hops", "changed.jsonl", &options).start();
        wait_for_batches(&mut run, &temp.path().join("changed.jsonl"), 3);
        if replaced {
            fs::write(file.with_extension("new"), &whole).unwrap();
            fs::rename(file.with_extension("new"), &file).unwrap();
        } else {
            fs::File::options().write(true).open(&file).unwrap().set_len(4096).unwrap();
        }
        let ended = run.wait().ends_with(1);
        for what in ["hops/sym.2.npy: it changed while it was read", says] {
            assert!(ended.stderr.contains(what), "{mode}: {}", ended.stderr);
        }
        fs::remove_file(temp.path().join("changed.jsonl")).unwrap();
    }
}

/// Hashes of the training batches of an epoch, computed from the hop set's files and random words.
fn expected_hashes(set: &Path, epoch: u32, chunk: usize) -> Vec<String> {
    let description: Value = serde_json::from_slice(&fs::read(set.join("hops.json")).unwrap()).unwrap();
    let rows = description["splits"]["train"][1].as_u64().unwrap() as usize;
    let nodes = NpyArray::open(&set.join("node_idx.npy")).unwrap();
    let nodes: &[i64] = nodes.elements(NpyType::I64).unwrap();
    let mut order = ChunkOrder::new(5, Split::Train, rows, Some(chunk), 100, false).unwrap();
    order.prepare(epoch).unwrap();
    let of_batch = |batch| {
        let nodes: Vec<i64> = order.batch(batch).flatten().map(|row| nodes[row]).collect();
        format!("{:016x}", rows_hash(&nodes))
    };
    (0..order.batches()).map(of_batch).collect()
}

#[test]
#[ignore = "3 s of a core: scripts/measure/long_tests.sh"]
fn an_epochs_order_can_be_recomputed_and_chunks_of_one_row_shuffle_fully() {
    let temp = directory();
    propagated(temp.path(), "hops", "");
    let run = |more: &str| {
        learned(temp.path(), "hops", &format!("--epochs 2 --in-process --model sgc --seed 5 {more}"))
    };
    let full = run("");
    assert_eq!(start(temp.path())["in_force"]["hops"]["chunk"], 1);
    assert_eq!(run("--shuffle chunks --chunk 1"), full);
    for (chunk, found) in [(1, full.clone()), (7, run("--shuffle chunks --chunk 7"))] {
        for epoch in 0..2 {
            let of_epoch = found.0.iter().filter(|batch| batch.0 == u64::from(epoch));
            let hashes: Vec<String> = of_epoch.map(|batch| batch.2.clone()).collect();
            assert_eq!(hashes, expected_hashes(&temp.path().join("hops"), epoch, chunk), "{chunk} {epoch}");
        }
    }
    // Rows of 96 bytes: a chunk of a mebibyte would be larger than a batch.
    assert_ne!(run("--shuffle chunks").0, full.0);
    assert_eq!(start(temp.path())["in_force"]["hops"]["chunk"], 100);
}

#[test]
fn an_interrupted_run_resumes_at_the_next_batch_with_the_same_losses() {
    let temp = directory();
    propagated(temp.path(), "hops", "");
    for (mode, name) in [("", "processes"), ("--in-process", "threads")] {
        let parts = format!("{name}.jsonl");
        let path = temp.path().join(&parts);
        let options = format!("--model sgc --shuffle chunks --chunk 13 --checkpoint {name} {mode}");
        // The run would continue for minutes, so a signal at any time arrives before its end.
        let mut run = train(temp.path(), "hops", &parts, &format!("--epochs 100000 {options}")).start();
        wait_for_batches(&mut run, &path, 25);
        kill_process(Pid::from_child(&run.child), Signal::INT).unwrap();
        run.wait().refuses(130, &["SIGINT"]);
        let before = Metrics::read(&path).trained();
        let epochs = before.last().unwrap().0 + 2;
        let more = format!("--epochs {epochs} {options} --resume");
        train(temp.path(), "hops", &parts, &more).run().succeeds();
        let whole = format!("--model sgc --shuffle chunks --chunk 13 --epochs {epochs} {mode}");
        let expected = learned(temp.path(), "hops", &whole).0;
        let after = Metrics::read(&path).trained();
        assert!(before.len() < after.len());
        assert_eq!(after, expected, "{name}");
    }
    // An option that would change batches or rows is refused by name.
    let options = "--model sgc --checkpoint processes --resume --epochs 200000";
    let refused =
        train(temp.path(), "hops", "r.jsonl", &format!("{options} --shuffle chunks --chunk 12")).run();
    refused.refuses(2, &["chunk"]);
    propagated(temp.path(), "others", "--hops 2");
    let refused =
        train(temp.path(), "others", "r.jsonl", &format!("{options} --shuffle chunks --chunk 13")).run();
    refused.refuses(2, &["dataset"]);
}

#[test]
fn early_stopping_ends_the_worker_too() {
    let temp = directory();
    propagated(temp.path(), "hops", "");
    let options = "--model sgc --epochs 500 --patience 2";
    let expected = learned(temp.path(), "hops", &format!("{options} --in-process"));
    assert!(expected.1.len() < 500, "it stopped early");
    assert_eq!(learned(temp.path(), "hops", &format!("{options} --samplers 2")), expected);
}

#[test]
fn a_killed_role_leaves_nothing_and_the_run_resumes_with_equal_losses() {
    let temp = directory();
    propagated(temp.path(), "hops", "");
    let temporary = temp.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let before = Traces::now(&temporary);
    let mut trained = BTreeMap::new();
    for (turn, role) in ["worker", "consumer", "worker"].into_iter().enumerate() {
        let name = format!("{turn}.jsonl");
        let options =
            "--model sgc --epochs 100000 --samplers 2 --checkpoint kept --checkpoint-every 2 --resume";
        let mut run = train(temp.path(), "hops", &name, options).env("TMPDIR", &temporary).start();
        let processes = processes_of(&run, 0);
        wait_for_batches(&mut run, &temp.path().join(&name), 4);
        let one = processes.iter().find(|process| process.role == role).expect("it was started");
        one.signal(Signal::KILL);
        let named = if role == "worker" { "the process of the workers" } else { "the consumer" };
        let outcome = run.wait().refuses(1, &[named, "killed by SIGKILL ", "epoch ", "--resume"]);
        assert!(!outcome.stderr.contains("panicked"), "{outcome}");
        for process in &processes {
            wait_until(&format!("the {} ends", process.role), || process.has_ended());
        }
        assert_eq!(before, Traces::now(&temporary), "{role}");
        assert_eq!(checkpoint_files(&temp.path().join("kept")).len(), 2, "{role}");
        for (epoch, batch, hash, loss) in Metrics::read(&temp.path().join(&name)).trained() {
            let known = trained.entry((epoch, batch)).or_insert_with(|| (hash.clone(), loss.clone()));
            assert_eq!(*known, (hash, loss), "epoch {epoch}, batch {batch}: {role}");
        }
    }
    let epochs = trained.last_key_value().unwrap().0.0 + 1;
    let undisturbed = learned(temp.path(), "hops", &format!("--model sgc --epochs {epochs} --in-process")).0;
    let undisturbed: BTreeMap<_, _> =
        undisturbed.into_iter().map(|(epoch, batch, hash, loss)| ((epoch, batch), (hash, loss))).collect();
    for (at, batch) in &trained {
        assert_eq!(undisturbed.get(at), Some(batch), "epoch and batch {at:?}");
    }
}

#[test]
fn unsupported_options_of_a_hop_set_are_refused_by_name() {
    let temp = directory();
    propagated(temp.path(), "hops", "");
    for (options, parts) in [
        // Also where the value is the default.
        ("--fanouts 15,10,5", ["--fanouts", "hop set"]),
        ("--sampler-kind labor", ["--sampler-kind", "hop set"]),
        ("--replace", ["--replace", "hop set"]),
        ("--prepare whole", ["--prepare", "hop set"]),
        ("--batch-slots 8", ["--batch-slots", "hop set"]),
        ("--gather-threads 1", ["--gather-threads", "hop set"]),
        ("--slot-bytes 1GiB", ["--slot-bytes", "hop set"]),
        ("--gpu-cache 1MiB", ["--gpu-cache", "hop set"]),
        ("--input-nodes nodes.npy", ["--input-nodes", "hop set"]),
        ("--chunk 5", ["--chunk", "--shuffle chunks"]),
        ("--chunk 0 --shuffle chunks", ["--chunk", "auto, or 1 or more"]),
        ("--chunk 101 --shuffle chunks", ["--chunk 101", "expected at most"]),
        ("--eval full", ["--eval", ""]),
        ("--use-hops 4", ["--use-hops 4", "3"]),
        ("--place disk --features memory", ["--place disk", "--features memory"]),
        ("--place host --features disk", ["--place host", "--features disk"]),
        ("--features memory --reader pread", ["--reader", "--features"]),
    ] {
        let refused = train(temp.path(), "hops", "refused.jsonl", &format!("--model sgc {options}")).run();
        refused.refuses(2, &parts);
        assert!(!temp.path().join("refused.jsonl").exists(), "{options}");
    }
    // The remedies for a model or an option with the wrong data.
    let call = |line: &str| call(temp.path(), line).run();
    call("train hops --model sage").refuses(2, &["--model sage", "sgc"]);
    call("train graph --model sgc").refuses(2, &["--model sgc", "uvatrain propagate"]);
    call("train graph --shuffle chunks").refuses(2, &["--shuffle", "uvatrain propagate"]);
    call("train graph --chunk 5").refuses(2, &["--chunk", "uvatrain propagate"]);
    call("train graph --place disk").refuses(2, &["--place", "uvatrain propagate"]);
    call("train graph --shuffle full --epochs 1 --device cpu").succeeds();
    for command in ["run hops -- true", "plan hops --gpu-cache 1MiB", "export hops out --to npy"] {
        let refused: Outcome = call(command);
        assert_eq!(refused.code(), 2, "{refused}");
    }
    call("run hops -- true").refuses(2, &["hops.json", "this is a hop set", "uvatrain train"]);
}

#[test]
fn hop_sets_that_cannot_be_trained_on_are_refused_by_file() {
    let temp = directory();
    propagated(temp.path(), "hops", "");
    let set = temp.path().join("hops");
    let refused = |parts: &[&str]| {
        train(temp.path(), "hops", "refused.jsonl", "--model sgc").run().refuses(2, parts);
        assert!(!temp.path().join("refused.jsonl").exists(), "{parts:?}");
    };
    let changed = |name: &str, change: &dyn Fn(&mut Vec<u8>), parts: &[&str]| {
        let (path, good) = (set.join(name), fs::read(set.join(name)).unwrap());
        let mut bytes = good.clone();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        refused(parts);
        fs::write(&path, good).unwrap();
    };
    changed("sym.3.npy", &|bytes| bytes.truncate(5000), &["sym.3.npy", "5000 bytes", "truncated"]);
    changed("hops.json", &|bytes| bytes.truncate(100), &["hops.json"]);
    // The last label.
    let wrong = |bytes: &mut Vec<u8>| {
        let end = bytes.len();
        bytes[end - 8..].copy_from_slice(&77_i64.to_le_bytes());
    };
    changed("label.npy", &wrong, &["label.npy", "77"]);
    fs::remove_file(set.join("x.npy")).unwrap();
    refused(&["x.npy"]);
    // All rows of a graph without training nodes.
    let graph = temp.path().join("graph");
    fs::write(graph.join("train_idx.npy"), npy::<i64>(&[0], false, &[])).unwrap();
    call(temp.path(), "propagate graph all --nodes all").run().succeeds();
    let outcome = train(temp.path(), "all", "refused.jsonl", "--model sgc").run();
    outcome.refuses(2, &["all", "no training rows"]);
}

#[test]
fn what_a_run_takes_and_reads_is_shown() {
    let temp = directory();
    propagated(temp.path(), "hops", "--operator sym,row --hops 3");
    let line =
        format!("train hops {TRAIN} --model sign --use-hops 2 --dry-run --json --samplers 2 --slots 3");
    let told = call(temp.path(), &line).run().succeeds().json();
    let stages = told["stages"].as_array().unwrap().iter().map(|stage| {
        let word = |name: &str| stage[name].as_str().unwrap_or_default().to_owned();
        [word("stage"), word("runs"), word("writes")]
    });
    let wanted = [
        ["worker 0", "process 1", "feature"],
        ["worker 1", "process 1", "feature"],
        ["consumer", "process 2", ""],
    ];
    assert_eq!(stages.collect::<Vec<_>>(), wanted);
    let rings = told["rings"].as_array().unwrap();
    assert_eq!(rings.len(), 1);
    assert_eq!(rings[0]["slots"], 4);
    // Five tables of 100 rows of 24 float32, and little more.
    let bytes = rings[0]["slot_bytes"].as_u64().unwrap();
    assert!((5 * 100 * 96..5 * 100 * 96 + 16_384).contains(&bytes), "{told}");
    let line = "--epochs 1 --model sign --use-hops 2 --samplers 1";
    let _ = learned(temp.path(), "hops", line);
    let start = start(temp.path());
    assert_eq!(start["in_force"]["hops"]["tables"], serde_json::json!([0, 1, 2, 4, 5]), "{start}");
    assert_eq!(
        (&start["in_force"]["prepare"], &start["in_force"]["device"]),
        (&"whole".into(), &"cpu".into())
    );
    let rows = NpyArray::open(&temp.path().join("hops/node_idx.npy")).unwrap().shape()[0];
    assert_eq!(
        (&start["dataset"]["nodes"], &start["dataset"]["edges"]),
        (&rows.into(), &0.into()),
        "{start}"
    );
    assert_eq!(start["dataset"]["hop_set"], serde_json::json!({ "hops": 3, "operators": 2 }), "{start}");
    let outcome = train(temp.path(), "hops", "run.jsonl", line).run().succeeds();
    assert!(outcome.stderr.contains(&format!("{rows} rows, 5 of 7 tables read, rows shuffled")), "{outcome}");
    // The place of the rows, and the reason.
    let hops = &start["in_force"]["hops"];
    assert_eq!(hops["place"], "host");
    let reason = hops["reason"].as_str().unwrap();
    assert!(reason.starts_with("the hop set, of which 0.00 GiB are read, fits into the "), "{start}");
    assert!(outcome.stderr.contains("rows are read from host memory: the hop set"), "{outcome}");
}
