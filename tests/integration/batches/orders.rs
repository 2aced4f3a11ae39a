//! The order of the training seeds, by proximity and in segments, in the real binary.

use std::fs;
use std::path::Path;

use serde_json::Value;
use uva_graph::npy::{NpyArray, NpyType};
use uva_graph::{Dataset, Labels, Split};
use uva_sample::{
    BatchBounds, BatchKey, BatchSampler, EpochOrder, Follow, MiniBatch, NeighborSampler, SamplerOptions,
    SeedSequences, Sequenced,
};

use crate::support::arrays::{header, npy};
use crate::support::command::{self, recorded, run};
use crate::support::runs::{Metrics, small_graph, train};
use crate::support::{directory, uvatrain};

type Trained = Vec<(u64, u64, String, String)>;

fn trained(directory: &Path, options: &str) -> Trained {
    // A resumed run appends to its metrics; each of these runs is checked alone.
    let _ = fs::remove_file(directory.join("run.jsonl"));
    train(directory, "run.jsonl", options).run().succeeds();
    Metrics::read(&directory.join("run.jsonl")).trained()
}

fn in_force(directory: &Path) -> Value {
    Metrics::read(&directory.join("run.jsonl")).of("start").next().expect("a start")["in_force"].clone()
}

fn bench(directory: &Path, options: &str) -> Value {
    let words = format!("bench pipeline graph --fanouts 5,4 --batch-size 100 --epochs 2 --json {options}");
    uvatrain(directory, words.split_whitespace()).run().succeeds().json()
}

/// The hashes of the batches of an epoch whose seeds are these positions.
fn hashes(dataset: &Dataset, sequences: &SeedSequences, epoch: u32) -> Vec<String> {
    let train = dataset.split(Split::Train);
    let follow = Follow::InTurns(sequences.count());
    let sequenced = Sequenced { sequences: sequences.clone(), follow };
    let of = (true, Some(&sequenced));
    let mut order = EpochOrder::new(0, Split::Train, train.len(), of, 100, false).unwrap();
    order.prepare(epoch).unwrap();
    let options = SamplerOptions { fanouts: [5, 4].into(), ..SamplerOptions::default() };
    let bounds = BatchBounds::for_options(&options, 100, dataset.nodes(), dataset.edges(), None).unwrap();
    let mut sampler = NeighborSampler::new(dataset.csc(), options).unwrap();
    let mut batch = MiniBatch::with_bounds(&bounds);
    let hash = |number: usize| {
        let seeds: Vec<i64> = order.batch(number).iter().map(|position| train[*position as usize]).collect();
        let key = BatchKey { split: Split::Train, epoch, batch: number as u32 };
        sampler.sample_into(key, &seeds, &mut batch).unwrap();
        format!("{:016x}", batch.hash())
    };
    (0..order.batches()).map(hash).collect()
}

#[test]
#[ignore = "4 s of a core: scripts/measure/long_tests.sh"]
fn batches_are_those_of_the_orders_seeds_however_the_run_is_made() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let words = "order graph --sequences 4 --out order.npy --json";
    let told = uvatrain(temp.path(), words.split_whitespace()).run().succeeds().json();
    let dataset = Dataset::open(&graph).unwrap();
    let nodes = dataset.split(Split::Train);
    assert_eq!((&told["sequences"], &told["training_nodes"]), (&4.into(), &nodes.len().into()), "{told}");
    // The file has ids, and the splits of a generated graph are ascending.
    let array = NpyArray::open(&temp.path().join("order.npy")).unwrap();
    let ids: &[u32] = array.elements(NpyType::U32).unwrap();
    assert!(nodes.is_sorted() && array.shape() == [4, nodes.len()]);
    let positions = ids.iter().map(|id| nodes.binary_search(&i64::from(*id)).unwrap() as u32).collect();
    let sequences = SeedSequences::new(positions, 4, nodes.len());

    let expected = trained(temp.path(), "--epochs 2 --seed-order proximity:4 --samplers 2");
    let order = &in_force(temp.path())["seed_order"];
    assert_eq!((&order["order"], &order["sequences"]), (&"proximity".into(), &4.into()), "{order}");
    assert!(order["label_error"].is_f64() && order["label_error_shuffled"].is_f64(), "{order}");
    let of_epochs = [hashes(&dataset, &sequences, 0), hashes(&dataset, &sequences, 1)].concat();
    assert!(expected.iter().map(|(.., hash, _)| hash).eq(&of_epochs), "{expected:?}");
    for options in [
        "--seed-order proximity:4 --in-process",
        "--seed-order proximity:4 --order order.npy",
        // The planner counts batches of the same order.
        "--seed-order proximity:4 --gpu-cache 150KiB",
    ] {
        assert_eq!(trained(temp.path(), &format!("--epochs 2 {options}")), expected, "{options}");
    }
    let end = Metrics::read(&temp.path().join("run.jsonl")).of("end").next().unwrap().clone();
    let counted = &end["cache"]["counted_beforehand"];
    assert!(counted["row_hit_rate"].as_f64() > Some(0.1), "both epochs were counted: {end}");

    let whole = "--seed-order proximity:4 --prepare whole --samplers 2";
    command::run_with(temp.path(), whole, None, "attach; pass train 1").run().succeeds();
    let by_workers = recorded(temp.path());
    assert!(by_workers.iter().map(|(.., hash)| hash).eq(&hashes(&dataset, &sequences, 1)), "{by_workers:?}");

    // A checkpoint knows the order.
    let kept = "--checkpoint kept --seed-order proximity:4";
    let first = trained(temp.path(), &format!("--epochs 1 {kept}"));
    for other in [
        "",
        "--seed-order proximity:3",
        "--seed-order segments:50",
        "--seed-order proximity:4 --order order.npy",
    ] {
        let refused =
            train(temp.path(), "none.jsonl", &format!("--epochs 2 --checkpoint kept --resume {other}"));
        refused.run().refuses(2, &["order"]);
    }
    let rest = trained(temp.path(), &format!("--epochs 2 --resume {kept}"));
    assert_eq!([first, rest].concat(), expected);
}

