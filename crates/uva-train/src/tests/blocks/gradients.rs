//! Gradients against central finite differences, in f64, where the error of a step of 1e-5 is about 1e-10.

use crate::block::aggregate::Block;
use crate::step::Step;
use crate::tests::support::{EDGE_DIM, Graph, MODELS, SHAPES_OF_NETS, draws, fill_biases, options};
use crate::torch::device::TrainDevice;
use crate::train::trainer::Trainer;
use tch::{Kind, Tensor};
use uva_model::{ModelKind, TrainerOptions};
use uva_ops::lists::projects_first;

const STEP: f64 = 1e-5;
const TOLERANCE: f64 = 1e-7;

/// Compares `gradients` with differences of `loss` at every element of every leaf. A ReLU's kink within a step would
/// give a wrong difference; with random values none is that near.
pub(crate) fn check(
    leaves: &[(String, Tensor)],
    gradients: &[Tensor],
    loss: &dyn Fn() -> Tensor,
    what: &str,
) {
    assert_eq!(leaves.len(), gradients.len());
    let mut largest: f64 = 0.0;
    for ((name, leaf), gradient) in leaves.iter().zip(gradients) {
        assert_eq!(leaf.size(), gradient.size(), "{what}: {name}");
        let flat = tch::no_grad(|| leaf.detach().flatten(0, -1));
        let gradient = gradient.flatten(0, -1);
        for element in 0..flat.size()[0] {
            let value = flat.double_value(&[element]);
            let at = |x: f64| {
                tch::no_grad(|| {
                    let _ = flat.get(element).fill_(x);
                    loss().double_value(&[])
                })
            };
            let difference = (at(value + STEP) - at(value - STEP)) / (2.0 * STEP);
            at(value);
            let found = gradient.double_value(&[element]);
            largest = largest.max(found.abs());
            assert!(
                (found - difference).abs() < TOLERANCE * (1.0 + difference.abs()),
                "{what}: {name}[{element}] is {found}, by differences {difference}"
            );
        }
    }
    assert!(largest > 1e-3, "{what}: a test of zeros tests nothing");
}

/// Dimensions for which the first layer aggregates first and multiplies first, and the fanouts that sampling uses.
const SHAPES: [(usize, usize, usize); 4] = [(3, 6, 2), (60, 2, 2), (4, 5, 3), (5, 3, 1)];

#[test]
fn gradients_of_whole_models_equal_finite_differences() {
    for model in MODELS {
        for (dim, hidden, layers) in SHAPES {
            let graph = Graph::random(40, dim, 3, 21);
            let trainer =
                Trainer::with_kind(&options(model, hidden, layers), dim, 3, Kind::Double, TrainDevice::Cpu)
                    .unwrap();
            fill_biases(&trainer);
            let batch = graph.batch(&[0, 3, 8, 20, 31, 12], &vec![3; layers]);
            let blocks = batch.blocks(model);
            let x = Tensor::from_slice(&batch.features).to_kind(Kind::Double).view([-1, dim as i64]);
            let targets = Tensor::from_slice(&batch.labels);
            let cross_entropy = |logits: &Tensor| {
                logits.cross_entropy_loss::<Tensor>(&targets, None, tch::Reduction::Mean, -1, 0.0)
            };
            let loss =
                || cross_entropy(&trainer.model.forward(x.shallow_clone(), &blocks, None).unwrap().logits);
            let forward = trainer.model.forward(x.shallow_clone(), &blocks, Some(&mut draws())).unwrap();
            let logits = forward.logits.detach().set_requires_grad(true);
            let of_logits =
                Tensor::run_backward(&[cross_entropy(&logits)], &[&logits], false, false).remove(0);
            let gradients = trainer.model.backward(&forward, &blocks, of_logits).unwrap().parameters;
            check(
                &trainer.model.parameters(),
                &gradients,
                &loss,
                &format!("{model:?} {dim} {hidden} {layers}"),
            );
        }
    }
}

#[test]
fn gradients_of_every_network_equal_finite_differences_under_equal_masks() {
    for model in MODELS {
        for (residual, norm) in SHAPES_OF_NETS {
            for dropped in [false, true] {
                let p = |share: f64| if dropped { share } else { 0.0 };
                let options = TrainerOptions {
                    residual,
                    norm,
                    dropout: p(0.4),
                    attention_dropout: p(0.3),
                    input_dropout: p(0.2),
                    ..options(model, 6, 2)
                };
                check_model(&options, &format!("{model:?} {residual} {norm:?} {dropped}"));
            }
        }
    }
}

