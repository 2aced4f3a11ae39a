//! Targets other than classes in whole programs: datasets without labels, and numbers to predict.

use std::fs;
use std::path::{Path, PathBuf};

use uva_graph::npy::{NpyArray, NpyType};
use uva_graph::{Dataset, Verify};

use crate::support::arrays::{npy, six_nodes};
use crate::support::runs::{Metrics, small_graph, train};
use crate::support::{Outcome, assert_same_contents, contents, directory, uvatrain};

fn call(directory: &Path, line: &str) -> Outcome {
    uvatrain(directory, line.split_whitespace()).run()
}

fn floats_of(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Numbers that a node's neighbourhood determines: twice the mean of the neighbours' first feature, and a sum of its
/// own.
fn numbers(graph: &Path) -> Vec<f32> {
    let dataset = Dataset::open_verified(graph, Verify::HeadersOnly).unwrap();
    let (csc, features) = (dataset.csc(), dataset.features());
    let rows = floats_of(features.bytes);
    let of = |node: usize, column: usize| rows[node * features.dim + column];
    let mut targets = Vec::new();
    for node in 0..dataset.nodes() {
        let list = csc.indptr[node] as usize..csc.indptr[node + 1] as usize;
        let degree = list.len().max(1) as f32;
        let mean = list.map(|edge| of(csc.indices.get(edge) as usize, 0)).sum::<f32>() / degree;
        targets.extend([2.0 * mean, of(node, 1) - of(node, 2) + 3.0]);
    }
    targets
}

/// The small graph with two numbers a node.
fn with_numbers(directory: &Path) -> (PathBuf, Vec<f32>) {
    let graph = small_graph(directory);
    let targets = numbers(&graph);
    fs::write(graph.join("label.npy"), npy(&[4000, 2], false, &targets)).unwrap();
    fs::write(graph.join("meta.json"), r#"{"name": "numbers"}"#).unwrap();
    (graph, targets)
}

fn floats(path: &Path) -> (Vec<usize>, Vec<f32>) {
    let array = NpyArray::open(path).unwrap();
    (array.shape().to_vec(), array.elements::<f32>(NpyType::F32).unwrap().to_vec())
}

/// Mean squared and mean absolute error of some nodes' rows.
fn errors(ids: &[i64], predicted: &[f32], targets: &[f32]) -> [f64; 2] {
    let of = |values: &[f32], id: i64| [0, 1].map(|column| f64::from(values[id as usize * 2 + column]));
    let pairs = ids.iter().flat_map(|&id| {
        let (found, wanted) = (of(predicted, id), of(targets, id));
        [found[0] - wanted[0], found[1] - wanted[1]]
    });
    let (squared, absolute) = pairs
        .fold((0.0, 0.0), |(squared, absolute), error| (squared + error * error, absolute + error.abs()));
    let count = 2.0 * ids.len() as f64;
    [squared / count, absolute / count]
}

#[test]
fn numbers_are_learned_and_predicted_with_the_errors_of_training() {
    let temp = directory();
    let (graph, targets) = with_numbers(temp.path());
    let ids = NpyArray::open(&graph.join("test_idx.npy")).unwrap();
    let ids = ids.elements::<i64>(NpyType::I64).unwrap().to_vec();
    for (loss, eval, options) in [
        ("mse", "full", "--lr 0.03 --dropout 0"),
        ("mae", "full", "--lr 0.03 --dropout 0 --loss mae --in-process"),
        ("mse", "sampled", "--lr 0.01 --dropout 0 --loss mse --model gat --heads 4 --residual"),
    ] {
        let metrics = format!("{loss}-{eval}.jsonl");
        let options =
            format!("{options} --epochs 12 --patience 4 --eval {eval} --checkpoint {loss}-{eval} --json");
        let run = train(temp.path(), &metrics, &options).run().succeeds();
        for part in ["valid MSE", "test MSE", "test MAE"] {
            assert!(run.stderr.contains(part), "{part}: {run}");
        }
        let end = run.json();
        let field = |name: &str| end[name].as_f64().unwrap_or_else(|| panic!("{name}: {end}"));
        assert!(end["test_accuracy"].is_null() && end["best_valid_accuracy"].is_null(), "{end}");
        // Without a model, the mean over each column would be predicted.
        let best = field(&format!("best_valid_{loss}"));
        assert!(best < 0.25, "{end}");
        let metrics = Metrics::read(&temp.path().join(metrics));
        assert_eq!(metrics.of("start").next().unwrap()["in_force"]["metric"], loss);
        let name = format!("valid_{loss}");
        let told: Vec<f64> = metrics.of("epoch").map(|epoch| epoch[&name].as_f64().unwrap()).collect();
        // The kept model is the one with the lowest error.
        let (lowest, value) =
            told.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).expect("an epoch");
        assert_eq!((best, end["best_valid_epoch"].as_u64()), (value, Some(lowest as u64)), "{end}");
        assert!(told[0] > 1.5 * value, "{told:?}");

        let line = format!("graph --checkpoint {loss}-{eval} --eval {eval} --json");
        let said = call(temp.path(), &format!("evaluate {line}")).succeeds().json();
        assert_eq!(said["metric"], loss);
        assert_eq!(said["test"]["mse"].as_f64(), Some(field("test_mse")), "{said} {end}");
        assert_eq!(said["test"]["mae"].as_f64(), Some(field("test_mae")), "{said} {end}");
        assert_eq!(said["valid"][loss].as_f64(), Some(best), "{said}");
        assert_eq!(said["valid"]["loss"], said["valid"][loss], "{said}");
        let shown = call(temp.path(), &format!("evaluate graph --checkpoint {loss}-{eval} --eval {eval}"));
        assert!(shown.stdout.contains("MSE") && shown.stdout.contains("MAE"), "{shown}");

        call(temp.path(), &format!("predict {line} --nodes all --overwrite")).succeeds();
        let (shape, predicted) = floats(&temp.path().join("predictions.npy"));
        assert_eq!(shape, [4000, 2]);
        let [mse, mae] = errors(&ids, &predicted, &targets);
        if eval == "full" {
            assert!((mse - field("test_mse")).abs() < 1e-4 * mse, "{mse} {end}");
            assert!((mae - field("test_mae")).abs() < 1e-4 * mae, "{mae} {end}");
        }
        assert!(mse < 0.3, "{mse}");
    }
}

#[test]
fn losses_of_regression_are_equal_in_any_mode_and_resumed() {
    let temp = directory();
    with_numbers(temp.path());
    let run = |metrics: &str, options: &str| {
        train(temp.path(), metrics, &format!("--loss mae {options}")).run().succeeds();
        Metrics::read(&temp.path().join(metrics)).trained()
    };
    let whole = run("whole.jsonl", "--epochs 2");
    assert_eq!(run("threads.jsonl", "--epochs 2 --in-process --samplers 2"), whole);
    let mut parts = run("first.jsonl", "--epochs 1 --checkpoint kept");
    parts.extend(run("second.jsonl", "--epochs 2 --checkpoint kept --resume"));
    assert_eq!(parts, whole);
    // Another loss is another training.
    train(temp.path(), "third.jsonl", "--epochs 3 --checkpoint kept --resume").run().refuses(2, &["loss"]);
}

#[test]
fn options_of_classes_are_refused_for_numbers_and_the_other_way_round() {
    let temp = directory();
    with_numbers(temp.path());
    for (options, part) in [
        ("--metric accuracy", "--metric: accuracy requires classes"),
        ("--metric roc-auc", "use --metric mse or --metric mae"),
    ] {
        train(temp.path(), "m.jsonl", options).run().refuses(2, &[part]);
    }
    let trained = train(temp.path(), "m.jsonl", "--epochs 1 --metric mae --json --checkpoint kept");
    let end = trained.run().succeeds().json();
    assert!(end["best_valid_mae"].is_f64() && end["best_valid_mse"].is_null(), "{end}");
    call(temp.path(), "predict graph --checkpoint kept --probabilities p.npy")
        .refuses(2, &["--probabilities", "regression"]);
    assert!(!temp.path().join("p.npy").exists());
    six_nodes(&temp.path().join("six"));
    for (options, part) in [
        ("--loss mae", "--loss mae: only valid for float32 targets"),
        ("--metric mse", "mse requires float32 targets"),
        ("--loss l2", "auto, mse, mae"),
    ] {
        call(temp.path(), &format!("train six --fanouts 2 --epochs 1 {options}")).refuses(2, &[part]);
    }
}

#[test]
fn targets_that_are_not_finite_are_refused_with_node_and_column() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    fs::write(temp.path().join("six/meta.json"), "{}").unwrap();
    let mut values = [0.5f32; 12];
    values[7] = f32::NAN;
    fs::write(temp.path().join("six/label.npy"), npy(&[6, 2], false, &values)).unwrap();
    let part = "six/label.npy: the target of node 3, column 1, at offset 156 is NaN";
    for line in ["info six", "train six --fanouts 2", "bench sample six --fanouts 2"] {
        call(temp.path(), line).refuses(2, &[part]);
    }
    call(temp.path(), "import --from npy six out")
        .refuses(2, &["six/label.npy: the target of node 3, column 1"]);
    assert!(!temp.path().join("out").exists());
    values[7] = 0.5;
    fs::write(temp.path().join("six/label.npy"), npy(&[6, 2], false, &values)).unwrap();
    fs::write(temp.path().join("six/meta.json"), r#"{"classes": 2}"#).unwrap();
    call(temp.path(), "info six").refuses(2, &["six/meta.json: \"classes\" is 2, but label.npy has float32"]);
}

#[test]
fn numbers_survive_import_reordering_and_export_and_info_shows_them() {
    let temp = directory();
    let six = temp.path().join("six");
    six_nodes(&six);
    fs::write(six.join("meta.json"), "{}").unwrap();
    let values: Vec<f32> = (0..12).map(|value| value as f32 + 0.25).collect();
    fs::write(six.join("label.npy"), npy(&[6, 2], false, &values)).unwrap();
    let said = call(temp.path(), "import --from npy six mine").succeeds();
    assert!(said.stderr.contains("2 targets") && said.stderr.contains("uvatrain train mine"), "{said}");
    assert_eq!(floats(&temp.path().join("mine/label.npy")), (vec![6, 2], values.clone()));
    let info = call(temp.path(), "info mine").succeeds();
    assert!(info.stdout.contains("2 × f32 a node, for regression"), "{info}");
    let facts = call(temp.path(), "info mine --json").succeeds().json();
    assert_eq!((&facts["target_columns"], &facts["classes"]), (&2.into(), &0.into()), "{facts}");

    let plan = "plan mine --fanouts 2 --batch-size 1 --gpu-cache 1KiB --write-reordered other";
    call(temp.path(), plan).succeeds();
    let other = Dataset::open(&temp.path().join("other")).unwrap();
    let moved = floats_of(other.labels().bytes());
    for (place, &id) in other.original_ids().unwrap().iter().enumerate() {
        assert_eq!(moved[place * 2..][..2], values[id as usize * 2..][..2]);
    }
    for format in ["npy", "graphbolt", "edgelist"] {
        call(temp.path(), &format!("export mine {format} --to {format}")).succeeds();
    }
    call(temp.path(), "import --from graphbolt graphbolt again --regression").succeeds();
    assert_eq!(floats(&temp.path().join("again/label.npy")), (vec![6, 2], values.clone()));
    call(temp.path(), "import --from npy npy third").succeeds();
    assert_eq!(floats(&temp.path().join("third/label.npy")), (vec![6, 2], values));

    // Whole numbers are classes unless declared otherwise.
    let whole = [0f32, 1.0, 0.0, 1.0, 2.0, 1.0];
    fs::write(six.join("label.npy"), npy(&[6], false, &whole)).unwrap();
    call(temp.path(), "import --from npy six classes").succeeds();
    let facts = call(temp.path(), "info classes --json").succeeds().json();
    assert_eq!(
        (&facts["target_columns"], &facts["classes"]),
        (&serde_json::Value::Null, &3.into()),
        "{facts}"
    );
    call(temp.path(), "import --from npy six counts --regression").succeeds();
    assert_eq!(floats(&temp.path().join("counts/label.npy")), (vec![6], whole.to_vec()));
    call(temp.path(), "import --from ogb six none --regression")
        .refuses(2, &["--regression: not supported with --from ogb"]);
}

#[test]
fn a_dataset_without_labels_does_all_but_training_and_evaluation() {
    let temp = directory();
    let graph = small_graph(temp.path());
    train(temp.path(), "m.jsonl", "--epochs 1 --checkpoint kept").run().succeeds();
    call(temp.path(), "predict graph --checkpoint kept --output labelled.npy").succeeds();
    let bench = "bench pipeline graph --fanouts 5,4 --batch-size 100 --json";
    let labelled = call(temp.path(), bench).succeeds().json();
    fs::remove_file(graph.join("label.npy")).unwrap();
    let before = contents(&graph);
    for line in [
        "info graph --verify",
        "bench pipeline graph --fanouts 5,4 --batch-size 100",
        "bench sample graph --fanouts 5,4 --batch-size 100",
        "bench gather graph",
        "plan graph --fanouts 5,4 --batch-size 100 --gpu-cache 64KiB --write-reordered other",
        "export graph as_npy --to npy",
        "export graph as_graphbolt --to graphbolt",
        "import --from npy as_npy again",
        "import --from graphbolt as_graphbolt from_graphbolt",
        "run graph --fanouts 5,4 --batch-size 100 --dry-run -- true",
    ] {
        call(temp.path(), line).succeeds();
    }
    for made in ["other", "as_npy", "again", "from_graphbolt"] {
        assert!(!temp.path().join(made).join("label.npy").exists(), "{made}");
    }
    for made in ["other", "again", "from_graphbolt"] {
        assert!(call(temp.path(), &format!("info {made}")).succeeds().stdout.contains("none"), "{made}");
    }
    // Labels are not part of a batch's hash.
    assert_eq!(call(temp.path(), bench).succeeds().json()["hash"], labelled["hash"]);

    for line in ["train graph --fanouts 5,4", "evaluate graph --checkpoint kept"] {
        call(temp.path(), line).refuses(2, &["graph: the dataset has no labels", "label.npy"]);
    }
    // Only a model of another dataset is available here.
    for eval in ["full", "sampled"] {
        let line =
            format!("predict graph --checkpoint kept --eval {eval} --overwrite --output unlabelled.npy");
        call(temp.path(), &line).succeeds();
    }
    call(temp.path(), "predict graph --checkpoint kept --overwrite --output unlabelled.npy").succeeds();
    let read = |name: &str| fs::read(temp.path().join(name)).unwrap();
    assert_eq!(read("unlabelled.npy"), read("labelled.npy"));
    six_nodes(&temp.path().join("six"));
    fs::remove_file(temp.path().join("six/label.npy")).unwrap();
    call(temp.path(), "predict six --checkpoint kept").refuses(2, &["24 feature columns", "six has 3"]);
    let left = contents(&graph).into_iter().filter(|(path, _)| !path.starts_with(".uvatrain-stamp.json"));
    let before = before.into_iter().filter(|(path, _)| !path.starts_with(".uvatrain-stamp.json"));
    assert_same_contents(&before.collect(), &left.collect());
}
