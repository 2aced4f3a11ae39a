//! A trainer on a device compared with one on the CPU: on the stand-in device of the host, and on a CUDA device if
//! there is one.

use super::on_device::OnDevice;
use crate::cuda::TorchCuda;
use crate::nn::dropout::GENERATOR;
use crate::tests::support::{Graph, MODELS, options, parameter_bits};
use crate::torch::device::TrainDevice;
use crate::train::trainer::{Step, Trainer};
use crate::{TrainError, train::checkpoint};
use serde_json::json;
use uva_graph::Labels;
use uva_model::checkpoint as stored;
use uva_model::{FeatureNorm, ModelKind, TrainerOptions};

const GPU: TrainDevice = TrainDevice::Cuda(0);

/// The available devices. Without a CUDA device, a trainer there is refused with the missing part.
pub(crate) fn devices() -> Vec<TrainDevice> {
    let Err(error) = TorchCuda::load() else { return vec![TrainDevice::StandIn, GPU] };
    let refused = Trainer::new(&options(ModelKind::Sage, 4, 2), 6, 3, GPU).unwrap_err();
    assert!(refused.is_missing() && !refused.is_usage(), "{refused}");
    assert_eq!(refused.to_string(), error.to_string());
    eprintln!("not run on a GPU: {error}");
    vec![TrainDevice::StandIn]
}

fn new(model: ModelKind, device: TrainDevice, dropout: f64) -> Trainer {
    let options = TrainerOptions {
        dropout,
        weight_decay: 5e-4,
        feature_norm: FeatureNorm::Row,
        ..options(model, 8, 2)
    };
    Trainer::new(&options, 6, 3, device).unwrap()
}

fn train(trainer: &mut Trainer, graph: &Graph, numbers: std::ops::Range<u32>) -> Vec<Step> {
    let step = |number: u32| {
        let seeds: Vec<usize> = (0..8).map(|i| (number as usize * 5 + i * 3) % graph.nodes()).collect();
        let batch = graph.batch(&seeds, &[3, 4]);
        if trainer.device() == TrainDevice::Cpu {
            return trainer.train_batch(0, number, &batch.columns(), &mut || Ok(())).unwrap();
        }
        let on_device = OnDevice::new(&batch, trainer.device());
        let step = trainer.train_batch(0, number, &on_device.columns(), &mut || Ok(())).unwrap();
        // Its memory is freed with it.
        trainer.wait_for_device().unwrap();
        step
    };
    numbers.map(step).collect()
}

fn assert_close(found: &[Step], expected: &[Step]) {
    for (found, expected) in found.iter().zip(expected) {
        assert!((found.loss - expected.loss).abs() < 1e-3 * expected.loss.abs(), "{found:?} {expected:?}");
        assert_eq!(found.labelled, expected.labelled);
    }
}

#[test]
fn a_trainer_on_a_device_equals_one_on_the_cpu_to_rounding() {
    for (device, model) in devices().into_iter().flat_map(|device| MODELS.map(|model| (device, model))) {
        let graph = Graph::random(50, 6, 3, 6);
        let (mut host, mut device) = (new(model, TrainDevice::Cpu, 0.0), new(model, device, 0.0));
        assert_eq!(parameter_bits(&device), parameter_bits(&host), "parameters are drawn on the host");
        let expected = train(&mut host, &graph, 0..10);
        assert_close(&train(&mut device, &graph, 0..10), &expected);
        let ids: Vec<i64> = (0..50).collect();
        let labels = Labels::Single(&graph.labels);
        let full = |t: &Trainer| t.evaluate_full((graph.whole(), graph.table()), labels, &ids).unwrap();
        assert!((full(&device).loss_sum - full(&host).loss_sum).abs() < 1e-2);
        // Host memory is copied over.
        let batch = graph.batch(&[0, 1, 2, 5, 6], &[3, 4]);
        let evaluate = |t: &Trainer| t.evaluate_batch(&batch.columns(), &mut || Ok(())).unwrap();
        assert!((evaluate(&device).loss_sum - evaluate(&host).loss_sum).abs() < 1e-2);
    }
}

#[test]
fn dropout_on_a_device_depends_on_epoch_and_batch_alone() {
    let graph = Graph::random(50, 6, 3, 6);
    for device in devices() {
        let loss = |numbers| train(&mut new(ModelKind::Sage, device, 0.5), &graph, numbers)[0].loss;
        let first = loss(3..4);
        {
            let _generator = GENERATOR.lock().unwrap();
            tch::manual_seed(99);
        }
        assert_eq!(loss(3..4), first);
        assert_ne!(train(&mut new(ModelKind::Sage, device, 0.0), &graph, 3..4)[0].loss, first);
    }
}

#[test]
fn a_checkpoint_can_move_between_devices() {
    let graph = Graph::random(50, 6, 3, 6);
    let directory = tempfile::tempdir().unwrap();
    let ways = |device| [(TrainDevice::Cpu, device), (device, TrainDevice::Cpu), (device, device)];
    for (from, to) in devices().into_iter().flat_map(ways) {
        let mut kept = new(ModelKind::Gcn, from, 0.0);
        train(&mut kept, &graph, 0..4);
        kept.keep_best().unwrap();
        checkpoint::write(directory.path(), &kept, &json!({}), &json!(4)).unwrap();
        let mut resumed = new(ModelKind::Gcn, to, 0.0);
        let read = stored::read(directory.path()).unwrap().unwrap();
        checkpoint::restore(&read, &mut resumed, &json!({})).unwrap();
        assert_eq!(parameter_bits(&resumed), parameter_bits(&kept));
        assert_close(&train(&mut resumed, &graph, 4..8), &train(&mut kept, &graph, 4..8));
        assert!(resumed.restore_best().unwrap());
    }
}

#[test]
fn garbage_on_a_device_is_unconfirmed_and_the_device_still_works() {
    let graph = Graph::random(50, 6, 3, 6);
    let batch = graph.batch(&[0, 1, 2, 5, 6], &[3, 4]);
    for (device, model) in devices().into_iter().flat_map(|device| MODELS.map(|model| (device, model))) {
        let mut trainer = new(model, device, 0.5);
        let before = parameter_bits(&trainer);
        let on_device = OnDevice::new(&batch, device);
        for (_, _, lists, _) in &on_device.blocks {
            for tensor in lists {
                let _ = tensor.shallow_clone().random_from(-1 << 30, Some(1 << 30));
            }
        }
        let _ = on_device.labels.shallow_clone().fill_(1 << 40);
        let _ = on_device.degrees.shallow_clone().fill_(-7);
        let error =
            trainer.train_batch(0, 0, &on_device.columns(), &mut || Err("half".to_owned())).unwrap_err();
        assert!(matches!(error, TrainError::Unconfirmed(_)), "{error}");
        assert_eq!(parameter_bits(&trainer), before);
        train(&mut trainer, &graph, 0..2);
    }
}
