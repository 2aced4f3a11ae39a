//! The weight of each edge and the transposed lists of a block, computed by torch operations if the lists are on a
//! device.
//!
//! No operation synchronises with the device: the host knows every size in advance. (`bincount`, `nonzero`, masks and
//! `repeat_interleave` without a size would wait.) On the host `aggregate.rs` does the same in loops, which are faster
//! there; `tests/blocks/tensor_blocks.rs` compares the two. If the kernel of `block_kernel.rs` runs, it replaces
//! [`TensorBlock::new`] and [`TensorBlock::weights`]; transposed lists are sorted by libtorch in either case.

use crate::TrainError;
use tch::{Kind, Tensor};
use uva_model::{ModelKind, Weighting};

/// A block's numbers as tensors on one device, all within their ranges.
pub(crate) struct TensorBlock {
    /// [destinations + 1], i32, from 0 to the number of edges.
    pub(crate) offsets: Tensor,
    /// [edges], i32.
    pub(crate) indices: Tensor,
    /// [edges], i32: the list of each edge, non-decreasing.
    pub(crate) destination_of_edge: Tensor,
    sources: usize,
}

/// The lists of sources instead of destinations.
pub(crate) struct Transposed {
    /// [sources + 1], i32.
    pub(crate) offsets: Tensor,
    /// [edges], i32: the destinations that picked each source, in order.
    pub(crate) indices: Tensor,
    /// [edges], i64: the position of each of these edges in the lists of destinations.
    pub(crate) order: Tensor,
}

impl TensorBlock {
    /// `indptr` and `indices` are i32 vectors.
    ///
    /// Numbers out of range are clamped, and an offset below its predecessor is raised to it. Otherwise libtorch's
    /// kernels would access memory outside their tensors, or stop the device.
    pub(crate) fn new(indptr: &Tensor, indices: &Tensor, sources: usize) -> Result<Self, TrainError> {
        let (destinations, edges) = (indptr.numel() as i64 - 1, indices.numel() as i64);
        let (offsets, _) = indptr.f_clamp(0, edges)?.f_cummax(0)?;
        let indices = indices.f_clamp(0, sources as i64 - 1)?;
        // Edge e is in list v if v ends are at most e.
        let ends = offsets.f_narrow(0, 1, destinations)?;
        let edge_numbers = Tensor::f_arange(edges, (Kind::Int, indptr.device()))?;
        let destination_of_edge =
            count_up_to(&ends, &edge_numbers, Ties::Counted)?.f_clamp_max(destinations - 1)?;
        Ok(Self { offsets, indices, destination_of_edge, sources })
    }

    /// A block from numbers that are already in their ranges.
    pub(crate) fn prepared(
        offsets: Tensor,
        indices: Tensor,
        destination_of_edge: Tensor,
        sources: usize,
    ) -> Self {
        Self { offsets, indices, destination_of_edge, sources }
    }

    /// A block that shares these tensors.
    pub(crate) fn shallow_clone(&self) -> Self {
        Self {
            offsets: self.offsets.shallow_clone(),
            indices: self.indices.shallow_clone(),
            destination_of_edge: self.destination_of_edge.shallow_clone(),
            sources: self.sources,
        }
    }

