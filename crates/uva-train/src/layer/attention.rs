//! Graph attention (Veličković et al. 2018): layers whose neighbours' weights depend on the rows.
//!
//! Per head, with z = W x, a neighbour u of v gets the score LeakyReLU(a·z_u + b·z_v). The weights of a list are the
//! softmax of its scores, and the head's output is the weighted sum of the z_u. A node is a neighbour of itself, in
//! addition to any entry of it in its list. Features of an edge add c·(U e) to its score (`OfEdge`). Only picked
//! neighbours share the softmax, so attention is confined to them.
//!
//! The host and the device run the same tensor operations. They never synchronise, and on the host they repeat bit for
//! bit. No tensor of edges × width is allocated, except in the backward pass, for one head's width at a time.

use crate::TrainError;
use crate::block::aggregate::{Block, weighted_sums};
use crate::block::tensor_block::TensorBlock;
use crate::graph::full_layer::FullLayer;
use crate::graph::lists::Lists;
use crate::graph::whole_graph::{CHUNK_EDGES, Graph, slice};
use crate::graph::whole_lists::{ListTensors, WholeLists};
use crate::layer::folded::{self, folded};
use crate::nn::dropout::Draws;
use crate::nn::initial::glorot;
use crate::nn::random::SplitMix64;
use crate::nn::rowwise::linear;
use std::ops::Range;
use tch::{Device, Kind, Tensor};

/// LeakyReLU's slope below zero.
const SLOPE: f64 = 0.2;

/// The number of a layer's heads, and how they are combined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    pub(crate) number: usize,
    /// Whether the result is their mean instead of their concatenation.
    pub(crate) averaged: bool,
}

/// The parameters of an attention layer.
pub(crate) struct Attention {
    /// W of all heads, [heads × width, inputs].
    weight: Tensor,
    /// a of each head, [heads, width].
    of_source: Tensor,
    /// b of each head, [heads, width].
    of_destination: Tensor,
    /// Added to the result: [heads × width], or [width] if heads are averaged.
    bias: Tensor,
    heads: Heads,
    /// Probability of dropping a weight.
    dropout: f64,
    /// The parameters for edge features, if there are any.
    of_edge: Option<OfEdge>,
}

/// The part of a score from an edge's features: c·(U e), as in PyG's `GATConv`. The edge from a node to itself has the
/// mean of its list's features.
struct OfEdge {
    /// U of all heads, [heads × width, features].
    weight: Tensor,
    /// c of each head, [heads, width].
    vector: Tensor,
}

impl OfEdge {
    fn on(&self, device: Device) -> Result<Self, TrainError> {
        Ok(Self { weight: self.weight.f_to_device(device)?, vector: self.vector.f_to_device(device)? })
    }
}

/// Positions, in lists that include the nodes themselves, of the entries of lists without them.
struct Places {
    /// The position of each edge, [edges], i64.
    edges: Tensor,
    /// The position of each node itself, [destinations], i64.
    own: Tensor,
}

impl Places {
    /// The positions for `lists` without the nodes.
    fn of(lists: &Lists<'_>) -> Result<Self, TrainError> {
        let long = |tensor: &Tensor| tensor.f_to_kind(Kind::Int64);
        let (destinations, of_edges) = (lists.offsets.numel() as i64 - 1, long(lists.destination_of_edge)?);
        let numbers = |count: i64| Tensor::f_arange(count, (Kind::Int64, of_edges.device()));
        Ok(Self {
            // An edge of list v moves back by the v nodes before it.
            edges: numbers(of_edges.numel() as i64)?.f_add(&of_edges)?,
            own: long(&lists.offsets.f_narrow(0, 1, destinations)?)?.f_add(&numbers(destinations)?)?,
        })
    }

