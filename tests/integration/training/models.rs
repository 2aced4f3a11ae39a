//! Models and tasks in whole programs: the real binary on labels of every kind.

use std::fs;
use std::path::Path;

use crate::support::arrays::{header, npy};
use crate::support::runs::{Metrics, small_graph, train};
use crate::support::{directory, uvatrain};

/// Gives the small graph several labels per node: its class, and for every third node the next one as well. No node has
/// the fifth label.
fn several_labels(directory: &Path) {
    let graph = small_graph(directory);
    let labels = fs::read(graph.join("label.npy")).unwrap();
    let classes = labels[labels.len() - 4000 * 8..].chunks_exact(8);
    let mut rows = vec![0u8; 4000 * 5];
    for (node, class) in classes.enumerate() {
        let class = usize::from(class[0]);
        rows[node * 5 + class] = 1;
        if node % 3 == 0 {
            rows[node * 5 + (class + 1) % 4] = 1;
        }
    }
    fs::write(graph.join("label.npy"), npy(&[4000, 5], false, &rows)).unwrap();
    fs::write(graph.join("meta.json"), r#"{"name": "several"}"#).unwrap();
}

#[test]
fn several_labels_a_node_are_learned_and_scored_by_area_under_the_curve() {
    let temp = directory();
    several_labels(temp.path());
    for (mode, name) in [("--eval sampled", "sampled"), ("--eval full --in-process", "full")] {
        let metrics = format!("{name}.jsonl");
        let options = format!("--epochs 12 --patience 3 --lr 0.01 {mode} --checkpoint {name}-kept --json");
        let run = train(temp.path(), &metrics, &options).run().succeeds();
        assert!(run.stderr.contains("test ROC-AUC") && run.stderr.contains("  ROC-AUC "), "{run}");
        let end = run.json();
        // The third labels are random, so a perfect score is not possible.
        assert!(end["test_roc_auc"].as_f64().unwrap() > 0.8, "{end}");
        assert!(end["test_accuracy"].as_f64().unwrap() > 0.8, "{end}");
        let metrics = Metrics::read(&temp.path().join(metrics));
        assert_eq!(metrics.of("start").next().unwrap()["in_force"]["metric"], "roc-auc");
        let areas: Vec<f64> =
            metrics.of("epoch").map(|epoch| epoch["valid_roc_auc"].as_f64().unwrap()).collect();
        let best = areas.iter().copied().fold(0.0, f64::max);
        assert_eq!(end["best_valid_roc_auc"].as_f64(), Some(best), "{end}");
        assert!(end["best_valid_accuracy"].is_null() && best > 0.8, "{end}");
        // A resumed run has nothing left to train, and tests the same model.
        let again = train(temp.path(), "again.jsonl", &format!("{options} --resume")).run().succeeds().json();
        assert_eq!((&again["batches"], &again["test_roc_auc"]), (&0.into(), &end["test_roc_auc"]), "{mode}");
    }
}

#[test]
fn losses_and_areas_of_several_labels_are_equal_in_any_mode_and_resumed() {
    let temp = directory();
    several_labels(temp.path());
    let run = |metrics: &str, options: &str| {
        train(temp.path(), metrics, options).run().succeeds();
        let metrics = Metrics::read(&temp.path().join(metrics));
        let epochs: Vec<String> =
            metrics.of("epoch").map(|epoch| epoch["valid_roc_auc"].to_string()).collect();
        (metrics.trained(), epochs, metrics.of("end").last().unwrap()["test_roc_auc"].to_string())
    };
    let expected = run("whole.jsonl", "--epochs 2 --samplers 2");
    assert!(expected.1[0].starts_with("0."), "{:?}", expected.1);
    assert_eq!(run("threads.jsonl", "--epochs 2 --in-process"), expected);
    run("parts.jsonl", "--epochs 1 --checkpoint kept");
    assert_eq!(run("parts.jsonl", "--epochs 2 --checkpoint kept --resume"), expected);
}

#[test]
fn a_metric_that_the_labels_cannot_be_judged_by_is_refused() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "run.jsonl", "--epochs 1 --metric roc-auc")
        .run()
        .refuses(2, &["--metric", "4 classes"]);
    train(temp.path(), "a.jsonl", "--epochs 1 --checkpoint kept").run().succeeds();
    let two = "generate two --nodes 1000 --avg-degree 8 --feat-dim 8 --classes 2";
    uvatrain(temp.path(), two.split(' ')).run().succeeds();
    let options = "train two --fanouts 3,3 --batch-size 100 --epochs 1 --checkpoint two-kept --json --metric";
    let end = uvatrain(temp.path(), format!("{options} roc-auc").split(' ')).run().succeeds().json();
    assert!(end["test_roc_auc"].is_f64() && end["test_accuracy"].is_f64(), "{end}");
    // The best model so far is best by the other metric.
    let other = uvatrain(temp.path(), format!("{options} auto --resume").split(' ')).run();
    other.refuses(2, &["two-kept", "metric", "roc-auc"]);
}

