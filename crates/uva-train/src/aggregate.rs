//! Neighbour aggregation as one fused operation, and the weights that make it a mean or GCN's sum.

use crate::TrainError;
use crate::borrowed::Borrowed;
use crate::input::BlockInput;
use crate::options::ModelKind;
use tch::{Kind, Tensor};

/// `embedding_bag`'s name for a weighted sum.
const SUM: i64 = 0;

/// The weighted sums of neighbour rows: row v of the result is Σ over the edges e of list v of
/// `weights[e] · rows[indices[e]]`, and zeros for an empty list.
///
/// `offsets` has one entry more than there are lists. `indices` and `offsets` are both i32 or both i64. Nothing of
/// size edges × width is made, forward or backward; both add in a fixed order, so that results repeat bit for bit.
///
/// Chosen by `examples/aggregation.rs` (one core of an Intel Xeon at 2.1 GHz, torch 2.11.0, milliseconds forward /
/// forward and backward; all but the last repeat bit for bit and make no intermediate of size edges × width):
///
/// | destinations × fanout, sources, width | bag, mean, i32 | bag, mean, i64 | **bag, weighted, i32** | sparse CSR | select + index_add |
/// |---|---|---|---|---|---|
/// | 16384 × 10, 110000, 128 | 13.7 / 113 | 14.7 / 132 | **11.3 / 115** | 15.6 / 190 | 232 / 640 |
/// | 1024 × 15, 16384, 128 | 0.42 / 7.1 | 0.44 / 7.6 | **0.35 / 3.2** | 0.42 / 4.9 | 3.6 / 19.6 |
/// | 16384 × 10, 40000, 32 | 1.4 / 31 | 1.5 / 41 | **0.70 / 30** | 1.0 / 24 | 28 / 91 |
///
/// The weighted bag is a fbgemm kernel; the mean takes another way through libtorch. The backward pass is the
/// expensive one (it sorts the indices), which `model::projects_first` takes into account.
pub(crate) fn weighted_sums(
    rows: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    weights: &Tensor,
) -> Result<Tensor, TrainError> {
    let (sums, ..) = Tensor::f_embedding_bag(rows, indices, offsets, false, SUM, false, Some(weights), true)?;
    Ok(sums)
}

/// One block, ready for [`weighted_sums`].
pub(crate) struct Block<'a> {
    pub(crate) destinations: usize,
    pub(crate) sources: usize,
    pub(crate) edges: usize,
    offsets: Borrowed<'a>,
    indices: Borrowed<'a>,
    weights: Tensor,
    /// GCN: the weight of each destination's own row, [destinations, 1].
    pub(crate) own: Option<Tensor>,
}

impl<'a> Block<'a> {
    /// `degrees` are the whole-graph in-degrees of at least the block's sources; GraphSAGE doesn't read them.
    /// The block has been checked.
    pub(crate) fn new(
        model: ModelKind,
        block: &BlockInput<'a>,
        degrees: &[i32],
        kind: Kind,
    ) -> Result<Self, TrainError> {
        let (weights, own) = match model {
            ModelKind::Sage => (mean_weights(block), None),
            ModelKind::Gcn => {
                let (weights, own) = gcn_weights(block, degrees);
                let own = Tensor::f_from_slice(&own)?.f_to_kind(kind)?.f_unsqueeze(1)?;
                (weights, Some(own))
            }
        };
        Ok(Self {
            destinations: block.destinations,
            sources: block.sources,
            edges: block.indices.len(),
            offsets: Borrowed::vector(block.indptr)?,
            indices: Borrowed::vector(block.indices)?,
            weights: Tensor::f_from_slice(&weights)?.f_to_kind(kind)?,
            own,
        })
    }

    /// One row a destination: the weighted sum of its neighbours' rows.
    pub(crate) fn aggregate(&self, rows: &Tensor) -> Result<Tensor, TrainError> {
        weighted_sums(rows, self.indices.tensor(), self.offsets.tensor(), &self.weights)
    }
}

/// The edges of destination `v`, as a range of `indices`.
fn list(block: &BlockInput<'_>, v: usize) -> std::ops::Range<usize> {
    block.indptr[v] as usize..block.indptr[v + 1] as usize
}

/// 1 / number of picks, for every edge.
fn mean_weights(block: &BlockInput<'_>) -> Vec<f64> {
    let mut weights = vec![0.0; block.indices.len()];
    for v in 0..block.destinations {
        let edges = list(block, v);
        let weight = 1.0 / edges.len() as f64;
        weights[edges].fill(weight);
    }
    weights
}

/// Kipf & Welling's D̂^-½ (A + I) D̂^-½ for a sampled block, D̂ = in-degree in the whole graph + 1: the weight of each
/// edge u → v, and that of each destination's own row.
///
/// A list of which only some edges were picked stands for the whole one, so its weights are scaled by degree / picks:
/// edge u → v gets (d_v / picks_v) / √((d_v + 1)(d_u + 1)), and the own row, which is never left out, 1 / (d_v + 1).
/// With uniform picks the sum is right in expectation, and with whole neighbourhoods of an undirected graph it is
/// Kipf & Welling's. On a directed graph both degrees are in-degrees.
fn gcn_weights(block: &BlockInput<'_>, degrees: &[i32]) -> (Vec<f64>, Vec<f64>) {
    let inverse_root: Vec<f64> =
        degrees[..block.sources].iter().map(|&d| inverse_root(i64::from(d))).collect();
    let mut weights = vec![0.0; block.indices.len()];
    for v in 0..block.destinations {
        let edges = list(block, v);
        let scale = f64::from(degrees[v]) / edges.len() as f64 * inverse_root[v];
        for (weight, &source) in weights[edges.clone()].iter_mut().zip(&block.indices[edges]) {
            *weight = scale * inverse_root[source as usize];
        }
    }
    let own = inverse_root[..block.destinations].iter().map(|root| root * root).collect();
    (weights, own)
}

/// 1 / √(d + 1).
pub(crate) fn inverse_root(degree: i64) -> f64 {
    1.0 / (degree as f64 + 1.0).sqrt()
}
