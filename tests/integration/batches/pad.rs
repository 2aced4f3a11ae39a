//! `--pad auto`: batches of static shapes in trainers, commands and metrics.

use std::fs;
use std::path::Path;

use serde_json::Value;
use uva_graph::{Dataset, Verify};

use crate::support::arrays::npy;
use crate::support::command::{run, run_with};
use crate::support::extent::some_of;
use crate::support::runs::{Metrics, small_graph, train};
use crate::support::{Uvatrain, directory, uvatrain};

fn metrics_of(directory: &Path, name: &str, options: &str) -> Metrics {
    train(directory, name, options).run().succeeds();
    Metrics::read(&directory.join(name))
}

/// A field of every line of this event.
fn all<'m>(metrics: &'m Metrics, event: &'m str, field: &str) -> Vec<&'m Value> {
    metrics.of(event).map(|line| &line[field]).collect()
}

/// Compares numbers that differ only by rounding.
fn close(one: &Value, other: &Value, what: &str) {
    let (one, other) = (one.as_f64().expect(what), other.as_f64().expect(what));
    assert!((one - other).abs() <= 2e-3 * other.abs().max(0.1), "{what}: {one} and {other}");
}

/// Trains with and without padding, and compares everything that is reported.
fn compared(directory: &Path, options: &str) {
    let options = format!("--epochs 2 --dropout 0 {options}");
    let plain = metrics_of(directory, "plain.jsonl", &options);
    let padded = metrics_of(directory, "padded.jsonl", &format!("{options} --pad auto"));
    for field in ["epoch", "batch", "hash", "seeds", "input_nodes", "edges"] {
        assert_eq!(all(&padded, "batch", field), all(&plain, "batch", field), "{options}: {field}");
    }
    let losses = all(&padded, "batch", "loss").into_iter().zip(all(&plain, "batch", "loss"));
    let mut first = losses.clone();
    let (one, other) = first.next().expect("a batch");
    assert!((one.as_f64().unwrap() - other.as_f64().unwrap()).abs() < 1e-5, "{options}: {one} and {other}");
    losses.for_each(|(one, other)| close(one, other, &options));
    let end = |metrics: &Metrics| metrics.of("end").next().expect("an end").clone();
    for field in ["train_loss", "train_accuracy", "valid_accuracy", "valid_mse"] {
        for (one, other) in all(&padded, "epoch", field).into_iter().zip(all(&plain, "epoch", field)) {
            assert_eq!(one.is_null(), other.is_null());
            if !one.is_null() {
                close(one, other, field);
            }
        }
    }
    assert!(plain.0.iter().all(|line| !line.to_string().contains("padded")));
    assert!(all(&padded, "batch", "padded").into_iter().all(|padded| *padded == true), "{options}");
    let unpadded = all(&padded, "batch", "padded").into_iter().filter(|padded| **padded == false).count();
    assert_eq!((&end(&padded)["unpadded"], &end(&plain)["unpadded"]), (&unpadded.into(), &Value::Null));
    let pad = &padded.of("start").next().unwrap()["in_force"]["pad"];
    assert_eq!(
        (pad["nodes"].as_array().unwrap().len(), pad["edges"].as_array().unwrap().len()),
        (3, 2),
        "{pad}"
    );
    let waste = pad["waste"]["nodes"].as_f64().expect("a share");
    assert!(waste > 0.0 && waste < 0.5, "{pad}");
}

