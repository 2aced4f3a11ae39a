//! A heterogeneous graph transformer's layer (Hu et al. 2020): PyG's HGTConv.

use super::joint_attention::{Entries, JointAttention};
use super::layer_shape::LayerShape;
use super::type_rows::TypeRows;
use crate::TrainError;
use crate::block::aggregate::Block;
use crate::nn::initial::uniform;
use crate::nn::random::SplitMix64;
use crate::nn::rowwise::Linear;
use tch::{Device, Kind, Tensor};
use uva_model::{LayerWiring, TrainerOptions};

/// A layer: h'_v = s (A gelu(o_v) + b) + (1 − s) h_v with the sigmoid s of a number of v's type, and head by head
/// o_v = Σ α (v_u V_r) over the entries u → v of all relations r into v's type. α is the softmax over these entries of
/// p_r q_v·(k_u K_r) / √width. Keys k, queries q and values v are linear maps of the rows of each type.
pub(crate) struct Transformer {
    heads: usize,
    /// Columns of its rows.
    columns: usize,
    parts: Vec<TypePart>,
    /// K and V of all relations: [heads × relations, width, width], head by head.
    of_keys: Tensor,
    of_values: Tensor,
    /// p of each relation, [1, heads].
    factors: Vec<(String, Tensor)>,
}

/// The parameters of a type. If it is only a source or only a destination, some are unused: PyG's module has them, too.
struct TypePart {
    of_type: usize,
    name: String,
    /// To keys, queries and values, side by side.
    three: Linear,
    out: Linear,
    /// The number before the sigmoid, [1].
    share: Tensor,
}

/// Which of the outputs of [`TypePart::three`].
const KEYS: usize = 0;
const QUERIES: usize = 1;
const VALUES: usize = 2;

/// The state that the backward pass needs.
pub(crate) struct Saved {
    /// Of each type that is a source.
    keys: TypeRows,
    values: TypeRows,
    /// Of each destination type, in their order.
    destinations: Vec<Made>,
}

struct Made {
    queries: Tensor,
    attention: JointAttention,
    /// The sums before gelu.
    attended: Tensor,
    /// The rows before they are mixed with the own ones.
    mapped: Tensor,
}

/// The gradients of a type's parameters; absent where nothing used them.
#[derive(Default)]
struct OfPart {
    /// Weight and bias of keys, queries and values.
    three: [Option<[Tensor; 2]>; 3],
    out: Option<[Tensor; 2]>,
    share: Option<Tensor>,
}

impl Transformer {
    pub(crate) fn new(
        options: &TrainerOptions,
        shape: &LayerShape<'_>,
        place: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let LayerShape { wiring, widths, outputs, types, relations } = *shape;
        let (heads, width) = (options.heads, outputs / options.heads);
        let mut parts = Vec::new();
        for of_type in wiring.types() {
            parts.push(TypePart {
                of_type,
                name: types[of_type].to_owned(),
                three: Linear::as_in_torch((widths[of_type], 3 * outputs), place, random)?,
                out: Linear::as_in_torch((outputs, outputs), place, random)?,
                share: Tensor::f_ones([1i64], place)?,
            });
        }
        let (matrices, bound) = ([heads * wiring.relations.len(), width, width], 1.0 / (width as f64).sqrt());
        let of_keys = uniform(&matrices, bound, place, random)?;
        let of_values = uniform(&matrices, bound, place, random)?;
        let factor = |of: &uva_model::RelationUse| {
            Ok((relations[of.relation].join("__"), Tensor::f_ones([1, heads as i64], place)?))
        };
        let factors = wiring.relations.iter().map(factor).collect::<Result<_, TrainError>>()?;
        Ok(Self { heads, columns: outputs, parts, of_keys, of_values, factors })
    }

    /// The parameters of layer `number`, by the names of PyG's module.
    pub(crate) fn parameters(&self, number: usize) -> Vec<(String, Tensor)> {
        let mut named = Vec::new();
        let mut add =
            |name: String, of: &Tensor| named.push((format!("convs.{number}.{name}"), of.shallow_clone()));
        for TypePart { name, three, out, share, .. } in &self.parts {
            for (map, of_map) in [("kqv_lin", three), ("out_lin", out)] {
                for (part, of) in of_map.parameters() {
                    add(format!("{map}.lins.{name}.{part}"), of);
                }
            }
            add(format!("skip.{name}"), share);
        }
        add("k_rel.weight".to_owned(), &self.of_keys);
        add("v_rel.weight".to_owned(), &self.of_values);
        for (name, factor) in &self.factors {
            add(format!("p_rel.{name}"), factor);
        }
        named
    }

    /// The map of a type to its keys, queries or values.
    fn map(&self, part: &TypePart, which: usize) -> Result<Linear, TrainError> {
        part.three.outputs(which * self.columns, self.columns)
    }

