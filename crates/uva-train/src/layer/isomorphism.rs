//! Graph isomorphism network (Xu et al. 2019): a perceptron of two layers over (1 + ε) x_v + Σ x_u, with ε learned.
//!
//! The sum is over the picked neighbours, without weights: a sample of a list gives a smaller sum than the whole list.

use crate::TrainError;
use crate::block::aggregate::{Block, weighted_sums};
use crate::graph::full_layer::FullLayer;
use crate::graph::whole_graph::{Graph, slice};
use crate::graph::whole_lists::WholeLists;
use crate::nn::initial::glorot;
use crate::nn::random::SplitMix64;
use crate::nn::rowwise::linear;
use crate::torch::borrowed::Borrowed;
use std::ops::Range;
use tch::{Device, Kind, Tensor};

/// The parameters of such a layer.
pub(crate) struct Isomorphism {
    /// ε, [1].
    eps: Tensor,
    /// [outputs, inputs]; ReLU follows.
    first: Tensor,
    first_bias: Tensor,
    /// [outputs, outputs].
    second: Tensor,
    second_bias: Tensor,
}

/// The state that the backward pass needs.
pub(crate) struct Saved {
    /// (1 + ε) x_v + Σ x_u, [destinations, inputs].
    sums: Tensor,
    /// The rows after the ReLU, [destinations, outputs].
    hidden: Tensor,
}

impl Isomorphism {
    pub(crate) fn new(
        (inputs, outputs): (usize, usize),
        place: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let zeros = |size: usize| Tensor::f_zeros([size as i64], place);
        Ok(Self {
            eps: zeros(1)?,
            first: glorot(&[outputs, inputs], inputs + outputs, place, random)?,
            first_bias: zeros(outputs)?,
            second: glorot(&[outputs, outputs], 2 * outputs, place, random)?,
            second_bias: zeros(outputs)?,
        })
    }

    /// A copy on `device`; if it is already there, with the same storage.
    pub(crate) fn on(&self, device: Device) -> Result<Self, TrainError> {
        let copy = |tensor: &Tensor| tensor.f_to_device(device);
        Ok(Self {
            eps: copy(&self.eps)?,
            first: copy(&self.first)?,
            first_bias: copy(&self.first_bias)?,
            second: copy(&self.second)?,
            second_bias: copy(&self.second_bias)?,
        })
    }

    pub(crate) fn parameters(&self) -> Vec<(&'static str, &Tensor)> {
        vec![
            ("eps", &self.eps),
            ("nn.0.weight", &self.first),
            ("nn.0.bias", &self.first_bias),
            ("nn.2.weight", &self.second),
            ("nn.2.bias", &self.second_bias),
        ]
    }

    /// Columns of the result, and of the result of [`Isomorphism::project`].
    pub(crate) fn outputs(&self) -> i64 {
        self.second_bias.numel() as i64
    }

    /// 1 + ε, [1].
    fn own_weight(&self) -> Result<Tensor, TrainError> {
        Ok(self.eps.f_add_scalar(1.0)?)
    }

    /// From [sources, inputs] to [destinations, outputs].
    pub(crate) fn forward(&self, x: &Tensor, block: &Block<'_>) -> Result<(Tensor, Saved), TrainError> {
        self.forward_sums(x, block.aggregate(x)?)
    }

    /// The result from the sums of neighbours, [destinations, inputs].
    pub(crate) fn forward_sums(&self, x: &Tensor, mut sums: Tensor) -> Result<(Tensor, Saved), TrainError> {
        let own = x.f_narrow(0, 0, sums.size2()?.0)?;
        let _ = sums.f_addcmul_(&own, &self.own_weight()?)?;
        let hidden = sums.f_linear(&self.first, Some(&self.first_bias))?.f_relu()?;
        let out = hidden.f_linear(&self.second, Some(&self.second_bias))?;
        Ok((out, Saved { sums, hidden }))
    }

