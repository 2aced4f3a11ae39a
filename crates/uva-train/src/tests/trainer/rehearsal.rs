//! Tests of a training step before the first batch.

use super::late_results::{place, trainer_of};
use crate::TrainDevice;
use crate::tests::hop_sets::hop_rows::{self, HOP_MODELS};
use crate::tests::support::{Graph, MODELS, SHAPES_OF_NETS, options, parameter_bits};
use crate::train::trainer::Trainer;
use uva_model::{Metric, ModelKind, RegressionLoss, Task, TaskKind, TrainerOptions};

const DIM: usize = 6;
const CLASSES: usize = 3;

/// All tasks of the models.
fn tasks() -> [Task; 3] {
    [
        Task::from(CLASSES),
        Task { outputs: CLASSES, kind: TaskKind::MultiLabel, metric: Metric::RocAuc },
        Task { outputs: CLASSES, kind: TaskKind::Regression(RegressionLoss::Mse), metric: Metric::Mse },
    ]
}

/// Every model, in every shape; and those whose first layer is given.
fn networks() -> Vec<TrainerOptions> {
    let mut networks = Vec::new();
    for model in MODELS {
        for (residual, norm) in SHAPES_OF_NETS {
            networks.push(TrainerOptions { residual, norm, dropout: 0.5, ..options(model, 8, 3) });
        }
    }
    for model in [ModelKind::Sage, ModelKind::Gcn] {
        networks.push(TrainerOptions { first_layer_given: true, ..options(model, 8, 2) });
    }
    for model in HOP_MODELS {
        networks.push(hop_rows::options(model, 8, 2));
    }
    networks
}

#[test]
fn every_network_can_be_rehearsed_for_every_task_and_is_not_changed_by_it() {
    for options in networks() {
        for task in tasks() {
            let trainer = Trainer::new(&options, DIM, task, TrainDevice::Cpu).unwrap();
            let before = parameter_bits(&trainer);
            trainer.rehearse().unwrap_or_else(|error| panic!("{options:?}, {task:?}: {error}"));
            assert_eq!(parameter_bits(&trainer), before, "{options:?}, {task:?}");
            assert_eq!(trainer.steps().unwrap(), 0);
        }
    }
}

#[test]
fn a_rehearsed_trainer_takes_the_same_steps() {
    if !cuda_sim::in_process("tests::trainer::rehearsal::a_rehearsed_trainer_takes_the_same_steps") {
        return;
    }
    let graph = Graph::random(60, DIM, CLASSES, 6);
    let options = TrainerOptions { dropout: 0.5, ..options(ModelKind::Sage, 8, 2) };
    let losses = |rehearsed: bool, ahead: bool| -> Vec<f32> {
        let mut trainer = trainer_of(&options, DIM, ahead);
        if rehearsed {
            trainer.rehearse().unwrap();
            assert_eq!(trainer.unread(), 0);
        }
        let mut losses = Vec::new();
        for number in 0..4 {
            let batch = graph.batch(&[number, number + 7, number + 20], &[3, 4]);
            let (epoch, number) = (1, number as u32);
            if ahead {
                trainer.enqueue_batch(epoch, number, &batch.columns(), true).unwrap();
                losses.push(trainer.reading(true).unwrap().unwrap().loss);
            } else {
                let step = trainer.train_batch(epoch, number, &batch.columns(), &mut || Ok(()));
                losses.push(step.unwrap().loss);
            }
        }
        losses
    };
    // A GPU's own sums differ in their last places from run to run.
    let near = if matches!(place(), TrainDevice::Cuda(_)) { 1e-4 } else { 0.0 };
    for ahead in [false, true] {
        let (found, expected) = (losses(true, ahead), losses(false, ahead));
        let far = found.iter().zip(&expected).map(|(f, e)| (f - e).abs()).fold(0.0, f32::max);
        assert!(far <= near && found[0] > 0.0, "ahead {ahead}: {found:?} and {expected:?}");
    }
}
