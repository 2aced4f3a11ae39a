//! Training on hop sets on a GPU, under the stand-in for NVIDIA's driver: the losses and hashes of the CPU, for every
//! place of the rows and every division of the GPU.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use uva_graph::npy::NpyArray;

use crate::support::extent::some_of;
use crate::support::mps::Machine;
use crate::support::runs::{Metrics, small_graph, wait_for_batches};
use crate::support::{Outcome, Uvatrain, directory, uvatrain};

const TRAIN: &str = "--batch-size 100 --hidden 16 --lr 0.05 --train-threads 1";

fn propagated(directory: &Path, name: &str, options: &str) {
    if !directory.join("graph").exists() {
        small_graph(directory);
    }
    uvatrain(directory, format!("propagate graph {name} {options}").split_whitespace()).run().succeeds();
}

fn train(directory: &Path, set: &str, options: &str) -> Uvatrain {
    let _ = fs::remove_file(directory.join("run.jsonl"));
    uvatrain(directory, format!("train {set} {TRAIN} --metrics run.jsonl {options}").split_whitespace())
}

/// Enqueued work is delayed by a little, by a varying time: an order that holds by chance does not hold then.
fn on_gpu(directory: &Path, set: &str, options: &str) -> Uvatrain {
    let options = format!("--device cuda:0 {options}");
    train(directory, set, &options).simulated().env("CUDA_SIM_DELAY_US", "200")
}

/// Hashes and losses of all batches, the validation of each epoch, and the test.
type Learned = (Vec<(u64, u64, String, String)>, Vec<String>, String);

/// The results of a successful run, its start and its end.
fn learned(directory: &Path, run: Uvatrain) -> (Learned, Value, Value) {
    run.run().succeeds();
    let metrics = Metrics::read(&directory.join("run.jsonl"));
    let valid = metrics.of("epoch").map(|epoch| epoch["valid_accuracy"].to_string()).collect();
    let end = metrics.of("end").last().expect("an end").clone();
    let start = metrics.of("start").last().expect("a start")["in_force"].clone();
    ((metrics.trained(), valid, end["test_accuracy"].to_string()), start, end)
}

#[test]
fn losses_and_hashes_equal_the_cpus_for_all_places_and_partitions() {
    let temp = directory();
    propagated(temp.path(), "hops", "--hops 3");
    propagated(temp.path(), "rows", "--hops 3 --layout rows");
    for (model, ways) in [
        (
            "sign",
            &[
                ("hops", "gpu", "--partition none --slots 1 --features disk"),
                ("hops", "host", "--partition none --gather-threads 3"),
                ("hops", "disk", "--partition none --slots 1 --ipc-signals stamps"),
                ("rows", "host", "--partition green --samplers 2 --slots 3 --gather-threads 2"),
                ("rows", "disk", "--in-process --reader pread"),
                ("rows", "gpu", "--partition green --slots 3 --samplers 2"),
            ][..],
        ),
        (
            "hoga --heads 2 --use-hops 2",
            &[("hops", "host", "--partition grid"), ("rows", "gpu", "--in-process --ipc-signals stamps")],
        ),
    ] {
        let options = format!("--epochs 2 --model {model} --shuffle chunks --chunk 30");
        let cpu = train(temp.path(), "hops", &format!("{options} --device cpu --in-process"));
        let expected = learned(temp.path(), cpu).0;
        assert!(expected.0.len() > 20 && expected.1.len() == 2);
        for (set, place, way) in some_of(ways) {
            let run = on_gpu(temp.path(), set, &format!("{options} --place {place} {way}"));
            let (found, start, end) = learned(temp.path(), run);
            assert_eq!(found, expected, "{model} {set} {place} {way}");
            let gather = if place == "gpu" { "device" } else { "dma" };
            assert_eq!((&start["device"], &start["gather"]), (&"cuda:0".into(), &gather.into()), "{start}");
            let hops = &start["hops"];
            assert_eq!((&hops["place"], &hops["reason"]), (&place.into(), &"requested".into()), "{start}");
            let read = end["disk"]["bytes_asked"].as_u64();
            assert_eq!(read.is_some_and(|bytes| bytes > 0), start["features"]["from"] == "disk", "{end}");
            assert_eq!(start["features"]["from"] == "disk", place == "disk" || way.contains("disk"));
        }
    }
}

