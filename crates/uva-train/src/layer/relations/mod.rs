//! Networks over the relations of a typed graph: layer by layer from rows of node types to rows of the target's seeds.

mod attention;
mod convolution;
mod joint_attention;
mod layer_shape;
mod list_attention;
mod mean_map;
mod relation_layer;
mod sage;
mod transformer;
pub(crate) mod type_rows;

use self::layer_shape::LayerShape;
use self::relation_layer::RelationLayer;
use self::type_rows::{GradientTypes, TypeRows};
use crate::TrainError;
use crate::block::aggregate::Block;
use crate::nn::activation::{self, Activation};
use crate::nn::dropout::Draws;
use crate::nn::random::SplitMix64;
use crate::nn::rowwise::Linear;
use tch::{Device, Kind, Tensor};
use uva_model::{InputMaps, LayerWiring, TrainerOptions, Wiring};

/// The layers of a network, with the activation and dropout of each type's rows between them.
pub(crate) struct RelationNetwork {
    /// The relations that each layer uses. The blocks of a batch are in this order.
    wiring: Wiring,
    types: usize,
    /// The maps of input rows, for each type that the first layer reads; empty if it reads them unchanged.
    inputs: Vec<(String, Linear)>,
    /// Whether a ReLU follows them.
    activates_inputs: bool,
    /// For each type whose input rows it reads, whether they are trained.
    trained: Vec<bool>,
    layers: Vec<RelationLayer>,
    /// The map from the last layer's rows to logits, if that layer has not made them.
    output: Option<Linear>,
    activation: Activation,
    dropout: f64,
}

/// The state that the backward pass needs, of each layer.
pub(crate) struct Saved {
    /// The rows before the maps of inputs, and the state of the ReLU after them; empty if there are none.
    unmapped: Vec<(Tensor, Option<activation::Saved>)>,
    layers: Vec<SavedLayer>,
    /// The target's rows after the last layer, before the map of outputs.
    last: Option<Tensor>,
}

struct SavedLayer {
    /// The input of the layer.
    x: TypeRows,
    of_layer: relation_layer::Saved,
    /// Empty after the last layer.
    activated: Activated,
}

