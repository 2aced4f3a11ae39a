//! The layers compared with dense matrices, and their gradients with finite differences, in f64.

use super::batches::{CLASSES, COUNTS, RELATIONS, TYPES, TypedBatch, of_type, options_of, trainer};
use crate::input::prepared::Prepared;
use crate::tests::blocks::gradients::check;
use crate::tests::support::draws;
use crate::train::trainer::Trainer;
use std::collections::HashMap;
use tch::{Kind, Tensor};
use uva_model::{ModelKind, RelationSum, RootKind, TrainerOptions};

const ROOTS: [RootKind; 3] = [RootKind::Relation, RootKind::Type, RootKind::None];
const SUMS: [RelationSum; 2] = [RelationSum::Sum, RelationSum::Mean];

/// The relations that each layer uses.
const USED: [&[&str]; 2] = [&["cites", "writes", "by", "of"], &["cites", "writes"]];

/// The mean of the listed rows of each destination, by a dense matrix.
fn mean(batch: &TypedBatch, level: usize, relation: usize, rows: &Tensor) -> Tensor {
    let (indptr, indices) = &batch.lists[level][relation];
    let (destinations, sources) = (indptr.len() - 1, rows.size()[0] as usize);
    let mut matrix = vec![0.0; destinations * sources];
    for v in 0..destinations {
        let list = indptr[v] as usize..indptr[v + 1] as usize;
        for &source in &indices[list.clone()] {
            matrix[v * sources + source as usize] += 1.0 / list.len() as f64;
        }
    }
    Tensor::from_slice(&matrix).view([destinations as i64, sources as i64]).matmul(rows)
}

/// The seeds' logits of rsage by its formula.
fn rsage(batch: &TypedBatch, trainer: &Trainer) -> Tensor {
    let of: HashMap<String, Tensor> = trainer.model.parameters().into_iter().collect();
    let (options, levels) = (trainer.options(), COUNTS.len() - 1);
    let rows = |(rows, (_, columns)): (&Vec<f32>, (&str, usize))| {
        Tensor::from_slice(rows).to_kind(Kind::Double).view([-1, columns.max(1) as i64])
    };
    let mut x: Vec<Option<Tensor>> = batch.rows.iter().zip(TYPES).map(|of| Some(rows(of))).collect();
    for (layer, used) in USED.iter().enumerate() {
        let level = levels - 1 - layer;
        let mut out: Vec<Option<Tensor>> = TYPES.map(|_| None).into();
        for destination in 0..TYPES.len() {
            let into: Vec<usize> = (0..RELATIONS.len())
                .filter(|&r| used.contains(&RELATIONS[r][1]) && of_type(RELATIONS[r][2]) == destination)
                .collect();
            if into.is_empty() {
                continue;
            }
            let own = x[destination].as_ref().unwrap().narrow(0, 0, COUNTS[level][destination] as i64);
            let mut terms = Vec::new();
            for &r in &into {
                let name = format!("convs.{layer}.convs.<{}>", RELATIONS[r].join("___"));
                let source = x[of_type(RELATIONS[r][0])].as_ref().unwrap();
                let mut term = mean(batch, level, r, source)
                    .matmul(&of[&format!("{name}.lin_l.weight")].tr())
                    + &of[&format!("{name}.lin_l.bias")];
                if options.root == RootKind::Relation {
                    term += own.matmul(&of[&format!("{name}.lin_r.weight")].tr());
                }
                terms.push(term);
            }
            let terms = Tensor::stack(&terms, 0);
            let mut rows = match options.relation_sum {
                RelationSum::Sum => terms.sum_dim_intlist([0i64].as_slice(), false, Kind::Double),
                RelationSum::Mean => terms.mean_dim([0i64].as_slice(), false, Kind::Double),
            };
            if options.root == RootKind::Type {
                let name = format!("roots.{layer}.{}", TYPES[destination].0);
                rows += own.matmul(&of[&format!("{name}.weight")].tr()) + &of[&format!("{name}.bias")];
            }
            out[destination] = Some(if layer + 1 < USED.len() { rows.relu() } else { rows });
        }
        x = out;
    }
    x[of_type("paper")].take().unwrap()
}

fn every_kind() -> Vec<TrainerOptions> {
    let of = |(root, relation_sum)| TrainerOptions { root, relation_sum, ..options_of(ModelKind::Rsage) };
    ROOTS.iter().flat_map(|&root| SUMS.map(|sum| (root, sum))).map(of).collect()
}

fn logits(trainer: &Trainer, batch: &TypedBatch, drawn: bool) -> Tensor {
    let (prepared, _) = Prepared::new(&trainer.trains(), &batch.columns()).unwrap().unwrap();
    let mut draws = draws();
    let inputs = trainer.inputs(&prepared.tables).unwrap();
    let forward = trainer.model.forward(inputs, &prepared.blocks, drawn.then_some(&mut draws));
    forward.unwrap().logits
}

#[test]
fn every_kind_of_layer_equals_its_formula() {
    for options in every_kind() {
        for seed in 0..5 {
            let (trainer, batch) = (trainer(&options, Kind::Double), TypedBatch::random(seed));
            let (found, expected) = (logits(&trainer, &batch, false), rsage(&batch, &trainer));
            assert_eq!(found.size(), [COUNTS[0][0] as i64, CLASSES as i64]);
            let difference = (found - expected).abs().max().double_value(&[]);
            assert!(difference < 1e-12, "{:?} {:?}: {difference}", options.root, options.relation_sum);
        }
    }
}

#[test]
fn gradients_equal_finite_differences_with_and_without_dropout() {
    for kind in every_kind() {
        // Both orders of multiplying and aggregating occur: rows of seven columns become rows of two, and of six.
        for (hidden, dropout, input_dropout) in [(6, 0.0, 0.0), (2, 0.3, 0.2)] {
            let options = TrainerOptions { hidden, dropout, input_dropout, ..kind.clone() };
            let (trainer, batch) = (trainer(&options, Kind::Double), TypedBatch::random(3));
            let columns = batch.columns();
            let (prepared, _) = Prepared::new(&trainer.trains(), &columns).unwrap().unwrap();
            let forward = || {
                let inputs = trainer.inputs(&prepared.tables).unwrap();
                trainer.model.forward(inputs, &prepared.blocks, Some(&mut draws())).unwrap()
            };
            let first = forward();
            let gradients =
                trainer.model.backward(&first, &prepared.blocks, &first.logits * 2.0).unwrap().parameters;
            let loss = || forward().logits.square().sum(Kind::Double);
            let what = format!("{:?} {:?} {hidden}", options.root, options.relation_sum);
            check(&trainer.model.parameters(), &gradients, &loss, &what);
        }
    }
}

#[test]
fn the_footprint_counts_the_parameters_of_every_kind() {
    for options in every_kind() {
        let found = trainer(&options, Kind::Float).parameter_count() as u64;
        let shapes = uva_model::Shapes { input_dim: 3, classes: CLASSES, seeds: 0, nodes_evaluated: None };
        assert_eq!(uva_model::Footprint::new(&options, &shapes).parameters, found, "{:?}", options.root);
    }
}
