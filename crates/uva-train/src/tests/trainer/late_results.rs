//! Steps whose results the host reads late, and the fused optimiser, on the stand-in device of the host.

use crate::cuda::TorchCuda;
use crate::tests::devices::on_device::OnDevice;
use crate::tests::support::{Batch, Graph, options, parameters as parameters_of};
use crate::train::adam::Adam;
use crate::train::late::Reading;
use crate::train::trainer::{Step, Trainer};
use crate::{TrainDevice, TrainError};
use tch::{Device, Kind, Tensor};
use uva_cuda::kernels::train::TrainKernels;
use uva_cuda::{CacheKind, Context, CudaStream, Module, ModuleOptions};
use uva_model::{ModelKind, TrainerOptions};

/// The stand-in device, or the GPU if there is one.
pub(crate) fn place() -> TrainDevice {
    if cuda_sim::on_a_gpu() { TrainDevice::Cuda(0) } else { TrainDevice::StandIn }
}

fn trainer(ahead: bool) -> Trainer {
    let options = TrainerOptions { dropout: 0.5, weight_decay: 5e-4, ..options(ModelKind::Sage, 8, 2) };
    trainer_of(&options, 6, ahead)
}

/// A trainer of three classes on that device; with `ahead`, one whose host runs ahead of the device.
pub(crate) fn trainer_of(options: &TrainerOptions, input_dim: usize, ahead: bool) -> Trainer {
    let torch = cuda_sim::on_a_gpu().then(|| TorchCuda::load().unwrap());
    let mut trainer = Trainer::new(options, input_dim, 3, place()).unwrap();
    if ahead {
        let context = Context::primary(0).unwrap();
        let stream = match torch {
            Some(torch) => torch.current_stream(&context).unwrap(),
            None => CudaStream::new(&context).unwrap(),
        };
        let cache = cuda_sim::kernel_cache().map_or(CacheKind::Off, CacheKind::Folder);
        let options = ModuleOptions { cache, ..ModuleOptions::default() };
        let kernels = TrainKernels::new(&Module::train(&context, &options).unwrap()).unwrap();
        trainer.run_ahead(kernels, stream).unwrap();
    }
    trainer
}

fn on_device(batch: &Batch) -> OnDevice {
    OnDevice::new(batch, place()).reported_to(&Context::primary(0).unwrap(), place())
}

fn batches(graph: &Graph, count: usize) -> Vec<OnDevice> {
    let seeds = |number: usize| (0..8).map(|i| (number * 5 + i * 3) % graph.nodes()).collect::<Vec<_>>();
    let batch = |number| graph.batch(&seeds(number), &[3, 4]);
    (0..count).map(|number| on_device(&batch(number))).collect()
}

/// Enqueues all batches, and reads the results that have arrived after each.
fn enqueue(trainer: &mut Trainer, batches: &[OnDevice], every: u32) -> Result<Vec<Reading>, TrainError> {
    let mut readings = Vec::new();
    for (number, batch) in (0..).zip(batches) {
        let read = (number + 1) % every == 0;
        trainer.enqueue_batch(3, number, &batch.columns(), read)?;
        while let Some(reading) = trainer.reading(trainer.must_read())? {
            readings.push(reading);
        }
    }
    while let Some(reading) = trainer.reading(true)? {
        readings.push(reading);
    }
    assert_eq!(trainer.unread(), 0);
    Ok(readings)
}

fn at_once(trainer: &mut Trainer, batches: &[OnDevice]) -> Vec<Step> {
    let step = |(number, batch): (u32, &OnDevice)| {
        trainer.train_batch(3, number, &batch.columns(), &mut || Ok(())).unwrap()
    };
    (0..).zip(batches).map(step).collect()
}

/// Parameters, moments and steps.
fn state(trainer: &Trainer) -> (Vec<f64>, u64) {
    let moments = trainer.adam.first_moments.iter().chain(&trainer.adam.second_moments);
    let values = |t: &Tensor| Vec::<f64>::try_from(t.to_kind(Kind::Double).flatten(0, -1)).unwrap();
    let parameters = parameters_of(trainer).into_iter().flat_map(|(_, _, values)| values);
    (parameters.chain(moments.flat_map(values)).collect(), trainer.steps().unwrap())
}

/// Compares bit for bit on the stand-in device. A GPU's own sums differ in their last places from run to run.
fn assert_same(found: &(Vec<f64>, u64), expected: &(Vec<f64>, u64), case: &str) {
    let near = if cuda_sim::on_a_gpu() { 1e-3 } else { 0.0 };
    let pairs = found.0.iter().zip(&expected.0);
    let far = pairs.map(|(found, expected)| (found - expected).abs()).fold(0.0, f64::max);
    assert!(found.1 == expected.1 && far <= near, "{case}: {far} off, {} and {} steps", found.1, expected.1);
}

