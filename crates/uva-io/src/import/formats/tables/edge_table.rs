//! The table of edges.

use std::path::Path;

use uva_files::quote::shown;
use uva_graph::csc::{Changes, CscBuilder};
use uva_graph::npy::{NpyType, NpyWriter};
use uva_graph::{ElementType, GraphError, Progress};

use super::feature_columns::FeatureColumns;
use super::id_cells::{AS_SOURCES, IdCell, IdCells, id_column, ids_of, take_ids};
use super::table::{CellType, Cells, SourceTable, TableColumn};
use crate::import::options::{Ids, refuse_changes_of_weighted};
use crate::import::reading::unread_parts;
use crate::import::request::{ImportRequest, ImportWatch};
use crate::import::writing::array_target::ArrayTarget;
use crate::import::writing::numbering::{Numbering, Survey};
use crate::import::writing::output::CHUNK;

const SOURCES: [&str; 4] = ["src", "source", "src_id", "from"];
const DESTINATIONS: [&str; 5] = ["dst", "destination", "target", "dst_id", "to"];
const WEIGHTS: [&str; 2] = ["weight", "edge_weight"];

pub(super) struct EdgeTable {
    pub(super) table: Box<dyn SourceTable>,
    source: TableColumn,
    destination: TableColumn,
    /// Whether the id columns were chosen because they come first.
    by_place: bool,
    pub(super) weight: Option<TableColumn>,
    features: Option<FeatureColumns>,
}

impl EdgeTable {
    pub(super) fn new(table: Box<dyn SourceTable>) -> Result<EdgeTable, GraphError> {
        let (source, destination) = (table.find(&SOURCES), table.find(&DESTINATIONS));
        let by_place = table.is_text() && source.is_none() && destination.is_none();
        let (source, destination) = match table.columns() {
            [first, second, ..]
                if by_place && first.kind != CellType::Other && second.kind != CellType::Other =>
            {
                (first.clone(), second.clone())
            }
            _ => (table.required(&SOURCES)?, table.required(&DESTINATIONS)?),
        };
        let (source, destination) = (id_column(&*table, source)?, id_column(&*table, destination)?);
        let weight =
            table.find(&WEIGHTS).filter(|column| ![source.place, destination.place].contains(&column.place));
        let weight = weight.map(|column| match table.is_text() {
            true => table.of_kind(column, &[CellType::Integer, CellType::Double], "numbers").map(as_doubles),
            false => table.of_kind(column, &[CellType::Float, CellType::Double], "float or double"),
        });
        let weight = weight.transpose()?;
        let read: Vec<&TableColumn> = [&source, &destination].into_iter().chain(&weight).collect();
        let others = [&SOURCES[..], &DESTINATIONS, &WEIGHTS].concat();
        let features = FeatureColumns::of_edges(&*table, &read, &others)?;
        Ok(EdgeTable { table, source, destination, by_place, weight, features })
    }

    /// Decides whether ids are numbers or names. `nodes` is the kind of ids in the table of nodes.
    pub(super) fn agree_on_ids(&mut self, nodes: Option<Ids>) -> Result<Ids, GraphError> {
        let (source, destination) = (ids_of(&self.source), ids_of(&self.destination));
        let ids = match (self.table.is_text(), nodes) {
            (true, Some(nodes)) => nodes,
            (true, None) if destination == Ids::Name => Ids::Name,
            _ => source,
        };
        take_ids(&*self.table, &mut self.source, ids, AS_SOURCES)?;
        take_ids(&*self.table, &mut self.destination, ids, AS_SOURCES)?;
        Ok(ids)
    }

    /// The kind of the ids of the node type at place `at`, if it is one of the `ends`.
    pub(super) fn ids_at(&self, ends: [usize; 2], at: usize) -> Option<Ids> {
        let columns = ends.into_iter().zip([&self.source, &self.destination]);
        let kinds: Vec<Ids> =
            columns.filter(|(end, _)| *end == at).map(|(_, column)| ids_of(column)).collect();
        // In a table of text, integers may be names.
        kinds.iter().copied().find(|ids| *ids == Ids::Name).or(kinds.first().copied())
    }

