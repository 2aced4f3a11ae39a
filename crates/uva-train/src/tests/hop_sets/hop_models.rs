//! The models over hop sets compared with plain code, and their gradients with finite differences, in f64.

use super::hop_rows::{CLASSES, HOP_MODELS, HopSet, options};
use crate::tests::blocks::gradients::check;
use crate::tests::support::{draws, fill_biases};
use crate::torch::device::TrainDevice;
use crate::train::trainer::Trainer;
use std::collections::HashMap;
use tch::{Kind, Tensor};
use uva_model::{ActivationKind, ModelKind, TrainerOptions};

const DIM: usize = 5;
const SEEDS: usize = 7;

fn trainer(options: &TrainerOptions) -> Trainer {
    let trainer = Trainer::with_kind(options, DIM, CLASSES, Kind::Double, TrainDevice::Cpu).unwrap();
    fill_biases(&trainer);
    trainer
}

/// Every shape of network: numbers of hops, operators, layers and heads.
fn cases() -> Vec<(TrainerOptions, usize)> {
    let mut cases = Vec::new();
    for model in HOP_MODELS {
        for hops in [1, 3] {
            let usual = options(model, 6, hops);
            // One more hop is stored than is read.
            cases.push((usual.clone(), hops + 1));
            match model {
                ModelKind::Sgc => {}
                ModelKind::S2gc => cases.push((TrainerOptions { alpha: 0.4, ..usual }, hops)),
                ModelKind::Sign => {
                    let prelu = ActivationKind::Prelu;
                    cases.push((TrainerOptions { layers: 2, ..usual.clone() }, hops));
                    cases.push((TrainerOptions { operators: 2, ..usual.clone() }, hops + 1));
                    cases.push((TrainerOptions { operators: 3, activation: prelu, ..usual }, hops));
                }
                _ => {
                    cases.push((TrainerOptions { layers: 1, heads: 1, ..usual.clone() }, hops));
                    cases.push((TrainerOptions { heads: 3, ..usual }, hops));
                }
            }
        }
    }
    cases
}

/// A network's parameters by name.
struct Plain(HashMap<String, Tensor>);

impl Plain {
    fn of(trainer: &Trainer) -> Self {
        Self(trainer.model.parameters().into_iter().collect())
    }

    fn get(&self, name: &str) -> &Tensor {
        self.0.get(name).unwrap_or_else(|| panic!("no {name}"))
    }

    /// A linear map, with bias where it has one.
    fn map(&self, name: &str, x: &Tensor) -> Tensor {
        let product = x.matmul(&self.get(&format!("{name}weight")).tr());
        match self.0.get(&format!("{name}bias")) {
            Some(bias) => product + bias,
            None => product,
        }
    }

    /// Layer normalisation from its definition.
    fn norm(&self, name: &str, x: &Tensor) -> Tensor {
        let mean = x.mean_dim([-1i64].as_slice(), true, Kind::Double);
        let variance = (x - &mean).square().mean_dim([-1i64].as_slice(), true, Kind::Double);
        (x - mean) / (variance + 1e-5).sqrt() * self.get(&format!("{name}weight"))
            + self.get(&format!("{name}bias"))
    }

    /// A layer of attention between the hops of one node, [hops, hidden]: one query and one key after the other.
    fn attended(&self, layer: usize, z: &Tensor, heads: i64) -> Tensor {
        let [queries, keys, values] =
            ["query", "key", "value"].map(|map| self.map(&format!("layers.{layer}.{map}."), z));
        let (hops, hidden) = z.size2().unwrap();
        let width = hidden / heads;
        let rows: Vec<Tensor> = (0..hops)
            .map(|query| {
                let of_heads: Vec<Tensor> = (0..heads)
                    .map(|head| {
                        let columns = |rows: &Tensor, hop: i64| rows.get(hop).narrow(0, head * width, width);
                        let score = |key: i64| {
                            let product = columns(&queries, query).dot(&columns(&keys, key));
                            (product.double_value(&[]) / (width as f64).sqrt()).exp()
                        };
                        let total: f64 = (0..hops).map(score).sum();
                        let weighed = |key: i64| columns(&values, key) * (score(key) / total);
                        (1..hops).map(weighed).fold(weighed(0), |sum, next| sum + next)
                    })
                    .collect();
                Tensor::cat(&of_heads, 0)
            })
            .collect();
        self.map(&format!("layers.{layer}.out."), &Tensor::stack(&rows, 0))
    }

