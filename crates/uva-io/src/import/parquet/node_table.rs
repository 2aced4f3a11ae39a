//! The table of nodes.

use std::path::Path;

use uva_graph::npy::{NpyType, NpyWriter};
use uva_graph::quote::shown;
use uva_graph::{ElementType, GraphError, names};

use super::super::left_out;
use super::super::nodes::Nodes;
use super::super::numbering::{Numbering, Survey, Twice};
use super::super::options::Ids;
use super::super::output::{CHUNK, FeaturesOf, NOT_FINITE, Output, no_labels};
use super::super::values;
use super::feature_columns::Features;
use super::id_cells::{Id, IdCells, id_column_like};
use super::table::{Cells, Column, Kind, Table};

const LABELS: [&str; 4] = ["label", "labels", "y", "node_label"];

pub(super) struct NodeTable {
    table: Table,
    id: Column,
    ids: Ids,
    features: Features,
    label: Option<Column>,
    split: Option<Column>,
}

impl NodeTable {
    pub(super) fn open(path: &Path, ids: Ids) -> Result<NodeTable, GraphError> {
        let table = Table::open(path)?;
        let id = id_column_like(&table, &["id", "node_id", "node"], ids)?;
        let features = Features::find(&table)?;
        let numbers = [Kind::Integer, Kind::Float, Kind::Double];
        let label = table.find(&LABELS)?;
        let label =
            label.map(|column| table.of_kind(column, &numbers, "integers, float or double")).transpose()?;
        let split = table.find(&["split"])?;
        let split = split.map(|column| table.of_kind(column, &[Kind::Text], "text")).transpose()?;
        Ok(NodeTable { table, id, ids, features, label, split })
    }

    /// Says which columns are not read.
    pub(super) fn say_left_out(&self, note: &dyn Fn(&str)) {
        let read = self.features.columns().iter().chain([&self.id]).chain(&self.label).chain(&self.split);
        left_out::say(note, self.table.path(), &self.table.others(&read.collect::<Vec<_>>()));
    }

    /// Maps each id to its node: row k is node k.
    pub(super) fn numbering(&self) -> Result<Numbering, GraphError> {
        let mut stream = self.table.stream(&self.id);
        let mut numbers = Vec::new();
        let mut names = Survey::new(Ids::Name);
        while let Some(ids) = IdCells::next(&self.table, &self.id, &mut stream)? {
            for at in 0..ids.len() {
                match ids.get(at)? {
                    Id::Number(id) => numbers.push(id),
                    Id::Name(id) => {
                        let before = names.nodes();
                        names.see_name(id).map_err(|problem| ids.wrong(at, problem))?;
                        if names.nodes() == before {
                            return Err(
                                ids.wrong(at, format!("'{}' is the id of an earlier node", shown(id)))
                            );
                        }
                    }
                }
            }
        }
        let numbering = match self.ids {
            Ids::Name => names.finish(),
            Ids::Number if numbers.iter().copied().eq(0..self.table.rows().cast_signed()) => {
                let nodes = self.table.rows();
                Numbering::Dense(Nodes::new(nodes, format!("the table of nodes has {nodes} rows")))
            }
            Ids::Number => Numbering::of_numbers(numbers).map_err(|Twice { second, id, .. }| {
                self.table.wrong_cell(&self.id, second, format!("{id} is the id of an earlier node"))
            })?,
        };
        Ok(numbering.said_by("the table of nodes"))
    }

    pub(super) fn feature_row_bytes(&self) -> u64 {
        4 * self.features.width()
    }

    /// Writes features, labels and splits. With `regression`, labels are float32 targets.
    pub(super) fn write(&self, output: &Output<'_>, regression: bool) -> Result<ElementType, GraphError> {
        let element = self.features.write(&self.table, FeaturesOf::Nodes, output)?;
        match &self.label {
            Some(column) if regression => self.write_targets(column, output)?,
            Some(column) => self.write_labels(column, output)?,
            None => output.note(&no_labels(self.table.path(), &LABELS)),
        }
        output.splits(&self.splits()?)?;
        Ok(element)
    }

    fn write_labels(&self, column: &Column, output: &Output<'_>) -> Result<(), GraphError> {
        let mut writer = NpyWriter::create(&output.path(names::LABELS), NpyType::I64, &[])?;
        let mut stream = self.table.stream(column);
        loop {
            let first = stream.row();
            let labels: Vec<Option<i64>> = match stream.cells(CHUNK)? {
                Some(Cells::Integers(cells)) => {
                    cells.into_iter().map(|cell| Some(cell.unwrap_or(-1))).collect()
                }
                Some(Cells::Floats(cells)) => {
                    cells.into_iter().map(|cell| cell.map_or(Some(-1), values::class)).collect()
                }
                _ => break,
            };
            let fits =
                |label: &Option<i64>| label.is_some_and(|label| (-1..i64::from(u32::MAX)).contains(&label));
            if let Some(at) = labels.iter().position(|label| !fits(label)) {
                let problem = "the label is no class: 0 and up, or −1, NaN or null for none (--regression takes it as a \
                               target of regression)";
                return Err(self.table.wrong_cell(column, first + at as u64, problem));
            }
            writer.write(&labels.into_iter().flatten().collect::<Vec<i64>>())?;
        }
        writer.finish().map(drop)
    }

    fn write_targets(&self, column: &Column, output: &Output<'_>) -> Result<(), GraphError> {
        let kind = match column.kind {
            Kind::Double => Some("float64"),
            Kind::Integer => Some("integers"),
            _ => None,
        };
        if let Some(kind) = kind {
            let place = self.table.path().join(&column.name);
            output.note(&format!("{}: targets of {kind} become float32", place.display()));
        }
        let mut writer = NpyWriter::create(&output.path(names::LABELS), NpyType::F32, &[])?;
        let mut stream = self.table.stream(column);
        loop {
            let first = stream.row();
            let targets: Vec<f32> = match stream.cells(CHUNK)? {
                Some(Cells::Integers(cells)) => {
                    cells.into_iter().map(|cell| cell.map_or(f32::NAN, |cell| cell as f32)).collect()
                }
                Some(Cells::Floats(cells)) => {
                    cells.into_iter().map(|cell| cell.map_or(f32::NAN, |cell| cell as f32)).collect()
                }
                _ => break,
            };
            if let Some(at) = targets.iter().position(|target| !target.is_finite()) {
                return Err(self.table.wrong_cell(column, first + at as u64, NOT_FINITE));
            }
            writer.write(&targets)?;
        }
        writer.finish().map(drop)
    }

    fn splits(&self) -> Result<[Vec<i64>; 3], GraphError> {
        let mut splits = [Vec::new(), Vec::new(), Vec::new()];
        let Some(column) = &self.split else { return Ok(splits) };
        let mut stream = self.table.stream(column);
        loop {
            let first = stream.row();
            let Some(Cells::Text(cells)) = stream.cells(CHUNK)? else { return Ok(splits) };
            for (row, cell) in (first..).zip(cells) {
                let split = match cell.as_ref().map(|cell| cell.data()) {
                    None | Some(b"" | b"none") => continue,
                    Some(b"train") => 0,
                    Some(b"valid" | b"val" | b"validation") => 1,
                    Some(b"test") => 2,
                    Some(other) => {
                        let problem =
                            format!("'{}' is no split: train, valid, test, none or null", shown(other));
                        return Err(self.table.wrong_cell(column, row, problem));
                    }
                };
                splits[split].push(row.cast_signed());
            }
        }
    }
}
