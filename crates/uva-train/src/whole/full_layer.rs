//! A layer over a whole graph: every node with its whole neighbourhood, in chunks.

use crate::TrainError;
use crate::block::aggregate::weighted_sums;
use crate::layer::Layer;
use crate::layer::attention::Attention;
use crate::layer::convolution::Convolution;
use crate::layer::edge_isomorphism::EdgeIsomorphism;
use crate::layer::isomorphism::Isomorphism;
use crate::layer::lists;
use crate::nn::rowwise::linear;
use crate::torch::borrowed::Borrowed;
use crate::whole::full_table::{Table, TableWriter, Tables};
use std::ops::Range;
use tch::{Device, Kind, Tensor};
use uva_graph::{Csc, Dataset, FeatureTable};
use uva_ops::lists::inverse_root;

/// Destination nodes in a chunk, and the edges in a piece of one: about 100 MB of intermediates together at 256
/// columns. A node with more edges than that is a piece of its own.
pub(crate) const CHUNK_NODES: usize = 1 << 15;
const CHUNK_EDGES: usize = 1 << 22;

/// A graph, with the features of its edges where it has any.
#[derive(Clone, Copy, Debug)]
pub struct WholeGraph<'a> {
    /// Its lists.
    pub csc: Csc<'a>,
    /// Row `i` for entry `i` of the lists. Models that take none pass over them.
    pub edge_features: Option<FeatureTable<'a>>,
}

impl<'a> From<Csc<'a>> for WholeGraph<'a> {
    fn from(csc: Csc<'a>) -> Self {
        Self { csc, edge_features: None }
    }
}

impl<'a> From<&'a Dataset> for WholeGraph<'a> {
    fn from(dataset: &'a Dataset) -> Self {
        Self { csc: dataset.csc(), edge_features: dataset.edge_features() }
    }
}

/// The rows that a layer reads, by chunk of nodes: [nodes of the chunk, inputs].
pub(crate) type RowsOf<'r> = &'r dyn Fn(&Range<usize>) -> Result<Tensor, TrainError>;

/// Takes a layer's results: [nodes of the chunk, outputs] each, in the order of the chunks.
pub(crate) trait Stream {
    /// Whether the results of this chunk are wanted.
    fn wants(&self, chunk: &Range<usize>) -> bool;

    /// Takes them.
    fn take(&mut self, chunk: &Range<usize>, rows: Tensor) -> Result<(), TrainError>;
}

/// Called after each chunk that a layer has read or computed; an error ends the layer.
pub(crate) type Ticks<'t> = &'t mut dyn FnMut() -> Result<(), TrainError>;

/// All nodes in chunks of a bounded size.
pub(crate) fn chunks(nodes: usize) -> impl Iterator<Item = Range<usize>> {
    (0..nodes).step_by(CHUNK_NODES).map(move |start| start..nodes.min(start + CHUNK_NODES))
}

/// The rows of a chunk in a table of all nodes.
pub(crate) fn slice(table: &Tensor, chunk: &Range<usize>) -> Result<Tensor, TrainError> {
    Ok(table.f_narrow(0, chunk.start as i64, chunk.len() as i64)?)
}

/// How often [`full_layer`] ticks over a graph of this many nodes, if all results are wanted.
pub(crate) fn ticks_of_a_layer(nodes: usize) -> u64 {
    2 * chunks(nodes).count() as u64
}

/// The columns of the tables of all nodes that a layer makes for itself.
pub(crate) fn columns_of_tables(layer: &Layer) -> Result<i64, TrainError> {
    Ok(match layer {
        Layer::Convolution(layer) => layer.outputs()?,
        Layer::Attention(layer) => layer.heads() as i64 * (layer.width()? + 2),
        Layer::Isomorphism(layer) => layer.outputs(),
        Layer::EdgeIsomorphism(layer) => layer.inputs(),
    })
}

/// One layer for all nodes of `csc`, without what follows it, on the host, where `layer` is too. Offsets have been
/// checked; neighbours are checked here.
pub(crate) fn full_layer(
    layer: &Layer,
    rows: RowsOf<'_>,
    graph: &Graph<'_>,
    results: &mut dyn Stream,
    ticks: Ticks<'_>,
) -> Result<(), TrainError> {
    match layer {
        Layer::Convolution(layer) => graph.convolution(layer, rows, results, ticks),
        Layer::Attention(layer) => graph.attention(layer, rows, results, ticks),
        Layer::Isomorphism(layer) => graph.isomorphism(layer, rows, results, ticks),
        Layer::EdgeIsomorphism(layer) => graph.edge_isomorphism(layer, rows, results, ticks),
    }
}

