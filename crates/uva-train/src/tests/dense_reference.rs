//! Each model's forward pass compared with loops in plain Rust, independent of blocks, bags or libtorch.

use super::support::{EDGE_DIM, Graph, MODELS, SHAPES_OF_NETS, f32_rows, fill_biases, options, parameters};
use crate::input::evaluation::Evaluation;
use crate::torch::device::TrainDevice;
use crate::train::trainer::Trainer;
use uva_batch::{Column, ColumnArray};
use uva_graph::{ElementType, FeatureTable, Labels};
use uva_model::{FeatureNorm, ModelKind, TrainerOptions};

pub(super) type Matrix = Vec<Vec<f64>>;

/// Row v of the result: the sum of `weights[v][u] · x[u]` over all u.
fn product(weights: &Matrix, x: &Matrix) -> Matrix {
    let width = x[0].len();
    weights
        .iter()
        .map(|row| (0..width).map(|c| row.iter().zip(x).map(|(w, x)| w * x[c]).sum()).collect())
        .collect()
}

/// x Wᵀ for W given flat as [outputs, inputs].
fn linear(x: &Matrix, weight: &[f64], outputs: usize) -> Matrix {
    let inputs = x[0].len();
    x.iter()
        .map(|row| (0..outputs).map(|o| (0..inputs).map(|i| row[i] * weight[o * inputs + i]).sum()).collect())
        .collect()
}

fn add(a: &Matrix, b: &Matrix) -> Matrix {
    a.iter().zip(b).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + b).collect()).collect()
}

/// The dense N × N aggregation matrix of the whole graph.
fn aggregation(graph: &Graph, model: ModelKind) -> Matrix {
    let n = graph.nodes();
    let degree = |v: usize| graph.list(v).len() as f64;
    let mut matrix = vec![vec![0.0; n]; n];
    for (v, row) in matrix.iter_mut().enumerate() {
        for &u in graph.list(v) {
            row[u as usize] += match model {
                ModelKind::Sage | ModelKind::Gat => 1.0 / degree(v),
                ModelKind::Gin | ModelKind::Gine => 1.0,
                ModelKind::Gcn => 1.0 / ((degree(v) + 1.0) * (degree(u as usize) + 1.0)).sqrt(),
                _ => unreachable!("it has no layers over neighbours"),
            };
        }
        if model == ModelKind::Gcn {
            row[v] += 1.0 / (degree(v) + 1.0);
        }
    }
    matrix
}

/// Edge features of a node's list.
fn edge_rows(graph: &Graph, v: usize) -> Vec<Vec<f64>> {
    let edges = graph.indptr[v] as usize..graph.indptr[v + 1] as usize;
    let rows = &graph.edge_features[edges.start * EDGE_DIM..edges.end * EDGE_DIM];
    rows.chunks(EDGE_DIM).map(|row| row.iter().map(|&x| f64::from(x)).collect()).collect()
}

/// Name, shape and values.
type Parameter = (String, Vec<i64>, Vec<f64>);

/// A GAT layer as in the paper, without the bias: node by node, head by head.
fn attention(
    graph: &Graph,
    layer: [&Parameter; 3],
    of_edges: Option<[&Parameter; 2]>,
    heads: usize,
    averaged: bool,
    x: &Matrix,
) -> Matrix {
    let columns = layer[0].1[0] as usize;
    let width = columns / heads;
    let z = linear(x, &layer[0].2, columns);
    let part = |of: &[f64], v: usize, head: usize| -> f64 {
        (0..width).map(|c| of[head * width + c] * z[v][head * width + c]).sum()
    };
    let mut out = vec![vec![0.0; if averaged { width } else { columns }]; graph.nodes()];
    for (v, row) in out.iter_mut().enumerate() {
        let list: Vec<usize> = graph.list(v).iter().map(|&u| u as usize).chain([v]).collect();
        for head in 0..heads {
            let score = |u: usize| part(&layer[1].2, u, head) + part(&layer[2].2, v, head);
            // The features of each edge, and of the edge from the node to itself: the mean of its list's rows, or
            // zeros.
            let rows = edge_rows(graph, v);
            let mean = |c: usize| rows.iter().map(|row| row[c]).sum::<f64>() / rows.len().max(1) as f64;
            let of_edge = |row: &[f64]| -> f64 {
                let Some([weight, vector]) = of_edges else { return 0.0 };
                let value = |c: usize| {
                    let place = head * width + c;
                    let product = (0..EDGE_DIM).map(|k| weight.2[place * EDGE_DIM + k] * row[k]);
                    vector.2[place] * product.sum::<f64>()
                };
                (0..width).map(value).sum()
            };
            let own: Vec<f64> = (0..EDGE_DIM).map(mean).collect();
            let leaky: Vec<f64> = list
                .iter()
                .zip(rows.iter().chain([&own]))
                .map(|(&u, row)| score(u) + of_edge(row))
                .map(|s| if s > 0.0 { s } else { 0.2 * s })
                .collect();
            let whole: f64 = leaky.iter().map(|s| s.exp()).sum();
            for (&u, s) in list.iter().zip(&leaky) {
                for c in 0..width {
                    let value = s.exp() / whole * z[u][head * width + c];
                    if averaged {
                        row[c] += value / heads as f64;
                    } else {
                        row[head * width + c] += value;
                    }
                }
            }
        }
    }
    out
}

