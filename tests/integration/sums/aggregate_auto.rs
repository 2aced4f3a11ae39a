//! `--aggregate auto` in whole programs: the trial of both methods, the search for the share between them, and the
//! reports.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::directory;
use crate::support::extent::some_of;
use crate::support::runs::{Metrics, learned, role_of, small_graph, wait_for_batches};

/// Many small batches, with few slots, so that `auto` can try both ways in an epoch.
const SMALL_BATCHES: &str = "train graph --fanouts 5,4 --batch-size 5 --train-threads 1 --slots 2";

/// The other stages of such a run.
const BY_ROLES: &str = "--gather-threads 1 --samplers 1 --batch-slots 3";

/// Workers instead of these stages.
const BY_WORKERS: &str = "--prepare whole --samplers 3";

/// Number of batches in an epoch.
const EPOCH: usize = 325;

/// A run of these batches.
pub fn small_batches(directory: &Path, metrics: &str, options: &str) -> Metrics {
    made_by(BY_ROLES, directory, metrics, options)
}

fn made_by(stages: &str, directory: &Path, metrics: &str, options: &str) -> Metrics {
    let line = format!("{SMALL_BATCHES} {stages} --metrics {metrics} {options}");
    crate::support::uvatrain(directory, line.split_whitespace()).run().succeeds();
    Metrics::read(&directory.join(metrics))
}

/// Where the first layer is aggregated, according to the start record of the last run in a metrics file.
fn at_start(metrics: &Metrics) -> Value {
    metrics.of("start").last().unwrap()["in_force"]["aggregate"].clone()
}

/// Checks that the batches of a file's last run were tried in windows, and continued according to the choices recorded
/// between them.
pub fn check_the_trial(metrics: &Metrics) {
    // Feature slots, and batch slots.
    check_the_trial_with(2, 3, metrics);
}

/// Checks the trial with this many slots before the consumer, and this many slots before those.
fn check_the_trial_with(slots: usize, behind: usize, metrics: &Metrics) {
    // Batches of a window that are not timed, since they may be in flight when the method changes; batches of a whole
    // window, and of a round.
    let settling = slots + behind;
    let window = settling + 16;
    let round = 4 * window;
    let start = metrics.0.iter().rposition(|line| line["event"] == "start").unwrap();
    let run = Metrics(metrics.0[start..].to_vec());
    assert_eq!(at_start(&run)["way"], "auto");
    let choices: Vec<&Value> = run.of("in_force").map(|line| &line["in_force"]["aggregate"]).collect();
    // A choice made with the last batches applies to no batch.
    let choices: Vec<&Value> = choices.into_iter().filter(|choice| choice["from"].is_object()).collect();
    let chosen = *choices.first().expect("a choice");
    let way = chosen["way"].as_str().unwrap();
    let speed = |way: &str| chosen["batches_per_second"][way].as_f64().unwrap();
    assert_eq!(way == "host", speed("off") <= 0.95 * speed("host"), "{chosen}");
    assert_eq!(way == "off", chosen["sums"] == "none", "{chosen}");
    assert_eq!(chosen["share"].as_f64(), Some(if way == "host" { 1.0 } else { 0.0 }), "{chosen}");
    let reason = chosen["reason"].as_str().unwrap();
    assert!(reason.contains(if way == "host" { "the producer sums" } else { "the consumer sums" }));

    let batches: Vec<&Value> = run.of("batch").collect();
    let ways: Vec<&str> = batches.iter().map(|batch| batch["aggregate"]["way"].as_str().unwrap()).collect();
    let place = |batch: &Value| (batch["epoch"].as_u64().unwrap(), batch["batch"].as_u64().unwrap());
    let index = |of: &Value| batches.iter().position(|batch| place(batch) == place(of)).unwrap();
    let from = index(&chosen["from"]);
    // The choice is made when a batch after a round is taken, and applies from the batch that gets that slot.
    let rounds = (from - window) / round;
    assert_eq!(from, window + rounds * round + slots, "{chosen}");
    assert!((1..=3).contains(&rounds), "{chosen}");
    for (number, found) in ways.iter().enumerate().take(from) {
        let tried = number.checked_sub(window).filter(|tried| *tried < 3 * round);
        let sums = tried.is_some_and(|tried| [1, 2].contains(&(tried / window % 4)));
        assert_eq!(*found, if sums { "host" } else { "off" }, "batch {number}: {chosen}");
    }
    assert!(chosen["measured_batches"].as_u64().unwrap() <= (rounds * 4 * 15) as u64, "{chosen}");

    // The search follows, as far as the run gets.
    let parts = if behind == 0 { slots - 1 } else { 4 };
    let whole = |share: &Value| (share.as_f64().unwrap() * parts as f64).round() as usize;
    let kept: Vec<(usize, usize)> =
        choices.iter().map(|choice| (index(&choice["from"]), whole(&choice["share"]))).collect();
    for (pair, choice) in kept.windows(2).zip(&choices[1..]) {
        assert_eq!(pair[0].1.abs_diff(pair[1].1), 1, "{choices:?}");
        let mut speeds: Vec<f64> = choice["batches_per_second"]
            .as_object()
            .unwrap()
            .values()
            .map(|speed| speed.as_f64().unwrap())
            .collect();
        speeds.sort_by(f64::total_cmp);
        assert!(speeds.len() == 2 && speeds[0] <= 0.98 * speeds[1] + 1e-9, "{choice}");
        let expected = match pair[1].1 {
            0 => "off",
            all if all == parts => "host",
            _ => "mixed",
        };
        assert_eq!(choice["way"], expected, "{choice}");
        assert_eq!(choice["sums"] == "none", expected == "off", "{choice}");
    }
    // Parts consist of training batches, or of all batches with workers: a sequence number counts validation batches as
    // well. Batches have five nodes.
    let validation = run.of("start").next().unwrap()["dataset"]["valid"].as_u64().unwrap().div_ceil(5);
    let absolute = |batch: &Value| place(batch).0 * (EPOCH as u64 + validation) + place(batch).1;
    let places: Vec<u64> = match behind {
        0 => batches.iter().map(|batch| absolute(batch) - absolute(batches[0])).collect(),
        _ => (0..batches.len() as u64).collect(),
    };
    check_the_search(&kept, parts, window, &ways, &places);

    let end = &run.of("end").next().unwrap()["aggregate"];
    assert_eq!(end["way"], "auto");
    for way in ["off", "host"] {
        let count = ways.iter().filter(|found| **found == way).count();
        assert_eq!(end["batches"][way].as_u64(), Some(count as u64), "{end}");
    }
}

