//! Row-wise steps: a linear map with bias, layer normalisation, and PReLU.

use crate::TrainError;
use crate::nn::initial::{glorot, linear_map};
use crate::nn::random::SplitMix64;
use tch::{Device, Kind, Tensor};

/// Added to a variance before the square root, as in PyTorch.
const EPSILON: f64 = 1e-5;

/// Sums of columns: the gradient of a vector that is added to every row.
pub(crate) fn column_sums(rows: &Tensor) -> Result<Tensor, TrainError> {
    Ok(rows.f_sum_dim_intlist([0i64].as_slice(), false, None)?)
}

/// x Wᵀ.
pub(crate) fn linear(x: &Tensor, weight: &Tensor) -> Result<Tensor, TrainError> {
    Ok(x.f_linear::<Tensor>(weight, None)?)
}

/// Layer normalisation of each row, scaled and shifted; also each row's mean and 1 / standard deviation.
pub(crate) fn layer_norm(
    x: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
) -> Result<(Tensor, Tensor, Tensor), TrainError> {
    Ok(x.f_native_layer_norm([weight.numel() as i64], Some(weight), Some(bias), EPSILON)?)
}

/// x Wᵀ + b.
pub(crate) struct Linear {
    weight: Tensor,
    bias: Tensor,
}

impl Linear {
    pub(crate) fn new(
        inputs: usize,
        outputs: usize,
        place: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let weight = glorot(&[outputs, inputs], inputs + outputs, place, random)?;
        Ok(Self { weight, bias: Tensor::f_zeros([outputs as i64], place)? })
    }

    /// With the initial values of PyTorch's `Linear`.
    pub(crate) fn as_in_torch(
        widths: (usize, usize),
        place: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let (weight, bias) = linear_map(widths, place, random)?;
        Ok(Self { weight, bias })
    }

    pub(crate) fn on(&self, device: Device) -> Result<Self, TrainError> {
        Ok(Self { weight: self.weight.f_to_device(device)?, bias: self.bias.f_to_device(device)? })
    }

    /// The map to `count` of its outputs, from `first` on. It has the same memory.
    pub(crate) fn outputs(&self, first: usize, count: usize) -> Result<Self, TrainError> {
        let part = |of: &Tensor| of.f_narrow(0, first as i64, count as i64);
        Ok(Self { weight: part(&self.weight)?, bias: part(&self.bias)? })
    }

    pub(crate) fn parameters(&self) -> Vec<(&'static str, &Tensor)> {
        vec![("weight", &self.weight), ("bias", &self.bias)]
    }

    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor, TrainError> {
        Ok(x.f_linear(&self.weight, Some(&self.bias))?)
    }

    /// Gradients of the parameters, in their order, and of `x` if requested, from that of the result.
    pub(crate) fn backward(
        &self,
        x: &Tensor,
        gradient: &Tensor,
        input_gradient: bool,
    ) -> Result<(Vec<Tensor>, Option<Tensor>), TrainError> {
        let of_parameters = vec![gradient.f_tr()?.f_mm(x)?, column_sums(gradient)?];
        let of_x = if input_gradient { Some(gradient.f_mm(&self.weight)?) } else { None };
        Ok((of_parameters, of_x))
    }
}

/// Each row brought to mean 0 and variance 1, then scaled and shifted column by column (Ba et al. 2016).
pub(crate) struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
}

/// The state that a normalisation keeps for its backward pass.
pub(crate) struct Normalised {
    x: Tensor,
    /// The mean of each row, [rows, 1].
    mean: Tensor,
    /// 1 / standard deviation of each row, [rows, 1].
    scale: Tensor,
}

impl LayerNorm {
    pub(crate) fn new(width: usize, place: (Kind, Device)) -> Result<Self, TrainError> {
        let width = [width as i64];
        Ok(Self { weight: Tensor::f_ones(width, place)?, bias: Tensor::f_zeros(width, place)? })
    }

    pub(crate) fn on(&self, device: Device) -> Result<Self, TrainError> {
        Ok(Self { weight: self.weight.f_to_device(device)?, bias: self.bias.f_to_device(device)? })
    }

    pub(crate) fn parameters(&self) -> Vec<(&'static str, &Tensor)> {
        vec![("weight", &self.weight), ("bias", &self.bias)]
    }

    pub(crate) fn forward(&self, x: Tensor) -> Result<(Tensor, Normalised), TrainError> {
        let (out, mean, scale) = layer_norm(&x, &self.weight, &self.bias)?;
        Ok((out, Normalised { x, mean, scale }))
    }

    /// Gradients of the parameters, in their order, and of `x`, from that of the result.
    pub(crate) fn backward(
        &self,
        saved: &Normalised,
        gradient: &Tensor,
    ) -> Result<(Vec<Tensor>, Tensor), TrainError> {
        let normalised = saved.x.f_sub(&saved.mean)?.f_mul(&saved.scale)?;
        let of_weight = column_sums(&gradient.f_mul(&normalised)?)?;
        let scaled = gradient.f_mul(&self.weight)?;
        let mean = |rows: &Tensor| rows.f_mean_dim([1i64].as_slice(), true, None);
        let along = normalised.f_mul(&mean(&scaled.f_mul(&normalised)?)?)?;
        let of_x = scaled.f_sub(&mean(&scaled)?)?.f_sub(&along)?.f_mul(&saved.scale)?;
        Ok((vec![of_weight, column_sums(gradient)?], of_x))
    }
}

/// x above 0, and x times a trained slope below (He et al. 2015), with one slope for all columns.
pub(crate) struct Prelu {
    slope: Tensor,
}

impl Prelu {
    /// The initial slope, as in PyTorch.
    const SLOPE: f64 = 0.25;

    pub(crate) fn new(place: (Kind, Device)) -> Result<Self, TrainError> {
        Ok(Self { slope: Tensor::f_full([1i64], Self::SLOPE, place)? })
    }

    pub(crate) fn parameters(&self) -> Vec<(&'static str, &Tensor)> {
        vec![("slope", &self.slope)]
    }

    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor, TrainError> {
        Ok(x.f_prelu(&self.slope)?)
    }

    /// The gradients of the slope, and of `x`, from that of the result.
    pub(crate) fn backward(
        &self,
        x: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Vec<Tensor>, Tensor), TrainError> {
        let below = x.f_clamp_max(0.0)?;
        let of_slope = gradient.f_mul(&below)?.f_sum(gradient.f_kind()?)?.f_view([1i64])?;
        let of_x = gradient.f_where_self(&x.f_gt(0.0)?, &gradient.f_mul(&self.slope)?)?;
        Ok((vec![of_slope], of_x))
    }
}