    /// Gradients of the parameters, in their order, and of `x` if requested, from that of the result.
    pub(crate) fn backward(
        &self,
        x: &Tensor,
        saved: &Saved,
        block: &Block<'_>,
        gradient: &Tensor,
        input_gradient: bool,
    ) -> Result<(Vec<Tensor>, Option<Tensor>), TrainError> {
        let (of_parameters, of_sums) = self.backward_sums(x, saved, gradient)?;
        let of_x = if input_gradient { Some(self.add_own(block.spread(&of_sums)?, &of_sums)?) } else { None };
        Ok((of_parameters, of_x))
    }

    /// Gradients of the parameters and of (1 + ε) x_v + Σ x_u.
    pub(crate) fn backward_sums(
        &self,
        x: &Tensor,
        saved: &Saved,
        gradient: &Tensor,
    ) -> Result<(Vec<Tensor>, Tensor), TrainError> {
        let column_sums = |rows: &Tensor| rows.f_sum_dim_intlist([0i64].as_slice(), false, None);
        let of_hidden = gradient.f_mm(&self.second)?.f_mul(&saved.hidden.f_gt(0.0)?)?;
        let of_sums = of_hidden.f_mm(&self.first)?;
        let own = x.f_narrow(0, 0, of_sums.size2()?.0)?;
        let of_eps = of_sums.f_mul(&own)?.f_sum(of_sums.f_kind()?)?.f_view([1])?;
        let of_parameters = vec![
            of_eps,
            of_hidden.f_tr()?.f_mm(&saved.sums)?,
            column_sums(&of_hidden)?,
            gradient.f_tr()?.f_mm(&saved.hidden)?,
            column_sums(gradient)?,
        ];
        Ok((of_parameters, of_sums))
    }

    /// Adds the destinations' own part to the gradients of the sources' rows.
    pub(crate) fn add_own(&self, rows: Tensor, of_sums: &Tensor) -> Result<Tensor, TrainError> {
        let _ = rows.f_narrow(0, 0, of_sums.size2()?.0)?.f_addcmul_(of_sums, &self.own_weight()?)?;
        Ok(rows)
    }

    /// The first product of all rows, without its bias: neighbours can be summed after it.
    pub(crate) fn project(&self, x: &Tensor) -> Result<Tensor, TrainError> {
        linear(x, &self.first)
    }

    /// The result from the sums of projected neighbours, and the projected rows of the nodes themselves.
    pub(crate) fn evaluate(&self, sums: &Tensor, own: &Tensor) -> Result<Tensor, TrainError> {
        let sums = sums.f_addcmul(own, &self.own_weight()?)?.f_add(&self.first_bias)?;
        Ok(sums.f_relu()?.f_linear(&self.second, Some(&self.second_bias))?)
    }
}

/// The first product of all nodes, then each piece's sums and second product.
impl FullLayer for Isomorphism {
    fn columns(&self) -> Result<Vec<i64>, TrainError> {
        Ok(vec![Isomorphism::outputs(self)])
    }

    fn outputs(&self) -> Result<i64, TrainError> {
        Ok(Isomorphism::outputs(self))
    }

    fn project(&self, rows: Tensor) -> Result<Vec<Tensor>, TrainError> {
        Ok(vec![Isomorphism::project(self, &rows)?])
    }

    fn complete(
        &self,
        graph: &Graph<'_>,
        tables: &[Tensor],
        piece: &Range<usize>,
        results: &mut Tensor,
    ) -> Result<(), TrainError> {
        let projected = &tables[0];
        let lists = WholeLists::new(graph.csc, piece)?;
        let (indices, offsets) = (Borrowed::vector(&lists.indices)?, Borrowed::vector(&lists.offsets)?);
        let weights = Tensor::f_ones([lists.indices.len() as i64], (graph.kind, Device::Cpu))?;
        let sums = weighted_sums(projected, indices.tensor(), offsets.tensor(), &weights)?;
        Ok(results.f_copy_(&self.evaluate(&sums, &slice(projected, piece)?)?)?)
    }
}
