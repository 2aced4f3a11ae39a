//! A layer over a whole graph: every node with its whole neighbourhood, in chunks.

use crate::TrainError;
use crate::graph::full_table::{Table, TableWriter};
use crate::graph::whole_graph::{Graph, chunks, slice, within};
use crate::layer::Layer;
use std::ops::Range;
use tch::Tensor;

/// The rows that a layer reads, by chunk of nodes: [nodes of the chunk, inputs].
pub(crate) type RowsOf<'r> = &'r dyn Fn(&Range<usize>) -> Result<Tensor, TrainError>;

/// Receives a layer's results: [nodes of the chunk, outputs] each, in the order of the chunks.
pub(crate) trait Stream {
    /// Whether the results of this chunk are requested.
    fn wants(&self, chunk: &Range<usize>) -> bool;

    /// Receives the rows.
    fn take(&mut self, chunk: &Range<usize>, rows: Tensor) -> Result<(), TrainError>;
}

/// Called after each chunk that a layer has read or computed; an error ends the layer.
pub(crate) type Ticks<'t> = &'t mut dyn FnMut() -> Result<(), TrainError>;

/// Number of ticks of [`full_layer`] over a graph of this many nodes, if all results are requested.
pub(crate) fn ticks_of_a_layer(nodes: usize) -> u64 {
    2 * chunks(nodes).count() as u64
}

/// The columns of the tables of all nodes that a layer allocates.
pub(crate) fn columns_of_tables(layer: &Layer) -> Result<i64, TrainError> {
    Ok(layer.over_all_nodes().columns()?.into_iter().sum())
}

/// One layer for all nodes of `graph`, without what follows it, on the host, where `layer` is too. Offsets have been
/// checked; neighbours are checked here.
pub(crate) fn full_layer(
    layer: &Layer,
    rows: RowsOf<'_>,
    graph: &Graph<'_>,
    results: &mut dyn Stream,
    ticks: Ticks<'_>,
) -> Result<(), TrainError> {
    let (layer, nodes) = (layer.over_all_nodes(), graph.csc.nodes());
    let mut tables =
        layer.columns()?.into_iter().map(|columns| graph.table(columns)).collect::<Result<Vec<_>, _>>()?;
    for chunk in chunks(nodes) {
        for (table, rows) in tables.iter_mut().zip(layer.project(rows(&chunk)?)?) {
            table.put(&chunk, &rows)?;
        }
        ticks()?;
    }
    let tables = tables.into_iter().map(TableWriter::complete).collect::<Result<Vec<_>, _>>()?;
    let borrowed = tables.iter().map(Table::tensor).collect::<Result<Vec<_>, _>>()?;
    let tables: Vec<Tensor> = borrowed.iter().map(|table| table.tensor().shallow_clone()).collect();
    let outputs = layer.outputs()?;
    for chunk in chunks(nodes) {
        if !results.wants(&chunk) {
            continue;
        }
        let result = match layer.begin(&|| rows(&chunk))? {
            Some(begun) => begun,
            None => graph.rows_of_zeros(chunk.len(), outputs)?,
        };
        for piece in graph.pieces(&chunk, layer.piece_edges()) {
            let mut target = slice(&result, &within(&chunk, &piece))?;
            layer.complete(graph, &tables, &piece, &mut target)?;
        }
        results.take(&chunk, result)?;
        ticks()?;
    }
    Ok(())
}