/// Checks that batches use the methods of the kept share of this many parts, given by the batches from which it
/// applies, except in windows of a neighbouring share. A window has at least this many batches. A search leaves no
/// other trace.
fn check_the_search(kept: &[(usize, usize)], parts: usize, window: usize, ways: &[&str], places: &[u64]) {
    let has = |share: usize, place: u64| {
        // The order in which parts are added to a share.
        let order = [0, 2, 1, 3].into_iter().filter(|part| *part < parts);
        order.take(share).any(|part| place % parts as u64 == part as u64)
    };
    let (first, mut share) = kept[0];
    // Possible distances from the kept share for the batches so far, and the number of batches at each.
    let mut possible = vec![(0_isize, 0_usize)];
    for (number, (way, place)) in ways.iter().zip(places).enumerate().skip(first) {
        let mut next: Vec<(isize, usize)> = Vec::new();
        let changed = kept[1..].iter().find(|(from, _)| *from == number);
        for (step, batches) in possible {
            if batches >= window {
                match changed {
                    Some(_) if step == 0 => next.push((0, 0)),
                    None if step == 0 => next.extend([(1, 0), (-1, 0)]),
                    None => next.push((0, 0)),
                    Some(_) => {}
                }
            }
            if changed.is_none() {
                next.push((step, batches));
            }
        }
        if let Some((_, to)) = changed {
            share = *to;
        }
        next.retain(|(step, _)| {
            let share = share.checked_add_signed(*step).filter(|share| *share <= parts);
            share.is_some_and(|share| has(share, *place) == (*way == "host"))
        });
        next.iter_mut().for_each(|(_, batches)| *batches = (*batches + 1).min(window));
        next.sort_unstable();
        next.dedup();
        assert!(!next.is_empty(), "batch {number}, {share} of {parts} parts kept: {:?}", &ways[..=number]);
        possible = next;
    }
}