#[test]
#[ignore = "4 s of a core: scripts/measure/long_tests.sh"]
fn losses_and_evaluations_equal_those_without_padding_for_every_model() {
    let temp = directory();
    let graph = small_graph(temp.path());
    for options in some_of(&[
        "--model sage --eval sampled --edge-ids",
        "--model gcn --in-process",
        "--model gat --heads 4 --eval sampled --samplers 2",
        "--model gin --expand new",
        "--sampler-kind walk --eval sampled",
        "--sampler-kind labor --residual",
    ]) {
        compared(temp.path(), options);
    }
    let nodes = Dataset::open_verified(&graph, Verify::HeadersOnly).unwrap().nodes();
    let labels: Vec<u8> = (0..3 * nodes).map(|at| (at * 31 % 7 % 2) as u8).collect();
    fs::write(graph.join("label.npy"), npy(&[nodes as u64, 3], false, &labels)).unwrap();
    fs::write(graph.join("meta.json"), r#"{"name": "several"}"#).unwrap();
    compared(temp.path(), "--eval sampled");
    let numbers: Vec<f32> = (0..2 * nodes).map(|at| (at * 31 % 11) as f32).collect();
    fs::write(graph.join("label.npy"), npy(&[nodes as u64, 2], false, &numbers)).unwrap();
    fs::write(graph.join("meta.json"), r#"{"name": "numbers"}"#).unwrap();
    compared(temp.path(), "--eval sampled --loss mae");
}

#[test]
fn a_resumed_run_pads_to_the_same_shapes_and_has_the_same_losses() {
    let temp = directory();
    small_graph(temp.path());
    let whole = metrics_of(temp.path(), "whole.jsonl", "--epochs 3 --pad auto");
    metrics_of(temp.path(), "parts.jsonl", "--epochs 1 --pad auto --checkpoint kept");
    let options = "--epochs 3 --pad auto --checkpoint kept --resume --samplers 2";
    let parts = metrics_of(temp.path(), "parts.jsonl", options);
    assert_eq!(parts.trained(), whole.trained());
    let shapes = |metrics: &Metrics| {
        metrics.of("start").map(|start| start["in_force"]["pad"].clone()).collect::<Vec<_>>()
    };
    let all = [shapes(&whole), shapes(&parts)].concat();
    assert!(all.len() == 3 && all.iter().all(|pad| *pad == all[0] && pad.is_object()), "{all:?}");
    // Dropout draws numbers for padding rows as well, so losses depend on it.
    let other = train(temp.path(), "more.jsonl", "--epochs 4 --checkpoint kept --resume");
    other.run().refuses(2, &["pad"]);
}

/// As [`metrics_of`], of a run with these sizes.
fn sized(directory: &Path, sizes: &str, options: &str) -> Metrics {
    let run = format!("train graph {sizes} --hidden 16 --train-threads 1 --metrics run.jsonl {options}");
    uvatrain(directory, run.split_whitespace()).run().succeeds();
    Metrics::read(&directory.join("run.jsonl"))
}

#[test]
fn a_batch_that_does_not_fit_keeps_its_size_and_is_counted() {
    let temp = directory();
    small_graph(temp.path());
    // All neighbours of few seeds: far more where a hub is among them.
    let sizes = "--fanouts=-1 --batch-size 4 --slot-bytes 16MiB";
    let metrics = sized(temp.path(), sizes, "--epochs 1 --pad auto --in-process");
    let padded = all(&metrics, "batch", "padded");
    let kept = padded.iter().filter(|padded| ***padded == false).count();
    assert!(kept > 0 && kept < padded.len() / 10, "{kept} of {}", padded.len());
    assert_eq!(metrics.of("end").next().expect("an end")["unpadded"], kept);
}

#[test]
fn the_producers_sums_are_those_without_padding_and_so_are_their_counts() {
    let temp = directory();
    small_graph(temp.path());
    let (one_hop, two_hops) = ("--fanouts 4 --batch-size 100", "--fanouts 5,4 --batch-size 100");
    for (sizes, options) in
        [(two_hops, "--model sage"), (one_hop, "--model gcn"), (two_hops, "--model gcn --in-process")]
    {
        let options = format!("--epochs 1 --dropout 0 --device cpu --aggregate host {options}");
        let plain = sized(temp.path(), sizes, &options);
        let padded = sized(temp.path(), sizes, &format!("{options} --pad auto"));
        assert!(plain.of("batch").count() > 0);
        for (one, other) in padded.of("batch").zip(plain.of("batch")) {
            assert_eq!((&one["hash"], &one["padded"]), (&other["hash"], &true.into()));
            for count in ["own_rows", "sum_rows", "entries", "rows_read"] {
                assert!(one["aggregate"][count].is_u64());
                assert_eq!(one["aggregate"][count], other["aggregate"][count], "{options}: {count}");
            }
            close(&one["loss"], &other["loss"], &options);
        }
    }
}

const STEPS: &str = "attach; contents; close";

/// The output of the command for each batch.
fn seen(run: Uvatrain) -> Vec<String> {
    let told = run.run().succeeds().stdout;
    let lines = told.lines().filter(|line| line.contains(" true ") || line.contains(" false "));
    lines.map(str::to_owned).collect()
}

fn on_gpu(directory: &Path, options: &str) -> Uvatrain {
    let samplers = if options.contains("--sampler gpu") { 1 } else { 2 };
    let options = format!("--samplers {samplers} --device cuda:0 {options}");
    run_with(directory, &options, None, STEPS).simulated()
}

#[test]
fn a_command_gets_the_same_padded_batches_from_every_sampler_and_gather() {
    let temp = directory();
    small_graph(temp.path());
    let pad = "--pad auto --edge-ids --input-id";
    let metrics = "--metrics run.jsonl";
    let cpu = seen(run(temp.path(), &format!("--device cpu {pad} {metrics}"), None, STEPS));
    assert!(cpu.len() > 10 && cpu.iter().all(|batch| batch.contains(" true ")), "{cpu:?}");
    let sizes: Vec<_> = cpu.iter().map(|batch| batch.split_once('(').unwrap().1.split_once(')')).collect();
    assert!(sizes.iter().all(|size| size.unwrap().0 == sizes[0].unwrap().0), "{cpu:?}");
    let told = Metrics::read(&temp.path().join("run.jsonl"));
    assert_eq!(told.of("end").next().unwrap()["unpadded"], 0);
    assert_eq!(told.of("batch").filter(|batch| batch["padded"] == true).count(), cpu.len());
    for options in [
        "--partition none",
        "--partition green",
        "--partition green --sampler gpu",
        "--partition none --sampler gpu --gather dma",
        "--gather cpu",
    ] {
        assert_eq!(seen(on_gpu(temp.path(), &format!("{options} {pad}"))), cpu, "{options}");
    }
}

#[test]
fn a_benchmark_of_the_pipeline_pads_and_an_unknown_way_is_refused() {
    let temp = directory();
    small_graph(temp.path());
    let bench = |options: &str| {
        let line = format!("bench pipeline graph --fanouts 5,4 --batch-size 100 --json {options}");
        uvatrain(temp.path(), line.split_whitespace()).run()
    };
    let (plain, padded) = (bench("").succeeds().json(), bench("--pad auto").succeeds().json());
    assert_eq!(plain["hash"], padded["hash"]);
    assert!(padded["input_nodes"].as_u64() > plain["input_nodes"].as_u64());
    bench("--pad always").refuses(2, &["--pad", "auto"]);
    let most = "--slot-bytes 20KiB --pad auto";
    bench(most).refuses(2, &["slot-bytes"]);
}
