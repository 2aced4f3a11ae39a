//! Hop-wise graph attention, HOGA (Deng et al. 2024): attention between the hops of a node.
//!
//! ```text
//! Z_r = z_r W_r                                                                   for each hop r: [nodes, hops, hidden]
//! Z = dropout(ReLU(norm((Z W_gate) ⊙ ((softmax(Q Kᵀ / √d) V) W_out + b_out))))    for each layer; heads of width d,
//!                                                                                 side by side; Q = Z W_query + b_query
//! y = Z_0 + Σ_k softmax_k(a · Z_k) Z_k                                over the hops k from 1
//! logits = W_2 dropout(norm(ReLU(W_1 y)))
//! ```
//!
//! The softmax of a layer is over the keys: each hop of a node weighs all hops of that node, head by head. In the paper
//! the scores of the third line are a · [Z_0 ‖ Z_k]. The part of Z_0 is the same for every k, so the softmax does not
//! depend on it, and `a` here is the part for Z_k.
//!
//! In the paper, one map W serves all hops. Attention does not see the order of the hops, so a layer could then
//! distinguish a node's own features from its neighbours' only by their values. The authors note that separate maps may
//! be more accurate.
//!
//! In the paper, K and V have biases as well. A bias of K adds the same to all scores of a query. A bias of V adds a
//! constant to every row, which is part of b_out. So neither changes what the network can compute, and both are
//! omitted. Without b_out a layer would be a product of two linear maps of Z, and so the same for Z and −Z.

use crate::TrainError;
use crate::hops::inputs::another_number;
use crate::nn::dropout::Draws;
use crate::nn::initial::glorot;
use crate::nn::random::SplitMix64;
use crate::nn::rowwise::{layer_norm, linear};
use tch::{Device, Kind, Tensor};
use uva_model::TrainerOptions;

/// The whole network. Linear maps have no bias, except two per layer.
pub(crate) struct HopAttention {
    /// W_r of each hop, [hidden, features].
    inputs: Vec<Tensor>,
    layers: Vec<Layer>,
    /// a, [hidden].
    readout: Tensor,
    /// W_1, [hidden, hidden].
    first: Tensor,
    norm: Norm,
    /// W_2, [outputs, hidden].
    second: Tensor,
    heads: i64,
    dropout: f64,
}

/// A layer's parameters. Maps without bias are [hidden, hidden].
struct Layer {
    query: Biased,
    key: Tensor,
    value: Tensor,
    gate: Tensor,
    out: Biased,
    norm: Norm,
}

/// A linear map with bias: [hidden, hidden] and [hidden].
struct Biased {
    weight: Tensor,
    bias: Tensor,
}

/// Scale and shift of a layer normalisation, [hidden] each.
struct Norm {
    weight: Tensor,
    bias: Tensor,
}

/// A training pass as recorded by autograd. All operations are dense, and autograd's backward pass of these is as fast
/// as one by hand.
pub(crate) struct Saved {
    /// Empty after a pass that is not a training pass.
    leaves: Vec<Tensor>,
    logits: Tensor,
}

impl HopAttention {
    pub(crate) fn new(
        options: &TrainerOptions,
        (input_dim, outputs): (usize, usize),
        place: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let TrainerOptions { hidden, layers, hops, heads, dropout, .. } = *options;
        let inputs: Result<_, TrainError> =
            (0..=hops).map(|_| glorot(&[hidden, input_dim], hidden + input_dim, place, random)).collect();
        let inputs = inputs?;
        let layers: Result<_, TrainError> = (0..layers)
            .map(|_| {
                let mut square = || glorot(&[hidden, hidden], 2 * hidden, place, random);
                let (query, key, value) = (square()?, square()?, square()?);
                let (gate, out) = (square()?, square()?);
                let (query, out) = (Biased::new(query, random)?, Biased::new(out, random)?);
                Ok(Layer { query, key, value, gate, out, norm: Norm::new(hidden, place)? })
            })
            .collect();
        Ok(Self {
            inputs,
            layers: layers?,
            readout: glorot(&[hidden], hidden + 1, place, random)?,
            first: glorot(&[hidden, hidden], 2 * hidden, place, random)?,
            norm: Norm::new(hidden, place)?,
            second: glorot(&[outputs, hidden], hidden + outputs, place, random)?,
            heads: heads as i64,
            dropout,
        })
    }

