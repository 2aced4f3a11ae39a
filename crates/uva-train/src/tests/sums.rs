//! The loop over listed rows against libtorch's operator, against sums one after the other, and with all vectors.

use super::support::below;
use crate::aggregate::transposed;
use crate::input::BlockInput;
use crate::random::SplitMix64;
use crate::sums::{Element, Id, Job, Weights};
use tch::Tensor;
use uva_ops::Vectors;

/// Lists of 0 to 12 edges, the same row several times in some, over rows of numbers between −1 and 1.
struct Lists {
    offsets: Vec<i32>,
    indices: Vec<i32>,
    weights: Vec<f32>,
    rows: Vec<f32>,
    sources: usize,
    width: usize,
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
        Self { offsets, indices, weights, rows, sources, width }
    }

    fn block(&self) -> BlockInput<'_> {
        BlockInput {
            destinations: self.offsets.len() - 1,
            sources: self.sources,
            indptr: &self.offsets,
            indices: &self.indices,
            weights: &[],
            edge_attr: None,
        }
    }

    fn each(&self, mean: bool) -> Weights<'_, f32> {
        if mean { Weights::Mean } else { Weights::Each(&self.weights) }
    }

    /// One multiply-add after the other, by the definition.
    fn reference(&self, mean: bool) -> Vec<f32> {
        let mut sums = Vec::new();
        for ends in self.offsets.windows(2) {
            let edges = ends[0] as usize..ends[1] as usize;
            for column in 0..self.width {
                let row = |edge: usize| self.rows[self.indices[edge] as usize * self.width + column];
                let weight = |edge: usize| {
                    if mean { (1.0 / edges.len() as f64) as f32 } else { self.weights[edge] }
                };
                sums.push(edges.clone().fold(0.0f32, |sum, edge| row(edge).mul_add(weight(edge), sum)));
            }
        }
        sums
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    Vec::try_from(tensor.flatten(0, -1)).unwrap()
}

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

#[test]
fn all_vectors_give_sums_bit_for_bit_at_every_width() {
    for width in 0..=130 {
        let lists = Lists::random(40, 30, width, width as u64);
        let long: Vec<i64> = lists.indices.iter().copied().map(i64::from).collect();
        let long_offsets: Vec<i64> = lists.offsets.iter().copied().map(i64::from).collect();
        for mean in [false, true] {
            let expected = bits(&lists.reference(mean));
            for vectors in Vectors::available() {
                let job =
                    Job::new(&lists.rows, width, (&lists.offsets, &lists.indices), lists.each(mean)).unwrap();
                assert_eq!(
                    bits(&numbers(&job.tensor(vectors, None).unwrap())),
                    expected,
                    "{width} {mean} {vectors}"
                );
                let job = Job::new(&lists.rows, width, (&long_offsets, &long), lists.each(mean)).unwrap();
                assert_eq!(
                    bits(&numbers(&job.tensor(vectors, None).unwrap())),
                    expected,
                    "{width} {mean} {vectors}"
                );
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    for width in [47, 100, 128, 300] {
        let lists = Lists::random(3000, 500, width, 9);
        for mean in [false, true] {
            let expected = bits(&lists.reference(mean));
            for vectors in Vectors::available() {
                let job =
                    Job::new(&lists.rows, width, (&lists.offsets, &lists.indices), lists.each(mean)).unwrap();
                for threads in 1..=8 {
                    let found = job.tensor(vectors, Some(&pool(threads))).unwrap();
                    assert!(bits(&numbers(&found)) == expected, "{width} {mean} {vectors} {threads}");
                }
            }
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
            let job =
                Job::new(&lists.rows, width, (&lists.offsets, &lists.indices), lists.each(false)).unwrap();
            let far = (job.tensor(vectors, None).unwrap() - &expected).abs().max().double_value(&[]);
            assert!(far < 1e-5, "{width} {vectors}: {far}");
        }
    }
}

/// The way back is linear like the way there: the difference of a loss, which is the sum of products of the result
/// with `upstream`, between two values of an element is its gradient but for rounding.
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
            let job = Job::new(rows, width, lists, weights).unwrap();
            Vec::try_from(job.tensor(Vectors::widest(), None).unwrap().flatten(0, -1)).unwrap()
        };
        let loss = |rows: &[f64]| -> f64 {
            let out = sums(rows, (&lists.offsets, &lists.indices), each());
            out.iter().zip(&upstream).map(|(a, b)| a * b).sum()
        };
        let (offsets, picked_by, of_edges) = transposed(&lists.block(), each());
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

#[test]
fn lists_that_would_read_elsewhere_are_refused() {
    fn refused<T: Element, I: Id>(rows: &[T], lists: (&[I], &[I]), weights: Weights<'_, T>, part: &str) {
        let Err(error) = Job::new(rows, 2, lists, weights) else { panic!("not refused: {part}") };
        assert!(error.to_string().contains(part), "{error}");
    }
    let rows = [1.0f32, 2.0, 3.0, 4.0];
    Job::new(&rows, 2, (&[0, 1, 2], &[0, 1]), Weights::Mean).unwrap();
    refused::<f32, i32>(&rows, (&[], &[]), Weights::Mean, "offsets");
    refused(&rows, (&[0, 1, 3], &[0, 1]), Weights::Mean, "offsets");
    refused(&rows, (&[1, 1, 2], &[0, 1]), Weights::Mean, "offsets");
    refused(&rows, (&[0, 3, 2], &[0, 1]), Weights::Mean, "offsets");
    refused(&rows, (&[0, -1, 2], &[0, 1]), Weights::Mean, "offsets");
    refused(&rows, (&[0, 1, 2], &[0, 2]), Weights::Mean, "among 2");
    refused(&rows, (&[0, 1, 2], &[-1, 1]), Weights::Mean, "among 2");
    refused(&rows, (&[0i64, 1, 2], &[0, -1]), Weights::Mean, "among 2");
    refused(&rows, (&[0, 1, 2], &[0, 1]), Weights::Each(&[1.0]), "1 weights");
}
