//! Graph attention for each relation: PyG's HeteroConv of GATConv without self-loops.

use super::layer_shape::LayerShape;
use super::list_attention::{Attended, OfAttended};
use super::type_rows::{GradientTypes, TypeRows};
use crate::TrainError;
use crate::block::aggregate::Block;
use crate::layer::folded::{self, folded};
use crate::nn::initial::glorot;
use crate::nn::random::SplitMix64;
use crate::nn::rowwise::{column_sums, linear};
use tch::{Device, Kind, Tensor};
use uva_model::{LayerWiring, TrainerOptions};

/// A layer: h_v = Σ over the relations r into v's type of Σ_u α z_u + b_r, head by head and side by side, with z = W_r x.
/// In each relation α is the softmax over v's picks of LeakyReLU(a_r·z_u + c_r·z_v).
pub(crate) struct RelationAttention {
    parts: Vec<Part>,
}

/// The parameters of a relation.
struct Part {
    name: String,
    /// W: [heads × width, columns of the source].
    weight: Tensor,
    /// W of the destination, if its rows have another number of columns.
    own_weight: Option<Tensor>,
    /// a: [1, heads, width].
    of_source: Tensor,
    /// c: [1, heads, width].
    of_destination: Tensor,
    /// [heads × width].
    bias: Tensor,
}

/// The state that the backward pass needs, of each relation.
pub(crate) struct Saved(Vec<Option<Attended>>);

impl Part {
    /// The map of destinations.
    fn own_weight(&self) -> &Tensor {
        self.own_weight.as_ref().unwrap_or(&self.weight)
    }

    /// aᵀW, with which a source's row gives its part of the scores, and cᵀW.
    fn folded(&self) -> Result<[Tensor; 2], TrainError> {
        let [a, c] = self.vectors()?;
        Ok([folded(&self.weight, &a)?, folded(self.own_weight(), &c)?])
    }

    fn vectors(&self) -> Result<[Tensor; 2], TrainError> {
        Ok([self.of_source.f_select(0, 0)?, self.of_destination.f_select(0, 0)?])
    }

    /// Gradients of the parameters, in their order, and if needed of the sources' and of the own rows, from those of what
    /// was attended to.
    fn backward(
        &self,
        (x, own): (&Tensor, &Tensor),
        of: &OfAttended,
        of_bias: &Tensor,
        [needs_sources, needs_own]: [bool; 2],
    ) -> Result<(Vec<Tensor>, [Option<Tensor>; 2]), TrainError> {
        let ([a, c], [of_sources, of_own]) = (self.vectors()?, self.folded()?);
        let through = |of_scores: &Tensor, rows: &Tensor| of_scores.f_tr()?.f_mm(rows);
        let [of_weight, of_a] = folded::gradients(&self.weight, &a, &through(&of.of_rows, x)?)?;
        let [of_own_weight, of_c] = folded::gradients(self.own_weight(), &c, &through(&of.of_lists, own)?)?;
        let of_weight = of_weight.f_add(&of.rows.f_tr()?.f_mm(x)?)?;
        let mut of_parameters = match self.own_weight {
            Some(_) => vec![of_weight, of_own_weight],
            None => vec![of_weight.f_add(&of_own_weight)?],
        };
        of_parameters.extend([of_a.f_unsqueeze(0)?, of_c.f_unsqueeze(0)?, of_bias.shallow_clone()]);
        let of_x = match needs_sources {
            true => Some(of.rows.f_mm(&self.weight)?.f_addmm_(&of.of_rows, &of_sources)?),
            false => None,
        };
        let of_own_rows = if needs_own { Some(of.of_lists.f_mm(&of_own)?) } else { None };
        Ok((of_parameters, [of_x, of_own_rows]))
    }
}

impl RelationAttention {
    pub(crate) fn new(
        options: &TrainerOptions,
        shape: &LayerShape<'_>,
        place: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let LayerShape { wiring, widths, outputs, .. } = *shape;
        let (heads, width) = (options.heads, outputs / options.heads);
        let mut parts = Vec::with_capacity(wiring.relations.len());
        for of in &wiring.relations {
            let (inputs, own) = (widths[of.source], widths[of.destination]);
            let mut drawn = |shape: &[usize], fans: usize| glorot(shape, fans, place, random);
            parts.push(Part {
                name: shape.part(of.relation),
                weight: drawn(&[outputs, inputs], inputs + outputs)?,
                own_weight: (own != inputs).then(|| drawn(&[outputs, own], own + outputs)).transpose()?,
                of_source: drawn(&[1, heads, width], heads + width)?,
                of_destination: drawn(&[1, heads, width], heads + width)?,
                bias: Tensor::f_zeros([outputs as i64], place)?,
            });
        }
        Ok(Self { parts })
    }

