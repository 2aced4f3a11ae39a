//! R-GCN (Schlichtkrull et al. 2018): PyG's RGCNConv, with a map of own rows for all types or for each.

use super::layer_shape::LayerShape;
use super::mean_map::{self, RowMap, add_means};
use super::type_rows::{GradientTypes, TypeRows};
use crate::TrainError;
use crate::block::aggregate::Block;
use crate::nn::initial::glorot;
use crate::nn::random::SplitMix64;
use crate::nn::rowwise::column_sums;
use tch::{Device, Kind, Tensor};
use uva_model::{LayerWiring, RelationWeights, RootKind, TrainerOptions};

/// A layer: h_v = Σ over the relations r into v's type of mean_r(x_u) W_r + x_v W + b. A type into which no relation
/// leads keeps the last two terms, for all of its rows.
pub(crate) struct RelationConvolution {
    weights: Weights,
    roots: Vec<Root>,
    relations: usize,
}

/// The parameters of the relations' matrices.
enum Weights {
    /// [relations, inputs, outputs].
    Free(Tensor),
    /// W_r = Σ_b c_rb V_b.
    Bases {
        /// V: [bases, inputs, outputs].
        bases: Tensor,
        /// c: [relations, bases].
        shares: Tensor,
    },
    /// [relations, blocks, inputs of a block, outputs of a block].
    Blocks(Tensor),
}

/// A map of own rows.
struct Root {
    /// The type that it is for, and its name; `None` for all.
    of_type: Option<(usize, String)>,
    /// [inputs, outputs].
    weight: Tensor,
    bias: Tensor,
}

/// The state that the backward pass needs: the matrices, and the means of each relation that were computed before the
/// product.
pub(crate) struct Saved {
    matrices: Vec<BlockMatrix>,
    means: Vec<Option<Tensor>>,
}

/// A matrix of blocks along the diagonal, [blocks, inputs of a block, outputs of a block].
struct BlockMatrix(Tensor);

impl BlockMatrix {
    /// [rows, columns] as [blocks, rows, columns of a block].
    fn divided(&self, rows: &Tensor) -> Result<Tensor, TrainError> {
        let (blocks, ..) = self.0.size3()?;
        let (count, columns) = rows.size2()?;
        Ok(rows.f_view([count, blocks, columns / blocks])?.f_transpose(0, 1)?)
    }

    /// [rows, columns] through the blocks.
    fn product(&self, rows: &Tensor, blocks: &Tensor) -> Result<Tensor, TrainError> {
        if blocks.size3()?.0 == 1 {
            return Ok(rows.f_mm(&blocks.f_select(0, 0)?)?);
        }
        let products = self.divided(&rows.f_contiguous()?)?.f_bmm(blocks)?.f_transpose(0, 1)?;
        let rows = rows.size2()?.0;
        Ok(products.f_reshape([rows, blocks.size3()?.0 * blocks.size3()?.2])?)
    }
}

impl RowMap for BlockMatrix {
    fn widths(&self) -> Result<(usize, usize), TrainError> {
        let (blocks, inputs, outputs) = self.0.size3()?;
        Ok(((blocks * inputs) as usize, (blocks * outputs) as usize))
    }

    fn apply(&self, x: &Tensor) -> Result<Tensor, TrainError> {
        self.product(x, &self.0)
    }

    fn add(&self, mut sum: Tensor, x: &Tensor) -> Result<Tensor, TrainError> {
        if self.0.size3()?.0 == 1 {
            return Ok(sum.f_addmm_(x, &self.0.f_select(0, 0)?)?);
        }
        Ok(sum.f_add_(&self.apply(x)?)?)
    }

    fn of_rows(&self, gradient: &Tensor) -> Result<Tensor, TrainError> {
        self.product(gradient, &self.0.f_transpose(1, 2)?)
    }

    fn of_parameter(&self, x: &Tensor, gradient: &Tensor) -> Result<Tensor, TrainError> {
        let (x, gradient) = (x.f_contiguous()?, gradient.f_contiguous()?);
        Ok(self.divided(&x)?.f_transpose(1, 2)?.f_bmm(&self.divided(&gradient)?)?)
    }
}

