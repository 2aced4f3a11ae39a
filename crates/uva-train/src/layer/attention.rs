//! Graph attention (Veličković et al. 2018): layers whose neighbours' weights depend on the rows.
//!
//! Per head, with z = W x, a neighbour u of v gets the score LeakyReLU(a·z_u + b·z_v). The weights of a list are the
//! softmax of its scores, and the head's output is the weighted sum of the z_u. A node is a neighbour of itself, once
//! more where its list holds it. Only picked neighbours share the softmax, so attention is confined to them.
//!
//! The host and the device run the same tensor operations. They never synchronise, and on the host they repeat bit for
//! bit. No tensor of edges × width is allocated, except in the backward pass, for one head's width at a time.

use crate::TrainError;
use crate::aggregate::{Block, weighted_sums};
use crate::dropout::Draws;
use crate::initial::glorot;
use crate::random::SplitMix64;
use crate::rowwise::linear;
use crate::tensor_block::TensorBlock;
use tch::{Device, Kind, Tensor};

/// LeakyReLU's slope below zero.
const SLOPE: f64 = 0.2;

/// How many heads a layer has, and what becomes of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    pub(crate) number: usize,
    /// Their mean is the result, and not one beside the other.
    pub(crate) averaged: bool,
}

/// Such a layer's parameters.
pub(crate) struct Attention {
    /// W of all heads, [heads × width, inputs].
    weight: Tensor,
    /// a of each head, [heads, width].
    of_source: Tensor,
    /// b of each head, [heads, width].
    of_destination: Tensor,
    /// Added to the result: [heads × width], or [width] where heads are averaged.
    bias: Tensor,
    heads: Heads,
    /// Probability of dropping a weight.
    dropout: f64,
}

/// The lists of some destinations, each with the destination itself in it. All are i32 or all are i64.
pub(crate) struct Lists<'t> {
    /// [destinations + 1].
    pub(crate) offsets: &'t Tensor,
    /// [edges]: rows of the sources' tables.
    pub(crate) indices: &'t Tensor,
    /// [edges]: the destination whose list holds each edge.
    pub(crate) destination_of_edge: &'t Tensor,
}

impl<'t> Lists<'t> {
    /// Those of a block; each holds its destination.
    fn of(block: &'t TensorBlock) -> Self {
        Self {
            offsets: &block.offsets,
            indices: &block.indices,
            destination_of_edge: &block.destination_of_edge,
        }
    }

    /// Sums of edges' rows by list: [edges, n] to [destinations, n].
    fn sums(&self, rows: &Tensor) -> Result<Tensor, TrainError> {
        let edges = Tensor::f_arange(rows.size2()?.0, (self.indices.f_kind()?, rows.device()))?;
        let ones = Tensor::f_ones([rows.size2()?.0], (rows.f_kind()?, rows.device()))?;
        weighted_sums(rows, &edges, self.offsets, &ones)
    }

    /// Each edge's row of its list's: [destinations, n] to [edges, n].
    fn of_edges(&self, rows: &Tensor) -> Result<Tensor, TrainError> {
        Ok(rows.f_index_select(0, self.destination_of_edge)?)
    }
}

/// The weights of edges and what they came from, [edges, heads] each.
struct Weights {
    /// Scores behind LeakyReLU; the backward pass needs their signs.
    scores: Tensor,
    /// The softmax.
    attention: Tensor,
    /// The factors of dropout.
    mask: Option<Tensor>,
}

impl Weights {
    /// The factors of rows, [heads, edges].
    fn used(&self) -> Result<Tensor, TrainError> {
        let used = match &self.mask {
            Some(mask) => self.attention.f_mul(mask)?,
            None => self.attention.shallow_clone(),
        };
        Ok(used.f_tr()?.f_contiguous()?)
    }
}

/// The state that the backward pass needs.
pub(crate) struct Saved {
    /// One table a head, [sources, width].
    tables: Vec<Tensor>,
    lists: TensorBlock,
    weights: Weights,
}

impl Attention {
    /// From rows of `inputs` to rows of `outputs` numbers: as many a head where heads are averaged, and else divided
    /// between them.
    pub(crate) fn new(
        (inputs, outputs): (usize, usize),
        heads: Heads,
        dropout: f64,
        place: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let width = if heads.averaged { outputs } else { outputs / heads.number };
        let weight = glorot(&[heads.number * width, inputs], inputs + heads.number * width, place, random)?;
        let mut vectors = || glorot(&[heads.number, width], width + 1, place, random);
        let (of_source, of_destination) = (vectors()?, vectors()?);
        let bias = Tensor::f_zeros([outputs as i64], place)?;
        Ok(Self { weight, of_source, of_destination, bias, heads, dropout })
    }