/// A trainer's parameters by name.
struct Parameters(Vec<Parameter>);

impl Parameters {
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|parameter| parameter.0 == name)
    }

    fn get(&self, name: &str) -> &Parameter {
        self.0.iter().find(|parameter| parameter.0 == name).unwrap_or_else(|| panic!("no parameter {name}"))
    }

    fn values(&self, name: &str) -> &[f64] {
        &self.get(name).2
    }

    /// x Wᵀ + b.
    fn linear(&self, prefix: &str, x: &Matrix) -> Matrix {
        let bias = self.values(&format!("{prefix}bias"));
        add_row(linear(x, self.values(&format!("{prefix}weight")), bias.len()), bias)
    }

    /// Layer normalisation where there are parameters for one.
    fn norm(&self, prefix: &str, mut x: Matrix) -> Matrix {
        if !self.has(&format!("{prefix}weight")) {
            return x;
        }
        let (scale, shift) = (self.values(&format!("{prefix}weight")), self.values(&format!("{prefix}bias")));
        for row in &mut x {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / row.len() as f64;
            for (c, value) in row.iter_mut().enumerate() {
                *value = (*value - mean) / (variance + 1e-5).sqrt() * scale[c] + shift[c];
            }
        }
        x
    }
}

fn add_row(mut x: Matrix, row: &[f64]) -> Matrix {
    x.iter_mut().for_each(|values| values.iter_mut().zip(row).for_each(|(value, b)| *value += b));
    x
}

fn activated(model: ModelKind, mut x: Matrix) -> Matrix {
    x.iter_mut().flatten().for_each(|value| {
        *value = if model == ModelKind::Gat { value.max(value.exp_m1().min(0.0)) } else { value.max(0.0) }
    });
    x
}

