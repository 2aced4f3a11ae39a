//! The confirmation of a batch before a weight changes.

use crate::TrainError;
use crate::tests::support::{Graph, f32_rows, options, parameter_bits};
use crate::torch::device::TrainDevice;
use crate::train::checkpoint;
use crate::train::trainer::Trainer;
use serde_json::json;
use uva_batch::Column;
use uva_model::{ModelKind, TrainerOptions};

fn trainer() -> Trainer {
    let options = TrainerOptions { dropout: 0.5, weight_decay: 5e-4, ..options(ModelKind::Sage, 8, 2) };
    Trainer::new(&options, 6, 3, TrainDevice::Cpu).unwrap()
}

#[test]
fn an_unconfirmed_batch_changes_nothing_and_its_reason_is_reported() {
    let graph = Graph::random(50, 6, 3, 1);
    let batch = graph.batch(&[0, 1, 2, 5], &[3, 3]);
    let input = batch.columns();
    let mut trainer = trainer();
    trainer.train_batch(0, 0, &input, &mut || Ok(())).unwrap();
    let directory = tempfile::tempdir().unwrap();
    // A checkpoint holds parameters, moments and steps, so equal ones mean that nothing has changed.
    let state = |trainer: &Trainer| {
        checkpoint::write(directory.path(), trainer, &json!({}), &json!(0)).unwrap();
        std::fs::read(directory.path().join("checkpoint.json")).unwrap()
    };
    let before = state(&trainer);
    let mut refuse = || Err("the producer died".to_owned());
    let error = trainer.train_batch(0, 1, &input, &mut refuse).unwrap_err();
    assert!(matches!(&error, TrainError::Unconfirmed(reason) if reason == "the producer died"), "{error}");
    assert!(!error.is_usage() && !error.is_missing());
    assert!(matches!(trainer.evaluate_batch(&input, &mut refuse), Err(TrainError::Unconfirmed(_))));
    assert_eq!(state(&trainer), before);
    trainer.train_batch(0, 1, &input, &mut || Ok(())).unwrap();
    assert_ne!(state(&trainer), before);
}

#[test]
fn a_batch_of_garbage_is_unconfirmed_before_it_is_diverged() {
    let mut graph = Graph::random(50, 6, 3, 1);
    graph.features.fill(f32::NAN);
    let batch = graph.batch(&[0, 1, 2, 5], &[3, 3]);
    let error = trainer().train_batch(0, 1, &batch.columns(), &mut || Err("x".to_owned())).unwrap_err();
    assert!(matches!(error, TrainError::Unconfirmed(_)), "{error}");
}

#[test]
fn every_batch_that_does_not_contradict_is_asked_about_once() {
    let mut graph = Graph::random(50, 6, 3, 1);
    let mut trainer = trainer();
    let labelled = graph.batch(&[0, 1, 2, 5], &[3, 3]);
    graph.labels.fill(-1);
    let unlabelled = graph.batch(&[0, 1, 2, 5], &[3, 3]);
    for batch in [labelled, unlabelled] {
        let input = batch.columns();
        let mut asked = 0;
        let mut count = || {
            asked += 1;
            Ok(())
        };
        trainer.train_batch(0, 0, &input, &mut count).unwrap();
        trainer.evaluate_batch(&input, &mut count).unwrap();
        let contradiction = input.clone().with(Column::X, f32_rows(&batch.features, 3));
        assert!(trainer.train_batch(0, 0, &contradiction, &mut count).is_err());
        assert_eq!(asked, 2);
        let before = parameter_bits(&trainer);
        assert!(trainer.train_batch(0, 0, &input, &mut || Err(String::new())).is_err());
        assert_eq!(parameter_bits(&trainer), before);
    }
}