    /// Reads the ids of the node type `name` at place `at` as this kind.
    pub(super) fn take_ids_at(
        &mut self,
        ends: [usize; 2],
        at: usize,
        ids: Ids,
        name: &str,
    ) -> Result<(), GraphError> {
        for (end, column) in ends.into_iter().zip([&mut self.source, &mut self.destination]) {
            if end == at {
                take_ids(&*self.table, column, ids, &format!("as other ids of {name} are"))?;
            }
        }
        Ok(())
    }

    /// Collects the ids of the node type at place `at`.
    pub(super) fn survey_at(
        &self,
        ends: [usize; 2],
        at: usize,
        survey: &mut Survey,
        watch: &ImportWatch<'_>,
    ) -> Result<(), GraphError> {
        for (end, column) in ends.into_iter().zip([&self.source, &self.destination]) {
            if end != at {
                continue;
            }
            let mut rows = self.table.read(&[column]);
            loop {
                let first = rows.row();
                let Some(cells) = rows.cells(CHUNK)? else { break };
                let ids = self.ids(column, first, &cells[0]);
                for row in 0..ids.len() {
                    match ids.get(row)? {
                        IdCell::Number(id) => survey.see_number(id),
                        IdCell::Name(id) => {
                            survey.see_name(id).map_err(|problem| ids.wrong(row, problem))?;
                        }
                    }
                }
                let (done, total) = (rows.row(), self.table.rows());
                (watch.progress)(Progress { stage: "nodes", done, total });
            }
        }
        Ok(())
    }

    /// Writes the weights in the order of the edges. Returns whether there are any.
    pub(super) fn write_weights(&self, path: &Path, note: &dyn Fn(&str)) -> Result<bool, GraphError> {
        let Some(column) = &self.weight else { return Ok(false) };
        self.say_weights(note);
        let mut writer = NpyWriter::create(path, NpyType::F32, &[])?;
        let mut rows = self.table.read(&[column]);
        loop {
            let first = rows.row();
            match rows.cells(CHUNK)?.as_deref() {
                Some([Cells::Floats(cells)]) => writer.write(&self.weights(column, first, cells)?)?,
                _ => return writer.finish().map(|_| true),
            }
        }
    }

    /// Rejects changes of edges that have weights or features.
    pub(super) fn refuse_changes(&self, changes: Changes) -> Result<(), GraphError> {
        let place = self.table.path().display();
        if self.weight.is_some() {
            refuse_changes_of_weighted(changes, &format!("the weights in {place}"))?;
        }
        if self.features.is_some() {
            refuse_changes_of_weighted(changes, &format!("the edge features in {place}"))?;
        }
        Ok(())
    }

    /// Reports the columns that are read by position or type, and those that are not read.
    pub(super) fn say_columns(&self, note: &dyn Fn(&str)) {
        let place = self.table.path().display();
        if self.by_place {
            let (source, destination) = (shown(&self.source.name), shown(&self.destination.name));
            note(&format!(
                "{place}: the first two columns, {source} and {destination}, are source and destination: no column is \
                 called {} or {}",
                SOURCES.join(", "),
                DESTINATIONS.join(", ")
            ));
        }
        if let Some(features) = self.features.as_ref().filter(|_| self.table.is_text()) {
            note(&format!("{place}: edge features are {}", features.listed()));
        }
        let features = self.features.iter().flat_map(|features| features.columns());
        let read = features.chain([&self.source, &self.destination]).chain(&self.weight);
        unread_parts::say(note, self.table.path(), &self.table.others(&read.collect::<Vec<_>>()));
    }

    /// The maximum size of an edge's features in bytes; 0 without features.
    pub(super) fn feature_row_bytes(&self) -> u64 {
        self.features.as_ref().map_or(0, |features| 4 * features.width())
    }

