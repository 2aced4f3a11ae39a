//! Weights of edges from scores: the softmax of each list, and its gradient (Veličković et al. 2018).

use super::checked_lists::{Id, Lists, ListsError};
use super::sums::SumElement;
use super::tasks::by_edge;
use rayon::ThreadPool;

/// The parts of scores: edge u → v of a head has the score LeakyReLU(`of_rows[u] + of_lists[v]`).
#[derive(Clone, Copy)]
pub struct EdgeScores<'a, T> {
    /// One number per row and head.
    pub of_rows: &'a [T],
    /// One number per list and head.
    pub of_lists: &'a [T],
    /// The number of heads.
    pub heads: usize,
    /// LeakyReLU's slope below zero.
    pub slope: T,
}

impl<T: SumElement> EdgeScores<'_, T> {
    fn check<I: Id>(&self, lists: &Lists<'_, I>) -> Result<(), ListsError> {
        lists.check_table(self.of_rows.len(), lists.rows(), self.heads)?;
        lists.check_table(self.of_lists.len(), lists.len(), self.heads)
    }

    /// The sum before LeakyReLU.
    fn sum(&self, row: usize, v: usize, head: usize) -> T {
        self.of_rows[row * self.heads + head] + self.of_lists[v * self.heads + head]
    }
}

/// The softmax of the scores of each list, head by head: `heads` numbers per edge.
///
/// # Errors
/// If sizes do not fit together.
pub fn attention<T: SumElement, I: Id>(
    lists: &Lists<'_, I>,
    scores: EdgeScores<'_, T>,
    out: &mut [T],
    pool: Option<&ThreadPool>,
) -> Result<(), ListsError> {
    scores.check(lists)?;
    let (heads, edges) = (scores.heads, lists.indices().len());
    lists.check_table(out.len(), edges, heads)?;
    // An exponential function takes as long as some ten multiply-adds.
    by_edge(lists, out, heads, 10 * edges * heads, pool, |of, mut out| {
        for v in of {
            let edges = lists.edges(v);
            let (own, rest) = std::mem::take(&mut out).split_at_mut(edges.len() * heads);
            out = rest;
            for head in 0..heads {
                let mut largest = T::from_f64(f64::NEG_INFINITY);
                for (place, edge) in edges.clone().enumerate() {
                    let sum = scores.sum(lists.row(edge), v, head);
                    let score = if sum > T::from_f64(0.0) { sum } else { sum * scores.slope };
                    own[place * heads + head] = score;
                    largest = if score > largest { score } else { largest };
                }
                // With the largest score subtracted, there is no overflow, and no sum is below one.
                let mut total = T::from_f64(0.0);
                for place in 0..edges.len() {
                    let weight = &mut own[place * heads + head];
                    *weight = (*weight - largest).exp();
                    total = total + *weight;
                }
                for place in 0..edges.len() {
                    let weight = &mut own[place * heads + head];
                    *weight = *weight / total;
                }
            }
        }
    });
    Ok(())
}

/// The gradient of the sums before LeakyReLU, `heads` numbers per edge, from that of the weights of [`attention`].
///
/// # Errors
/// If sizes do not fit together.
pub fn back<T: SumElement, I: Id>(
    lists: &Lists<'_, I>,
    scores: EdgeScores<'_, T>,
    (weights, gradient): (&[T], &[T]),
    out: &mut [T],
    pool: Option<&ThreadPool>,
) -> Result<(), ListsError> {
    scores.check(lists)?;
    let (heads, edges) = (scores.heads, lists.indices().len());
    for table in [weights.len(), gradient.len(), out.len()] {
        lists.check_table(table, edges, heads)?;
    }
    by_edge(lists, out, heads, edges * heads, pool, |of, mut out| {
        for v in of {
            let edges = lists.edges(v);
            let (own, rest) = std::mem::take(&mut out).split_at_mut(edges.len() * heads);
            out = rest;
            for head in 0..heads {
                let at = |edge: usize| edge * heads + head;
                let total = edges.clone().fold(T::from_f64(0.0), |sum, edge| {
                    weights[at(edge)].multiply_add(gradient[at(edge)], sum)
                });
                for (place, edge) in edges.clone().enumerate() {
                    let of_score = weights[at(edge)] * (gradient[at(edge)] - total);
                    let steep = scores.sum(lists.row(edge), v, head) > T::from_f64(0.0);
                    own[place * heads + head] = if steep { of_score } else { of_score * scores.slope };
                }
            }
        }
    });
    Ok(())
}