#[test]
fn results_read_late_are_those_read_at_once_and_so_is_the_model() {
    if !cuda_sim::in_process_with(
        "tests::trainer::late_results::results_read_late_are_those_read_at_once_and_so_is_the_model",
        &[("CUDA_SIM_DELAY_US", "300")],
    ) {
        return;
    }
    let mut graph = Graph::random(60, 6, 3, 6);
    // No seed of the fourth batch has a label: no step, and no failure.
    (0..8).for_each(|i| graph.labels[(3 * 5 + i * 3) % 60] = -1);
    let batches = batches(&graph, 21);
    let mut host = trainer(false);
    let expected = at_once(&mut host, &batches);
    assert_eq!(expected[3], Step::default());
    for every in [1, 3, 100] {
        let mut device = trainer(true);
        let readings = enqueue(&mut device, &batches, every).unwrap();
        assert_same(&state(&device), &state(&host), &format!("every {every}"));
        assert!(device.steps().unwrap() < 21);
        let mut read = 0;
        for reading in &readings {
            let of = &expected[read..read + reading.batches.len()];
            for (number, batch) in (read as u32..).zip(&reading.batches) {
                assert_eq!((batch.epoch, batch.batch), (3, number));
            }
            read += of.len();
            let exact = !cuda_sim::on_a_gpu();
            let same =
                |a: f64, b: f64| if exact { (a - b).abs() <= 1e-9 * b } else { (a - b).abs() <= 1e-3 * b };
            assert!(same(reading.loss.into(), of.last().unwrap().loss.into()), "{every}");
            let sum: f64 = of.iter().map(|step| f64::from(step.loss) * step.labelled as f64).sum();
            assert!(same(reading.loss_sum, sum), "{every}");
            assert!(!exact || reading.correct == of.iter().map(|step| step.correct as u64).sum::<u64>());
            assert_eq!(reading.labelled, of.iter().map(|step| step.labelled as u64).sum::<u64>());
            assert!(every > 1 || of.len() == 1);
        }
        assert_eq!(read, 21);
    }
}

/// Makes a batch bad.
type Spoil<'s> = &'s dyn Fn(&OnDevice);

/// A batch whose features are NaN, whose report has another batch's stamp, or whose report has an id that is not a row.
#[test]
fn the_first_bad_batch_stops_every_later_step_and_is_named() {
    if !cuda_sim::in_process(
        "tests::trainer::late_results::the_first_bad_batch_stops_every_later_step_and_is_named",
    ) {
        return;
    }
    let graph = Graph::random(60, 6, 3, 6);
    let spoil_features = |batch: &OnDevice| drop(batch.features.shallow_clone().fill_(f64::NAN));
    let spoils: [(&str, Spoil); 4] = [
        ("diverged", &spoil_features),
        ("stamp", &|batch| batch.stamp(9)),
        ("row", &|batch| drop(batch.report.get(3).fill_(5))),
        // An unfinished batch is reported as unfinished first.
        ("both", &|batch| {
            batch.stamp(0);
            spoil_features(batch);
        }),
    ];
    for bad in [0, 2, 12] {
        let mut host = trainer(false);
        at_once(&mut host, &batches(&graph, bad));
        let expected = state(&host);
        for (name, spoil) in &spoils {
            for every in [1, 5] {
                let batches = batches(&graph, 14);
                spoil(&batches[bad]);
                // Only this batch is reported, whatever follows.
                spoil_features(&batches[13]);
                let mut device = trainer(true);
                // The host still receives the error: every later batch is enqueued by then.
                let mut heard = None;
                for (number, batch) in (0..).zip(&batches) {
                    device.enqueue_batch(3, number, &batch.columns(), (number + 1) % every == 0).unwrap();
                    if device.must_read() {
                        heard = device.reading(true).err();
                        if heard.is_some() {
                            break;
                        }
                    }
                }
                let heard = heard.unwrap_or_else(|| {
                    loop {
                        if let Err(error) = device.reading(true) {
                            break error;
                        }
                    }
                });
                let case = format!("{name} at {bad}, every {every}: {heard}");
                match &heard {
                    TrainError::Diverged { epoch: 3, batch, loss } => {
                        assert!(*name == "diverged" && *batch as usize == bad && loss.is_nan(), "{case}");
                    }
                    TrainError::Unconfirmed(reason) => {
                        assert!(*name != "diverged", "{case}");
                        assert!(reason.contains(&format!("batch {} of epoch 4", bad + 1)), "{case}");
                    }
                    _ => panic!("{case}"),
                }
                assert_same(&state(&device), &expected, &case);
                let before = state(&device);
                // A good batch changes nothing from now on either.
                let good = on_device(&graph.batch(&[0, 1, 2], &[3, 4]));
                device.enqueue_batch(3, 14, &good.columns(), true).unwrap();
                assert_eq!(state(&device), before, "{case}");
                assert_eq!(device.reading(true).unwrap_err().to_string(), heard.to_string());
            }
        }
    }
}

