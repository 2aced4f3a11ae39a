//! Neighbour aggregation as one fused operation, and the weights that make it a mean or GCN's sum.

use crate::block::block_kernel::{BlockPreparer, PreparedBlock, RawBlock};
use crate::block::sums;
use crate::block::tensor_block::{TensorBlock, Transposed, refuse_weights};
use crate::torch::borrowed::{Borrowed, Number};
use crate::{TrainError, torch::host};
use tch::{Device, Kind, Tensor};
use uva_batch::BlockSize;
use uva_model::{ModelKind, Weighting};
use uva_ops::lists::{Id, Lists as CheckedLists, SumElement, Weights, degree_weights, transpose};

/// `embedding_bag`'s name for a weighted sum.
const SUM: i64 = 0;

/// The weighted sums of neighbour rows: row v of the result is Σ over the edges e of list v of
/// `weights[e] · rows[indices[e]]`, and zeros for an empty list.
///
/// `offsets` has one entry more than there are lists. `indices` and `offsets` are i32 or i64. Neither forward nor
/// backward allocates a tensor of edges × width. Both add in a fixed order, so results repeat bit for bit.
///
/// On a device this is the bag, chosen by `OMP_NUM_THREADS=1 cargo run -p uva-train --example aggregation`. It ran with
/// torch 2.11.0 on one core of a shared Xeon with AVX-512. Figures are medians of 9 in milliseconds, forward / forward
/// and autograd's backward:
///
/// | destinations × fanout, sources, width | bag, mean, i32 | bag, mean, i64 | **bag, weighted, i32** | sparse CSR | select + index_add | transposed bag, backward only |
/// |---|---|---|---|---|---|---|
/// | 16384 × 10, 110000, 128 | 13.4 / 89 | 9.4 / 91 | **7.6 / 81** | 8.0 / 177 | 217 / 524 | 41 to 59 |
/// | 1024 × 15, 16384, 128 | 0.41 / 3.4 | 0.43 / 6.6 | **0.35 / 5.6** | 0.39 / 5.4 | 2.4 / 12.9 | **0.60** |
/// | 16384 × 10, 40000, 32 | 2.0 / 31 | 1.3 / 36 | **0.70 / 27** | 0.97 / 28 | 27 / 91 | **1.6** |
///
/// All repeat bit for bit. The weighted bag is a fbgemm kernel; the mean takes another path through libtorch. The last
/// column is [`Block::spread`], which computes the gradients. Autograd's backward of the bag sorts the edges first.
///
/// On the host it is the loop in `sums.rs`. The table shows a later run of the same example, in a development build.
/// `MALLOC_MMAP_THRESHOLD_` and `MALLOC_TRIM_THRESHOLD_` were set as for a consumer. Other jobs kept the machine busy,
/// so differences below a factor of two mean little. Figures are forward / backward alone, which for the bag is the
/// transposed one:
///
/// | threads, destinations × fanout, sources, width | bag, weighted | sums, weighted | sums, mean |
/// |---|---|---|---|
/// | 1, 1024 × 15, 16384, 128 | 0.32 / 0.56 | 0.29 / 0.71 | 0.29 / 0.95 |
/// | 1, 11000 × 10, 60000, 100 | 2.19 / 7.88 | 2.63 / 5.13 | 2.45 / 8.62 |
/// | 2, 1024 × 15, 16384, 128 | 0.16 / 10.5 | 0.31 / 0.66 | 0.32 / 1.30 |
/// | 2, 11000 × 10, 60000, 100 | 3.73 / 4.33 | 2.48 / 2.29 | 2.48 / 4.55 |
///
/// So on one thread it is as fast as the bag, not faster. Its advantages: a mean needs no stored weights, its bits do
/// not depend on the number of threads or the processor, and its lists are checked.
pub(crate) fn weighted_sums(
    rows: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    weights: &Tensor,
) -> Result<Tensor, TrainError> {
    if rows.device() == Device::Cpu {
        let kind = indices.f_kind()?;
        let offsets = offsets.f_to_kind(kind)?;
        return match kind {
            Kind::Int => on_host::<i32>(rows, indices, &offsets, weights),
            _ => on_host::<i64>(rows, indices, &offsets, weights),
        };
    }
    if indices.numel() == 0 {
        return zero_rows(offsets.numel() - 1, rows);
    }
    let (sums, ..) = Tensor::f_embedding_bag(rows, indices, offsets, false, SUM, false, Some(weights), true)?;
    Ok(sums)
}

