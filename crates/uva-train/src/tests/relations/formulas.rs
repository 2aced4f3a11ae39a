//! The layers compared with dense matrices, and their gradients with finite differences, in f64.

use super::batches::{
    CLASSES, COUNTS, EVEN, RELATIONS, TYPES, TypedBatch, graph, of_type, options_of, trainer,
};
use crate::input::prepared::Prepared;
use crate::tests::blocks::gradients::check;
use crate::tests::support::{draws, fill_biases};
use crate::train::trainer::Trainer;
use std::collections::HashMap;
use tch::{Kind, Tensor};
use uva_model::{ModelKind, RelationSum, RelationWeights, RootKind, TrainerOptions};

/// The seeds' logits by the formulas of the models.
struct Reference<'a> {
    batch: &'a TypedBatch,
    options: &'a TrainerOptions,
    parameters: HashMap<String, Tensor>,
}

/// The place of a layer, and the rows of each type before it.
struct Place {
    layer: usize,
    /// The number of its blocks, from the seeds.
    level: usize,
    x: Vec<Option<Tensor>>,
}

impl Reference<'_> {
    fn of(&self, name: &str) -> &Tensor {
        &self.parameters[name]
    }

    /// x Wᵀ + b.
    fn linear(&self, name: &str, x: &Tensor) -> Tensor {
        x.matmul(&self.of(&format!("{name}.weight")).tr()) + self.of(&format!("{name}.bias"))
    }

    /// The mean of the listed rows of each destination, by a dense matrix.
    fn mean(&self, at: &Place, relation: usize) -> Tensor {
        let rows = at.x[of_type(RELATIONS[relation][0])].as_ref().unwrap();
        let (indptr, indices) = &self.batch.lists[at.level][relation];
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

    /// The relations into a type whose rows are read, from types that have rows.
    fn into(&self, at: &Place, destination: usize) -> Vec<usize> {
        let is_used = |&r: &usize| {
            let [from, _, to] = RELATIONS[r];
            of_type(to) == destination && at.x[of_type(from)].is_some() && to != "venue"
        };
        (0..RELATIONS.len()).filter(is_used).collect()
    }

    fn rsage(&self, at: &Place, destination: usize) -> Option<Tensor> {
        let into = self.into(at, destination);
        let own = at.x[destination].as_ref()?.narrow(0, 0, COUNTS[at.level][destination] as i64);
        let term = |&r: &usize| {
            let name = format!("convs.{}.convs.<{}>", at.layer, RELATIONS[r].join("___"));
            let term = self.linear(&format!("{name}.lin_l"), &self.mean(at, r));
            match self.options.root {
                RootKind::Relation => term + own.matmul(&self.of(&format!("{name}.lin_r.weight")).tr()),
                _ => term,
            }
        };
        let terms = into.iter().map(term).collect::<Vec<_>>();
        let terms = (!terms.is_empty()).then(|| Tensor::stack(&terms, 0))?;
        let rows = match self.options.relation_sum {
            RelationSum::Sum => terms.sum_dim_intlist([0i64].as_slice(), false, Kind::Double),
            RelationSum::Mean => terms.mean_dim([0i64].as_slice(), false, Kind::Double),
        };
        Some(match self.options.root {
            RootKind::Type => {
                rows + self.linear(&format!("roots.{}.{}", at.layer, TYPES[destination].0), &own)
            }
            _ => rows,
        })
    }

    fn rgcn(&self, at: &Place, destination: usize) -> Option<Tensor> {
        let (into, name) = (self.into(at, destination), format!("convs.{}", at.layer));
        let (x, weight) = (at.x[destination].as_ref()?, self.of(&format!("{name}.weight")));
        let own = if into.is_empty() {
            x.shallow_clone()
        } else {
            x.narrow(0, 0, COUNTS[at.level][destination] as i64)
        };
        let part = |part: &str| match self.options.root {
            RootKind::Type => self.of(&format!("{name}.{part}.{}", TYPES[destination].0)),
            _ => self.of(&format!("{name}.{part}")),
        };
        let mut rows = own.matmul(part("root")) + part("bias");
        for r in into {
            let number = self.number(at, r);
            let matrix = match self.options.relation_weights {
                RelationWeights::Free => weight.get(number),
                RelationWeights::Bases(bases) => {
                    let share = |base: i64| self.of(&format!("{name}.comp")).get(number).get(base);
                    (0..bases as i64).map(|base| weight.get(base) * share(base)).sum()
                }
                RelationWeights::Blocks(blocks) => {
                    let blocks: Vec<Tensor> = (0..blocks as i64).map(|b| weight.get(number).get(b)).collect();
                    Tensor::block_diag(&blocks)
                }
            };
            rows += self.mean(at, r).matmul(&matrix);
        }
        Some(rows)
    }

    fn rgat(&self, at: &Place, destination: usize) -> Option<Tensor> {
        let own = at.x[destination].as_ref()?.narrow(0, 0, COUNTS[at.level][destination] as i64);
        let heads = self.options.heads as i64;
        let term = |r: usize| {
            let name = format!("convs.{}.convs.<{}>", at.layer, RELATIONS[r].join("___"));
            let map = |end: &str, rows: &Tensor| {
                let shared = self.parameters.get(&format!("{name}.lin.weight"));
                let weight = shared.unwrap_or_else(|| self.of(&format!("{name}.lin_{end}.weight")));
                rows.matmul(&weight.tr()).view([rows.size()[0], heads, -1])
            };
            let score = |end: &str, rows: &Tensor| {
                let products = rows * self.of(&format!("{name}.att_{end}"));
                products.sum_dim_intlist([2i64].as_slice(), false, Kind::Double)
            };
            let rows = map("src", at.x[of_type(RELATIONS[r][0])].as_ref().unwrap());
            let (of_rows, of_own) = (score("src", &rows), score("dst", &map("dst", &own)));
            let (indptr, indices) = &self.batch.lists[at.level][r];
            let sums: Vec<Tensor> = (0..indptr.len() - 1)
                .map(|v| {
                    let picks: Vec<i64> = indices[indptr[v] as usize..indptr[v + 1] as usize]
                        .iter()
                        .map(|&u| u.into())
                        .collect();
                    let picks = Tensor::from_slice(&picks);
                    let scores = of_rows.index_select(0, &picks) + of_own.get(v as i64);
                    let weights = scores.maximum(&(&scores * 0.2)).softmax(0, Kind::Double).unsqueeze(2);
                    let sum = rows.index_select(0, &picks) * weights;
                    sum.sum_dim_intlist([0i64].as_slice(), false, Kind::Double).flatten(0, 1)
                })
                .collect();
            let columns = self.of(&format!("{name}.bias"));
            let sums = if sums.is_empty() {
                columns.new_zeros([0, columns.size()[0]], (Kind::Double, tch::Device::Cpu))
            } else {
                Tensor::stack(&sums, 0)
            };
            sums + columns
        };
        self.into(at, destination).into_iter().map(term).reduce(|sum, term| sum + term)
    }

    fn hgt(&self, at: &Place, destination: usize) -> Option<Tensor> {
        let (into, name, heads) =
            (self.into(at, destination), format!("convs.{}", at.layer), self.options.heads);
        let count = COUNTS[at.level][destination] as i64;
        let own = at.x[destination].as_ref().filter(|_| !into.is_empty())?.narrow(0, 0, count);
        let heads = heads as i64;
        let three = |of_type: usize, rows: &Tensor| -> Vec<Tensor> {
            let all = self.linear(&format!("{name}.kqv_lin.lins.{}", TYPES[of_type].0), rows);
            all.chunk(3, 1).iter().map(|part| part.reshape([rows.size()[0], heads, -1])).collect()
        };
        let queries = &three(destination, &own)[1];
        let width = queries.size()[2];
        // Keys, values and factors of each relation, and the picks.
        let used: usize = (0..TYPES.len())
            .filter(|&to| at.level > 0 || TYPES[to].0 == "paper")
            .map(|to| self.into(at, to).len())
            .sum();
        let parts = into.iter().map(|&r| {
            let number = self.number(at, r);
            let source = of_type(RELATIONS[r][0]);
            let rows = three(source, at.x[source].as_ref().unwrap());
            let mapped = |part: &str, rows: &Tensor| {
                let matrices = self.of(&format!("{name}.{part}_rel.weight"));
                let by_head = (0..heads)
                    .map(|head| rows.select(1, head).matmul(&matrices.get(head * used as i64 + number)));
                Tensor::stack(&by_head.collect::<Vec<_>>(), 1)
            };
            let factors = self.of(&format!("{name}.p_rel.{}", RELATIONS[r].join("__")));
            (
                mapped("k", &rows[0]),
                mapped("v", &rows[2]),
                factors.shallow_clone(),
                &self.batch.lists[at.level][r],
            )
        });
        let parts: Vec<_> = parts.collect();
        let attended: Vec<Tensor> = (0..count)
            .map(|v| {
                let (mut scores, mut values) = (Vec::new(), Vec::new());
                for (keys, own_values, factors, (indptr, indices)) in &parts {
                    for &u in &indices[indptr[v as usize] as usize..indptr[v as usize + 1] as usize] {
                        let products = queries.get(v) * keys.get(u.into());
                        let score = products.sum_dim_intlist([1i64].as_slice(), false, Kind::Double);
                        scores.push(score * factors.get(0) / (width as f64).sqrt());
                        values.push(own_values.get(u.into()));
                    }
                }
                if scores.is_empty() {
                    return queries.get(v).zeros_like().flatten(0, 1);
                }
                let weights = Tensor::stack(&scores, 0).softmax(0, Kind::Double).unsqueeze(2);
                let sum = Tensor::stack(&values, 0) * weights;
                sum.sum_dim_intlist([0i64].as_slice(), false, Kind::Double).flatten(0, 1)
            })
            .collect();
        let attended = if attended.is_empty() { own.zeros_like() } else { Tensor::stack(&attended, 0) };
        let halved = &attended * 0.5;
        let gelu = halved * ((attended / 2f64.sqrt()).erf() + 1.0);
        let mapped = self.linear(&format!("{name}.out_lin.lins.{}", TYPES[destination].0), &gelu);
        let share = self.of(&format!("{name}.skip.{}", TYPES[destination].0)).sigmoid();
        Some(mapped * &share + own * (1.0 - share))
    }

    /// The number of a relation among those that the layer uses.
    fn number(&self, at: &Place, relation: usize) -> i64 {
        let types = (0..TYPES.len()).filter(|&to| at.level > 0 || TYPES[to].0 == "paper");
        types.flat_map(|to| self.into(at, to)).filter(|&other| other < relation).count() as i64
    }

    fn logits(&self) -> Tensor {
        let levels = COUNTS.len() - 1;
        let table = |(of_type, (rows, columns)): (usize, &(Vec<f32>, usize))| {
            let rows = Tensor::from_slice(rows).to_kind(Kind::Double).view([-1, (*columns).max(1) as i64]);
            let is_hgt = self.options.model == ModelKind::Hgt;
            let name = format!("{}.{}", if is_hgt { "lin_dict" } else { "input" }, TYPES[of_type].0);
            let is_mapped = self.parameters.contains_key(&format!("{name}.weight"));
            (*columns > 0).then(|| match is_mapped {
                true if is_hgt => self.linear(&name, &rows).relu(),
                true => self.linear(&name, &rows),
                false => rows,
            })
        };
        let mut x: Vec<Option<Tensor>> = self.batch.rows.iter().enumerate().map(table).collect();
        for layer in 0..levels {
            let at = Place { layer, level: levels - 1 - layer, x };
            let is_last = layer + 1 == levels;
            let rows = |destination: usize| match self.options.model {
                _ if is_last && TYPES[destination].0 != "paper" => None,
                ModelKind::Rgcn => self.rgcn(&at, destination),
                ModelKind::Rgat => self.rgat(&at, destination),
                ModelKind::Hgt => self.hgt(&at, destination),
                _ => self.rsage(&at, destination),
            };
            let activated = |rows: Tensor| match self.options.model {
                _ if is_last => rows,
                ModelKind::Rgat => rows.leaky_relu(),
                ModelKind::Hgt => rows,
                _ => rows.relu(),
            };
            x = (0..TYPES.len()).map(|destination| rows(destination).map(activated)).collect();
        }
        let rows = x[of_type("paper")].take().unwrap();
        if self.parameters.contains_key("lin.weight") { self.linear("lin", &rows) } else { rows }
    }
}