    /// The parameters of layer `number`, by the names of PyG's modules.
    pub(crate) fn parameters(&self, number: usize) -> Vec<(String, Tensor)> {
        let mut named = Vec::new();
        for Part { name, weight, own_weight, of_source, of_destination, bias } in &self.parts {
            let mut add = |part: &str, tensor: &Tensor| {
                named.push((format!("convs.{number}.convs.{name}.{part}"), tensor.shallow_clone()));
            };
            match own_weight {
                Some(own) => {
                    add("lin_src.weight", weight);
                    add("lin_dst.weight", own);
                }
                None => add("lin.weight", weight),
            }
            add("att_src", of_source);
            add("att_dst", of_destination);
            add("bias", bias);
        }
        named
    }

    /// From rows of sources to rows of destinations. `blocks` are those of the layer's relations.
    pub(crate) fn forward(
        &self,
        wiring: &LayerWiring,
        x: &TypeRows,
        blocks: &[Block<'_>],
    ) -> Result<(TypeRows, Saved), TrainError> {
        let (mut out, mut saved) = (TypeRows::none(x.types()), Vec::new());
        saved.resize_with(blocks.len(), || None);
        for &of_type in &wiring.destinations {
            let mut rows: Option<Tensor> = None;
            for (place, of) in wiring.leading_into(of_type) {
                let (part, block, from) = (&self.parts[place], &blocks[place], x.get(of.source)?);
                let own = x.get(of_type)?.f_narrow(0, 0, block.destinations as i64)?;
                let [of_sources, of_own] = part.folded()?;
                let scores = [linear(from, &of_sources)?, linear(&own, &of_own)?];
                let products = linear(from, &part.weight)?;
                let (sums, attended) = Attended::new(block.host_lists()?, &products, &scores[0], &scores[1])?;
                saved[place] = Some(attended);
                let term = sums.f_add(&part.bias)?;
                rows = Some(match rows {
                    Some(rows) => rows.f_add(&term)?,
                    None => term,
                });
            }
            out.set(of_type, rows.ok_or_else(no_relation)?);
        }
        Ok((out, Saved(saved)))
    }

    /// Gradients of the parameters, in their order, and of the `needed` types of `x`, from those of the result.
    pub(crate) fn backward(
        &self,
        wiring: &LayerWiring,
        x: &TypeRows,
        Saved(saved): &Saved,
        blocks: &[Block<'_>],
        of_out: &TypeRows,
        needed: &GradientTypes,
    ) -> Result<(Vec<Tensor>, TypeRows), TrainError> {
        let mut of_x = TypeRows::none(x.types());
        let mut of_parts: Vec<Vec<Tensor>> = Vec::new();
        of_parts.resize_with(self.parts.len(), Vec::new);
        for &of_type in &wiring.destinations {
            let gradient = of_out.get(of_type)?;
            let of_bias = column_sums(gradient)?;
            for (place, of) in wiring.leading_into(of_type) {
                let (part, from, all) = (&self.parts[place], x.get(of.source)?, x.get(of_type)?);
                let own = all.f_narrow(0, 0, gradient.size2()?.0)?;
                let attended = saved[place].as_ref().ok_or_else(no_relation)?;
                let of_attended = attended.backward(blocks[place].host_lists()?, gradient)?;
                let needed = [of.source, of_type].map(|of_type| needed.contain(of_type));
                let (of_part, [of_from, of_own]) =
                    part.backward((from, &own), &of_attended, &of_bias, needed)?;
                of_parts[place] = of_part;
                if let Some(of_from) = of_from {
                    of_x.add(of.source, of_from, from.size2()?.0 as usize)?;
                }
                if let Some(of_own) = of_own {
                    of_x.add(of_type, of_own, all.size2()?.0 as usize)?;
                }
            }
        }
        Ok((of_parts.into_iter().flatten().collect(), of_x))
    }
}

fn no_relation() -> TrainError {
    TrainError::Input("a node type with rows into which no relation leads".to_owned())
}