/// Logits of all nodes.
pub(super) fn dense_forward(graph: &Graph, trainer: &Trainer, x: Matrix) -> Matrix {
    let (options, parameters) = (trainer.options(), Parameters(parameters(trainer)));
    let (model, layers) = (options.model, options.layers);
    let matrix = aggregation(graph, model);
    let layer = |index: usize, averaged: bool, x: &Matrix| {
        let name = |part: &str| format!("layers.{index}.{part}");
        let values = |part: &str| parameters.values(&name(part));
        if matches!(model, ModelKind::Gin | ModelKind::Gine) {
            let eps = values("eps")[0];
            let own: Matrix = x.iter().map(|row| row.iter().map(|x| (1.0 + eps) * x).collect()).collect();
            let sums = match model {
                ModelKind::Gin => product(&matrix, x),
                _ => (0..graph.nodes())
                    .map(|v| {
                        let mut sum = vec![0.0; x[0].len()];
                        for (&u, edge) in graph.list(v).iter().zip(edge_rows(graph, v)) {
                            let of_edge = parameters.linear(&name("lin."), &vec![edge]).remove(0);
                            let message = x[u as usize].iter().zip(of_edge).map(|(x, e)| (x + e).max(0.0));
                            sum.iter_mut().zip(message).for_each(|(sum, message)| *sum += message);
                        }
                        sum
                    })
                    .collect(),
            };
            let hidden = parameters.linear(&name("nn.0."), &add(&own, &sums));
            return parameters.linear(&name("nn.2."), &activated(model, hidden));
        }
        let bias = values("bias");
        let out = match model {
            ModelKind::Sage => {
                let own = linear(x, values("own.weight"), bias.len());
                add(&own, &linear(&product(&matrix, x), values("neighbours.weight"), bias.len()))
            }
            ModelKind::Gcn => linear(&product(&matrix, x), values("weight"), bias.len()),
            ModelKind::Gat => {
                let parts = ["weight", "attention.source", "attention.destination"];
                let heads =
                    if averaged { options.output_heads.unwrap_or(options.heads) } else { options.heads };
                let of_edges = (options.edge_dim > 0)
                    .then(|| ["edge.weight", "attention.edge"].map(|part| parameters.get(&name(part))));
                let layer = parts.map(|part| parameters.get(&name(part)));
                attention(graph, layer, of_edges, heads, averaged, x)
            }
            _ => unreachable!("above, or without layers over neighbours"),
        };
        add_row(out, bias)
    };
    let mut x = x;
    if options.residual {
        x = activated(model, parameters.linear("input.", &x));
        for index in 0..layers {
            let normed = parameters.norm(&format!("layers.{index}.norm."), x.clone());
            let inner = activated(model, layer(index, false, &normed));
            x = add(&x, &parameters.linear(&format!("layers.{index}.second."), &inner));
        }
        return parameters.linear("output.", &parameters.norm("output.norm.", x));
    }
    for index in 0..layers {
        x = layer(index, index + 1 == layers, &x);
        if index + 1 < layers {
            x = activated(model, parameters.norm(&format!("layers.{index}.norm."), x));
        }
    }
    x
}

fn dense_evaluation(graph: &Graph, trainer: &Trainer, x: Matrix, ids: &[usize]) -> Evaluation {
    let logits = dense_forward(graph, trainer, x);
    let mut evaluation = Evaluation::default();
    for &v in ids.iter().filter(|&&v| graph.labels[v] >= 0) {
        let label = graph.labels[v] as usize;
        let largest = logits[v].iter().copied().fold(f64::MIN, f64::max);
        let sum: f64 = logits[v].iter().map(|x| (x - largest).exp()).sum();
        evaluation.loss_sum += sum.ln() + largest - logits[v][label];
        evaluation.correct += usize::from(logits[v].iter().all(|x| *x <= logits[v][label]));
        evaluation.labelled += 1;
    }
    evaluation
}

pub(super) fn rows(graph: &Graph) -> Matrix {
    graph.features.chunks(graph.dim).map(|row| row.iter().map(|&x| f64::from(x)).collect()).collect()
}

fn assert_close(found: &Evaluation, expected: &Evaluation, what: &str) {
    let tolerance = 1e-5 * (1.0 + expected.loss_sum.abs());
    assert!(
        (found.loss_sum - expected.loss_sum).abs() < tolerance,
        "{what}: {found:?}, expected {expected:?}"
    );
    assert_eq!((found.correct, found.labelled), (expected.correct, expected.labelled), "{what}");
}

/// Shapes that take both orders of multiplying and aggregating, one to three layers.
const SHAPES: [(usize, usize, usize); 5] = [(3, 8, 2), (40, 4, 2), (40, 4, 3), (6, 5, 1), (200, 2, 2)];

#[test]
fn full_neighbourhoods_through_blocks_equal_the_dense_model() {
    for model in MODELS {
        for (dim, hidden, layers) in SHAPES {
            let graph = Graph::random(40, dim, 3, 5);
            let trainer = Trainer::new(&options(model, hidden, layers), dim, 3, TrainDevice::Cpu).unwrap();
            fill_biases(&trainer);
            let seeds: Vec<usize> = vec![11, 0, 3, 25, 4, 39, 17];
            let batch = graph.batch(&seeds, &vec![usize::MAX; layers]);
            let found = trainer.evaluate_batch(&batch.columns(), &mut || Ok(())).unwrap();
            let expected = dense_evaluation(&graph, &trainer, rows(&graph), &seeds);
            assert_close(&found, &expected, &format!("{model:?} {dim} {hidden} {layers}"));
        }
    }
}

