//! The messages of a run: figures with their units, epochs and batches from 1, the place of a failure, how to continue.
//! Tests of the real binary.

use std::fs;

use crate::support::arrays::{npy, six_nodes};
use crate::support::runs::{Metrics, small_graph, train};
use crate::support::stamps::{change_behind_a_stamp, settle};
use crate::support::{self, Outcome, contents, directory, uvatrain};

/// The summary's value of this name.
fn fact<'o>(outcome: &'o Outcome, name: &str) -> &'o str {
    let line = outcome.stderr.lines().find(|line| line.starts_with(&format!("{name}  ")));
    line.unwrap_or_else(|| panic!("no {name}\n{outcome}"))[name.len()..].trim()
}

#[test]
fn the_summary_says_what_speed_and_time_count() {
    let temp = directory();
    small_graph(temp.path());
    let outcome = train(temp.path(), "run.jsonl", "--epochs 2 --json").run().succeeds();
    let end = outcome.json();
    let seconds = end["training_seconds"].as_f64().expect("seconds");
    let batches = end["batches"].as_f64().expect("a number");
    assert!((end["batches_per_second"].as_f64().unwrap() * seconds - batches).abs() < 1e-6, "{end}");
    assert!(seconds > 0.0 && seconds < end["seconds"].as_f64().unwrap(), "{end}");
    assert!(fact(&outcome, "speed").contains(&format!("{batches} training batches in ")), "{outcome}");
    assert!(fact(&outcome, "time").ends_with("start and evaluation included"), "{outcome}");
}

#[test]
fn the_summary_is_on_stdout_and_progress_on_stderr() {
    let temp = directory();
    small_graph(temp.path());
    let outcome = train(temp.path(), "run.jsonl", "--epochs 1").run().succeeds();
    for part in ["test accuracy  ", "epochs  ", "time  ", "peak memory"] {
        assert!(outcome.stdout.contains(part) && !outcome.stderr.contains(part), "{part}\n{outcome}");
    }
    assert!(outcome.stderr.contains("epoch 1/1  ") && !outcome.stdout.contains("epoch 1/1  "), "{outcome}");
}

#[test]
fn a_run_prints_80_columns_and_one_table_and_with_verbose_the_processes() {
    let temp = directory();
    small_graph(temp.path());
    let outcome = train(temp.path(), "run.jsonl", "--epochs 2").run().succeeds();
    let epochs = outcome.stderr.lines().filter(|line| line.starts_with("epoch "));
    for line in outcome.stdout.lines().chain(epochs) {
        assert!(line.chars().count() <= 80, "{line}\n{outcome}");
    }
    for part in ["waiting for input", "mapped files"] {
        assert!(!outcome.stdout.contains(part), "{part}\n{outcome}");
    }
    let generate = "generate demo --nodes 20000 --avg-degree 20 --feat-dim 100 --classes 12";
    for line in [generate, "info demo"] {
        let outcome = uvatrain(temp.path(), line.split_whitespace()).run().succeeds();
        assert!(outcome.said().lines().all(|line| line.chars().count() <= 80), "{outcome}");
    }
    let outcome = train(temp.path(), "run.jsonl", "--epochs 2 --verbose").run().succeeds();
    for part in ["waiting for input", "mapped files", "bottleneck  "] {
        assert!(outcome.stdout.contains(part), "{part}\n{outcome}");
    }
}

