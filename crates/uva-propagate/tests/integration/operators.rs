//! Every operator compared with plain loops in float64.

use std::fs;
use std::path::Path;

use uva_graph::npy::NpyType;
use uva_graph::{Csc, Dataset};
use uva_ops::Vectors;
use uva_ops::lists::{Lists, WeightedSums, Weights, degree_weights};
use uva_propagate::Operator;

use crate::support::{DIM, NODES, floats, graph, ids, make, options};

const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;

/// A matrix, row by row: columns and float64 weights, in the order of the lists.
type Rows = Vec<Vec<(usize, f64)>>;

/// Entries of the lists with their weights.
fn lists(csc: &Csc<'_>, weights: Option<&[f32]>, transposed: bool) -> Rows {
    let mut rows = vec![Vec::new(); csc.nodes()];
    for node in 0..csc.nodes() {
        for entry in csc.indptr[node] as usize..csc.indptr[node + 1] as usize {
            let other = csc.indices.get(entry) as usize;
            let weight = weights.map_or(1.0, |weights| f64::from(weights[entry]));
            let (row, column) = if transposed { (other, node) } else { (node, other) };
            rows[row].push((column, weight));
        }
    }
    rows
}

/// The matrix of an operator; for `ppr` and `heat`, that of `sym`.
fn matrix(operator: Operator, csc: &Csc<'_>, weights: Option<&[f32]>) -> Rows {
    let mut rows = lists(csc, weights, operator == Operator::Col);
    if operator.has_self_loops() {
        rows.iter_mut().enumerate().for_each(|(node, row)| row.push((node, 1.0)));
    }
    let lengths: Vec<f64> = rows.iter().map(|row| row.iter().map(|(_, weight)| weight).sum()).collect();
    for (node, row) in rows.iter_mut().enumerate() {
        match operator {
            Operator::Row | Operator::RowLoop | Operator::Col => {
                row.iter_mut().for_each(|(_, weight)| *weight /= lengths[node]);
                row.retain(|(_, weight)| weight.is_finite());
            }
            _ => {
                row.retain(|(other, _)| lengths[*other] > 0.0 && lengths[node] > 0.0);
                row.iter_mut()
                    .for_each(|(other, weight)| *weight /= (lengths[node] * lengths[*other]).sqrt());
            }
        }
    }
    rows
}

/// Values, and the maximum error of float32 for each.
struct Bounded {
    values: Vec<f64>,
    errors: Vec<f64>,
}

/// One sum: `factor` times the matrix times the values.
fn sum(rows: &Rows, factor: f64, of: &Bounded) -> Bounded {
    let mut sums = Bounded { values: vec![0.0; NODES * DIM], errors: vec![0.0; NODES * DIM] };
    for (node, row) in rows.iter().enumerate() {
        for column in 0..DIM {
            let (mut value, mut size, mut error) = (0.0, 0.0, 0.0);
            for (other, weight) in row {
                let term = factor * weight * of.values[other * DIM + column];
                value += term;
                size += term.abs();
                error += (factor * weight).abs() * of.errors[other * DIM + column];
            }
            let at = node * DIM + column;
            sums.values[at] = value;
            sums.errors[at] = error + (row.len() as f64 + 1.0) * ROUNDING * size;
        }
    }
    sums
}

/// Adds `factor` times other values.
fn add(to: &mut Bounded, factor: f64, of: &Bounded) {
    for at in 0..to.values.len() {
        let term = factor * of.values[at];
        to.values[at] += term;
        to.errors[at] += factor * of.errors[at] + 2.0 * ROUNDING * (term.abs() + to.values[at].abs());
    }
}

/// One application of an operator to a stored hop.
fn applied(operator: Operator, rows: &Rows, hop: &[f32]) -> Bounded {
    let x = Bounded { values: hop.iter().map(|&value| value.into()).collect(), errors: vec![0.0; hop.len()] };
    match operator {
        Operator::Ppr { alpha, steps } => {
            let mut z = sum(rows, 1.0 - alpha, &x);
            add(&mut z, alpha, &x);
            for _ in 1..steps {
                z = sum(rows, 1.0 - alpha, &z);
                add(&mut z, alpha, &x);
            }
            z
        }
        Operator::Heat { time, steps } => {
            let mut series = Bounded { values: vec![0.0; hop.len()], errors: vec![0.0; hop.len()] };
            let mut weight = (-time).exp();
            add(&mut series, weight, &x);
            let mut power = x;
            for k in 1..=steps {
                weight *= time / f64::from(k);
                power = sum(rows, 1.0, &power);
                add(&mut series, weight, &power);
            }
            series
        }
        _ => sum(rows, 1.0, &x),
    }
}

