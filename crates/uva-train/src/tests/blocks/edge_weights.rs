//! Tests of the sampler's edge weights in a block.

use crate::TrainError;
use crate::block::aggregate::Block;
use crate::tests::support::{Graph, MODELS, OwnedBlock, options};
use crate::torch::device::TrainDevice;
use crate::train::trainer::Trainer;
use tch::{Kind, Tensor};
use uva_batch::{BatchColumns, Column, ColumnArray, Element};
use uva_model::ModelKind;

/// Two destinations, with three and one of their neighbours.
fn block() -> OwnedBlock {
    let (indptr, indices) = (vec![0, 3, 4], vec![2, 3, 4, 0]);
    OwnedBlock {
        destinations: 2,
        sources: 5,
        indptr,
        indices,
        weights: vec![0.5, 0.25, 2.0, 0.125],
        edge_attr: Vec::new(),
    }
}

fn weights(model: ModelKind, block: &OwnedBlock, degrees: &[i32]) -> Vec<f64> {
    let made = Block::new(model, &block.lists(), degrees, Kind::Double).unwrap();
    made.edge_weights()
}

fn close(found: &[f64], expected: &[f64]) -> bool {
    found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-7)
}

#[test]
fn sage_sums_by_edge_weights_unchanged() {
    let block = block();
    assert_eq!(weights(ModelKind::Sage, &block, &[]), [0.5, 0.25, 2.0, 0.125]);
    let made = Block::new(ModelKind::Sage, &block.lists(), &[], Kind::Double).unwrap();
    let rows = Tensor::from_slice(&[1.0, 10.0, 100.0, 1000.0, 10_000.0]).view([5, 1]);
    let sums = Vec::<f64>::try_from(made.aggregate(&rows).unwrap().view([2])).unwrap();
    assert_eq!(sums, [50.0 + 250.0 + 20_000.0, 0.125]);
}

#[test]
fn gcn_corrects_its_own_weights_by_them() {
    let degrees = [7, 3, 0, 1, 8];
    // d_v · w / √((d_v + 1)(d_u + 1))
    let expected = [(7.0, 0.5, 0.0), (7.0, 0.25, 1.0), (7.0, 2.0, 8.0), (3.0, 0.125, 7.0)]
        .map(|(own, weight, other): (f64, f64, f64)| own * weight / ((own + 1.0) * (other + 1.0)).sqrt());
    assert!(close(&weights(ModelKind::Gcn, &block(), &degrees), &expected));
}

#[test]
fn weights_of_the_mean_change_nothing() {
    let third = 1.0 / 3.0;
    let mean = OwnedBlock { weights: vec![third, third, third, 1.0], ..block() };
    let none = OwnedBlock { weights: Vec::new(), ..block() };
    for model in [ModelKind::Sage, ModelKind::Gcn] {
        let degrees = [7, 3, 0, 1, 8];
        assert!(close(&weights(model, &mean, &degrees), &weights(model, &none, &degrees)));
    }
}

#[test]
fn only_models_that_use_edge_weights_train_with_as_many_as_edges() {
    let graph = Graph::random(40, 4, 3, 5);
    let mut batch = graph.batch(&[1, 2, 3], &[3, 2]);
    for block in &mut batch.blocks {
        block.weights = vec![0.5; block.indices.len()];
    }
    let weighed = batch.columns();
    let weights = |layer| Column::Weights.at(layer);
    let plain = weighed.clone().without(weights(0)).without(weights(1));
    let fewer = ColumnArray::vector(&batch.blocks[1].weights[1..], Element::F32);
    let shorter = weighed.clone().with(weights(1), fewer);
    for model in MODELS {
        let loss = |columns: &BatchColumns<'_>| -> Result<f32, TrainError> {
            let mut trainer = Trainer::new(&options(model, 8, 2), 4, 3, TrainDevice::Cpu)?;
            Ok(trainer.train_batch(0, 0, columns, &mut || Ok(()))?.loss)
        };
        let refused = loss(&shorter).unwrap_err().to_string();
        assert!(refused.contains("block 1") && refused.contains("weights for"), "{refused}");
        match (model.row().takes_edge_weights(), loss(&weighed)) {
            (false, refused) => {
                let refused = refused.unwrap_err().to_string();
                assert!(refused.contains(&format!("`model={}`", model.name())), "{refused}");
            }
            (true, loss_of) => assert_ne!(loss_of.unwrap(), loss(&plain).unwrap(), "{model:?}"),
        }
    }
}
