//! GIN with edge features (Hu et al. 2020, PyG's `GINEConv`): a perceptron over
//! (1 + ε) x_v + Σ ReLU(x_u + A e_uv + a).
//!
//! The sum is over the picked neighbours, without weights. The messages, [edges, inputs], are stored as a tensor, since
//! ReLU applies to each one; the backward pass needs their signs.

use crate::TrainError;
use crate::block::aggregate::{Block, weighted_sums};
use crate::block::tensor_block::TensorBlock;
use crate::graph::full_layer::FullLayer;
use crate::graph::lists::Lists;
use crate::graph::whole_graph::{CHUNK_EDGES, Graph, slice};
use crate::graph::whole_lists::{ListTensors, WholeLists};
use crate::layer::isomorphism::{self, Isomorphism};
use crate::nn::initial::glorot;
use crate::nn::random::SplitMix64;
use std::ops::Range;
use tch::{Device, Kind, Tensor};

/// The parameters of such a layer.
pub(crate) struct EdgeIsomorphism {
    /// ε and the perceptron.
    plain: Isomorphism,
    /// A, [inputs, features].
    weight: Tensor,
    /// a, [inputs].
    bias: Tensor,
}

/// The state that the backward pass needs.
pub(crate) struct Saved {
    plain: isomorphism::Saved,
    lists: TensorBlock,
    /// The messages after the ReLU, [edges, inputs].
    messages: Tensor,
}

impl EdgeIsomorphism {
    pub(crate) fn new(
        (inputs, outputs): (usize, usize),
        edge_dim: usize,
        place: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        Ok(Self {
            plain: Isomorphism::new((inputs, outputs), place, random)?,
            weight: glorot(&[inputs, edge_dim], inputs + edge_dim, place, random)?,
            bias: Tensor::f_zeros([inputs as i64], place)?,
        })
    }

    /// A copy on `device`; if it is already there, with the same storage.
    pub(crate) fn on(&self, device: Device) -> Result<Self, TrainError> {
        Ok(Self {
            plain: self.plain.on(device)?,
            weight: self.weight.f_to_device(device)?,
            bias: self.bias.f_to_device(device)?,
        })
    }

    pub(crate) fn parameters(&self) -> Vec<(&'static str, &Tensor)> {
        let mut parameters = self.plain.parameters();
        parameters.extend([("lin.weight", &self.weight), ("lin.bias", &self.bias)]);
        parameters
    }

    /// Columns of the result.
    pub(crate) fn outputs(&self) -> i64 {
        self.plain.outputs()
    }

    /// Columns of the input rows.
    pub(crate) fn inputs(&self) -> i64 {
        self.bias.numel() as i64
    }

    /// The messages, [edges, inputs], from the sources' rows and those of the edges' features.
    fn messages(&self, x: &Tensor, edges: &Tensor, lists: &Lists<'_>) -> Result<Tensor, TrainError> {
        let of_edges = edges.f_linear(&self.weight, Some(&self.bias))?;
        Ok(of_edges.f_add(&x.f_index_select(0, lists.indices)?)?.f_relu_()?)
    }

    /// From [sources, inputs] to [destinations, outputs].
    pub(crate) fn forward(&self, x: &Tensor, block: &Block<'_>) -> Result<(Tensor, Saved), TrainError> {
        let lists = block.lists()?;
        let messages = self.messages(x, &block.edge_rows(x.f_kind()?)?, &Lists::of(&lists))?;
        let sums = Lists::of(&lists).sums(&messages)?;
        let (out, plain) = self.plain.forward_sums(x, sums)?;
        Ok((out, Saved { plain, lists, messages }))
    }

    /// The result for the destinations of `lists`, whose own rows are `own`; `x` has the rows of all nodes.
    pub(crate) fn evaluate(
        &self,
        x: &Tensor,
        own: &Tensor,
        edges: &Tensor,
        lists: &Lists<'_>,
    ) -> Result<Tensor, TrainError> {
        let sums = lists.sums(&self.messages(x, edges, lists)?)?;
        Ok(self.plain.forward_sums(own, sums)?.0)
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
        let Saved { plain, lists, messages } = saved;
        let (mut of_parameters, of_sums) = self.plain.backward_sums(x, plain, gradient)?;
        let of_messages = Lists::of(lists).of_edges(&of_sums)?.f_mul(&messages.f_gt(0.0)?)?;
        let edges = block.edge_rows(x.f_kind()?)?;
        of_parameters.push(of_messages.f_tr()?.f_mm(&edges)?);
        of_parameters.push(of_messages.f_sum_dim_intlist([0i64].as_slice(), false, None)?);
        if !input_gradient {
            return Ok((of_parameters, None));
        }
        let rows = if block.edges == 0 {
            x.f_zeros_like()?
        } else {
            // Each source's messages, in their order, so that sums repeat.
            let transposed = lists.transposed()?;
            let ones = Tensor::f_ones([block.edges as i64], (x.f_kind()?, x.device()))?;
            weighted_sums(&of_messages, &transposed.order, &transposed.offsets, &ones)?
        };
        Ok((of_parameters, Some(self.plain.add_own(rows, &of_sums)?)))
    }
}

/// The rows of all nodes, then each piece's messages, sums and perceptron.
impl FullLayer for EdgeIsomorphism {
    fn columns(&self) -> Result<Vec<i64>, TrainError> {
        Ok(vec![self.inputs()])
    }

    fn outputs(&self) -> Result<i64, TrainError> {
        Ok(EdgeIsomorphism::outputs(self))
    }

    fn project(&self, rows: Tensor) -> Result<Vec<Tensor>, TrainError> {
        Ok(vec![rows])
    }

    /// Tensors of edges × inputs are in memory at the same time.
    fn piece_edges(&self) -> usize {
        CHUNK_EDGES / self.inputs().max(1) as usize
    }

    fn complete(
        &self,
        graph: &Graph<'_>,
        tables: &[Tensor],
        piece: &Range<usize>,
        results: &mut Tensor,
    ) -> Result<(), TrainError> {
        let x = &tables[0];
        let lists = WholeLists::new(graph.csc, piece)?;
        let destination_of_edge = lists.destination_of_edge();
        let tensors = ListTensors::of(&lists, &destination_of_edge)?;
        let own = slice(x, piece)?;
        let evaluated = self.evaluate(x, &own, &graph.edge_rows(piece)?, &tensors.lists())?;
        Ok(results.f_copy_(&evaluated)?)
    }
}