    pub(crate) fn parameters(&self) -> Vec<(String, Tensor)> {
        let mut parameters = Vec::new();
        let mut add = |name: String, tensor: &Tensor| parameters.push((name, tensor.shallow_clone()));
        for (hop, input) in self.inputs.iter().enumerate() {
            add(format!("hops.{hop}.weight"), input);
        }
        for (number, layer) in self.layers.iter().enumerate() {
            let Layer { query, key, value, gate, out, norm } = layer;
            add(format!("layers.{number}.query.weight"), &query.weight);
            add(format!("layers.{number}.query.bias"), &query.bias);
            for (name, map) in [("key", key), ("value", value), ("gate", gate)] {
                add(format!("layers.{number}.{name}.weight"), map);
            }
            add(format!("layers.{number}.out.weight"), &out.weight);
            add(format!("layers.{number}.out.bias"), &out.bias);
            add(format!("layers.{number}.norm.weight"), &norm.weight);
            add(format!("layers.{number}.norm.bias"), &norm.bias);
        }
        add("readout.weight".to_owned(), &self.readout);
        add("first.weight".to_owned(), &self.first);
        add("first.norm.weight".to_owned(), &self.norm.weight);
        add("first.norm.bias".to_owned(), &self.norm.bias);
        add("second.weight".to_owned(), &self.second);
        parameters
    }

    /// The same network with a leaf of autograd for each parameter, of the same storage.
    fn leaves(&self) -> Result<Self, TrainError> {
        let leaf = |tensor: &Tensor| tensor.f_detach()?.f_set_requires_grad(true);
        let norm = |norm: &Norm| -> Result<Norm, TrainError> {
            Ok(Norm { weight: leaf(&norm.weight)?, bias: leaf(&norm.bias)? })
        };
        let biased = |map: &Biased| -> Result<Biased, TrainError> {
            Ok(Biased { weight: leaf(&map.weight)?, bias: leaf(&map.bias)? })
        };
        let layer = |layer: &Layer| -> Result<Layer, TrainError> {
            let Layer { query, key, value, gate, out, norm: of_layer } = layer;
            let (query, out) = (biased(query)?, biased(out)?);
            let (key, value, gate) = (leaf(key)?, leaf(value)?, leaf(gate)?);
            Ok(Layer { query, key, value, gate, out, norm: norm(of_layer)? })
        };
        Ok(Self {
            inputs: self.inputs.iter().map(leaf).collect::<Result<_, _>>()?,
            layers: self.layers.iter().map(layer).collect::<Result<_, _>>()?,
            readout: leaf(&self.readout)?,
            first: leaf(&self.first)?,
            norm: norm(&self.norm)?,
            second: leaf(&self.second)?,
            heads: self.heads,
            dropout: self.dropout,
        })
    }

    /// The logits from the tables of hops 0 to R, [nodes, features] each. Only a training pass, one with `draws`, can be
    /// followed by a backward pass.
    pub(crate) fn forward(
        &self,
        tables: &[Tensor],
        draws: Option<&mut Draws>,
    ) -> Result<(Tensor, Saved), TrainError> {
        if tables.len() != self.inputs.len() {
            return Err(another_number(self.inputs.len()));
        }
        let Some(draws) = draws else {
            let logits = self.logits(tables, None)?;
            return Ok((logits.shallow_clone(), Saved { leaves: Vec::new(), logits }));
        };
        let recorded = self.leaves()?;
        let logits = tch::with_grad(|| recorded.logits(tables, Some(draws)))?;
        let leaves = recorded.parameters().into_iter().map(|(_, leaf)| leaf).collect();
        Ok((logits.f_detach()?, Saved { leaves, logits }))
    }