    /// Writes the edges' features, if they have any.
    pub(super) fn write_features(&self, place: &dyn ArrayTarget) -> Result<Option<ElementType>, GraphError> {
        self.features.as_ref().map(|features| features.write(&*self.table, place)).transpose()
    }

    fn ids<'t>(&'t self, column: &'t TableColumn, first_row: u64, cells: &'t Cells) -> IdCells<'t> {
        IdCells { table: &*self.table, column, first_row, cells }
    }

    /// The occurring ids.
    pub(super) fn survey(&self, request: &ImportRequest<'_>) -> Result<Numbering, GraphError> {
        let mut survey = Survey::new(ids_of(&self.source));
        let mut rows = self.table.read(&[&self.source, &self.destination]);
        loop {
            let first = rows.row();
            let Some(cells) = rows.cells(CHUNK)? else { return Ok(survey.finish()) };
            let (from, to) =
                (self.ids(&self.source, first, &cells[0]), self.ids(&self.destination, first, &cells[1]));
            // In this order, so that names are numbered as in an edge list.
            for at in 0..from.len() {
                for ids in [&from, &to] {
                    match ids.get(at)? {
                        IdCell::Number(id) => survey.see_number(id),
                        IdCell::Name(id) => survey.see_name(id).map_err(|problem| ids.wrong(at, problem))?,
                    }
                }
            }
            let (done, total) = (rows.row(), self.table.rows());
            (request.watch.progress)(Progress { stage: "nodes", done, total });
        }
    }

    /// Reports the conversion of weights.
    pub(super) fn say_weights(&self, note: &dyn Fn(&str)) {
        if let Some(column) = self.weight.as_ref().filter(|column| column.kind == CellType::Double) {
            note(&format!("{}: float64 becomes float32", self.table.path().join(&column.name).display()));
        }
    }

    /// Passes every edge to `lists`. `numbering` maps the ids of sources and of destinations.
    pub(super) fn push_into(
        &self,
        lists: &mut CscBuilder,
        [sources, destinations]: [&Numbering; 2],
        watch: &ImportWatch<'_>,
    ) -> Result<(), GraphError> {
        let columns: Vec<&TableColumn> =
            [&self.source, &self.destination].into_iter().chain(&self.weight).collect();
        let mut rows = self.table.read(&columns);
        loop {
            let first = rows.row();
            let Some(cells) = rows.cells(CHUNK)? else { return Ok(()) };
            let (from, to) =
                (self.ids(&self.source, first, &cells[0]), self.ids(&self.destination, first, &cells[1]));
            let weights = match (&self.weight, cells.get(2)) {
                (Some(column), Some(Cells::Floats(cells))) => self.weights(column, first, cells)?,
                _ => vec![0.0; from.len()],
            };
            for (at, weight) in weights.into_iter().enumerate() {
                lists.push(
                    from.place(at, sources, "source")?,
                    to.place(at, destinations, "destination")?,
                    weight,
                )?;
            }
            let (done, total) = (rows.row(), self.table.rows());
            (watch.progress)(Progress { stage: "edges", done, total });
        }
    }

    fn weights(
        &self,
        column: &TableColumn,
        first: u64,
        cells: &[Option<f64>],
    ) -> Result<Vec<f32>, GraphError> {
        let missing = if self.table.is_text() { "missing" } else { "null" };
        let weights = (first..).zip(cells).map(|(row, cell)| match cell.map(|weight| weight as f32) {
            Some(weight) if weight.is_finite() => Ok(weight),
            Some(weight) => Err(self.table.wrong_cell(
                column,
                row,
                format!("the weight is {weight}: weights have to be finite"),
            )),
            None => Err(self.table.wrong_cell(column, row, format!("the weight is {missing}"))),
        });
        weights.collect()
    }
}

/// A column of numbers in text, of which some are whole.
fn as_doubles(column: TableColumn) -> TableColumn {
    TableColumn { kind: CellType::Double, ..column }
}