#[test]
#[ignore = "5 s of a core: scripts/measure/long_tests.sh"]
fn a_resume_with_nothing_left_says_how_to_train_on_and_shows_no_speed() {
    let temp = directory();
    small_graph(temp.path());
    let first = train(temp.path(), "run.jsonl", "--epochs 2 --checkpoint kept --json").run().succeeds();
    let before = contents(&temp.path().join("kept"));
    for mode in ["", "--in-process"] {
        let options = format!("--epochs 2 --checkpoint kept --resume --json {mode}");
        let outcome = train(temp.path(), "again.jsonl", &options).run().succeeds();
        assert!(outcome.stderr.contains("nothing is left to train"), "{outcome}");
        assert!(
            outcome.stderr.contains("2 of 2 epochs") && outcome.stderr.contains("--epochs 3"),
            "{outcome}"
        );
        assert!(!outcome.stderr.contains("resumed at"), "{outcome}");
        let end = outcome.json();
        assert_eq!((&end["batches"], &end["epochs"]), (&0.into(), &2.into()), "{end}");
        for unknown in ["batches_per_second", "bottleneck"] {
            assert!(end.get(unknown).is_some_and(serde_json::Value::is_null), "{unknown}: {end}");
        }
        assert_eq!(end["test_accuracy"], first.json()["test_accuracy"]);
        for unknown in ["speed", "bottleneck"] {
            let told = outcome.stderr.lines().any(|line| line.starts_with(&format!("{unknown}  ")));
            assert!(!told, "{unknown} is not known\n{outcome}");
        }
    }
    let fewer = train(temp.path(), "again.jsonl", "--epochs 1 --checkpoint kept --resume").run().succeeds();
    for part in ["the checkpoint has 2 epochs, more than --epochs 1;", "--epochs 3 or more"] {
        assert!(fewer.stderr.contains(part), "{part} is missing\n{fewer}");
    }
    support::assert_same_contents(&before, &contents(&temp.path().join("kept")));
    // If patience ended the run, it needs more patience to continue.
    let stops = "--epochs 200 --patience 1 --lr 0.03 --checkpoint stopped --json";
    let end = train(temp.path(), "stopped.jsonl", stops).run().succeeds().json();
    assert_eq!(end["stopped_early"], true);
    let again = train(temp.path(), "stopped.jsonl", &format!("{stops} --resume")).run().succeeds();
    assert!(
        again.stderr.contains("nothing is left to train") && again.stderr.contains("--patience 2"),
        "{again}"
    );
    // The printed command works.
    train(temp.path(), "run.jsonl", "--epochs 3 --checkpoint kept --resume").run().succeeds();
    let epochs = Metrics::read(&temp.path().join("run.jsonl")).of("epoch").count();
    assert_eq!(epochs, 3);
    // A report of a file with such a run omits unknown values.
    train(temp.path(), "alone.jsonl", "--epochs 3 --checkpoint kept --resume").run().succeeds();
    uvatrain(temp.path(), ["report", "alone.jsonl", "--out", "page.html"]).run().succeeds();
    let page = fs::read_to_string(temp.path().join("page.html")).unwrap();
    assert!(!page.contains("<dt>speed</dt>"), "{page}");
}

#[test]
fn a_resume_counts_epochs_from_one_and_metrics_from_zero() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "run.jsonl", "--epochs 1 --checkpoint kept").run().succeeds();
    let outcome = train(temp.path(), "run.jsonl", "--epochs 2 --checkpoint kept --resume").run().succeeds();
    assert!(outcome.stderr.contains("resumed at batch 1 of epoch 2\n"), "{outcome}");
    assert!(outcome.stderr.contains("epoch 2/2"), "{outcome}");
    let metrics = Metrics::read(&temp.path().join("run.jsonl"));
    assert_eq!(metrics.of("start").last().unwrap()["in_force"]["start"]["epoch"], 1);
    let first = metrics.trained().into_iter().find(|batch| batch.0 == 1).unwrap();
    assert_eq!(first.1, 0);
}

#[test]
fn errors_count_epochs_and_batches_from_one() {
    let temp = directory();
    let graph = small_graph(temp.path());
    // Enough for the seeds, not for their neighbours.
    for mode in ["", "--in-process"] {
        let run = train(temp.path(), "run.jsonl", &format!("--epochs 1 --slot-bytes 20KiB {mode}")).run();
        run.refuses(2, &["train batch 1 of epoch 1", "--slot-bytes"]);
    }
    let mut features = fs::read(graph.join("feat.npy")).unwrap();
    let data = features.len() - 4000 * 24 * 4;
    for value in features[data..].chunks_exact_mut(4) {
        value.copy_from_slice(&f32::NAN.to_le_bytes());
    }
    fs::write(graph.join("feat.npy"), features).unwrap();
    train(temp.path(), "run.jsonl", "--epochs 1").run().refuses(1, &["the loss of batch 1 of epoch 1"]);
}

#[test]
fn a_failure_in_a_full_evaluation_is_reported_as_such() {
    let temp = directory();
    let six = temp.path().join("six");
    six_nodes(&six);
    settle(&six);
    let line = "train six --fanouts 2 --batch-size 1 --epochs 1 --eval full";
    uvatrain(temp.path(), line.split(' ')).run().succeeds();
    assert!(six.join(".uvatrain-stamp.json").exists(), "nothing stands in for the pass over the edges");
    // The list of node 3, which no batch reads and the evaluation does.
    change_behind_a_stamp(&six.join("indices.npy"), &npy::<i32>(&[8], false, &[1, 2, 0, 0, 3, 4, 99, 2]));
    for mode in ["", " --in-process"] {
        let refused = uvatrain(temp.path(), format!("{line}{mode}").split(' ')).run();
        let parts = ["in the full evaluation of the validation nodes after epoch 1", "neighbour 99"];
        let refused = refused.refuses(2, &parts);
        assert!(!refused.stderr.contains("batch"), "{refused}");
    }
    // With nothing to validate it is the test's.
    fs::write(six.join("valid_idx.npy"), npy::<i64>(&[0], false, &[])).unwrap();
    fs::remove_file(six.join(".uvatrain-stamp.json")).unwrap();
    fs::write(six.join("indices.npy"), npy::<i32>(&[8], false, &[1, 2, 0, 0, 3, 4, 2, 2])).unwrap();
    settle(&six);
    uvatrain(temp.path(), ["info", "six"]).run().succeeds();
    change_behind_a_stamp(&six.join("indices.npy"), &npy::<i32>(&[8], false, &[1, 2, 0, 0, 3, 4, 99, 2]));
    let refused = uvatrain(temp.path(), line.split(' ')).run();
    refused.refuses(2, &["in the full evaluation of the test nodes", "neighbour 99"]);
}

