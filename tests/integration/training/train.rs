//! Training in whole programs: the real binary, three processes and more, its metrics and checkpoints.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use crate::support::arrays::{npy, six_nodes};
use crate::support::extent::all_tests;
use crate::support::runs::{Metrics, small_graph, train, wait_for_batches, wait_until};
use crate::support::{
    self, assert_same_contents, contents, directory, real_graph, uvatrain, uvatrain_behind,
};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn batches_and_losses_are_equal_for_any_number_of_samplers_and_processes() {
    let temp = directory();
    small_graph(temp.path());
    let mut runs = Vec::new();
    for (metrics, options) in [
        ("one.jsonl", "--samplers 1"),
        ("two.jsonl", "--samplers 2 --slots 3"),
        ("four.jsonl", "--samplers 4 --batch-slots 9 --slots 1"),
        ("in1.jsonl", "--samplers 1 --in-process"),
        ("in4.jsonl", "--samplers 4 --in-process"),
    ] {
        train(temp.path(), metrics, &format!("--epochs 2 {options}")).run().succeeds();
        let metrics = Metrics::read(&temp.path().join(metrics));
        let epochs: Vec<_> = metrics
            .of("epoch")
            .map(|e| (e["train_loss"].to_string(), e["valid_accuracy"].to_string()))
            .collect();
        let accuracy = metrics.of("end").next().map(|end| end["test_accuracy"].to_string());
        runs.push((options, metrics.trained(), epochs, accuracy));
    }
    let (_, batches, epochs, accuracy) = &runs[0];
    assert!(batches.len() >= 20 && epochs.len() == 2 && accuracy.is_some(), "{batches:?} {epochs:?}");
    for (options, other, other_epochs, other_accuracy) in &runs[1..] {
        assert_eq!(batches, other, "{options}");
        assert_eq!((epochs, accuracy), (other_epochs, other_accuracy), "{options}");
    }
}

#[test]
fn another_seed_makes_other_batches() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "a.jsonl", "--epochs 1 --seed 1").run().succeeds();
    train(temp.path(), "b.jsonl", "--epochs 1 --seed 2").run().succeeds();
    let (a, b) = (Metrics::read(&temp.path().join("a.jsonl")), Metrics::read(&temp.path().join("b.jsonl")));
    for (a, b) in a.trained().iter().zip(b.trained()) {
        assert_ne!((&a.2, &a.3), (&b.2, &b.3));
    }
}

#[test]
fn a_run_continued_after_its_last_epoch_has_the_losses_of_one_unstopped() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "whole.jsonl", "--epochs 3").run().succeeds();
    train(temp.path(), "parts.jsonl", "--epochs 1 --checkpoint kept").run().succeeds();
    train(temp.path(), "parts.jsonl", "--epochs 3 --checkpoint kept --resume --samplers 2").run().succeeds();
    let whole = Metrics::read(&temp.path().join("whole.jsonl"));
    let parts = Metrics::read(&temp.path().join("parts.jsonl"));
    assert_eq!(whole.trained(), parts.trained());
    let end = |metrics: &Metrics| metrics.of("end").last().unwrap()["test_accuracy"].to_string();
    assert_eq!(end(&whole), end(&parts));
}

/// Enough epochs to go beyond the last batch trained, and not more than necessary.
fn epochs_behind(trained: &[(u64, u64, String, String)]) -> u64 {
    trained.last().expect("a batch").0 + 3
}

