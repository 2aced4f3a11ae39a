//! A first layer whose sums were made with the batch: the same losses, gradients and predictions, and refusals.

use crate::block::aggregate::Block;
use crate::input::prepared::Prepared;
use crate::tests::devices::cuda::devices;
use crate::tests::devices::on_device::OnDevice;
use crate::tests::support::{Batch, Graph, MODELS, draws, f32_rows, fill_biases, options, parameter_bits};
use crate::torch::borrowed::Borrowed;
use crate::torch::device::TrainDevice;
use crate::train::trainer::Trainer;
use tch::{Device, Kind, Tensor};
use uva_batch::{BatchColumns, BlockSize, Column, ColumnArray, Element};
use uva_model::{FeatureNorm, ModelKind, TrainerOptions};
use uva_ops::Vectors;
use uva_ops::lists::projects_first;
use uva_ops::lists::{Lists, WeightedSums, Weights, degree_weights};

/// The models whose first layer begins with sums that do not depend on parameters.
pub(super) const SUMMING: [ModelKind; 2] = [ModelKind::Sage, ModelKind::Gcn];

/// The sums of a batch's outermost block, as a producer makes them, and the rows that come with them.
pub(super) fn summed(model: ModelKind, batch: &Batch) -> (Vec<f32>, Vec<f32>) {
    let block = batch.blocks.last().unwrap();
    let lists = Lists::new(&block.indptr, &block.indices, block.sources).unwrap();
    let (weights, own) = degree_weights(&lists, &block.weights, &batch.degrees, None);
    let weights = match (model, &block.weights[..]) {
        (ModelKind::Gcn, _) => Weights::Each(&weights[..]),
        (_, []) => Weights::Mean,
        (_, sampled) => Weights::Each(sampled),
    };
    let mut sums = WeightedSums::new(&batch.features, batch.dim, lists, weights).unwrap();
    if model == ModelKind::Gcn {
        sums = sums.with_own(&own).unwrap();
    }
    let mut out = vec![0.0; block.destinations * batch.dim];
    sums.write_some(0, &mut out, Vectors::widest());
    let rows = if model == ModelKind::Gcn { 0 } else { block.destinations };
    (out, batch.features[..rows * batch.dim].to_vec())
}

/// The batch with these sums, and the rows that come with them.
fn folded<'a>(batch: &'a Batch, (sums, rows): &'a (Vec<f32>, Vec<f32>)) -> BatchColumns<'a> {
    let columns = batch.columns().without(Column::X).with(Column::Aggregated, f32_rows(sums, batch.dim));
    if rows.is_empty() { columns } else { columns.with(Column::X, f32_rows(rows, batch.dim)) }
}

/// Several batches, some with weights of the sampler.
fn batches(graph: &Graph) -> Vec<Batch> {
    let mut batches: Vec<Batch> =
        (0..6).map(|first| graph.batch(&[first, first + 9, first + 21, 3], &[3, 4])).collect();
    for batch in &mut batches[3..] {
        for block in &mut batch.blocks {
            block.weights = (0..block.indices.len()).map(|edge| 0.1 + (edge % 7) as f32 / 9.0).collect();
        }
    }
    batches
}

#[test]
fn training_and_predictions_have_the_bits_of_sums_made_by_the_trainer() {
    for model in SUMMING {
        let options = TrainerOptions { dropout: 0.5, weight_decay: 5e-4, ..options(model, 16, 2) };
        let graph = Graph::random(60, 11, 3, 5);
        let make = || Trainer::new(&options, graph.dim, 3, TrainDevice::Cpu).unwrap();
        let (mut one, mut other) = (make(), make());
        for (number, batch) in (0..).zip(&batches(&graph)) {
            let BlockSize { destinations, sources, edges } = batch.blocks[1].counts();
            assert!(!projects_first(destinations, sources, edges, 11, 16, false));
            let sums = summed(model, batch);
            let given = folded(batch, &sums);
            let losses = [(&mut one, batch.columns()), (&mut other, given)].map(|(trainer, input)| {
                let loss = trainer.train_batch(0, number, &input, &mut || Ok(())).unwrap().loss;
                let evaluated = trainer.evaluate_batch(&input, &mut || Ok(())).unwrap();
                (loss.to_bits(), evaluated.loss_sum.to_bits(), evaluated.correct)
            });
            assert_eq!(losses[0], losses[1], "{model:?}, batch {number}");
            assert_eq!(parameter_bits(&one), parameter_bits(&other), "{model:?}, batch {number}");
        }
    }
}