/// [`weighted_sums`] of tensors on the host, with indices of type `I`.
fn on_host<I: Id + Number>(
    rows: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    weights: &Tensor,
) -> Result<Tensor, TrainError> {
    let (rows, weights) = (rows.f_contiguous()?, weights.f_contiguous()?);
    let lists = (host::values::<I>(offsets)?, host::values::<I>(indices)?);
    match rows.f_kind()? {
        Kind::Double => sums::weighted_sums(&rows, lists, Weights::Each(host::values::<f64>(&weights)?)),
        _ => sums::weighted_sums(&rows, lists, Weights::Each(host::values::<f32>(&weights)?)),
    }
}

/// `count` rows of zeros, with the width, kind and device of `rows`.
fn zero_rows(count: usize, rows: &Tensor) -> Result<Tensor, TrainError> {
    let (_, width) = rows.size2()?;
    Ok(Tensor::f_zeros([count as i64, width], (rows.f_kind()?, rows.device()))?)
}

/// The lists of a block in host memory: for each destination the local ids of the neighbours that were picked.
#[derive(Clone, Copy, Debug)]
pub struct HostLists<'a> {
    /// Number of destination nodes. They are the first of the source nodes.
    pub destinations: usize,
    /// Number of source nodes.
    pub sources: usize,
    /// `destinations + 1` offsets into `indices`, starting at 0.
    pub indptr: &'a [i32],
    /// Local source ids, each in `0..sources`.
    pub indices: &'a [i32],
    /// The weight of each edge: a destination's sum of weight times row estimates the mean over all its neighbours. If
    /// empty, the mean over its edges does.
    pub weights: &'a [f32],
}

/// One block, ready to be aggregated.
pub(crate) struct Block<'a> {
    pub(crate) destinations: usize,
    pub(crate) sources: usize,
    pub(crate) edges: usize,
    lists: Lists<'a>,
    /// The edges' features, if the batch has them.
    pub(crate) edge_attr: Option<Borrowed<'a>>,
    /// GCN: the weight of each destination's own row, [destinations, 1].
    pub(crate) own: Option<Tensor>,
}

