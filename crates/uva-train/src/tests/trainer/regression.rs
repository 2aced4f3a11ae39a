//! Numbers to predict: losses, errors, predictions and checkpoints of regression.

use std::ops::ControlFlow;

use crate::graph::full_table::Tables;
use crate::input::evaluation::Evaluation;
use crate::input::prepared::Prepared;
use crate::tests::dense_reference::{dense_forward, rows};
use crate::tests::support::{Batch, Graph, MODELS, fill_biases, options, parameter_bits};
use crate::torch::device::TrainDevice;
use crate::train::trainer::Trainer;
use crate::whole::predict::Questions;
use crate::whole::wanted::Wanted;
use crate::{Answered, TrainError, train::checkpoint};
use serde_json::json;
use tch::Device;
use uva_batch::BatchColumns;
use uva_graph::Labels;
use uva_model::checkpoint as stored;
use uva_model::{Answer, Metric, ModelKind, OptionsError, RegressionLoss, Task, TaskKind, TrainerOptions};

const COLUMNS: usize = 2;
const LOSSES: [(RegressionLoss, Metric); 2] =
    [(RegressionLoss::Mse, Metric::Mse), (RegressionLoss::Mae, Metric::Mae)];

fn task(loss: RegressionLoss) -> Task {
    let kind = TaskKind::Regression(loss);
    Task { outputs: COLUMNS, kind, metric: kind.usual_metric() }
}

fn new(loss: RegressionLoss) -> Trainer {
    let options = TrainerOptions { dropout: 0.0, ..options(ModelKind::Sage, 16, 2) };
    Trainer::new(&options, 6, task(loss), TrainDevice::Cpu).unwrap()
}

/// Targets that the features determine: their own first column, and the mean of the neighbours' second.
fn targets(graph: &Graph) -> Vec<f32> {
    let feature = |v: usize, column: usize| graph.features[v * graph.dim + column];
    let mean = |v: usize| {
        let list = graph.list(v);
        list.iter().map(|&u| feature(u as usize, 1)).sum::<f32>() / list.len().max(1) as f32
    };
    (0..graph.nodes()).flat_map(|v| [2.0 * feature(v, 0) + 1.0, mean(v)]).collect()
}

fn rows_of(values: &[f32], nodes: &[usize]) -> Vec<f32> {
    nodes.iter().flat_map(|&v| values[v * COLUMNS..][..COLUMNS].to_vec()).collect()
}

fn with_targets<'a>(batch: &'a Batch, values: &'a [f32]) -> BatchColumns<'a> {
    let labels = Labels::Regression { columns: Some(COLUMNS), values };
    batch.columns().with_labels(labels)
}

#[test]
fn errors_equal_the_dense_models_in_one_batch_in_two_and_by_layer() {
    for model in MODELS {
        for (loss, metric) in LOSSES {
            let graph = Graph::random(60, 6, 3, 5);
            let all = targets(&graph);
            let trainer = Trainer::new(&options(model, 8, 2), 6, task(loss), TrainDevice::Cpu).unwrap();
            fill_biases(&trainer);
            let seeds: Vec<usize> = (0..60).rev().step_by(2).collect();
            let outputs = dense_forward(&graph, &trainer, rows(&graph));
            let errors: Vec<f64> = seeds
                .iter()
                .flat_map(|&v| (0..COLUMNS).map(move |c| (v, c)))
                .map(|(v, c)| outputs[v][c] - f64::from(all[v * COLUMNS + c]))
                .collect();
            let count = errors.len() as f64;
            let mse = errors.iter().map(|error| error * error).sum::<f64>() / count;
            let mae = errors.iter().map(|error| error.abs()).sum::<f64>() / count;
            let assert_is = |found: &Evaluation, what: &str| {
                for (found, expected) in [(found.mse(), mse), (found.mae(), mae)] {
                    assert!((found.unwrap() - expected).abs() < 1e-5 * (1.0 + expected), "{what}: {found:?}");
                }
                assert_eq!(found.mean_loss(), found.judged_by(metric), "{what}");
                assert_eq!((found.accuracy(), found.roc_auc(), found.correct), (None, None, 0), "{what}");
                assert_eq!(found.labelled, errors.len(), "{what}");
            };
            let evaluate = |seeds: &[usize]| {
                let batch = graph.batch(seeds, &[usize::MAX; 2]);
                let values = rows_of(&all, seeds);
                trainer.evaluate_batch(&with_targets(&batch, &values), &mut || Ok(())).unwrap()
            };
            assert_is(&evaluate(&seeds), "blocks");
            let mut sum = evaluate(&seeds[..11]);
            sum += evaluate(&seeds[11..]);
            assert_is(&sum, "in two batches");
            let ids: Vec<i64> = seeds.iter().map(|&v| v as i64).collect();
            let labels = Labels::Regression { columns: Some(COLUMNS), values: &all };
            let full = trainer.evaluate_full((graph.whole(), graph.table()), labels, &ids).unwrap();
            assert_is(&full, "layer by layer");
        }
    }
}

