//! Models over typed graphs in whole programs: the real binary on a graph whose labels need two relations.

use std::path::Path;

use uva_graph::npy::{NpyArray, NpyType};

use crate::support::runs::{Metrics, small_graph, train};
use crate::support::{Uvatrain, directory, uvatrain};

const MODELS: [&str; 4] = ["rsage", "rgcn", "rgat", "hgt"];

/// Writes a graph of items, tags and users: the class of an item is two digits, of which tags show one and users the
/// other, of four and three values.
pub(super) fn planted(directory: &Path, options: &str) {
    let words = format!("generate graph --kind typed --nodes 4000 --seed 7 {options}");
    uvatrain(directory, words.split_whitespace()).run().succeeds();
}

/// Training of rsage with one thread a stage.
pub(super) fn rsage(directory: &Path, metrics: &str, options: &str) -> Uvatrain {
    of_relations("rsage", directory, metrics, options)
}

/// The same of another model over relations.
fn of_relations(model: &str, directory: &Path, metrics: &str, options: &str) -> Uvatrain {
    let line = format!("train graph --model {model}");
    let line = format!("{line} --batch-size 100 --hidden 16 --train-threads 1 --lr 0.01");
    uvatrain(directory, format!("{line} --metrics {metrics} {options}").split_whitespace())
}

pub(super) fn test_accuracy(model: &str, directory: &Path, options: &str) -> f64 {
    let options = format!("--epochs 12 --dropout 0 --json {options}");
    let end = of_relations(model, directory, "run.jsonl", &options).run().succeeds().json();
    end["test_accuracy"].as_f64().unwrap()
}

#[test]
fn labels_that_need_two_relations_are_learned_from_both_only() {
    let temp = directory();
    planted(temp.path(), "");
    // Without own rows the features of tags and users are seen one hop away only.
    for (model, kind) in [
        ("rsage", "10,5"),
        ("rsage", "10,5 --root type --relation-sum mean"),
        ("rsage", "10 --root none"),
        ("rgcn", "10,5"),
        ("rgcn", "10,5 --root shared --bases 2"),
        ("rgcn", "10,5 --blocks 2"),
        ("rgat", "10"),
        ("hgt", "10,5"),
    ] {
        let accuracy = test_accuracy(model, temp.path(), &format!("--fanouts {kind}"));
        assert!(accuracy > 0.9, "{model} {kind}: {accuracy}");
    }
    // The digit that tags show has four values, the one that users show three.
    for (relation, values) in [("tag__has__item", 4.0), ("user__buys__item", 3.0)] {
        let accuracy = test_accuracy("rsage", temp.path(), &format!("--fanouts 10,5;{relation}=0,0"));
        // A guess of the digit that is not seen; there are some 400 test nodes.
        assert!(accuracy < 1.0 / values + 0.08 && accuracy > 0.15, "{relation}: {accuracy}");
    }
}

#[test]
fn losses_of_a_typed_model_are_equal_however_batches_are_made() {
    let temp = directory();
    planted(temp.path(), "");
    let run = |model: &str, metrics: &str, options: &str| {
        let options = format!("--fanouts 5,4 --dropout 0.3 {options}");
        of_relations(model, temp.path(), metrics, &options).run().succeeds();
        let metrics = Metrics::read(&temp.path().join(metrics));
        let epochs: Vec<_> = metrics.of("epoch").map(|epoch| epoch["valid_accuracy"].to_string()).collect();
        (metrics.trained(), epochs, metrics.of("end").last().unwrap()["test_accuracy"].to_string())
    };
    for model in MODELS {
        let expected = run(model, "one.jsonl", "--epochs 2 --samplers 1");
        assert!(expected.0.len() >= 20 && expected.1.len() == 2, "{expected:?}");
        for (metrics, options) in [
            ("three.jsonl", "--samplers 3"),
            ("threads.jsonl", "--samplers 3 --in-process"),
            ("whole.jsonl", "--samplers 2 --prepare whole"),
            ("narrow.jsonl", "--samplers 1 --target item --feature-type table"),
        ] {
            let found = run(model, metrics, &format!("--epochs 2 {options}"));
            assert_eq!(found, expected, "{model} {options}");
        }
        let (metrics, kept) = (format!("{model}.jsonl"), format!("--checkpoint {model}"));
        run(model, &metrics, &format!("--epochs 1 {kept}"));
        assert_eq!(run(model, &metrics, &format!("--epochs 2 {kept} --resume")), expected, "{model}");
    }
}

