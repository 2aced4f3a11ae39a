//! Steps, losses, repeatability and refusals.

use crate::TrainError;
use crate::nn::random::SplitMix64;
use crate::tests::support::{
    Graph, MODELS, below, draws, f32_rows, i32s, options, parameter_bits, parameters,
};
use crate::torch::device::TrainDevice;
use crate::train::trainer::{Step, Trainer};
use tch::{Kind, Tensor};
use uva_batch::{BatchColumns, Column, ColumnArray, Element};
use uva_graph::Labels;
use uva_model::{FeatureNorm, MatmulPrecision, ModelKind, OptionsError, TrainerOptions, Weighting};

/// Losses of a few epochs over shuffled batches.
fn losses(graph: &Graph, trainer: &mut Trainer, epochs: std::ops::Range<u32>) -> Vec<Step> {
    let mut steps = Vec::new();
    // A plain sum over a sample is smaller than that over the whole list, which the full evaluation uses.
    let sums = trainer.options().model.row().weighting == Weighting::Sum;
    let fanout = if sums { usize::MAX } else { 4 };
    for epoch in epochs {
        let mut order: Vec<usize> = (0..graph.nodes()).collect();
        let mut random = SplitMix64::new(u64::from(epoch));
        for i in (1..order.len()).rev() {
            order.swap(i, below(&mut random, i + 1));
        }
        for (number, seeds) in order.chunks(16).enumerate() {
            let batch = graph.batch(seeds, &[fanout; 2]);
            steps.push(trainer.train_batch(epoch, number as u32, &batch.columns(), &mut || Ok(())).unwrap());
        }
    }
    steps
}

fn bits(steps: &[Step]) -> Vec<u32> {
    steps.iter().map(|step| step.loss.to_bits()).collect()
}

fn with_dropout(model: ModelKind) -> TrainerOptions {
    TrainerOptions {
        dropout: 0.5,
        input_dropout: 0.2,
        attention_dropout: 0.3,
        weight_decay: 5e-4,
        ..options(model, 16, 2)
    }
}

#[test]
fn the_loss_of_a_toy_problem_falls_and_its_classes_are_found() {
    for model in MODELS {
        let graph = Graph::random(120, 8, 4, 1);
        // GINE's edge features are noise here already: with dropout on top it is stuck at a loss of 1.2.
        let dropout = if model == ModelKind::Gine { 0.0 } else { 0.2 };
        let options = TrainerOptions { dropout, ..options(model, 32, 2) };
        let mut trainer = Trainer::new(&options, 8, 4, TrainDevice::Cpu).unwrap();
        // The perceptrons of GIN and GINE have two layers each, and take longer.
        let epochs = if matches!(model, ModelKind::Gin | ModelKind::Gine) { 100 } else { 40 };
        let steps = losses(&graph, &mut trainer, 0..epochs);
        let mean = |steps: &[Step]| steps.iter().map(|s| s.loss).sum::<f32>() / steps.len() as f32;
        let (first, last) = (mean(&steps[..8]), mean(&steps[steps.len() - 8..]));
        assert!(last < 0.5 * first, "{model:?}: from {first} to {last}");
        let ids: Vec<i64> = (0..120).collect();
        let labels = Labels::Single(&graph.labels);
        let evaluation = trainer.evaluate_full((graph.whole(), graph.table()), labels, &ids).unwrap();
        assert_eq!(evaluation.labelled, graph.labels.iter().filter(|&&label| label >= 0).count());
        assert!(evaluation.accuracy().unwrap() > 0.8, "{model:?}: {evaluation:?}");
        assert!(evaluation.mean_loss().unwrap() < f64::from(first), "{model:?}: {evaluation:?}");
    }
}

#[test]
fn equal_seeds_give_losses_equal_bit_for_bit_and_others_do_not() {
    for model in MODELS {
        let graph = Graph::random(100, 30, 4, 2);
        let run = |seed| {
            let mut trainer =
                Trainer::new(&TrainerOptions { seed, ..with_dropout(model) }, 30, 4, TrainDevice::Cpu)
                    .unwrap();
            (bits(&losses(&graph, &mut trainer, 0..3)), parameter_bits(&trainer))
        };
        let (first, again, other) = (run(1), run(1), run(2));
        assert_eq!(first, again);
        assert_ne!(first.0, other.0);
    }
}

