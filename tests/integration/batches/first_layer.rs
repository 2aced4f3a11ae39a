//! Tests of `train --first-layer`: a hop set that replaces the first layer's sums.

use std::fs;
use std::path::Path;

use crate::support::extent::some_of;
use crate::support::runs::{Learned, Metrics, learned, small_graph};
use crate::support::{Outcome, Uvatrain, directory, uvatrain};

const TRAIN: &str = "--batch-size 100 --hidden 16 --lr 0.02 --train-threads 1";

fn call(directory: &Path, line: &str) -> Uvatrain {
    uvatrain(directory, line.split_whitespace())
}

/// The small graph, and hop sets of it for the first layers of sage and of gcn.
fn sets(directory: &Path) {
    small_graph(directory);
    let propagate = "propagate graph --hops 1 --nodes all --row-order nodes";
    call(directory, &format!("{propagate} mean --operator row --layout rows")).run().succeeds();
    call(directory, &format!("{propagate} sum --operator sym")).run().succeeds();
}

/// The metrics of a run with these options.
fn trained(directory: &Path, options: &str) -> Metrics {
    let _ = fs::remove_file(directory.join("run.jsonl"));
    let epochs = if options.contains("--epochs") { "" } else { "--epochs 2" };
    let line = format!("train graph {TRAIN} {epochs} --metrics run.jsonl {options}");
    call(directory, &line).run().succeeds();
    Metrics::read(&directory.join("run.jsonl"))
}

#[test]
fn losses_are_those_of_whole_lists_and_equal_however_rows_reach_the_model() {
    let temp = directory();
    sets(temp.path());
    for (model, set) in [("sage", "mean"), ("gcn", "sum")] {
        let given = |more: &str| {
            trained(temp.path(), &format!("--model {model} --fanouts 4,3 --first-layer {set} {more}"))
        };
        let metrics = given("");
        let expected: Learned = learned(&metrics);
        let start = metrics.of("start").next().unwrap();
        assert_eq!(start["in_force"]["aggregate"]["way"], "off", "{start}");
        let reason = start["in_force"]["aggregate"]["reason"].to_string();
        assert!(reason.contains("first_layer"), "{reason}");
        for more in some_of(&[
            "--in-process",
            "--prepare whole --samplers 2",
            "--features disk",
            "--samplers 2 --seed-order shuffle",
        ]) {
            assert_eq!(learned(&given(more)), expected, "{model} {more}");
        }
        // Batches are those of these fanouts, and the model has one layer more.
        let hashes = |metrics: &Metrics| -> Vec<String> {
            metrics.trained().into_iter().map(|(_, _, hash, _)| hash).collect()
        };
        let plain = trained(temp.path(), &format!("--model {model} --fanouts 4,3"));
        assert_eq!(hashes(&plain), hashes(&metrics), "{model}");
        let whole = trained(
            temp.path(),
            &format!("--model {model} --fanouts 4,3,-1 --slot-bytes 64MiB --aggregate off"),
        );
        let losses = |metrics: &Metrics| -> Vec<String> {
            metrics.trained().into_iter().map(|(_, _, _, loss)| loss).collect()
        };
        assert!(losses(&metrics).len() > 10);
        assert_eq!(losses(&metrics), losses(&whole), "{model}");
    }
}

