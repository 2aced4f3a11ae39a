//! A trainer on a CUDA device against one on the CPU. Each test says so and ends where there is no device.

#![allow(unsafe_code)]

use super::support::{Batch, EDGE_DIM, Graph, MODELS, options, parameter_bits};
use crate::cuda::TorchCuda;
use crate::device::TrainDevice;
use crate::trainer::{Step, Trainer};
use crate::{DeviceBatch, DeviceBlock, DeviceEdgeRows, TrainError, checkpoint};
use serde_json::json;
use tch::{Device, Tensor};
use uva_cuda::DeviceSlice;
use uva_graph::{ElementType, Labels};
use uva_model::checkpoint as stored;
use uva_model::{FeatureNorm, ModelKind, TrainerOptions};

const GPU: TrainDevice = TrainDevice::Cuda(0);

/// Whether there is a device; if not, that a trainer there is refused with what is missing.
fn device() -> bool {
    let Err(error) = TorchCuda::load() else { return true };
    let refused = Trainer::new(&options(ModelKind::Sage, 4, 2), 6, 3, GPU).unwrap_err();
    assert!(refused.is_missing() && !refused.is_usage(), "{refused}");
    assert_eq!(refused.to_string(), error.to_string());
    eprintln!("not run: {error}");
    false
}

/// A batch copied to the device.
struct OnDevice {
    features: Tensor,
    labels: Tensor,
    degrees: Tensor,
    blocks: Vec<(usize, usize, [Tensor; 2], Tensor)>,
}

impl OnDevice {
    fn new(batch: &Batch) -> Self {
        fn copy<T: tch::kind::Element>(values: &[T]) -> Tensor {
            Tensor::from_slice(values).to_device(Device::Cuda(0))
        }
        let block = |b: &super::support::OwnedBlock| {
            let lists = [copy(&b.indptr), copy(&b.indices)];
            (b.destinations, b.sources, lists, copy(&b.edge_attr))
        };
        let blocks = batch.blocks.iter().map(block).collect();
        let (features, labels) = (copy(&batch.features), copy(&batch.labels));
        let copied = Self { features, labels, degrees: copy(&batch.degrees), blocks };
        tch::Cuda::synchronize(0);
        copied
    }

    fn blocks(&self) -> Vec<DeviceBlock<'_>> {
        let mut blocks = Vec::new();
        for (destinations, sources, [indptr, indices], edge_attr) in &self.blocks {
            blocks.push(DeviceBlock {
                destinations: *destinations,
                sources: *sources,
                edges: indices.numel(),
                indptr: slice(indptr),
                indices: slice(indices),
                weights: None,
                edge_attr: Some(DeviceEdgeRows {
                    slice: slice(edge_attr),
                    element: ElementType::F32,
                    dim: EDGE_DIM,
                }),
            });
        }
        blocks
    }
}

fn slice(tensor: &Tensor) -> DeviceSlice<'_> {
    let bytes = tensor.numel() * tensor.kind().elt_size_in_bytes();
    // SAFETY: the tensor is contiguous, on device 0, and lives as long as the slice.
    unsafe { DeviceSlice::from_raw(tensor.data_ptr() as u64, bytes, 0) }
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
            return trainer.train_batch(0, number, &batch.input(&batch.blocks()), &mut || Ok(())).unwrap();
        }
        let on_device = OnDevice::new(&batch);
        let blocks = on_device.blocks();
        let input = DeviceBatch {
            features: slice(&on_device.features),
            element: ElementType::F32,
            rows: batch.nodes.len(),
            dim: batch.dim,
            labels: Some(slice(&on_device.labels)),
            degrees: Some(slice(&on_device.degrees)),
            blocks: &blocks,
        };
        let step = trainer.train_batch(0, number, &input, &mut || Ok(())).unwrap();
        tch::Cuda::synchronize(0);
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
    if !device() {
        return;
    }
    for model in MODELS {
        let graph = Graph::random(50, 6, 3, 6);
        let (mut host, mut device) = (new(model, TrainDevice::Cpu, 0.0), new(model, GPU, 0.0));
        assert_eq!(parameter_bits(&device), parameter_bits(&host), "parameters are drawn on the host");
        let expected = train(&mut host, &graph, 0..10);
        assert_close(&train(&mut device, &graph, 0..10), &expected);
        let ids: Vec<i64> = (0..50).collect();
        let labels = Labels::Single(&graph.labels);
        let full = |t: &Trainer| t.evaluate_full(graph.whole(), graph.table(), labels, &ids).unwrap();
        assert!((full(&device).loss_sum - full(&host).loss_sum).abs() < 1e-2);
        // Host memory is copied over.
        let batch = graph.batch(&[0, 1, 2, 5, 6], &[3, 4]);
        let blocks = batch.blocks();
        let evaluate = |t: &Trainer| t.evaluate_batch(&batch.input(&blocks), &mut || Ok(())).unwrap();
        assert!((evaluate(&device).loss_sum - evaluate(&host).loss_sum).abs() < 1e-2);
    }
}

#[test]
fn dropout_on_a_device_depends_on_epoch_and_batch_alone() {
    if !device() {
        return;
    }
    let graph = Graph::random(50, 6, 3, 6);
    let loss = |numbers| train(&mut new(ModelKind::Sage, GPU, 0.5), &graph, numbers)[0].loss;
    let first = loss(3..4);
    tch::manual_seed(99);
    assert_eq!(loss(3..4), first);
    assert_ne!(train(&mut new(ModelKind::Sage, GPU, 0.0), &graph, 3..4)[0].loss, first);
}

#[test]
fn a_checkpoint_goes_from_one_device_to_the_other() {
    if !device() {
        return;
    }
    let graph = Graph::random(50, 6, 3, 6);
    let directory = tempfile::tempdir().unwrap();
    for (from, to) in [(TrainDevice::Cpu, GPU), (GPU, TrainDevice::Cpu), (GPU, GPU)] {
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
fn garbage_on_a_device_is_unconfirmed_and_the_device_goes_on() {
    if !device() {
        return;
    }
    let graph = Graph::random(50, 6, 3, 6);
    let batch = graph.batch(&[0, 1, 2, 5, 6], &[3, 4]);
    for model in MODELS {
        let mut trainer = new(model, GPU, 0.5);
        let before = parameter_bits(&trainer);
        let on_device = OnDevice::new(&batch);
        for (_, _, lists, _) in &on_device.blocks {
            for tensor in lists {
                let _ = tensor.shallow_clone().random_from(-1 << 30, Some(1 << 30));
            }
        }
        let _ = on_device.labels.shallow_clone().fill_(1 << 40);
        let _ = on_device.degrees.shallow_clone().fill_(-7);
        let blocks = on_device.blocks();
        let input = DeviceBatch {
            features: slice(&on_device.features),
            element: ElementType::F32,
            rows: batch.nodes.len(),
            dim: batch.dim,
            labels: Some(slice(&on_device.labels)),
            degrees: Some(slice(&on_device.degrees)),
            blocks: &blocks,
        };
        let error = trainer.train_batch(0, 0, &input, &mut || Err("half".to_owned())).unwrap_err();
        assert!(matches!(error, TrainError::Unconfirmed(_)), "{error}");
        assert_eq!(parameter_bits(&trainer), before);
        train(&mut trainer, &graph, 0..2);
    }
}