/// A block's lists, by where their sums are computed.
enum Lists<'a> {
    /// The loops of this crate compute the sums on the host.
    Host { input: HostLists<'a>, weights: HostWeights },
    /// Tensor operations compute the sums; `weights` are those of the edges.
    Tensors { block: TensorBlock, weights: Tensor },
    /// The batch came with the sums. Gradients do not propagate further back.
    Given { sums: Borrowed<'a> },
}

/// The weights of a block's edges, of the trainer's number type.
pub(crate) enum HostWeights {
    /// The reciprocal of the number of picks of the edge's destination, which is not stored.
    Mean,
    /// A number per edge.
    Single(Vec<f32>),
    Double(Vec<f64>),
    /// For GAT, whose layers compute the weights from the rows.
    None,
}

impl HostWeights {
    fn of_kind(weights: Vec<f64>, kind: Kind) -> Self {
        match kind {
            Kind::Double => Self::Double(weights),
            _ => Self::Single(weights.into_iter().map(|weight| weight as f32).collect()),
        }
    }
}

impl<'a> Block<'a> {
    /// `degrees` are the whole-graph in-degrees of at least the block's sources; only GCN reads them.
    /// The block has been checked. `kind` is f32 or f64.
    pub(crate) fn new(
        model: ModelKind,
        block: &HostLists<'a>,
        degrees: &[i32],
        kind: Kind,
    ) -> Result<Self, TrainError> {
        let (weights, own) = match model.row().weighting {
            Weighting::Mean if block.weights.is_empty() => (HostWeights::Mean, None),
            Weighting::Mean => match kind {
                Kind::Double => {
                    (HostWeights::Double(block.weights.iter().copied().map(f64::from).collect()), None)
                }
                _ => (HostWeights::Single(block.weights.to_vec()), None),
            },
            // Weights are computed from the rows, or do not exist: a model over a hop set gets no block.
            Weighting::Attention | Weighting::Beforehand => {
                refuse_weights(model, !block.weights.is_empty())?;
                (HostWeights::None, None)
            }
            Weighting::Sum => {
                refuse_weights(model, !block.weights.is_empty())?;
                (HostWeights::of_kind(vec![1.0; block.indices.len()], kind), None)
            }
            Weighting::Degrees => {
                let lists = CheckedLists::new(block.indptr, block.indices, block.sources)?;
                let threads = host::threads();
                let pool = threads.as_deref();
                let (weights, own) = match kind {
                    Kind::Double => {
                        let (weights, own) = degree_weights::<f64, _>(&lists, block.weights, degrees, pool);
                        (HostWeights::Double(weights), Tensor::f_from_slice(&own)?)
                    }
                    _ => {
                        let (weights, own) = degree_weights::<f32, _>(&lists, block.weights, degrees, pool);
                        (HostWeights::Single(weights), Tensor::f_from_slice(&own)?)
                    }
                };
                (weights, Some(own.f_unsqueeze(1)?))
            }
        };
        Ok(Self {
            destinations: block.destinations,
            sources: block.sources,
            edges: block.indices.len(),
            lists: Lists::Host { input: *block, weights },
            edge_attr: None,
            own,
        })
    }

    /// A block from tensors on any device, without copies to the host. Only GCN requires `degrees`, i32. With
    /// `preparer` the kernel of this crate prepares all blocks at once, otherwise libtorch's operations do.
    pub(crate) fn from_tensors(
        preparer: Option<&BlockPreparer>,
        model: ModelKind,
        blocks: &[RawBlock<'_>],
        degrees: Option<&Tensor>,
        kind: Kind,
    ) -> Result<Vec<Self>, TrainError> {
        let prepared = match preparer {
            Some(preparer) => preparer.prepare(model, blocks, degrees, kind)?,
            None => {
                let by_operations = |raw: &RawBlock<'_>| -> Result<PreparedBlock, TrainError> {
                    let block = TensorBlock::new(raw.lists.0, raw.lists.1, raw.sources)?;
                    let (weights, own) = block.weights(model, raw.sampled, degrees, kind)?;
                    Ok((block, weights, own))
                };
                blocks.iter().map(by_operations).collect::<Result<_, _>>()?
            }
        };
        let made = |(raw, (block, weights, own)): (&RawBlock<'_>, PreparedBlock)| Self {
            destinations: raw.lists.0.numel() - 1,
            sources: raw.sources,
            edges: raw.lists.1.numel(),
            lists: Lists::Tensors { block, weights },
            edge_attr: None,
            own,
        };
        Ok(blocks.iter().zip(prepared).map(made).collect())
    }

    /// A block with these numbers of destinations, sources and edges, whose sums were made with the batch.
    pub(crate) fn given(BlockSize { destinations, sources, edges }: BlockSize, sums: Borrowed<'a>) -> Self {
        let lists = Lists::Given { sums };
        Self { destinations, sources, edges, lists, edge_attr: None, own: None }
    }

    /// Whether the block's sums were made with the batch.
    pub(crate) fn is_given(&self) -> bool {
        matches!(self.lists, Lists::Given { .. })
    }

    /// The edges' features as numbers of this kind, [edges, features].
    pub(crate) fn edge_rows(&self, kind: Kind) -> Result<Tensor, TrainError> {
        let Some(rows) = &self.edge_attr else {
            return Err(TrainError::Input("a batch without edge features for a model of them".to_owned()));
        };
        Ok(rows.tensor().f_to_kind(kind)?)
    }

    /// The block's lists, which have to be in host memory.
    pub(crate) fn host_lists(&self) -> Result<&HostLists<'a>, TrainError> {
        match &self.lists {
            Lists::Host { input, .. } => Ok(input),
            Lists::Tensors { .. } | Lists::Given { .. } => Err(no_lists()),
        }
    }

    /// The block's lists as tensors, on their current device.
    pub(crate) fn lists(&self) -> Result<TensorBlock, TrainError> {
        match &self.lists {
            Lists::Host { input, .. } => {
                let (offsets, indices) = (Borrowed::vector(input.indptr)?, Borrowed::vector(input.indices)?);
                TensorBlock::new(offsets.tensor(), indices.tensor(), self.sources)
            }
            Lists::Tensors { block, .. } => Ok(block.shallow_clone()),
            Lists::Given { .. } => Err(no_lists()),
        }
    }

    /// The block's lists as tensors on their current device, with each destination itself at the end of its list.
    pub(crate) fn lists_with_own(&self) -> Result<TensorBlock, TrainError> {
        match &self.lists {
            Lists::Host { .. } => self.lists()?.with_own(),
            Lists::Tensors { block, .. } => block.with_own(),
            Lists::Given { .. } => Err(no_lists()),
        }
    }

    /// The weighted sum of its neighbours' rows for each destination.
    pub(crate) fn aggregate(&self, rows: &Tensor) -> Result<Tensor, TrainError> {
        match &self.lists {
            Lists::Host { input, weights } => {
                let (rows, lists) = (rows.f_contiguous()?, (input.indptr, input.indices));
                match (weights, rows.f_kind()?) {
                    (HostWeights::Mean, Kind::Double) => {
                        sums::weighted_sums::<f64, _>(&rows, lists, Weights::Mean)
                    }
                    (HostWeights::Mean, _) => sums::weighted_sums::<f32, _>(&rows, lists, Weights::Mean),
                    (HostWeights::Single(weights), _) => {
                        sums::weighted_sums(&rows, lists, Weights::Each(weights))
                    }
                    (HostWeights::Double(weights), _) => {
                        sums::weighted_sums(&rows, lists, Weights::Each(weights))
                    }
                    (HostWeights::None, _) => Err(no_weights()),
                }
            }
            Lists::Tensors { block, weights } => weighted_sums(rows, &block.indices, &block.offsets, weights),
            Lists::Given { sums } => Ok(sums.tensor().f_to_kind(rows.f_kind()?)?),
        }
    }

    /// The transpose of [`Block::aggregate`], which propagates gradients: for each source, the weighted sum of the rows
    /// of the destinations that picked it.
    pub(crate) fn spread(&self, rows: &Tensor) -> Result<Tensor, TrainError> {
        match &self.lists {
            Lists::Host { input, weights } => {
                let rows = rows.f_contiguous()?;
                match (weights, rows.f_kind()?) {
                    (HostWeights::Mean, Kind::Double) => spread_on_host::<f64>(&rows, input, Weights::Mean),
                    (HostWeights::Mean, _) => spread_on_host::<f32>(&rows, input, Weights::Mean),
                    (HostWeights::Single(weights), _) => spread_on_host(&rows, input, Weights::Each(weights)),
                    (HostWeights::Double(weights), _) => spread_on_host(&rows, input, Weights::Each(weights)),
                    (HostWeights::None, _) => Err(no_weights()),
                }
            }
            Lists::Tensors { .. } if self.edges == 0 => zero_rows(self.sources, rows),
            Lists::Tensors { block, weights } => {
                let Transposed { offsets, indices, order } = block.transposed()?;
                weighted_sums(rows, &indices, &offsets, &weights.f_index_select(0, &order)?)
            }
            Lists::Given { .. } => Err(no_lists()),
        }
    }

    /// The weight of each edge; empty for GAT.
    #[cfg(test)]
    pub(crate) fn edge_weights(&self) -> Vec<f64> {
        match &self.lists {
            Lists::Host { weights: HostWeights::None, .. } => Vec::new(),
            Lists::Host { input, weights: HostWeights::Mean } => {
                let of_list = |v| vec![1.0 / list(input, v).len() as f64; list(input, v).len()];
                (0..input.destinations).flat_map(of_list).collect()
            }
            Lists::Host { weights: HostWeights::Single(weights), .. } => {
                weights.iter().copied().map(f64::from).collect()
            }
            Lists::Host { weights: HostWeights::Double(weights), .. } => weights.clone(),
            Lists::Tensors { weights, .. } => Vec::try_from(weights.to_kind(Kind::Double)).unwrap(),
            Lists::Given { .. } => Vec::new(),
        }
    }
}