fn reference(batch: &TypedBatch, trainer: &Trainer) -> Tensor {
    let parameters = trainer.model.parameters().into_iter().collect();
    Reference { batch, options: trainer.options(), parameters }.logits()
}

pub(super) fn every_kind() -> Vec<TrainerOptions> {
    let mut all = Vec::new();
    for root in [RootKind::Relation, RootKind::Type, RootKind::None] {
        for relation_sum in [RelationSum::Sum, RelationSum::Mean] {
            all.push(TrainerOptions { root, relation_sum, ..options_of(ModelKind::Rsage) });
        }
    }
    for root in [RootKind::Shared, RootKind::Type] {
        for weights in [RelationWeights::Free, RelationWeights::Bases(3), RelationWeights::Blocks(2)] {
            let mapped = TrainerOptions { root, relation_weights: weights, ..options_of(ModelKind::Rgcn) };
            all.push(TrainerOptions { graph: Some(graph(EVEN)), ..mapped.clone() });
            all.push(mapped);
        }
    }
    for (model, heads) in
        [(ModelKind::Rgat, 1), (ModelKind::Rgat, 2), (ModelKind::Hgt, 1), (ModelKind::Hgt, 2)]
    {
        let mapped = TrainerOptions { heads, ..options_of(model) };
        all.push(TrainerOptions { graph: Some(graph(EVEN)), ..mapped.clone() });
        all.push(mapped);
    }
    all
}