/// The bits of a small integer that is not negative as a half.
fn half(value: u8) -> u16 {
    let bits = f32::from(value).to_bits();
    if value == 0 { 0 } else { (((bits >> 23) as u16 - 112) << 10) | (bits >> 13 & 0x3ff) as u16 }
}

/// The integers from 0 to 7 as float8: sign, four bits of exponent with a bias of 7, three of fraction.
const E4M3: [u8; 8] = [0, 0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c, 0x4e];

#[test]
#[ignore = "10 s of a core: scripts/measure/long_tests.sh"]
fn narrow_features_give_the_losses_of_wide_ones_wherever_they_are_widened() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let mut meta: serde_json::Value =
        serde_json::from_slice(&fs::read(graph.join("meta.json")).unwrap()).unwrap();
    // Small integers are exact in all of the types.
    let values: Vec<u8> = (0..4000 * 24u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 29) as u8).collect();
    let words = |bits: fn(u8) -> u16| values.iter().flat_map(|&v| bits(v).to_le_bytes()).collect::<Vec<u8>>();
    let tables: [(&str, &str, Vec<u8>); 6] = [
        ("f32", "<f4", values.iter().flat_map(|&v| f32::from(v).to_le_bytes()).collect()),
        ("f16", "<f2", words(half)),
        ("bf16", "<u2", words(|v| (f32::from(v).to_bits() >> 16) as u16)),
        ("e4m3", "|u1", values.iter().map(|&v| E4M3[usize::from(v)]).collect()),
        ("u8", "|u1", values.clone()),
        ("i8", "|i1", values.clone()),
    ];
    let mut runs = Vec::new();
    for (name, dtype, bytes) in tables {
        meta["feat_dtype"] = name.into();
        fs::write(graph.join("meta.json"), meta.to_string()).unwrap();
        fs::write(graph.join("feat.npy"), [header(dtype, &[4000, 24], false), bytes].concat()).unwrap();
        for options in ["", "--feature-type float32", "--feature-type table"] {
            let metrics = format!("{name}{}.jsonl", runs.len());
            train(temp.path(), &metrics, &format!("--epochs 1 --samplers 1 --in-process {options}"))
                .run()
                .succeeds();
            let metrics = Metrics::read(&temp.path().join(metrics));
            let in_force = &metrics.of("start").next().unwrap()["in_force"];
            let bytes = in_force["feature_slot_bytes"].as_u64().unwrap();
            let accuracy = metrics.of("epoch").next().unwrap()["valid_accuracy"].clone();
            runs.push(((name, options), bytes, metrics.trained(), accuracy));
        }
    }
    for ((name, options), bytes, trained, accuracy) in &runs[1..] {
        assert_eq!((trained, accuracy), (&runs[0].2, &runs[0].3), "{name} {options}");
        // Narrow floats are float32 in the slots by default; integers never are.
        let floats = ["f16", "bf16", "e4m3"].contains(name);
        let wide = *name == "f32" || floats && *options != "--feature-type table";
        assert_eq!(*bytes == runs[0].1, wide, "{name} {options}: {bytes} bytes");
        assert!(
            *bytes <= runs[0].1,
            "{name} {options}: slots of {bytes} bytes, and of {} for f32",
            runs[0].1
        );
    }
}

#[test]
fn half_precision_features_change_no_batch_and_the_losses_by_little() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let run = |metrics: &str, options: &str| {
        train(temp.path(), metrics, &format!("--epochs 3 --lr 0.01 {options}")).run().succeeds();
        let metrics = Metrics::read(&temp.path().join(metrics));
        let start = metrics.of("start").next().unwrap();
        let dtype = start["dataset"]["feature_dtype"].as_str().unwrap().to_owned();
        let losses: Vec<f64> =
            metrics.of("epoch").map(|epoch| epoch["train_loss"].as_f64().unwrap()).collect();
        let trained = metrics.trained();
        let hashes: Vec<_> = trained.iter().map(|(_, _, hash, _)| hash.clone()).collect();
        (dtype, losses, hashes, trained)
    };
    let wide = run("wide.jsonl", "");
    // As documented in docs/guide/datasets.md: every value rounded to the nearest half, and the type in the table's
    // description.
    let table = fs::read(graph.join("feat.npy")).unwrap();
    let rows = table.len() - 4000 * 24 * 4;
    let values: Vec<u8> = table[rows..]
        .chunks_exact(4)
        .flat_map(|value| half::f16::from_f32(f32::from_le_bytes(value.try_into().unwrap())).to_le_bytes())
        .collect();
    fs::write(graph.join("feat.npy"), [header("<f2", &[4000, 24], false), values].concat()).unwrap();
    let meta: serde_json::Value =
        serde_json::from_slice(&fs::read(graph.join("meta.json")).unwrap()).unwrap();
    let mut meta = meta.as_object().unwrap().clone();
    meta.remove("feat_dtype");
    fs::write(graph.join("meta.json"), serde_json::to_vec(&meta).unwrap()).unwrap();
    let narrow = run("narrow.jsonl", "");
    // The producer widens them, the consumer does, or a cache has them: each loss is the same to the last digit.
    for (metrics, options) in [
        ("table.jsonl", "--feature-type table"),
        ("cached.jsonl", "--gpu-cache 64KiB --cache-policy degree"),
        ("fifo.jsonl", "--gpu-cache 64KiB --cache-policy fifo"),
        ("threads.jsonl", "--in-process"),
    ] {
        assert_eq!(run(metrics, options).3, narrow.3, "{options}");
    }

    assert_eq!((wide.0.as_str(), narrow.0.as_str()), ("f32", "f16"));
    assert_eq!(wide.2, narrow.2, "the batches are the same");
    assert_ne!(wide.1, narrow.1, "the values differ: most are not exact in f16");
    for (wide, narrow) in wide.1.iter().zip(&narrow.1) {
        assert!((wide - narrow).abs() < 0.01 * wide, "{wide} and {narrow}");
    }
}