/// The stand-in's mode of training as on a GPU: batches stay in place, and the consumer runs ahead.
#[test]
#[ignore = "4 s of a core: scripts/measure/long_tests.sh"]
fn a_consumer_that_takes_batches_in_place_has_the_cpus_losses_rounded() {
    let temp = directory();
    propagated(temp.path(), "half", "--hops 2 --type f16");
    for model in ["sign --dropout 0", "hoga --heads 2 --dropout 0"] {
        let options = format!("--epochs 2 --model {model}");
        let cpu = learned(temp.path(), train(temp.path(), "half", &format!("{options} --device cpu"))).0;
        let place = if model.starts_with('s') { "gpu" } else { "host" };
        let run = on_gpu(temp.path(), "half", &format!("{options} --partition none --place {place}"));
        let gpu = learned(temp.path(), run.env("CUDA_SIM_DROPOUT", "device")).0;
        assert_eq!(gpu.0.len(), cpu.0.len());
        for (one, other) in cpu.0.iter().zip(&gpu.0) {
            assert_eq!((one.0, one.1, &one.2), (other.0, other.1, &other.2), "{model}");
            let number = |text: &str| text.parse::<f64>().unwrap();
            let (one, other) = (number(&one.3), number(&other.3));
            assert!((one - other).abs() <= 1e-3 * one.abs(), "{model}: losses {one} and {other}");
        }
    }
}

#[test]
fn under_mps_the_losses_are_those_of_the_cpu() {
    let machine = Machine::new();
    let folder = machine.folder.path();
    propagated(folder, "hops", "--hops 2");
    let options = "--epochs 1 --model sign";
    let expected = learned(folder, train(folder, "hops", &format!("{options} --device cpu"))).0;
    let run = on_gpu(folder, "hops", &format!("{options} --mps require --place gpu"));
    let run = machine.with(run).env("CUDA_MPS_PIPE_DIRECTORY", "");
    assert_eq!(learned(folder, run).0, expected);
    machine.assert_clean();
}

