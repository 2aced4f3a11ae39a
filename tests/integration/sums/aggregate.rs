//! Sums of the producer in whole programs: the losses of whole rows, smaller slots, refusals with a remedy.

use std::fs;

use crate::sums::aggregate_auto::{check_the_trial, small_batches};
use crate::support::arrays::header;
use crate::support::directory;
use crate::support::extent::some_of;
use crate::support::runs::{Metrics, learned, small_graph, train};

#[test]
fn losses_and_hashes_are_equal_for_any_summing_side_and_kind_of_sampler() {
    let temp = directory();
    small_graph(temp.path());
    for model in ["sage", "gcn"] {
        for kind in some_of(&["neighbor", "labor", "ladies", "walk"]) {
            let options =
                format!("--epochs 2 --samplers 1 --in-process --model {model} --sampler-kind {kind}");
            let run = |way: &str| {
                let name = format!("{model}-{kind}-{way}.jsonl");
                train(temp.path(), &name, &format!("{options} --aggregate {way}")).run().succeeds();
                Metrics::read(&temp.path().join(name))
            };
            let (off, host) = (run("off"), run("host"));
            assert_eq!(learned(&host), learned(&off), "{model} {kind}");
            assert!(learned(&off).0.len() > 20);
            let in_force = |metrics: &Metrics| metrics.of("start").next().unwrap()["in_force"].clone();
            assert_eq!(in_force(&host)["aggregate"]["way"], "host");
            assert_eq!(in_force(&off)["aggregate"]["way"], "off");
            assert!(off.of("batch").all(|batch| batch.get("aggregate").is_none()));
            for batch in host.of("batch") {
                let (counts, edges) = (&batch["aggregate"], batch["edges"].as_array().unwrap());
                let number = |name: &str| counts[name].as_u64().unwrap();
                // Rows of 24 float32.
                let own = if model == "sage" { number("sum_rows") } else { 0 };
                assert_eq!(number("own_rows"), own, "{batch}");
                assert_eq!(number("entries"), edges.last().unwrap().as_u64().unwrap(), "{batch}");
                assert_eq!(number("rows_read"), number("entries") + number("sum_rows"), "{batch}");
                assert_eq!(number("slot_bytes"), (own + number("sum_rows")) * 96, "{batch}");
                assert_eq!(number("raw_slot_bytes"), batch["input_nodes"].as_u64().unwrap() * 96, "{batch}");
            }
        }
    }
}

#[test]
#[ignore = "13 s of a core: scripts/measure/long_tests.sh"]
fn losses_are_equal_in_processes_threads_on_resume_and_with_caches() {
    let temp = directory();
    small_graph(temp.path());
    for model in ["sage", "gcn"] {
        let run = |metrics: &str, options: &str| {
            let metrics = format!("{model}-{metrics}.jsonl");
            train(temp.path(), &metrics, &format!("--model {model} {options}")).run().succeeds();
            Metrics::read(&temp.path().join(metrics))
        };
        let expected = learned(&run("off", "--epochs 2 --aggregate off"));
        assert_eq!(
            learned(&run("processes", "--epochs 2 --aggregate host --samplers 2")),
            expected,
            "{model}"
        );
        let threads = run("threads", "--epochs 2 --aggregate host --in-process");
        assert_eq!(learned(&threads), expected, "{model}");
        for (first, second) in [("off", "host"), ("host", "off")] {
            let kept = format!("--checkpoint {model}-{first}");
            run(first, &format!("--epochs 1 --aggregate {first} {kept}"));
            let resumed = run(first, &format!("--epochs 2 --aggregate {second} {kept} --resume"));
            let last = resumed.of("start").last().unwrap();
            assert_eq!(last["in_force"]["aggregate"]["way"], second);
            assert_eq!(learned(&resumed), expected, "{model} from {first} to {second}");
        }
        // A row counts once per batch, in however many sums it is: hits are those of gathered rows.
        for policy in ["degree", "fifo"] {
            let cached = |way: &str| {
                let options = format!("--epochs 2 --in-process --gpu-cache 100KB --cache-policy {policy}");
                run(&format!("{policy}-{way}"), &format!("{options} --aggregate {way}"))
            };
            let (off, host) = (cached("off"), cached("host"));
            assert_eq!(learned(&host), expected, "{model} {policy}");
            let hits = |metrics: &Metrics| {
                metrics
                    .of("batch")
                    .map(|batch| batch["cache"]["row_hits"].as_u64().unwrap())
                    .collect::<Vec<_>>()
            };
            assert_eq!(hits(&host), hits(&off), "{model} {policy}");
            assert!(hits(&host).iter().sum::<u64>() > 0, "{model} {policy}");
        }
    }
}

#[test]
fn slots_of_sums_shrink_as_there_are_fewer_destinations_than_nodes() {
    let temp = directory();
    small_graph(temp.path());
    for (model, share) in [("sage", 0.55), ("gcn", 0.3)] {
        let slot = |way: &str| {
            let name = format!("{model}-{way}.jsonl");
            let options = format!(
                "train graph --fanouts 10 --batch-size 50 --hidden 8 --epochs 1 --in-process --metrics {name} --model \
                 {model} --train-threads 1 --aggregate {way}"
            );
            crate::support::uvatrain(temp.path(), options.split(' ')).run().succeeds();
            let metrics = Metrics::read(&temp.path().join(name));
            metrics.of("start").next().unwrap()["in_force"]["feature_slot_bytes"].as_f64().unwrap()
        };
        let (off, host) = (slot("off"), slot("host"));
        assert!(host <= share * off, "{model}: {host} bytes of {off}");
    }
}

