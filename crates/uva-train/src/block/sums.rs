//! Weighted sums of listed rows on the host, as tensors: the loops are those of `uva_ops::lists`.

#![allow(unsafe_code)]

use crate::torch::borrowed::Number;
use crate::{TrainError, torch::host};
use rayon::ThreadPool;
use tch::Tensor;
use uva_ops::Vectors;
use uva_ops::lists::{Id, Lists, SumElement, WeightedSums, Weights};

/// Sums one row per list, with the fastest threads and instructions.
pub(crate) fn weighted_sums<T: SumElement + Number, I: Id>(
    rows: &Tensor,
    lists: (&[I], &[I]),
    weights: Weights<'_, T>,
) -> Result<Tensor, TrainError> {
    weighted_sums_by(rows, lists, weights, Vectors::widest(), host::threads().as_deref())
}

/// Sums one row per list, with these threads and instructions.
pub(crate) fn weighted_sums_by<T: SumElement + Number, I: Id>(
    rows: &Tensor,
    (offsets, indices): (&[I], &[I]),
    weights: Weights<'_, T>,
    vectors: Vectors,
    pool: Option<&ThreadPool>,
) -> Result<Tensor, TrainError> {
    let (count, width) = rows.size2()?;
    let lists = Lists::new(offsets, indices, count as usize)?;
    let sums = WeightedSums::new(host::values::<T>(rows)?, width as usize, lists, weights)?;
    let shape = [lists.len() as i64, width];
    // SAFETY: `write` writes each element.
    unsafe { host::filled(&shape, |out| sums.write(out, vectors, pool)) }
}
