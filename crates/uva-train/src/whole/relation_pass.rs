//! A model over relations for all nodes of a typed graph, with their whole neighbourhoods.
//!
//! It runs layer by layer: the rows of each node type before a layer are a table of all its nodes. A layer makes the rows
//! of a type in pieces: some of its nodes, with all their neighbours in all relations that lead into the type, are blocks
//! like those of a batch. So a layer is written once, and a piece bounds the memory.

use crate::TrainError;
use crate::block::aggregate::{Block, HostLists};
use crate::graph::full_table::{Table, TableWriter, Tables};
use crate::graph::whole_data::{WholeData, WholeType, check_offsets};
use crate::graph::whole_graph::chunks;
use crate::layer::relations::RelationNetwork;
use crate::layer::relations::type_rows::TypeRows;
use crate::torch::borrowed::Borrowed;
use crate::train::trainer::Trainer;
use crate::whole::full_layer::{Stream, Ticks};
use crate::whole::piece::{HopDestinations, Piece, cut};
use std::ops::Range;
use tch::Tensor;
use uva_graph::FeatureTable;
use uva_model::{ModelGraph, RelationUse, Wiring};

/// Values in the rows that a piece reads, at most: 64 MiB of f32. Layers keep up to three times as many. A node with more
/// neighbours than that is a piece of its own.
pub(crate) const PIECE_VALUES: usize = 1 << 24;

/// A pass over a typed graph.
pub(crate) struct RelationPass<'p> {
    pub(crate) trainer: &'p Trainer,
    pub(crate) network: &'p RelationNetwork,
    pub(crate) data: &'p WholeData<'p>,
    pub(crate) tables: Tables<'p>,
    /// As [`PIECE_VALUES`].
    pub(crate) piece_values: usize,
}

/// The rows of a node type before a layer.
enum RowTable<'a> {
    Features(FeatureTable<'a>),
    /// The number of the trained table.
    Trained(usize),
    Hidden(Table),
}

/// The rows of each node type that a layer reads.
type RowTables<'a> = Vec<Option<RowTable<'a>>>;

/// Receives the rows of a piece.
type TakeRows<'t> = &'t mut dyn FnMut(&Range<usize>, Tensor) -> Result<(), TrainError>;

impl<'p> RelationPass<'p> {
    /// Refuses data that contradicts itself or the model.
    pub(crate) fn check(&self) -> Result<(), TrainError> {
        let refuse = |problem: String| Err(TrainError::Input(problem));
        let graph = self.graph()?;
        let (types, relations) = (self.data.types.len(), self.data.relations.len());
        if (types, relations) != (graph.types.len(), graph.relations.len()) {
            return refuse(format!(
                "a graph of {types} node types and {relations} relations for a model of {} and {}",
                graph.types.len(),
                graph.relations.len()
            ));
        }
        let Wiring { layers, inputs, .. } = self.network.wiring();
        for &number in inputs {
            let (WholeType { nodes, features }, of_type) = (self.data.types[number], &graph.types[number]);
            let name = &of_type.name;
            match (features, of_type.columns) {
                (Some(table), Some(columns)) if (table.rows, table.dim) != (nodes, columns) => {
                    return refuse(format!(
                        "{name}: {} rows of {} features, where {nodes} of {columns} are needed",
                        table.rows, table.dim
                    ));
                }
                (None, Some(columns)) => {
                    return refuse(format!("{name}: no features for a model of {columns} columns"));
                }
                (_, None) if of_type.nodes != Some(nodes) => {
                    return refuse(format!(
                        "{name}: {nodes} nodes, which are not those of the model's table"
                    ));
                }
                _ => {}
            }
        }
        // The first layer uses all relations that a later one uses.
        for of in layers.iter().flat_map(|layer| &layer.relations) {
            let csc = &self.data.relations[of.relation].csc;
            let (lists, nodes) = (csc.nodes(), self.data.types[of.destination].nodes);
            let named = |problem: String| format!("{}: {problem}", graph.full_name(of.relation));
            if lists != nodes {
                return refuse(named(format!("lists of {lists} nodes, where there are {nodes}")));
            }
            check_offsets(csc).or_else(|problem| refuse(named(problem.to_string())))?;
        }
        Ok(())
    }