#[test]
fn more_picks_than_a_stream_has_words_for_are_refused_before_the_run() {
    const HUB: u64 = 70_001;
    let temp = directory();
    let hub = temp.path().join("hub");
    fs::create_dir(&hub).unwrap();
    let write = |name: &str, bytes: Vec<u8>| fs::write(hub.join(name), bytes).unwrap();
    // Node 0 has all others as neighbours, the others have none.
    let indptr: Vec<i64> = (0..=HUB as i64).map(|node| if node == 0 { 0 } else { HUB as i64 }).collect();
    write("indptr.npy", npy(&[HUB + 1], false, &indptr));
    write("indices.npy", npy(&[HUB], false, &(0..HUB as i32).collect::<Vec<_>>()));
    write("feat.npy", npy(&[HUB, 1], false, &vec![0.5_f32; HUB as usize]));
    let labels: Vec<i64> = (0..HUB as i64).map(|node| node % 2).collect();
    write("label.npy", npy(&[HUB], false, &labels));
    write("train_idx.npy", npy::<i64>(&[2], false, &[1, 2]));
    write("valid_idx.npy", npy::<i64>(&[0], false, &[]));
    write("test_idx.npy", npy::<i64>(&[0], false, &[]));
    let line = "--fanouts 70000 --batch-size 2 --device cpu";
    for command in [
        format!("train hub {line} --epochs 1 --metrics new.jsonl"),
        format!("train hub {line} --epochs 1 --metrics new.jsonl --in-process"),
        format!("run hub {line} --metrics new.jsonl -- true"),
        format!("plan hub {line} --gpu-cache 1MiB"),
    ] {
        let refused = uvatrain(temp.path(), command.split(' ')).run();
        let refused = refused.refuses(2, &["--fanouts", "70000", "70001", "65536"]);
        // No role had been started that could fail.
        assert!(!refused.stderr.contains("failed"), "{refused}");
        assert!(!temp.path().join("new.jsonl").exists(), "{command}");
    }
    // As the longest list takes all of it, there is nothing to draw.
    let line = "train hub --fanouts 70001 --batch-size 2 --epochs 1 --hidden 4";
    uvatrain(temp.path(), line.split(' ')).run().succeeds();
}

#[test]
fn a_number_out_of_its_range_is_refused_with_both_ends() {
    let temp = directory();
    for (line, option, range) in [
        ("bench requests --row-bytes 480 --base-offset 128", "--base-offset", "128 is not from 0 to 127"),
        ("train data --slots 65", "--slots", "65 is not from 1 to 64"),
        ("train data --epochs 0", "--epochs", "0 is not 1 or more"),
        ("train data --train-threads 1025", "--train-threads", "1025 is not from 1 to 1024"),
        ("train data --epochs many", "--epochs", "whole number"),
    ] {
        let refused = uvatrain(temp.path(), line.split(' ')).run().refuses(2, &[option, range]);
        assert!(!refused.stderr.contains(".."), "{refused}");
    }
}

