//! The step between two layers: an elementwise function, then dropout.

#![allow(unsafe_code)]

use crate::TrainError;
use crate::nn::dropout::Draws;
use crate::torch::borrowed::Number;
use crate::torch::host;
use rayon::prelude::*;
use std::mem::MaybeUninit;
use std::ops::Div;
use tch::{Device, Kind, Tensor};
use uva_model::{ModelKind, Nonlinearity};
use uva_ops::{Vectors, vectorized};

/// The function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    /// max(x, 0).
    Relu,
    /// x above 0, eˣ − 1 below (Clevert et al. 2016): the activation in the GAT paper.
    Elu,
    /// x above 0, x / 100 below.
    LeakyRelu,
    /// x.
    Identity,
}

/// The slope of `LeakyRelu` below zero.
const SLOPE: f64 = 0.01;

/// The state that the backward pass needs.
pub(crate) enum Saved {
    /// The result: an element that is positive has passed and was not dropped, but scaled by 1 / (1 − p).
    Relu { out: Tensor, dropout: f64 },
    /// The function's values, and the factors of dropout.
    Other { of: Activation, values: Tensor, mask: Option<Tensor> },
}

impl Activation {
    pub(crate) fn of(model: ModelKind) -> Self {
        match model.row().nonlinearity {
            Nonlinearity::Relu => Self::Relu,
            Nonlinearity::Elu => Self::Elu,
            Nonlinearity::LeakyRelu => Self::LeakyRelu,
            Nonlinearity::Identity => Self::Identity,
        }
    }

    /// Applies the function without dropout, in place if possible.
    pub(crate) fn apply(self, mut x: Tensor) -> Result<Tensor, TrainError> {
        Ok(match self {
            Self::Relu => {
                let _ = x.f_relu_()?;
                x
            }
            Self::Elu => x.f_elu()?,
            // The slope is below one.
            Self::LeakyRelu => x.f_maximum(&x.f_mul_scalar(SLOPE)?)?,
            Self::Identity => x,
        })
    }

    /// Applies `dropout` to elements that `draws` chooses; without `draws` there is none.
    pub(crate) fn forward(
        self,
        x: Tensor,
        draws: Option<&mut Draws>,
        dropout: f64,
    ) -> Result<(Tensor, Saved), TrainError> {
        let Some(draws) = draws else {
            let values = self.apply(x)?;
            let saved = match self {
                Self::Relu => Saved::Relu { out: values.shallow_clone(), dropout: 0.0 },
                Self::Elu | Self::LeakyRelu | Self::Identity => {
                    Saved::Other { of: self, values: values.shallow_clone(), mask: None }
                }
            };
            return Ok((values, saved));
        };
        Ok(match self {
            Self::Relu => {
                let out = draws.behind_relu(x, dropout)?;
                (out.shallow_clone(), Saved::Relu { out, dropout })
            }
            Self::Elu | Self::LeakyRelu | Self::Identity => {
                let values = self.apply(x)?;
                let mask = draws.mask(&values, dropout)?;
                let out = match &mask {
                    Some(mask) => values.f_mul(mask)?,
                    None => values.shallow_clone(),
                };
                (out, Saved::Other { of: self, values, mask })
            }
        })
    }
}

impl Saved {
    /// The gradient of the function's input from that of the result.
    pub(crate) fn backward(&self, gradient: Tensor) -> Result<Tensor, TrainError> {
        match self {
            Self::Relu { out, dropout } if out.device() == Device::Cpu => match out.f_kind()? {
                Kind::Double => through_relu(out, &gradient, 1.0 - dropout),
                _ => through_relu(out, &gradient, (1.0 - dropout) as f32),
            },
            Self::Relu { out, dropout } => {
                let mut gradient = out.f_threshold_backward(&gradient, 0.0)?;
                if *dropout > 0.0 {
                    let _ = gradient.f_div_scalar_(1.0 - dropout)?;
                }
                Ok(gradient)
            }
            Self::Other { of, values, mask } => {
                let gradient = match mask {
                    Some(mask) => gradient.f_mul(mask)?,
                    None => gradient,
                };
                Ok(match of {
                    // A value has the sign of its argument.
                    Activation::LeakyRelu => {
                        gradient.f_where_self(&values.f_gt(0.0)?, &gradient.f_mul_scalar(SLOPE)?)?
                    }
                    Activation::Identity => gradient,
                    Activation::Relu | Activation::Elu => {
                        Tensor::f_elu_backward(&gradient, 1.0, 1.0, 1.0, true, values)?
                    }
                })
            }
        }
    }
}

