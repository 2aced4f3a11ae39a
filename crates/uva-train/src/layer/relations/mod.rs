//! Networks over the relations of a typed graph: layer by layer from rows of node types to rows of the target's seeds.

mod layer_shape;
pub(crate) mod sage;
pub(crate) mod type_rows;

use self::layer_shape::LayerShape;
use self::sage::SageRelations;
use self::type_rows::TypeRows;
use crate::TrainError;
use crate::block::aggregate::Block;
use crate::nn::activation::{self, Activation};
use crate::nn::dropout::Draws;
use crate::nn::random::SplitMix64;
use tch::{Device, Kind, Tensor};
use uva_model::{ModelKind, TrainerOptions, Wiring};

/// The layers of a network, with the activation and dropout of each type's rows between them.
pub(crate) struct RelationNetwork {
    /// The relations that each layer uses. The blocks of a batch are in this order.
    wiring: Wiring,
    types: usize,
    /// For each type whose input rows it reads, whether they are trained.
    trained: Vec<bool>,
    layers: Vec<RelationLayer>,
    activation: Activation,
    dropout: f64,
}

/// A layer, by how it weighs neighbours.
enum RelationLayer {
    /// Their mean in each relation.
    Sage(SageRelations),
}

/// The state that the backward pass needs, of each layer.
pub(crate) struct Saved {
    layers: Vec<SavedLayer>,
}

struct SavedLayer {
    /// The input of the layer.
    x: TypeRows,
    of_layer: sage::Saved,
    /// The activation of each type after the layer; empty after the last.
    activated: Vec<(usize, activation::Saved)>,
}

impl RelationNetwork {
    /// A network of `options` to `outputs` logits.
    pub(crate) fn new(
        options: &TrainerOptions,
        outputs: usize,
        place: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let (wiring, graph) = (options.wiring().map_err(TrainError::Input)?, options.graph.as_ref());
        let (Some(wiring), Some(graph)) = (wiring, graph) else {
            return Err(TrainError::Input(format!(
                "`model={}` without types of nodes",
                options.model.name()
            )));
        };
        let types: Vec<&str> = graph.types.iter().map(|of_type| of_type.name.as_str()).collect();
        let relations: Vec<String> =
            graph.relations.iter().map(|names| format!("<{}>", names.join("___"))).collect();
        let mut widths = options.input_columns();
        let trained = wiring.inputs.iter().map(|&of_type| graph.types[of_type].columns.is_none()).collect();
        let mut layers = Vec::with_capacity(wiring.layers.len());
        for (number, of_layer) in wiring.layers.iter().enumerate() {
            let outputs = if number + 1 == wiring.layers.len() { outputs } else { options.hidden };
            let (widths_before, relations, types) = (&widths[..], &relations[..], &types[..]);
            let shape = LayerShape { wiring: of_layer, widths: widths_before, outputs, types, relations };
            layers.push(match options.model {
                ModelKind::Rsage => RelationLayer::Sage(SageRelations::new(options, &shape, place, random)?),
                other => {
                    return Err(TrainError::Input(format!("`model={}` has no relations", other.name())));
                }
            });
            widths = vec![outputs; widths.len()];
        }
        let (activation, dropout) = (Activation::of(options.model), options.dropout);
        Ok(Self { wiring, types: graph.types.len(), trained, layers, activation, dropout })
    }

    /// Whether the input rows at this place, in the order of types, are trained.
    pub(crate) fn trains_input(&self, place: usize) -> bool {
        self.trained.get(place).is_some_and(|&trained| trained)
    }

    /// Whether the gradient of the input of layer `number` is needed.
    fn needs_gradient(&self, number: usize) -> bool {
        number > 0 || self.trained.contains(&true)
    }

    /// The parameters by name, in a fixed order: those of PyG's modules.
    pub(crate) fn parameters(&self) -> Vec<(String, Tensor)> {
        let of_layer = |(number, layer): (usize, &RelationLayer)| match layer {
            RelationLayer::Sage(layer) => layer.parameters(number),
        };
        self.layers.iter().enumerate().flat_map(of_layer).collect()
    }

    /// The rows of the target's seeds from those of the types that the first layer reads, in their order. `blocks` are in
    /// the order of the layers and of the relations that each uses. With `draws` it is a training pass.
    pub(crate) fn forward(
        &self,
        tables: Vec<Tensor>,
        mut blocks: &[Block<'_>],
        mut draws: Option<&mut Draws>,
    ) -> Result<(Tensor, Saved), TrainError> {
        let Wiring { layers: wirings, inputs, target } = &self.wiring;
        if tables.len() != inputs.len() {
            return Err(TrainError::Input(format!(
                "feature rows of {} node types for a model of {}",
                tables.len(),
                inputs.len()
            )));
        }
        let mut x = TypeRows::none(self.types);
        inputs.iter().zip(tables).for_each(|(&of_type, rows)| x.set(of_type, rows));
        let mut saved = Vec::with_capacity(self.layers.len());
        for (number, (layer, wiring)) in self.layers.iter().zip(wirings).enumerate() {
            let (own, rest) = blocks.split_at_checked(wiring.relations.len()).ok_or_else(other_blocks)?;
            blocks = rest;
            let (mut out, of_layer) = match layer {
                RelationLayer::Sage(layer) => layer.forward(wiring, &x, own, self.needs_gradient(number))?,
            };
            let mut activated = Vec::new();
            if number + 1 < self.layers.len() {
                for &of_type in &wiring.destinations {
                    let draws = draws.as_deref_mut();
                    let (rows, state) = self.activation.forward(out.take(of_type)?, draws, self.dropout)?;
                    out.set(of_type, rows);
                    activated.push((of_type, state));
                }
            }
            saved.push(SavedLayer { x, of_layer, activated });
            x = out;
        }
        Ok((x.take(*target)?, Saved { layers: saved }))
    }

    /// Gradients of the parameters, in their order, and of the input rows that are trained, in their order, from that of
    /// the target's rows.
    pub(crate) fn backward(
        &self,
        saved: &Saved,
        mut blocks: &[Block<'_>],
        gradient: &Tensor,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>), TrainError> {
        let mut gradients = TypeRows::none(self.types);
        gradients.set(self.wiring.target, gradient.shallow_clone());
        let mut of_layers = Vec::with_capacity(self.layers.len());
        let layers = self.layers.iter().zip(&self.wiring.layers).zip(&saved.layers).enumerate();
        for (number, ((layer, wiring), SavedLayer { x, of_layer, activated })) in layers.rev() {
            for (of_type, state) in activated {
                let of_rows = state.backward(gradients.take(*of_type)?)?;
                gradients.set(*of_type, of_rows);
            }
            let before = blocks.len().checked_sub(wiring.relations.len()).ok_or_else(other_blocks)?;
            let (rest, own) = blocks.split_at(before);
            blocks = rest;
            let (of_parameters, of_x) = match layer {
                RelationLayer::Sage(layer) => {
                    layer.backward(wiring, x, of_layer, own, &gradients, self.needs_gradient(number))?
                }
            };
            of_layers.push(of_parameters);
            gradients = of_x;
        }
        let trained = self.wiring.inputs.iter().zip(&self.trained).filter(|(_, trained)| **trained);
        let of_rows = trained.map(|(&of_type, _)| gradients.take(of_type)).collect::<Result<_, _>>()?;
        Ok((of_layers.into_iter().rev().flatten().collect(), of_rows))
    }
}

fn other_blocks() -> TrainError {
    TrainError::Input("a batch with other blocks than the relations of the model's layers".to_owned())
}
