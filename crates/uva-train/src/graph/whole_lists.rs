//! The neighbour lists of some nodes of a whole graph.

use crate::TrainError;
use crate::graph::lists;
use crate::torch::borrowed::Borrowed;
use std::ops::Range;
use uva_graph::Csc;
use uva_ops::lists::inverse_root;

/// Lists as tensors.
pub(crate) struct ListTensors<'l> {
    offsets: Borrowed<'l>,
    indices: Borrowed<'l>,
    destination_of_edge: Borrowed<'l>,
}

impl<'l> ListTensors<'l> {
    pub(crate) fn of(lists: &'l WholeLists, destination_of_edge: &'l [i64]) -> Result<Self, TrainError> {
        Ok(Self {
            offsets: Borrowed::vector(&lists.offsets)?,
            indices: Borrowed::vector(&lists.indices)?,
            destination_of_edge: Borrowed::vector(destination_of_edge)?,
        })
    }

    pub(crate) fn lists(&self) -> lists::Lists<'_> {
        lists::Lists {
            offsets: self.offsets.tensor(),
            indices: self.indices.tensor(),
            destination_of_edge: self.destination_of_edge.tensor(),
        }
    }
}

/// The neighbour lists of a chunk.
pub(crate) struct WholeLists {
    pub(crate) offsets: Vec<i64>,
    pub(crate) indices: Vec<i64>,
}

impl WholeLists {
    pub(crate) fn new(csc: &Csc<'_>, chunk: &Range<usize>) -> Result<Self, TrainError> {
        let nodes = csc.nodes();
        let first = csc.indptr[chunk.start];
        let edges = first as usize..csc.indptr[chunk.end] as usize;
        let offsets = csc.indptr[chunk.start..=chunk.end].iter().map(|offset| offset - first).collect();
        let mut indices = Vec::with_capacity(edges.len());
        for edge in edges {
            let source = csc.indices.get(edge);
            if source < 0 || source >= nodes as i64 {
                return Err(TrainError::Input(format!(
                    "neighbour {source} at edge {edge} in a graph of {nodes} nodes"
                )));
            }
            indices.push(source);
        }
        Ok(Self { offsets, indices })
    }

    /// Each list, one after the other.
    pub(crate) fn each(&self) -> impl Iterator<Item = &[i64]> {
        self.offsets.windows(2).map(|ends| &self.indices[ends[0] as usize..ends[1] as usize])
    }

    /// The same with each node of the chunk at the end of its own list.
    pub(crate) fn with_own(&self, chunk: &Range<usize>) -> Self {
        let mut indices = Vec::with_capacity(self.indices.len() + chunk.len());
        for (v, list) in chunk.clone().zip(self.each()) {
            indices.extend_from_slice(list);
            indices.push(v as i64);
        }
        Self { offsets: (0..).zip(&self.offsets).map(|(place, offset)| offset + place).collect(), indices }
    }

    /// Whose list each edge is in, by its place in the chunk.
    pub(crate) fn destination_of_edge(&self) -> Vec<i64> {
        (0..).zip(self.each()).flat_map(|(v, list)| std::iter::repeat_n(v, list.len())).collect()
    }

    /// The weights of a mean, as `aggregate.rs` defines them for whole neighbourhoods.
    pub(crate) fn mean_weights(&self) -> Vec<f64> {
        let mut weights = Vec::with_capacity(self.indices.len());
        for list in self.each() {
            weights.extend(std::iter::repeat_n(1.0 / list.len() as f64, list.len()));
        }
        weights
    }

    /// GCN's weights of edges and of each node's own row, likewise.
    pub(crate) fn gcn_weights(&self, csc: &Csc<'_>, chunk: &Range<usize>) -> (Vec<f64>, Vec<f64>) {
        // Of the whole graph, of which this one may be a part.
        let degree = |v: usize| csc.whole_degree(v) as i64;
        let mut weights = Vec::with_capacity(self.indices.len());
        let mut own = Vec::with_capacity(chunk.len());
        for (v, list) in chunk.clone().zip(self.each()) {
            let root = inverse_root(degree(v));
            weights.extend(list.iter().map(|&u| root * inverse_root(degree(u as usize))));
            own.push(root * root);
        }
        (weights, own)
    }
}