#[test]
fn a_run_interrupted_in_an_epoch_resumes_at_the_next_batch() {
    let temp = directory();
    small_graph(temp.path());
    for (mode, name) in [("", "processes"), ("--in-process", "threads")] {
        let parts = format!("{name}-parts.jsonl");
        let path = temp.path().join(&parts);
        let options = format!("--checkpoint {name} {mode}");
        // The run would continue for minutes, so a signal at any time arrives before its end.
        let mut run = train(temp.path(), &parts, &format!("--epochs 100000 {options}")).start();
        wait_for_batches(&mut run, &path, 25);
        kill_process(Pid::from_child(&run.child), Signal::INT).unwrap();
        run.wait().refuses(130, &["SIGINT"]);
        let before = Metrics::read(&path).trained();
        let epochs = epochs_behind(&before);
        let whole = format!("{name}-whole.jsonl");
        train(temp.path(), &whole, &format!("--epochs {epochs} {mode}")).run().succeeds();
        let options = format!("--epochs {epochs} {options} --resume");
        let resumed = train(temp.path(), &parts, &options).run().succeeds();
        // The signal may also arrive after the last batch of an epoch.
        let resumes = ["resumed at batch", "resumed after the last batch"];
        assert!(resumes.iter().any(|line| resumed.stderr.contains(line)), "{resumed}");
        let after = Metrics::read(&path).trained();
        // The current batch was finished and kept: no batch is trained twice or skipped.
        assert!(before.len() < after.len());
        assert_eq!(after, Metrics::read(&temp.path().join(&whole)).trained(), "{name}");
    }
}

#[test]
fn a_run_killed_in_an_epoch_resumes_at_its_last_checkpoint() {
    let temp = directory();
    small_graph(temp.path());
    let path = temp.path().join("parts.jsonl");
    let options = "--checkpoint kept --checkpoint-every 3";
    let mut run = train(temp.path(), "parts.jsonl", &format!("--epochs 100000 {options}")).start();
    wait_for_batches(&mut run, &path, 30);
    kill_process(Pid::from_child(&run.child), Signal::KILL).unwrap();
    // Waits for its roles and its janitor as well: they hold its stderr. So no process writes the checkpoint any
    // longer.
    run.wait().ends_with(128 + 9);
    let killed = Metrics::read(&path).trained();
    let (epochs, killed_at) = (epochs_behind(&killed), killed.len());
    train(temp.path(), "whole.jsonl", &format!("--epochs {epochs}")).run().succeeds();
    let options = format!("--epochs {epochs} {options} --resume");
    train(temp.path(), "parts.jsonl", &options).run().succeeds();
    // The results that the launcher received are right, and so are all after the checkpoint. A checkpoint may be ahead
    // of the metrics, whose last lines died with the launcher; it lags by at most the three requested batches.
    let whole = Metrics::read(&temp.path().join("whole.jsonl")).trained();
    let parts = Metrics::read(&path).trained();
    assert_eq!(parts[..killed_at], whole[..killed_at]);
    let (behind, begun_at) = (&parts[killed_at..], whole.len() - (parts.len() - killed_at));
    assert_eq!(*behind, whole[begun_at..]);
    assert!(killed_at <= begun_at + 3, "killed after {killed_at}, resumed at {begun_at}");
}

#[test]
fn the_result_as_json_is_one_object_with_the_fields_promised() {
    let temp = directory();
    small_graph(temp.path());
    let end = train(temp.path(), "run.jsonl", "--epochs 2 --json").run().succeeds().json();
    for field in ["test_accuracy", "bottleneck", "epochs", "seconds", "batches_per_second", "roles"] {
        assert!(!end[field].is_null(), "{field} is missing: {end}");
    }
    for role in ["sampler", "producer", "consumer"] {
        for field in ["working_s", "waiting_input_s", "waiting_output_s", "peak_rss_bytes"] {
            assert!(
                end["roles"][role][field].as_f64().is_some_and(|value| value >= 0.0),
                "{role} {field}: {end}"
            );
        }
        assert!(end["roles"][role]["peak_rss_bytes"].as_u64() > Some(1 << 20), "{role}: {end}");
    }
    assert!(["sampler", "producer", "consumer"].contains(&end["bottleneck"].as_str().unwrap()));
    assert_eq!(end["epochs"], 2);

    let metrics = Metrics::read(&temp.path().join("run.jsonl"));
    assert_eq!(metrics.0.first().unwrap()["event"], "start");
    assert_eq!(metrics.0.last().unwrap(), &end);
    let batch = metrics.of("batch").next().unwrap();
    for field in ["epoch", "batch", "seeds", "input_nodes", "sample_us", "gather_us", "train_us"] {
        assert!(batch[field].is_u64(), "{field}: {batch}");
    }
    assert_eq!(batch["edges"].as_array().map(Vec::len), Some(2), "{batch}");
    assert_eq!(batch["hash"].as_str().map(str::len), Some(16), "{batch}");
    assert!(batch["loss"].is_f64(), "{batch}");
    let epoch = metrics.of("epoch").next().unwrap();
    for field in ["epoch", "train_loss", "valid_accuracy", "seconds"] {
        assert!(epoch[field].is_number(), "{field}: {epoch}");
    }
}

