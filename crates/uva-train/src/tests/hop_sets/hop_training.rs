//! Training on hop sets: layouts, element types, padding, devices, checkpoints, and refusals.

use super::hop_rows::{CLASSES, HOP_MODELS, HopSet, arrays, options, step};
use crate::tests::devices::on_device::array;
use crate::tests::support::{Graph, parameter_bits, parameters};
use crate::tests::trainer::late_results;
use crate::torch::device::TrainDevice;
use crate::train::checkpoint;
use crate::train::trainer::Trainer;
use crate::whole::predict::Questions;
use serde_json::json;
use std::ops::ControlFlow;
use tch::{Kind, Tensor};
use uva_batch::{BatchColumns, Column, ColumnArray, Element};
use uva_graph::Labels;
use uva_model::checkpoint as stored;
use uva_model::{Answer, ModelKind, RegressionLoss, Task, TaskKind, TrainerOptions};

const DIM: usize = 24;

/// With dropout and several layers.
fn training(model: ModelKind, hops: usize) -> TrainerOptions {
    TrainerOptions { dropout: 0.3, input_dropout: 0.2, weight_decay: 5e-4, ..options(model, 16, hops) }
}

fn trainer(options: &TrainerOptions) -> Trainer {
    Trainer::new(options, DIM, CLASSES, TrainDevice::Cpu).unwrap()
}

/// Bits of the losses of six steps, and of the parameters after them.
fn trained(options: &TrainerOptions, batch: &BatchColumns<'_>) -> (Vec<u32>, Vec<u64>) {
    let mut trainer = trainer(options);
    let losses = (0..6).map(|number| step(&mut trainer, number, batch)).collect();
    (losses, parameter_bits(&trainer))
}

#[test]
fn losses_repeat_bit_for_bit_with_other_hops_stored() {
    for model in HOP_MODELS {
        for threads in [1, 2] {
            let options = TrainerOptions { threads: Some(threads), ..training(model, 2) };
            // Enough rows that libtorch splits its work, and three hops more than are read.
            let set = HopSet::random((900, DIM), (5, 1), 7);
            let batch = set.batch_for(&options);
            let first = trained(&options, &batch);
            assert_eq!(trained(&options, &batch), first, "{model:?}");
            let other = TrainerOptions { seed: 4, ..options };
            assert_ne!(trained(&other, &batch).0, first.0, "{model:?}: another seed");
        }
    }
}

#[test]
fn narrow_elements_train_as_the_same_numbers_in_float32() {
    for model in HOP_MODELS {
        let options = training(model, 2);
        let set = HopSet::random((40, DIM), (2, 1), 7);
        let wide = set.read(&options);
        for (kind, element) in [(Kind::Half, Element::F16), (Kind::BFloat16, Element::Bf16)] {
            let narrow: Vec<Tensor> = wide.iter().map(|table| table.to_kind(kind)).collect();
            // bfloat16 does not represent all of the numbers: the reference uses the rounded ones.
            let rounded: Vec<Tensor> = narrow.iter().map(|table| table.to_kind(Kind::Float)).collect();
            let expected = trained(&options, &set.batch(&arrays(&rounded.iter().collect::<Vec<_>>())));
            let words: Vec<Vec<u8>> = narrow
                .iter()
                .map(|table| {
                    let mut bytes = vec![0; table.numel() * 2];
                    table.copy_data_u8(&mut bytes, table.numel());
                    bytes
                })
                .collect();
            let words: Vec<_> =
                words.iter().map(|bytes| ColumnArray::table(bytes, element, set.seeds, DIM)).collect();
            assert_eq!(trained(&options, &set.batch(&words)), expected, "{model:?} {element:?}");
        }
    }
}

#[test]
fn every_model_over_a_hop_set_learns_what_is_planted_in_it() {
    for model in HOP_MODELS {
        let set = HopSet::random((200, DIM), (2, 1), 11);
        let options = TrainerOptions { learning_rate: 0.02, ..options(model, 16, 2) };
        let batch = set.batch_for(&options);
        let mut trainer = trainer(&options);
        let accuracy = |trainer: &Trainer| {
            let found = trainer.evaluate_batch(&batch, &mut || Ok(())).unwrap();
            found.correct as f64 / found.labelled as f64
        };
        let before = accuracy(&trainer);
        for number in 0..60 {
            step(&mut trainer, number, &batch);
        }
        let after = accuracy(&trainer);
        assert!(before < 0.7 && after > 0.8, "{model:?}: {before} before, {after} after");
    }
}