fn no_lists() -> TrainError {
    TrainError::Input("a block without lists in memory that the model reads".to_owned())
}

fn no_weights() -> TrainError {
    TrainError::Input("a block of a GAT aggregated without its attention".to_owned())
}

/// Sums by source over the transposed lists of `input`, whose edges have `weights`.
pub(crate) fn spread_on_host<T: SumElement + Number>(
    rows: &Tensor,
    input: &HostLists<'_>,
    weights: Weights<'_, T>,
) -> Result<Tensor, TrainError> {
    let (offsets, picked_by, weights) = transposed(input, weights)?;
    sums::weighted_sums(rows, (&offsets[..], &picked_by[..]), Weights::Each(&weights))
}

/// The edges by source: the offsets of the sources' lists, the destinations in them, and the edges' weights.
/// Destinations stay in order within a source, so sums repeat.
#[expect(clippy::type_complexity, reason = "three vectors of one length each")]
pub(crate) fn transposed<T: SumElement>(
    block: &HostLists<'_>,
    edge_weights: Weights<'_, T>,
) -> Result<(Vec<i32>, Vec<i32>, Vec<T>), TrainError> {
    let lists = CheckedLists::new(block.indptr, block.indices, block.sources)?;
    let edges = block.indices.len();
    let (mut picked_by, mut weights) = (vec![0i32; edges], vec![T::from_f64(0.0); edges]);
    // The weight of the last list seen: edges are ordered by list.
    let (mut of_list, mut mean) = (usize::MAX, T::from_f64(1.0));
    let offsets = transpose(&lists, |place, v, edge| {
        picked_by[place] = v as i32;
        weights[place] = match edge_weights {
            Weights::Each(weights) => weights[edge],
            Weights::Mean => {
                if v != of_list {
                    (of_list, mean) = (v, T::from_f64(1.0 / list(block, v).len() as f64));
                }
                mean
            }
            Weights::Heads(..) | Weights::One => T::from_f64(1.0),
        };
    });
    Ok((offsets, picked_by, weights))
}

/// The edges of destination `v`, as a range of `indices`.
fn list(block: &HostLists<'_>, v: usize) -> std::ops::Range<usize> {
    block.indptr[v] as usize..block.indptr[v + 1] as usize
}
