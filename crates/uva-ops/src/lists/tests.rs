//! Tests of sums against their definition, with all vectors and for any number of threads; of invalid lists; and of the
//! other loops against their definitions.

use super::attention::{self, EdgeScores, attention};
use super::maxima::{maxima, shares, spread};
use super::{
    Id, Lists, ListsError, SumElement, WeightedSums, Weights, degree_weights, dots, offsets, transpose,
    with_own,
};
use crate::Vectors;
use std::mem::MaybeUninit;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Between −1 and 1.
    fn symmetric(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// Lists of 0 to 12 edges, the same row several times in some, over rows of numbers between −1 and 1.
struct Sample {
    offsets: Vec<i32>,
    indices: Vec<i32>,
    weights: Vec<f32>,
    rows: Vec<f32>,
    sources: usize,
    width: usize,
}

impl Sample {
    fn random(lists: usize, sources: usize, width: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut offsets = vec![0];
        let mut indices = Vec::new();
        for list in 0..lists {
            // The first and the last are empty, and some between.
            let edges = if list == 0 || list + 1 == lists { 0 } else { random.below(13) };
            for edge in 0..edges {
                let again = edge > 0 && random.below(4) == 0;
                indices.push(if again { indices[indices.len() - 1] } else { random.below(sources) as i32 });
            }
            offsets.push(indices.len() as i32);
        }
        let mut numbers = |count: usize| (0..count).map(|_| random.symmetric() as f32).collect::<Vec<f32>>();
        let (weights, rows) = (numbers(indices.len()), numbers(sources * width));
        Self { offsets, indices, weights, rows, sources, width }
    }

    fn checked(&self) -> Lists<'_, i32> {
        Lists::new(&self.offsets, &self.indices, self.sources).unwrap()
    }

    fn each(&self, mean: bool) -> Weights<'_, f32> {
        if mean { Weights::Mean } else { Weights::Each(&self.weights) }
    }

    /// Reference sums: one multiply-add after the other.
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

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

fn sums<T: SumElement + Default, I: Id>(
    rows: &[T],
    width: usize,
    lists: Lists<'_, I>,
    weights: Weights<'_, T>,
    vectors: Vectors,
    pool: Option<&rayon::ThreadPool>,
) -> Vec<T> {
    let mut out = vec![MaybeUninit::uninit(); lists.len() * width];
    WeightedSums::new(rows, width, lists, weights).unwrap().write(&mut out, vectors, pool);
    // SAFETY: `write` has written each element.
    out.into_iter().map(|element| unsafe { element.assume_init() }).collect()
}

