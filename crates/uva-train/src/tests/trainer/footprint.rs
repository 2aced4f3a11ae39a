//! The computed footprint of a network, compared with its real one.

use crate::tests::hop_sets::hop_rows::HOP_MODELS;
use crate::tests::support::MODELS;
use crate::torch::device::TrainDevice;
use crate::train::trainer::Trainer;
use uva_model::{ActivationKind, ModelKind, NormKind, TrainerOptions};
use uva_model::{Footprint, Shapes};

const SHAPES: Shapes = Shapes { input_dim: 7, classes: 5, seeds: 10, nodes_evaluated: None };

#[test]
fn the_parameters_computed_from_shapes_are_those_that_a_trainer_has() {
    for model in MODELS {
        for layers in 1..=3 {
            for (residual, norm) in [
                (false, NormKind::None),
                (false, NormKind::Layer),
                (true, NormKind::None),
                (true, NormKind::Layer),
            ] {
                for output_heads in [None, Some(3)] {
                    let options = TrainerOptions {
                        model,
                        hidden: 12,
                        heads: 4,
                        layers,
                        residual,
                        norm,
                        edge_dim: if model.row().takes_edge_features() { 3 } else { 0 },
                        output_heads: output_heads.filter(|_| model == ModelKind::Gat && !residual),
                        ..TrainerOptions::default()
                    };
                    let trainer = Trainer::new(&options, 7, 5, TrainDevice::Cpu).unwrap();
                    let told = Footprint::new(&options, &SHAPES);
                    assert_eq!(told.parameters, trainer.parameter_count() as u64, "{options:?}");
                }
            }
        }
    }
}

#[test]
fn parameters_of_models_over_hop_sets_are_computed_from_shapes_too() {
    for model in HOP_MODELS {
        let hops_of_model = model.row().hops.unwrap();
        let layers = match hops_of_model.layers {
            Some(layers) => layers.least..layers.least + 3,
            None => 1..2,
        };
        for layers in layers {
            for (hops, operators, activation) in
                [(1, 1, ActivationKind::Relu), (3, 1, ActivationKind::Prelu), (2, 3, ActivationKind::Relu)]
            {
                if operators > 1 && !hops_of_model.several_operators {
                    continue;
                }
                let of_model =
                    TrainerOptions { model, layers, hops, operators, activation, ..Default::default() };
                let options = TrainerOptions { hidden: 12, heads: 4, ..of_model };
                let trainer = Trainer::new(&options, 7, 5, TrainDevice::Cpu).unwrap();
                let told = Footprint::new(&options, &SHAPES);
                assert_eq!(told.parameters, trainer.parameter_count() as u64, "{options:?}");
            }
        }
    }
}

#[test]
fn rows_between_the_layers_of_models_over_hop_sets_count() {
    let of = |model, more: TrainerOptions| {
        let options = TrainerOptions { model, hidden: 16, hops: 3, operators: 1, ..more };
        let told = Footprint::new(&options, &SHAPES);
        let others = 16 * told.parameters + 2 * 4 * 10 * 5;
        assert_eq!(told.training_bytes, others + told.activation_bytes, "{options:?}");
        told.activation_bytes
    };
    let usual = TrainerOptions::default;
    assert_eq!((of(ModelKind::Sgc, usual()), of(ModelKind::S2gc, usual())), (0, 0));
    // Ten seeds of four hops. Three layers: two maps after those of the hops, of which the first is as wide as all.
    let sign = TrainerOptions { layers: 3, ..usual() };
    assert_eq!(of(ModelKind::Sign, sign), 4 * 10 * (2 * 4 * 16 + 16));
    let hoga = TrainerOptions { layers: 2, heads: 4, ..usual() };
    assert_eq!(of(ModelKind::Hoga, hoga), 4 * 10 * (4 * 16 + 2 * (8 * 4 * 16 + 4 * 4 * 4)));
}

#[test]
fn bytes_cover_parameters_moments_gradients_logits_and_evaluation_tables() {
    let options =
        TrainerOptions { model: ModelKind::Sage, hidden: 16, layers: 2, ..TrainerOptions::default() };
    let parameters = 2 * 7 * 16 + 16 + 2 * 16 * 5 + 5;
    let told = Footprint::new(&options, &SHAPES);
    assert_eq!((told.parameters, told.evaluation_bytes), (parameters, 0));
    assert_eq!(told.training_bytes, 16 * parameters + 2 * 4 * 10 * 5);
    assert_eq!((told.on_host(), told.beside_a_gpu()), (told.training_bytes, 0));
    // The first layer reads the dataset's table, the second the first one's.
    let fully = Shapes { nodes_evaluated: Some(vec![1000]), ..SHAPES };
    let told = Footprint::new(&options, &fully);
    assert_eq!(told.evaluation_bytes, 4 * 1000 * 32);
    assert_eq!(told.on_host(), 12 * parameters + told.evaluation_bytes);
    assert_eq!(told.beside_a_gpu(), 4 * parameters + told.evaluation_bytes);
    // Averaged heads are concatenated before they are averaged.
    let heads = TrainerOptions { model: ModelKind::Gat, heads: 4, ..options };
    assert_eq!(Footprint::new(&heads, &fully).evaluation_bytes, 4 * 1000 * (4 * 5 + 5 + 16));
}

#[test]
fn sizes_beyond_64_bits_are_the_largest_and_nothing_overflows() {
    for model in MODELS.into_iter().chain(HOP_MODELS) {
        let (hops, operators) = (usize::MAX, usize::MAX);
        let wide = TrainerOptions { model, hidden: usize::MAX, heads: 1, edge_dim: 3, ..Default::default() };
        let options = TrainerOptions { hops, operators, ..wide };
        let shapes = Shapes {
            input_dim: usize::MAX,
            classes: usize::MAX,
            seeds: usize::MAX,
            nodes_evaluated: Some(vec![usize::MAX]),
        };
        assert_eq!(Footprint::new(&options, &shapes).on_host(), u64::MAX);
    }
}