#[test]
fn early_stopping_ends_training_and_tests_the_best_model() {
    let temp = directory();
    small_graph(temp.path());
    for (mode, metrics) in [("--eval sampled", "sampled.jsonl"), ("--eval full", "full.jsonl")] {
        let options =
            format!("--epochs 200 --patience 2 --lr 0.03 {mode} --checkpoint {metrics}-kept --json");
        let end = train(temp.path(), metrics, &options).run().succeeds().json();
        assert_eq!(end["stopped_early"], true, "{end}");
        let epochs = end["epochs"].as_u64().unwrap();
        let accuracies: Vec<f64> = Metrics::read(&temp.path().join(metrics))
            .of("epoch")
            .map(|epoch| epoch["valid_accuracy"].as_f64().unwrap())
            .collect();
        assert_eq!(accuracies.len() as u64, epochs);
        let best = accuracies.iter().copied().fold(0.0, f64::max);
        assert_eq!(end["best_valid_accuracy"].as_f64(), Some(best));
        assert!(
            accuracies[..accuracies.len() - 2].contains(&best),
            "the last two brought no gain: {accuracies:?}"
        );
        // A resumed run has nothing left to train, and tests the same model.
        let again = train(temp.path(), metrics, &format!("{options} --resume")).run().succeeds().json();
        assert_eq!(again["batches"], 0, "{again}");
        assert_eq!(again["test_accuracy"], end["test_accuracy"], "{mode}");
    }
}

#[test]
fn both_models_learn_the_planted_classes_under_either_evaluation() {
    let temp = directory();
    small_graph(temp.path());
    for model in ["sage", "gcn"] {
        for mode in ["sampled", "full"] {
            let options = format!("--epochs 8 --lr 0.01 --model {model} --eval {mode} --json");
            let end = train(temp.path(), "run.jsonl", &options).run().succeeds().json();
            let accuracy = end["test_accuracy"].as_f64().unwrap();
            // Four classes: a guess is right once in four.
            assert!(accuracy > 0.5, "{model} {mode}: {accuracy}");
        }
    }
}

#[test]
fn features_that_are_not_numbers_end_the_run_and_keep_the_last_checkpoint() {
    let temp = directory();
    let graph = small_graph(temp.path());
    train(temp.path(), "good.jsonl", "--epochs 1 --checkpoint kept").run().succeeds();
    let before = contents(&temp.path().join("kept"));
    // The dataset's own file, so that only the loss can reveal it.
    let mut features = fs::read(graph.join("feat.npy")).unwrap();
    let data = features.len() - 4000 * 24 * 4;
    for value in features[data..].chunks_exact_mut(4) {
        value.copy_from_slice(&f32::NAN.to_le_bytes());
    }
    fs::write(graph.join("feat.npy"), features).unwrap();
    let refused = train(temp.path(), "bad.jsonl", "--epochs 1 --checkpoint fresh").run();
    refused.refuses(1, &["diverged", "batch 1 of epoch 1", "info --verify"]);
    assert!(!temp.path().join("fresh/checkpoint.json").exists(), "a checkpoint of a diverged model was kept");
    assert_same_contents(&before, &contents(&temp.path().join("kept")));
}