#[test]
fn a_graph_of_one_type_trains_the_typed_model_too() {
    let temp = directory();
    small_graph(temp.path());
    for model in MODELS {
        let run = of_relations(model, temp.path(), "run.jsonl", "--epochs 5 --fanouts 5,4 --json").run();
        let end = run.succeeds().json();
        assert!(end["test_accuracy"].as_f64().unwrap() > 0.5, "{model}: {end}");
    }
}

fn shares(path: &Path) -> Vec<f32> {
    NpyArray::open(path).unwrap().elements::<f32>(NpyType::F32).unwrap().to_vec()
}

/// The largest difference between the probabilities by whole neighbourhoods and by batches that take all neighbours.
fn largest_difference(directory: &Path, name: &str) -> f32 {
    let [whole, batches] = ["full", "sampled --slot-bytes 64MiB"].map(|eval| {
        let line =
            format!("predict graph --checkpoint {name} --overwrite --probabilities p.npy --eval {eval}");
        uvatrain(directory, line.split_whitespace()).run().succeeds();
        shares(&directory.join("p.npy"))
    });
    assert_eq!((whole.len(), batches.len()), (4000 * 12, 4000 * 12), "{name}");
    let differs = |row: &[f32]| row.iter().zip(&whole).any(|(share, first)| (share - first).abs() > 1e-3);
    assert!(whole.chunks(12).any(differs), "{name}: all rows are equal");
    whole.iter().zip(&batches).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
}

#[test]
fn whole_neighbourhoods_equal_batches_that_take_all_neighbours() {
    for (users, models) in [("", &MODELS[..]), ("--featureless", &["rsage", "rgcn"])] {
        let temp = directory();
        planted(temp.path(), users);
        for (number, fanouts) in ["-1,-1", "*=-1,-1;tag__has__item=0,-1"].into_iter().enumerate() {
            for model in models {
                let name = format!("{model}{number}");
                let options =
                    format!("--fanouts={fanouts} --slot-bytes 64MiB --checkpoint {name} --epochs 2");
                of_relations(model, temp.path(), "run.jsonl", &options).run().succeeds();
                let difference = largest_difference(temp.path(), &name);
                assert!(difference < 1e-5, "{name} {users}: {difference}");
            }
        }
    }
}

#[test]
fn full_evaluation_in_training_is_that_of_predictions_and_evaluate() {
    let temp = directory();
    planted(temp.path(), "");
    let items = temp.path().join("graph/nodes/item");
    let numbers = |path: &Path| NpyArray::open(path).unwrap().elements::<i64>(NpyType::I64).unwrap().to_vec();
    let (labels, test) = (numbers(&items.join("label.npy")), numbers(&items.join("test_idx.npy")));
    let call = |line: &str| uvatrain(temp.path(), line.split_whitespace()).run().succeeds();
    for model in MODELS {
        let run = |metrics: &str, options: &str| {
            let options = format!("--fanouts 5,4 --epochs 3 --eval full --keep last --json {options}");
            of_relations(model, temp.path(), metrics, &options).run().succeeds().json()
        };
        let end = run("one.jsonl", &format!("--checkpoint {model}"));
        assert_eq!(run("threads.jsonl", "--in-process")["test_accuracy"], end["test_accuracy"], "{model}");
        let accuracy = end["test_accuracy"].as_f64().unwrap();
        call(&format!("predict graph --checkpoint {model} --nodes test --output {model}.npy"));
        let classes = numbers(&temp.path().join(format!("{model}.npy")));
        let right = test.iter().zip(&classes).filter(|(id, class)| labels[**id as usize] == **class).count();
        assert_eq!((classes.len(), right as f64 / test.len() as f64), (test.len(), accuracy), "{model}");
        let evaluated = call(&format!("evaluate graph --checkpoint {model} --json")).json();
        assert_eq!(
            (&evaluated["eval"], &evaluated["test"]["accuracy"]),
            (&"full".into(), &end["test_accuracy"])
        );
        let metrics = Metrics::read(&temp.path().join("one.jsonl"));
        let last = metrics.of("epoch").last().unwrap();
        assert_eq!(evaluated["valid"]["accuracy"], last["valid_accuracy"], "{model}");
    }
    let hidden = "predict graph --checkpoint rsage --embeddings e.npy";
    let refused = uvatrain(temp.path(), hidden.split(' ')).run();
    refused.refuses(2, &["hidden rows of --model rsage are not supported yet"]);
}

