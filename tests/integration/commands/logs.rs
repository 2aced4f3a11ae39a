//! The program's own trace: `RUST_LOG` and `UVATRAIN_LOG` in every process of a run, each line with its role. Tests of
//! the real binary.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::runs::{Metrics, small_graph, train};
use crate::support::{directory, uvatrain};
use serde_json::Value;

/// The lines of the trace as text: the level, and the role with target and message after it.
fn lines(stderr: &str) -> Vec<(&str, &str)> {
    let traced = stderr.lines().filter_map(|line| {
        let (time, rest) = line.split_once(' ')?;
        let is_time = time.starts_with("20") && time.ends_with('Z') && time.contains('T');
        is_time.then(|| rest.trim_start().split_once(' ')).flatten()
    });
    traced.collect()
}

#[test]
fn rust_log_shows_every_role_and_each_line_names_its_own() {
    let temp = directory();
    small_graph(temp.path());
    let run = train(temp.path(), "run.jsonl", "--epochs 1 --samplers 2")
        .env("RUST_LOG", "uva_runtime=debug,uva_launch=debug");
    let outcome = run.run().succeeds();
    let lines = lines(&outcome.stderr);
    for role in ["launcher", "sampler 0", "sampler 1", "producer", "consumer", "janitor"] {
        let crates = ["uva_runtime", "uva_launch"].map(|name| format!("{role} {name}::"));
        let of_role = lines.iter().any(|(_, rest)| crates.iter().any(|name| rest.starts_with(name)));
        assert!(of_role, "no line of the {role}\n{outcome}");
    }
    for (level, rest) in &lines {
        assert!(["DEBUG", "INFO", "WARN", "ERROR"].contains(level), "{level} {rest}");
        assert!([" uva_runtime::", " uva_launch::"].iter().any(|name| rest.contains(name)), "{rest}");
    }
    // The usual messages for users are printed as well.
    assert!(outcome.stderr.contains("epoch 1/1"), "{outcome}");
}

#[test]
fn info_is_a_few_lines_of_every_process_on_its_settings_and_its_end() {
    let temp = directory();
    small_graph(temp.path());
    for options in ["--samplers 2", "--samplers 2 --in-process"] {
        let mut counts = Vec::new();
        for epochs in [1, 3] {
            let run = train(temp.path(), "run.jsonl", &format!("--epochs {epochs} {options}"));
            let outcome = run.env("UVATRAIN_LOG", "info").run().succeeds();
            let lines = lines(&outcome.stderr);
            for (level, rest) in &lines {
                assert_eq!(*level, "INFO", "{rest}");
            }
            let of = |role: &str, what: &str| {
                let found = lines
                    .iter()
                    .any(|(_, rest)| rest.starts_with(&format!("{role} uva")) && rest.contains(what));
                assert!(found, "no `{what}` of the {role} under {options}\n{outcome}");
            };
            let launcher = if options.contains("in-process") { "consumer" } else { "launcher" };
            for what in
                ["dataset is open", "nodes=4000", "batches are planned", "batch_slots=8", "the run has ended"]
            {
                of(launcher, what);
            }
            of("sampler 0", "ready to sample");
            of("sampler 1", "ready to sample");
            of("producer", "ready to gather");
            of("consumer", "ready to train");
            of("consumer", "parameters=");
            for role in ["sampler 0", "sampler 1", "producer"] {
                of(role, "work has ended");
            }
            counts.push(lines.len());
        }
        // The number of lines does not depend on the length of the run.
        assert_eq!(counts[0], counts[1], "{options}");
        assert!((8..40).contains(&counts[0]), "{counts:?}");
    }
}

#[test]
fn log_lines_are_not_shown_by_default() {
    let temp = directory();
    small_graph(temp.path());
    for run in [
        train(temp.path(), "run.jsonl", "--epochs 1"),
        train(temp.path(), "run.jsonl", "--epochs 1").env("RUST_LOG", ""),
        train(temp.path(), "run.jsonl", "--epochs 1").env("RUST_LOG", "uva_graph=trace"),
    ] {
        let outcome = run.run().succeeds();
        assert!(lines(&outcome.stderr).is_empty(), "{outcome}");
    }
}