#[test]
fn options_that_prevent_a_run_are_refused_before_anything_is_written() {
    let temp = directory();
    small_graph(temp.path());
    let six = temp.path().join("six");
    six_nodes(&six);
    fs::write(six.join("train_idx.npy"), npy::<i64>(&[0], false, &[])).unwrap();
    train(temp.path(), "kept.jsonl", "--epochs 1 --checkpoint kept").run().succeeds();
    uvatrain(temp.path(), ["info", "six"]).run();
    let before = contents(temp.path());
    let cases: [(&str, &[&str]); 6] = [
        ("train six --fanouts 2", &["train_idx.npy", "empty"]),
        ("train graph --fanouts 2 --slot-bytes 1KiB", &["--slot-bytes"]),
        (
            "train graph --fanouts 5,4 --batch-size 100 --hidden 32 --train-threads 1 --checkpoint kept --resume",
            &["kept", "hidden", "16", "32"],
        ),
        (
            "train graph --fanouts 5,3 --batch-size 100 --hidden 16 --checkpoint kept --resume --epochs 9",
            &["kept", "fanouts"],
        ),
        ("train absent", &["absent"]),
        ("train graph --drop-last --batch-size 100000 --fanouts 2", &["--drop-last", "--batch-size"]),
    ];
    for (arguments, message) in cases {
        let with_metrics = format!("{arguments} --metrics new.jsonl");
        uvatrain(temp.path(), with_metrics.split(' ')).run().refuses(2, message);
        assert_same_contents(&before, &contents(temp.path()));
    }
}

#[test]
fn a_checkpoint_of_another_dataset_is_refused() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "a.jsonl", "--epochs 1 --checkpoint kept").run().succeeds();
    fs::remove_dir_all(temp.path().join("graph")).unwrap();
    let other = "generate graph --nodes 4000 --avg-degree 12 --feat-dim 24 --classes 4 --seed 8";
    uvatrain(temp.path(), other.split(' ')).run().succeeds();
    let before = contents(&temp.path().join("kept"));
    train(temp.path(), "b.jsonl", "--epochs 2 --checkpoint kept --resume")
        .run()
        .refuses(2, &["kept", "dataset"]);
    assert_same_contents(&before, &contents(&temp.path().join("kept")));
}

#[test]
fn a_batch_larger_than_its_slot_names_the_batch_and_the_option() {
    let temp = directory();
    small_graph(temp.path());
    // Enough for the seeds, not for their neighbours.
    for mode in ["", "--in-process"] {
        let run = train(temp.path(), "run.jsonl", &format!("--epochs 1 --slot-bytes 20KiB {mode}")).run();
        run.refuses(2, &["train batch 1 of epoch 1", "--slot-bytes"]);
    }
}

#[test]
fn all_neighbours_can_be_taken_through_slots_of_a_size_given() {
    let temp = directory();
    small_graph(temp.path());
    let options = "--epochs 1 --fanouts -1,-1 --slot-bytes 4MiB --json";
    let end = uvatrain(
        temp.path(),
        format!("train graph --batch-size 100 --hidden 16 --train-threads 1 {options}").split_whitespace(),
    )
    .run()
    .succeeds()
    .json();
    assert!(end["test_accuracy"].is_f64(), "{end}");
}

#[test]
fn a_model_without_the_edges_stays_ten_points_below_one_with_them() {
    let temp = directory();
    // The demo's graph at a twentieth of its size.
    let args = "generate graph --nodes 10000 --avg-degree 20 --feat-dim 100 --classes 12";
    uvatrain(temp.path(), args.split(' ')).run().succeeds();
    let accuracy = || {
        let options = "train graph --fanouts 10,5 --batch-size 256 --epochs 12 --patience 4 --json";
        let end = uvatrain(temp.path(), options.split(' ')).run().succeeds().json();
        100.0 * end["test_accuracy"].as_f64().unwrap()
    };
    let with_edges = accuracy();
    // Without neighbours a GraphSAGE layer is a plain layer on a node's own row.
    let graph = temp.path().join("graph");
    fs::write(graph.join("indptr.npy"), npy::<i64>(&[10_001], false, &vec![0; 10_001])).unwrap();
    fs::write(graph.join("indices.npy"), npy::<i32>(&[0], false, &[])).unwrap();
    let without_edges = accuracy();
    assert!(without_edges > 30.0, "the features carry something: {without_edges}");
    assert!(with_edges - without_edges >= 10.0, "{with_edges} with edges, {without_edges} without");
}

