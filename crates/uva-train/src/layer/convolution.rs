//! Layers whose neighbours have fixed weights: GraphSAGE's and GCN's.

use crate::TrainError;
use crate::block::aggregate::{Block, weighted_sums};
use crate::graph::full_layer::FullLayer;
use crate::graph::whole_graph::{Graph, slice};
use crate::graph::whole_lists::WholeLists;
use crate::nn::initial::glorot;
use crate::nn::product::{Factor, Products};
use crate::nn::random::SplitMix64;
use crate::nn::rowwise::linear;
use crate::torch::borrowed::Borrowed;
use std::ops::Range;
use tch::{Device, Kind, Tensor};
use uva_ops::lists::projects_first;

/// A linear map without bias, [outputs, inputs] as PyTorch stores one.
type Weight = Tensor;

/// Such a layer.
pub(crate) enum Convolution {
    /// h_v = W_own x_v + W_neighbours mean(x_u) + b.
    Sage {
        /// For the node's own row.
        own: Weight,
        /// For the mean of its neighbours' rows.
        neighbours: Weight,
        /// Added once.
        bias: Tensor,
        products: Products,
    },
    /// h_v = W Σ w_uv x_u + b, the sum including v itself.
    Gcn {
        /// For the weighted sum.
        weight: Weight,
        /// Added after it.
        bias: Tensor,
        products: Products,
    },
}

/// The state that the backward pass needs.
pub(crate) struct Saved {
    /// The rows of the destinations, for their own map; GCN has none.
    own: Option<Factor>,
    order: Order,
}

/// The order taken.
enum Order {
    /// Aggregated first: the weighted sums, [destinations, inputs].
    Aggregated(Factor),
    /// Multiplied first: all rows, [sources, inputs].
    MultipliedFirst(Factor),
}

impl Convolution {
    /// GraphSAGE's.
    pub(crate) fn sage(
        (inputs, outputs): (usize, usize),
        products: Products,
        options: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let mut weight = || glorot(&[outputs, inputs], inputs + outputs, options, random);
        let (own, neighbours) = (weight()?, weight()?);
        Ok(Self::Sage { own, neighbours, bias: Tensor::f_zeros([outputs as i64], options)?, products })
    }

    /// GCN's.
    pub(crate) fn gcn(
        (inputs, outputs): (usize, usize),
        products: Products,
        options: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let weight = glorot(&[outputs, inputs], inputs + outputs, options, random)?;
        Ok(Self::Gcn { weight, bias: Tensor::f_zeros([outputs as i64], options)?, products })
    }

    /// A copy on `device`; if it is already there, with the same storage.
    pub(crate) fn on(&self, device: Device) -> Result<Self, TrainError> {
        let copy = |tensor: &Tensor| tensor.f_to_device(device);
        Ok(match self {
            Self::Sage { own, neighbours, bias, products } => Self::Sage {
                own: copy(own)?,
                neighbours: copy(neighbours)?,
                bias: copy(bias)?,
                products: *products,
            },
            Self::Gcn { weight, bias, products } => {
                Self::Gcn { weight: copy(weight)?, bias: copy(bias)?, products: *products }
            }
        })
    }

    /// Columns of the result.
    pub(crate) fn outputs(&self) -> Result<i64, TrainError> {
        let (Self::Sage { neighbours: weight, .. } | Self::Gcn { weight, .. }) = self;
        Ok(weight.size2()?.0)
    }

    fn products(&self) -> Products {
        let (Self::Sage { products, .. } | Self::Gcn { products, .. }) = self;
        *products
    }

    pub(crate) fn parameters(&self) -> Vec<(&'static str, &Tensor)> {
        match self {
            Self::Sage { own, neighbours, bias, .. } => {
                vec![("own.weight", own), ("neighbours.weight", neighbours), ("bias", bias)]
            }
            Self::Gcn { weight, bias, .. } => vec![("weight", weight), ("bias", bias)],
        }
    }

    /// From rows that already have the sums, [rows, inputs] or for GraphSAGE [rows, 2 × inputs], to [rows, outputs].
    pub(crate) fn forward_given(&self, x: &Tensor) -> Result<Tensor, TrainError> {
        match self {
            Self::Sage { own, neighbours, bias, products } => {
                let [rows, sums] = halves(x)?;
                let out = products.linear(&products.factor(&rows)?, own, Some(bias))?;
                products.add(out, &products.factor(&sums)?, neighbours)
            }
            Self::Gcn { weight, bias, products } => products.linear(&products.factor(x)?, weight, Some(bias)),
        }
    }

    /// Gradients of the parameters, in their order, from that of the result of [`Convolution::forward_given`].
    pub(crate) fn backward_given(&self, x: &Tensor, gradient: &Tensor) -> Result<Vec<Tensor>, TrainError> {
        let of_bias = gradient.f_sum_dim_intlist([0i64].as_slice(), false, None)?;
        let products = self.products();
        let gradient = products.factor(gradient)?;
        let of_weight = |x: &Tensor| products.of_weight(&gradient, &products.factor(x)?);
        Ok(match self {
            Self::Sage { .. } => {
                let [rows, sums] = halves(x)?;
                vec![of_weight(&rows)?, of_weight(&sums)?, of_bias]
            }
            Self::Gcn { .. } => vec![of_weight(x)?, of_bias],
        })
    }