fn by_node(set: &Path, name: &str) -> Vec<f32> {
    let (nodes, rows) = (ids(&set.join("node_idx.npy")), floats(&set.join(name)));
    let mut table = vec![f32::NAN; NODES * DIM];
    for (node, row) in nodes.iter().zip(rows.chunks(DIM)) {
        table[*node as usize * DIM..][..DIM].copy_from_slice(row);
    }
    table
}

#[test]
fn every_operator_equals_plain_loops_at_each_hop_weighted_or_not() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let dataset = Dataset::open(&path).unwrap();
    for weighted in [false, true] {
        let mut options =
            options("sym,sym-noloop,row,row-loop,col,ppr:0.15,4,ppr:0.5,1,heat:2.5,5,heat:1,1", 3);
        options.weighted = weighted;
        let out = temp.path().join(format!("set-{weighted}"));
        make(&path, &out, &options);
        assert_eq!(by_node(&out, "x.npy"), floats(&path.join("feat.npy")));
        for &operator in &options.operators {
            let rows = matrix(operator, &dataset.csc(), dataset.weights().filter(|_| weighted));
            let mut before = by_node(&out, "x.npy");
            for hop in 1..=3 {
                let expected = applied(operator, &rows, &before);
                before = by_node(&out, &format!("{}.{hop}.npy", operator.file_stem()));
                for (at, found) in before.iter().enumerate() {
                    let (value, error) = (expected.values[at], expected.errors[at]);
                    let off = (f64::from(*found) - value).abs();
                    // The least normal number: smaller numbers may lose bits.
                    assert!(
                        off <= error + 1e-37,
                        "{operator} weighted {weighted} hop {hop} node {} column {}: {found} is {off:e} from {value}, \
                         more than {error:e}",
                        at / DIM,
                        at % DIM
                    );
                }
                assert!(before.iter().any(|value| *value != 0.0), "{operator} hop {hop}");
            }
        }
    }
}

#[test]
fn one_hop_of_sym_is_the_gcn_sum_of_whole_neighbourhoods_bit_for_bit() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let out = temp.path().join("set");
    make(&path, &out, &options("sym", 1));
    let dataset = Dataset::open(&path).unwrap();
    let csc = dataset.csc();
    let offsets: Vec<i32> = csc.indptr.iter().map(|&offset| offset as i32).collect();
    let indices: Vec<i32> = (0..csc.edges()).map(|entry| csc.indices.get(entry) as i32).collect();
    let degrees: Vec<i32> = (0..NODES).map(|node| csc.degree(node) as i32).collect();
    let lists = Lists::new(&offsets, &indices, NODES).unwrap();
    let (weights, own) = degree_weights::<f32, i32>(&lists, &[], &degrees, None);
    let features = floats(&path.join("feat.npy"));
    let sums = WeightedSums::new(&features, DIM, lists, Weights::Each(&weights)).unwrap();
    let mut expected = vec![0.0; NODES * DIM];
    sums.with_own(&own).unwrap().write_some(0, &mut expected, Vectors::widest());
    let found = by_node(&out, "sym.1.npy");
    assert!(found.iter().zip(&expected).all(|(found, expected)| found.to_bits() == expected.to_bits()));
}

#[test]
fn features_of_any_type_are_widened_and_normalised_before_the_first_hop() {
    for element in [NpyType::F16, NpyType::I8] {
        let temp = tempfile::tempdir().unwrap();
        let path = graph(temp.path(), element);
        let dataset = Dataset::open(&path).unwrap();
        let table = dataset.features();
        let plain: Vec<f32> = match element {
            NpyType::F16 => {
                let (values, _) = table.bytes.as_chunks::<2>();
                values.iter().map(|value| half::f16::from_le_bytes(*value).to_f32()).collect()
            }
            _ => table.bytes.iter().map(|value| f32::from(value.cast_signed())).collect(),
        };
        let mut options = options("row", 1);
        make(&path, &temp.path().join("plain"), &options);
        assert_eq!(by_node(&temp.path().join("plain"), "x.npy"), plain);
        options.feature_norm = uva_model::FeatureNorm::Row;
        let out = temp.path().join("normalised");
        make(&path, &out, &options);
        let normalised = by_node(&out, "x.npy");
        for (row, found) in plain.chunks(DIM).zip(normalised.chunks(DIM)) {
            let sum: f64 = row.iter().map(|value| f64::from(value.abs())).sum();
            let expected: Vec<f32> = row.iter().map(|value| (f64::from(*value) / sum) as f32).collect();
            assert_eq!(found, expected);
        }
        let rows = matrix(Operator::Row, &dataset.csc(), None);
        let expected = applied(Operator::Row, &rows, &normalised);
        for (at, found) in by_node(&out, "row.1.npy").iter().enumerate() {
            assert!((f64::from(*found) - expected.values[at]).abs() <= expected.errors[at] + 1e-37);
        }
        fs::remove_dir_all(out).unwrap();
    }
}