#[test]
fn gradients_of_attention_with_features_of_edges_equal_finite_differences() {
    for (residual, norm) in SHAPES_OF_NETS {
        for attention_dropout in [0.0, 0.3] {
            let options = TrainerOptions {
                residual,
                norm,
                attention_dropout,
                edge_dim: EDGE_DIM,
                ..options(ModelKind::Gat, 6, 2)
            };
            check_model(&options, &format!("{residual} {norm:?} {attention_dropout}"));
        }
    }
}

/// A whole model by its parameters, the loss being the sum of the squares of its logits. Equal seeds before each pass
/// drop the same elements.
fn check_model(options: &TrainerOptions, what: &str) {
    let graph = Graph::random(40, 5, 3, 21);
    let trainer = Trainer::with_kind(options, 5, 3, Kind::Double, TrainDevice::Cpu).unwrap();
    fill_biases(&trainer);
    let batch = graph.batch(&[0, 3, 8, 20, 31, 12], &[3, 3]);
    let blocks = batch.blocks(options.model);
    let x = Tensor::from_slice(&batch.features).to_kind(Kind::Double).view([-1, 5]);
    let forward = || trainer.model.forward(x.shallow_clone(), &blocks, Some(&mut draws())).unwrap();
    let loss = || forward().logits.square().sum(Kind::Double);
    let first = forward();
    let gradients = trainer.model.backward(&first, &blocks, &first.logits * 2.0).unwrap().parameters;
    check(&trainer.model.parameters(), &gradients, &loss, what);
}

/// One layer by its parameters and its input. The loss is the sum of the squares of its outputs, so that every output
/// has its own gradient.
fn check_layer(trainer: &Trainer, x: &Tensor, block: &Block<'_>, what: &str) {
    let Step::Hop(layer) = &trainer.model.steps[0].step else { panic!("a plain model begins with a layer") };
    let loss = || layer.forward(x, block, true, None).unwrap().0.square().sum(Kind::Double);
    let (out, saved) = layer.forward(x, block, true, None).unwrap();
    let (mut gradients, of_x) = layer.backward(x, &saved, block, &(out * 2.0), true).unwrap();
    gradients.push(of_x.unwrap());
    let mut leaves = trainer.model.parameters();
    leaves.push(("input".to_owned(), x.shallow_clone()));
    check(&leaves, &gradients, &loss, what);
}

#[test]
fn gradients_of_a_layer_by_input_and_parameters_equal_finite_differences() {
    let mut orders = Vec::new();
    for model in MODELS {
        for (dim, outputs) in [(2, 6), (24, 2)] {
            let graph = Graph::random(40, dim, 2, 22);
            let trainer =
                Trainer::with_kind(&options(model, 1, 1), dim, outputs, Kind::Double, TrainDevice::Cpu)
                    .unwrap();
            fill_biases(&trainer);
            // Nodes 3 and 10 have no neighbour.
            let batch = graph.batch(&[0, 3, 8, 10, 31], &[4]);
            let block = batch.blocks[0].block(model, &batch.degrees);
            let x = Tensor::from_slice(&batch.features).to_kind(Kind::Double).view([-1, dim as i64]);
            orders.push(projects_first(block.destinations, block.sources, block.edges, dim, outputs, true));
            check_layer(&trainer, &x, &block, &format!("{model:?} {dim} {outputs}"));
        }
    }
    assert_eq!(
        orders,
        [false, true].repeat(MODELS.len()),
        "both orders of multiplying and aggregating are tested"
    );
}

#[test]
fn a_block_without_edges_has_gradients_too() {
    let graph = Graph::random(40, 3, 2, 23);
    for model in MODELS {
        let trainer =
            Trainer::with_kind(&options(model, 4, 1), 3, 2, Kind::Double, TrainDevice::Cpu).unwrap();
        fill_biases(&trainer);
        let batch = graph.batch(&[3, 10, 17], &[4]);
        assert!(batch.blocks[0].indices.is_empty());
        let block = batch.blocks[0].block(model, &batch.degrees);
        let x = Tensor::from_slice(&batch.features).to_kind(Kind::Double).view([-1, 3]);
        check_layer(&trainer, &x, &block, &format!("{model:?}"));
    }
}