    /// Values of edges and of nodes in one table.
    fn placed(&self, of_edges: &Tensor, own: &Tensor) -> Result<Tensor, TrainError> {
        let columns = own.size2()?.1;
        let rows = (self.edges.numel() + self.own.numel()) as i64;
        let mut all = Tensor::f_zeros([rows, columns], (own.f_kind()?, own.device()))?;
        let _ = all.f_index_copy_(0, &self.edges, of_edges)?.f_index_copy_(0, &self.own, own)?;
        Ok(all)
    }
}

/// The weights of edges and their intermediate values, [edges, heads] each.
struct Weights {
    /// Scores after LeakyReLU; the backward pass needs their signs.
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
    /// For edge features: the lists without the nodes themselves.
    plain: Option<TensorBlock>,
}

impl Attention {
    /// A layer from rows of `inputs` to rows of `outputs` numbers: each head has `outputs` columns if heads are
    /// averaged, otherwise they share them.
    pub(crate) fn new(
        (inputs, outputs): (usize, usize),
        heads: Heads,
        (dropout, edge_dim): (f64, usize),
        place: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let width = if heads.averaged { outputs } else { outputs / heads.number };
        let weight = glorot(&[heads.number * width, inputs], inputs + heads.number * width, place, random)?;
        let mut vectors = || glorot(&[heads.number, width], width + 1, place, random);
        let (of_source, of_destination) = (vectors()?, vectors()?);
        let bias = Tensor::f_zeros([outputs as i64], place)?;
        let of_edge = if edge_dim > 0 {
            let columns = heads.number * width;
            let weight = glorot(&[columns, edge_dim], edge_dim + columns, place, random)?;
            Some(OfEdge { weight, vector: glorot(&[heads.number, width], width + 1, place, random)? })
        } else {
            None
        };
        Ok(Self { weight, of_source, of_destination, bias, heads, dropout, of_edge })
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
            of_edge: self.of_edge.as_ref().map(|of_edge| of_edge.on(device)).transpose()?,
        })
    }

    pub(crate) fn parameters(&self) -> Vec<(&'static str, &Tensor)> {
        let mut parameters = vec![
            ("weight", &self.weight),
            ("attention.source", &self.of_source),
            ("attention.destination", &self.of_destination),
            ("bias", &self.bias),
        ];
        if let Some(OfEdge { weight, vector }) = &self.of_edge {
            parameters.extend([("edge.weight", weight), ("attention.edge", vector)]);
        }
        parameters
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

    /// The edges' parts of scores in lists with the nodes themselves, [edges + destinations, heads], from rows of the
    /// edges' features, [edges, features]; `None` if the layer has no edge features. `lists` are those without the
    /// nodes.
    pub(crate) fn edge_scores(
        &self,
        rows: impl FnOnce() -> Result<Tensor, TrainError>,
        lists: &Lists<'_>,
    ) -> Result<Option<Tensor>, TrainError> {
        let Some(of_edge) = &self.of_edge else { return Ok(None) };
        let scores = rows()?.f_mm(&folded(&of_edge.weight, &of_edge.vector)?.f_tr()?)?;
        Places::of(lists)?.placed(&scores, &lists.means(&scores)?).map(Some)
    }

    fn weights(
        &self,
        sources: &Tensor,
        destinations: &Tensor,
        of_edges: Option<&Tensor>,
        lists: &Lists<'_>,
        draws: Option<&mut Draws>,
    ) -> Result<Weights, TrainError> {
        let mut scores = sources.f_index_select(0, lists.indices)?.f_add(&lists.of_edges(destinations)?)?;
        if let Some(of_edges) = of_edges {
            scores = scores.f_add(of_edges)?;
        }
        // LeakyReLU, as the slope is below one.
        let scores = scores.f_maximum(&scores.f_mul_scalar(SLOPE)?)?;
        // No list is empty. With its largest score subtracted nothing overflows, and no sum is below one.
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

    /// The result for the destinations of `lists`, without dropout. `destinations` are their parts of the scores, and
    /// `of_edges` the result of [`Attention::edge_scores`].
    pub(crate) fn evaluate(
        &self,
        tables: &[Tensor],
        sources: &Tensor,
        destinations: &Tensor,
        of_edges: Option<&Tensor>,
        lists: &Lists<'_>,
    ) -> Result<Tensor, TrainError> {
        let used = self.weights(sources, destinations, of_edges, lists, None)?.used()?;
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
        let plain = if self.of_edge.is_some() { Some(block.lists()?) } else { None };
        let of_edges = match &plain {
            Some(plain) => self.edge_scores(|| block.edge_rows(x.f_kind()?), &Lists::of(plain))?,
            None => None,
        };
        let weights = self.weights(&sources, &destinations, of_edges.as_ref(), &Lists::of(&lists), draws)?;
        let out = self.attend(&tables, &weights.used()?, &Lists::of(&lists))?;
        Ok((out, Saved { tables, lists, weights, plain }))
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
        let Saved { tables, lists, weights, plain } = saved;
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

        // To the products z, and from there to their factors.
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
        let mut of_parameters = vec![of_products.f_tr()?.f_mm(x)?, of_source, of_destination, of_bias];
        if let (Some(of_edge), Some(plain)) = (&self.of_edge, plain) {
            // A list's mean passes its gradient on to each of its edges, an equal share.
            let (lists, kind) = (Lists::of(plain), x.f_kind()?);
            let places = Places::of(&lists)?;
            let of_own = of_scores.f_index_select(0, &places.own)?.f_div(&lists.lengths(&of_scores)?)?;
            let of_edges = of_scores.f_index_select(0, &places.edges)?.f_add(&lists.of_edges(&of_own)?)?;
            let of_folded = of_edges.f_tr()?.f_mm(&block.edge_rows(kind)?)?;
            of_parameters.extend(folded::gradients(&of_edge.weight, &of_edge.vector, &of_folded)?);
        }
        Ok((of_parameters, of_x))
    }
}

/// Products of each head and scores of all nodes, then each piece's softmax and sums. The tables are the heads'
/// products, the scores as a source and those as a destination.
impl FullLayer for Attention {
    fn columns(&self) -> Result<Vec<i64>, TrainError> {
        let heads = self.heads();
        let mut columns = vec![self.width()?; heads];
        columns.extend([heads as i64; 2]);
        Ok(columns)
    }

    fn outputs(&self) -> Result<i64, TrainError> {
        Ok(Attention::outputs(self))
    }

    fn project(&self, rows: Tensor) -> Result<Vec<Tensor>, TrainError> {
        let (mut tables, sources, destinations) = Attention::project(self, &rows)?;
        tables.extend([sources, destinations]);
        Ok(tables)
    }

    /// Several tensors of edges × heads are in memory at the same time.
    fn piece_edges(&self) -> usize {
        CHUNK_EDGES / self.heads()
    }

    fn complete(
        &self,
        graph: &Graph<'_>,
        tables: &[Tensor],
        piece: &Range<usize>,
        results: &mut Tensor,
    ) -> Result<(), TrainError> {
        let (products, scores) = tables.split_at(self.heads());
        let (of_sources, of_destinations) = (&scores[0], &scores[1]);
        let plain = WholeLists::new(graph.csc, piece)?;
        let plain_destinations = plain.destination_of_edge();
        let of_edges = self
            .edge_scores(|| graph.edge_rows(piece), &ListTensors::of(&plain, &plain_destinations)?.lists())?;
        let lists = plain.with_own(piece);
        let destination_of_edge = lists.destination_of_edge();
        let tensors = ListTensors::of(&lists, &destination_of_edge)?;
        let destinations = slice(of_destinations, piece)?;
        let attended =
            self.evaluate(products, of_sources, &destinations, of_edges.as_ref(), &tensors.lists())?;
        Ok(results.f_copy_(&attended)?)
    }
}