impl Weights {
    fn new(
        options: &TrainerOptions,
        [relations, inputs, outputs]: [usize; 3],
        place: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        Ok(match options.relation_weights {
            RelationWeights::Free => {
                Self::Free(glorot(&[relations, inputs, outputs], inputs + outputs, place, random)?)
            }
            RelationWeights::Bases(bases) => Self::Bases {
                bases: glorot(&[bases, inputs, outputs], inputs + outputs, place, random)?,
                shares: glorot(&[relations, bases], relations + bases, place, random)?,
            },
            RelationWeights::Blocks(blocks) => {
                let [inputs, outputs] = [inputs / blocks, outputs / blocks];
                let shape = [relations, blocks, inputs, outputs];
                Self::Blocks(glorot(&shape, inputs + outputs, place, random)?)
            }
        })
    }

    fn parameters(&self) -> Vec<(&'static str, &Tensor)> {
        match self {
            Self::Free(weight) | Self::Blocks(weight) => vec![("weight", weight)],
            Self::Bases { bases, shares } => vec![("weight", bases), ("comp", shares)],
        }
    }

    /// The matrix of each relation.
    fn matrices(&self, relations: usize) -> Result<Vec<BlockMatrix>, TrainError> {
        let all = match self {
            Self::Free(weight) => weight.f_unsqueeze(1)?,
            Self::Blocks(weight) => weight.shallow_clone(),
            Self::Bases { bases, shares } => {
                let (_, inputs, outputs) = bases.size3()?;
                shares.f_mm(&bases.f_flatten(1, 2)?)?.f_view([-1, 1, inputs, outputs])?
            }
        };
        (0..relations as i64).map(|relation| Ok(BlockMatrix(all.f_select(0, relation)?))).collect()
    }

    /// Gradients of the parameters from those of the matrices.
    fn gradients(&self, of_matrices: &[Tensor]) -> Result<Vec<Tensor>, TrainError> {
        let all = Tensor::f_stack(of_matrices, 0)?;
        Ok(match self {
            Self::Free(weight) | Self::Blocks(weight) => vec![all.f_view_as(weight)?],
            Self::Bases { bases, shares } => {
                let all = all.f_flatten(1, -1)?;
                let of_bases = shares.f_tr()?.f_mm(&all)?.f_view_as(bases)?;
                vec![of_bases, all.f_mm(&bases.f_flatten(1, 2)?.f_tr()?)?]
            }
        })
    }
}

impl RelationConvolution {
    pub(crate) fn new(
        options: &TrainerOptions,
        shape: &LayerShape<'_>,
        place: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let LayerShape { wiring, widths, outputs, types, .. } = *shape;
        let (relations, destinations) = (wiring.relations.len(), &wiring.destinations);
        let inputs = destinations.first().map_or(0, |&of_type| widths[of_type]);
        let weights = Weights::new(options, [relations, inputs, outputs], place, random)?;
        let by_type = options.root == RootKind::Type;
        let of_types: Vec<Option<(usize, String)>> = if by_type {
            destinations.iter().map(|&of_type| Some((of_type, types[of_type].to_owned()))).collect()
        } else {
            vec![None]
        };
        let root = |of_type| {
            let weight = glorot(&[inputs, outputs], inputs + outputs, place, random)?;
            Ok(Root { of_type, weight, bias: Tensor::f_zeros([outputs as i64], place)? })
        };
        let roots = of_types.into_iter().map(root).collect::<Result<_, TrainError>>()?;
        Ok(Self { weights, roots, relations })
    }

    /// The number of the root of a destination type.
    fn root_of(&self, of_type: usize) -> Result<usize, TrainError> {
        let is_it = |root: &Root| root.of_type.as_ref().is_none_or(|(own, _)| *own == of_type);
        let missing = || TrainError::Input(format!("node type {of_type} is not a destination of the layer"));
        self.roots.iter().position(is_it).ok_or_else(missing)
    }