#[test]
fn uvatrain_log_comes_before_rust_log() {
    let temp = directory();
    small_graph(temp.path());
    let traced = |own: &str, general: &str| {
        let run = train(temp.path(), "run.jsonl", "--epochs 1");
        let outcome = run.env("UVATRAIN_LOG", own).env("RUST_LOG", general).run().succeeds();
        !lines(&outcome.stderr).is_empty()
    };
    assert!(!traced("error", "debug"));
    assert!(traced("debug", "error"));
    assert!(traced("", "debug"), "a variable that says nothing counts as none");
}

#[test]
fn json_lines_have_their_role_and_process_and_fields_of_their_own() {
    let temp = directory();
    small_graph(temp.path());
    let traced = |options: &str| -> Vec<Value> {
        let run = train(temp.path(), "run.jsonl", options);
        let run =
            run.env("RUST_LOG", "uva_runtime::pipeline::roles=trace").env("UVATRAIN_LOG_FORMAT", "json");
        let outcome = run.run().succeeds();
        let objects = outcome.stderr.lines().filter(|line| line.starts_with('{'));
        objects.map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    };
    let processes = traced("--epochs 1 --samplers 2");
    let mut pids: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for line in &processes {
        let role = line["role"].as_str().unwrap();
        pids.entry(role).or_default().insert(line["process"].as_u64().unwrap());
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
        assert!(["info", "trace"].contains(&line["level"].as_str().unwrap()), "{line}");
    }
    assert_eq!(pids.keys().copied().collect::<Vec<_>>(), ["consumer", "producer", "sampler 0", "sampler 1"]);
    let all: BTreeSet<u64> = pids.values().flatten().copied().collect();
    assert!(pids.values().all(|of_role| of_role.len() == 1) && all.len() == 4, "{pids:?}");

    // Each batch in the metrics was sampled, gathered and taken, and so were those of validation and test.
    let batches = Metrics::read(&temp.path().join("run.jsonl")).of("batch").count();
    let sequences = |lines: &[Value], message: &str| -> BTreeSet<u64> {
        let of_it = lines.iter().filter(|line| line["message"] == message);
        of_it.map(|line| line["sequence"].as_u64().unwrap()).collect()
    };
    let sampled = sequences(&processes, "sampled");
    assert!(batches > 0 && sampled.len() > batches, "{} sampled, {batches} trained", sampled.len());
    assert_eq!(sampled, sequences(&processes, "gathered"));
    assert_eq!(sampled, sequences(&processes, "taken"));

    // As threads of one process, roles are distinguished by their threads.
    let threads = traced("--epochs 1 --samplers 2 --in-process");
    let roles: BTreeSet<&str> = threads.iter().map(|line| line["role"].as_str().unwrap()).collect();
    assert_eq!(roles.into_iter().collect::<Vec<_>>(), ["consumer", "producer", "sampler 0", "sampler 1"]);
    assert_eq!(sequences(&threads, "sampled"), sampled);
}

#[test]
fn unreadable_input_is_reported_once_and_the_run_continues() {
    let temp = directory();
    small_graph(temp.path());
    let run = train(temp.path(), "run.jsonl", "--epochs 1");
    let outcome = run.env("RUST_LOG", "uva_runtime=loud").env("UVATRAIN_LOG_FORMAT", "xml").run().succeeds();
    for complaint in ["RUST_LOG=uva_runtime=loud", "UVATRAIN_LOG_FORMAT=xml"] {
        assert_eq!(outcome.stderr.matches(complaint).count(), 1, "{complaint}\n{outcome}");
    }
    // Every command reports it, and none fails because of it.
    let outcome = uvatrain(temp.path(), ["info", "graph"]).env("UVATRAIN_LOG", "a=b=c").run().succeeds();
    assert!(outcome.stderr.contains("UVATRAIN_LOG=a=b=c"), "{outcome}");
}
