//! Neighbour aggregation as one fused operation, and the weights that make it a mean or GCN's sum.

use crate::TrainError;
use crate::borrowed::Borrowed;
use crate::input::BlockInput;
use crate::options::ModelKind;
use crate::tensor_block::{TensorBlock, Transposed};
use tch::{Kind, Tensor};

/// `embedding_bag`'s name for a weighted sum.
const SUM: i64 = 0;

/// The weighted sums of neighbour rows: row v of the result is Σ over the edges e of list v of
/// `weights[e] · rows[indices[e]]`, and zeros for an empty list.
///
/// `offsets` has one entry more than there are lists. `indices` and `offsets` are both i32 or both i64. Nothing of
/// size edges × width is made, forward or backward; both add in a fixed order, so that results repeat bit for bit.
///
/// Chosen by `OMP_NUM_THREADS=1 cargo run -p uva-train --example aggregation`: torch 2.11.0, one core of a shared
/// Xeon with AVX-512, medians of 9 in milliseconds, forward / forward and autograd's backward:
///
/// | destinations × fanout, sources, width | bag, mean, i32 | bag, mean, i64 | **bag, weighted, i32** | sparse CSR | select + index_add | transposed bag, backward only |
/// |---|---|---|---|---|---|---|
/// | 16384 × 10, 110000, 128 | 13.4 / 89 | 9.4 / 91 | **7.6 / 81** | 8.0 / 177 | 217 / 524 | 41 to 59 |
/// | 1024 × 15, 16384, 128 | 0.41 / 3.4 | 0.43 / 6.6 | **0.35 / 5.6** | 0.39 / 5.4 | 2.4 / 12.9 | **0.60** |
/// | 16384 × 10, 40000, 32 | 2.0 / 31 | 1.3 / 36 | **0.70 / 27** | 0.97 / 28 | 27 / 91 | **1.6** |
///
/// All repeat bit for bit. The weighted bag is a fbgemm kernel; the mean takes another way through libtorch. The last
/// column is [`Block::spread`], by which gradients go back: autograd's backward of the bag sorts the edges first.
pub(crate) fn weighted_sums(
    rows: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    weights: &Tensor,
) -> Result<Tensor, TrainError> {
    if indices.numel() == 0 {
        return zero_rows(offsets.numel() - 1, rows);
    }
    let (sums, ..) = Tensor::f_embedding_bag(rows, indices, offsets, false, SUM, false, Some(weights), true)?;
    Ok(sums)
}

/// `count` rows of zeros, otherwise like `rows`.
fn zero_rows(count: usize, rows: &Tensor) -> Result<Tensor, TrainError> {
    let (_, width) = rows.size2()?;
    Ok(Tensor::f_zeros([count as i64, width], (rows.f_kind()?, rows.device()))?)
}

/// One block, ready for [`weighted_sums`].
pub(crate) struct Block<'a> {
    pub(crate) destinations: usize,
    pub(crate) sources: usize,
    pub(crate) edges: usize,
    offsets: Borrowed<'a>,
    indices: Borrowed<'a>,
    /// Of each edge; of GAT none, whose layers compute them from the rows.
    pub(crate) weights: Tensor,
    transposing: Transposing<'a>,
    /// GCN: the weight of each destination's own row, [destinations, 1].
    pub(crate) own: Option<Tensor>,
}

/// How [`Block::spread`] gets the transposed lists.
enum Transposing<'a> {
    /// On the host by a counting sort.
    Counting { input: BlockInput<'a>, edge_weights: Vec<f64> },
    /// By operations on tensors.
    Sorting(TensorBlock),
}