#[test]
fn a_host_that_never_reads_is_made_to_read_when_there_is_no_room() {
    if !cuda_sim::in_process(
        "tests::trainer::late_results::a_host_that_never_reads_is_made_to_read_when_there_is_no_room",
    ) {
        return;
    }
    let graph = Graph::random(60, 6, 3, 6);
    let batches = batches(&graph, 9);
    let mut device = trainer(true);
    let mut enqueued = 0;
    for (number, batch) in (0..).zip(&batches) {
        if device.must_read() {
            break;
        }
        device.enqueue_batch(0, number, &batch.columns(), true).unwrap();
        enqueued += 1;
    }
    assert_eq!((enqueued, device.unread()), (8, 8));
    assert_eq!(device.reading(true).unwrap().unwrap().batches.len(), 1);
    assert!(!device.must_read());
}

/// A batch without a seed has no loss, but is confirmed as well.
#[test]
fn a_batch_without_seeds_makes_no_step_and_must_be_whole() {
    if !cuda_sim::in_process(
        "tests::trainer::late_results::a_batch_without_seeds_makes_no_step_and_must_be_whole",
    ) {
        return;
    }
    let graph = Graph::random(60, 6, 3, 6);
    let empty: Batch = graph.batch(&[], &[3, 4]);
    let batch = on_device(&empty);
    let mut device = trainer(true);
    let readings = enqueue(&mut device, &[batch], 1).unwrap();
    assert_eq!((readings[0].loss, readings[0].labelled), (0.0, 0));
    assert_eq!(device.steps().unwrap(), 0);
    let batch = on_device(&empty);
    batch.stamp(4);
    let error = enqueue(&mut device, &[batch], 1).unwrap_err();
    assert!(matches!(error, TrainError::Unconfirmed(_)), "{error}");
}

/// Parameters of every number of dimensions, of one element among them.
fn parameters() -> Vec<(String, Tensor)> {
    let shapes: [&[i64]; 4] = [&[5, 7], &[1], &[3], &[2, 3, 4]];
    let named = |(number, shape): (usize, &&[i64])| {
        let count = shape.iter().product::<i64>();
        let values = Tensor::arange(count, (Kind::Float, Device::Cpu)).sin().view(*shape);
        (number.to_string(), values)
    };
    shapes.iter().enumerate().map(named).collect()
}

#[test]
fn the_fused_optimiser_equals_our_own_to_rounding() {
    for weight_decay in [0.0, 0.1] {
        let (host, device) = (parameters(), parameters());
        let mut own = Adam::new(&host, 0.01, weight_decay, TrainDevice::Cpu).unwrap();
        let mut fused = Adam::new(&device, 0.01, weight_decay, TrainDevice::StandIn).unwrap();
        let skipped = Tensor::zeros([1], (Kind::Float, Device::Cpu));
        for step in 0..30 {
            let gradients = |parameters: &[(String, Tensor)]| -> Vec<Tensor> {
                parameters.iter().map(|(_, p)| (p * 3.0 + f64::from(step)).cos()).collect()
            };
            own.step(&host, gradients(&host), None).unwrap();
            // Of any strides.
            let mut strided = gradients(&device);
            strided[0] = strided[0].tr().contiguous().tr();
            fused.step(&device, strided, (step % 2 == 0).then_some(&skipped)).unwrap();
        }
        assert_eq!((own.steps().unwrap(), fused.steps().unwrap()), (30, 30));
        for ((_, found), (_, expected)) in device.iter().zip(&host) {
            assert!(found.allclose(expected, 1e-5, 1e-6, false), "{found} {expected}");
        }
        for (found, expected) in fused.second_moments.iter().zip(&own.second_moments) {
            assert!(found.allclose(expected, 1e-5, 1e-7, false));
        }
    }
}

#[test]
fn a_skipped_step_changes_nothing_whatever_the_gradients_are() {
    let parameters = parameters();
    let mut fused = Adam::new(&parameters, 0.01, 0.1, TrainDevice::StandIn).unwrap();
    let gradients = |value: f64| parameters.iter().map(|(_, p)| p.full_like(value)).collect::<Vec<_>>();
    fused.step(&parameters, gradients(0.5), None).unwrap();
    let copies = |fused: &Adam| -> Vec<Tensor> {
        let all = parameters.iter().map(|(_, p)| p).chain(&fused.first_moments).chain(&fused.second_moments);
        all.map(Tensor::copy).collect()
    };
    let before = copies(&fused);
    let skipped = Tensor::ones([1], (Kind::Float, Device::Cpu));
    for value in [f64::NAN, f64::INFINITY, 1.0] {
        fused.step(&parameters, gradients(value), Some(&skipped)).unwrap();
    }
    assert!(copies(&fused).iter().zip(&before).all(|(found, before)| found.equal(before)));
    assert_eq!(fused.steps().unwrap(), 1);
    fused.step(&parameters, gradients(1.0), None).unwrap();
    assert!(!parameters[0].1.equal(&before[0]));
}
