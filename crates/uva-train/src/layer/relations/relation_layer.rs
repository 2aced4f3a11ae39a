//! One layer of a network over relations, of any model.

use super::attention::{self, RelationAttention};
use super::convolution::{self, RelationConvolution};
use super::layer_shape::LayerShape;
use super::sage::{self, SageRelations};
use super::transformer::{self, Transformer};
use super::type_rows::{GradientTypes, TypeRows};
use crate::TrainError;
use crate::block::aggregate::Block;
use crate::nn::random::SplitMix64;
use tch::{Device, Kind, Tensor};
use uva_model::{LayerWiring, ModelKind, TrainerOptions};

/// A layer, by model.
pub(crate) enum RelationLayer {
    Sage(SageRelations),
    Convolution(RelationConvolution),
    Attention(RelationAttention),
    Transformer(Transformer),
}

/// The state that the backward pass needs.
pub(crate) enum Saved {
    Sage(sage::Saved),
    Convolution(convolution::Saved),
    Attention(attention::Saved),
    Transformer(transformer::Saved),
}

impl RelationLayer {
    pub(crate) fn new(
        options: &TrainerOptions,
        shape: &LayerShape<'_>,
        place: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        match options.model {
            ModelKind::Rsage => Ok(Self::Sage(SageRelations::new(options, shape, place, random)?)),
            ModelKind::Rgcn => {
                Ok(Self::Convolution(RelationConvolution::new(options, shape, place, random)?))
            }
            ModelKind::Rgat => Ok(Self::Attention(RelationAttention::new(options, shape, place, random)?)),
            ModelKind::Hgt => Ok(Self::Transformer(Transformer::new(options, shape, place, random)?)),
            other => Err(TrainError::Input(format!("`model={}` has no relations", other.name()))),
        }
    }

    /// The parameters of layer `number` by name, in a fixed order: those of PyG's modules.
    pub(crate) fn parameters(&self, number: usize) -> Vec<(String, Tensor)> {
        match self {
            Self::Sage(layer) => layer.parameters(number),
            Self::Convolution(layer) => layer.parameters(number),
            Self::Attention(layer) => layer.parameters(number),
            Self::Transformer(layer) => layer.parameters(number),
        }
    }

    /// From rows of sources to rows of destinations. `blocks` are those of the layer's relations. `needed` are the
    /// types of which the gradients of `x` will be requested; they affect only the order of sums.
    pub(crate) fn forward(
        &self,
        wiring: &LayerWiring,
        x: &TypeRows,
        blocks: &[Block<'_>],
        needed: &GradientTypes,
    ) -> Result<(TypeRows, Saved), TrainError> {
        Ok(match self {
            Self::Sage(layer) => {
                let (out, saved) = layer.forward(wiring, x, blocks, needed)?;
                (out, Saved::Sage(saved))
            }
            Self::Convolution(layer) => {
                let (out, saved) = layer.forward(wiring, x, blocks, needed)?;
                (out, Saved::Convolution(saved))
            }
            Self::Attention(layer) => {
                let (out, saved) = layer.forward(wiring, x, blocks)?;
                (out, Saved::Attention(saved))
            }
            Self::Transformer(layer) => {
                let (out, saved) = layer.forward(wiring, x, blocks)?;
                (out, Saved::Transformer(saved))
            }
        })
    }

    /// Gradients of the parameters, in their order, and of the `needed` types of `x`, from those of the result.
    pub(crate) fn backward(
        &self,
        wiring: &LayerWiring,
        (x, saved): (&TypeRows, &Saved),
        blocks: &[Block<'_>],
        gradients: &TypeRows,
        needed: &GradientTypes,
    ) -> Result<(Vec<Tensor>, TypeRows), TrainError> {
        match (self, saved) {
            (Self::Sage(layer), Saved::Sage(saved)) => {
                layer.backward(wiring, x, saved, blocks, gradients, needed)
            }
            (Self::Convolution(layer), Saved::Convolution(saved)) => {
                layer.backward(wiring, x, saved, blocks, gradients, needed)
            }
            (Self::Attention(layer), Saved::Attention(saved)) => {
                layer.backward(wiring, x, saved, blocks, gradients, needed)
            }
            (Self::Transformer(layer), Saved::Transformer(saved)) => {
                layer.backward(wiring, x, saved, blocks, gradients)
            }
            _ => Err(TrainError::Input("a backward pass after another layer's forward pass".to_owned())),
        }
    }
}
