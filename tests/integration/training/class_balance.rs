//! Classes of different sizes: weights in training, and scores of each class in an evaluation.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use uva_graph::npy::{NpyArray, NpyType};

use crate::support::arrays::npy;
use crate::support::runs::{Metrics, small_graph, train};
use crate::support::{Uvatrain, directory, uvatrain};

fn call(directory: &Path, line: &str) -> Uvatrain {
    uvatrain(directory, line.split_whitespace())
}

fn integers(path: &Path) -> Vec<i64> {
    NpyArray::open(path).unwrap().elements::<i64>(NpyType::I64).unwrap().to_vec()
}

/// Trains on a graph where one of 25 training nodes of class 0 is left; the counts of the classes in training.
fn imbalanced(directory: &Path) -> [usize; 4] {
    let graph = small_graph(directory);
    let labels = integers(&graph.join("label.npy"));
    let mut seen = 0;
    let mut kept = integers(&graph.join("train_idx.npy"));
    kept.retain(|&node| {
        seen += usize::from(labels[node as usize] == 0);
        labels[node as usize] != 0 || seen % 25 == 1
    });
    fs::write(graph.join("train_idx.npy"), npy(&[kept.len() as u64], false, &kept)).unwrap();
    [0, 1, 2, 3].map(|class| kept.iter().filter(|&&node| labels[node as usize] == class).count())
}

/// The scores on the test nodes.
fn evaluated(directory: &Path, options: &str) -> Value {
    let line = format!("evaluate graph --checkpoint {options} --json");
    call(directory, &line).run().succeeds().json()["test"].clone()
}

#[test]
fn balanced_weights_raise_the_recall_of_a_rare_class() {
    let temp = directory();
    let counts = imbalanced(temp.path());
    assert!(counts[0] > 0 && 10 * counts[0] < counts[1], "{counts:?}");
    let options = "--epochs 4 --lr 0.01 --eval full --keep last";
    let run = |name: &str, weights: &str| {
        let options = format!("{options} --checkpoint {name} {weights}");
        train(temp.path(), &format!("{name}.jsonl"), &options).run().succeeds();
        let test = evaluated(temp.path(), &format!("{name} --per-class"));
        let rare = &test["classes"][0];
        assert_eq!(rare["class"], 0, "{test}");
        (
            rare["recall"].as_f64().unwrap(),
            Metrics::read(&temp.path().join(format!("{name}.jsonl"))).trained(),
        )
    };
    let (plain, losses) = run("plain", "");
    let (balanced, of_balanced) = run("balanced", "--class-weights balanced");
    assert!(balanced > plain + 0.2, "{balanced} {plain}");
    assert_ne!(losses, of_balanced);
    // Only the weights' ratios matter. Those of scikit-learn, and others in the same proportions, to the last digits.
    let given = counts.map(|count| (1.0 / count as f64).to_string()).join(",");
    let (recall, _) = run("given", &format!("--class-weights {given}"));
    assert!((recall - balanced).abs() < 0.02, "{recall} {balanced}");
    let (equal, same) = run("equal", "--class-weights 1,1,1,1");
    assert_eq!((equal, same), (plain, losses));
}

#[test]
fn class_weights_belong_to_a_checkpoint_and_repeat_in_any_mode() {
    let temp = directory();
    imbalanced(temp.path());
    let weights = "--class-weights balanced";
    let run = |metrics: &str, options: &str| {
        train(temp.path(), metrics, options).run().succeeds();
        Metrics::read(&temp.path().join(metrics)).trained()
    };
    let whole = run("whole.jsonl", &format!("{weights} --epochs 2"));
    assert_eq!(run("here.jsonl", &format!("{weights} --epochs 2 --in-process")), whole);
    let mut parts = run("first.jsonl", &format!("{weights} --epochs 1 --checkpoint kept"));
    parts.extend(run("second.jsonl", &format!("{weights} --epochs 2 --checkpoint kept --resume")));
    assert_eq!(parts, whole);
    for other in ["", "--class-weights 1,2,3,4"] {
        train(temp.path(), "third.jsonl", &format!("--epochs 3 --checkpoint kept --resume {other}"))
            .run()
            .refuses(2, &["class_weights"]);
    }
}

