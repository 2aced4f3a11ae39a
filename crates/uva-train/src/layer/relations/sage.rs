//! GraphSAGE for each relation: PyG's HeteroConv of SAGEConv.

use super::layer_shape::LayerShape;
use super::mean_map::{self, RowMap, add_means};
use super::type_rows::{GradientTypes, TypeRows};
use crate::TrainError;
use crate::block::aggregate::Block;
use crate::nn::initial::{linear_map, linear_weight};
use crate::nn::random::SplitMix64;
use crate::nn::rowwise::{Linear, column_sums, linear};
use tch::{Device, Kind, Tensor};
use uva_model::{LayerWiring, RelationSum, RootKind, TrainerOptions};

/// A layer: h_v = Σ over the relations r into v's type of W_r mean_r(x_u) + b_r + R_r x_v, or with roots by type
/// Σ_r (W_r mean_r(x_u) + b_r) + R x_v + c. With the mean of relations the sum is divided by their number.
pub(crate) struct SageRelations {
    maps: Vec<RelationMap>,
    /// The maps of own rows, of each destination type with its name; empty unless roots are by type.
    roots: Vec<(usize, String, Linear)>,
    is_mean: bool,
}

struct RelationMap {
    name: String,
    weight: Weight,
    bias: Tensor,
    /// [outputs, columns of the destination], if roots are by relation.
    root: Option<Tensor>,
}

/// [outputs, columns of the source].
struct Weight(Tensor);

impl RowMap for Weight {
    fn widths(&self) -> Result<(usize, usize), TrainError> {
        let (outputs, inputs) = self.0.size2()?;
        Ok((inputs as usize, outputs as usize))
    }

    fn apply(&self, x: &Tensor) -> Result<Tensor, TrainError> {
        linear(x, &self.0)
    }

    fn add(&self, mut sum: Tensor, x: &Tensor) -> Result<Tensor, TrainError> {
        Ok(sum.f_addmm_(x, &self.0.f_tr()?)?)
    }

    fn of_rows(&self, gradient: &Tensor) -> Result<Tensor, TrainError> {
        Ok(gradient.f_mm(&self.0)?)
    }

    fn of_parameter(&self, x: &Tensor, gradient: &Tensor) -> Result<Tensor, TrainError> {
        Ok(gradient.f_tr()?.f_mm(x)?)
    }
}

/// The state that the backward pass needs: the means of each relation, if they were computed before the product.
pub(crate) struct Saved(Vec<Option<Tensor>>);

impl SageRelations {
    pub(crate) fn new(
        options: &TrainerOptions,
        shape: &LayerShape<'_>,
        place: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let LayerShape { wiring, widths, outputs, types, .. } = *shape;
        let mut maps = Vec::with_capacity(wiring.relations.len());
        for of in &wiring.relations {
            let (inputs, own) = (widths[of.source], widths[of.destination]);
            let (weight, bias) = linear_map((inputs, outputs), place, random)?;
            let root = match options.root {
                RootKind::Relation => Some(linear_weight((own, outputs), place, random)?),
                RootKind::Type | RootKind::Shared | RootKind::None => None,
            };
            maps.push(RelationMap { name: shape.part(of.relation), weight: Weight(weight), bias, root });
        }
        let mut roots = Vec::new();
        if options.root == RootKind::Type {
            for &of_type in &wiring.destinations {
                let map = Linear::as_in_torch((widths[of_type], outputs), place, random)?;
                roots.push((of_type, types[of_type].to_owned(), map));
            }
        }
        Ok(Self { maps, roots, is_mean: options.relation_sum == RelationSum::Mean })
    }

    /// The parameters of layer `number`, in the order of PyG's modules.
    pub(crate) fn parameters(&self, number: usize) -> Vec<(String, Tensor)> {
        let mut named = Vec::new();
        for RelationMap { name, weight, bias, root } in &self.maps {
            let prefix = format!("convs.{number}.convs.{name}");
            named.push((format!("{prefix}.lin_l.weight"), weight.0.shallow_clone()));
            named.push((format!("{prefix}.lin_l.bias"), bias.shallow_clone()));
            named.extend(root.iter().map(|root| (format!("{prefix}.lin_r.weight"), root.shallow_clone())));
        }
        for (_, name, map) in &self.roots {
            let prefix = format!("roots.{number}.{name}");
            let parts = map.parameters().into_iter();
            named.extend(parts.map(|(part, tensor)| (format!("{prefix}.{part}"), tensor.shallow_clone())));
        }
        named
    }

    /// The sum of one tensor of each relation into a type, in the order of relations; `None` if it has none.
    fn sum_into(
        wiring: &LayerWiring,
        of_type: usize,
        tensor: impl Fn(usize) -> Option<Tensor>,
    ) -> Result<Option<Tensor>, TrainError> {
        let mut tensors = wiring.leading_into(of_type).filter_map(|(place, _)| tensor(place));
        let Some(first) = tensors.next() else { return Ok(None) };
        tensors.try_fold(first, |sum, more| Ok(sum.f_add(&more)?)).map(Some)
    }