#[test]
fn evaluation_layer_by_layer_equals_the_dense_model() {
    for model in MODELS {
        for (dim, hidden, layers) in SHAPES {
            let graph = Graph::random(60, dim, 3, 6);
            let trainer = Trainer::new(&options(model, hidden, layers), dim, 3, TrainDevice::Cpu).unwrap();
            fill_biases(&trainer);
            let ids: Vec<usize> = (0..60).rev().step_by(2).collect();
            let wanted: Vec<i64> = ids.iter().map(|&v| v as i64).collect();
            let found = trainer
                .evaluate_full((graph.whole(), graph.table()), Labels::Single(&graph.labels), &wanted)
                .unwrap();
            let expected = dense_evaluation(&graph, &trainer, rows(&graph), &ids);
            assert_close(&found, &expected, &format!("{model:?} {dim} {hidden} {layers}"));
        }
    }
}

#[test]
fn deeper_networks_with_residuals_and_norms_equal_the_dense_model() {
    for model in MODELS {
        for (residual, norm) in SHAPES_OF_NETS {
            let graph = Graph::random(60, 7, 3, 6);
            let options = TrainerOptions { residual, norm, ..options(model, 8, 4) };
            let trainer = Trainer::new(&options, 7, 3, TrainDevice::Cpu).unwrap();
            fill_biases(&trainer);
            let seeds: Vec<usize> = (0..60).rev().step_by(3).collect();
            let expected = dense_evaluation(&graph, &trainer, rows(&graph), &seeds);
            let what = format!("{model:?} {residual} {norm:?}");
            let batch = graph.batch(&seeds, &[usize::MAX; 4]);
            let found = trainer.evaluate_batch(&batch.columns(), &mut || Ok(())).unwrap();
            assert_close(&found, &expected, &what);
            let ids: Vec<i64> = seeds.iter().map(|&v| v as i64).collect();
            let labels = Labels::Single(&graph.labels);
            let found = trainer.evaluate_full((graph.whole(), graph.table()), labels, &ids).unwrap();
            assert_close(&found, &expected, &what);
        }
    }
}

#[test]
fn no_two_parameters_of_a_network_have_one_name() {
    for model in MODELS {
        for (residual, norm) in SHAPES_OF_NETS {
            let options = TrainerOptions { residual, norm, ..options(model, 8, 3) };
            let trainer = Trainer::new(&options, 7, 3, TrainDevice::Cpu).unwrap();
            let mut names: Vec<String> =
                trainer.model.parameters().into_iter().map(|(name, _)| name).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all, "{model:?} {residual} {norm:?}");
        }
    }
}

#[test]
fn both_orders_of_multiplying_and_aggregating_are_among_the_shapes() {
    let orders = [(3, 8), (200, 2)].map(|(dim, hidden)| {
        let graph = Graph::random(40, dim, 3, 5);
        let batch = graph.batch(&(0..40).collect::<Vec<_>>(), &[usize::MAX; 2]);
        let block = &batch.blocks[1];
        uva_ops::lists::projects_first(
            block.destinations,
            block.sources,
            block.indices.len(),
            dim,
            hidden,
            false,
        )
    });
    assert_eq!(orders, [false, true]);
}