#[test]
fn dropout_depends_on_epoch_and_batch_and_not_on_what_ran_before() {
    let graph = Graph::random(40, 30, 4, 2);
    let batch = graph.batch(&[0, 1, 2, 5, 6], &[4, 4]);
    let loss = |epoch, number| {
        let mut trainer = Trainer::new(&with_dropout(ModelKind::Sage), 30, 4, TrainDevice::Cpu).unwrap();
        trainer.train_batch(epoch, number, &batch.columns(), &mut || Ok(())).unwrap().loss.to_bits()
    };
    let first = loss(3, 7);
    tch::manual_seed(99);
    assert_eq!(loss(3, 7), first);
    assert_ne!(loss(3, 8), first);
    assert_ne!(loss(4, 7), first);
}

#[test]
fn gradients_with_dropout_equal_those_of_autograd_over_the_same_mask() {
    let graph = Graph::random(40, 6, 3, 2);
    let batch = graph.batch(&[0, 1, 2, 5, 6, 9], &[4, 4]);
    let options = TrainerOptions { dropout: 0.4, ..options(ModelKind::Sage, 10, 2) };
    let trainer = Trainer::with_kind(&options, 6, 3, Kind::Double, TrainDevice::Cpu).unwrap();
    let blocks = batch.blocks(ModelKind::Sage);
    let x = Tensor::from_slice(&batch.features).to_kind(Kind::Double).view([-1, 6]);
    let forward = trainer.model.forward(x.shallow_clone(), &blocks, Some(&mut draws())).unwrap();
    let gradients = trainer.model.backward(&forward, &blocks, forward.logits.ones_like()).unwrap().parameters;

    tch::manual_seed(5);
    let leaves: Vec<Tensor> =
        trainer.model.parameters().iter().map(|(_, p)| p.detach().copy().set_requires_grad(true)).collect();
    let mut h = x;
    for (index, block) in blocks.iter().rev().enumerate() {
        if index > 0 {
            h = h.relu().dropout(0.4, true);
        }
        let [own, neighbours, bias] = &leaves[3 * index..][..3] else { unreachable!() };
        // As a matrix, since autograd cannot see the loops of this crate.
        let unit = Tensor::eye(block.sources as i64, (Kind::Double, tch::Device::Cpu));
        let means = block.aggregate(&unit).unwrap().mm(&h).linear::<&Tensor>(neighbours, None);
        h = h.narrow(0, 0, block.destinations as i64).linear(own, Some(bias)) + means;
    }
    let expected = Tensor::run_backward(&[h.sum(Kind::Double)], &leaves, false, false);
    for (found, expected) in gradients.iter().zip(&expected) {
        assert!((found - expected).abs().max().double_value(&[]) < 1e-12);
        assert!(expected.abs().max().double_value(&[]) > 1e-3);
    }
}

#[test]
fn evaluation_changes_nothing_and_has_no_dropout() {
    let graph = Graph::random(60, 8, 3, 3);
    let trainer = Trainer::new(&with_dropout(ModelKind::Gcn), 8, 3, TrainDevice::Cpu).unwrap();
    let before = parameter_bits(&trainer);
    let batch = graph.batch(&[0, 1, 2, 5, 6, 30], &[3, 3]);
    let first = trainer.evaluate_batch(&batch.columns(), &mut || Ok(())).unwrap();
    assert_eq!(trainer.evaluate_batch(&batch.columns(), &mut || Ok(())).unwrap(), first);
    assert_eq!(parameter_bits(&trainer), before);
    assert_eq!(trainer.steps().unwrap(), 0);
}

