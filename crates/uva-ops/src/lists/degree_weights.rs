//! The weights of a graph convolution: based on the degrees of both ends of an edge.

use super::checked_lists::{Id, Lists};
use super::sums::SumElement;
use super::tasks::by_edge;
use rayon::ThreadPool;

/// The cost of an edge's weight in multiply-adds; the row's degree is a random access.
const WORK: usize = 10;

/// Kipf & Welling's D̂^-½ (A + I) D̂^-½ for sampled lists, where D̂ = in-degree in the whole graph + 1. Returns the weight
/// of each edge u → v, and that of each list's own row, which is row `v` of those that lists name.
///
/// The picked edges of a list stand for the whole list, so their weights are scaled by degree / picks. Edge u → v gets
/// (d_v / picks_v) / √((d_v + 1)(d_u + 1)). The own row, which is never left out, gets 1 / (d_v + 1). Where the sampler
/// weighed the edges (`sampled` is not empty), w_e replaces 1 / picks_v, which has the same meaning. With uniform picks,
/// and with weights that are right in expectation, the sum is right in expectation. With whole neighbourhoods of an
/// undirected graph it is Kipf & Welling's. On a directed graph both degrees are in-degrees.
///
/// All is computed in f64, and rounded once. The threads of `pool` take a part of the lists each; weights do not depend on
/// them.
///
/// # Panics
/// With fewer degrees than rows, fewer rows than lists, or fewer weights than edges, unless there are none.
pub fn degree_weights<T: SumElement, I: Id>(
    lists: &Lists<'_, I>,
    sampled: &[f32],
    degrees: &[i32],
    pool: Option<&ThreadPool>,
) -> (Vec<T>, Vec<T>) {
    let inverse_root: Vec<f64> =
        degrees[..lists.rows()].iter().map(|&degree| inverse_root(i64::from(degree))).collect();
    let edges = lists.indices().len();
    let mut weights = vec![T::from_f64(0.0); edges];
    by_edge(lists, &mut weights, 1, WORK * edges, pool, |of, out| {
        let mut out = out.iter_mut();
        for v in of {
            let edges = lists.edges(v);
            let degree = f64::from(degrees[v]);
            let mean = degree / edges.len() as f64 * inverse_root[v];
            for (edge, weight) in edges.zip(&mut out) {
                let scale = match sampled {
                    [] => mean,
                    sampled => degree * f64::from(sampled[edge]) * inverse_root[v],
                };
                *weight = T::from_f64(scale * inverse_root[lists.row(edge)]);
            }
        }
    });
    let own = inverse_root[..lists.len()].iter().map(|root| T::from_f64(root * root)).collect();
    (weights, own)
}

/// 1 / √(d + 1).
pub fn inverse_root(degree: i64) -> f64 {
    1.0 / (degree as f64 + 1.0).sqrt()
}