#[test]
fn sums_that_the_producer_cannot_make_are_refused_and_avoided_by_auto() {
    let temp = directory();
    let graph = small_graph(temp.path());
    for (options, parts) in [
        ("--model gat", &["model gat", "trained", "--aggregate off"][..]),
        ("--model gin", &["model gin", "--model sage"]),
        ("--residual", &["--residual", "before the first sum"]),
        ("--input-dropout 0.2", &["--input-dropout"]),
        ("--feature-norm row", &["--feature-norm row", "normalise the rows of the table"]),
    ] {
        let parts = [&["--aggregate host"], parts].concat();
        train(temp.path(), "refused.jsonl", &format!("--epochs 1 --aggregate host {options}"))
            .run()
            .refuses(2, &parts);
        train(temp.path(), "auto.jsonl", &format!("--epochs 1 --in-process {options}")).run().succeeds();
        let metrics = Metrics::read(&temp.path().join("auto.jsonl"));
        let aggregate = metrics.of("start").next().unwrap()["in_force"]["aggregate"].clone();
        assert_eq!(aggregate["way"], "off", "{options}");
        let reason = aggregate["reason"].as_str().unwrap();
        assert!(!reason.contains("training batches"), "{options}: {reason}");
    }
    train(temp.path(), "refused.jsonl", "--epochs 1 --aggregate device")
        .run()
        .refuses(2, &["--aggregate device", "--aggregate host"]);
    let mut meta: serde_json::Value =
        serde_json::from_slice(&fs::read(graph.join("meta.json")).unwrap()).unwrap();
    meta["feat_dtype"] = "u8".into();
    fs::write(graph.join("meta.json"), meta.to_string()).unwrap();
    fs::write(graph.join("feat.npy"), [header("|u1", &[4000, 24], false), vec![1; 4000 * 24]].concat())
        .unwrap();
    train(temp.path(), "refused.jsonl", "--epochs 1 --aggregate host")
        .run()
        .refuses(2, &["--aggregate host", "u8", "--aggregate off"]);
}

#[test]
fn the_end_of_a_run_has_the_sums_of_its_batches_counts() {
    let temp = directory();
    small_graph(temp.path());
    for options in ["--model sage --samplers 2", "--model gcn --in-process"] {
        train(temp.path(), "run.jsonl", &format!("--epochs 2 --aggregate host {options}")).run().succeeds();
        let metrics = Metrics::read(&temp.path().join("run.jsonl"));
        let end = metrics.of("end").next().unwrap()["aggregate"].clone();
        assert_eq!(end["way"], "host");
        assert_eq!(end["batches"], serde_json::json!({ "host": metrics.of("batch").count() }));
        for name in [
            "own_rows",
            "sum_rows",
            "entries",
            "rows_read",
            "slot_bytes",
            "raw_slot_bytes",
            "link_bytes",
            "raw_link_bytes",
        ] {
            let sum: u64 = metrics.of("batch").map(|batch| batch["aggregate"][name].as_u64().unwrap()).sum();
            assert_eq!(end[name].as_u64(), Some(sum), "{options}: {name}");
            // No bytes cross a link here, and gcn has no own rows in addition to its sums.
            let none = name.contains("link") || (name == "own_rows" && options.contains("gcn"));
            assert_eq!(sum == 0, none, "{options}: {name}");
        }
        crate::support::uvatrain(temp.path(), ["report", "run.jsonl", "--out", "page.html"]).run().succeeds();
    }
    train(temp.path(), "off.jsonl", "--epochs 1 --aggregate off").run().succeeds();
    let off = Metrics::read(&temp.path().join("off.jsonl"));
    assert!(off.of("end").next().unwrap().get("aggregate").is_none());
}

#[test]
fn half_precision_tables_give_equal_losses_for_all_sums_and_widening() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let mut meta: serde_json::Value =
        serde_json::from_slice(&fs::read(graph.join("meta.json")).unwrap()).unwrap();
    for (dtype, npy_dtype) in some_of(&[("f16", "<f2"), ("bf16", "<u2")]) {
        meta["feat_dtype"] = dtype.into();
        fs::write(graph.join("meta.json"), meta.to_string()).unwrap();
        // Any bits of values around one.
        let values = (0..4000 * 24u32).flat_map(|i| {
            let noise = (i.wrapping_mul(2_654_435_761) >> 22) as u16;
            (if dtype == "f16" { 0x3800 + noise } else { 0x3f00 + (noise & 0xff) }).to_le_bytes()
        });
        let bytes = [header(npy_dtype, &[4000, 24], false), values.collect()].concat();
        fs::write(graph.join("feat.npy"), bytes).unwrap();
        let run = |options: &str| {
            let options = format!("--epochs 1 --in-process --samplers 1 {options}");
            train(temp.path(), "run.jsonl", &options).run().succeeds();
            learned(&Metrics::read(&temp.path().join("run.jsonl")))
        };
        let expected = run("--aggregate off");
        for options in ["", "--feature-type table", "--feature-type float32"] {
            assert_eq!(run(&format!("--aggregate host {options}")), expected, "{dtype} {options}");
        }
        let small = |options: &str| {
            let options = format!("--hidden 16 --epochs 2 --in-process {options}");
            small_batches(temp.path(), "run.jsonl", &options)
        };
        let expected = learned(&small("--aggregate off"));
        let auto = small("--feature-type float32");
        assert_eq!(learned(&auto), expected, "{dtype}");
        check_the_trial(&auto);
    }
}