#[test]
#[ignore = "4 s of a core: scripts/measure/long_tests.sh"]
fn a_model_trained_so_is_evaluated_and_predicts_on_the_dataset_alone() {
    let temp = directory();
    sets(temp.path());
    for (model, set) in [("sage", "mean"), ("gcn", "sum")] {
        let options = format!("--model {model} --fanouts 4 --first-layer {set} --eval full");
        let metrics = trained(temp.path(), &format!("{options} --checkpoint {model}"));
        let end = metrics.of("end").last().unwrap();
        let line = format!("evaluate graph --checkpoint {model} --threads 1");
        let told = call(temp.path(), &format!("{line} --eval full --json")).run().succeeds().json();
        assert_eq!(told["test"]["accuracy"], end["test_accuracy"], "{model}: {told} {end}");
        assert!(told["test"]["accuracy"].as_f64().unwrap() > 0.5, "{told}");
        let line = format!("{line} --eval sampled");
        call(temp.path(), &line).run().refuses(2, &["--eval sampled", "--first-layer", "--eval full"]);
        // A hop set with the same content may be elsewhere when the run resumes.
        fs::rename(temp.path().join(set), temp.path().join(format!("moved-{set}"))).unwrap();
        let moved = options.replace("--first-layer ", "--first-layer moved-");
        let resumed = trained(temp.path(), &format!("{moved} --epochs 3 --checkpoint {model} --resume"));
        assert_eq!(resumed.of("epoch").count(), 1);
        let plain =
            format!("train graph {TRAIN} --model {model} --fanouts 4,3 --checkpoint {model} --resume");
        call(temp.path(), &plain).run().refuses(2, &["first_layer"]);
    }
}

#[test]
fn hop_sets_without_the_first_layers_sums_are_refused_with_a_remedy() {
    let temp = directory();
    sets(temp.path());
    let propagate = |name: &str, options: &str| {
        call(temp.path(), &format!("propagate graph {name} {options}")).run().succeeds();
    };
    let of_nodes = "--nodes all --row-order nodes";
    propagate("shuffled", "--operator row --hops 1 --layout rows --nodes all");
    propagate("two", &format!("--operator row --hops 2 --layout rows {of_nodes}"));
    propagate("apart", &format!("--operator row --hops 1 {of_nodes}"));
    propagate("together", &format!("--operator sym --hops 1 --layout rows {of_nodes}"));
    propagate("scaled", &format!("--operator row --hops 1 --layout rows --feature-norm row {of_nodes}"));
    propagate("loops", &format!("--operator row-loop --hops 1 {of_nodes}"));
    call(temp.path(), "generate other --nodes 4000 --avg-degree 12 --feat-dim 24 --classes 4 --seed 8")
        .run()
        .succeeds();
    call(temp.path(), &format!("propagate other others --operator row --hops 1 --layout rows {of_nodes}"))
        .run()
        .succeeds();
    let train = |line: &str| -> Outcome { call(temp.path(), &format!("train {line} --fanouts 4")).run() };
    for (options, message) in [
        ("--first-layer shuffled", &["shuffled", "--nodes all", "--row-order nodes"][..]),
        ("--first-layer two", &["two", "--hops 1"]),
        ("--first-layer apart", &["apart", "--layout rows"]),
        ("--first-layer together --model gcn", &["together", "--layout hops"]),
        ("--first-layer loops", &["loops", "row-loop", "row (sage)"]),
        ("--first-layer scaled", &["scaled", "--feature-norm"]),
        ("--first-layer others", &["others", "made from a dataset with the fingerprint", "(other)"]),
        ("--first-layer mean --model gcn", &["--first-layer", "--model sage", "--model gcn"]),
        ("--first-layer sum", &["--first-layer", "--model gcn"]),
        ("--first-layer mean --model gat", &["--first-layer", "--model gat", "trained"]),
        ("--first-layer mean --residual", &["--first-layer", "--residual"]),
        ("--first-layer mean --input-dropout 0.2", &["--first-layer", "--input-dropout"]),
        ("--first-layer mean --feature-norm row", &["--first-layer", "--feature-norm"]),
        ("--first-layer mean --aggregate host", &["--aggregate host", "--first-layer"]),
    ] {
        train(&format!("graph {options}")).refuses(2, message);
    }
    let line = "train mean --first-layer mean --model sign";
    call(temp.path(), line).run().refuses(2, &["--first-layer", "hop set"]);
    train("graph --first-layer nothing").refuses(2, &["nothing"]);
    let line = "propagate graph rows --operator row --hops 1 --row-order nodes";
    call(temp.path(), line).run().refuses(2, &["--row-order nodes", "--nodes all"]);
    // In this set, the rows of a split are not consecutive.
    call(temp.path(), "train mean --model sgc").run().refuses(2, &["mean"]);
}