#[test]
fn picked_neighbours_get_the_documented_weights() {
    // Node 0 is a hub, of whose list 2 are picked. One layer, one output that copies the one feature column.
    let graph = Graph::random(40, 1, 1, 5);
    for model in [ModelKind::Sage, ModelKind::Gcn, ModelKind::Gin] {
        let batch = graph.batch(&[0, 1, 2, 3], &[2]);
        let block = batch.blocks[0].block(model, &batch.degrees);
        let x = tch::Tensor::from_slice(&batch.features).to_kind(tch::Kind::Double).view([-1, 1]);
        let mut found = block.aggregate(&x).unwrap();
        if let Some(own) = &block.own {
            found += x.narrow(0, 0, 4) * own;
        }
        for v in 0..4 {
            let degree = |local: usize| graph.list(batch.nodes[local]).len() as f64;
            let picks = &batch.blocks[0].indices
                [batch.blocks[0].indptr[v] as usize..batch.blocks[0].indptr[v + 1] as usize];
            let mut expected = 0.0;
            for &u in picks {
                let weight = match model {
                    ModelKind::Sage => 1.0 / picks.len() as f64,
                    ModelKind::Gin | ModelKind::Gine => 1.0,
                    ModelKind::Gcn => {
                        degree(v)
                            / picks.len() as f64
                            / ((degree(v) + 1.0) * (degree(u as usize) + 1.0)).sqrt()
                    }
                    _ => unreachable!("its weights are not constants"),
                };
                expected += weight * f64::from(batch.features[u as usize]);
            }
            if model == ModelKind::Gcn {
                expected += f64::from(batch.features[v]) / (degree(v) + 1.0);
            }
            let found = found.double_value(&[v as i64, 0]);
            assert!((found - expected).abs() < 1e-12, "{model:?} node {v}: {found} {expected}");
        }
        assert!(graph.list(0).len() > 4, "node 0 must have more neighbours than were picked");
        assert!(graph.list(3).is_empty(), "node 3 must have no neighbour");
    }
}

#[test]
fn every_element_type_gives_the_same_loss() {
    let mut graph = Graph::random(40, 6, 3, 8);
    // Small integers are exact in all five types.
    graph.features.iter_mut().for_each(|x| *x = (*x * 8.0).round().abs());
    let trainer = Trainer::new(&options(ModelKind::Sage, 5, 2), 6, 3, TrainDevice::Cpu).unwrap();
    let batch = graph.batch(&[1, 2, 3, 5], &[3, 3]);
    let expected = trainer.evaluate_batch(&batch.columns(), &mut || Ok(())).unwrap();
    let ids: Vec<i64> = (0..40).collect();
    let labels = Labels::Single(&graph.labels);
    let expected_full = trainer.evaluate_full((graph.whole(), graph.table()), labels, &ids).unwrap();
    for element in [ElementType::F16, ElementType::Bf16, ElementType::U8, ElementType::I8] {
        // Both 16-bit types as 8-byte words, so that the bytes are aligned as a slot's are.
        let encode = |values: &[f32]| -> Vec<u64> {
            let bytes: Vec<u8> = match element {
                ElementType::F16 => values.iter().flat_map(|&x| f16_bits(x).to_le_bytes()).collect(),
                ElementType::Bf16 => {
                    values.iter().flat_map(|&x| ((x.to_bits() >> 16) as u16).to_le_bytes()).collect()
                }
                _ => values.iter().map(|&x| x as u8).collect(),
            };
            bytes
                .chunks(8)
                .map(|c| u64::from_le_bytes(std::array::from_fn(|i| *c.get(i).unwrap_or(&0))))
                .collect()
        };
        let words = encode(&batch.features);
        let bytes = &bytemuck::cast_slice(&words)[..batch.features.len() * element.bytes()];
        let rows = ColumnArray::table(bytes, element, batch.nodes.len(), 6);
        let input = batch.columns().with(Column::X, rows);
        assert_eq!(trainer.evaluate_batch(&input, &mut || Ok(())).unwrap(), expected, "{element:?}");
        let words = encode(&graph.features);
        let bytes = &bytemuck::cast_slice(&words)[..graph.features.len() * element.bytes()];
        let table = FeatureTable { bytes, rows: 40, dim: 6, element };
        assert_eq!(
            trainer.evaluate_full((graph.whole(), table), labels, &ids).unwrap(),
            expected_full,
            "{element:?}"
        );
    }
}

/// Bits of a small non-negative integer as a half.
fn f16_bits(x: f32) -> u16 {
    if x == 0.0 { 0 } else { (((x.to_bits() >> 23) as u16 - 112) << 10) | (x.to_bits() >> 13 & 0x3ff) as u16 }
}