#[test]
fn a_sampler_on_a_gpu_follows_the_same_order() {
    let temp = directory();
    small_graph(temp.path());
    let steps = "attach; pass train 1";
    let order = "--seed-order segments:40 --order-edges in";
    run(temp.path(), order, None, steps).run().succeeds();
    let expected = recorded(temp.path());
    assert!(expected.len() > 10);
    fs::remove_file(temp.path().join(command::RECORD)).unwrap();
    let options = format!("{order} --samplers 1 --device cuda:0 --partition none --sampler gpu");
    command::run_with(temp.path(), &options, None, steps).simulated().run().succeeds();
    assert_eq!(recorded(temp.path()), expected);
}

#[test]
fn sequences_are_the_fewest_with_near_labels_or_else_seeds_are_shuffled() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let number = |of: &Value, name: &str| of["seed_order"][name].as_f64().unwrap();
    // Sequences with one class after the other: with fewer of them, a batch has seeds of fewer classes.
    let dataset = Dataset::open(&graph).unwrap();
    let Labels::Single(labels) = dataset.labels() else { panic!("a class a node") };
    let mut sorted: Vec<u32> = dataset.split(Split::Train).iter().map(|node| *node as u32).collect();
    sorted.sort_by_key(|node| labels[*node as usize]);
    write_order(temp.path(), &[&sorted[..]; 4].concat(), sorted.len());
    let of = |order: &str| bench(temp.path(), &format!("--order order.npy --seed-order {order}"));
    let one = of("proximity --order-tolerance 1");
    assert_eq!((&one["seed_order"]["order"], number(&one, "sequences")), (&"proximity".into(), 1.0), "{one}");
    let named = of("proximity:1");
    assert_eq!((&one["hash"], number(&one, "label_error")), (&named["hash"], number(&named, "label_error")));
    let more = number(&one, "label_error") - number(&one, "label_error_shuffled");
    assert!(more > 0.3, "{one}");
    let some = of(&format!("proximity:auto --order-tolerance {}", more * 0.7));
    let count = number(&some, "sequences");
    assert!(count > 1.0 && number(&some, "label_error") < number(&one, "label_error"), "{some}");
    let fewer = of(&format!("proximity:{}", count / 2.0));
    let farther = number(&fewer, "label_error") - number(&fewer, "label_error_shuffled");
    assert!(farther > number(&some, "label_error_allowed"), "{fewer}");
    // No number of these sequences is as good as the shuffle.
    let shuffle = bench(temp.path(), "");
    assert!(shuffle.get("seed_order").is_none());
    let none = of("proximity --order-tolerance 0");
    assert_eq!(
        (&none["seed_order"]["order"], &none["hash"]),
        (&"shuffle".into(), &shuffle["hash"]),
        "{none}"
    );
    let words = "bench pipeline graph --fanouts 5,4 --batch-size 100 --seed-order proximity --order-tolerance 0 \
                 --order order.npy";
    let told = uvatrain(temp.path(), words.split_whitespace()).run().succeeds().stdout;
    assert!(told.contains("shuffled, since no number of sequences will do"), "{told}");
    assert!(told.contains("--seed-order proximity:K"), "{told}");
}