#[test]
fn a_hop_sets_training_resumes_bit_for_bit_and_its_model_predicts() {
    for model in HOP_MODELS {
        let options = training(model, 2);
        let set = HopSet::random((30, DIM), (2, 1), 7);
        let batch = set.batch_for(&options);
        let directory = tempfile::tempdir().unwrap();
        let mut whole = trainer(&options);
        for number in 0..4 {
            step(&mut whole, number, &batch);
        }
        whole.keep_best().unwrap();
        checkpoint::write(directory.path(), &whole, &json!({}), &json!({})).unwrap();
        let expected: Vec<u32> = (4..8).map(|number| step(&mut whole, number, &batch)).collect();

        let mut resumed = trainer(&options);
        step(&mut resumed, 9, &batch);
        let read = stored::read(directory.path()).unwrap().unwrap();
        checkpoint::restore(&read, &mut resumed, &json!({})).unwrap();
        let found: Vec<u32> = (4..8).map(|number| step(&mut resumed, number, &batch)).collect();
        assert_eq!((found, parameter_bits(&resumed)), (expected, parameter_bits(&whole)), "{model:?}");

        // The model loaded for predictions is the best one, with the same options.
        whole.restore_best().unwrap();
        let loaded =
            checkpoint::load_model(&read, uva_model::Metric::Accuracy, TrainDevice::Cpu, Some(1)).unwrap();
        assert_eq!(loaded.options(), whole.options());
        let answers = |trainer: &Trainer| {
            let (mut rows, places) = (Vec::new(), (0..30).collect::<Vec<i64>>());
            let questions = Questions { probabilities: true, ..Questions::default() };
            let mut take = |answered: crate::Answered<'_>| {
                assert_eq!(answered.answer, Answer::Probabilities);
                rows.extend_from_slice(answered.rows);
                ControlFlow::Continue(())
            };
            trainer.predict_batch(&batch, &places, questions, &mut || Ok(()), &mut take).unwrap();
            rows
        };
        assert_eq!(answers(&loaded).len(), 30 * CLASSES * 4);
        assert!(answers(&loaded) == answers(&whole) && answers(&loaded) != answers(&resumed), "{model:?}");
        // One more hop is another model.
        let mut other = trainer(&TrainerOptions { hops: 3, ..options });
        assert!(checkpoint::restore(&read, &mut other, &json!({})).unwrap_err().to_string().contains("hops"));
    }
}

#[test]
fn padding_of_a_batch_of_hops_has_no_part_in_a_step() {
    for model in HOP_MODELS {
        let options = training(model, 2);
        let set = HopSet::random((30, DIM), (2, 1), 7);
        let padded = BatchColumns { padding: 13, ..set.batch_for(&options) };
        let mut labels = set.labels.clone();
        labels[17..].fill(-1);
        let unlabelled = set.batch_for(&options).with_labels(Labels::Single(&labels));
        let [(mut one, padded), (mut other, unlabelled)] =
            [padded, unlabelled].map(|batch| (trainer(&options), batch));
        for number in 0..3 {
            let [found, expected] = [(&mut one, &padded), (&mut other, &unlabelled)]
                .map(|(trainer, batch)| trainer.train_batch(0, number, batch, &mut || Ok(())).unwrap());
            assert_eq!((found.labelled, found.correct), (expected.labelled, expected.correct), "{model:?}");
            assert!((found.loss - expected.loss).abs() < 1e-5, "{model:?}: {found:?} {expected:?}");
        }
    }
}

#[test]
fn several_labels_and_numbers_train_on_hops_too() {
    for model in HOP_MODELS {
        let options = options(model, 16, 2);
        let set = HopSet::random((30, DIM), (2, 1), 7);
        let several: Vec<u8> = (0..90).map(|place| u8::from(place % 4 == 0)).collect();
        let numbers: Vec<f32> = (0..90).map(|place| (place % 7) as f32 * 0.25 - 0.5).collect();
        let regression = TaskKind::Regression(RegressionLoss::Mse);
        for (labels, kind) in [
            (Labels::Multi { classes: 3, values: &several }, TaskKind::MultiLabel),
            (Labels::Regression { columns: Some(3), values: &numbers }, regression),
        ] {
            let task = Task { outputs: 3, kind, metric: kind.usual_metric() };
            let mut trainer = Trainer::new(&options, DIM, task, TrainDevice::Cpu).unwrap();
            let batch = set.batch_for(&options).with_labels(labels);
            let loss = |trainer: &Trainer| trainer.evaluate_batch(&batch, &mut || Ok(())).unwrap().loss_sum;
            let before = loss(&trainer);
            for number in 0..30 {
                step(&mut trainer, number, &batch);
            }
            assert!(loss(&trainer) < before, "{model:?} {kind:?}");
        }
    }
}