#[test]
fn adam_steps_equal_the_published_formula() {
    let graph = Graph::random(40, 4, 3, 4);
    let options = TrainerOptions { weight_decay: 0.1, learning_rate: 0.05, ..options(ModelKind::Gcn, 4, 1) };
    let mut trainer = Trainer::with_kind(&options, 4, 3, Kind::Double, TrainDevice::Cpu).unwrap();
    let batch = graph.batch(&[0, 1, 2, 5, 6, 30], &[3]);
    let mut expected: Vec<f64> = parameters(&trainer).into_iter().flat_map(|p| p.2).collect();
    let (mut first, mut second) = (vec![0.0; expected.len()], vec![0.0; expected.len()]);
    for step in 1..=5 {
        // Gradients of the same parameters by autograd, through the layer's formula.
        let twin = batch.blocks[0].block(ModelKind::Gcn, &batch.degrees);
        let x = Tensor::from_slice(&batch.features).to_kind(Kind::Double).view([-1, 4]);
        let sums = twin.aggregate(&x).unwrap() + x.narrow(0, 0, 6) * twin.own.as_ref().unwrap();
        let leaves: Vec<Tensor> = trainer
            .model
            .parameters()
            .iter()
            .map(|(_, p)| p.detach().copy().set_requires_grad(true))
            .collect();
        let logits = sums.linear(&leaves[0], Some(&leaves[1]));
        let targets = Tensor::from_slice(&batch.labels);
        let loss = logits.cross_entropy_loss::<Tensor>(&targets, None, tch::Reduction::Mean, -1, 0.0);
        let gradients: Vec<f64> = Tensor::run_backward(&[loss], &leaves, false, false)
            .iter()
            .flat_map(|g| Vec::<f64>::try_from(g.flatten(0, -1)).unwrap())
            .collect();
        for i in 0..expected.len() {
            let gradient = gradients[i] + 0.1 * expected[i];
            first[i] = 0.9 * first[i] + 0.1 * gradient;
            second[i] = 0.999 * second[i] + 0.001 * gradient * gradient;
            let unbiased = first[i] / (1.0 - 0.9f64.powi(step));
            let scale = (second[i] / (1.0 - 0.999f64.powi(step))).sqrt() + 1e-8;
            expected[i] -= 0.05 * unbiased / scale;
        }
        trainer.train_batch(0, step as u32, &batch.columns(), &mut || Ok(())).unwrap();
        let found: Vec<f64> = parameters(&trainer).into_iter().flat_map(|p| p.2).collect();
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-10, "step {step}: {found} {expected}");
        }
    }
}

#[test]
fn initial_parameters_are_within_glorots_bound_and_fill_it() {
    let trainer = Trainer::new(&options(ModelKind::Sage, 64, 2), 32, 5, TrainDevice::Cpu).unwrap();
    for (name, shape, values) in parameters(&trainer) {
        let largest = values.iter().fold(0.0f64, |a, b| a.max(b.abs()));
        if name.ends_with("bias") {
            assert_eq!(largest, 0.0, "{name}");
        } else {
            let bound = (6.0 / (shape[0] + shape[1]) as f64).sqrt();
            assert!(largest <= bound * 1.000001 && largest > 0.95 * bound, "{name}: {largest} of {bound}");
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            assert!(mean.abs() < 0.1 * bound, "{name}: mean {mean}");
        }
    }
    assert_eq!(trainer.parameter_count(), 2 * 32 * 64 + 64 + 2 * 64 * 5 + 5);
}

#[test]
fn a_batch_of_unlabelled_seeds_changes_nothing() {
    let mut graph = Graph::random(40, 4, 3, 4);
    graph.labels.fill(-1);
    let mut trainer = Trainer::new(&with_dropout(ModelKind::Sage), 4, 3, TrainDevice::Cpu).unwrap();
    let before = parameter_bits(&trainer);
    let batch = graph.batch(&[0, 1, 2], &[3, 3]);
    assert_eq!(trainer.train_batch(0, 0, &batch.columns(), &mut || Ok(())).unwrap(), Step::default());
    assert_eq!(trainer.evaluate_batch(&batch.columns(), &mut || Ok(())).unwrap().accuracy(), None);
    assert_eq!((parameter_bits(&trainer), trainer.steps().unwrap()), (before, 0));
}

#[test]
fn nan_features_are_refused_before_they_reach_the_model() {
    for value in [f32::NAN, f32::INFINITY] {
        let mut graph = Graph::random(40, 4, 3, 4);
        let mut trainer = Trainer::new(&with_dropout(ModelKind::Sage), 4, 3, TrainDevice::Cpu).unwrap();
        let good = graph.batch(&[0, 1, 2], &[3, 3]);
        trainer.train_batch(0, 0, &good.columns(), &mut || Ok(())).unwrap();
        let before = parameter_bits(&trainer);
        graph.features.fill(value);
        let bad = graph.batch(&[0, 1, 2], &[3, 3]);
        match trainer.train_batch(2, 5, &bad.columns(), &mut || Ok(())).unwrap_err() {
            TrainError::Diverged { epoch: 2, batch: 5, loss } => assert!(!loss.is_finite()),
            other => panic!("{other}"),
        }
        assert_eq!((parameter_bits(&trainer), trainer.steps().unwrap()), (before, 1));
    }
}