/// One of the cells of scripts/measure/accuracy.py, which trains all of them; half a minute on two cores.
#[test]
#[ignore = "30 s of a core: scripts/measure/long_tests.sh"]
fn published_accuracies_on_cora_are_reached_within_a_point() {
    let Some(graph) =
        real_graph("training::train::published_accuracies_on_cora_are_reached_within_a_point", "cora")
    else {
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/measure/accuracy.py");
    let ended = std::process::Command::new("python3")
        .args([
            script,
            "--only",
            if all_tests() { "cora/gcn,cora/sage" } else { "cora/gcn" },
            "--binary",
            env!("CARGO_BIN_EXE_uvatrain"),
            "--graphs",
        ])
        .arg(graph.parent().unwrap())
        .output()
        .expect("python3");
    let said = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
    println!("{said}");
    assert!(ended.status.success(), "{said}");
    assert_eq!(
        said.lines().filter(|line| line.starts_with("cora")).count(),
        1 + usize::from(all_tests()),
        "{said}"
    );
}

/// `uvatrain train six OPTIONS` by a copy of the program in a separate folder, after this line of the shell.
fn moved(directory: &Path, line: &str, options: &str) -> support::Outcome {
    let line = format!("mkdir -p bin; cp \"$1\" bin/uvatrain; shift; {line}\nexec bin/uvatrain \"$@\"");
    let words = format!("train six --fanouts 2 --batch-size 1 --epochs 1 --hidden 4 {options}");
    uvatrain_behind(directory, &line, words.split_whitespace()).run()
}

#[test]
fn a_program_without_its_consumer_names_the_path_and_what_installs_it() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    for options in ["", "--in-process"] {
        let consumer = format!("{}/bin/uvatrain-consumer is not there", temp.path().display());
        moved(temp.path(), "", options).refuses(3, &[&consumer, "cargo install --path crates/uvatrain"]);
    }
}

#[test]
fn a_mismatched_consumer_is_refused_before_anything_starts() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    for (script, says) in [
        ("echo uvatrain-consumer 0.0.7", "the program is uvatrain-consumer 0.0.7"),
        ("echo no such library >&2; exit 127", "no such library"),
    ] {
        let line = format!(
            "printf '#!/bin/sh\\n%s\\n' '{script}' >bin/uvatrain-consumer; chmod +x bin/uvatrain-consumer"
        );
        let install = "cargo install --path crates/uvatrain";
        moved(temp.path(), &line, "--checkpoint kept").refuses(3, &["bin/uvatrain-consumer", says, install]);
        assert!(!temp.path().join("kept").exists());
    }
}

#[test]
fn a_matching_consumer_is_checked_again_only_when_its_file_changes() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    // It only answers for its version, so that each run ends as soon as it is started to train.
    let real = env!("CARGO_BIN_EXE_uvatrain-consumer");
    let script =
        format!("echo \"$1\" >>asked; if [ \"$1\" = --version ]; then exec {real} --version; fi; exit 9");
    let write = format!(
        "[ -e bin/uvatrain-consumer ] || {{ printf '#!/bin/sh\\n%s\\n' '{script}' >bin/uvatrain-consumer; chmod +x bin/uvatrain-consumer; }}"
    );
    for (line, asked) in [(write.clone(), 1), (write, 1), ("touch bin/uvatrain-consumer".to_owned(), 2)] {
        moved(temp.path(), &line, "").refuses(1, &["consumer"]);
        let told = fs::read_to_string(temp.path().join("asked")).unwrap();
        assert_eq!(told.lines().filter(|line| *line == "--version").count(), asked, "{line}: {told}");
    }
}