/// The activation of each type after a layer.
type Activated = Vec<(usize, activation::Saved)>;

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
        let activates_inputs =
            options.model.row().relations.is_some_and(|of| of.input_maps == InputMaps::WithRelu);
        let prefix = if activates_inputs { "lin_dict" } else { "input" };
        let mut inputs = Vec::new();
        if options.maps_inputs(&wiring) {
            let columns = options.input_columns();
            for &of_type in &wiring.inputs {
                let widths = (columns[of_type], options.hidden);
                let name = format!("{prefix}.{}", graph.types[of_type].name);
                inputs.push((name, Linear::as_in_torch(widths, place, random)?));
            }
        }
        let (mut widths, columns) = (options.input_widths(&wiring), options.output_widths(outputs));
        let trained = wiring.inputs.iter().map(|&of_type| graph.types[of_type].columns.is_none()).collect();
        let mut layers = Vec::with_capacity(wiring.layers.len());
        for (of_layer, &outputs) in wiring.layers.iter().zip(&columns) {
            let (widths_before, relations, types) = (&widths[..], &graph.relations[..], &types[..]);
            let shape = LayerShape { wiring: of_layer, widths: widths_before, outputs, types, relations };
            layers.push(RelationLayer::new(options, &shape, place, random)?);
            widths = vec![outputs; widths.len()];
        }
        let output = match columns.get(wiring.layers.len()) {
            Some(&outputs) => Some(Linear::as_in_torch((options.hidden, outputs), place, random)?),
            None => None,
        };
        let (activation, dropout) = (Activation::of(options.model), options.dropout);
        let types = graph.types.len();
        Ok(Self { wiring, types, inputs, activates_inputs, trained, layers, output, activation, dropout })
    }

    /// Whether the input rows at this place, in the order of types, are trained.
    pub(crate) fn trains_input(&self, place: usize) -> bool {
        self.trained.get(place).is_some_and(|&trained| trained)
    }

    /// The types of which layer `number` has to compute the gradients of its input rows: in the first layer those with
    /// rows that are trained, unless parameters come before it.
    fn gradient_types(&self, number: usize) -> GradientTypes {
        if number > 0 || !self.inputs.is_empty() {
            return GradientTypes::all(self.types);
        }
        let inputs = self.wiring.inputs.iter().zip(&self.trained);
        GradientTypes::some(
            self.types,
            inputs.filter_map(|(&of_type, &is_trained)| is_trained.then_some(of_type)),
        )
    }

    /// The parameters by name, in a fixed order: those of PyG's modules.
    pub(crate) fn parameters(&self) -> Vec<(String, Tensor)> {
        let of_map = |prefix: &str, map: &Linear| {
            let named = |(part, of): (&str, &Tensor)| (format!("{prefix}.{part}"), of.shallow_clone());
            map.parameters().into_iter().map(named).collect::<Vec<_>>()
        };
        let of_inputs = self.inputs.iter().flat_map(|(name, map)| of_map(name, map));
        let of_layers = self.layers.iter().enumerate().flat_map(|(number, layer)| layer.parameters(number));
        let of_output = self.output.iter().flat_map(|map| of_map("lin", map));
        of_inputs.chain(of_layers).chain(of_output).collect()
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
        let (mut x, mut unmapped) = (TypeRows::none(self.types), Vec::new());
        for (place, (&of_type, rows)) in inputs.iter().zip(tables).enumerate() {
            match self.mapped_input(place, &rows, draws.as_deref_mut())? {
                Some((mapped, state)) => {
                    x.set(of_type, mapped);
                    unmapped.push((rows, state));
                }
                None => x.set(of_type, rows),
            }
        }
        let mut saved = Vec::with_capacity(self.layers.len());
        for (number, wiring) in wirings.iter().enumerate() {
            let (own, rest) = blocks.split_at_checked(wiring.relations.len()).ok_or_else(other_blocks)?;
            blocks = rest;
            let (out, of_layer, activated) = self.step(number, wiring, &x, own, draws.as_deref_mut())?;
            saved.push(SavedLayer { x, of_layer, activated });
            x = out;
        }
        let last = x.take(*target)?;
        Ok(match &self.output {
            Some(map) => (map.forward(&last)?, Saved { unmapped, layers: saved, last: Some(last) }),
            None => (last, Saved { unmapped, layers: saved, last: None }),
        })
    }

    /// The input rows at a place after their map, and the state of the ReLU after it; `None` if the first layer reads them
    /// unchanged.
    fn mapped_input(
        &self,
        place: usize,
        rows: &Tensor,
        draws: Option<&mut Draws>,
    ) -> Result<Option<(Tensor, Option<activation::Saved>)>, TrainError> {
        let Some((_, map)) = self.inputs.get(place) else { return Ok(None) };
        let mapped = map.forward(rows)?;
        if !self.activates_inputs {
            return Ok(Some((mapped, None)));
        }
        let (out, state) = Activation::Relu.forward(mapped, draws, self.dropout)?;
        Ok(Some((out, Some(state))))
    }

    /// The rows of the destinations in `wiring` after layer `number`, with the activation that follows it.
    fn step(
        &self,
        number: usize,
        wiring: &LayerWiring,
        x: &TypeRows,
        blocks: &[Block<'_>],
        mut draws: Option<&mut Draws>,
    ) -> Result<(TypeRows, relation_layer::Saved, Activated), TrainError> {
        let layer = self.layers.get(number).ok_or_else(other_blocks)?;
        let (mut out, of_layer) = layer.forward(wiring, x, blocks, &self.gradient_types(number))?;
        let mut activated = Vec::new();
        if number + 1 < self.layers.len() {
            for &of_type in &wiring.destinations {
                let draws = draws.as_deref_mut();
                let (rows, state) = self.activation.forward(out.take(of_type)?, draws, self.dropout)?;
                out.set(of_type, rows);
                activated.push((of_type, state));
            }
        }
        Ok((out, of_layer, activated))
    }

    /// The relations that each layer uses, and the types whose input rows are read.
    pub(crate) fn wiring(&self) -> &Wiring {
        &self.wiring
    }

    /// Number of node types.
    pub(crate) fn types(&self) -> usize {
        self.types
    }

    /// Whether the input rows are mapped before the first layer.
    pub(crate) fn maps_inputs(&self) -> bool {
        !self.inputs.is_empty()
    }

    /// The input rows at a place as the first layer reads them. Nothing is dropped.
    pub(crate) fn input(&self, place: usize, rows: Tensor) -> Result<Tensor, TrainError> {
        Ok(self.mapped_input(place, &rows, None)?.map_or(rows, |(mapped, _)| mapped))
    }

    /// The rows of the destinations of one type, as the next layer or the map of outputs reads them. `blocks` are those of
    /// the layer's relations, of which only those into this type are read. Nothing is dropped.
    pub(crate) fn rows_of_type(
        &self,
        (number, of_type): (usize, usize),
        x: &TypeRows,
        blocks: &[Block<'_>],
    ) -> Result<Tensor, TrainError> {
        let relations = self.wiring.layers.get(number).ok_or_else(other_blocks)?.relations.clone();
        let wiring = LayerWiring { relations, destinations: vec![of_type] };
        self.step(number, &wiring, x, blocks, None)?.0.take(of_type)
    }

    /// The logits from the target's rows after the last layer.
    pub(crate) fn logits(&self, last: Tensor) -> Result<Tensor, TrainError> {
        match &self.output {
            Some(map) => map.forward(&last),
            None => Ok(last),
        }
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
        let (of_output, of_last) = match (&self.output, &saved.last) {
            (Some(map), Some(last)) => map.backward(last, gradient, true)?,
            _ => (Vec::new(), None),
        };
        gradients.set(self.wiring.target, of_last.unwrap_or_else(|| gradient.shallow_clone()));
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
            let needed = self.gradient_types(number);
            let (of_parameters, of_x) = layer.backward(wiring, (x, of_layer), own, &gradients, &needed)?;
            of_layers.push(of_parameters);
            gradients = of_x;
        }
        let (mut of_parameters, mut of_rows) = (Vec::new(), Vec::new());
        for (place, &of_type) in self.wiring.inputs.iter().enumerate() {
            let is_trained = self.trains_input(place);
            match (self.inputs.get(place), saved.unmapped.get(place)) {
                (Some((_, map)), Some((rows, state))) => {
                    let of_mapped = gradients.take(of_type)?;
                    let of_mapped = match state {
                        Some(state) => state.backward(of_mapped)?,
                        None => of_mapped,
                    };
                    let (of_map, of_x) = map.backward(rows, &of_mapped, is_trained)?;
                    of_parameters.extend(of_map);
                    of_rows.extend(of_x);
                }
                _ if is_trained => of_rows.push(gradients.take(of_type)?),
                _ => {}
            }
        }
        of_parameters.extend(of_layers.into_iter().rev().flatten().chain(of_output));
        Ok((of_parameters, of_rows))
    }
}

fn other_blocks() -> TrainError {
    TrainError::Input("a batch with other blocks than the relations of the model's layers".to_owned())
}