pub(super) fn name(options: &TrainerOptions) -> String {
    let TrainerOptions { model, root, relation_sum, relation_weights, hidden, heads, .. } = options;
    let columns = options.graph.as_ref().unwrap().types[0].columns;
    format!("{model:?} {root:?} {relation_sum:?} {relation_weights:?} {columns:?} {hidden} {heads}")
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
            let (trainer, batch) = (trainer(&options, Kind::Double), TypedBatch::of(&options, seed));
            fill_biases(&trainer);
            let (found, expected) = (logits(&trainer, &batch, false), reference(&batch, &trainer));
            assert_eq!(found.size(), [COUNTS[0][0] as i64, CLASSES as i64]);
            let difference = (found - expected).abs().max().double_value(&[]);
            assert!(difference < 1e-12, "{}: {difference}", name(&options));
        }
    }
}

#[test]
fn gradients_equal_finite_differences_with_and_without_dropout() {
    for kind in every_kind() {
        // Both orders of multiplying and aggregating occur: rows of seven columns become rows of two, and of six.
        for (hidden, dropout, input_dropout) in [(6, 0.0, 0.0), (2, 0.3, 0.2)] {
            let options = TrainerOptions { hidden, dropout, input_dropout, ..kind.clone() };
            let (trainer, batch) = (trainer(&options, Kind::Double), TypedBatch::of(&options, 3));
            fill_biases(&trainer);
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
            check(&trainer.model.parameters(), &gradients, &loss, &name(&options));
        }
    }
}

#[test]
fn the_footprint_counts_the_parameters_of_every_kind() {
    for options in every_kind() {
        let found = trainer(&options, Kind::Float).parameter_count() as u64;
        let shapes = uva_model::Shapes { input_dim: 3, classes: CLASSES, seeds: 0, nodes_evaluated: None };
        assert_eq!(uva_model::Footprint::new(&options, &shapes).parameters, found, "{}", name(&options));
    }
}
