//! One layer of a network: its parameters, its forward pass over a block, and its gradients.

pub(crate) mod attention;
pub(crate) mod convolution;
pub(crate) mod edge_isomorphism;
pub(crate) mod folded;
pub(crate) mod isomorphism;
pub(crate) mod relations;

use self::attention::{Attention, Heads};
use self::convolution::Convolution;
use self::edge_isomorphism::EdgeIsomorphism;
use self::isomorphism::Isomorphism;
use crate::TrainError;
use crate::block::aggregate::Block;
use crate::graph::full_layer::FullLayer;
use crate::nn::dropout::Draws;
use crate::nn::product::Products;
use crate::nn::random::SplitMix64;
use tch::{Device, Kind, Tensor};
use uva_model::{ModelKind, TrainerOptions};

/// A layer, by the source of the neighbours' weights.
pub(crate) enum Layer {
    /// The block's lists.
    Convolution(Convolution),
    /// The rows themselves.
    Attention(Attention),
    /// Without weights: each neighbour counts once.
    Isomorphism(Isomorphism),
    /// Without weights, with the features of the edge added.
    EdgeIsomorphism(EdgeIsomorphism),
}

/// The state that the backward pass needs.
pub(crate) enum Saved {
    Convolution(convolution::Saved),
    Attention(attention::Saved),
    Isomorphism(isomorphism::Saved),
    EdgeIsomorphism(edge_isomorphism::Saved),
}

impl Layer {
    /// A layer of `options.model` from rows of `inputs` to rows of `outputs` numbers; `last` means that these are the
    /// logits.
    pub(crate) fn new(
        options: &TrainerOptions,
        (inputs, outputs): (usize, usize),
        last: bool,
        place: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let products = || Products::of(options.matmul_precision);
        Ok(match options.model {
            ModelKind::Sage => {
                Self::Convolution(Convolution::sage((inputs, outputs), products()?, place, random)?)
            }
            ModelKind::Gcn => {
                Self::Convolution(Convolution::gcn((inputs, outputs), products()?, place, random)?)
            }
            ModelKind::Gin => Self::Isomorphism(Isomorphism::new((inputs, outputs), place, random)?),
            ModelKind::Gine => {
                let layer = EdgeIsomorphism::new((inputs, outputs), options.edge_dim, place, random)?;
                Self::EdgeIsomorphism(layer)
            }
            ModelKind::Gat => {
                let number = if last { options.output_heads.unwrap_or(options.heads) } else { options.heads };
                let heads = Heads { number, averaged: last };
                let of_options = (options.attention_dropout, options.edge_dim);
                Self::Attention(Attention::new((inputs, outputs), heads, of_options, place, random)?)
            }
            _ => {
                return Err(TrainError::Input(format!(
                    "`model={}` has no layer over blocks of one relation",
                    options.model.name()
                )));
            }
        })
    }

    /// A copy on `device`; if it is already there, with the same storage.
    pub(crate) fn on(&self, device: Device) -> Result<Self, TrainError> {
        Ok(match self {
            Self::Convolution(layer) => Self::Convolution(layer.on(device)?),
            Self::Attention(layer) => Self::Attention(layer.on(device)?),
            Self::Isomorphism(layer) => Self::Isomorphism(layer.on(device)?),
            Self::EdgeIsomorphism(layer) => Self::EdgeIsomorphism(layer.on(device)?),
        })
    }

    /// The layer's form over a whole graph.
    pub(crate) fn over_all_nodes(&self) -> &dyn FullLayer {
        match self {
            Self::Convolution(layer) => layer,
            Self::Attention(layer) => layer,
            Self::Isomorphism(layer) => layer,
            Self::EdgeIsomorphism(layer) => layer,
        }
    }

    /// The layer's parameters by name, in a fixed order.
    pub(crate) fn parameters(&self) -> Vec<(&'static str, &Tensor)> {
        match self {
            Self::Convolution(layer) => layer.parameters(),
            Self::Attention(layer) => layer.parameters(),
            Self::Isomorphism(layer) => layer.parameters(),
            Self::EdgeIsomorphism(layer) => layer.parameters(),
        }
    }

    /// From [sources, inputs] to [destinations, outputs], and the state that [`Layer::backward`] needs in addition to
    /// `x`. `input_gradient` announces that the gradient of `x` will be requested; it affects only the order of sums.
    /// `draws` choose the dropped attention; without them none is dropped.
    pub(crate) fn forward(
        &self,
        x: &Tensor,
        block: &Block<'_>,
        input_gradient: bool,
        draws: Option<&mut Draws>,
    ) -> Result<(Tensor, Saved), TrainError> {
        match self {
            Self::Convolution(layer) => {
                let (out, saved) = layer.forward(x, block, input_gradient)?;
                Ok((out, Saved::Convolution(saved)))
            }
            Self::Attention(layer) => {
                let (out, saved) = layer.forward(x, block, draws)?;
                Ok((out, Saved::Attention(saved)))
            }
            Self::Isomorphism(layer) => {
                let (out, saved) = layer.forward(x, block)?;
                Ok((out, Saved::Isomorphism(saved)))
            }
            Self::EdgeIsomorphism(layer) => {
                let (out, saved) = layer.forward(x, block)?;
                Ok((out, Saved::EdgeIsomorphism(saved)))
            }
        }
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
        match (self, saved) {
            (Self::Convolution(layer), Saved::Convolution(saved)) => {
                layer.backward(saved, block, gradient, input_gradient)
            }
            (Self::Attention(layer), Saved::Attention(saved)) => {
                layer.backward(x, saved, block, gradient, input_gradient)
            }
            (Self::Isomorphism(layer), Saved::Isomorphism(saved)) => {
                layer.backward(x, saved, block, gradient, input_gradient)
            }
            (Self::EdgeIsomorphism(layer), Saved::EdgeIsomorphism(saved)) => {
                layer.backward(x, saved, block, gradient, input_gradient)
            }
            _ => Err(TrainError::Input("a backward pass after another layer's forward pass".to_owned())),
        }
    }
}