    fn part(&self, of_type: usize) -> Result<&TypePart, TrainError> {
        self.parts.iter().find(|part| part.of_type == of_type).ok_or_else(no_relation)
    }

    /// The matrices of the heads of the relation at a place in the layer, of all relations' [heads × relations, …].
    fn of_relation(&self, all: &Tensor, place: usize) -> Result<Tensor, TrainError> {
        let width = (self.columns / self.heads) as i64;
        let by_head = all.f_view([self.heads as i64, self.factors.len() as i64, width, width])?;
        Ok(by_head.f_select(1, place as i64)?)
    }

    /// p / √width of each head, [heads, 1, 1].
    fn scale(&self, place: usize) -> Result<Tensor, TrainError> {
        let root = ((self.columns / self.heads) as f64).sqrt();
        Ok(self.factors[place].1.f_div_scalar(root)?.f_view([self.heads as i64, 1, 1])?)
    }

    /// What the destinations of a type attend to, of each relation into it.
    fn entries<'a>(
        &self,
        wiring: &LayerWiring,
        of_type: usize,
        (keys, values): (&'a TypeRows, &'a TypeRows),
        blocks: &[Block<'a>],
    ) -> Result<Vec<Entries<'a>>, TrainError> {
        let entries = |(place, of): (usize, &uva_model::RelationUse)| {
            Ok(Entries {
                lists: *blocks[place].host_lists()?,
                keys: keys.get(of.source)?,
                values: values.get(of.source)?,
                of_keys: self.of_relation(&self.of_keys, place)?.f_mul(&self.scale(place)?)?,
                of_values: self.of_relation(&self.of_values, place)?,
            })
        };
        wiring.leading_into(of_type).map(entries).collect()
    }

    /// From rows of sources to rows of destinations. `blocks` are those of the layer's relations.
    pub(crate) fn forward(
        &self,
        wiring: &LayerWiring,
        x: &TypeRows,
        blocks: &[Block<'_>],
    ) -> Result<(TypeRows, Saved), TrainError> {
        let (mut keys, mut values) = (TypeRows::none(x.types()), TypeRows::none(x.types()));
        for part in &self.parts {
            if wiring.relations.iter().any(|of| of.source == part.of_type) {
                let rows = x.get(part.of_type)?;
                keys.set(part.of_type, self.map(part, KEYS)?.forward(rows)?);
                values.set(part.of_type, self.map(part, VALUES)?.forward(rows)?);
            }
        }
        let (mut out, mut destinations) = (TypeRows::none(x.types()), Vec::new());
        for &of_type in &wiring.destinations {
            let (part, entries) =
                (self.part(of_type)?, self.entries(wiring, of_type, (&keys, &values), blocks)?);
            let count = entries.first().ok_or_else(no_relation)?.lists.destinations;
            let own = x.get(of_type)?.f_narrow(0, 0, count as i64)?;
            let queries = self.map(part, QUERIES)?.forward(&own)?;
            let (attended, attention) = JointAttention::new(&entries, &queries, self.heads)?;
            let mapped = part.out.forward(&attended.f_gelu("none")?)?;
            let share = part.share.f_sigmoid()?;
            out.set(of_type, own.f_add(&mapped.f_sub(&own)?.f_mul(&share)?)?);
            destinations.push(Made { queries, attention, attended, mapped });
        }
        Ok((out, Saved { keys, values, destinations }))
    }

    /// Gradients of the parameters, in their order, and of `x`, from those of the result.
    pub(crate) fn backward(
        &self,
        wiring: &LayerWiring,
        x: &TypeRows,
        saved: &Saved,
        blocks: &[Block<'_>],
        of_out: &TypeRows,
    ) -> Result<(Vec<Tensor>, TypeRows), TrainError> {
        let mut of_x = TypeRows::none(x.types());
        let (mut of_keys, mut of_values) = (TypeRows::none(x.types()), TypeRows::none(x.types()));
        let mut of_parts: Vec<OfPart> = Vec::new();
        of_parts.resize_with(x.types(), OfPart::default);
        let (of_k, of_v) = (self.of_keys.f_zeros_like()?, self.of_values.f_zeros_like()?);
        let mut of_factors = Vec::new();
        of_factors.resize_with(self.factors.len(), || None);
        for (&of_type, made) in wiring.destinations.iter().zip(&saved.destinations) {
            let (part, gradient, all) = (self.part(of_type)?, of_out.get(of_type)?, x.get(of_type)?);
            let (count, rows) = (gradient.size2()?.0, all.size2()?.0 as usize);
            let (own, share) = (all.f_narrow(0, 0, count)?, part.share.f_sigmoid()?);
            let of_mapped = gradient.f_mul(&share)?;
            of_x.add(of_type, gradient.f_sub(&of_mapped)?, rows)?;
            let slope = share.f_mul(&share.f_neg()?.f_add_scalar(1.0)?)?;
            let along = gradient.f_mul(&made.mapped.f_sub(&own)?)?.f_sum(gradient.f_kind()?)?;
            of_parts[of_type].share = Some(slope.f_mul(&along)?);
            let (of_map, of_gelu) = part.out.backward(&made.attended.f_gelu("none")?, &of_mapped, true)?;
            of_parts[of_type].out = pair(of_map);
            let of_attended = made.attended.f_gelu_backward(&of_gelu.ok_or_else(no_relation)?, "none")?;
            let entries = self.entries(wiring, of_type, (&saved.keys, &saved.values), blocks)?;
            let (of_queries, of_entries) = made.attention.backward(&entries, &made.queries, &of_attended)?;
            let (of_map, of_own) = self.map(part, QUERIES)?.backward(&own, &of_queries, true)?;
            of_parts[of_type].three[QUERIES] = pair(of_map);
            of_x.add(of_type, of_own.ok_or_else(no_relation)?, rows)?;
            for ((place, of), of_entries) in wiring.leading_into(of_type).zip(of_entries) {
                let sources = x.get(of.source)?.size2()?.0 as usize;
                of_keys.add(of.source, of_entries.keys, sources)?;
                of_values.add(of.source, of_entries.values, sources)?;
                let (scale, matrices) = (self.scale(place)?, self.of_relation(&self.of_keys, place)?);
                self.of_relation(&of_k, place)?.f_copy_(&of_entries.of_keys.f_mul(&scale)?)?;
                self.of_relation(&of_v, place)?.f_copy_(&of_entries.of_values)?;
                let by_head = of_entries.of_keys.f_mul(&matrices)?.f_sum_dim_intlist(
                    [1i64, 2].as_slice(),
                    false,
                    None,
                )?;
                let root = ((self.columns / self.heads) as f64).sqrt();
                of_factors[place] = Some(by_head.f_div_scalar(root)?.f_unsqueeze(0)?);
            }
        }
        for part in &self.parts {
            if wiring.relations.iter().any(|of| of.source == part.of_type) {
                let rows = x.get(part.of_type)?;
                for (which, gradients) in [(KEYS, &of_keys), (VALUES, &of_values)] {
                    let gradient = gradients.get(part.of_type)?;
                    let (of_map, of_rows) = self.map(part, which)?.backward(rows, gradient, true)?;
                    of_parts[part.of_type].three[which] = pair(of_map);
                    of_x.add(part.of_type, of_rows.ok_or_else(no_relation)?, rows.size2()?.0 as usize)?;
                }
            }
        }
        let mut of_parameters = Vec::new();
        for part in &self.parts {
            of_parameters.extend(self.of_part(part, std::mem::take(&mut of_parts[part.of_type]))?);
        }
        of_parameters.extend([of_k, of_v]);
        for ((_, factor), of_factor) in self.factors.iter().zip(of_factors) {
            of_parameters.push(of_factor.map_or_else(|| factor.f_zeros_like(), Ok)?);
        }
        Ok((of_parameters, of_x))
    }

    /// The gradients of a type's parameters in their order, zeros where nothing used them.
    fn of_part(&self, part: &TypePart, of_part: OfPart) -> Result<[Tensor; 5], TrainError> {
        let OfPart { three, out, share } = of_part;
        let zeros = |map: &Linear| -> Result<Vec<Tensor>, TrainError> {
            map.parameters().into_iter().map(|(_, of)| Ok(of.f_zeros_like()?)).collect()
        };
        let (mut weights, mut biases) = (Vec::new(), Vec::new());
        for (which, of_map) in three.into_iter().enumerate() {
            let [weight, bias] = match of_map {
                Some(of_map) => of_map,
                None => pair(zeros(&self.map(part, which)?)?).ok_or_else(no_relation)?,
            };
            weights.push(weight);
            biases.push(bias);
        }
        let [of_out, of_out_bias] = match out {
            Some(of_out) => of_out,
            None => pair(zeros(&part.out)?).ok_or_else(no_relation)?,
        };
        let share = share.map_or_else(|| part.share.f_zeros_like(), Ok)?;
        Ok([Tensor::f_cat(&weights, 0)?, Tensor::f_cat(&biases, 0)?, of_out, of_out_bias, share])
    }
}

/// The gradients of a weight and a bias.
fn pair(of_map: Vec<Tensor>) -> Option<[Tensor; 2]> {
    of_map.try_into().ok()
}

fn no_relation() -> TrainError {
    TrainError::Input("a node type with rows into which no relation leads".to_owned())
}
