//! Initial values of parameters.

use crate::TrainError;
use crate::nn::random::SplitMix64;
use tch::{Device, Kind, Tensor};

/// Uniform in ±√(6 / fans) (Glorot & Bengio 2010), `fans` being inputs + outputs.
pub(crate) fn glorot(
    shape: &[usize],
    fans: usize,
    place: (Kind, Device),
    random: &mut SplitMix64,
) -> Result<Tensor, TrainError> {
    uniform(shape, (6.0 / fans as f64).sqrt(), place, random)
}

/// Weight and bias of a linear map as PyTorch and PyG draw them: uniform in ±1 / √inputs.
pub(crate) fn linear_map(
    (inputs, outputs): (usize, usize),
    place: (Kind, Device),
    random: &mut SplitMix64,
) -> Result<(Tensor, Tensor), TrainError> {
    let bound = 1.0 / (inputs as f64).sqrt();
    let weight = uniform(&[outputs, inputs], bound, place, random)?;
    Ok((weight, uniform(&[outputs], bound, place, random)?))
}

/// The weight alone of [`linear_map`].
pub(crate) fn linear_weight(
    (inputs, outputs): (usize, usize),
    place: (Kind, Device),
    random: &mut SplitMix64,
) -> Result<Tensor, TrainError> {
    uniform(&[outputs, inputs], 1.0 / (inputs as f64).sqrt(), place, random)
}

/// Uniform in ±`bound`.
///
/// Drawn on the host for every device, so that equal seeds give equal parameters everywhere.
pub(crate) fn uniform(
    shape: &[usize],
    bound: f64,
    (kind, device): (Kind, Device),
    random: &mut SplitMix64,
) -> Result<Tensor, TrainError> {
    let values: Vec<f64> = (0..shape.iter().product()).map(|_| bound * random.symmetric()).collect();
    let shape: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
    let weight = Tensor::f_from_slice(&values)?.f_to_kind(kind)?.f_view(&shape[..])?;
    Ok(weight.f_to_device(device)?)
}