#[test]
fn a_typed_graph_trains_rsage_unless_another_model_is_given() {
    let temp = directory();
    planted(temp.path(), "");
    let run = |options: &str, metrics: &str| {
        let line = "train graph --batch-size 100 --hidden 16 --train-threads 1 --epochs 2 --json";
        let line = format!("{line} --metrics {metrics} {options}");
        uvatrain(temp.path(), line.split_whitespace()).run()
    };
    let note = "--model rsage, the default for a typed graph";
    let trained = |options: &str, metrics: &str, is_noted: bool| {
        let outcome = run(options, metrics).succeeds();
        assert_eq!(outcome.stderr.matches(note).count(), usize::from(is_noted), "{outcome}");
        Metrics::read(&temp.path().join(metrics)).trained()
    };
    let expected = trained("--model rsage", "named.jsonl", false);
    assert_eq!(trained("", "chosen.jsonl", true), expected);
    assert_eq!(trained("--in-process", "one.jsonl", true), expected);
    // Options of the chosen model are checked with it, and a dry run names it.
    run("--root shared", "x.jsonl").refuses(2, &["--root: shared is not valid with --model rsage"]);
    assert!(run("--dry-run", "x.jsonl").succeeds().stderr.contains(note));
}

#[test]
fn what_typed_models_do_not_support_is_refused_by_name() {
    let temp = directory();
    planted(temp.path(), "");
    let refused = |options: &str, message: &[&str]| {
        rsage(temp.path(), "run.jsonl", options).run().refuses(2, message);
    };
    for (options, name) in [
        ("--residual", "--residual"),
        ("--norm layer", "--norm"),
        ("--feature-norm row", "--feature-norm"),
        ("--aggregate host", "--aggregate"),
        ("--sampler gpu", "--sampler gpu"),
        ("--gpu-cache 1MiB", "--gpu-cache"),
        ("--pad auto", "--pad: padding is not supported with --model rsage"),
        ("--edge-attr", "--edge-attr"),
        ("--heads 2", "--heads"),
        ("--output-heads 2", "--output-heads"),
        ("--attention-dropout 0.1", "--attention-dropout"),
        ("--sampler-kind ladies", "--sampler-kind ladies"),
        ("--seed-order proximity", "--seed-order proximity"),
        ("--first-layer graph", "graph"),
        ("--target tag", "the dataset has no labels"),
    ] {
        refused(options, &[name]);
    }
    for model in ["sage", "gcn", "gat", "gin", "gine"] {
        let name = format!("--model {model}");
        train(temp.path(), "run.jsonl", &name).run().refuses(2, &[&name, "typed graph", "rsage"]);
    }
    for (options, message) in [
        ("--model sage --root type", ["--root", "rsage or rgcn"]),
        ("--model rgcn --root none", ["--root: none is not valid with --model rgcn", "shared or type"]),
        ("--model rsage --root shared", ["--root: shared is not valid", "relation or type or none"]),
        ("--model rsage --bases 2", ["--bases", "rgcn"]),
        ("--model rgat --heads 3", ["--heads: 3 heads do not divide", "--hidden"]),
        ("--model hgt --heads 3", ["--heads: 3 heads do not divide", "--hidden"]),
        ("--model hgt --root type", ["--root", "rsage or rgcn"]),
        ("--model rgat --output-heads 2", ["--output-heads", "gat"]),
        ("--model rgat --root type", ["--root", "rsage or rgcn"]),
        ("--model rgcn --relation-sum mean", ["--relation-sum", "rsage"]),
        ("--model rgcn --bases 5", ["--bases: 5 is not between 1 and 4", "relations"]),
        ("--model rgcn --blocks 5", ["--blocks: 5 does not divide", "of a layer"]),
        ("--model rgcn --blocks 2 --bases 2", ["--blocks", "--bases"]),
    ] {
        train(temp.path(), "run.jsonl", options).run().refuses(2, &message);
    }
}