#[test]
fn a_batch_of_hops_on_a_device_trains_as_the_one_on_the_host() {
    for model in HOP_MODELS {
        // A device draws other numbers.
        let options = options(model, 16, 2);
        let set = HopSet::random((60, DIM), (3, 1), 7);
        let place = late_results::place();
        let device = place.torch();
        let tables: Vec<Tensor> = set.read(&options).iter().map(|table| table.to_device(device)).collect();
        let labels = Tensor::from_slice(&set.labels).to_device(device);
        let mut expected = trainer(&options);
        let on_host = set.batch_for(&options);
        let losses: Vec<f32> =
            (0..4).map(|number| f32::from_bits(step(&mut expected, number, &on_host))).collect();
        let on_device: Vec<_> = tables.iter().map(array).collect();
        let batch = set.batch(&on_device).with(Column::Labels, array(&labels));
        let mut trainer = Trainer::new(&options, DIM, CLASSES, place).unwrap();
        for (number, loss) in (0..).zip(&losses) {
            let found = trainer.train_batch(0, number, &batch, &mut || Ok(())).unwrap().loss;
            assert!((found - loss).abs() < 1e-4, "{model:?}: {found} {loss}");
        }
        let pairs = parameters(&trainer).into_iter().zip(parameters(&expected));
        for ((name, _, found), (_, _, expected)) in pairs {
            let far = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(far < 1e-3, "{model:?} {name}: {far}");
        }
        let on_cpu = expected.train_batch(0, 0, &batch, &mut || Ok(())).unwrap_err();
        assert!(on_cpu.to_string().contains("device memory for a trainer on the CPU"), "{on_cpu}");
    }
}

#[test]
fn results_of_batches_of_hops_that_are_read_late_are_those_read_at_once() {
    if !cuda_sim::in_process_with(
        "tests::hop_sets::hop_training::results_of_batches_of_hops_that_are_read_late_are_those_read_at_once",
        &[("CUDA_SIM_DELAY_US", "300")],
    ) {
        return;
    }
    for model in HOP_MODELS {
        let options = training(model, 2);
        let set = HopSet::random((60, DIM), (2, 1), 7);
        let device = late_results::place().torch();
        let tables: Vec<Tensor> = set.read(&options).iter().map(|table| table.to_device(device)).collect();
        let labels = Tensor::from_slice(&set.labels).to_device(device);
        let on_device: Vec<_> = tables.iter().map(array).collect();
        let batch = set.batch(&on_device).with(Column::Labels, array(&labels));
        let (mut at_once, mut ahead) =
            (late_results::trainer_of(&options, DIM, false), late_results::trainer_of(&options, DIM, true));
        for number in 0..4 {
            let expected = at_once.train_batch(1, number, &batch, &mut || Ok(())).unwrap();
            ahead.enqueue_batch(1, number, &batch, true).unwrap();
            let found = ahead.reading(true).unwrap().unwrap();
            assert_eq!((found.correct, found.labelled), (expected.correct as u64, expected.labelled as u64));
            let near = if cuda_sim::on_a_gpu() { 1e-3 } else { 0.0 };
            assert!(
                (found.loss - expected.loss).abs() <= near,
                "{model:?}: {} {}",
                found.loss,
                expected.loss
            );
        }
        assert_eq!(ahead.steps().unwrap(), 4);
    }
}

#[test]
fn batches_of_another_sort_or_number_of_hops_are_refused() {
    let set = HopSet::random((10, DIM), (2, 1), 7);
    let sign = options(ModelKind::Sign, 16, 2);
    let refused = |options: &TrainerOptions, batch: &BatchColumns<'_>| {
        let confirm: crate::Confirm<'_> = &mut || panic!("a refused batch is not confirmed");
        let error = trainer(options).train_batch(0, 0, batch, confirm).unwrap_err();
        assert!(error.is_usage());
        error.to_string()
    };
    let tables = arrays(&set.read(&sign));
    let batch = set.batch(&tables);
    let sage = crate::tests::support::options(ModelKind::Sage, 16, 2);
    assert_eq!(refused(&sage, &batch), "a batch of a hop set for `model=sage`, which takes sampled blocks");
    let short = set.batch(&tables[1..]);
    assert_eq!(refused(&sign, &short), "a batch of 2 tables of hops for a model of 3");
    let narrow = ColumnArray { width: Some(DIM / 2), rows: 20, ..tables[1] };
    let narrow = batch.clone().with(Column::X.part(1), narrow);
    assert_eq!(refused(&sign, &narrow), "a batch of 12 feature columns for a model of 24");
    let fewer = BatchColumns { seeds: 9, ..batch.clone() };
    assert_eq!(refused(&sign, &fewer), "10 feature rows where the batch has 9");
    let padding = BatchColumns { padding: 11, ..batch.clone() };
    assert_eq!(refused(&sign, &padding), "11 of 10 seeds are padding");

    let graph = Graph::random(20, DIM, 3, 1);
    let blocks_of = graph.batch(&[1, 2], &[2, 2]);
    let mut trainer = trainer(&sign);
    let error = trainer.train_batch(0, 0, &blocks_of.columns(), &mut || Ok(())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a batch of sampled blocks for `model=sign`, which takes rows of a hop set"
    );
    let error =
        trainer.evaluate_full((graph.csc(), graph.table()), Labels::Single(&graph.labels), &[1]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a pass over the whole graph for `model=sign`, which takes rows of a hop set"
    );
    let questions = Questions { hidden: Some(1), ..Questions::default() };
    let error = trainer
        .predict_batch(&batch, &[0], questions, &mut || Ok(()), &mut |_| ControlFlow::Continue(()))
        .unwrap_err();
    assert_eq!(error.to_string(), "hidden rows of `model=sign`: models over a hop set have none");
}
