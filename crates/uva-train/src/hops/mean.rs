//! Simple spectral graph convolution, S²GC (Zhu & Koniusz 2021): the mean over the hops, each with a share of the
//! features.

use crate::TrainError;
use crate::hops::inputs::another_number;
use tch::Tensor;

/// (1/R) Σ_r ((1 − α) z_r + α x) = α x + (1 − α)/R Σ_r z_r, from the tables x, z_1, …, z_R. The sum goes from the first
/// hop to the last.
pub(crate) fn mean(tables: &[Tensor], alpha: f64) -> Result<Tensor, TrainError> {
    let [features, first, others @ ..] = tables else { return Err(another_number(2)) };
    let mut sum = first.shallow_clone();
    for hop in others {
        sum = sum.f_add(hop)?;
    }
    let share = (1.0 - alpha) / (1 + others.len()) as f64;
    Ok(sum.f_mul_scalar(share)?.f_add(&features.f_mul_scalar(alpha)?)?)
}
