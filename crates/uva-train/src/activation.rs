//! What stands between two layers: a function of each element, then dropout.

use crate::TrainError;
use crate::options::ModelKind;
use tch::Tensor;

/// The function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    /// max(x, 0).
    Relu,
    /// x above 0, eˣ − 1 below (Clevert et al. 2016): what GAT was published with.
    Elu,
}

/// What a forward pass leaves for the backward pass.
pub(crate) enum Saved {
    /// The result: an element that is positive has passed and was not dropped, but scaled by 1 / (1 − p).
    Relu { out: Tensor, dropout: f64 },
    /// The function's values, and what dropout multiplied them by.
    Elu { values: Tensor, mask: Option<Tensor> },
}

impl Activation {
    pub(crate) fn of(model: ModelKind) -> Self {
        match model {
            ModelKind::Sage | ModelKind::Gcn => Self::Relu,
            ModelKind::Gat => Self::Elu,
        }
    }

    /// Without dropout, in place where that can be.
    pub(crate) fn apply(self, mut x: Tensor) -> Result<Tensor, TrainError> {
        Ok(match self {
            Self::Relu => {
                let _ = x.f_relu_()?;
                x
            }
            Self::Elu => x.f_elu()?,
        })
    }

    /// With `dropout`, whose elements libtorch's own generator draws; 0 draws none.
    pub(crate) fn forward(self, x: Tensor, dropout: f64) -> Result<(Tensor, Saved), TrainError> {
        let values = self.apply(x)?;
        Ok(match self {
            Self::Relu => {
                let out = if dropout > 0.0 { values.f_dropout(dropout, true)? } else { values };
                (out.shallow_clone(), Saved::Relu { out, dropout })
            }
            Self::Elu => {
                let mask = dropout_mask(&values, dropout)?;
                let out = match &mask {
                    Some(mask) => values.f_mul(mask)?,
                    None => values.shallow_clone(),
                };
                (out, Saved::Elu { values, mask })
            }
        })
    }
}

impl Saved {
    /// The gradient of what the function was given from that of the result.
    pub(crate) fn backward(&self, gradient: Tensor) -> Result<Tensor, TrainError> {
        match self {
            Self::Relu { out, dropout } => {
                let mut gradient = out.f_threshold_backward(&gradient, 0.0)?;
                if *dropout > 0.0 {
                    let _ = gradient.f_div_scalar_(1.0 - dropout)?;
                }
                Ok(gradient)
            }
            Self::Elu { values, mask } => {
                let gradient = match mask {
                    Some(mask) => gradient.f_mul(mask)?,
                    None => gradient,
                };
                Ok(Tensor::f_elu_backward(&gradient, 1.0, 1.0, 1.0, true, values)?)
            }
        }
    }
}

/// What dropout multiplies `like` by: 0 with the probability `dropout`, and else 1 / (1 − dropout). `None` for 0.
pub(crate) fn dropout_mask(like: &Tensor, dropout: f64) -> Result<Option<Tensor>, TrainError> {
    if dropout > 0.0 { Ok(Some(like.f_ones_like()?.f_dropout(dropout, true)?)) } else { Ok(None) }
}