    fn graph(&self) -> Result<&'p ModelGraph, TrainError> {
        let graph = self.trainer.options().graph.as_ref();
        graph.ok_or_else(|| TrainError::Input("a model over relations without types".to_owned()))
    }

    /// Number of ticks, if the logits of all nodes are requested.
    pub(crate) fn ticks(&self) -> u64 {
        let Wiring { layers, inputs, .. } = self.network.wiring();
        let chunks_of = |of_types: &[usize]| -> u64 {
            of_types.iter().map(|&of_type| chunks(self.data.types[of_type].nodes).count() as u64).sum()
        };
        let of_inputs = if self.network.maps_inputs() { chunks_of(inputs) } else { 0 };
        of_inputs + layers.iter().map(|layer| chunks_of(&layer.destinations)).sum::<u64>()
    }

    /// Passes on the logits of the target's nodes, chunk by chunk. The data has been checked, except neighbours.
    pub(crate) fn run(&self, stream: &mut dyn Stream, ticks: Ticks<'_>) -> Result<(), TrainError> {
        let Wiring { layers, target, .. } = self.network.wiring();
        let widths = self.trainer.options().output_widths(self.trainer.task().outputs);
        let mut rows = self.inputs(ticks)?;
        for (number, (wiring, &columns)) in layers.iter().zip(&widths).enumerate() {
            if number + 1 == layers.len() {
                for chunk in chunks(self.data.types[*target].nodes) {
                    if stream.wants(&chunk) {
                        let mut pieces = Vec::new();
                        self.chunk((number, *target), &rows, &chunk, &mut |_, rows| {
                            pieces.push(self.network.logits(rows)?);
                            Ok(())
                        })?;
                        stream.take(&chunk, Tensor::f_cat(&pieces, 0)?)?;
                        ticks()?;
                    }
                }
                break;
            }
            let mut after: RowTables<'_> = self.no_rows();
            for &of_type in &wiring.destinations {
                let mut table = self.table(of_type, columns)?;
                for chunk in chunks(self.data.types[of_type].nodes) {
                    self.chunk((number, of_type), &rows, &chunk, &mut |piece, rows| table.put(piece, &rows))?;
                    ticks()?;
                }
                after[of_type] = Some(RowTable::Hidden(table.complete()?));
            }
            rows = after;
        }
        Ok(())
    }

    fn no_rows(&self) -> RowTables<'p> {
        self.data.types.iter().map(|_| None).collect()
    }

    fn table(&self, of_type: usize, columns: usize) -> Result<TableWriter, TrainError> {
        let nodes = self.data.types[of_type].nodes;
        // A file of no bytes cannot be mapped.
        let tables = if nodes == 0 { Tables::Memory } else { self.tables };
        tables.table(nodes, columns as i64, self.trainer.kind())
    }

    /// The rows that the first layer reads, which are mapped once if the network maps them.
    fn inputs(&self, ticks: Ticks<'_>) -> Result<RowTables<'p>, TrainError> {
        let (mut rows, mut trained) = (self.no_rows(), 0);
        for (place, &of_type) in self.network.wiring().inputs.iter().enumerate() {
            let features = self.data.types[of_type].features.filter(|_| !self.network.trains_input(place));
            let unmapped = match features {
                Some(table) => RowTable::Features(table),
                None => {
                    trained += 1;
                    RowTable::Trained(trained - 1)
                }
            };
            rows[of_type] = Some(if self.network.maps_inputs() {
                let mut table = self.table(of_type, self.trainer.options().hidden)?;
                for chunk in chunks(self.data.types[of_type].nodes) {
                    let ids: Vec<i64> = (chunk.start as i64..chunk.end as i64).collect();
                    table.put(&chunk, &self.network.input(place, self.gather(&unmapped, &ids)?)?)?;
                    ticks()?;
                }
                RowTable::Hidden(table.complete()?)
            } else {
                unmapped
            });
        }
        Ok(rows)
    }

    /// Makes the rows of a chunk of a type after layer `number`, piece by piece.
    fn chunk(
        &self,
        (number, of_type): (usize, usize),
        rows: &RowTables<'_>,
        chunk: &Range<usize>,
        take: TakeRows<'_>,
    ) -> Result<(), TrainError> {
        let layers = &self.network.wiring().layers;
        let layer = HopDestinations { wiring: &layers[number], hop: layers.len() - 1 - number, of_type };
        let columns = rows.iter().flatten().map(|rows| self.columns(rows)).max().unwrap_or(1);
        let lists = |(_, of): (usize, &RelationUse)| &self.data.relations[of.relation].csc;
        let lists: Vec<_> = layer.wiring.leading_into(of_type).map(lists).collect();
        for piece in cut(chunk, &lists, self.piece_values / columns.max(1)) {
            let out = self.piece(number, layer, rows, &piece)?;
            take(&piece, out)?;
        }
        Ok(())
    }

    fn piece(
        &self,
        number: usize,
        layer: HopDestinations<'_>,
        rows: &RowTables<'_>,
        nodes: &Range<usize>,
    ) -> Result<Tensor, TrainError> {
        let piece = Piece::new(layer, self.data, nodes, self.graph()?)?;
        let mut x = TypeRows::none(self.network.types());
        for (source, rows) in rows.iter().enumerate() {
            if let Some(rows) = rows {
                x.set(source, self.gather(rows, &piece.nodes[source])?);
            }
        }
        let (model, kind) = (self.trainer.options().model, self.trainer.kind());
        let mut blocks = Vec::with_capacity(piece.lists.len());
        for (of, (indptr, indices)) in layer.wiring.relations.iter().zip(&piece.lists) {
            let (destinations, sources) = (indptr.len() - 1, piece.nodes[of.source].len());
            let lists = HostLists { destinations, sources, indptr, indices, weights: &[] };
            blocks.push(Block::new(model, &lists, &[], kind)?);
        }
        self.network.rows_of_type((number, layer.of_type), &x, &blocks)
    }

    fn columns(&self, rows: &RowTable<'_>) -> usize {
        match rows {
            RowTable::Features(table) => table.dim,
            RowTable::Trained(_) => self.trainer.options().embedding_columns(),
            RowTable::Hidden(table) => table.columns(),
        }
    }

    /// The rows of some nodes of a type, of the trainer's number type.
    fn gather(&self, rows: &RowTable<'_>, ids: &[i64]) -> Result<Tensor, TrainError> {
        let places = Borrowed::vector(ids)?;
        match rows {
            RowTable::Features(table) => {
                let all = Borrowed::table(table.bytes, table.element, table.rows, table.dim)?;
                let picked = all.tensor().f_index_select(0, places.tensor())?;
                self.trainer.features(&Borrowed::owned(picked))
            }
            RowTable::Trained(table) => {
                Ok(self.trainer.embeddings.rows(*table, ids)?.f_to_kind(self.trainer.kind())?)
            }
            RowTable::Hidden(table) => Ok(table.tensor()?.tensor().f_index_select(0, places.tensor())?),
        }
    }
}
