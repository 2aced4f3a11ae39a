//! A first layer whose sums come with the rows: the same network as one that sums whole lists.

use super::batch_sums::{SUMMING, summed};
use super::gradients::check;
use crate::tests::support::{Batch, Graph, draws, f32_rows, fill_biases, i32s, options, parameters};
use crate::torch::device::TrainDevice;
use crate::train::trainer::Trainer;
use tch::{Kind, Tensor};
use uva_batch::{BatchColumns, Column};
use uva_graph::{FeatureTable, Labels};
use uva_model::{FeatureNorm, ModelKind, TrainerOptions};

/// More than any list has entries.
const WHOLE: usize = 1000;

fn given(options: &TrainerOptions) -> TrainerOptions {
    TrainerOptions { first_layer_given: true, ..options.clone() }
}

/// The rows of the outermost destinations as a hop set has them, and their columns.
fn rows_of(model: ModelKind, batch: &Batch) -> (Vec<f32>, usize) {
    let (sums, own) = summed(model, batch);
    if model == ModelKind::Gcn {
        return (sums, batch.dim);
    }
    let rows = own.chunks(batch.dim).zip(sums.chunks(batch.dim));
    (rows.flat_map(|(own, sum)| [own, sum].concat()).collect(), 2 * batch.dim)
}

/// The batch without its outermost block, over such rows.
fn batch_of<'a>(batch: &'a Batch, (rows, dim): &'a (Vec<f32>, usize)) -> BatchColumns<'a> {
    let columns = batch.of_blocks(batch.blocks.len() - 1);
    let degrees = i32s(&batch.degrees[..columns.nodes]);
    columns.with(Column::X, f32_rows(rows, *dim)).with(Column::Degrees, degrees)
}

#[test]
fn losses_and_parameters_equal_those_of_a_network_that_sums_lists_itself() {
    for model in SUMMING {
        let options = TrainerOptions { dropout: 0.5, weight_decay: 5e-4, ..options(model, 16, 3) };
        let graph = Graph::random(60, 11, 3, 5);
        let mut sums = Trainer::new(&options, graph.dim, 3, TrainDevice::Cpu).unwrap();
        let columns = if model == ModelKind::Gcn { 11 } else { 22 };
        let mut takes = Trainer::new(&given(&options), columns, 3, TrainDevice::Cpu).unwrap();
        let names = |trainer: &Trainer| -> Vec<_> {
            parameters(trainer).into_iter().map(|(name, shape, _)| (name, shape)).collect()
        };
        assert_eq!(names(&sums), names(&takes), "a checkpoint of one is one of the other");
        for number in 0..6 {
            let batch = graph.batch(&[number, number + 9, number + 21, 3], &[3, 4, WHOLE]);
            let rows = rows_of(model, &batch);
            let number = number as u32;
            let one = sums.train_batch(0, number, &batch.columns(), &mut || Ok(())).unwrap().loss;
            let other = takes.train_batch(0, number, &batch_of(&batch, &rows), &mut || Ok(())).unwrap().loss;
            assert!((one - other).abs() < 1e-6, "{model:?}, batch {number}: {one} and {other}");
        }
        for ((name, _, one), (_, _, other)) in parameters(&sums).iter().zip(&parameters(&takes)) {
            let apart = one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f64::max);
            assert!(apart < 1e-5, "{model:?}: {name} differs by {apart}");
        }
        // A pass over the whole graph takes the rows of all nodes.
        let all: Vec<usize> = (0..graph.nodes()).collect();
        let batch = graph.batch(&all, &[WHOLE]);
        let (rows, dim) = rows_of(model, &batch);
        let element = uva_graph::ElementType::F32;
        let table = FeatureTable { bytes: bytemuck::cast_slice(&rows), rows: graph.nodes(), dim, element };
        let ids: Vec<i64> = (0..graph.nodes() as i64).collect();
        let labels = Labels::Single(&graph.labels);
        let judged = [(&sums, graph.table()), (&takes, table)]
            .map(|(trainer, table)| trainer.evaluate_full((graph.whole(), table), labels, &ids).unwrap());
        assert_eq!(judged[0].correct, judged[1].correct, "{model:?}");
        assert!((judged[0].loss_sum - judged[1].loss_sum).abs() < 1e-4, "{model:?}: {judged:?}");
    }
}

#[test]
fn gradients_after_a_given_layer_equal_finite_differences() {
    for model in SUMMING {
        let graph = Graph::random(40, 5, 3, 21);
        let batch = graph.batch(&[0, 3, 8, 20, 31, 12], &[3, 3, WHOLE]);
        let (rows, dim) = rows_of(model, &batch);
        let options = TrainerOptions { dropout: 0.4, ..given(&options(model, 6, 3)) };
        let trainer = Trainer::with_kind(&options, dim, 3, Kind::Double, TrainDevice::Cpu).unwrap();
        fill_biases(&trainer);
        let blocks = &batch.blocks(model)[..2];
        let x = Tensor::from_slice(&rows).to_kind(Kind::Double).view([-1, dim as i64]);
        let targets = Tensor::from_slice(&batch.labels);
        let cross_entropy = |logits: &Tensor| {
            logits.cross_entropy_loss::<Tensor>(&targets, None, tch::Reduction::Mean, -1, 0.0)
        };
        let pass = || trainer.model.forward(x.shallow_clone(), blocks, Some(&mut draws())).unwrap();
        let forward = pass();
        let logits = forward.logits.detach().set_requires_grad(true);
        let of_logits = Tensor::run_backward(&[cross_entropy(&logits)], &[&logits], false, false).remove(0);
        let gradients = trainer.model.backward(&forward, blocks, of_logits).unwrap().parameters;
        let loss = || cross_entropy(&pass().logits);
        check(&trainer.model.parameters(), &gradients, &loss, &format!("{model:?}"));
    }
}

#[test]
fn a_given_layer_needs_a_model_whose_first_sums_have_no_parameters() {
    let refused = |options: TrainerOptions, columns: usize, part: &str| {
        let error = Trainer::new(&given(&options), columns, 3, TrainDevice::Cpu).expect_err("refused");
        assert!(error.to_string().contains(part), "{error}");
    };
    let sage = options(ModelKind::Sage, 8, 2);
    refused(options(ModelKind::Gat, 8, 2), 10, "model=gat");
    refused(options(ModelKind::Gin, 8, 2), 10, "model=gin");
    refused(TrainerOptions { residual: true, ..sage.clone() }, 10, "residual");
    refused(TrainerOptions { input_dropout: 0.1, ..sage.clone() }, 10, "input_dropout");
    refused(TrainerOptions { feature_norm: FeatureNorm::Row, ..sage.clone() }, 10, "feature_norm");
    refused(TrainerOptions { layers: 1, ..sage.clone() }, 10, "1 layers");
    refused(sage.clone(), 11, "11 columns");
    assert!(Trainer::new(&given(&options(ModelKind::Gcn, 8, 2)), 11, 3, TrainDevice::Cpu).is_ok());
    // A batch with a block for each layer has one too many.
    let graph = Graph::random(30, 5, 3, 2);
    let batch = graph.batch(&[1, 2], &[3, 3]);
    let mut trainer = Trainer::new(&given(&sage), 10, 3, TrainDevice::Cpu).unwrap();
    let error = trainer.train_batch(0, 0, &batch.columns(), &mut || Ok(())).unwrap_err().to_string();
    assert!(error.contains("2 blocks for a model of 1"), "{error}");
}