/// The graph of a pass, and where its tables are.
pub(crate) struct Graph<'a> {
    pub(crate) csc: &'a Csc<'a>,
    pub(crate) edge_features: Option<FeatureTable<'a>>,
    pub(crate) kind: Kind,
    pub(crate) tables: Tables<'a>,
}

impl Graph<'_> {
    /// The features of the edges in the lists of a piece, [edges, features].
    fn edge_rows(&self, piece: &Range<usize>) -> Result<Tensor, TrainError> {
        let [first, last] = [piece.start, piece.end].map(|node| self.csc.indptr[node] as usize);
        let rows = self.edge_features.as_ref().and_then(|table| {
            let bytes = table.bytes.get(first * table.row_bytes()..last * table.row_bytes())?;
            Some(Borrowed::table(bytes, table.element, last - first, table.dim))
        });
        let Some(rows) = rows else {
            return Err(TrainError::Input(format!("no features of the edges {first} to {last}")));
        };
        Ok(rows?.tensor().f_to_kind(self.kind)?)
    }

    pub(crate) fn table(&self, columns: i64) -> Result<TableWriter, TrainError> {
        self.tables.table(self.csc.nodes(), columns, self.kind)
    }

    fn rows_of_zeros(&self, rows: usize, columns: i64) -> Result<Tensor, TrainError> {
        Ok(Tensor::f_zeros([rows as i64, columns], (self.kind, Device::Cpu))?)
    }

    /// Rows are multiplied by the neighbours' weight first and then aggregated. With as many sources as destinations,
    /// this order is more work only if the layer widens. It also reads the table front to back instead of at random.
    fn convolution(
        &self,
        layer: &Convolution,
        rows: RowsOf<'_>,
        results: &mut dyn Stream,
        ticks: Ticks<'_>,
    ) -> Result<(), TrainError> {
        let (Convolution::Sage { neighbours: weight, .. } | Convolution::Gcn { weight, .. }) = layer;
        let outputs = layer.outputs()?;
        let mut projected = self.table(outputs)?;
        for chunk in chunks(self.csc.nodes()) {
            projected.put(&chunk, &linear(&rows(&chunk)?, weight)?)?;
            ticks()?;
        }
        let projected = projected.complete()?;
        let projected = projected.tensor()?;
        let projected = projected.tensor();
        for chunk in chunks(self.csc.nodes()) {
            if !results.wants(&chunk) {
                continue;
            }
            let result = match layer {
                Convolution::Sage { own, bias, .. } => rows(&chunk)?.f_linear(own, Some(bias))?,
                Convolution::Gcn { .. } => self.rows_of_zeros(chunk.len(), outputs)?,
            };
            for piece in self.pieces(&chunk, CHUNK_EDGES) {
                let lists = Lists::new(self.csc, &piece)?;
                let (weights, own) = match layer {
                    Convolution::Sage { .. } => (lists.mean_weights(), None),
                    Convolution::Gcn { bias, .. } => {
                        let (weights, own) = lists.gcn_weights(self.csc, &piece);
                        (weights, Some((own, bias)))
                    }
                };
                let weights = Tensor::f_from_slice(&weights)?.f_to_kind(self.kind)?;
                let (indices, offsets) =
                    (Borrowed::vector(&lists.indices)?, Borrowed::vector(&lists.offsets)?);
                let sums = weighted_sums(projected, indices.tensor(), offsets.tensor(), &weights)?;
                let mut target = slice(&result, &within(&chunk, &piece))?;
                let _ = target.f_add_(&sums)?;
                if let Some((own, bias)) = own {
                    let own = Tensor::f_from_slice(&own)?.f_to_kind(self.kind)?.f_unsqueeze(1)?;
                    let _ = target.f_add_(&slice(projected, &piece)?.f_mul(&own)?)?.f_add_(bias)?;
                }
            }
            results.take(&chunk, result)?;
            ticks()?;
        }
        Ok(())
    }

    /// The first product of all nodes, then each chunk's sums and second product.
    fn isomorphism(
        &self,
        layer: &Isomorphism,
        rows: RowsOf<'_>,
        results: &mut dyn Stream,
        ticks: Ticks<'_>,
    ) -> Result<(), TrainError> {
        let mut projected = self.table(layer.outputs())?;
        for chunk in chunks(self.csc.nodes()) {
            projected.put(&chunk, &layer.project(&rows(&chunk)?)?)?;
            ticks()?;
        }
        let projected = projected.complete()?;
        let projected = projected.tensor()?;
        let projected = projected.tensor();
        for chunk in chunks(self.csc.nodes()) {
            if !results.wants(&chunk) {
                continue;
            }
            let result = self.rows_of_zeros(chunk.len(), layer.outputs())?;
            for piece in self.pieces(&chunk, CHUNK_EDGES) {
                let lists = Lists::new(self.csc, &piece)?;
                let (indices, offsets) =
                    (Borrowed::vector(&lists.indices)?, Borrowed::vector(&lists.offsets)?);
                let weights = Tensor::f_ones([lists.indices.len() as i64], (self.kind, Device::Cpu))?;
                let sums = weighted_sums(projected, indices.tensor(), offsets.tensor(), &weights)?;
                let evaluated = layer.evaluate(&sums, &slice(projected, &piece)?)?;
                slice(&result, &within(&chunk, &piece))?.f_copy_(&evaluated)?;
            }
            results.take(&chunk, result)?;
            ticks()?;
        }
        Ok(())
    }

    /// The rows of all nodes, then each chunk's messages, sums and perceptron.
    fn edge_isomorphism(
        &self,
        layer: &EdgeIsomorphism,
        rows: RowsOf<'_>,
        results: &mut dyn Stream,
        ticks: Ticks<'_>,
    ) -> Result<(), TrainError> {
        let inputs = layer.inputs();
        let mut x = self.table(inputs)?;
        for chunk in chunks(self.csc.nodes()) {
            x.put(&chunk, &rows(&chunk)?)?;
            ticks()?;
        }
        let x = x.complete()?;
        let x = x.tensor()?;
        let x = x.tensor();
        for chunk in chunks(self.csc.nodes()) {
            if !results.wants(&chunk) {
                continue;
            }
            let result = self.rows_of_zeros(chunk.len(), layer.outputs())?;
            // Tensors of edges × inputs lie side by side.
            for piece in self.pieces(&chunk, CHUNK_EDGES / inputs.max(1) as usize) {
                let lists = Lists::new(self.csc, &piece)?;
                let destination_of_edge = lists.destination_of_edge();
                let tensors = ListTensors::of(&lists, &destination_of_edge)?;
                let own = slice(x, &piece)?;
                let evaluated = layer.evaluate(x, &own, &self.edge_rows(&piece)?, &tensors.lists())?;
                slice(&result, &within(&chunk, &piece))?.f_copy_(&evaluated)?;
            }
            results.take(&chunk, result)?;
            ticks()?;
        }
        Ok(())
    }

    /// Scores of all nodes first, then each chunk's softmax and sums.
    fn attention(
        &self,
        layer: &Attention,
        rows: RowsOf<'_>,
        results: &mut dyn Stream,
        ticks: Ticks<'_>,
    ) -> Result<(), TrainError> {
        let heads = layer.heads();
        let tables = (0..heads).map(|_| self.table(layer.width()?));
        let mut tables = tables.collect::<Result<Vec<_>, TrainError>>()?;
        let (mut of_sources, mut of_destinations) = (self.table(heads as i64)?, self.table(heads as i64)?);
        for chunk in chunks(self.csc.nodes()) {
            let (products, sources, destinations) = layer.project(&rows(&chunk)?)?;
            for (table, products) in tables.iter_mut().zip(&products) {
                table.put(&chunk, products)?;
            }
            of_sources.put(&chunk, &sources)?;
            of_destinations.put(&chunk, &destinations)?;
            ticks()?;
        }
        let tables = tables.into_iter().map(TableWriter::complete).collect::<Result<Vec<_>, _>>()?;
        let tables = tables.iter().map(Table::tensor).collect::<Result<Vec<_>, _>>()?;
        let tables: Vec<Tensor> = tables.iter().map(|table| table.tensor().shallow_clone()).collect();
        let (of_sources, of_destinations) = (of_sources.complete()?, of_destinations.complete()?);
        let (of_sources, of_destinations) = (of_sources.tensor()?, of_destinations.tensor()?);
        for chunk in chunks(self.csc.nodes()) {
            if !results.wants(&chunk) {
                continue;
            }
            let result = self.rows_of_zeros(chunk.len(), layer.outputs())?;
            // Several tensors of edges × heads lie side by side.
            for piece in self.pieces(&chunk, CHUNK_EDGES / heads) {
                let plain = Lists::new(self.csc, &piece)?;
                let plain_destinations = plain.destination_of_edge();
                let of_edges = layer.edge_scores(
                    || self.edge_rows(&piece),
                    &ListTensors::of(&plain, &plain_destinations)?.lists(),
                )?;
                let lists = plain.with_own(&piece);
                let destination_of_edge = lists.destination_of_edge();
                let tensors = ListTensors::of(&lists, &destination_of_edge)?;
                let destinations = slice(of_destinations.tensor(), &piece)?;
                let attended = layer.evaluate(
                    &tables,
                    of_sources.tensor(),
                    &destinations,
                    of_edges.as_ref(),
                    &tensors.lists(),
                )?;
                slice(&result, &within(&chunk, &piece))?.f_copy_(&attended)?;
            }
            results.take(&chunk, result)?;
            ticks()?;
        }
        Ok(())
    }

    /// A chunk in pieces of at most `edges` edges, or of one node.
    fn pieces(&self, chunk: &Range<usize>, edges: usize) -> impl Iterator<Item = Range<usize>> {
        let (indptr, chunk) = (self.csc.indptr, chunk.clone());
        let mut start = chunk.start;
        std::iter::from_fn(move || {
            if start == chunk.end {
                return None;
            }
            let mut end = start + 1;
            while end < chunk.end && indptr[end + 1] - indptr[start] <= edges as i64 {
                end += 1;
            }
            let piece = start..end;
            start = end;
            Some(piece)
        })
    }
}