    fn logits(&self, tables: &[Tensor], mut draws: Option<&mut Draws>) -> Result<Tensor, TrainError> {
        let (nodes, hops) = (tables[0].size2()?.0, tables.len() as i64);
        let dropped = |x: Tensor, draws: Option<&mut Draws>| -> Result<Tensor, TrainError> {
            let mask = draws.map(|draws| draws.mask(&x, self.dropout)).transpose()?.flatten();
            Ok(match mask {
                Some(mask) => x.f_mul(&mask)?,
                None => x,
            })
        };
        let maps = tables.iter().zip(&self.inputs);
        let mapped: Result<Vec<Tensor>, TrainError> = maps.map(|(rows, map)| linear(rows, map)).collect();
        // A row for each hop of each node.
        let mut z = Tensor::f_stack(&mapped?, 1)?.f_flatten(0, 1)?;
        for layer in &self.layers {
            let attended = layer.out.of(&layer.attended(&z, (nodes, hops, self.heads))?)?;
            let gated = linear(&z, &layer.gate)?.f_mul(&attended)?;
            z = dropped(layer.norm.of(&gated)?.f_relu()?, draws.as_deref_mut())?;
        }
        let z = z.f_view([nodes, hops, -1])?;
        let (own, others) = (z.f_select(1, 0)?, z.f_narrow(1, 1, hops - 1)?);
        let shares = others.f_matmul(&self.readout)?.f_softmax(1, None)?.f_unsqueeze(2)?;
        let sums = others.f_mul(&shares)?.f_sum_dim_intlist([1i64].as_slice(), false, None)?;
        let y = linear(&own.f_add(&sums)?, &self.first)?.f_relu()?;
        linear(&dropped(self.norm.of(&y)?, draws)?, &self.second)
    }
}

impl Layer {
    /// The attention output of each hop over the hops of its node, heads side by side, [nodes · hops, hidden].
    fn attended(&self, z: &Tensor, (nodes, hops, heads): (i64, i64, i64)) -> Result<Tensor, TrainError> {
        let hidden = z.size2()?.1;
        let width = hidden / heads;
        // [nodes, heads, hops, width].
        let by_head = |rows: Tensor| rows.f_view([nodes, hops, heads, width])?.f_transpose(1, 2);
        let queries = by_head(self.query.of(z)?)?;
        let (keys, values) = (by_head(linear(z, &self.key)?)?, by_head(linear(z, &self.value)?)?);
        let scores = queries.f_matmul(&keys.f_transpose(2, 3)?)?.f_div_scalar((width as f64).sqrt())?;
        // The last axis is that of the keys.
        let taken = scores.f_softmax(3, None)?.f_matmul(&values)?;
        Ok(taken.f_transpose(1, 2)?.f_reshape([nodes * hops, hidden])?)
    }
}

impl Biased {
    /// With a bias drawn from ±1 / √hidden, as PyTorch does.
    fn new(weight: Tensor, random: &mut SplitMix64) -> Result<Self, TrainError> {
        let (width, place) = (weight.size2()?.0, (weight.f_kind()?, weight.device()));
        // ±√(6 / fans) is that for six times the width.
        let width = width as usize;
        Ok(Self { bias: glorot(&[width], 6 * width, place, random)?, weight })
    }

    fn of(&self, x: &Tensor) -> Result<Tensor, TrainError> {
        Ok(x.f_linear(&self.weight, Some(&self.bias))?)
    }
}

impl Norm {
    fn new(width: usize, place: (Kind, Device)) -> Result<Self, TrainError> {
        let width = [width as i64];
        Ok(Self { weight: Tensor::f_ones(width, place)?, bias: Tensor::f_zeros(width, place)? })
    }

    fn of(&self, x: &Tensor) -> Result<Tensor, TrainError> {
        Ok(layer_norm(x, &self.weight, &self.bias)?.0)
    }
}

impl Saved {
    /// Gradients of the parameters, in their order, from that of the logits.
    pub(crate) fn backward(&self, gradient: &Tensor) -> Result<Vec<Tensor>, TrainError> {
        // The derivative of this number by a logit is the logit's gradient.
        let number = tch::with_grad(|| self.logits.f_mul(gradient)?.f_sum(self.logits.f_kind()?))?;
        Ok(Tensor::f_run_backward(&[&number], &self.leaves, false, false)?)
    }
}
