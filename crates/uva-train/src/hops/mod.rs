//! The front of a model, which maps a batch's tables to one row per node: tables of the hops of a hop set, or of node
//! types.

pub(crate) mod attention;
pub(crate) mod hop_tables;
pub(crate) mod inputs;
pub(crate) mod maps;
pub(crate) mod mean;
mod steps;

use self::attention::HopAttention;
use self::inputs::{Inputs, another_number};
use self::maps::HopMaps;
use crate::TrainError;
use crate::block::aggregate::Block;
use crate::layer::relations::{self, RelationNetwork};
use crate::nn::dropout::Draws;
use crate::nn::random::SplitMix64;
use tch::{Device, Kind, Tensor};
use uva_model::{ModelKind, TrainerOptions};

/// The map from tables to rows.
pub(crate) enum Front {
    /// A single table, unchanged: for models over blocks, and SGC.
    Alone,
    /// S²GC: the mean over the hops, with this share of the features.
    Mean(f64),
    /// SIGN: a linear map for each hop, side by side.
    Maps(HopMaps),
    /// HOGA: the whole network, up to the logits.
    Attention(HopAttention),
    /// Models over relations: their layers, up to the rows of the seeds.
    Relations(RelationNetwork),
}

/// The state that the backward pass needs.
pub(crate) enum Saved {
    Nothing,
    /// The inputs of the maps.
    Maps(Vec<Tensor>),
    Attention(attention::Saved),
    Relations(relations::Saved),
}

impl Front {
    /// The front of `options.model`, for tables of `input_dim` columns.
    pub(crate) fn new(
        options: &TrainerOptions,
        (input_dim, outputs): (usize, usize),
        place: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        if options.model.row().reads_relations() {
            return Ok(Self::Relations(RelationNetwork::new(options, outputs, place, random)?));
        }
        Ok(match options.model {
            ModelKind::S2gc => Self::Mean(options.alpha),
            ModelKind::Sign => Self::Maps(HopMaps::new(options, input_dim, place, random)?),
            ModelKind::Hoga => {
                Self::Attention(HopAttention::new(options, (input_dim, outputs), place, random)?)
            }
            _ => Self::Alone,
        })
    }

    /// The front's parameters by name, in a fixed order.
    pub(crate) fn parameters(&self) -> Vec<(String, Tensor)> {
        match self {
            Self::Alone | Self::Mean(_) => Vec::new(),
            Self::Maps(maps) => maps.parameters(),
            Self::Attention(attention) => attention.parameters(),
            Self::Relations(network) => network.parameters(),
        }
    }

    /// Whether the front has parameters, and so needs the gradient of its result.
    pub(crate) fn is_trained(&self) -> bool {
        matches!(self, Self::Maps(_) | Self::Attention(_) | Self::Relations(_))
    }

    /// One row per node, and the state for [`Front::backward`]. Only layers over relations read `blocks`. With `draws` it
    /// is a training pass.
    pub(crate) fn forward(
        &self,
        Inputs(mut tables): Inputs,
        blocks: &[Block<'_>],
        draws: Option<&mut Draws>,
    ) -> Result<(Tensor, Saved), TrainError> {
        Ok(match self {
            Self::Alone => {
                let rows = tables.pop().filter(|_| tables.is_empty());
                (rows.ok_or_else(|| another_number(1))?, Saved::Nothing)
            }
            Self::Mean(alpha) => (mean::mean(&tables, *alpha)?, Saved::Nothing),
            Self::Maps(maps) => {
                let (rows, inputs) = maps.forward(tables)?;
                (rows, Saved::Maps(inputs))
            }
            Self::Attention(attention) => {
                let (logits, saved) = attention.forward(&tables, draws)?;
                (logits, Saved::Attention(saved))
            }
            Self::Relations(network) => {
                let (rows, saved) = network.forward(tables, blocks, draws)?;
                (rows, Saved::Relations(saved))
            }
        })
    }

    /// The layers over relations; `None` for other models.
    pub(crate) fn relations(&self) -> Option<&RelationNetwork> {
        match self {
            Self::Relations(network) => Some(network),
            _ => None,
        }
    }

    /// Whether the input rows at this place are trained.
    pub(crate) fn trains_input(&self, place: usize) -> bool {
        match self {
            Self::Relations(network) => network.trains_input(place),
            _ => false,
        }
    }

    /// Gradients of the parameters, in their order, and of the input rows that are trained, in their order, from that of
    /// the result. `saved` is of a training pass.
    pub(crate) fn backward(
        &self,
        saved: &Saved,
        blocks: &[Block<'_>],
        gradient: &Tensor,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>), TrainError> {
        let of_parameters = match (self, saved) {
            (Self::Alone | Self::Mean(_), Saved::Nothing) => Vec::new(),
            (Self::Maps(maps), Saved::Maps(inputs)) => maps.backward(inputs, gradient)?,
            (Self::Attention(_), Saved::Attention(saved)) => saved.backward(gradient)?,
            (Self::Relations(network), Saved::Relations(saved)) => {
                return network.backward(saved, blocks, gradient);
            }
            _ => {
                return Err(TrainError::Input(
                    "a backward pass after another model's forward pass".to_owned(),
                ));
            }
        };
        Ok((of_parameters, Vec::new()))
    }
}
