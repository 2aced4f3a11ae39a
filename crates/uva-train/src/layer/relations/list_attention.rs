//! Attention over the lists of a block in host memory: the loops are those of `uva_ops::lists`.

use crate::block::aggregate::HostLists;
use crate::block::sums::weighted_sums;
use crate::torch::borrowed::Number;
use crate::{TrainError, torch::host};
use tch::{Device, Kind, Tensor};
use uva_ops::lists::attention::{EdgeScores, attention, back};
use uva_ops::lists::{Lists, SumElement, Weights, dots, transpose};

/// LeakyReLU's slope below zero.
const SLOPE: f64 = 0.2;

/// Rows and parts of scores that were attended to, for the backward pass. All are contiguous.
pub(crate) struct Attended {
    /// [sources, heads × width].
    rows: Tensor,
    /// The sources' parts of the scores, [sources, heads].
    of_rows: Tensor,
    /// The destinations' parts, [destinations, heads].
    of_lists: Tensor,
    /// The softmax of each list, [edges, heads].
    weights: Tensor,
}

/// Gradients of what was attended to.
pub(crate) struct OfAttended {
    pub(crate) rows: Tensor,
    pub(crate) of_rows: Tensor,
    pub(crate) of_lists: Tensor,
}

impl Attended {
    /// The weighted sums of `rows`, [destinations, heads × width], and what they were computed from. The score of an edge is
    /// LeakyReLU of the sum of its source's and its destination's part, and its weight the softmax in its list. An empty
    /// list has a sum of zeros.
    pub(crate) fn new(
        lists: &HostLists<'_>,
        rows: &Tensor,
        of_rows: &Tensor,
        of_lists: &Tensor,
    ) -> Result<(Tensor, Self), TrainError> {
        let (edges, (_, heads)) = (lists.indices.len() as i64, of_rows.size2()?);
        let mut attended = Self {
            rows: rows.f_contiguous()?,
            of_rows: of_rows.f_contiguous()?,
            of_lists: of_lists.f_contiguous()?,
            weights: Tensor::f_zeros([edges, heads], (rows.f_kind()?, Device::Cpu))?,
        };
        let sums = match rows.f_kind()? {
            Kind::Double => attended.forward::<f64>(lists)?,
            _ => attended.forward::<f32>(lists)?,
        };
        Ok((sums, attended))
    }

    /// The gradients from that of the sums.
    pub(crate) fn backward(
        &self,
        lists: &HostLists<'_>,
        gradient: &Tensor,
    ) -> Result<OfAttended, TrainError> {
        let gradient = gradient.f_contiguous()?;
        match gradient.f_kind()? {
            Kind::Double => self.back::<f64>(lists, &gradient),
            _ => self.back::<f32>(lists, &gradient),
        }
    }

    fn heads(&self) -> Result<usize, TrainError> {
        Ok(self.of_rows.size2()?.1 as usize)
    }

    fn scores<T: SumElement + Number>(&self) -> Result<EdgeScores<'_, T>, TrainError> {
        let (of_rows, of_lists) = (host::values(&self.of_rows)?, host::values(&self.of_lists)?);
        Ok(EdgeScores { of_rows, of_lists, heads: self.heads()?, slope: T::from_f64(SLOPE) })
    }

    fn forward<T: SumElement + Number>(&mut self, lists: &HostLists<'_>) -> Result<Tensor, TrainError> {
        let (checked, heads) = (checked(lists)?, self.heads()?);
        let mut weights = self.weights.shallow_clone();
        let scores = self.scores::<T>()?;
        filled_by(&mut weights, |out| attention(&checked, scores, out, host::threads().as_deref()))?;
        let weights = Weights::Heads(host::values::<T>(&self.weights)?, heads);
        weighted_sums(&self.rows, (lists.indptr, lists.indices), weights)
    }

    fn back<T: SumElement + Number>(
        &self,
        lists: &HostLists<'_>,
        gradient: &Tensor,
    ) -> Result<OfAttended, TrainError> {
        let (checked, heads, edges) = (checked(lists)?, self.heads()?, lists.indices.len());
        let pool = host::threads();
        let (rows, width) = (host::values::<T>(&self.rows)?, self.rows.size2()?.1 as usize);
        let (of_sums, weights) = (host::values::<T>(gradient)?, host::values::<T>(&self.weights)?);
        let mut of_weights = self.weights.f_zeros_like()?;
        filled_by(&mut of_weights, |out| {
            dots(&checked, (rows, of_sums), (width, heads), out, pool.as_deref())
        })?;
        let mut of_scores = self.weights.f_zeros_like()?;
        let (scores, of_weights) = (self.scores::<T>()?, host::values::<T>(&of_weights)?);
        filled_by(&mut of_scores, |out| back(&checked, scores, (weights, of_weights), out, pool.as_deref()))?;
        // The edges by source: their destinations, their numbers and their weights.
        let (mut picked_by, mut order) = (vec![0i32; edges], vec![0i32; edges]);
        let mut by_source = vec![T::from_f64(0.0); edges * heads];
        let offsets = transpose(&checked, |place, v, edge| {
            (picked_by[place], order[place]) = (v as i32, edge as i32);
            by_source[place * heads..][..heads].copy_from_slice(&weights[edge * heads..][..heads]);
        });
        let all: Vec<i32> = (0..edges as i32).collect();
        Ok(OfAttended {
            rows: weighted_sums(gradient, (&offsets, &picked_by), Weights::Heads(&by_source, heads))?,
            of_rows: weighted_sums::<T, _>(&of_scores, (&offsets, &order), Weights::One)?,
            of_lists: weighted_sums::<T, _>(&of_scores, (lists.indptr, &all), Weights::One)?,
        })
    }
}

fn checked<'a>(lists: &HostLists<'a>) -> Result<Lists<'a, i32>, TrainError> {
    Ok(Lists::new(lists.indptr, lists.indices, lists.sources)?)
}

/// Lets a loop write the numbers of a tensor.
pub(super) fn filled_by<T: Number, E>(
    tensor: &mut Tensor,
    write: impl FnOnce(&mut [T]) -> Result<(), E>,
) -> Result<(), TrainError>
where
    TrainError: From<E>,
{
    let mut written = Ok(());
    host::change(tensor, |out| written = write(out))?;
    Ok(written?)
}