#[test]
fn class_weights_that_do_not_fit_are_refused_by_name() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let refuse = |weights: &str, named: &[&str]| {
        train(temp.path(), "m.jsonl", &format!("--epochs 1 --class-weights {weights}"))
            .run()
            .refuses(2, named);
    };
    refuse("1,2,3", &["--class-weights 1,2,3", "3 weights", "4 classes"]);
    refuse("1,2,3,0", &["--class-weights", "'0'", "positive number"]);
    refuse("even", &["--class-weights", "'even'", "balanced"]);
    let several: Vec<u8> = (0..4000 * 2).map(|place| u8::from(place % 3 == 0)).collect();
    fs::write(graph.join("meta.json"), "{}").unwrap();
    fs::write(graph.join("label.npy"), npy(&[4000, 2], false, &several)).unwrap();
    refuse("balanced", &["--class-weights balanced", "several labels per node"]);
    let numbers: Vec<f32> = (0..4000).map(|node| node as f32).collect();
    fs::write(graph.join("label.npy"), npy(&[4000], false, &numbers)).unwrap();
    refuse("1,2", &["--class-weights 1,2", "regression"]);
}

/// Precision, recall and F1 of a class, counted pair by pair; 0 where nothing is counted.
fn scores(pairs: &[(i64, i64)], class: i64) -> [f64; 3] {
    let count = |holds: &dyn Fn(&(i64, i64)) -> bool| pairs.iter().filter(|pair| holds(pair)).count() as f64;
    let (labelled, told) = (count(&|pair| pair.0 == class), count(&|pair| pair.1 == class));
    let right = count(&|pair| *pair == (class, class));
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let (precision, recall) = (share(right, told), share(right, labelled));
    [precision, recall, share(2.0 * precision * recall, precision + recall)]
}

#[test]
fn an_evaluation_has_the_scores_that_predictions_and_labels_give() {
    let temp = directory();
    imbalanced(temp.path());
    let graph = temp.path().join("graph");
    let meta = json!({ "name": "named", "classes": 4, "class_names": ["a", "b", "Ü, c", "d"] });
    fs::write(graph.join("meta.json"), meta.to_string()).unwrap();
    train(temp.path(), "m.jsonl", "--epochs 2 --lr 0.01 --checkpoint kept").run().succeeds();
    let (labels, test) = (integers(&graph.join("label.npy")), integers(&graph.join("test_idx.npy")));
    for eval in ["full", "sampled"] {
        let line = format!("predict graph --checkpoint kept --eval {eval} --nodes test --overwrite");
        call(temp.path(), &line).run().succeeds();
        let predicted = integers(&temp.path().join("predictions.npy"));
        let pairs: Vec<(i64, i64)> = test.iter().map(|&node| labels[node as usize]).zip(predicted).collect();
        let found = evaluated(temp.path(), &format!("kept --eval {eval} --per-class"));
        let classes = found["classes"].as_array().unwrap();
        let mut mean = 0.0;
        for (class, found) in classes.iter().enumerate() {
            let expected = scores(&pairs, class as i64);
            for (name, expected) in ["precision", "recall", "f1"].into_iter().zip(expected) {
                let found = found[name].as_f64().unwrap();
                assert!((found - expected).abs() < 1e-12, "{name} of {class}: {found} {expected}");
            }
            let nodes = pairs.iter().filter(|pair| pair.0 == class as i64).count();
            assert_eq!(found["nodes"], nodes, "{found}");
            assert_eq!(found["name"], ["a", "b", "Ü, c", "d"][class]);
            mean += expected[2] / 4.0;
        }
        assert_eq!(classes.len(), 4);
        assert!((found["macro_f1"].as_f64().unwrap() - mean).abs() < 1e-12, "{found} {mean}");
        assert!(evaluated(temp.path(), &format!("kept --eval {eval}"))["classes"].is_null());

        let shown = call(temp.path(), &format!("evaluate graph --checkpoint kept --eval {eval} --per-class"));
        let shown = shown.run().succeeds();
        for part in ["macro-F1", "precision", "recall", "Ü, c"] {
            assert!(shown.stdout.contains(part), "{part}: {shown}");
        }
        assert_eq!(shown.stderr.matches("on sampled neighbours").count(), usize::from(eval == "sampled"));
    }
}

#[test]
fn a_training_says_once_that_its_results_are_on_sampled_neighbours() {
    let temp = directory();
    small_graph(temp.path());
    for (options, times) in
        [("--fanouts 3,3", 1), ("--fanouts 3,3 --eval full", 0), ("--fanouts=-1,-1 --slot-bytes 64MiB", 0)]
    {
        let line = format!("train graph --batch-size 500 --hidden 8 --epochs 1 {options}");
        let run = call(temp.path(), &line).run().succeeds();
        let said = [&run.stdout, &run.stderr].map(|text| text.matches("on sampled neighbours").count());
        assert_eq!(said, [times, 0], "{options}: {run}");
    }
}