/// Losses of training on all nodes in batches of 20.
fn train(graph: &Graph, all: &[f32], trainer: &mut Trainer, epochs: u32, through_tensors: bool) -> Vec<f32> {
    let order: Vec<usize> = (0..graph.nodes()).map(|v| v * 7 % graph.nodes()).collect();
    let mut losses = Vec::new();
    for epoch in 0..epochs {
        for (number, seeds) in (0..).zip(order.chunks(20)) {
            let batch = graph.batch(seeds, &[usize::MAX; 2]);
            let values = rows_of(all, seeds);
            let input = with_targets(&batch, &values);
            let step = if through_tensors {
                let prepared = Prepared::copied(&trainer.trains(), &input, Device::Cpu).unwrap();
                trainer.train_prepared(epoch, number, prepared, &mut || Ok(())).unwrap()
            } else {
                trainer.train_batch(epoch, number, &input, &mut || Ok(())).unwrap()
            };
            assert_eq!((step.labelled, step.correct), (seeds.len() * COLUMNS, 0));
            losses.push(step.loss);
        }
    }
    losses
}

#[test]
fn numbers_are_learned_by_either_loss_and_the_same_through_tensors() {
    let graph = Graph::random(100, 6, 3, 1);
    let all = targets(&graph);
    for (loss, metric) in LOSSES {
        let (mut trainer, mut again, mut tensors) = (new(loss), new(loss), new(loss));
        let losses = train(&graph, &all, &mut trainer, 100, false);
        assert!(losses[losses.len() - 1] < 0.15 * losses[0], "{loss}: {losses:?}");
        let ids: Vec<i64> = (0..100).collect();
        let labels = Labels::Regression { columns: Some(COLUMNS), values: &all };
        let found = trainer.evaluate_full((graph.whole(), graph.table()), labels, &ids).unwrap();
        assert!(found.judged_by(metric).unwrap() < 0.15, "{loss}: {found:?}");
        assert_eq!(train(&graph, &all, &mut again, 100, false), losses);
        assert_eq!(parameter_bits(&again), parameter_bits(&trainer));
        for (found, expected) in train(&graph, &all, &mut tensors, 2, true).iter().zip(&losses) {
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }
}

#[test]
fn the_first_loss_is_the_mean_over_nodes_and_columns() {
    let graph = Graph::random(40, 6, 3, 5);
    let all = targets(&graph);
    for (loss, _) in LOSSES {
        let mut trainer = new(loss);
        let outputs = dense_forward(&graph, &trainer, rows(&graph));
        let seeds: Vec<usize> = (0..40).collect();
        let errors = seeds.iter().flat_map(|&v| (0..COLUMNS).map(move |c| (v, c)));
        let errors = errors.map(|(v, c)| outputs[v][c] - f64::from(all[v * COLUMNS + c]));
        let sum: f64 = match loss {
            RegressionLoss::Mse => errors.map(|error| error * error).sum(),
            RegressionLoss::Mae => errors.map(f64::abs).sum(),
        };
        let batch = graph.batch(&seeds, &[usize::MAX; 2]);
        let step = trainer.train_batch(0, 0, &with_targets(&batch, &all), &mut || Ok(())).unwrap();
        let expected = sum / all.len() as f64;
        assert!((f64::from(step.loss) - expected).abs() < 1e-5 * expected, "{loss}: {step:?} {expected}");
    }
}

#[test]
fn targets_that_do_not_fit_the_model_are_refused() {
    let graph = Graph::random(40, 6, 3, 5);
    let all = targets(&graph);
    let batch = graph.batch(&[0, 1, 2], &[3, 3]);
    let refused = |trainer: &mut Trainer, labels: Labels<'_>, part: &str| {
        let input = batch.columns().with_labels(labels);
        let error = trainer.train_batch(0, 0, &input, &mut || Ok(())).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(part), "{part}: {error}");
    };
    let mut trainer = new(RegressionLoss::Mse);
    let regression = |columns, values| Labels::Regression { columns, values };
    refused(&mut trainer, Labels::Absent, "without labels");
    refused(&mut trainer, Labels::Single(&batch.labels), "one class a node for a model of regression");
    refused(&mut trainer, regression(None, &all[..3]), "1 columns for a model of 2");
    refused(&mut trainer, regression(Some(2), &all[..5]), "5 targets for 3 seeds");
    let wrong = [0.0, 1.0, 2.0, f32::NAN, 4.0, 5.0];
    refused(&mut trainer, regression(Some(2), &wrong), "target NaN at position 3");
    let mut classes = Trainer::new(&options(ModelKind::Sage, 4, 2), 6, 3, TrainDevice::Cpu).unwrap();
    refused(&mut classes, regression(Some(3), &all[..9]), "float32 targets for a model of one class a node");
    for task in [
        Task { metric: Metric::Accuracy, ..task(RegressionLoss::Mse) },
        Task { metric: Metric::Mae, ..Task::from(3) },
    ] {
        let error = Trainer::new(&options(ModelKind::Sage, 4, 2), 6, task, TrainDevice::Cpu).unwrap_err();
        let named = matches!(&error, TrainError::Options(OptionsError::Option { option: "metric", .. }));
        assert!(named, "{error}");
    }
}