#[test]
#[ignore = "14 s of a core: scripts/measure/long_tests.sh"]
fn auto_tries_both_ways_in_the_first_batches_and_keeps_one() {
    let temp = directory();
    small_graph(temp.path());
    for model in ["sage", "gcn"] {
        let run = |options: &str| {
            small_batches(
                temp.path(),
                "run.jsonl",
                &format!("--hidden 16 --model {model} --epochs 2 {options}"),
            )
        };
        let slot = |metrics: &Metrics| {
            metrics.of("start").last().unwrap()["in_force"]["feature_slot_bytes"].as_u64().unwrap()
        };
        let off = run("--aggregate off --in-process");
        let host = run("--aggregate host --in-process");
        assert_eq!(off.of("batch").count(), 2 * EPOCH);
        assert!(off.of("in_force").next().is_none() && host.of("in_force").next().is_none());
        let cached = "--in-process --gpu-cache 100KB --cache-policy fifo";
        // The choice does not depend on the model: one of them is tried with every method.
        let ways: &[&str] = if model == "sage" { &["", "--in-process", cached] } else { &["", cached] };
        for options in ways {
            let auto = run(options);
            assert_eq!(learned(&auto), learned(&off), "{model} {options}");
            check_the_trial(&auto);
            assert_eq!(slot(&auto), slot(&off).max(slot(&host)), "{model}");
        }
        let ways: &[&str] = if model == "sage" { &["", "--in-process"] } else { &["--in-process"] };
        for options in ways {
            let options = format!("--hidden 16 --model {model} --epochs 2 {options}");
            let auto = made_by(BY_WORKERS, temp.path(), "run.jsonl", &options);
            assert_eq!(learned(&auto), learned(&off), "{model} {options}");
            // Three workers have two slots more.
            check_the_trial_with(2 + 2, 0, &auto);
        }
        let hits = |metrics: &Metrics| {
            metrics.of("batch").map(|batch| batch["cache"]["row_hits"].as_u64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(hits(&run(cached)), hits(&run(&format!("{cached} --aggregate off"))), "{model}");
    }
}

#[test]
#[ignore = "6 s of a core: scripts/measure/long_tests.sh"]
fn a_resumed_run_tries_again_and_has_the_same_losses() {
    let temp = directory();
    small_graph(temp.path());
    for model in ["sage", "gcn"] {
        let model = format!("--hidden 16 --model {model}");
        let off = small_batches(temp.path(), "off.jsonl", &format!("{model} --epochs 3 --aggregate off"));
        let kept = format!("{model} --checkpoint kept --overwrite-checkpoint");
        small_batches(temp.path(), "kept.jsonl", &format!("{kept} --epochs 1 --aggregate host"));
        let kept = format!("{model} --checkpoint kept --resume --epochs 3");
        let resumed = small_batches(temp.path(), "kept.jsonl", &kept);
        assert_eq!(learned(&resumed), learned(&off), "{model}");
        check_the_trial(&resumed);
    }
}

#[test]
fn a_run_killed_during_its_trial_resumes_with_equal_losses_and_retries() {
    let temp = directory();
    small_graph(temp.path());
    let options = "--hidden 16 --epochs 4";
    let off = small_batches(temp.path(), "off.jsonl", &format!("{options} --aggregate off")).trained();
    let expected: BTreeMap<_, _> =
        off.into_iter().map(|(epoch, batch, hash, loss)| ((epoch, batch), (hash, loss))).collect();
    // In the trial, at its choice, and in windows of the search.
    for (stages, role, slots, behind, moments) in
        [(BY_WORKERS, "worker", 4, 0, [40, 110, 200]), (BY_ROLES, "producer", 2, 3, [40, 150, 200])]
    {
        for batches in some_of(&moments) {
            let name = format!("{role}-{batches}");
            let metrics = format!("{name}.jsonl");
            let line = format!(
                "{SMALL_BATCHES} {stages} --metrics {metrics} {options} --checkpoint {name} --checkpoint-every 25"
            );
            let mut run = crate::support::uvatrain(temp.path(), line.split_whitespace()).start();
            let process = role_of(&run, role);
            wait_for_batches(&mut run, &temp.path().join(&metrics), batches);
            process.signal(Signal::KILL);
            run.wait().refuses(1, &["killed by SIGKILL"]);
            let resumed =
                made_by(stages, temp.path(), &metrics, &format!("{options} --checkpoint {name} --resume"));
            let trained = resumed.trained();
            assert!(trained.len() >= expected.len(), "{name}");
            for (epoch, batch, hash, loss) in trained {
                let found = Some(&(hash, loss));
                assert_eq!(expected.get(&(epoch, batch)), found, "{name}: epoch {epoch}, batch {batch}");
            }
            check_the_trial_with(slots, behind, &resumed);
        }
    }
}

#[test]
fn auto_tries_nothing_in_a_run_too_short_or_with_slots_of_a_given_size() {
    let temp = directory();
    small_graph(temp.path());
    let window = 2 + 3 + 16;
    let enough = window + 5 * 4 * window;
    for (options, part) in [
        ("--epochs 1", format!("the run has {EPOCH} training batches, and from {enough} on")),
        ("--epochs 2 --slot-bytes 64MiB", "`slot_bytes=64MiB`".to_owned()),
    ] {
        let auto = small_batches(temp.path(), "auto.jsonl", &format!("{options} --hidden 16 --in-process"));
        assert_eq!(at_start(&auto)["way"], "off", "{options}");
        assert!(at_start(&auto)["reason"].as_str().unwrap().contains(&part), "{}", at_start(&auto));
        assert!(auto.of("in_force").next().is_none());
        assert!(auto.of("batch").all(|batch| batch.get("aggregate").is_none()), "{options}");
    }
    // Only the metrics of the resumed run count.
    let kept = "--hidden 16 --checkpoint kept";
    small_batches(temp.path(), "kept.jsonl", &format!("{kept} --epochs 1 --aggregate off"));
    let resumed = small_batches(temp.path(), "kept.jsonl", &format!("{kept} --epochs 2 --resume"));
    assert!(at_start(&resumed)["reason"].as_str().unwrap().contains("has 325 training batches"));
}

#[test]
fn a_run_whose_trainer_multiplies_first_never_sums() {
    let temp = directory();
    small_graph(temp.path());
    for model in ["sage", "gcn"] {
        // Of 24 columns 2 are left to sum.
        let run = |options: &str| {
            small_batches(
                temp.path(),
                "run.jsonl",
                &format!("--hidden 2 --model {model} --epochs 2 {options}"),
            )
        };
        let (off, auto) = (run("--aggregate off"), run(""));
        assert_eq!(learned(&auto), learned(&off), "{model}");
        assert_eq!(at_start(&auto)["way"], "auto");
        assert!(auto.of("batch").all(|batch| batch["aggregate"]["way"] == "off"), "{model}");
        let chosen = auto.of("in_force").next().unwrap()["in_force"]["aggregate"].clone();
        assert_eq!((&chosen["way"], &chosen["sums"]), (&"off".into(), &"none".into()));
        assert!(chosen["reason"].as_str().unwrap().contains("multiplies rows"), "{chosen}");
        let end = auto.of("end").next().unwrap()["aggregate"].clone();
        assert_eq!(end["batches"], serde_json::json!({ "host": 0, "off": 2 * EPOCH }));
        assert_eq!((&end["slot_bytes"], &end["sum_rows"]), (&end["raw_slot_bytes"], &0.into()), "{end}");
    }
}

#[test]
fn the_choice_is_shown_on_the_screen_once() {
    let temp = directory();
    small_graph(temp.path());
    let line = format!("{SMALL_BATCHES} {BY_ROLES} --hidden 16 --epochs 2 --metrics run.jsonl");
    let outcome = crate::support::uvatrain(temp.path(), line.split_whitespace()).run().succeeds();
    let metrics = Metrics::read(&temp.path().join("run.jsonl"));
    let mut last = Value::Null;
    for line in metrics.of("in_force") {
        last = line["in_force"]["aggregate"].clone();
        let told = format!("--aggregate auto: {}", last["reason"].as_str().unwrap());
        assert_eq!(outcome.stderr.matches(&told).count(), 1, "{told} in {outcome}");
    }
    // The report accepts the line in the middle of the batches.
    crate::support::uvatrain(temp.path(), ["report", "run.jsonl", "--out", "page.html"]).run().succeeds();
    let page = fs::read_to_string(temp.path().join("page.html")).unwrap();
    let [way, reason] = ["way", "reason"].map(|name| last[name].as_str().unwrap());
    assert!(page.contains(&format!("{way} (")) && page.contains(reason), "{last}");
}