    /// The weight of each edge, and for GCN that of each destination's own row, [destinations, 1], both of `kind`: see
    /// `aggregate.rs`, which computes them in f64 as well. `degrees` are those of at least the block's sources, and
    /// `sampled` the sampler's weights of the edges, f32, if it made any.
    pub(crate) fn weights(
        &self,
        model: ModelKind,
        sampled: Option<&Tensor>,
        degrees: Option<&Tensor>,
        kind: Kind,
    ) -> Result<(Tensor, Option<Tensor>), TrainError> {
        let sampled = sampled.map(|weights| weights.f_to_kind(Kind::Double)).transpose()?;
        // Infinite for an empty list, whose weight is not used.
        let picks = self.offsets.f_diff::<Tensor>(1, 0, None, None)?.f_to_kind(Kind::Double)?;
        let per_edge = |of_lists: &Tensor| of_lists.f_index_select(0, &self.destination_of_edge);
        match (model.row().weighting, degrees) {
            (Weighting::Degrees, Some(degrees)) => {
                let destinations = picks.numel() as i64;
                let degrees = degrees.f_narrow(0, 0, self.sources as i64)?.f_to_kind(Kind::Double)?;
                let roots = degrees.f_add_scalar(1.0)?.f_sqrt()?.f_reciprocal()?;
                let own_roots = roots.f_narrow(0, 0, destinations)?;
                let own_degrees = degrees.f_narrow(0, 0, destinations)?;
                let scales = match sampled {
                    None => per_edge(&own_degrees.f_div(&picks)?.f_mul(&own_roots)?)?,
                    Some(sampled) => {
                        per_edge(&own_degrees)?.f_mul(&sampled)?.f_mul(&per_edge(&own_roots)?)?
                    }
                };
                let weights = scales.f_mul(&roots.f_index_select(0, &self.indices)?)?;
                let own = own_roots.f_mul(&own_roots)?.f_to_kind(kind)?.f_unsqueeze(1)?;
                Ok((weights.f_to_kind(kind)?, Some(own)))
            }
            (Weighting::Degrees, None) => Err(TrainError::Input("a GCN's batch without degrees".to_owned())),
            (Weighting::Sum, _) => {
                refuse_weights(model, sampled.is_some())?;
                Ok((Tensor::f_ones([self.indices.numel() as i64], (kind, picks.device()))?, None))
            }
            // Weights are computed from the rows, or do not exist: a model over a hop set gets no block.
            (Weighting::Attention | Weighting::Beforehand, _) => {
                refuse_weights(model, sampled.is_some())?;
                Ok((Tensor::f_zeros([0], (kind, picks.device()))?, None))
            }
            (Weighting::Mean, _) => match sampled {
                None => Ok((per_edge(&picks.f_reciprocal()?.f_to_kind(kind)?)?, None)),
                Some(sampled) => Ok((sampled.f_to_kind(kind)?, None)),
            },
        }
    }

    /// The lists with each destination itself at the end of its own.
    pub(crate) fn with_own(&self) -> Result<Self, TrainError> {
        let destination_of_edge = &self.destination_of_edge;
        let (destinations, edges) = (self.offsets.numel() as i64 - 1, destination_of_edge.numel() as i64);
        let numbers = |count| Tensor::f_arange(count, (Kind::Int, destination_of_edge.device()));
        let own = numbers(destinations)?;
        // An edge of list v moves back by the v destinations before it, and list v ends after the edges up to it.
        let of_edges = numbers(edges)?.f_add(destination_of_edge)?;
        let of_own = count_up_to(destination_of_edge, &own, Ties::Counted)?.f_add(&own)?;
        let places = Tensor::f_cat(&[&of_edges, &of_own], 0)?.f_to_kind(Kind::Int64)?;
        let placed = |of_edges: &Tensor| -> Result<Tensor, TrainError> {
            let values = Tensor::f_cat(&[of_edges, &own], 0)?;
            Ok(values.f_empty_like()?.f_index_copy_(0, &places, &values)?)
        };
        let start = Tensor::f_zeros([1], (Kind::Int, destination_of_edge.device()))?;
        Ok(Self {
            offsets: Tensor::f_cat(&[&start, &of_own.f_add_scalar(1)?], 0)?,
            indices: placed(&self.indices)?,
            destination_of_edge: placed(destination_of_edge)?,
            sources: self.sources,
        })
    }

    /// The transposed lists of the edges (at least one edge). Destinations stay in order within a source, so that sums
    /// repeat.
    pub(crate) fn transposed(&self) -> Result<Transposed, TrainError> {
        let (sorted, order) = self.indices.f_sort_stable(true, 0, false)?;
        let bounds = Tensor::f_arange(self.sources as i64 + 1, (Kind::Int, sorted.device()))?;
        Ok(Transposed {
            offsets: count_up_to(&sorted, &bounds, Ties::NotCounted)?,
            indices: self.destination_of_edge.f_index_select(0, &order)?,
            order,
        })
    }
}

/// Refuses sampler weights on the edges of a model that computes its own neighbour weights.
pub(crate) fn refuse_weights(model: ModelKind, weighed: bool) -> Result<(), TrainError> {
    if weighed {
        return Err(TrainError::Input(format!(
            "a batch with weights of its edges for `model={}`, which takes none",
            model.name()
        )));
    }
    Ok(())
}

/// Whether numbers that equal a bound count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ties {
    Counted,
    NotCounted,
}

/// For each bound the count of ascending numbers below it (or equal to it), as i32. All are i32.
fn count_up_to(ascending: &Tensor, bounds: &Tensor, ties: Ties) -> Result<Tensor, TrainError> {
    let side = if ties == Ties::Counted { "right" } else { "left" };
    Ok(bounds.f_searchsorted::<Tensor>(ascending, true, ties == Ties::Counted, side, None)?)
}