/// Elements per task of a thread.
const TASK: usize = 1 << 14;

/// A kind of element that passes a ReLU.
trait Passed: Number + Send + Sync + PartialOrd + Default + Div<Output = Self> {}

impl Passed for f32 {}
impl Passed for f64 {}

/// `gradient` divided by `kept` where `out` is positive, and zeros elsewhere: one pass instead of libtorch's two.
fn through_relu<T: Passed>(out: &Tensor, gradient: &Tensor, kept: T) -> Result<Tensor, TrainError> {
    let (gradient, shape) = (gradient.f_contiguous()?, gradient.size());
    let (values, of_values) = (host::values::<T>(out)?, host::values::<T>(&gradient)?);
    if values.len() != of_values.len() {
        return Err(TrainError::Input(format!("a gradient of {shape:?} for a result of {:?}", out.size())));
    }
    let vectors = Vectors::widest();
    // SAFETY: the three are equally long, so that the tasks write every element.
    unsafe {
        host::filled(&shape, |of_x| match host::threads() {
            Some(pool) if of_x.len() > TASK => pool.install(|| {
                let tasks = of_x.par_chunks_mut(TASK).zip(values.par_chunks(TASK));
                tasks.zip(of_values.par_chunks(TASK)).for_each(|((of_x, values), of_values)| {
                    pass_some(vectors, of_x, values, of_values, kept)
                });
            }),
            _ => pass_some(vectors, of_x, values, of_values, kept),
        })
    }
}

vectorized! {
    fn pass_some<T: Passed>(of_x: &mut [MaybeUninit<T>], values: &[T], of_values: &[T], kept: T) {
        for ((of_x, &value), &of_value) in of_x.iter_mut().zip(values).zip(of_values) {
            // Divided in either case: the outcome is random, and a branch would be mispredicted.
            let divided = of_value / kept;
            of_x.write(if value > T::default() { divided } else { T::default() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_vectors_pass_the_same_gradients() {
        fn check<T: Passed + From<f32>>(kept: T, bits: fn(&T) -> u64) {
            for length in [0, 1, 7, 8, 16, 33, 1000] {
                let element = |place: usize| match place % 16 {
                    0 => 0.0,
                    1 => -0.0,
                    2 => f32::INFINITY,
                    3 => f32::MIN_POSITIVE / 4.0,
                    _ => (place * 37 % 101) as f32 * 0.013 - 0.6,
                };
                let values: Vec<T> = (0..length).map(|place| T::from(element(place))).collect();
                let of_values: Vec<T> = (0..length).map(|place| T::from(element(place * 7 + 5))).collect();
                let of = |vectors| -> Vec<u64> {
                    let mut of_x = vec![MaybeUninit::new(T::from(f32::NAN)); length];
                    pass_some(vectors, &mut of_x, &values, &of_values, kept);
                    // SAFETY: all had been initialized.
                    of_x.iter().map(|of_x| bits(unsafe { of_x.assume_init_ref() })).collect()
                };
                let expected = of(Vectors::PORTABLE);
                for vectors in Vectors::available() {
                    assert!(of(vectors) == expected, "{vectors} {length}");
                }
            }
        }
        check(0.7_f32, |value| value.to_bits().into());
        check(0.7_f64, |value| value.to_bits());
    }
}