#[test]
fn a_moved_program_trains_with_a_given_libtorch_and_names_a_missing_one() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    let copied = format!("cp {} bin/", env!("CARGO_BIN_EXE_uvatrain-consumer"));
    moved(temp.path(), &copied, "--libtorch bin")
        .refuses(3, &["--libtorch", "bin", "2.11", "scripts/setup/libtorch.sh"]);
    let nowhere = format!("{copied}; export UVATRAIN_LIBTORCH=/nonexistent/torch");
    moved(temp.path(), &nowhere, "").refuses(3, &["UVATRAIN_LIBTORCH", "/nonexistent/torch"]);
    // Cargo names the checkout's to its tests.
    let libtorch = std::env::var("LIBTORCH").expect("cargo's LIBTORCH");
    for options in ["", "--in-process"] {
        let told = format!("{copied}; unset LIBTORCH");
        moved(temp.path(), &told, &format!("--libtorch {libtorch} {options}")).succeeds();
    }
}

#[test]
fn a_pip_installed_program_takes_its_environments_pytorch_or_says_how() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    let packages = temp.path().join("lib/python3.12/site-packages");
    fs::create_dir_all(packages.join("uvatrain")).unwrap();
    let pip = format!("{}/bin/python -m pip install", temp.path().display());
    moved(temp.path(), "", "")
        .refuses(3, &["bin/uvatrain-consumer is not there", &format!("{pip} 'uvatrain[train]'")]);

    // No place of the user's is searched: no cache folder, no active environment, no other Python.
    let alone = format!(
        "cp {} bin/; unset LIBTORCH UVATRAIN_LIBTORCH VIRTUAL_ENV CONDA_PREFIX; \
         export UVATRAIN_CACHE=$PWD/cache PATH=/nonexistent",
        env!("CARGO_BIN_EXE_uvatrain-consumer")
    );
    let torch = packages.join("torch");
    fs::create_dir_all(torch.join("lib")).unwrap();
    fs::write(torch.join("lib/libtorch_cpu.so"), "").unwrap();
    fs::write(torch.join("version.py"), "__version__ = '2.9.1'\n").unwrap();
    moved(temp.path(), &alone, "").refuses(
        3,
        &["site-packages/torch is 2.9.1, and 2.11 is required", &format!("{pip} 'torch==2.11.*'")],
    );
    fs::remove_dir_all(&torch).unwrap();
    std::os::unix::fs::symlink(std::env::var("LIBTORCH").expect("cargo's LIBTORCH"), &torch).unwrap();
    moved(temp.path(), &alone, "").succeeds();
}

#[test]
fn of_the_two_programs_only_the_consumer_links_libtorch() {
    let links_torch = |program: &str| {
        let traced =
            std::process::Command::new(program).env("LD_TRACE_LOADED_OBJECTS", "1").output().unwrap();
        String::from_utf8_lossy(&traced.stdout).contains("libtorch")
    };
    assert!(links_torch(env!("CARGO_BIN_EXE_uvatrain-consumer")));
    assert!(!links_torch(env!("CARGO_BIN_EXE_uvatrain")));
}