#[test]
fn all_vectors_give_sums_bit_for_bit_at_every_width() {
    for width in 0..=130 {
        let lists = Sample::random(40, 30, width, width as u64);
        let long: Vec<i64> = lists.indices.iter().copied().map(i64::from).collect();
        let long_offsets: Vec<i64> = lists.offsets.iter().copied().map(i64::from).collect();
        for mean in [false, true] {
            let expected = bits(&lists.reference(mean));
            for vectors in Vectors::available() {
                let found = sums(&lists.rows, width, lists.checked(), lists.each(mean), vectors, None);
                assert_eq!(bits(&found), expected, "{width} {mean} {vectors}");
                let long = Lists::new(&long_offsets, &long, 30).unwrap();
                let found = sums(&lists.rows, width, long, lists.each(mean), vectors, None);
                assert_eq!(bits(&found), expected, "{width} {mean} {vectors}");
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    for width in [47, 100, 128, 300] {
        let lists = Sample::random(3000, 500, width, 9);
        for mean in [false, true] {
            let expected = bits(&lists.reference(mean));
            for vectors in Vectors::available() {
                for threads in 1..=8 {
                    let pool = pool(threads);
                    let found =
                        sums(&lists.rows, width, lists.checked(), lists.each(mean), vectors, Some(&pool));
                    assert!(bits(&found) == expected, "{width} {mean} {vectors} {threads}");
                }
            }
        }
    }
}

#[test]
fn lists_that_would_read_out_of_bounds_are_refused() {
    fn refused<T: SumElement, I: Id>(rows: &[T], lists: (&[I], &[I]), weights: Weights<'_, T>, part: &str) {
        let made =
            Lists::new(lists.0, lists.1, 2).and_then(|lists| WeightedSums::new(rows, 2, lists, weights));
        let Err(error) = made else { panic!("not refused: {part}") };
        assert!(error.to_string().contains(part), "{error}");
    }
    let rows = [1.0f32, 2.0, 3.0, 4.0];
    WeightedSums::new(&rows, 2, Lists::new(&[0, 1, 2], &[0, 1], 2).unwrap(), Weights::Mean).unwrap();
    refused::<f32, i32>(&rows, (&[], &[]), Weights::Mean, "offsets");
    refused(&rows, (&[0, 1, 3], &[0, 1]), Weights::Mean, "offsets");
    refused(&rows, (&[1, 1, 2], &[0, 1]), Weights::Mean, "offsets");
    refused(&rows, (&[0, 3, 2], &[0, 1]), Weights::Mean, "offsets");
    refused(&rows, (&[0, -1, 2], &[0, 1]), Weights::Mean, "offsets");
    refused(&rows, (&[0, 1, 2], &[0, 2]), Weights::Mean, "among 2");
    refused(&rows, (&[0, 1, 2], &[-1, 1]), Weights::Mean, "among 2");
    refused(&rows, (&[0i64, 1, 2], &[0, -1]), Weights::Mean, "among 2");
    refused(&rows, (&[0, 1, 2], &[0, 1]), Weights::Each(&[1.0]), "1 weights");
    refused(&rows[..3], (&[0, 1, 2], &[0, 1]), Weights::Mean, "3 elements");
    refused(&rows, (&[0, 1, 2], &[0, 1]), Weights::Heads(&[1.0; 6], 3), "3 heads");
    refused(&rows, (&[0, 1, 2], &[0, 1]), Weights::Heads(&[1.0; 3], 2), "3 weights");
}

#[test]
fn each_head_has_the_sums_of_its_own_part_of_the_rows() {
    for (heads, part) in [(1, 5), (2, 8), (3, 17), (4, 150)] {
        let width = heads * part;
        let sample = Sample::random(40, 30, width, 5);
        let mut random = Random(1);
        let weights: Vec<f32> =
            (0..sample.indices.len() * heads).map(|_| random.symmetric() as f32).collect();
        for vectors in Vectors::available() {
            let weights_of = Weights::Heads(&weights, heads);
            let found = sums(&sample.rows, width, sample.checked(), weights_of, vectors, None);
            for head in 0..heads {
                let columns = |rows: &[f32]| -> Vec<f32> {
                    rows.chunks(width).flat_map(|row| &row[head * part..][..part]).copied().collect()
                };
                let own: Vec<f32> = weights.iter().skip(head).step_by(heads).copied().collect();
                let rows = columns(&sample.rows);
                let alone = sums(&rows, part, sample.checked(), Weights::Each(&own), vectors, None);
                assert_eq!(bits(&columns(&found)), bits(&alone), "{heads} {part} {head} {vectors}");
            }
        }
    }
}

#[test]
fn transposed_lists_hold_each_edge_once_in_the_order_of_lists() {
    let sample = Sample::random(40, 30, 1, 2);
    let lists = sample.checked();
    let mut placed = vec![None; sample.indices.len()];
    let offsets = transpose(&lists, |place, v, edge| {
        assert!(placed[place].replace((v, edge)).is_none());
    });
    assert_eq!(offsets.len(), 31);
    for row in 0..30 {
        let of_row = &placed[offsets[row] as usize..offsets[row + 1] as usize];
        let by_definition: Vec<_> = (0..lists.len())
            .flat_map(|v| lists.edges(v).map(move |edge| (v, edge)))
            .filter(|&(_, edge)| lists.row(edge) == row)
            .map(Some)
            .collect();
        assert_eq!(of_row, by_definition);
    }
}

#[test]
fn edges_in_the_order_of_their_lists_give_offsets_and_others_none() {
    assert_eq!(offsets(&[1i64, 1, 3], 5), Ok(Some(vec![0, 0, 2, 2, 3, 3])));
    assert_eq!(offsets(&[0i32, 0], 1), Ok(Some(vec![0, 2])));
    assert_eq!(offsets::<i32>(&[], 2), Ok(Some(vec![0, 0, 0])));
    assert_eq!(offsets::<i32>(&[], 0), Ok(Some(vec![0])));
    assert_eq!(offsets(&[1i32, 0], 2), Ok(None));
    assert_eq!(offsets(&[-1i64, 0], 2), Ok(None));
    assert_eq!(offsets(&[0i32, 2], 2), Err(ListsError::Index(2)));
    assert_eq!(offsets(&[-1i32], 2), Err(ListsError::Index(2)));
}

#[test]
fn each_list_holds_its_own_row_once() {
    // List 0 has it twice, list 1 not at all, and there is no row 2.
    let lists = Lists::new(&[0, 3, 4, 5], &[0, 1, 0, 0, 1], 2).unwrap();
    let own = with_own(&lists);
    assert_eq!(own.offsets, [0, 2, 4, 5]);
    assert_eq!(own.indices, [1, 0, 0, 1, 1]);
    assert_eq!(own.origin, [1, 2, 3, -1, 4]);
}

#[test]
fn gradients_of_maxima_are_split_equally_over_the_largest_elements() {
    // Rows 0 and 2 tie in column 0; list 1 holds row 1 twice; list 2 is empty.
    let rows = [3.0f32, 1.0, 2.0, 5.0, 3.0, 4.0];
    let lists = Lists::new(&[0, 3, 5, 5], &[0, 1, 2, 1, 1], 3).unwrap();
    let (mut out, mut of_lists, mut back) = ([9.0; 6], [9.0; 6], [9.0; 6]);
    maxima(&lists, &rows, 2, &mut out, None).unwrap();
    assert_eq!(out, [3.0, 5.0, 2.0, 5.0, 0.0, 0.0]);
    shares(&lists, (&rows, &out, &[1.0, 10.0, 100.0, 1000.0, 7.0, 7.0]), 2, &mut of_lists, None).unwrap();
    assert_eq!(of_lists, [0.5, 10.0, 50.0, 500.0, 0.0, 0.0]);
    let mut picked_by = vec![0; 5];
    let offsets = transpose(&lists, |place, v, _| picked_by[place] = v as i32);
    let transposed = Lists::new(&offsets, &picked_by, 3).unwrap();
    spread(&transposed, (&rows, &out, &of_lists), 2, &mut back, None).unwrap();
    assert_eq!(back, [0.5, 0.0, 100.0, 1010.0, 0.5, 0.0]);
}

#[test]
fn weights_by_degrees_are_those_of_one_thread_bit_by_bit() {
    // Enough edges to be divided.
    let sample = Sample::random(3000, 4000, 1, 29);
    let lists = sample.checked();
    let degrees: Vec<i32> = (0..4000).map(|row| row * 37 % 101).collect();
    let sampled: Vec<f32> = (0..sample.indices.len()).map(|edge| 1.0 / (1 + edge % 7) as f32).collect();
    assert!(10 * sample.indices.len() > 1 << 17, "{} edges", sample.indices.len());
    for sampled in [&[][..], &sampled] {
        let (alone, own) = degree_weights::<f32, _>(&lists, sampled, &degrees, None);
        let last = (0..3000).rev().find(|&v| !lists.edges(v).is_empty()).unwrap();
        let edge = lists.edges(last).start;
        let scale = match sampled {
            [] => f64::from(degrees[last]) / lists.edges(last).len() as f64,
            sampled => f64::from(degrees[last]) * f64::from(sampled[edge]),
        };
        let roots = [last, lists.row(edge)].map(|row| 1.0 / f64::from(degrees[row] + 1).sqrt());
        let expected = (scale * roots[0] * roots[1]) as f32;
        assert!((alone[edge] - expected).abs() <= 1e-6 * expected, "{} against {expected}", alone[edge]);
        for threads in [1, 2, 5] {
            let found = degree_weights::<f32, _>(&lists, sampled, &degrees, Some(&pool(threads)));
            assert!(found == (alone.clone(), own.clone()), "{threads} threads");
        }
    }
}

/// The loss is the sum of products of the weights with `upstream`; its differences are the gradient.
#[test]
fn attention_sums_to_one_and_its_gradient_equals_finite_differences() {
    let sample = Sample::random(30, 20, 1, 17);
    let (lists, heads) = (sample.checked(), 3);
    let mut random = Random(3);
    let mut numbers = |count: usize| -> Vec<f64> { (0..count).map(|_| random.symmetric()).collect() };
    let edges = sample.indices.len();
    let (of_rows, of_lists, upstream) = (numbers(20 * heads), numbers(30 * heads), numbers(edges * heads));
    let weights = |of_rows: &[f64], of_lists: &[f64], pool: Option<&rayon::ThreadPool>| {
        let mut out = vec![0.0; edges * heads];
        attention(&lists, EdgeScores { of_rows, of_lists, heads, slope: 0.2 }, &mut out, pool).unwrap();
        out
    };
    let found = weights(&of_rows, &of_lists, None);
    for v in 0..lists.len() {
        for head in 0..heads {
            let total: f64 = lists.edges(v).map(|edge| found[edge * heads + head]).sum();
            assert!(lists.edges(v).is_empty() || (total - 1.0).abs() < 1e-12);
        }
    }
    let loss = |of_rows: &[f64], of_lists: &[f64]| -> f64 {
        weights(of_rows, of_lists, None).iter().zip(&upstream).map(|(a, b)| a * b).sum()
    };
    let mut of_sums = vec![0.0; edges * heads];
    let scores = EdgeScores { of_rows: &of_rows, of_lists: &of_lists, heads, slope: 0.2 };
    attention::back(&lists, scores, (&found, &upstream), &mut of_sums, None).unwrap();
    let mut gradients = (vec![0.0; of_rows.len()], vec![0.0; of_lists.len()]);
    for v in 0..lists.len() {
        for edge in lists.edges(v) {
            for head in 0..heads {
                gradients.0[lists.row(edge) * heads + head] += of_sums[edge * heads + head];
                gradients.1[v * heads + head] += of_sums[edge * heads + head];
            }
        }
    }
    let moved = |numbers: &[f64], at: usize, by: f64| {
        let mut numbers = numbers.to_vec();
        numbers[at] += by;
        numbers
    };
    let step = 1e-6;
    for at in 0..of_rows.len() {
        let difference =
            loss(&moved(&of_rows, at, step), &of_lists) - loss(&moved(&of_rows, at, -step), &of_lists);
        assert!((difference / (2.0 * step) - gradients.0[at]).abs() < 1e-7, "row {at}");
    }
    for at in 0..of_lists.len() {
        let difference =
            loss(&of_rows, &moved(&of_lists, at, step)) - loss(&of_rows, &moved(&of_lists, at, -step));
        assert!((difference / (2.0 * step) - gradients.1[at]).abs() < 1e-7, "list {at}");
    }
}

#[test]
fn loops_over_edges_give_the_same_bits_for_any_number_of_threads() {
    let (heads, width) = (4, 60);
    let sample = Sample::random(3000, 500, width, 9);
    let lists = sample.checked();
    let mut random = Random(3);
    let mut numbers = |count: usize| -> Vec<f32> { (0..count).map(|_| random.symmetric() as f32).collect() };
    let (of_rows, of_lists, others) = (numbers(500 * heads), numbers(3000 * heads), numbers(3000 * width));
    let run = |pool: Option<&rayon::ThreadPool>| {
        let mut out = vec![vec![0.0; sample.indices.len() * heads]; 3];
        let scores = EdgeScores { of_rows: &of_rows, of_lists: &of_lists, heads, slope: 0.2 };
        attention(&lists, scores, &mut out[0], pool).unwrap();
        dots(&lists, (&sample.rows, &others), (width, heads), &mut out[1], pool).unwrap();
        let [weights, products, back] = &mut out[..] else { unreachable!() };
        attention::back(&lists, scores, (weights, products), back, pool).unwrap();
        let mut largest = vec![0.0; 3000 * width];
        maxima(&lists, &sample.rows, width, &mut largest, pool).unwrap();
        (out.iter().map(|out| bits(out)).collect::<Vec<_>>(), bits(&largest))
    };
    let alone = run(None);
    for threads in [1, 2, 3, 8] {
        assert!(run(Some(&pool(threads))) == alone, "{threads}");
    }
}

#[test]
fn products_of_rows_are_those_of_each_head() {
    let (heads, width) = (2, 6);
    let sample = Sample::random(20, 10, width, 4);
    let lists = sample.checked();
    let mut random = Random(8);
    let others: Vec<f32> = (0..20 * width).map(|_| random.symmetric() as f32).collect();
    let mut out = vec![0.0; sample.indices.len() * heads];
    dots(&lists, (&sample.rows, &others), (width, heads), &mut out, None).unwrap();
    for v in 0..20 {
        for edge in lists.edges(v) {
            for head in 0..heads {
                let product: f32 = (head * 3..head * 3 + 3)
                    .map(|column| sample.rows[lists.row(edge) * width + column] * others[v * width + column])
                    .sum();
                assert!((product - out[edge * heads + head]).abs() < 1e-6);
            }
        }
    }
}