    /// From [sources, inputs] to [destinations, outputs], and the state that [`Convolution::backward`] needs.
    /// `input_gradient` announces that the gradient of `x` will be requested; it affects only the order.
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
        let products = self.products();
        let (rows, all) = if multiply_first {
            let all = products.factor(x)?;
            (products.linear(&all, weight, None)?, Some(all))
        } else {
            (x.shallow_clone(), None)
        };
        let mut sums = block.aggregate(&rows)?;
        if let Some(own) = &block.own {
            let _ = sums.f_addcmul_(&own_rows(&rows)?, own)?;
        }
        let own = matches!(self, Self::Sage { .. }).then(|| products.factor(&own_rows(x)?)).transpose()?;
        let result = match (self, &own) {
            (Self::Sage { own, bias, .. }, Some(rows)) => Some(products.linear(rows, own, Some(bias))?),
            _ => None,
        };
        let (Self::Sage { bias, .. } | Self::Gcn { bias, .. }) = self;
        let (out, order) = match (all, result) {
            (Some(all), None) => (sums.f_add_(bias)?, Order::MultipliedFirst(all)),
            (Some(all), Some(mut out)) => (out.f_add_(&sums)?, Order::MultipliedFirst(all)),
            (None, result) => {
                let sums = products.factor(&sums)?;
                let out = match result {
                    // The product is added directly: one table less to write and read.
                    Some(out) => products.add(out, &sums, weight)?,
                    None => products.linear(&sums, weight, Some(bias))?,
                };
                (out, Order::Aggregated(sums))
            }
        };
        let saved = Saved { own, order };
        Ok((out, saved))
    }

    /// Gradients of the parameters, in their order, and of the input rows if requested, from that of the result.
    ///
    /// Written by hand instead of recorded by autograd. Autograd's backward of the bag is 1.5 to 17 times slower than
    /// the transposed bag (`aggregate.rs`), and its graph would keep the slot's memory. `tests/blocks/gradients.rs`
    /// compares every element with finite differences.
    pub(crate) fn backward(
        &self,
        saved: &Saved,
        block: &Block<'_>,
        gradient: &Tensor,
        input_gradient: bool,
    ) -> Result<(Vec<Tensor>, Option<Tensor>), TrainError> {
        let destinations = block.destinations as i64;
        let (Self::Sage { neighbours: weight, .. } | Self::Gcn { weight, .. }) = self;
        let of_bias = gradient.f_sum_dim_intlist([0i64].as_slice(), false, None)?;
        let products = self.products();
        let factor = products.factor(gradient)?;
        // Back through the aggregation, the own row's share of it included.
        let spread = |of_sums: &Tensor| -> Result<Tensor, TrainError> {
            let rows = block.spread(of_sums)?;
            if let Some(own) = &block.own {
                let _ = rows.f_narrow(0, 0, destinations)?.f_addcmul_(of_sums, own)?;
            }
            Ok(rows)
        };
        let (of_weight, of_x) = match &saved.order {
            Order::Aggregated(sums) => {
                let of_x =
                    if input_gradient { Some(spread(&products.of_rows(&factor, weight)?)?) } else { None };
                (products.of_weight(&factor, sums)?, of_x)
            }
            Order::MultipliedFirst(rows) => {
                let of_products = products.factor(&spread(gradient)?)?;
                let of_x = if input_gradient { Some(products.of_rows(&of_products, weight)?) } else { None };
                (products.of_weight(&of_products, rows)?, of_x)
            }
        };
        let of_parameters = match (self, &saved.own) {
            (Self::Sage { own, .. }, Some(rows)) => {
                if let Some(of_x) = &of_x {
                    products.add_of_rows(of_x.f_narrow(0, 0, destinations)?, &factor, own)?;
                }
                vec![products.of_weight(&factor, rows)?, of_weight, of_bias]
            }
            _ => vec![of_weight, of_bias],
        };
        Ok((of_parameters, of_x))
    }
}

/// The left and the right half of each row.
fn halves(x: &Tensor) -> Result<[Tensor; 2], TrainError> {
    let columns = x.size2()?.1 / 2;
    Ok([x.f_narrow(1, 0, columns)?, x.f_narrow(1, columns, columns)?])
}

/// Rows are multiplied by the neighbours' weight first and then aggregated. With as many sources as destinations, this
/// order is more work only if the layer widens. It also reads the table front to back instead of at random.
impl FullLayer for Convolution {
    fn columns(&self) -> Result<Vec<i64>, TrainError> {
        Ok(vec![Convolution::outputs(self)?])
    }

    fn outputs(&self) -> Result<i64, TrainError> {
        Convolution::outputs(self)
    }

    fn project(&self, rows: Tensor) -> Result<Vec<Tensor>, TrainError> {
        let (Self::Sage { neighbours: weight, .. } | Self::Gcn { weight, .. }) = self;
        Ok(vec![linear(&rows, weight)?])
    }

    fn begin(&self, rows: &dyn Fn() -> Result<Tensor, TrainError>) -> Result<Option<Tensor>, TrainError> {
        match self {
            Self::Sage { own, bias, .. } => Ok(Some(rows()?.f_linear(own, Some(bias))?)),
            Self::Gcn { .. } => Ok(None),
        }
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
        let (weights, own) = match self {
            Self::Sage { .. } => (lists.mean_weights(), None),
            Self::Gcn { bias, .. } => {
                let (weights, own) = lists.gcn_weights(graph.csc, piece);
                (weights, Some((own, bias)))
            }
        };
        let weights = Tensor::f_from_slice(&weights)?.f_to_kind(graph.kind)?;
        let (indices, offsets) = (Borrowed::vector(&lists.indices)?, Borrowed::vector(&lists.offsets)?);
        let sums = weighted_sums(projected, indices.tensor(), offsets.tensor(), &weights)?;
        let _ = results.f_add_(&sums)?;
        if let Some((own, bias)) = own {
            let own = Tensor::f_from_slice(&own)?.f_to_kind(graph.kind)?.f_unsqueeze(1)?;
            let _ = results.f_add_(&slice(projected, piece)?.f_mul(&own)?)?.f_add_(bias)?;
        }
        Ok(())
    }
}