#[test]
fn the_best_parameters_come_back() {
    let graph = Graph::random(60, 8, 3, 3);
    let mut trainer = Trainer::new(&with_dropout(ModelKind::Gcn), 8, 3, TrainDevice::Cpu).unwrap();
    assert!(!trainer.restore_best().unwrap());
    losses(&graph, &mut trainer, 0..1);
    trainer.keep_best().unwrap();
    let best = parameter_bits(&trainer);
    losses(&graph, &mut trainer, 1..2);
    assert_ne!(parameter_bits(&trainer), best);
    assert!(trainer.restore_best().unwrap());
    assert_eq!(parameter_bits(&trainer), best);
    // The copies are separate from the parameters: further training does not change them.
    losses(&graph, &mut trainer, 2..3);
    assert!(trainer.restore_best().unwrap());
    assert_eq!(parameter_bits(&trainer), best);
}

#[test]
fn options_that_cannot_work_are_refused_by_name() {
    let good = options(ModelKind::Sage, 4, 2);
    type Change = fn(&mut TrainerOptions);
    let changes: [(&str, Change); 12] = [
        ("hidden", |o| o.hidden = 0),
        ("fanouts", |o| o.layers = 0),
        ("dropout", |o| o.dropout = 1.0),
        ("dropout", |o| o.dropout = f64::NAN),
        ("input_dropout", |o| o.input_dropout = -0.1),
        ("lr", |o| o.learning_rate = f64::INFINITY),
        ("heads", |o| (o.model, o.heads) = (ModelKind::Gat, 3)),
        ("heads", |o| (o.model, o.heads) = (ModelKind::Gat, 0)),
        ("output_heads", |o| o.output_heads = Some(0)),
        ("attention_dropout", |o| o.attention_dropout = 1.0),
        ("weight_decay", |o| o.weight_decay = -1.0),
        ("train_threads", |o| o.threads = Some(0)),
    ];
    for (option, change) in changes {
        let mut options = good.clone();
        change(&mut options);
        let error = Trainer::new(&options, 4, 3, TrainDevice::Cpu).unwrap_err();
        assert!(error.is_usage() && error.to_string().starts_with(&format!("`{option}`")), "{error}");
    }
    assert!(matches!(
        Trainer::new(&good, 0, 3, TrainDevice::Cpu),
        Err(TrainError::Options(OptionsError::Unsupported(_)))
    ));
    assert!(matches!(
        Trainer::new(&good, 4, 0, TrainDevice::Cpu),
        Err(TrainError::Options(OptionsError::Unsupported(_)))
    ));
}

