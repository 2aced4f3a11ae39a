//! Layers whose neighbours have fixed weights: GraphSAGE's and GCN's.

use crate::TrainError;
use crate::block::aggregate::Block;
use crate::nn::initial::glorot;
use crate::nn::random::SplitMix64;
use crate::nn::rowwise::linear;
use tch::{Device, Kind, Tensor};
use uva_ops::lists::projects_first;

/// A linear map without bias, [outputs, inputs] as PyTorch stores one.
type Weight = Tensor;

/// The parameters of such a layer.
pub(crate) enum Convolution {
    /// h_v = W_own x_v + W_neighbours mean(x_u) + b.
    Sage {
        /// For the node's own row.
        own: Weight,
        /// For the mean of its neighbours' rows.
        neighbours: Weight,
        /// Added once.
        bias: Tensor,
    },
    /// h_v = W Σ w_uv x_u + b, the sum including v itself.
    Gcn {
        /// For the weighted sum.
        weight: Weight,
        /// Added after it.
        bias: Tensor,
    },
}

/// The state that the backward pass needs, by the order taken.
pub(crate) enum Saved {
    /// Aggregated first: the weighted sums, [destinations, inputs].
    Aggregated(Tensor),
    /// Multiplied first: no state is needed.
    MultipliedFirst,
}

impl Convolution {
    /// GraphSAGE's.
    pub(crate) fn sage(
        inputs: usize,
        outputs: usize,
        options: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let mut weight = || glorot(&[outputs, inputs], inputs + outputs, options, random);
        let (own, neighbours) = (weight()?, weight()?);
        Ok(Self::Sage { own, neighbours, bias: Tensor::f_zeros([outputs as i64], options)? })
    }

    /// GCN's.
    pub(crate) fn gcn(
        inputs: usize,
        outputs: usize,
        options: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let weight = glorot(&[outputs, inputs], inputs + outputs, options, random)?;
        Ok(Self::Gcn { weight, bias: Tensor::f_zeros([outputs as i64], options)? })
    }

    /// A copy on `device`; if it is already there, with the same storage.
    pub(crate) fn on(&self, device: Device) -> Result<Self, TrainError> {
        let copy = |tensor: &Tensor| tensor.f_to_device(device);
        Ok(match self {
            Self::Sage { own, neighbours, bias } => {
                Self::Sage { own: copy(own)?, neighbours: copy(neighbours)?, bias: copy(bias)? }
            }
            Self::Gcn { weight, bias } => Self::Gcn { weight: copy(weight)?, bias: copy(bias)? },
        })
    }

    /// Columns of the result.
    pub(crate) fn outputs(&self) -> Result<i64, TrainError> {
        let (Self::Sage { neighbours: weight, .. } | Self::Gcn { weight, .. }) = self;
        Ok(weight.size2()?.0)
    }

    pub(crate) fn parameters(&self) -> Vec<(&'static str, &Tensor)> {
        match self {
            Self::Sage { own, neighbours, bias } => {
                vec![("own.weight", own), ("neighbours.weight", neighbours), ("bias", bias)]
            }
            Self::Gcn { weight, bias } => vec![("weight", weight), ("bias", bias)],
        }
    }

    /// From rows that already have the sums, [rows, inputs] or for GraphSAGE [rows, 2 × inputs], to [rows, outputs].
    pub(crate) fn forward_given(&self, x: &Tensor) -> Result<Tensor, TrainError> {
        Ok(match self {
            Self::Sage { own, neighbours, bias } => {
                let [rows, sums] = halves(x)?;
                let mut out = rows.f_linear(own, Some(bias))?;
                out.f_addmm_(&sums, &neighbours.f_tr()?)?
            }
            Self::Gcn { weight, bias } => x.f_linear(weight, Some(bias))?,
        })
    }

    /// Gradients of the parameters, in their order, from that of the result of [`Convolution::forward_given`].
    pub(crate) fn backward_given(&self, x: &Tensor, gradient: &Tensor) -> Result<Vec<Tensor>, TrainError> {
        let of_bias = gradient.f_sum_dim_intlist([0i64].as_slice(), false, None)?;
        let transposed = gradient.f_tr()?;
        Ok(match self {
            Self::Sage { .. } => {
                let [rows, sums] = halves(x)?;
                vec![transposed.f_mm(&rows)?, transposed.f_mm(&sums)?, of_bias]
            }
            Self::Gcn { .. } => vec![transposed.f_mm(x)?, of_bias],
        })
    }