    /// The map of own rows of a destination type, if roots are by type.
    fn root(&self, of_type: usize) -> Option<&Linear> {
        self.roots.iter().find(|(own, ..)| *own == of_type).map(|(.., map)| map)
    }

    /// The sum of the maps of own rows by relation, which is applied once.
    fn summed_root(&self, wiring: &LayerWiring, of_type: usize) -> Result<Option<Tensor>, TrainError> {
        let root = |place: usize| self.maps[place].root.as_ref().map(Tensor::shallow_clone);
        Self::sum_into(wiring, of_type, root)
    }

    /// 1 over the number of relations into a type, if the layer takes their mean.
    fn share(&self, wiring: &LayerWiring, of_type: usize) -> Option<f64> {
        let number = wiring.leading_into(of_type).count();
        (self.is_mean && number > 1).then(|| 1.0 / number as f64)
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
        let (mut out, mut saved) = (TypeRows::none(x.types()), Vec::new());
        saved.resize_with(blocks.len(), || None);
        for &of_type in &wiring.destinations {
            let count =
                wiring.leading_into(of_type).next().map_or(0, |(place, _)| blocks[place].destinations);
            let bias = |place: usize| Some(self.maps[place].bias.shallow_clone());
            let bias = Self::sum_into(wiring, of_type, bias)?.ok_or_else(no_relation)?;
            let own = |x: &TypeRows| -> Result<Tensor, TrainError> {
                Ok(x.get(of_type)?.f_narrow(0, 0, count as i64)?)
            };
            let mut rows = match self.summed_root(wiring, of_type)? {
                Some(root) => own(x)?.f_linear(&root, Some(&bias))?,
                None => bias.f_unsqueeze(0)?.f_repeat([count as i64, 1])?,
            };
            for (place, of) in wiring.leading_into(of_type) {
                let (weight, from) = (&self.maps[place].weight, x.get(of.source)?);
                (rows, saved[place]) =
                    add_means(rows, weight, from, &blocks[place], needed.contain(of.source))?;
            }
            if let Some(share) = self.share(wiring, of_type) {
                rows = rows.f_mul_scalar_(share)?;
            }
            if let Some(map) = self.root(of_type) {
                rows = rows.f_add_(&map.forward(&own(x)?)?)?;
            }
            out.set(of_type, rows);
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
        gradients: &TypeRows,
        needed: &GradientTypes,
    ) -> Result<(Vec<Tensor>, TypeRows), TrainError> {
        let mut of_x = TypeRows::none(x.types());
        let mut of_maps: Vec<Vec<Tensor>> = Vec::new();
        of_maps.resize_with(self.maps.len(), Vec::new);
        let mut of_roots = Vec::new();
        for &of_type in &wiring.destinations {
            let whole = gradients.get(of_type)?;
            let count = whole.size2()?.0;
            let gradient = match self.share(wiring, of_type) {
                Some(share) => whole.f_mul_scalar(share)?,
                None => whole.shallow_clone(),
            };
            let transposed = gradient.f_tr()?;
            let of_bias = column_sums(&gradient)?;
            // All relations into a type have the same own rows, and so the same gradient of their maps.
            let of_root = match self.summed_root(wiring, of_type)? {
                Some(root) => {
                    let all = x.get(of_type)?;
                    if needed.contain(of_type) {
                        of_x.add(of_type, gradient.f_mm(&root)?, all.size2()?.0 as usize)?;
                    }
                    Some(transposed.f_mm(&all.f_narrow(0, 0, count)?)?)
                }
                None => None,
            };
            for (place, of) in wiring.leading_into(of_type) {
                let (weight, from) = (&self.maps[place].weight, x.get(of.source)?);
                let means = saved[place].as_ref();
                let (of_weight, of_rows) = mean_map::gradients(
                    means,
                    weight,
                    from,
                    &blocks[place],
                    &gradient,
                    needed.contain(of.source),
                )?;
                if let Some(of_rows) = of_rows {
                    of_x.add(of.source, of_rows, from.size2()?.0 as usize)?;
                }
                of_maps[place] = vec![of_weight, of_bias.shallow_clone()];
                of_maps[place].extend(of_root.as_ref().map(Tensor::shallow_clone));
            }
            if let Some(map) = self.root(of_type) {
                let all = x.get(of_type)?;
                let own = all.f_narrow(0, 0, count)?;
                let (of_root, of_own) = map.backward(&own, whole, needed.contain(of_type))?;
                of_roots.extend(of_root);
                if let Some(of_own) = of_own {
                    of_x.add(of_type, of_own, all.size2()?.0 as usize)?;
                }
            }
        }
        Ok((of_maps.into_iter().flatten().chain(of_roots).collect(), of_x))
    }
}

fn no_relation() -> TrainError {
    TrainError::Input("a node type with rows into which no relation leads".to_owned())
}
