//! `--aggregate-by node` as users meet it: the losses of whole rows, counts and slots, and refusals that say what to do.

use serde_json::{Value, json};

use crate::aggregate_auto::small_batches;
use crate::support::runs::{Metrics, learned, small_graph, train};
use crate::support::{directory, uvatrain};

const BY_NODE: &str = "--aggregate host --aggregate-by node";

fn in_force(metrics: &Metrics) -> Value {
    metrics.of("start").last().unwrap()["in_force"].clone()
}

fn amounts<'m>(metrics: &'m Metrics, name: &'m str) -> Vec<u64> {
    metrics.of("batch").map(|batch| batch["aggregate"][name].as_u64().unwrap()).collect()
}

#[test]
fn losses_and_hashes_are_those_of_whole_rows_however_batches_are_made_and_resumed() {
    let temp = directory();
    small_graph(temp.path());
    for model in ["sage", "gcn"] {
        let run = |options: &str| {
            train(temp.path(), "run.jsonl", &format!("--model {model} {options}")).run().succeeds();
            Metrics::read(&temp.path().join("run.jsonl"))
        };
        let off = run("--epochs 2 --in-process --aggregate off");
        let by_node = run(&format!("--epochs 2 --samplers 2 {BY_NODE}"));
        assert_eq!(learned(&by_node), learned(&off), "{model}");
        let told = in_force(&by_node)["aggregate"].clone();
        assert_eq!((&told["way"], &told["by"]), (&json!("host"), &json!("node")));

        // Both happen in many batches of sage, and slots take no more than the lesser of all rows and all sums.
        let [sums, left] = ["sum_rows", "left_rows"].map(|name| amounts(&by_node, name));
        let divided = sums.iter().zip(&left).filter(|(sums, left)| **sums > 0 && **left > 0).count();
        if model == "sage" {
            assert!(divided > sums.len() / 2, "{divided} of {} batches are divided", sums.len());
        } else {
            // A sum is no larger than the own row that would be needed in its place.
            assert_eq!((divided, left.iter().sum::<u64>()), (0, 0));
        }
        let own = if model == "sage" { 1 } else { 0 };
        for batch in by_node.of("batch") {
            let number = |name: &str| batch["aggregate"][name].as_u64().unwrap();
            let destinations = number("sum_rows") + number("left_rows");
            assert_eq!(number("own_rows"), own * destinations, "{batch}");
            assert!(
                number("entries") <= batch["edges"].as_array().unwrap().last().unwrap().as_u64().unwrap()
            );
            let rows = number("own_rows") + number("neighbor_rows") + number("sum_rows");
            // Rows of 24 float32, and a byte a destination.
            assert_eq!(number("slot_bytes"), rows * 96 + destinations, "{batch}");
            let least = (batch["input_nodes"].as_u64().unwrap()).min((1 + own) * destinations);
            assert!(rows <= least, "{batch}");
        }
        let end = by_node.of("end").next().unwrap()["aggregate"].clone();
        for name in
            ["own_rows", "sum_rows", "left_rows", "neighbor_rows", "entries", "rows_read", "slot_bytes"]
        {
            assert_eq!(end[name].as_u64(), Some(amounts(&by_node, name).iter().sum()), "{model}: {name}");
        }
        let slot = |metrics: &Metrics| in_force(metrics)["feature_slot_bytes"].as_u64().unwrap();
        let host = run("--epochs 1 --in-process --aggregate host");
        assert!(slot(&by_node) <= slot(&off).min(slot(&host)) + 4096, "{} bytes", slot(&by_node));

        // A checkpoint that the other way has written, and workers.
        run("--epochs 1 --in-process --aggregate off --checkpoint kept --overwrite-checkpoint");
        let resumed = run(&format!("--in-process --epochs 2 --checkpoint kept --resume {BY_NODE}"));
        assert_eq!(learned(&resumed), learned(&off), "{model}");
        assert_eq!(in_force(&resumed)["aggregate"]["by"], "node");
        let whole = format!(
            "train graph --fanouts 5,4 --batch-size 100 --hidden 16 --train-threads 1 --epochs 2 --model {model} \
             --prepare whole --samplers 2 --metrics run.jsonl {BY_NODE}"
        );
        uvatrain(temp.path(), whole.split(' ')).run().succeeds();
        let whole = Metrics::read(&temp.path().join("run.jsonl"));
        assert_eq!(learned(&whole), learned(&off), "{model}");
        // Weights of the sampler, and losses with a cache, whose hits are those of whole rows.
        let options = "--sampler-kind ladies --epochs 1 --in-process --gpu-cache 100KB --cache-policy fifo";
        let [off, by_node] =
            [&format!("{options} --aggregate off"), &format!("{options} {BY_NODE}")].map(|line| run(line));
        assert_eq!(learned(&by_node), learned(&off), "{model}");
        let hits = |metrics: &Metrics| {
            metrics.of("batch").map(|batch| batch["cache"]["row_hits"].as_u64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(hits(&by_node), hits(&off), "{model}");
        assert!(hits(&off).iter().sum::<u64>() > 0);
    }
}

#[test]
fn auto_tries_divided_batches_beside_whole_ones() {
    let temp = directory();
    small_graph(temp.path());
    let run = |options: &str| {
        small_batches(temp.path(), "run.jsonl", &format!("--hidden 16 --epochs 2 --in-process {options}"))
    };
    let (off, auto) = (run("--aggregate off"), run("--aggregate-by node"));
    assert_eq!(learned(&auto), learned(&off));
    let told = in_force(&auto)["aggregate"].clone();
    assert_eq!((&told["way"], &told["by"]), (&json!("auto"), &json!("node")));
    for (way, is_divided) in [("off", false), ("host", true)] {
        let of_way = |batch: &&Value| batch["aggregate"]["way"] == way;
        let batches: Vec<&Value> = auto.of("batch").filter(of_way).collect();
        assert!(batches.len() > 10, "{way}");
        let left: u64 = batches.iter().map(|batch| batch["aggregate"]["left_rows"].as_u64().unwrap()).sum();
        assert_eq!(left > 0, is_divided, "{way}: {left}");
    }
}

#[test]
fn what_cannot_be_divided_is_refused_by_name_with_another_way() {
    let temp = directory();
    small_graph(temp.path());
    for (options, parts) in [
        ("--aggregate off", &["--aggregate off", "--aggregate host"][..]),
        ("--aggregate device", &["--aggregate device", "--aggregate-by batch"]),
        ("--aggregate host --pad auto", &["--pad auto", "static shapes"]),
    ] {
        train(temp.path(), "refused.jsonl", &format!("--epochs 1 --aggregate-by node {options}"))
            .run()
            .refuses(2, &[&["--aggregate-by node"], parts].concat());
    }
    train(temp.path(), "refused.jsonl", &format!("--epochs 1 --model gat {BY_NODE}"))
        .run()
        .refuses(2, &["--aggregate host", "model gat"]);
    // `auto` leaves a model's sums to the consumer, and nothing is divided.
    train(temp.path(), "auto.jsonl", "--epochs 1 --in-process --model gat --aggregate-by node")
        .run()
        .succeeds();
    let told = in_force(&Metrics::read(&temp.path().join("auto.jsonl")))["aggregate"].clone();
    assert_eq!(told["way"], "off");
    assert!(told.get("by").is_none(), "{told}");
}