    /// A copy on `device`; if it is already there, with the same storage.
    pub(crate) fn on(&self, device: Device) -> Result<Self, TrainError> {
        let copy = |tensor: &Tensor| tensor.f_to_device(device);
        Ok(Self {
            weight: copy(&self.weight)?,
            of_source: copy(&self.of_source)?,
            of_destination: copy(&self.of_destination)?,
            bias: copy(&self.bias)?,
            heads: self.heads,
            dropout: self.dropout,
        })
    }

    pub(crate) fn parameters(&self) -> Vec<(&'static str, &Tensor)> {
        vec![
            ("weight", &self.weight),
            ("attention.source", &self.of_source),
            ("attention.destination", &self.of_destination),
            ("bias", &self.bias),
        ]
    }

    pub(crate) fn heads(&self) -> usize {
        self.heads.number
    }

    /// Columns of a head.
    pub(crate) fn width(&self) -> Result<i64, TrainError> {
        Ok(self.of_source.size2()?.1)
    }

    /// Columns of the result.
    pub(crate) fn outputs(&self) -> i64 {
        self.bias.numel() as i64
    }

    /// z of all heads by head: tables of [rows, width], and the rows' parts of scores as a source and as a
    /// destination, [rows, heads] each.
    pub(crate) fn project(&self, x: &Tensor) -> Result<(Vec<Tensor>, Tensor, Tensor), TrainError> {
        let products = self.by_head(&linear(x, &self.weight)?)?;
        let part = |of: &Tensor| -> Result<Tensor, TrainError> {
            let (kind, last) = (products.f_kind()?, [2i64]);
            Ok(products.f_mul(of)?.f_sum_dim_intlist(last.as_slice(), false, Some(kind))?)
        };
        let (sources, destinations) = (part(&self.of_source)?, part(&self.of_destination)?);
        let table = |head: usize| -> Result<Tensor, TrainError> {
            Ok(products.f_select(1, head as i64)?.f_contiguous()?)
        };
        let tables: Result<Vec<Tensor>, TrainError> = (0..self.heads.number).map(table).collect();
        Ok((tables?, sources, destinations))
    }

    /// [rows, heads × width] as [rows, heads, width].
    fn by_head(&self, rows: &Tensor) -> Result<Tensor, TrainError> {
        Ok(rows.f_view([-1, self.heads.number as i64, self.width()?])?)
    }

    fn weights(
        &self,
        sources: &Tensor,
        destinations: &Tensor,
        lists: &Lists<'_>,
        draws: Option<&mut Draws>,
    ) -> Result<Weights, TrainError> {
        let scores = sources.f_index_select(0, lists.indices)?.f_add(&lists.of_edges(destinations)?)?;
        // LeakyReLU, as the slope is below one.
        let scores = scores.f_maximum(&scores.f_mul_scalar(SLOPE)?)?;
        // No list is empty. With its largest score taken off nothing overflows, and no sum is below one.
        let largest = Tensor::f_segment_reduce::<&Tensor, f64>(
            &scores,
            "max",
            None,
            None,
            Some(lists.offsets),
            0,
            true,
            f64::NEG_INFINITY,
        )?;
        let attention = scores.f_sub(&lists.of_edges(&largest)?)?.f_exp()?;
        let attention = attention.f_div(&lists.of_edges(&lists.sums(&attention)?)?)?;
        let mask = match draws {
            Some(draws) => draws.mask(&attention, self.dropout)?,
            None => None,
        };
        Ok(Weights { scores, attention, mask })
    }

    /// The result from the weights, [heads, edges].
    fn attend(&self, tables: &[Tensor], used: &Tensor, lists: &Lists<'_>) -> Result<Tensor, TrainError> {
        let head = |(head, table): (usize, &Tensor)| {
            weighted_sums(table, lists.indices, lists.offsets, &used.f_select(0, head as i64)?)
        };
        let heads: Result<Vec<Tensor>, TrainError> = tables.iter().enumerate().map(head).collect();
        let heads = Tensor::f_stack(&heads?, 1)?;
        let joined = if self.heads.averaged {
            heads.f_mean_dim([1i64].as_slice(), false, None)?
        } else {
            heads.f_view([-1, self.outputs()])?
        };
        Ok(joined.f_add(&self.bias)?)
    }

