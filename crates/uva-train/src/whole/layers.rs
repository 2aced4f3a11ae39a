//! The implementations of each layer over a whole graph.

use crate::TrainError;
use crate::block::aggregate::weighted_sums;
use crate::layer::attention::Attention;
use crate::layer::convolution::Convolution;
use crate::layer::edge_isomorphism::EdgeIsomorphism;
use crate::layer::isomorphism::Isomorphism;
use crate::nn::rowwise::linear;
use crate::torch::borrowed::Borrowed;
use crate::whole::full_layer::FullLayer;
use crate::whole::graph::{CHUNK_EDGES, Graph, slice};
use crate::whole::whole_lists::{ListTensors, WholeLists};
use std::ops::Range;
use tch::{Device, Tensor};

/// Rows are multiplied by the neighbours' weight first and then aggregated. With as many sources as destinations, this
/// order is more work only if the layer widens. It also reads the table front to back instead of at random.
impl FullLayer for Convolution {
    fn columns(&self) -> Result<Vec<i64>, TrainError> {
        Ok(vec![Convolution::outputs(self)?])
    }

    fn outputs(&self) -> Result<i64, TrainError> {
        Convolution::outputs(self)
    }

    fn project(&self, rows: Tensor) -> Result<Vec<Tensor>, TrainError> {
        let (Self::Sage { neighbours: weight, .. } | Self::Gcn { weight, .. }) = self;
        Ok(vec![linear(&rows, weight)?])
    }

    fn begin(&self, rows: &dyn Fn() -> Result<Tensor, TrainError>) -> Result<Option<Tensor>, TrainError> {
        match self {
            Self::Sage { own, bias, .. } => Ok(Some(rows()?.f_linear(own, Some(bias))?)),
            Self::Gcn { .. } => Ok(None),
        }
    }

    fn complete(
        &self,
        graph: &Graph<'_>,
        tables: &[Tensor],
        piece: &Range<usize>,
        results: &mut Tensor,
    ) -> Result<(), TrainError> {
        let projected = &tables[0];
        let lists = WholeLists::new(graph.csc, piece)?;
        let (weights, own) = match self {
            Self::Sage { .. } => (lists.mean_weights(), None),
            Self::Gcn { bias, .. } => {
                let (weights, own) = lists.gcn_weights(graph.csc, piece);
                (weights, Some((own, bias)))
            }
        };
        let weights = Tensor::f_from_slice(&weights)?.f_to_kind(graph.kind)?;
        let (indices, offsets) = (Borrowed::vector(&lists.indices)?, Borrowed::vector(&lists.offsets)?);
        let sums = weighted_sums(projected, indices.tensor(), offsets.tensor(), &weights)?;
        let _ = results.f_add_(&sums)?;
        if let Some((own, bias)) = own {
            let own = Tensor::f_from_slice(&own)?.f_to_kind(graph.kind)?.f_unsqueeze(1)?;
            let _ = results.f_add_(&slice(projected, piece)?.f_mul(&own)?)?.f_add_(bias)?;
        }
        Ok(())
    }
}

/// The first product of all nodes, then each piece's sums and second product.
impl FullLayer for Isomorphism {
    fn columns(&self) -> Result<Vec<i64>, TrainError> {
        Ok(vec![Isomorphism::outputs(self)])
    }

    fn outputs(&self) -> Result<i64, TrainError> {
        Ok(Isomorphism::outputs(self))
    }

    fn project(&self, rows: Tensor) -> Result<Vec<Tensor>, TrainError> {
        Ok(vec![Isomorphism::project(self, &rows)?])
    }

    fn complete(
        &self,
        graph: &Graph<'_>,
        tables: &[Tensor],
        piece: &Range<usize>,
        results: &mut Tensor,
    ) -> Result<(), TrainError> {
        let projected = &tables[0];
        let lists = WholeLists::new(graph.csc, piece)?;
        let (indices, offsets) = (Borrowed::vector(&lists.indices)?, Borrowed::vector(&lists.offsets)?);
        let weights = Tensor::f_ones([lists.indices.len() as i64], (graph.kind, Device::Cpu))?;
        let sums = weighted_sums(projected, indices.tensor(), offsets.tensor(), &weights)?;
        Ok(results.f_copy_(&self.evaluate(&sums, &slice(projected, piece)?)?)?)
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
