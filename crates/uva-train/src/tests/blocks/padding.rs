//! Padding seeds after a batch's own: they do not affect losses, steps, evaluations and predictions.

use crate::TrainDevice;
use crate::tests::devices::on_device::OnDevice;
use crate::tests::support::{Graph, MODELS, options, parameter_bits};
use crate::tests::trainer::late_results::place;
use crate::train::trainer::Trainer;
use crate::whole::predict::Questions;
use std::ops::ControlFlow;
use uva_batch::BatchColumns;
use uva_graph::Labels;
use uva_model::{RegressionLoss, Task, TaskKind};

const OWN: usize = 8;
const PADDING: usize = 5;

/// A batch whose last seeds are padding, with labels as if they were not.
fn batch() -> crate::tests::support::Batch {
    let graph = Graph::random(60, 6, 3, 5);
    graph.batch(&(0..OWN + PADDING).map(|i| i * 3).collect::<Vec<_>>(), &[3, 4])
}

#[test]
fn a_padded_step_is_that_of_the_batch_without_labels_of_padding() {
    for model in MODELS {
        for device in [TrainDevice::Cpu, place()] {
            let new = || Trainer::new(&options(model, 8, 2), 6, 3, device).unwrap();
            let padded = batch();
            let mut unlabelled = batch();
            unlabelled.labels[OWN..].fill(-1);
            let (mut one, mut other) = (new(), new());
            let steps = if device == TrainDevice::Cpu {
                let input = BatchColumns { padding: PADDING, ..padded.columns() };
                let confirm = &mut || Ok(());
                let evaluated = one.evaluate_batch(&input, confirm).unwrap();
                let expected = other.evaluate_batch(&unlabelled.columns(), confirm).unwrap();
                assert_eq!(format!("{evaluated:?}"), format!("{expected:?}"));
                [
                    one.train_batch(0, 0, &input, confirm).unwrap(),
                    other.train_batch(0, 0, &unlabelled.columns(), confirm).unwrap(),
                ]
            } else {
                let copies = [OnDevice::new(&padded, device), OnDevice::new(&unlabelled, device)];
                let input = BatchColumns { padding: PADDING, ..copies[0].columns() };
                let confirm = &mut || Ok(());
                [
                    one.train_batch(0, 0, &input, confirm).unwrap(),
                    other.train_batch(0, 0, &copies[1].columns(), confirm).unwrap(),
                ]
            };
            assert_eq!(
                (steps[0].labelled, steps[0].correct),
                (steps[1].labelled, steps[1].correct),
                "{model:?}"
            );
            assert!((steps[0].loss - steps[1].loss).abs() < 1e-6, "{model:?}: {steps:?}");
            let values = |trainer: &Trainer| {
                parameter_bits(trainer).into_iter().map(f64::from_bits).collect::<Vec<_>>()
            };
            for (one, other) in values(&one).into_iter().zip(values(&other)) {
                assert!((one - other).abs() < 1e-4, "{model:?} on {device}: {one} and {other}");
            }
        }
    }
}

#[test]
fn numbers_and_several_labels_of_padding_have_no_part_either() {
    let graph = Graph::random(60, 6, 3, 5);
    let seeds: Vec<usize> = (0..OWN + PADDING).map(|i| i * 3).collect();
    let (padded, own) = (graph.batch(&seeds, &[3, 4]), graph.batch(&seeds[..OWN], &[3, 4]));
    let numbers: Vec<f32> = (0..2 * seeds.len()).map(|i| i as f32).collect();
    let several: Vec<u8> = (0..2 * seeds.len()).map(|i| (i % 3 % 2) as u8).collect();
    let labels = |kind, seeds: usize| match kind {
        TaskKind::MultiLabel => Labels::Multi { classes: 2, values: &several[..2 * seeds] },
        _ => Labels::Regression { columns: Some(2), values: &numbers[..2 * seeds] },
    };
    for kind in [TaskKind::MultiLabel, TaskKind::Regression(RegressionLoss::Mse)] {
        let task = Task { outputs: 2, kind, metric: kind.usual_metric() };
        let new =
            || Trainer::new(&options(uva_model::ModelKind::Sage, 8, 2), 6, task, TrainDevice::Cpu).unwrap();
        let labels_of_all = labels(kind, seeds.len());
        let input = BatchColumns { padding: PADDING, ..padded.columns() }.with_labels(labels_of_all);
        let expected = own.columns().with_labels(labels(kind, OWN));
        let confirm = &mut || Ok(());
        let (mut one, mut other) = (new(), new());
        let steps = [
            one.train_batch(0, 0, &input, confirm).unwrap(),
            other.train_batch(0, 0, &expected, confirm).unwrap(),
        ];
        assert_eq!((steps[0].labelled, steps[0].correct), (steps[1].labelled, steps[1].correct));
        assert!((steps[0].loss - steps[1].loss).abs() <= 1e-5 * steps[1].loss.abs(), "{kind:?}: {steps:?}");
        let sums = [&input, &expected].map(|input| new().evaluate_batch(input, confirm).unwrap().loss_sum);
        assert!((sums[0] - sums[1]).abs() <= 1e-5 * sums[1].abs(), "{kind:?}: {sums:?}");
    }
}

#[test]
fn predictions_are_of_real_seeds_and_more_padding_than_seeds_is_refused() {
    let trainer = Trainer::new(&options(uva_model::ModelKind::Gat, 8, 2), 6, 3, TrainDevice::Cpu).unwrap();
    let padded = batch();
    let predicted = |padding: usize, places: &[i64]| {
        let input = BatchColumns { padding, ..padded.columns() };
        let (mut rows, questions) =
            (Vec::new(), Questions { probabilities: true, hidden: Some(1), ..Questions::default() });
        let mut take = |answered: crate::Answered<'_>| {
            rows.push(answered.rows.to_vec());
            ControlFlow::Continue(())
        };
        trainer.predict_batch(&input, places, questions, &mut || Ok(()), &mut take).map(|()| rows)
    };
    let places: Vec<i64> = (0..(OWN + PADDING) as i64).collect();
    let all = predicted(0, &places).unwrap();
    let own = predicted(PADDING, &places[..OWN]).unwrap();
    for (own, all) in own.iter().zip(&all) {
        assert_eq!(own[..], all[..own.len()]);
        assert_eq!(own.len() * (OWN + PADDING), all.len() * OWN);
    }
    let refused = predicted(OWN + PADDING + 1, &places).unwrap_err();
    assert!(refused.to_string().contains("14 of 13 seeds are padding"), "{refused}");
}
