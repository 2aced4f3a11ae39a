//! Initial values of parameters.

use crate::TrainError;
use crate::nn::random::SplitMix64;
use tch::{Device, Kind, Tensor};

/// Uniform in ±√(6 / fans) (Glorot & Bengio 2010), `fans` being inputs + outputs.
///
/// Drawn on the host for every device, so that equal seeds give equal parameters everywhere.
pub(crate) fn glorot(
    shape: &[usize],
    fans: usize,
    (kind, device): (Kind, Device),
    random: &mut SplitMix64,
) -> Result<Tensor, TrainError> {
    let bound = (6.0 / fans as f64).sqrt();
    let values: Vec<f64> = (0..shape.iter().product()).map(|_| bound * random.symmetric()).collect();
    let shape: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
    let weight = Tensor::f_from_slice(&values)?.f_to_kind(kind)?.f_view(&shape[..])?;
    Ok(weight.f_to_device(device)?)
}