#[test]
fn a_gpu_run_resumes_from_a_cpu_checkpoint_and_its_faults_name_the_file() {
    let temp = directory();
    propagated(temp.path(), "hops", "--hops 2");
    let options = "--model sign --shuffle chunks --chunk 13";
    let expected = learned(temp.path(), train(temp.path(), "hops", &format!("{options} --epochs 2"))).0;
    let kept = format!("{options} --checkpoint kept --device cpu --epochs 1");
    train(temp.path(), "hops", &kept).run().succeeds();
    let more = format!("{options} --checkpoint kept --epochs 2 --resume --partition none --place host");
    let found = learned(temp.path(), on_gpu(temp.path(), "hops", &more)).0;
    let second: Vec<_> = expected.0.iter().filter(|batch| batch.0 == 1).cloned().collect();
    assert_eq!((found.0, found.2), (second, expected.2));
    // The producer reads the files.
    let endless = format!("{options} --place disk --epochs 100000 --partition none");
    let mut run = on_gpu(temp.path(), "hops", &endless).start();
    wait_for_batches(&mut run, &temp.path().join("run.jsonl"), 3);
    fs::File::options().write(true).open(temp.path().join("hops/x.npy")).unwrap().set_len(4096).unwrap();
    let ended = run.wait().ends_with(1);
    assert!(ended.stderr.contains("hops/x.npy: it changed while it was read"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("feat.npy"), "{}", ended.stderr);
}

#[test]
#[ignore = "5 s of a core: scripts/measure/long_tests.sh"]
fn auto_puts_training_rows_where_a_batch_leaves_room_and_says_why() {
    let temp = directory();
    propagated(temp.path(), "hops", "--hops 2");
    let options = "--epochs 1 --model sgc --partition none";
    let run = |more: &str, memory: &str| {
        let run = on_gpu(temp.path(), "hops", &format!("{options} {more}")).env("CUDA_SIM_MEMORY", memory);
        let outcome = run.run().succeeds();
        let metrics = Metrics::read(&temp.path().join("run.jsonl"));
        let hops = metrics.of("start").last().expect("a start")["in_force"]["hops"].clone();
        (
            hops["place"].as_str().unwrap().to_owned(),
            hops["reason"].as_str().unwrap().to_owned(),
            outcome.stderr,
        )
    };
    let (place, reason, told) = run("", "17179869184");
    assert_eq!(place, "gpu", "{told}");
    assert!(reason.starts_with("0.00 GiB of training rows fit into the "), "{reason}");
    assert!(told.contains("training rows are in the GPU's memory: 0.00 GiB"), "{told}");
    assert!(told.contains("--place auto: one training batch left"), "{told}");
    // At least 256 MiB are kept in reserve.
    let (place, reason, told) = run("", "200000000");
    assert_eq!(place, "host", "{told}");
    assert!(reason.contains("training rows do not fit into the 0.00 GiB that a batch leaves"), "{reason}");
    let (place, reason, _) = run("--in-process", "17179869184");
    assert_eq!(place, "host");
    assert!(reason.contains("--in-process"), "{reason}");
}

#[test]
fn what_a_run_takes_is_shown_and_options_without_use_are_refused() {
    let temp = directory();
    propagated(temp.path(), "hops", "--hops 2");
    let line = "--model sign --dry-run --json --slots 3";
    let told = on_gpu(temp.path(), "hops", line).run().succeeds().json();
    let stages: Vec<&str> =
        told["stages"].as_array().unwrap().iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["sampler", "producer", "consumer"], "{told}");
    let bytes = |item: &str| {
        let lines = told["memory"].as_array().unwrap().iter();
        let mut found = lines.filter(|line| line["item"] == item).map(|line| line["bytes"].as_u64().unwrap());
        found.next().unwrap_or_else(|| panic!("no {item} in {told}"))
    };
    // Three slots of three tables of 100 rows of 24 float32, and little more.
    let rows = 3 * 3 * 100 * 96;
    assert!((rows..rows + 3 * 16_384).contains(&bytes("feature slots")), "{told}");
    assert!((rows..rows + 3 * 4096).contains(&bytes("staging of rows")), "{told}");
    for option in
        ["--gather zero-copy", "--kernel wide", "--sampler gpu", "--gpu-slots largest", "--table-pages thp"]
    {
        let refused = on_gpu(temp.path(), "hops", &format!("--model sign {option}")).run();
        refused.refuses(2, &[option.split(' ').next().unwrap(), "hop set"]);
    }
    let told = on_gpu(temp.path(), "hops", &format!("{line} --place gpu")).run().succeeds().json();
    let train = NpyArray::open(&temp.path().join("graph/train_idx.npy")).unwrap().shape()[0] as u64;
    let rows =
        told["memory"].as_array().unwrap().iter().find(|line| line["item"] == "training rows").unwrap();
    assert_eq!((&rows["kind"], &rows["bytes"]), (&"device".into(), &(train * 3 * 96).into()));
    let on_cpu = train_on(&temp, "--model sign --place gpu --device cpu");
    on_cpu.refuses(2, &["--place gpu", "--device cuda:0"]);
    // Without a GPU, a requested one is missing.
    let lacking = train_on(&temp, "--model sign --device cuda:0");
    lacking.refuses(3, &["--device cuda:0"]);
}

/// A run on the hop set without the stand-in.
fn train_on(temp: &TempDir, options: &str) -> Outcome {
    train(temp.path(), "hops", options).run()
}