    /// The logits of one node from its rows, [hops, features].
    fn hoga(&self, options: &TrainerOptions, rows: &Tensor) -> Tensor {
        let mapped: Vec<Tensor> =
            (0..=options.hops).map(|hop| self.map(&format!("hops.{hop}."), &rows.get(hop as i64))).collect();
        let mut z = Tensor::stack(&mapped, 0);
        for layer in 0..options.layers {
            let attended = self.attended(layer, &z, options.heads as i64);
            let gated = self.map(&format!("layers.{layer}.gate."), &z) * attended;
            z = self.norm(&format!("layers.{layer}.norm."), &gated).relu();
        }
        // As in the paper, with a part of the scores for hop 0: its values do not matter.
        let own = Tensor::linspace(-1.0, 2.0, options.hidden as i64, (Kind::Double, z.device()));
        let score = |hop: i64| {
            let score = own.dot(&z.get(0)) + self.get("readout.weight").dot(&z.get(hop));
            score.double_value(&[]).exp()
        };
        let hops = 1..=options.hops as i64;
        let total: f64 = hops.clone().map(score).sum();
        let y = hops.map(|hop| z.get(hop) * (score(hop) / total)).fold(z.get(0), |sum, next| sum + next);
        let hidden = self.norm("first.norm.", &self.map("first.", &y).relu());
        self.map("second.", &hidden)
    }

    /// The logits of a model, from its formulas alone.
    fn logits(&self, options: &TrainerOptions, set: &HopSet) -> Tensor {
        let table = |operator: usize, hop: usize| {
            let place = if hop == 0 { 0 } else { 1 + operator * set.hops + (hop - 1) };
            set.tables[place].to_kind(Kind::Double)
        };
        match options.model {
            ModelKind::Sgc => self.map("output.", &table(0, options.hops)),
            ModelKind::S2gc => {
                let mixed = |hop| table(0, hop) * (1.0 - options.alpha) + table(0, 0) * options.alpha;
                let sum = (2..=options.hops).map(mixed).fold(mixed(1), |sum, next| sum + next);
                self.map("output.", &(sum / options.hops as f64))
            }
            ModelKind::Sign => {
                let active = |layer: usize, x: Tensor| match options.activation {
                    ActivationKind::Relu => x.relu(),
                    ActivationKind::Prelu => {
                        let slope = self.get(&format!("layers.{layer}.slope")).double_value(&[0]);
                        x.relu() - (-&x).relu() * slope
                    }
                };
                let of_hop = |hop: usize| {
                    let operators = if hop == 0 { 1 } else { options.operators };
                    let side_by_side: Vec<Tensor> =
                        (0..operators).map(|operator| table(operator, hop)).collect();
                    active(0, self.map(&format!("hops.{hop}."), &Tensor::cat(&side_by_side, 1)))
                };
                let all: Vec<Tensor> = (0..=options.hops).map(of_hop).collect();
                let mut x = Tensor::cat(&all, 1);
                for layer in 1..options.layers {
                    x = self.map(&format!("layers.{layer}."), &x);
                    if layer + 1 < options.layers {
                        x = active(layer, x);
                    }
                }
                x
            }
            _ => {
                let node = |node: i64| {
                    let rows: Vec<Tensor> = (0..=options.hops).map(|hop| table(0, hop).get(node)).collect();
                    self.hoga(options, &Tensor::stack(&rows, 0))
                };
                Tensor::stack(&(0..set.seeds as i64).map(node).collect::<Vec<_>>(), 0)
            }
        }
    }
}

#[test]
fn logits_of_models_over_hop_sets_are_those_of_their_formulas() {
    for (options, stored) in cases() {
        let set = HopSet::random((SEEDS, DIM), (stored, options.operators), 3);
        let trainer = trainer(&options);
        let found = tch::no_grad(|| trainer.model.forward(set.inputs(&options), &[], None).unwrap().logits);
        let expected = tch::no_grad(|| Plain::of(&trainer).logits(&options, &set));
        assert_eq!(found.size(), [SEEDS as i64, CLASSES as i64]);
        let off = (&found - expected).abs().max().double_value(&[]);
        assert!(off < 1e-12 && found.abs().max().double_value(&[]) > 1e-2, "{off}: {options:?}");
    }
}

#[test]
fn gradients_of_hop_models_equal_finite_differences_for_any_dropout() {
    for (options, stored) in cases() {
        for dropped in [false, true] {
            let p = |share: f64| if dropped { share } else { 0.0 };
            let options = TrainerOptions { dropout: p(0.4), input_dropout: p(0.2), ..options.clone() };
            let set = HopSet::random((SEEDS, DIM), (stored, options.operators), 3);
            let trainer = trainer(&options);
            let forward = || trainer.model.forward(set.inputs(&options), &[], Some(&mut draws())).unwrap();
            let loss = || forward().logits.square().sum(Kind::Double);
            let gradients = tch::no_grad(|| {
                let first = forward();
                trainer.model.backward(&first, &[], &first.logits * 2.0).unwrap().parameters
            });
            check(&trainer.model.parameters(), &gradients, &loss, &format!("{dropped} {options:?}"));
        }
    }
}