impl<'a> Block<'a> {
    /// `degrees` are the whole-graph in-degrees of at least the block's sources; only GCN reads them.
    /// The block has been checked.
    pub(crate) fn new(
        model: ModelKind,
        block: &BlockInput<'a>,
        degrees: &[i32],
        kind: Kind,
    ) -> Result<Self, TrainError> {
        let (weights, own) = match model {
            ModelKind::Sage => (mean_weights(block), None),
            ModelKind::Gat => (refuse_weights(!block.weights.is_empty())?, None),
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
            transposing: Transposing::Counting { input: *block, edge_weights: weights },
            own,
        })
    }

    /// The same of a block that lies in tensors, on whichever device, with nothing brought to the host. `indptr` and
    /// `indices` are i32; `degrees`, i32 too, are needed by GCN only. `sampled_weights` are those of the block's edges,
    /// f32, where its sampler weighed them.
    pub(crate) fn from_tensors(
        model: ModelKind,
        sources: usize,
        indptr: &Tensor,
        indices: &Tensor,
        sampled_weights: Option<&Tensor>,
        degrees: Option<&Tensor>,
        kind: Kind,
    ) -> Result<Self, TrainError> {
        let block = TensorBlock::new(indptr, indices, sources)?;
        let (weights, own) = block.weights(model, sampled_weights, degrees, kind)?;
        Ok(Self {
            destinations: indptr.numel() - 1,
            sources,
            edges: indices.numel(),
            offsets: Borrowed::owned(block.offsets.shallow_clone()),
            indices: Borrowed::owned(block.indices.shallow_clone()),
            weights,
            transposing: Transposing::Sorting(block),
            own,
        })
    }

    /// Its lists with each destination itself at the end of its own, as tensors on whichever device they lie.
    pub(crate) fn lists_with_own(&self) -> Result<TensorBlock, TrainError> {
        match &self.transposing {
            Transposing::Counting { .. } => {
                TensorBlock::new(self.offsets.tensor(), self.indices.tensor(), self.sources)?.with_own()
            }
            Transposing::Sorting(block) => block.with_own(),
        }
    }

    /// One row a destination: the weighted sum of its neighbours' rows.
    pub(crate) fn aggregate(&self, rows: &Tensor) -> Result<Tensor, TrainError> {
        weighted_sums(rows, self.indices.tensor(), self.offsets.tensor(), &self.weights)
    }

    /// The transposed of [`Block::aggregate`], which takes gradients back: one row a source, the weighted sum of the
    /// rows of those destinations that picked it.
    pub(crate) fn spread(&self, rows: &Tensor) -> Result<Tensor, TrainError> {
        if self.edges == 0 {
            return zero_rows(self.sources, rows);
        }
        match &self.transposing {
            Transposing::Counting { input, edge_weights } => {
                let (offsets, picked_by, weights) = transposed(input, edge_weights);
                let weights = Tensor::f_from_slice(&weights)?.f_to_kind(self.weights.f_kind()?)?;
                let (indices, offsets) = (Borrowed::vector(&picked_by)?, Borrowed::vector(&offsets)?);
                weighted_sums(rows, indices.tensor(), offsets.tensor(), &weights)
            }
            Transposing::Sorting(block) => {
                let Transposed { offsets, indices, order } = block.transposed()?;
                weighted_sums(rows, &indices, &offsets, &self.weights.f_index_select(0, &order)?)
            }
        }
    }
}

/// A counting sort of the edges by source: the offsets of the sources' lists, the destinations in them, and the
/// edges' weights. Destinations stay in order within a source, so sums repeat.
pub(crate) fn transposed(block: &BlockInput<'_>, edge_weights: &[f64]) -> (Vec<i32>, Vec<i32>, Vec<f64>) {
    let BlockInput { destinations, sources, indices, .. } = *block;
    let mut offsets = vec![0i32; sources + 1];
    for &source in indices {
        offsets[source as usize + 1] += 1;
    }
    for source in 0..sources {
        offsets[source + 1] += offsets[source];
    }
    let mut next = offsets.clone();
    let (mut picked_by, mut weights) = (vec![0i32; indices.len()], vec![0.0f64; indices.len()]);
    for v in 0..destinations {
        for edge in list(block, v) {
            let place = &mut next[indices[edge] as usize];
            picked_by[*place as usize] = v as i32;
            weights[*place as usize] = edge_weights[edge];
            *place += 1;
        }
    }
    (offsets, picked_by, weights)
}

/// The edges of destination `v`, as a range of `indices`.
fn list(block: &BlockInput<'_>, v: usize) -> std::ops::Range<usize> {
    block.indptr[v] as usize..block.indptr[v + 1] as usize
}

/// The edges of a model that weighs its neighbours by itself: none may have a weight of its sampler's.
pub(crate) fn refuse_weights<T>(weighed: bool) -> Result<Vec<T>, TrainError> {
    if weighed {
        return Err(TrainError::Input(
            "a batch with weights of its edges for a GAT, which computes its own".to_owned(),
        ));
    }
    Ok(Vec::new())
}

/// For every edge 1 / number of picks, or the weight that its sampler gave it.
fn mean_weights(block: &BlockInput<'_>) -> Vec<f64> {
    if !block.weights.is_empty() {
        return block.weights.iter().copied().map(f64::from).collect();
    }
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
/// Where the sampler weighed the edges, w_e takes the place of 1 / picks_v, which is what it stands for. With uniform
/// picks, and with weights that are right in expectation, the sum is right in expectation, and with whole
/// neighbourhoods of an undirected graph it is Kipf & Welling's. On a directed graph both degrees are in-degrees.
fn gcn_weights(block: &BlockInput<'_>, degrees: &[i32]) -> (Vec<f64>, Vec<f64>) {
    let inverse_root: Vec<f64> =
        degrees[..block.sources].iter().map(|&d| inverse_root(i64::from(d))).collect();
    let mut weights = vec![0.0; block.indices.len()];
    for v in 0..block.destinations {
        let edges = list(block, v);
        let degree = f64::from(degrees[v]);
        let mean = degree / edges.len() as f64 * inverse_root[v];
        for edge in edges {
            let scale = block.weights.get(edge).map_or(mean, |&w| degree * f64::from(w) * inverse_root[v]);
            weights[edge] = scale * inverse_root[block.indices[edge] as usize];
        }
    }
    let own = inverse_root[..block.destinations].iter().map(|root| root * root).collect();
    (weights, own)
}

/// 1 / √(d + 1).
pub(crate) fn inverse_root(degree: i64) -> f64 {
    1.0 / (degree as f64 + 1.0).sqrt()
}