#[test]
fn attention_residuals_and_norms_learn_and_resume_in_any_mode() {
    let temp = directory();
    small_graph(temp.path());
    for (name, mode, model) in [
        ("gat", "full", "--model gat --heads 4 --output-heads 1 --attention-dropout 0.2"),
        ("deep", "sampled", "--model sage --residual --norm layer"),
        ("deep-gat", "full", "--model gat --heads 2 --residual --norm layer"),
        ("normed", "full", "--model gcn --norm layer"),
    ] {
        let options = format!("{model} --lr 0.01 --dropout 0.2 --eval {mode}");
        let whole = format!("{name}.jsonl");
        let end = train(temp.path(), &whole, &format!("--epochs 6 {options} --json")).run().succeeds().json();
        // Four classes: a guess is right once in four.
        assert!(end["test_accuracy"].as_f64().unwrap() > 0.5, "{name}: {end}");
        let parts = format!("{name}-parts.jsonl");
        let part = |epochs: u32, more: &str| {
            let options = format!("--epochs {epochs} {options} --checkpoint {name} {more}");
            train(temp.path(), &parts, &options).run().succeeds();
        };
        part(3, "--in-process");
        part(6, "--resume --samplers 2");
        let [whole, parts] = [&whole, &parts].map(|name| Metrics::read(&temp.path().join(name)).trained());
        assert_eq!(whole, parts, "{name}");
    }
}

#[test]
fn models_of_hop_sets_and_their_options_are_refused_for_a_dataset_by_name() {
    let temp = directory();
    small_graph(temp.path());
    let refused = |options: &str, message: &[&str]| {
        train(temp.path(), "run.jsonl", options).run().refuses(2, message);
    };
    for model in ["sgc", "s2gc", "sign", "hoga"] {
        let name = format!("--model {model}");
        refused(&name, &[&name, "hop set", "`uvatrain propagate`", "sage, gcn, gat, gin, gine, rsage"]);
    }
    refused("--layers 3", &["--layers", "sign or hoga", "--fanouts"]);
    refused("--model gcn --use-hops 2", &["--use-hops", "sgc, s2gc, sign or hoga"]);
    refused("--alpha 0.1", &["--alpha", "s2gc"]);
    refused("--activation prelu", &["--activation", "sign"]);
    refused("--heads 4", &["--heads", "gat, rgat, hgt or hoga"]);
    refused("--use-hops 0", &["--use-hops"]);
}

#[test]
fn products_of_bfloat16_learn_and_resume_where_the_processor_has_them() {
    let temp = directory();
    small_graph(temp.path());
    let options = "--matmul-precision bfloat16 --epochs 2";
    if !uva_ops::multiplies_bfloat16() {
        let run = train(temp.path(), "run.jsonl", options).run();
        run.refuses(2, &["--matmul-precision bfloat16", "AVX512_BF16"]);
        return;
    }
    let run = |metrics: &str, options: &str| {
        train(temp.path(), metrics, options).run().succeeds();
        Metrics::read(&temp.path().join(metrics)).trained()
    };
    let whole = run("whole.jsonl", options);
    assert_ne!(run("own.jsonl", "--epochs 2"), whole);
    assert_eq!(run("threads.jsonl", &format!("{options} --in-process")), whole);
    run("parts.jsonl", "--matmul-precision bfloat16 --epochs 1 --checkpoint kept");
    assert_eq!(run("parts.jsonl", &format!("{options} --checkpoint kept --resume")), whole);
    train(temp.path(), "parts.jsonl", "--epochs 2 --checkpoint kept --resume")
        .run()
        .refuses(2, &["matmul_precision"]);
}

#[test]
fn products_of_bfloat16_are_refused_for_models_without_them() {
    let temp = directory();
    small_graph(temp.path());
    let options = "--model gat --matmul-precision bfloat16";
    train(temp.path(), "run.jsonl", options).run().refuses(2, &["--matmul-precision", "sage or gcn"]);
}