#[test]
fn row_normalisation_divides_by_the_absolute_sum_and_keeps_rows_of_zeros() {
    let mut graph = Graph::random(40, 6, 3, 9);
    graph.features[12..18].fill(0.0);
    let mut options = options(ModelKind::Sage, 5, 2);
    options.feature_norm = FeatureNorm::Row;
    let trainer = Trainer::new(&options, 6, 3, TrainDevice::Cpu).unwrap();
    fill_biases(&trainer);
    let mut x = rows(&graph);
    for row in &mut x {
        let sum: f64 = row.iter().map(|x| x.abs()).sum();
        row.iter_mut().for_each(|x| *x /= if sum == 0.0 { 1.0 } else { sum });
    }
    let seeds: Vec<usize> = (0..40).collect();
    let expected = dense_evaluation(&graph, &trainer, x, &seeds);
    let batch = graph.batch(&seeds, &[usize::MAX; 2]);
    assert_close(&trainer.evaluate_batch(&batch.columns(), &mut || Ok(())).unwrap(), &expected, "blocks");
    let ids: Vec<i64> = (0..40).collect();
    let full =
        trainer.evaluate_full((graph.whole(), graph.table()), Labels::Single(&graph.labels), &ids).unwrap();
    assert_close(&full, &expected, "full");
}

#[test]
fn attention_with_edge_features_equals_the_dense_model_in_both_passes() {
    for (residual, norm) in SHAPES_OF_NETS {
        let graph = Graph::random(60, 7, 3, 6);
        let options = TrainerOptions { residual, norm, edge_dim: EDGE_DIM, ..options(ModelKind::Gat, 8, 3) };
        let trainer = Trainer::new(&options, 7, 3, TrainDevice::Cpu).unwrap();
        fill_biases(&trainer);
        let seeds: Vec<usize> = (0..60).rev().step_by(3).collect();
        let expected = dense_evaluation(&graph, &trainer, rows(&graph), &seeds);
        let batch = graph.batch(&seeds, &[usize::MAX; 3]);
        let found = trainer.evaluate_batch(&batch.columns(), &mut || Ok(())).unwrap();
        assert_close(&found, &expected, &format!("{residual} {norm:?} blocks"));
        let ids: Vec<i64> = seeds.iter().map(|&v| v as i64).collect();
        let labels = Labels::Single(&graph.labels);
        let found = trainer.evaluate_full((graph.whole(), graph.table()), labels, &ids).unwrap();
        assert_close(&found, &expected, &format!("{residual} {norm:?} full"));
        // Other edge features are another result.
        let mut other = graph;
        other.edge_features.iter_mut().for_each(|x| *x = -*x);
        let labels = Labels::Single(&other.labels);
        let turned = trainer.evaluate_full((other.whole(), other.table()), labels, &ids).unwrap();
        assert!((turned.loss_sum - found.loss_sum).abs() > 1e-6);
    }
}

#[test]
fn batches_and_graphs_without_required_edge_features_are_refused() {
    let graph = Graph::random(40, 4, 3, 5);
    let batch = graph.batch(&[1, 2, 3], &[3, 2]);
    for options in [
        options(ModelKind::Gine, 8, 2),
        TrainerOptions { edge_dim: EDGE_DIM, ..options(ModelKind::Gat, 8, 2) },
    ] {
        let trainer = Trainer::new(&options, 4, 3, TrainDevice::Cpu).unwrap();
        let key = Column::EdgeAttr.at(1);
        let narrow = batch.columns().with(key, f32_rows(&batch.blocks[1].edge_attr, 1));
        let none = batch.columns().without(key);
        for (wrong, part) in [(none, "block 1: no edge features"), (narrow, "block 1:")] {
            let refused = trainer.evaluate_batch(&wrong, &mut || Ok(())).unwrap_err();
            assert!(refused.to_string().contains(part), "{refused}");
        }
        let labels = Labels::Single(&graph.labels);
        let refused = trainer.evaluate_full((graph.csc(), graph.table()), labels, &[1]).unwrap_err();
        assert!(refused.to_string().contains("edge features"), "{refused}");
    }
    let none = TrainerOptions { edge_dim: 0, ..options(ModelKind::Gine, 8, 2) };
    let refused = Trainer::new(&none, 4, 3, TrainDevice::Cpu).unwrap_err().to_string();
    assert!(refused.contains("`model=gine`"), "{refused}");
    let ignored = TrainerOptions { edge_dim: 3, ..options(ModelKind::Sage, 8, 2) };
    assert!(Trainer::new(&ignored, 4, 3, TrainDevice::Cpu).is_err());
}