/// A piece of a chunk, counted within the chunk.
fn within(chunk: &Range<usize>, piece: &Range<usize>) -> Range<usize> {
    piece.start - chunk.start..piece.end - chunk.start
}

/// Lists as tensors.
struct ListTensors<'l> {
    offsets: Borrowed<'l>,
    indices: Borrowed<'l>,
    destination_of_edge: Borrowed<'l>,
}

impl<'l> ListTensors<'l> {
    fn of(lists: &'l Lists, destination_of_edge: &'l [i64]) -> Result<Self, TrainError> {
        Ok(Self {
            offsets: Borrowed::vector(&lists.offsets)?,
            indices: Borrowed::vector(&lists.indices)?,
            destination_of_edge: Borrowed::vector(destination_of_edge)?,
        })
    }

    fn lists(&self) -> lists::Lists<'_> {
        lists::Lists {
            offsets: self.offsets.tensor(),
            indices: self.indices.tensor(),
            destination_of_edge: self.destination_of_edge.tensor(),
        }
    }
}

/// The neighbour lists of a chunk.
struct Lists {
    offsets: Vec<i64>,
    indices: Vec<i64>,
}

impl Lists {
    fn new(csc: &Csc<'_>, chunk: &Range<usize>) -> Result<Self, TrainError> {
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
    fn each(&self) -> impl Iterator<Item = &[i64]> {
        self.offsets.windows(2).map(|ends| &self.indices[ends[0] as usize..ends[1] as usize])
    }

    /// The same with each node of the chunk at the end of its own list.
    fn with_own(&self, chunk: &Range<usize>) -> Self {
        let mut indices = Vec::with_capacity(self.indices.len() + chunk.len());
        for (v, list) in chunk.clone().zip(self.each()) {
            indices.extend_from_slice(list);
            indices.push(v as i64);
        }
        Self { offsets: (0..).zip(&self.offsets).map(|(place, offset)| offset + place).collect(), indices }
    }

    /// Whose list each edge is in, by its place in the chunk.
    fn destination_of_edge(&self) -> Vec<i64> {
        (0..).zip(self.each()).flat_map(|(v, list)| std::iter::repeat_n(v, list.len())).collect()
    }

    /// The weights of a mean, as `aggregate.rs` defines them for whole neighbourhoods.
    fn mean_weights(&self) -> Vec<f64> {
        let mut weights = Vec::with_capacity(self.indices.len());
        for list in self.each() {
            weights.extend(std::iter::repeat_n(1.0 / list.len() as f64, list.len()));
        }
        weights
    }

    /// GCN's weights of edges and of each node's own row, likewise.
    fn gcn_weights(&self, csc: &Csc<'_>, chunk: &Range<usize>) -> (Vec<f64>, Vec<f64>) {
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