#[test]
fn gradients_of_given_sums_equal_finite_differences_and_the_whole_blocks() {
    const STEP: f64 = 1e-5;
    for model in SUMMING {
        // The second is of a shape for which the whole block would be multiplied first.
        for (dim, hidden) in [(5, 6), (60, 2)] {
            let graph = Graph::random(40, dim, 3, 21);
            let options = options(model, hidden, 2);
            let trainer = Trainer::with_kind(&options, dim, 3, Kind::Double, TrainDevice::Cpu).unwrap();
            fill_biases(&trainer);
            let batch = graph.batch(&[0, 3, 8, 20, 31, 12], &[3, 3]);
            let whole = batch.blocks(model);
            let x = Tensor::from_slice(&batch.features).to_kind(Kind::Double).view([-1, dim as i64]);
            // Sums in f64, so that only the method differs.
            let mut sums = whole[1].aggregate(&x).unwrap();
            let destinations = whole[1].destinations as i64;
            let own = x.narrow(0, 0, destinations);
            if let Some(weight) = &whole[1].own {
                let _ = sums.addcmul_(&own, weight);
            }
            let counts: BlockSize = batch.blocks[1].counts();
            let given = vec![batch.blocks(model).swap_remove(0), Block::given(counts, Borrowed::owned(sums))];
            let pass = |x: &Tensor, blocks: &[Block<'_>]| {
                let forward = trainer.model.forward(x.shallow_clone(), blocks, Some(&mut draws())).unwrap();
                let of_logits = &forward.logits * 2.0;
                let gradients = trainer.model.backward(&forward, blocks, of_logits).unwrap().parameters;
                (forward.logits.square().sum(Kind::Double).double_value(&[]), gradients)
            };
            let (loss, gradients) = pass(&own, &given);
            let (whole_loss, of_whole) = pass(&x, &whole);
            assert!((loss - whole_loss).abs() < 1e-9 * whole_loss.abs(), "{model:?}: {loss}, {whole_loss}");
            for ((name, leaf), (gradient, other)) in
                trainer.model.parameters().into_iter().zip(gradients.iter().zip(&of_whole))
            {
                let difference = (gradient - other).abs().max().double_value(&[]);
                assert!(difference < 1e-9, "{model:?} {name}: {difference} off the whole block's");
                let (flat, gradient) = (leaf.detach().flatten(0, -1), gradient.flatten(0, -1));
                for element in 0..flat.numel() as i64 {
                    let value = flat.double_value(&[element]);
                    let at = |value: f64| {
                        let _ = tch::no_grad(|| flat.get(element).fill_(value));
                        pass(&own, &given).0
                    };
                    let slope = (at(value + STEP) - at(value - STEP)) / (2.0 * STEP);
                    at(value);
                    let found = gradient.double_value(&[element]);
                    assert!(
                        (found - slope).abs() < 1e-6 * (1.0 + slope.abs()),
                        "{model:?} {name}[{element}]"
                    );
                }
            }
        }
    }
}

#[test]
fn a_batch_of_sums_that_is_copied_to_a_device_gives_the_same_logits() {
    for model in SUMMING {
        let graph = Graph::random(60, 11, 3, 5);
        let trainer = Trainer::new(&options(model, 16, 2), 11, 3, TrainDevice::Cpu).unwrap();
        let batch = graph.batch(&[1, 5, 30], &[3, 4]);
        let sums = summed(model, &batch);
        let given = folded(&batch, &sums);
        let (copied, _) = Prepared::copied(&trainer.trains(), &given, Device::Cpu).unwrap().unwrap();
        let (whole, _) = Prepared::copied(&trainer.trains(), &batch.columns(), Device::Cpu).unwrap().unwrap();
        let logits = |prepared: &Prepared<'_>| {
            let x = trainer.inputs(&prepared.tables).unwrap();
            trainer.model.forward(x, &prepared.blocks, None).unwrap().logits
        };
        let difference = (logits(&copied) - logits(&whole)).abs().max().double_value(&[]);
        assert!(difference < 1e-5, "{model:?}: {difference}");
    }
}