#[test]
fn results_name_the_epoch_that_they_are_of() {
    let temp = directory();
    small_graph(temp.path());
    // The kept model is tested, with early stopping or without.
    for (options, tests_the_best) in [
        ("--epochs 3 --keep last", false),
        ("--epochs 12", true),
        ("--epochs 200 --patience 2 --keep last", false),
        ("--epochs 200 --patience 2", true),
    ] {
        let line = format!("--lr 0.03 {options} --json");
        let outcome = train(temp.path(), "run.jsonl", &line).run().succeeds();
        let end = outcome.json();
        let number = |name: &str| end[name].as_u64().unwrap_or_else(|| panic!("{name}: {end}"));
        let accuracies: Vec<f64> = Metrics::read(&temp.path().join("run.jsonl"))
            .of("epoch")
            .map(|epoch| epoch["valid_accuracy"].as_f64().unwrap())
            .collect();
        let best = number("best_valid_epoch");
        assert_eq!(Some(accuracies[best as usize]), end["best_valid_accuracy"].as_f64(), "{end}");
        assert_eq!(number("test_epoch"), if tests_the_best { best } else { number("epochs") - 1 }, "{end}");
        let of = |epoch: u64| format!(", epoch {}", epoch + 1);
        assert!(fact(&outcome, "test accuracy").ends_with(&of(number("test_epoch"))), "{outcome}");
        assert!(fact(&outcome, "best validation accuracy").ends_with(&of(best)), "{outcome}");
        let kept = if tests_the_best { format!("best by validation{}", of(best)) } else { "last".into() };
        assert!(fact(&outcome, "model").starts_with(&kept), "{outcome}");
    }
    uvatrain(temp.path(), ["report", "run.jsonl", "--out", "page.html"]).run().succeeds();
    let page = fs::read_to_string(temp.path().join("page.html")).unwrap();
    let best = Metrics::read(&temp.path().join("run.jsonl")).of("end").last().unwrap()["test_epoch"].as_u64();
    let tile = page.split("<dt>test accuracy</dt>").nth(1).unwrap().split("</div>").next().unwrap();
    assert!(tile.contains(&format!("of epoch {}", best.unwrap() + 1)), "{tile}");
}

/// A number of threads that is not a default.
fn unusual_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from) / 2 + 1
}

#[test]
#[ignore = "7 s of a core: scripts/measure/long_tests.sh"]
fn a_resume_keeps_the_number_of_threads_and_says_where_it_does_not() {
    let temp = directory();
    // Products large enough that two threads sum in another order than one.
    let graph = "generate graph --nodes 6000 --avg-degree 12 --feat-dim 256 --classes 12 --seed 7";
    uvatrain(temp.path(), graph.split(' ')).run().succeeds();
    let threads = unusual_threads();
    let run = |metrics: &str, more: &str| {
        let line = format!(
            "train graph --fanouts 10,5 --batch-size 512 --hidden 128 --gather-threads 1 --samplers 1 --metrics \
             {metrics} {more}"
        );
        uvatrain(temp.path(), line.split_whitespace()).run().succeeds()
    };
    run("whole.jsonl", &format!("--epochs 2 --train-threads {threads}"));
    run("parts.jsonl", &format!("--epochs 1 --train-threads {threads} --checkpoint kept"));
    let resumed = run("parts.jsonl", "--epochs 2 --checkpoint kept --resume");
    assert!(resumed.stderr.contains(&format!("--train-threads {threads}, as before")), "{resumed}");
    let [whole, parts] = ["whole.jsonl", "parts.jsonl"].map(|name| Metrics::read(&temp.path().join(name)));
    assert_eq!(parts.of("start").last().unwrap()["in_force"]["train_threads"], threads);
    assert_eq!(parts.trained(), whole.trained());

    // With another requested number the run uses it, and prints the consequence.
    let other = threads + 1;
    let options = format!("--epochs 3 --checkpoint kept --resume --train-threads {other}");
    let changed = run("parts.jsonl", &options);
    let said = format!("--train-threads {other}, {threads} before");
    assert_eq!(changed.stderr.matches(&said).count(), 1, "{said}\n{changed}");
    // From then on that number is used.
    let again = run("parts.jsonl", "--epochs 4 --checkpoint kept --resume");
    assert!(again.stderr.contains(&format!("--train-threads {other}, as before")), "{again}");
    // The same number given explicitly causes no message.
    let same = run("parts.jsonl", &format!("--epochs 5 --checkpoint kept --resume --train-threads {other}"));
    assert!(!same.stderr.contains("before"), "{same}");
}

#[test]
fn a_run_that_waits_for_training_names_the_option_that_the_report_would() {
    let temp = directory();
    small_graph(temp.path());
    // Work for the consumer alone: a wide model over a small graph.
    let line = "train graph --fanouts 5,4 --batch-size 100 --train-threads 1 --gather-threads 1 --epochs 4 --model gat \
                --hidden 256 --device cpu --metrics run.jsonl";
    let outcome = uvatrain(temp.path(), line.split_whitespace()).run().succeeds();
    uvatrain(temp.path(), ["report", "run.jsonl", "--out", "page.html"]).run().succeeds();
    let page = fs::read_to_string(temp.path().join("page.html")).unwrap();
    let verdict = page.split("<p class=\"verdict\">").nth(1).unwrap().split("</p>").next().unwrap();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(verdict.contains("--train-threads 2"), "{verdict}");
    // Without a second core, a second thread gains nothing.
    let suggested = outcome.stdout.contains("--train-threads 2");
    assert_eq!(suggested, cores > 1, "{outcome}");
}
