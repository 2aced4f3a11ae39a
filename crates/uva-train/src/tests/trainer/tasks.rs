//! Several labels a node, and answers judged by the area under the ROC curve.

use crate::input::evaluation::Evaluation;
use crate::input::prepared::Prepared;
use crate::tests::dense_reference::{dense_forward, rows};
use crate::tests::support::{Batch, Graph, MODELS, fill_biases, options, parameter_bits};
use crate::torch::device::TrainDevice;
use crate::train::trainer::Trainer;
use crate::{TrainError, train::checkpoint};
use serde_json::json;
use tch::Device;
use uva_batch::BatchColumns;
use uva_graph::Labels;
use uva_model::checkpoint as stored;
use uva_model::{Metric, OptionsError, Task, TaskKind};
use uva_model::{ModelKind, TrainerOptions};

const CLASSES: usize = 4;
const SEVERAL: Task = Task { outputs: CLASSES, kind: TaskKind::MultiLabel, metric: Metric::RocAuc };
const TWO: Task = Task { outputs: 2, kind: TaskKind::SingleLabel, metric: Metric::RocAuc };

/// Labels that the features determine: class c if column c is large. No node has the last class.
fn several(graph: &Graph) -> Vec<u8> {
    let label = |v: usize, c: usize| u8::from(c + 1 < CLASSES && graph.features[v * graph.dim + c] > 0.2);
    (0..graph.nodes()).flat_map(|v| (0..CLASSES).map(move |c| label(v, c))).collect()
}

fn rows_of(values: &[u8], nodes: &[usize]) -> Vec<u8> {
    nodes.iter().flat_map(|&v| values[v * CLASSES..][..CLASSES].to_vec()).collect()
}

fn with_labels<'a>(batch: &'a Batch, values: &'a [u8]) -> BatchColumns<'a> {
    batch.columns().with_labels(Labels::Multi { classes: CLASSES, values })
}

/// The share of pairs in the right order, computed pair by pair; a tie counts half.
fn area(answers: &[(f64, bool)]) -> Option<f64> {
    let (mut right, mut pairs) = (0.0, 0.0);
    for (higher, _) in answers.iter().filter(|answer| answer.1) {
        for (lower, _) in answers.iter().filter(|answer| !answer.1) {
            right += if higher > lower {
                1.0
            } else if higher == lower {
                0.5
            } else {
                0.0
            };
            pairs += 1.0;
        }
    }
    (pairs > 0.0).then(|| right / pairs)
}

fn assert_close(found: &Evaluation, (loss, correct, labelled, auc): (f64, usize, usize, f64), what: &str) {
    assert!((found.loss_sum - loss).abs() < 1e-5 * (1.0 + loss), "{what}: {} {loss}", found.loss_sum);
    assert_eq!((found.correct, found.labelled), (correct, labelled), "{what}");
    let roc_auc = found.roc_auc().unwrap();
    assert!((roc_auc - auc).abs() < 1e-12, "{what}: {roc_auc} {auc}");
}

#[test]
fn several_labels_a_node_have_the_loss_hits_and_area_of_the_dense_model() {
    for model in MODELS {
        let graph = Graph::random(60, 6, 3, 5);
        let labels = several(&graph);
        let trainer = Trainer::new(&options(model, 8, 2), 6, SEVERAL, TrainDevice::Cpu).unwrap();
        fill_biases(&trainer);
        let seeds: Vec<usize> = (0..60).rev().step_by(2).collect();
        let logits = dense_forward(&graph, &trainer, rows(&graph));
        let (mut loss, mut correct) = (0.0, 0);
        let mut areas = Vec::new();
        for c in 0..CLASSES {
            let answers: Vec<(f64, bool)> =
                seeds.iter().map(|&v| (logits[v][c], labels[v * CLASSES + c] == 1)).collect();
            for &(x, positive) in &answers {
                loss += x.max(0.0) - if positive { x } else { 0.0 } + (-x.abs()).exp().ln_1p();
                correct += usize::from((x > 0.0) == positive);
            }
            areas.extend(area(&answers));
        }
        assert_eq!(areas.len(), CLASSES - 1, "no node has the last class");
        let auc = areas.iter().sum::<f64>() / areas.len() as f64;
        let expected = (loss, correct, seeds.len() * CLASSES, auc);

        let batch = graph.batch(&seeds, &[usize::MAX; 2]);
        let values = rows_of(&labels, &seeds);
        let found = trainer.evaluate_batch(&with_labels(&batch, &values), &mut || Ok(())).unwrap();
        assert_close(&found, expected, "blocks");
        let ids: Vec<i64> = seeds.iter().map(|&v| v as i64).collect();
        let all = Labels::Multi { classes: CLASSES, values: &labels };
        let found = trainer.evaluate_full((graph.whole(), graph.table()), all, &ids).unwrap();
        assert_close(&found, expected, "layer by layer");
        // In two batches.
        let mut sum = Evaluation::default();
        for part in [&seeds[..11], &seeds[11..]] {
            let batch = graph.batch(part, &[usize::MAX; 2]);
            let values = rows_of(&labels, part);
            sum += trainer.evaluate_batch(&with_labels(&batch, &values), &mut || Ok(())).unwrap();
        }
        assert_close(&sum, expected, "in two batches");
    }
}