    /// From [sources, inputs] to [destinations, outputs], and the state that [`Convolution::backward`] needs in
    /// addition to `x`. `input_gradient` announces that the gradient of `x` will be requested; it affects only the
    /// order.
    pub(crate) fn forward(
        &self,
        x: &Tensor,
        block: &Block<'_>,
        input_gradient: bool,
    ) -> Result<(Tensor, Saved), TrainError> {
        let own_rows = |rows: &Tensor| rows.f_narrow(0, 0, block.destinations as i64);
        let (Self::Sage { neighbours: weight, .. } | Self::Gcn { weight, .. }) = self;
        let (outputs, inputs) = weight.size2()?;
        let (inputs, outputs) = (inputs as usize, outputs as usize);
        let multiply_first = !block.is_given()
            && projects_first(
                block.destinations,
                block.sources,
                block.edges,
                inputs,
                outputs,
                input_gradient,
            );
        let rows = if multiply_first { linear(x, weight)? } else { x.shallow_clone() };
        let mut sums = block.aggregate(&rows)?;
        if let Some(own) = &block.own {
            let _ = sums.f_addcmul_(&own_rows(&rows)?, own)?;
        }
        let saved =
            if multiply_first { Saved::MultipliedFirst } else { Saved::Aggregated(sums.shallow_clone()) };
        let out = match self {
            Self::Sage { own, bias, .. } => {
                let mut out = own_rows(x)?.f_linear(own, Some(bias))?;
                // The product is added directly: one table less to write and read.
                if multiply_first { out.f_add_(&sums)? } else { out.f_addmm_(&sums, &weight.f_tr()?)? }
            }
            Self::Gcn { bias, .. } => {
                if multiply_first {
                    sums.f_add_(bias)?
                } else {
                    sums.f_linear(weight, Some(bias))?
                }
            }
        };
        Ok((out, saved))
    }

    /// Gradients of the parameters, in their order, and of `x` if requested, from that of the result.
    ///
    /// Written by hand instead of recorded by autograd. Autograd's backward of the bag is 1.5 to 17 times slower than
    /// the transposed bag (`aggregate.rs`), and its graph would keep the slot's memory. `tests/blocks/gradients.rs`
    /// compares every element with finite differences.
    pub(crate) fn backward(
        &self,
        x: &Tensor,
        saved: &Saved,
        block: &Block<'_>,
        gradient: &Tensor,
        input_gradient: bool,
    ) -> Result<(Vec<Tensor>, Option<Tensor>), TrainError> {
        let destinations = block.destinations as i64;
        let (Self::Sage { neighbours: weight, .. } | Self::Gcn { weight, .. }) = self;
        let of_bias = gradient.f_sum_dim_intlist([0i64].as_slice(), false, None)?;
        let transposed = gradient.f_tr()?;
        // Back through the aggregation, the own row's share of it included.
        let spread = |of_sums: &Tensor| -> Result<Tensor, TrainError> {
            let rows = block.spread(of_sums)?;
            if let Some(own) = &block.own {
                let _ = rows.f_narrow(0, 0, destinations)?.f_addcmul_(of_sums, own)?;
            }
            Ok(rows)
        };
        let (of_weight, mut of_x) = match saved {
            Saved::Aggregated(sums) => {
                let of_x = if input_gradient { Some(spread(&gradient.f_mm(weight)?)?) } else { None };
                (transposed.f_mm(sums)?, of_x)
            }
            Saved::MultipliedFirst => {
                let of_products = spread(gradient)?;
                let of_x = if input_gradient { Some(of_products.f_mm(weight)?) } else { None };
                (of_products.f_tr()?.f_mm(x)?, of_x)
            }
        };
        let of_parameters = match self {
            Self::Sage { own, .. } => {
                if let Some(of_x) = &mut of_x {
                    let _ = of_x.f_narrow(0, 0, destinations)?.f_addmm_(gradient, own)?;
                }
                vec![transposed.f_mm(&x.f_narrow(0, 0, destinations)?)?, of_weight, of_bias]
            }
            Self::Gcn { .. } => vec![of_weight, of_bias],
        };
        Ok((of_parameters, of_x))
    }
}

/// The left and the right half of each row.
fn halves(x: &Tensor) -> Result<[Tensor; 2], TrainError> {
    let columns = x.size2()?.1 / 2;
    Ok([x.f_narrow(1, 0, columns)?, x.f_narrow(1, columns, columns)?])
}
