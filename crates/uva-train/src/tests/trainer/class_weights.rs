//! Weights of classes in the loss of training.

use crate::TrainError;
use crate::tests::dense_reference::{dense_forward, rows};
use crate::tests::support::{Graph, fill_biases, options, parameters};
use crate::torch::device::TrainDevice;
use crate::train::trainer::Trainer;
use tch::Kind;
use uva_model::{Metric, ModelKind, RegressionLoss, Task, TaskKind};

const CLASSES: usize = 4;
const WEIGHTS: [f64; CLASSES] = [0.5, 3.0, 1.0, 7.0];

/// One batch without dropout: the graph, its seeds, and a network of double precision.
fn setting() -> (Graph, Vec<usize>, Trainer) {
    let graph = Graph::random(60, 6, CLASSES, 5);
    let options = options(ModelKind::Sage, 8, 2);
    let trainer = Trainer::with_kind(&options, 6, CLASSES, Kind::Double, TrainDevice::Cpu).unwrap();
    fill_biases(&trainer);
    (graph, (0..60).rev().step_by(2).collect(), trainer)
}

/// The weighted mean of the seeds' losses, by its definition, in plain numbers.
fn expected_loss(graph: &Graph, seeds: &[usize], trainer: &Trainer, weights: [f64; CLASSES]) -> f64 {
    let logits = dense_forward(graph, trainer, rows(graph));
    let (mut loss, mut sum) = (0.0, 0.0);
    for &seed in seeds {
        let Ok(class) = usize::try_from(graph.labels[seed]) else { continue };
        let exponentials: f64 = logits[seed].iter().map(|logit| logit.exp()).sum();
        loss += weights[class] * (exponentials.ln() - logits[seed][class]);
        sum += weights[class];
    }
    loss / sum
}

#[test]
fn the_loss_is_the_mean_weighted_by_the_classes_of_the_seeds() {
    let (graph, seeds, mut trainer) = setting();
    assert!(seeds.iter().any(|&seed| graph.labels[seed] < 0), "some seeds have no label");
    let batch = graph.batch(&seeds, &[usize::MAX; 2]);
    let plain = expected_loss(&graph, &seeds, &trainer, [1.0; CLASSES]);
    let expected = expected_loss(&graph, &seeds, &trainer, WEIGHTS);
    assert!((plain - expected).abs() > 1e-2, "{plain} {expected}");
    trainer.weigh_classes(&WEIGHTS).unwrap();
    // An evaluation has no weights.
    let evaluated = trainer.evaluate_batch(&batch.columns(), &mut || Ok(())).unwrap();
    assert!((evaluated.mean_loss().unwrap() - plain).abs() < 1e-6 * plain);
    let step = trainer.train_batch(0, 0, &batch.columns(), &mut || Ok(())).unwrap();
    assert!((f64::from(step.loss) - expected).abs() < 1e-6 * expected, "{} {expected}", step.loss);
    let labelled = seeds.iter().filter(|&&seed| graph.labels[seed] >= 0).count();
    assert_eq!(step.labelled, labelled);
}

#[test]
fn a_step_with_weights_descends_the_weighted_loss() {
    let (graph, seeds, mut trainer) = setting();
    trainer.weigh_classes(&WEIGHTS).unwrap();
    // Adam's first step is its rate against the sign of the gradient, which central differences of the loss show.
    let before = parameters(&trainer);
    let mut gradient = Vec::new();
    for (index, (_, _, values)) in before.iter().enumerate() {
        for place in 0..values.len() {
            let at = |shift: f64| {
                let tensor = trainer.model.parameters().swap_remove(index).1;
                let mut shifted = values.clone();
                shifted[place] += shift;
                let set = |values: &[f64]| {
                    let values = tch::Tensor::from_slice(values).view_(tensor.size());
                    tch::no_grad(|| tensor.shallow_clone().copy_(&values));
                };
                set(&shifted);
                let loss = expected_loss(&graph, &seeds, &trainer, WEIGHTS);
                set(values);
                loss
            };
            gradient.push((at(1e-5) - at(-1e-5)) / 2e-5);
        }
    }
    let batch = graph.batch(&seeds, &[usize::MAX; 2]);
    trainer.train_batch(0, 0, &batch.columns(), &mut || Ok(())).unwrap();
    let after = parameters(&trainer);
    let values = |all: &[(String, Vec<i64>, Vec<f64>)]| -> Vec<f64> {
        all.iter().flat_map(|(_, _, values)| values.clone()).collect()
    };
    let steps = values(&after).into_iter().zip(values(&before)).map(|(after, before)| after - before);
    let mut seen = 0;
    for (step, slope) in steps.zip(gradient).filter(|(_, slope)| slope.abs() > 1e-4) {
        assert!((step + 0.01 * slope.signum()).abs() < 1e-5, "{step} {slope}");
        seen += 1;
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn weights_that_do_not_fit_the_task_are_refused() {
    let (_, _, mut trainer) = setting();
    assert!(matches!(trainer.weigh_classes(&WEIGHTS[1..]), Err(TrainError::Input(_))));
    for (kind, metric) in
        [(TaskKind::MultiLabel, Metric::RocAuc), (TaskKind::Regression(RegressionLoss::Mse), Metric::Mse)]
    {
        let task = Task { outputs: CLASSES, kind, metric };
        let options = options(ModelKind::Sage, 8, 2);
        let mut trainer = Trainer::new(&options, 6, task, TrainDevice::Cpu).unwrap();
        assert!(matches!(trainer.weigh_classes(&WEIGHTS), Err(TrainError::Input(_))), "{kind:?}");
    }
}