#[test]
fn two_classes_are_judged_by_the_lead_of_the_second_over_labelled_nodes() {
    let graph = Graph::random(60, 6, 2, 5);
    let trainer = Trainer::new(&options(ModelKind::Sage, 8, 2), 6, TWO, TrainDevice::Cpu).unwrap();
    fill_biases(&trainer);
    let logits = dense_forward(&graph, &trainer, rows(&graph));
    let labelled = (0..60).filter(|&v| graph.labels[v] >= 0);
    let answers: Vec<(f64, bool)> =
        labelled.map(|v| (logits[v][1] - logits[v][0], graph.labels[v] == 1)).collect();
    let ids: Vec<i64> = (0..60).collect();
    let found =
        trainer.evaluate_full((graph.whole(), graph.table()), Labels::Single(&graph.labels), &ids).unwrap();
    assert_eq!(found.judged_by(Metric::RocAuc), area(&answers));
    assert_eq!(found.judged_by(Metric::Accuracy), found.accuracy());
    // A task judged by accuracy keeps no answers.
    let plain = Trainer::new(&options(ModelKind::Sage, 8, 2), 6, 2, TrainDevice::Cpu).unwrap();
    let found =
        plain.evaluate_full((graph.whole(), graph.table()), Labels::Single(&graph.labels), &ids).unwrap();
    assert_eq!((found.roc_auc(), found.judged_by(Metric::RocAuc)), (None, None));
}

/// Losses of training on all nodes in batches of 20.
fn train(
    graph: &Graph,
    labels: &[u8],
    trainer: &mut Trainer,
    epochs: u32,
    through_tensors: bool,
) -> Vec<f32> {
    let order: Vec<usize> = (0..graph.nodes()).map(|v| v * 7 % graph.nodes()).collect();
    let mut losses = Vec::new();
    for epoch in 0..epochs {
        for (number, seeds) in (0..).zip(order.chunks(20)) {
            let batch = graph.batch(seeds, &[4, 4]);
            let values = rows_of(labels, seeds);
            let input = with_labels(&batch, &values);
            let step = if through_tensors {
                let prepared = Prepared::copied(&trainer.trains(), &input, Device::Cpu).unwrap();
                trainer.train_prepared(epoch, number, prepared, &mut || Ok(())).unwrap()
            } else {
                trainer.train_batch(epoch, number, &input, &mut || Ok(())).unwrap()
            };
            assert_eq!(step.labelled, seeds.len() * CLASSES);
            losses.push(step.loss);
        }
    }
    losses
}

#[test]
fn several_labels_a_node_are_learned_and_the_same_through_tensors() {
    let graph = Graph::random(100, 8, 3, 1);
    let labels = several(&graph);
    let new = || {
        let options = TrainerOptions { dropout: 0.2, ..options(ModelKind::Sage, 32, 2) };
        Trainer::new(&options, 8, SEVERAL, TrainDevice::Cpu).unwrap()
    };
    let (mut trainer, mut again, mut tensors) = (new(), new(), new());
    let losses = train(&graph, &labels, &mut trainer, 30, false);
    assert!(losses[losses.len() - 1] < 0.5 * losses[0], "{losses:?}");
    let ids: Vec<i64> = (0..100).collect();
    let all = Labels::Multi { classes: CLASSES, values: &labels };
    let found = trainer.evaluate_full((graph.whole(), graph.table()), all, &ids).unwrap();
    assert!(found.roc_auc().unwrap() > 0.9 && found.accuracy().unwrap() > 0.9, "{found:?}");
    assert_eq!(train(&graph, &labels, &mut again, 30, false), losses);
    assert_eq!(parameter_bits(&again), parameter_bits(&trainer));
    for (found, expected) in train(&graph, &labels, &mut tensors, 2, true).iter().zip(&losses) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
}

#[test]
fn labels_that_do_not_fit_the_task_are_refused() {
    let graph = Graph::random(40, 6, 3, 5);
    let labels = several(&graph);
    let mut trainer = Trainer::new(&options(ModelKind::Sage, 4, 2), 6, SEVERAL, TrainDevice::Cpu).unwrap();
    let batch = graph.batch(&[0, 1, 2], &[3, 3]);
    let mut refused = |labels: Labels<'_>, part: &str| {
        let input = batch.columns().with_labels(labels);
        let error = trainer.train_batch(0, 0, &input, &mut || Ok(())).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(part), "{part}: {error}");
    };
    refused(Labels::Single(&batch.labels), "one class a node");
    refused(Labels::Multi { classes: 3, values: &labels[..9] }, "3 classes for a model of 4");
    refused(Labels::Multi { classes: 4, values: &labels[..11] }, "11 labels for 3 seeds");
    refused(
        Labels::Multi { classes: 4, values: &[0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0] },
        "label 2 at position 3",
    );
    for classes in [3, 1] {
        let task = Task { outputs: classes, ..TWO };
        let error = Trainer::new(&options(ModelKind::Sage, 4, 2), 6, task, TrainDevice::Cpu).unwrap_err();
        assert!(
            matches!(&error, TrainError::Options(OptionsError::Option { option: "metric", .. })),
            "{error}"
        );
    }
}

#[test]
fn a_checkpoint_of_another_kind_of_labels_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let new = |task| Trainer::new(&options(ModelKind::Sage, 4, 2), 6, task, TrainDevice::Cpu).unwrap();
    checkpoint::write(directory.path(), &new(SEVERAL), &json!({}), &json!(1)).unwrap();
    let read = stored::read(directory.path()).unwrap().unwrap();
    let error = checkpoint::restore(&read, &mut new(CLASSES.into()), &json!({})).unwrap_err();
    assert!(error.to_string().contains("multi_label is true there and null here"), "{error}");
    checkpoint::restore(&read, &mut new(SEVERAL), &json!({})).unwrap();
}