    /// The result for the destinations of `lists`, without dropout. `destinations` are their parts of the scores.
    pub(crate) fn evaluate(
        &self,
        tables: &[Tensor],
        sources: &Tensor,
        destinations: &Tensor,
        lists: &Lists<'_>,
    ) -> Result<Tensor, TrainError> {
        let used = self.weights(sources, destinations, lists, None)?.used()?;
        self.attend(tables, &used, lists)
    }

    /// From [sources, inputs] to [destinations, outputs].
    pub(crate) fn forward(
        &self,
        x: &Tensor,
        block: &Block<'_>,
        draws: Option<&mut Draws>,
    ) -> Result<(Tensor, Saved), TrainError> {
        let lists = block.lists_with_own()?;
        let (tables, sources, destinations) = self.project(x)?;
        let destinations = destinations.f_narrow(0, 0, block.destinations as i64)?;
        let weights = self.weights(&sources, &destinations, &Lists::of(&lists), draws)?;
        let out = self.attend(&tables, &weights.used()?, &Lists::of(&lists))?;
        Ok((out, Saved { tables, lists, weights }))
    }

    /// Gradients of the parameters, in their order, and of `x` if requested, from that of the result.
    pub(crate) fn backward(
        &self,
        x: &Tensor,
        saved: &Saved,
        block: &Block<'_>,
        gradient: &Tensor,
        input_gradient: bool,
    ) -> Result<(Vec<Tensor>, Option<Tensor>), TrainError> {
        let Saved { tables, lists, weights } = saved;
        let transposed = lists.transposed()?;
        let (lists, destinations) = (Lists::of(lists), block.destinations as i64);
        let of_bias = gradient.f_sum_dim_intlist([0i64].as_slice(), false, None)?;

        // Back through the weighted sums, head by head: to the tables, and to the weights that were used.
        let used = weights.used()?;
        let (mut of_tables, mut of_used) = (Vec::new(), Vec::new());
        for (head, table) in tables.iter().enumerate() {
            let of_head = if self.heads.averaged {
                gradient.f_div_scalar(self.heads.number as f64)?
            } else {
                self.by_head(gradient)?.f_select(1, head as i64)?.f_contiguous()?
            };
            let products = table.f_index_select(0, lists.indices)?.f_mul(&lists.of_edges(&of_head)?)?;
            of_used.push(products.f_sum_dim_intlist([1i64].as_slice(), false, None)?);
            let weights = used.f_select(0, head as i64)?.f_index_select(0, &transposed.order)?;
            of_tables.push(weighted_sums(&of_head, &transposed.indices, &transposed.offsets, &weights)?);
        }
        let mut of_products = Tensor::f_stack(&of_tables, 1)?;
        let mut of_attention = Tensor::f_stack(&of_used, 1)?;

        // Back through dropout, softmax and LeakyReLU to the two parts of a score.
        if let Some(mask) = &weights.mask {
            of_attention = of_attention.f_mul(mask)?;
        }
        let shares = of_attention.f_mul(&weights.attention)?;
        let of_scores = shares.f_sub(&weights.attention.f_mul(&lists.of_edges(&lists.sums(&shares)?)?)?)?;
        let of_scores =
            of_scores.f_where_self(&weights.scores.f_gt(0.0)?, &of_scores.f_mul_scalar(SLOPE)?)?;
        let of_destinations = lists.sums(&of_scores)?.f_unsqueeze(2)?;
        let ones = of_scores.f_select(1, 0)?.f_ones_like()?;
        let of_sources =
            weighted_sums(&of_scores, &transposed.order, &transposed.offsets, &ones)?.f_unsqueeze(2)?;

        // To the products z, and from there to what made them.
        let products = Tensor::f_stack(tables, 1)?;
        let own = products.f_narrow(0, 0, destinations)?;
        let rows = [0i64];
        let of_source = products.f_mul(&of_sources)?.f_sum_dim_intlist(rows.as_slice(), false, None)?;
        let of_destination = own.f_mul(&of_destinations)?.f_sum_dim_intlist(rows.as_slice(), false, None)?;
        let _ = of_products.f_addcmul_(&of_sources, &self.of_source)?;
        let _ =
            of_products.f_narrow(0, 0, destinations)?.f_addcmul_(&of_destinations, &self.of_destination)?;
        let of_products = of_products.f_view([block.sources as i64, -1])?;
        let of_x = if input_gradient { Some(of_products.f_mm(&self.weight)?) } else { None };
        Ok((vec![of_products.f_tr()?.f_mm(x)?, of_source, of_destination, of_bias], of_x))
    }
}