    /// The parameters of layer `number`, in the order of PyG's module.
    pub(crate) fn parameters(&self, number: usize) -> Vec<(String, Tensor)> {
        let of_layer =
            |name: &str, tensor: &Tensor| (format!("convs.{number}.{name}"), tensor.shallow_clone());
        let of_roots = |part: &str, tensor: fn(&Root) -> &Tensor| {
            let named = |root: &Root| match &root.of_type {
                Some((_, name)) => of_layer(&format!("{part}.{name}"), tensor(root)),
                None => of_layer(part, tensor(root)),
            };
            self.roots.iter().map(named).collect::<Vec<_>>()
        };
        let weights = self.weights.parameters().into_iter().map(|(name, tensor)| of_layer(name, tensor));
        let roots = of_roots("root", |root| &root.weight).into_iter();
        weights.chain(roots).chain(of_roots("bias", |root| &root.bias)).collect()
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
        let (mut out, mut means) = (TypeRows::none(x.types()), Vec::new());
        means.resize_with(blocks.len(), || None);
        let matrices = self.weights.matrices(self.relations)?;
        for &of_type in &wiring.destinations {
            let Root { weight, bias, .. } = &self.roots[self.root_of(of_type)?];
            let own = own_rows(wiring, x, blocks, of_type)?;
            let mut rows = bias.f_addmm(&own, weight)?;
            for (place, of) in wiring.leading_into(of_type) {
                let (map, from) = (&matrices[place], x.get(of.source)?);
                (rows, means[place]) = add_means(rows, map, from, &blocks[place], needed.contain(of.source))?;
            }
            out.set(of_type, rows);
        }
        Ok((out, Saved { matrices, means }))
    }

    /// Gradients of the parameters, in their order, and of the `needed` types of `x`, from those of the result.
    pub(crate) fn backward(
        &self,
        wiring: &LayerWiring,
        x: &TypeRows,
        Saved { matrices, means }: &Saved,
        blocks: &[Block<'_>],
        of_out: &TypeRows,
        needed: &GradientTypes,
    ) -> Result<(Vec<Tensor>, TypeRows), TrainError> {
        let mut of_x = TypeRows::none(x.types());
        let mut of_matrices: Vec<Tensor> = matrices.iter().map(|_| Tensor::new()).collect();
        let mut of_roots: Vec<Option<[Tensor; 2]>> = self.roots.iter().map(|_| None).collect();
        for &of_type in &wiring.destinations {
            let root = self.root_of(of_type)?;
            let gradient = of_out.get(of_type)?;
            let own = own_rows(wiring, x, blocks, of_type)?;
            let of_root = [own.f_tr()?.f_mm(gradient)?, column_sums(gradient)?];
            of_roots[root] = Some(match of_roots[root].take() {
                Some([of_weight, of_bias]) => [of_weight.f_add(&of_root[0])?, of_bias.f_add(&of_root[1])?],
                None => of_root,
            });
            if needed.contain(of_type) {
                let of_own = gradient.f_mm(&self.roots[root].weight.f_tr()?)?;
                of_x.add(of_type, of_own, x.get(of_type)?.size2()?.0 as usize)?;
            }
            for (place, of) in wiring.leading_into(of_type) {
                let (map, from) = (&matrices[place], x.get(of.source)?);
                let of_means = means[place].as_ref();
                let (of_matrix, of_rows) = mean_map::gradients(
                    of_means,
                    map,
                    from,
                    &blocks[place],
                    gradient,
                    needed.contain(of.source),
                )?;
                of_matrices[place] = of_matrix;
                if let Some(of_rows) = of_rows {
                    of_x.add(of.source, of_rows, from.size2()?.0 as usize)?;
                }
            }
        }
        let mut of_parameters = self.weights.gradients(&of_matrices)?;
        let (of_weights, of_biases): (Vec<_>, Vec<_>) =
            of_roots.into_iter().flatten().map(|[of_weight, of_bias]| (of_weight, of_bias)).unzip();
        of_parameters.extend(of_weights.into_iter().chain(of_biases));
        Ok((of_parameters, of_x))
    }
}

/// The rows of a type's destinations; all of its rows if no relation leads into it, since no block has their number.
fn own_rows(
    wiring: &LayerWiring,
    x: &TypeRows,
    blocks: &[Block<'_>],
    of_type: usize,
) -> Result<Tensor, TrainError> {
    let rows = x.get(of_type)?;
    Ok(match wiring.leading_into(of_type).next() {
        Some((place, _)) => rows.f_narrow(0, 0, blocks[place].destinations as i64)?,
        None => rows.shallow_clone(),
    })
}
