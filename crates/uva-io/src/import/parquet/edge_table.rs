//! The table of edges.

use std::path::Path;

use uva_graph::csc::{Changes, CscBuilder};
use uva_graph::{ElementType, GraphError, Progress};

use super::super::left_out;
use super::super::numbering::{Numbering, Survey};
use super::super::options::{Ids, refuse_changes_of_weighted};
use super::super::output::{CHUNK, FeaturesOf, Output};
use super::super::request::Request;
use super::feature_columns::Features;
use super::id_cells::{Id, IdCells, id_column, id_column_like};
use super::table::{Cells, Column, Kind, Stream, Table};

pub(super) struct EdgeTable {
    pub(super) table: Table,
    source: Column,
    destination: Column,
    pub(super) weight: Option<Column>,
    features: Option<Features>,
    pub(super) ids: Ids,
}

impl EdgeTable {
    pub(super) fn open(path: &Path, changes: Changes) -> Result<EdgeTable, GraphError> {
        let table = Table::open(path)?;
        let (source, ids) = id_column(&table, &["src", "source", "src_id", "from"])?;
        let destination = id_column_like(&table, &["dst", "destination", "target", "dst_id", "to"], ids)?;
        let weight = table.find(&["weight", "edge_weight"])?;
        let weight =
            weight.map(|column| table.of_kind(column, &[Kind::Float, Kind::Double], "float or double"));
        let weight = weight.transpose()?;
        if weight.is_some() {
            refuse_changes_of_weighted(changes, &format!("the weights in {}", path.display()))?;
        }
        let features = Features::of_edges(&table)?;
        if features.is_some() {
            refuse_changes_of_weighted(changes, &format!("the features of edges in {}", path.display()))?;
        }
        Ok(EdgeTable { table, source, destination, weight, features, ids })
    }

    /// Says which columns are not read.
    pub(super) fn say_left_out(&self, note: &dyn Fn(&str)) {
        let features = self.features.iter().flat_map(|features| features.columns());
        let read = features.chain([&self.source, &self.destination]).chain(&self.weight);
        left_out::say(note, self.table.path(), &self.table.others(&read.collect::<Vec<_>>()));
    }

    /// Bytes of an edge's features at most, 0 without.
    pub(super) fn feature_row_bytes(&self) -> u64 {
        self.features.as_ref().map_or(0, |features| 4 * features.width())
    }

    /// Writes the edges' features, if they have any.
    pub(super) fn write_features(&self, output: &Output<'_>) -> Result<Option<ElementType>, GraphError> {
        let features = self.features.as_ref();
        features.map(|features| features.write(&self.table, FeaturesOf::Edges, output)).transpose()
    }

    /// The occurring ids.
    pub(super) fn survey(&self, request: &Request<'_>) -> Result<Numbering, GraphError> {
        let mut survey = Survey::new(self.ids);
        let (mut sources, mut destinations) =
            (self.table.stream(&self.source), self.table.stream(&self.destination));
        while let Some(from) = IdCells::next(&self.table, &self.source, &mut sources)? {
            let Some(to) = IdCells::next(&self.table, &self.destination, &mut destinations)? else { break };
            // In this order, so that names are numbered as in an edge list.
            for at in 0..from.len() {
                for ids in [&from, &to] {
                    match ids.get(at)? {
                        Id::Number(id) => survey.see_number(id),
                        Id::Name(id) => survey.see_name(id).map_err(|problem| ids.wrong(at, problem))?,
                    }
                }
            }
            let (done, total) = (sources.row(), self.table.rows());
            (request.watch.progress)(Progress { stage: "nodes", done, total });
        }
        Ok(survey.finish())
    }

    /// Passes every edge to `lists`.
    pub(super) fn push_into(
        &self,
        lists: &mut CscBuilder,
        numbering: &Numbering,
        output: &Output<'_>,
    ) -> Result<(), GraphError> {
        let (mut sources, mut destinations) =
            (self.table.stream(&self.source), self.table.stream(&self.destination));
        if let Some(column) = self.weight.as_ref().filter(|column| column.kind == Kind::Double) {
            output.note(&format!(
                "{}: float64 becomes float32",
                self.table.path().join(&column.name).display()
            ));
        }
        let mut weights = self.weight.as_ref().map(|column| (column, self.table.stream(column)));
        while let Some(from) = IdCells::next(&self.table, &self.source, &mut sources)? {
            let Some(to) = IdCells::next(&self.table, &self.destination, &mut destinations)? else { break };
            let weights = match &mut weights {
                Some((column, stream)) => self.weights(column, stream)?,
                None => vec![0.0; from.len()],
            };
            for (at, weight) in weights.into_iter().enumerate() {
                lists.push(
                    from.place(at, numbering, "source")?,
                    to.place(at, numbering, "destination")?,
                    weight,
                )?;
            }
            output.progress("edges", sources.row(), self.table.rows());
        }
        Ok(())
    }

    fn weights(&self, column: &Column, stream: &mut Stream<'_>) -> Result<Vec<f32>, GraphError> {
        let first = stream.row();
        let Some(Cells::Floats(cells)) = stream.cells(CHUNK)? else { return Ok(Vec::new()) };
        let weights = (first..).zip(cells).map(|(row, cell)| match cell.map(|weight| weight as f32) {
            Some(weight) if weight.is_finite() => Ok(weight),
            Some(weight) => Err(self.table.wrong_cell(
                column,
                row,
                format!("the weight is {weight}: weights have to be finite"),
            )),
            None => Err(self.table.wrong_cell(column, row, "the weight is null")),
        });
        weights.collect()
    }
}