#[test]
fn batches_that_contradict_themselves_are_refused() {
    let graph = Graph::random(40, 4, 3, 4);
    let mut trainer = Trainer::new(&options(ModelKind::Gcn, 4, 2), 4, 3, TrainDevice::Cpu).unwrap();
    let batch = graph.batch(&[0, 1, 2], &[3, 3]);
    let good = || batch.columns();
    let mut refused = |columns: &BatchColumns<'_>, part: &str| {
        let error = trainer.train_batch(0, 0, columns, &mut || Ok(())).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(part), "{part}: {error}");
    };
    refused(&batch.of_blocks(1), "1 blocks for a model of 2 layers");
    refused(&good().with(Column::X, f32_rows(&batch.features, 2)), "2 feature columns");
    refused(&good().with(Column::X, f32_rows(&batch.features[4..], 4)), "feature rows where the batch has");
    refused(&BatchColumns { nodes: batch.nodes.len() - 1, ..good() }, "below it has");
    let x = f32_rows(&batch.features, 4);
    let bytes = x.host().unwrap();
    let rows = |bytes| good().with(Column::X, ColumnArray::table(bytes, Element::F32, x.rows, 4));
    refused(&rows(&bytes[4..]), "bytes of feature rows");
    refused(&good().with_labels(Labels::Single(&batch.labels[1..])), "2 labels for 3 seeds");
    refused(&good().with_labels(Labels::Single(&[0, 3, 0])), "label 3 at position 1");
    refused(&good().with_labels(Labels::Single(&[0, -2, 0])), "label -2");
    refused(&good().with_labels(Labels::Multi { classes: 3, values: &[0; 9] }), "multi-label");
    refused(&good().with(Column::Degrees, i32s(&batch.degrees[1..])), "degrees for");
    for id in [-1, batch.blocks[1].sources as i32] {
        let mut indices = batch.blocks[1].indices.clone();
        indices[2] = id;
        let changed = good().with(Column::Indices.at(1), i32s(&indices));
        refused(&changed, &format!("block 1: source {id} at edge 2"));
    }
    let mut indptr = batch.blocks[1].indptr.clone();
    indptr[1] = indptr[2] + 1;
    let with_offsets = |offsets| good().with(Column::Indptr.at(1), i32s(offsets));
    refused(&with_offsets(&indptr), "block 1: the offset falls");
    refused(&with_offsets(&indptr[1..]), "offsets for");
    let wide = ColumnArray { element: Element::I64, ..i32s(&batch.degrees) };
    refused(&good().with(Column::Degrees, wide), "degrees: ");
    // Rows that do not start on a multiple of four bytes.
    let mut moved = vec![0u8; bytes.len() + 4];
    let shift = if moved.as_ptr().align_offset(4) == 1 { 2 } else { 1 };
    moved[shift..][..bytes.len()].copy_from_slice(bytes);
    refused(&rows(&moved[shift..][..bytes.len()]), "not a multiple of 4 bytes");
}

#[test]
fn tables_that_contradict_each_other_are_refused() {
    let graph = Graph::random(40, 4, 3, 4);
    let trainer = Trainer::new(&options(ModelKind::Gcn, 4, 2), 4, 3, TrainDevice::Cpu).unwrap();
    let labels = Labels::Single(&graph.labels);
    let refused = |csc, table, labels, ids: &[i64], part: &str| {
        let error = trainer.evaluate_full((csc, table), labels, ids).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(part), "{part}: {error}");
    };
    refused(graph.csc(), graph.table(), labels, &[40], "node id 40");
    refused(graph.csc(), graph.table(), labels, &[-1], "node id -1");
    refused(graph.csc(), graph.table(), Labels::Single(&graph.labels[1..]), &[0], "39 labels");
    let short = uva_graph::FeatureTable { bytes: &graph.table().bytes[4..], ..graph.table() };
    refused(graph.csc(), short, labels, &[0], "ends before row 40");
    let mut indptr = graph.indptr.clone();
    indptr[1] = indptr[2] + 1;
    refused(uva_graph::Csc { indptr: &indptr, ..graph.csc() }, graph.table(), labels, &[0], "fall at node 1");
    let mut indices = graph.indices.clone();
    indices[5] = 40;
    let csc = uva_graph::Csc { indices: uva_graph::Indices::I32(&indices), ..graph.csc() };
    refused(csc, graph.table(), labels, &[0], "neighbour 40 at edge 5");
}

#[test]
fn row_normalised_features_train() {
    let graph = Graph::random(60, 8, 3, 3);
    let options = TrainerOptions { feature_norm: FeatureNorm::Row, ..with_dropout(ModelKind::Sage) };
    let mut trainer = Trainer::new(&options, 8, 3, TrainDevice::Cpu).unwrap();
    assert!(losses(&graph, &mut trainer, 0..2).iter().all(|step| step.loss.is_finite()));
}

#[test]
fn products_of_bfloat16_change_losses_by_their_rounding() {
    let graph = Graph::random(120, 8, 3, 6);
    for model in [ModelKind::Sage, ModelKind::Gcn] {
        let of = |matmul_precision| {
            let options = TrainerOptions { matmul_precision, ..with_dropout(model) };
            let mut trainer = Trainer::new(&options, 8, 3, TrainDevice::Cpu).unwrap();
            losses(&graph, &mut trainer, 0..3)
        };
        let (own, rounded) = (of(MatmulPrecision::Float32), of(MatmulPrecision::Bfloat16));
        assert_ne!(bits(&own), bits(&rounded));
        for (own, rounded) in own.iter().zip(&rounded) {
            assert!((own.loss - rounded.loss).abs() < 0.03 * own.loss, "{} {}", own.loss, rounded.loss);
        }
    }
}