#[test]
fn a_batch_of_sums_on_a_device_trains_as_one_in_host_memory() {
    for (device, model) in devices().into_iter().flat_map(|device| SUMMING.map(|model| (device, model))) {
        let graph = Graph::random(60, 11, 3, 5);
        let make = |device| Trainer::new(&options(model, 16, 2), 11, 3, device).unwrap();
        let (mut host, mut there) = (make(TrainDevice::Cpu), make(device));
        // Weights of the sampler are not copied to a device here.
        for (number, batch) in (0..).zip(&batches(&graph)[..3]) {
            let sums = summed(model, batch);
            let expected = host.train_batch(0, number, &folded(batch, &sums), &mut || Ok(())).unwrap().loss;
            let copied = OnDevice::new(batch, device);
            let copy = |values: &[f32]| Tensor::from_slice(values).view([-1, 11]).to_device(device.torch());
            let (on_device, rows) = (copy(&sums.0), (!sums.1.is_empty()).then(|| copy(&sums.1)));
            let input = copied.summed(&on_device, rows.as_ref());
            let found = there.train_batch(0, number, &input, &mut || Ok(())).unwrap().loss;
            there.wait_for_device().unwrap();
            assert!((found - expected).abs() < 1e-4 * expected.abs(), "{model:?}: {found} and {expected}");
            if let Some(rows) = &rows {
                let short = rows.narrow(0, 0, 1);
                let input = copied.summed(&on_device, Some(&short));
                let error = there.train_batch(0, number, &input, &mut || Ok(())).unwrap_err().to_string();
                assert!(error.contains("feature rows"), "{error}");
            }
        }
    }
}

#[test]
fn sums_that_do_not_fit_the_batch_or_the_model_are_refused() {
    let graph = Graph::random(60, 11, 3, 5);
    let batch = graph.batch(&[1, 5, 30], &[3, 4]);
    let sums = summed(ModelKind::Sage, &batch);
    let given = folded(&batch, &sums);
    let refused = |options: &TrainerOptions, input: &BatchColumns<'_>, part: &str| {
        let mut trainer = Trainer::new(options, 11, 3, TrainDevice::Cpu).unwrap();
        let error = trainer.train_batch(0, 0, input, &mut || Ok(())).unwrap_err().to_string();
        assert!(error.contains(part), "{part} in {error}");
    };
    let sage = options(ModelKind::Sage, 8, 2);
    let own = f32_rows(&sums.1, 11);
    let with_own = |own| given.clone().with(Column::X, own);
    let fewer = given.clone().with(Column::Aggregated, f32_rows(&sums.0[11..], 11));
    refused(&sage, &fewer, "feature rows where the batch has");
    refused(&sage, &given.clone().without(Column::X), "own rows");
    refused(&sage, &with_own(f32_rows(&sums.1[11..], 11)), "feature rows where the batch has");
    let cut = ColumnArray::table(&own.host().unwrap()[4..], Element::F32, own.rows, 11);
    refused(&sage, &with_own(cut), "bytes of feature rows");
    refused(&sage, &with_own(ColumnArray { element: Element::F16, ..own }), "bytes of feature rows");
    for model in MODELS.into_iter().filter(|model| !SUMMING.contains(model)) {
        let options = TrainerOptions { residual: false, ..options(model, 8, 2) };
        refused(&options, &given, &format!("`model={}`", model.name()));
    }
    refused(&TrainerOptions { residual: true, ..sage.clone() }, &given, "`residual`");
    refused(&TrainerOptions { input_dropout: 0.1, ..sage.clone() }, &given, "`input_dropout`");
    refused(&TrainerOptions { feature_norm: FeatureNorm::Row, ..sage }, &given, "`feature_norm=row`");
}