#[test]
fn a_checkpoint_keeps_the_task_and_predicts_the_numbers_of_the_trainer() {
    let graph = Graph::random(40, 6, 3, 5);
    let all = targets(&graph);
    let directory = tempfile::tempdir().unwrap();
    let mut trainer = new(RegressionLoss::Mae);
    train(&graph, &all, &mut trainer, 2, false);
    checkpoint::write(directory.path(), &trainer, &json!({}), &json!(1)).unwrap();
    let read = stored::read(directory.path()).unwrap().unwrap();
    let loaded = checkpoint::load_model(&read, Metric::Mae, TrainDevice::Cpu, None).unwrap();
    assert_eq!(loaded.task(), task(RegressionLoss::Mae));
    let outputs = dense_forward(&graph, &trainer, rows(&graph));
    let mut predicted = Vec::new();
    let mut take = |answered: Answered<'_>| {
        assert_eq!(answered.answer, Answer::Classes);
        predicted.extend(answered.rows.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())));
        ControlFlow::Continue(())
    };
    let questions = Questions { classes: true, ..Questions::default() };
    let wanted = Wanted::all(40);
    let mut progress = |_, _| ControlFlow::Continue(());
    loaded
        .predict_full(
            (graph.csc(), graph.table()),
            Tables::Memory,
            (&wanted, 0),
            questions,
            &mut take,
            &mut progress,
        )
        .unwrap();
    let expected: Vec<f64> = outputs.concat();
    assert_eq!(predicted.len(), expected.len());
    for (found, expected) in predicted.iter().zip(&expected) {
        assert!((f64::from(*found) - expected).abs() < 1e-4, "{found} {expected}");
    }

    let error = checkpoint::restore(&read, &mut new(RegressionLoss::Mse), &json!({})).unwrap_err();
    assert!(error.to_string().contains("loss is \"mae\" there and \"mse\" here"), "{error}");
    let mut classes = Trainer::new(trainer.options(), 6, COLUMNS, TrainDevice::Cpu).unwrap();
    let error = checkpoint::restore(&read, &mut classes, &json!({})).unwrap_err();
    assert!(error.to_string().contains("targets is 2 there and null here"), "{error}");
}
