//! The loop over listed rows compared with libtorch's operator, and its backward pass with finite differences.

use crate::block::aggregate::HostLists;
use crate::block::aggregate::transposed;
use crate::block::sums::weighted_sums_by;
use crate::nn::random::SplitMix64;
use crate::tests::support::below;
use tch::Tensor;
use uva_ops::Vectors;
use uva_ops::lists::Weights;

/// Lists of 0 to 12 edges, the same row several times in some, over rows of numbers between −1 and 1.
struct Lists {
    offsets: Vec<i32>,
    indices: Vec<i32>,
    weights: Vec<f32>,
    rows: Vec<f32>,
    sources: usize,
}

impl Lists {
    fn random(lists: usize, sources: usize, width: usize, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut offsets = vec![0];
        let mut indices = Vec::new();
        for list in 0..lists {
            // The first and the last are empty, and some between.
            let edges = if list == 0 || list + 1 == lists { 0 } else { below(&mut random, 13) };
            for edge in 0..edges {
                let again = edge > 0 && below(&mut random, 4) == 0;
                indices.push(if again {
                    indices[indices.len() - 1]
                } else {
                    below(&mut random, sources) as i32
                });
            }
            offsets.push(indices.len() as i32);
        }
        let mut numbers = |count: usize| (0..count).map(|_| random.symmetric() as f32).collect::<Vec<f32>>();
        let (weights, rows) = (numbers(indices.len()), numbers(sources * width));
        Self { offsets, indices, weights, rows, sources }
    }

    fn block(&self) -> HostLists<'_> {
        HostLists {
            destinations: self.offsets.len() - 1,
            sources: self.sources,
            indptr: &self.offsets,
            indices: &self.indices,
            weights: &[],
        }
    }
}

#[test]
fn sums_equal_those_of_libtorchs_embedding_bag() {
    for width in [1, 8, 47, 100, 129] {
        let lists = Lists::random(200, 60, width, 3);
        let rows = Tensor::from_slice(&lists.rows).view([60, width as i64]);
        let (indices, offsets) = (Tensor::from_slice(&lists.indices), Tensor::from_slice(&lists.offsets));
        let weights = Tensor::from_slice(&lists.weights);
        let (expected, ..) =
            Tensor::embedding_bag(&rows, &indices, &offsets, false, 0, false, Some(&weights), true);
        for vectors in Vectors::available() {
            let weights = Weights::Each(&lists.weights[..]);
            let of = (&lists.offsets[..], &lists.indices[..]);
            let found = weighted_sums_by(&rows, of, weights, vectors, None).unwrap();
            let far = (found - &expected).abs().max().double_value(&[]);
            assert!(far < 1e-5, "{width} {vectors}: {far}");
        }
    }
}

/// The backward pass is linear like the forward pass: the difference of a loss, which is the sum of products of the
/// result with `upstream`, between two values of an element is its gradient except for rounding.
#[test]
fn the_transposed_lists_give_the_gradient_by_finite_differences() {
    let width = 5;
    let lists = Lists::random(30, 20, width, 17);
    let mut random = SplitMix64::new(4);
    let rows: Vec<f64> = (0..20 * width).map(|_| random.symmetric()).collect();
    let upstream: Vec<f64> = (0..30 * width).map(|_| random.symmetric()).collect();
    let weights: Vec<f64> = lists.weights.iter().copied().map(f64::from).collect();
    for mean in [false, true] {
        let each = || if mean { Weights::Mean } else { Weights::Each(&weights[..]) };
        let sums = |rows: &[f64], lists: (&[i32], &[i32]), weights: Weights<'_, f64>| -> Vec<f64> {
            let rows = Tensor::from_slice(rows).view([-1, width as i64]);
            let sums = weighted_sums_by(&rows, lists, weights, Vectors::widest(), None).unwrap();
            Vec::try_from(sums.flatten(0, -1)).unwrap()
        };
        let loss = |rows: &[f64]| -> f64 {
            let out = sums(rows, (&lists.offsets, &lists.indices), each());
            out.iter().zip(&upstream).map(|(a, b)| a * b).sum()
        };
        let (offsets, picked_by, of_edges) = transposed(&lists.block(), each()).unwrap();
        let gradient = sums(&upstream, (&offsets, &picked_by), Weights::Each(&of_edges));
        assert!(gradient.iter().any(|g| g.abs() > 0.1));
        for element in 0..rows.len() {
            let at = |step: f64| {
                let mut moved = rows.clone();
                moved[element] += step;
                loss(&moved)
            };
            let difference = (at(0.5) - at(-0.5)) / 1.0;
            assert!((difference - gradient[element]).abs() < 1e-12, "{mean} {element}");
        }
    }
}