/// Writes an order whose sequences have this many nodes each.
fn write_order(directory: &Path, ids: &[u32], nodes: usize) {
    let mut file = header("<u4", &[(ids.len() / nodes) as u64, nodes as u64], false);
    file.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    fs::write(directory.join("order.npy"), file).unwrap();
}

#[test]
fn caches_are_judged_by_the_runs_own_order() {
    let temp = directory();
    small_graph(temp.path());
    let bench = |options: &str| {
        let words = format!(
            "bench cache graph --fanouts 5,4 --batch-size 100 --epochs 3 --size 10,50 --json {options}"
        );
        uvatrain(temp.path(), words.split_whitespace()).run().succeeds().json()
    };
    let shuffled = bench("--policy presample,optimal,fifo,lru,lfu");
    let ordered = bench("--policy presample,optimal,fifo,lru,lfu --seed-order proximity:1");
    assert_eq!(ordered["seed_order"]["order"], "proximity");
    for report in [&shuffled, &ordered] {
        let rows = report["rows_per_epoch"].as_f64().unwrap();
        let policies = report["policies"].as_array().unwrap();
        assert_eq!(policies.len(), 5);
        for policy in policies {
            for point in policy["points"].as_array().unwrap() {
                let number = |name: &str| point[name].as_f64().unwrap();
                let missed = rows * (1.0 - number("row_hit_rate"));
                assert!((number("rows_missed_per_epoch") - missed).abs() < 1.0, "{policy} of {rows}");
            }
        }
    }
    assert_ne!(shuffled["rows_per_epoch"], ordered["rows_per_epoch"]);
    // A run's cache evicts by neither policy.
    let refused = train(temp.path(), "none.jsonl", "--gpu-cache 150KiB --cache-policy lru").run();
    refused.refuses(2, &["lru", "fifo"]);
    // A plan records the order that it was made for.
    let words = "plan graph --fanouts 5,4 --batch-size 100 --device cpu --gpu-cache 150KiB --out plan.json \
                 --seed-order segments:50 --json";
    let plan = uvatrain(temp.path(), words.split_whitespace()).run().succeeds().json();
    assert!(plan["options"]["seed_order"].as_str().unwrap().starts_with("segments:50, "), "{plan}");
    let told = train(temp.path(), "run.jsonl", "--epochs 1 --plan plan.json --device cpu").run().succeeds();
    assert!(told.stderr.contains("--seed-order"), "{told}");
}

#[test]
fn orders_that_cannot_be_end_with_code_2_and_the_place() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let refused = |options: &str, parts: &[&str]| {
        let words = format!("bench pipeline graph --batch-size 100 {options}");
        uvatrain(temp.path(), words.split_whitespace()).run().refuses(2, parts);
    };
    refused("--seed-order proximity:0", &["--seed-order", "1 to 1024"]);
    refused("--seed-order proximity:1025", &["--seed-order", "1 to 1024"]);
    refused("--order order.npy", &["--seed-order"]);
    refused("--seed-order shuffle --order order.npy", &["--order", "--seed-order proximity"]);
    for order in ["proximity:2", "segments:9"] {
        let words = format!("--seed-order {order} --order-tolerance 0.2");
        refused(&words, &["--order-tolerance", &format!("--seed-order {order}")]);
    }
    refused("--seed-order proximity --order nothing.npy", &["nothing.npy"]);
    let nodes: Vec<u32> =
        Dataset::open(&graph).unwrap().split(Split::Train).iter().map(|node| *node as u32).collect();
    let write = |ids: &[u32], nodes: usize| write_order(temp.path(), ids, nodes);
    let by_file = "--seed-order proximity:1 --order order.npy";
    write(&nodes[1..], nodes.len() - 1);
    refused(by_file, &["--order: order.npy: ", "of another dataset or split"]);
    let mut twice = nodes.clone();
    twice[7] = twice[2];
    write(&twice, nodes.len());
    refused(by_file, &["entry 7 of sequence 0", "which is also entry 2"]);
    twice[7] = 1_000_000;
    write(&twice, nodes.len());
    refused(by_file, &["entry 7 of sequence 0 is node 1000000, which is not a training node"]);
    write(&nodes, nodes.len());
    refused("--seed-order proximity:2 --order order.npy", &["--seed-order proximity:2", "has 1 sequences"]);
    fs::remove_file(graph.join("label.npy")).unwrap();
    refused("--seed-order proximity", &["no classes", "--seed-order proximity:16"]);
    fs::write(graph.join("train_idx.npy"), npy::<i64>(&[0], false, &[])).unwrap();
    for words in ["bench pipeline graph --seed-order proximity:2", "order graph --sequences 2 --out o.npy"] {
        uvatrain(temp.path(), words.split_whitespace()).run().refuses(2, &["train_idx.npy is empty"]);
    }
    assert!(!temp.path().join("o.npy").exists());
}
