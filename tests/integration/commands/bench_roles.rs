//! Tests of `uvatrain bench roles`, which does not require a GPU.

use crate::support::runs::small_graph;
use crate::support::{directory, uvatrain};

fn json(arguments: &str) -> serde_json::Value {
    let temp = directory();
    let line = format!("bench roles --json {arguments}");
    uvatrain(temp.path(), line.split_whitespace()).run().succeeds().json()
}

#[test]
fn the_division_of_eight_gpus_is_the_one_whose_slower_side_is_fastest() {
    // A batch of GCN on papers100M, as measured by GNNLab's authors.
    let report = json("--times 6.69,3.31,26.7 --gpus 8 --batches 151");
    assert_eq!((&report["samplers"], &report["samplers_by_ratio"]), (&2.into(), &2.into()), "{report}");
    let divisions = report["divisions"].as_array().unwrap();
    assert_eq!(divisions.len(), 7);
    let epoch = |division: &serde_json::Value| division["epoch_ms"].as_f64().unwrap();
    let fastest = divisions.iter().min_by(|one, other| epoch(one).total_cmp(&epoch(other))).unwrap();
    assert_eq!((&fastest["samplers"], &fastest["trainers"]), (&2.into(), &6.into()), "{report}");
    let slower_side = |samplers: f64, trainers: f64| (6.69 * 151.0 / samplers).max(26.7 * 151.0 / trainers);
    for division in divisions {
        let of = |name: &str| division[name].as_f64().unwrap();
        let least = slower_side(of("samplers"), of("trainers"));
        // The epoch exceeds it by at most a batch in flight, and a last step that is not full.
        assert!((least..least + 6.69 + 3.31 + 2.0 * 26.7).contains(&of("epoch_ms")), "{division}");
    }
}

#[test]
fn samplers_that_switch_to_training_make_the_epoch_shorter() {
    let times = "--times 4.1,2.2,41 --gpus 2 --batches 151";
    for more in ["", "--when-free"] {
        let (plain, switched) = (json(&format!("{times} {more}")), json(&format!("{times} {more} --switch")));
        let of = |report: &serde_json::Value, name: &str| report["divisions"][0][name].as_f64().unwrap();
        assert_eq!(of(&plain, "standby_batches"), 0.0);
        assert!(of(&switched, "standby_batches") > 50.0, "{switched}");
        assert!(of(&switched, "epoch_ms") < 0.65 * of(&plain, "epoch_ms"), "{plain} {switched}");
    }
    // Two of three GPUs sample if they train afterwards: the slower side alone would keep only one sampler.
    let report = json("--times 10,1,10 --gpus 3 --switch");
    assert_eq!((&report["samplers"], &report["samplers_by_slower_side"]), (&2.into(), &1.into()), "{report}");
}

#[test]
fn times_come_from_a_runs_metrics_and_the_table_shows_every_division() {
    let temp = directory();
    small_graph(temp.path());
    let train =
        "train graph --fanouts 5,4 --batch-size 100 --hidden 16 --epochs 2 --device cpu --metrics run.jsonl";
    uvatrain(temp.path(), train.split_whitespace()).run().succeeds();
    let roles = |more: &str| {
        let line = format!("bench roles --metrics run.jsonl --gpus 4 {more}");
        uvatrain(temp.path(), line.split_whitespace()).run().succeeds()
    };
    let report = roles("--json").json();
    let batches = crate::support::runs::Metrics::read(&temp.path().join("run.jsonl"));
    let median = |name: &str| {
        let mut all: Vec<u64> = batches.of("batch").map(|batch| batch[name].as_u64().unwrap()).collect();
        all.sort_unstable();
        all[all.len() / 2].max(1) as f64 / 1e3
    };
    let times = &report["times"];
    for (stage, name) in
        [("sampling_ms", "sample_us"), ("gathering_ms", "gather_us"), ("training_ms", "train_us")]
    {
        assert_eq!(times[stage].as_f64(), Some(median(name)), "{stage} of {report}");
    }
    let in_epoch = batches.of("batch").map(|batch| batch["batch"].as_u64().unwrap()).max().unwrap() + 1;
    assert_eq!(report["batches"].as_u64(), Some(in_epoch));
    assert_eq!(report["timed_on"]["device"], "cpu", "{report}");
    let told = roles("--switch");
    for part in [
        "device cpu",
        "samplers",
        "trainers idle",
        "by standby",
        "one GPU",
        "by the slower side",
        "Simulated: no GPU was used.",
    ] {
        assert!(told.stdout.contains(part), "{part} is missing\n{told}");
    }
    let single =
        uvatrain(temp.path(), "bench roles --times 1,2,3 --gpus 1".split_whitespace()).run().succeeds();
    assert!(single.stdout.contains("alternating") && !single.stdout.contains("chosen"), "{single}");
}

#[test]
fn what_cannot_be_simulated_is_bad_usage_that_names_the_option() {
    let temp = directory();
    std::fs::write(temp.path().join("empty.jsonl"), "").unwrap();
    for (options, parts) in [
        ("", ["--times", "--metrics"]),
        ("--times 1,2", ["--times", "2 numbers"]),
        ("--times 1,2,3,4,5", ["--times", "5 numbers"]),
        ("--times 1,0,3", ["--times", "above 0"]),
        ("--times 1,two,3", ["--times", "above 0"]),
        ("--times 1,2,3 --gpus 0", ["--gpus", "0 is not from 1 to 1024"]),
        ("--times 1,2,3 --queue 0", ["--queue", "0"]),
        ("--times 1,2,3 --metrics empty.jsonl", ["--times", "--metrics"]),
        ("--metrics empty.jsonl", ["--metrics empty.jsonl", "no batches"]),
        ("--metrics nowhere.jsonl", ["--metrics nowhere.jsonl", "No such file"]),
    ] {
        let line = format!("bench roles {options}");
        uvatrain(temp.path(), line.split_whitespace()).run().refuses(2, &parts);
    }
}