/// The requirements of ui.perfetto.dev: every batch a bar on each of three tracks, with an arrow through them, in the
/// order of time.
#[test]
fn a_trace_has_a_track_for_each_process_and_an_arrow_for_each_batch() {
    let temp = directory();
    small_graph(temp.path());
    for mode in ["", "--in-process"] {
        let options = format!("--epochs 2 --samplers 2 --trace trace.json {mode}");
        train(temp.path(), "run.jsonl", &options).run().succeeds();
        let text = fs::read_to_string(temp.path().join("trace.json")).unwrap();
        let events: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        let of = |kind: &'static str| events.iter().filter(move |event| event["ph"] == kind);
        let names = |what: &str| {
            let named = of("M").filter(|event| event["name"] == what);
            let mut names: Vec<&str> = named.map(|event| event["args"]["name"].as_str().unwrap()).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(names("process_name"), ["consumer", "producer", "sampler 0", "sampler 1"]);
        assert_eq!(names("thread_name"), ["gathers rows", "samples", "samples", "uses batches"]);

        let trained = Metrics::read(&temp.path().join("run.jsonl")).trained().len();
        assert_eq!(of("X").count(), 3 * trained);
        let number = |event: &serde_json::Value, name: &str| event[name].as_u64().unwrap();
        let mut ends = std::collections::HashMap::new();
        for bar in of("X") {
            let (begin, end) = (number(bar, "ts"), number(bar, "ts") + number(bar, "dur"));
            let before = ends.insert(number(bar, "pid"), end).unwrap_or(0);
            // Both ends are cut to microseconds.
            assert!(before <= begin + 1, "bars of a track overlap: {bar}");
        }
        for arrow in ["s", "t", "f"] {
            assert_eq!(of(arrow).count(), trained);
        }
        for ((sampled, gathered), used) in of("s").zip(of("t")).zip(of("f")) {
            assert!(sampled["id"] == gathered["id"] && gathered["id"] == used["id"]);
            let times = [sampled, gathered, used].map(|event| number(event, "ts"));
            assert!(times.is_sorted(), "{times:?}");
        }
    }
    let refused = train(temp.path(), "run.jsonl", "--epochs 1 --trace nowhere/trace.json").run();
    refused.refuses(2, &["--trace nowhere/trace.json"]);
    train(temp.path(), "run.jsonl", "--epochs 1 --trace /dev/full")
        .run()
        .refuses(1, &["/dev/full: the trace cannot be written", "No space"]);
}

/// A client's answer from this port: the head and the body.
fn asked(port: u16, request: &str) -> Option<(String, String)> {
    let mut client = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    client.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    client.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(head, body)| (head.to_owned(), body.to_owned()))
}

#[test]
fn figures_of_a_running_training_are_served_in_the_format_of_prometheus() {
    let temp = directory();
    small_graph(temp.path());
    // A port that was free a moment ago; the system gives such a number again late.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let run = train(temp.path(), "run.jsonl", &format!("--epochs 100000 --metrics-listen {port}")).start();
    let value = |body: &str, name: &str| -> Option<f64> {
        body.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    wait_until("an epoch is published", || {
        asked(port, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").is_some_and(|(_, body)| {
            value(&body, "uvatrain_epochs_total").is_some_and(|epochs| epochs >= 1.0)
        })
    });
    let (head, body) = asked(port, "GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(body.contains("dataset=\"graph\"} 1\n"), "{body}");
    for name in ["batches_total", "seeds_total", "edges_total", "batch_loss", "epoch_loss"] {
        assert!(
            value(&body, &format!("uvatrain_{name}")).is_some_and(|value| value > 0.0),
            "{name} in {body}"
        );
    }
    for stage in ["sample", "gather", "train"] {
        let name = format!("uvatrain_stage_seconds_total{{stage=\"{stage}\"}}");
        assert!(value(&body, &name).is_some_and(|seconds| seconds > 0.0), "{name} in {body}");
    }
    // Every line is a comment or a sample, and every sample's family was announced.
    for line in body.lines().filter(|line| !line.starts_with("# ")) {
        let name = line.split(['{', ' ']).next().unwrap();
        assert!(body.contains(&format!("# TYPE {name} ")), "{line}");
    }
    assert!(asked(port, "GET /other HTTP/1.1\r\n\r\n").unwrap().0.starts_with("HTTP/1.1 404"));
    assert!(asked(port, "POST /metrics HTTP/1.1\r\n\r\n").unwrap().0.starts_with("HTTP/1.1 405"));
    // A silent client does not delay others for long, and does not delay the run.
    let silent = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    assert!(asked(port, "GET / HTTP/1.1\r\n\r\n").is_some());
    drop(silent);

    let taken = train(temp.path(), "other.jsonl", &format!("--epochs 1 --metrics-listen {port}")).run();
    taken.refuses(2, &[&format!("--metrics-listen 127.0.0.1:{port}"), "in use"]);
    kill_process(Pid::from_child(&run.child), Signal::INT).unwrap();
    let outcome = run.wait().ends_with(130);
    assert!(outcome.stderr.contains(&format!("figures at http://127.0.0.1:{port}/metrics")), "{outcome}");
}
