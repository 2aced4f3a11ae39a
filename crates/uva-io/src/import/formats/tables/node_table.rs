//! The table of nodes.

use uva_files::quote::{listed, shown};
use uva_graph::{ElementType, GraphError};

use super::feature_columns::FeatureColumns;
use super::id_cells::{AS_SOURCES, IdCell, IdCells, id_column, ids_of, take_ids};
use super::labels;
use super::table::{CellType, Cells, SourceTable, TableColumn};
use crate::import::options::{Ids, TableColumns};
use crate::import::reading::nodes::NodeRange;
use crate::import::reading::unread_parts;
use crate::import::writing::array_target::ArrayTarget;
use crate::import::writing::numbering::{DuplicateId, Numbering, Survey};
use crate::import::writing::output::{CHUNK, no_labels};

const IDS: [&str; 3] = ["id", "node_id", "node"];
const LABELS: [&str; 6] = ["label", "labels", "y", "node_label", "class", "target"];
const SPLITS: [&str; 1] = ["split"];

pub(super) struct NodeTable {
    table: Box<dyn SourceTable>,
    id: TableColumn,
    /// Whether the id column was chosen because it comes first.
    by_place: bool,
    features: Option<FeatureColumns>,
    label: Option<TableColumn>,
    split: Option<TableColumn>,
}

impl NodeTable {
    pub(super) fn new(table: Box<dyn SourceTable>, named: &TableColumns) -> Result<NodeTable, GraphError> {
        let given = |name: &String, option| {
            table.find(&[name]).ok_or_else(|| {
                let found = listed(table.columns().iter().map(|column| &column.name));
                let place = table.path().display();
                GraphError::usage(option, format!("{place} has no column {}: it has {found}", shown(name)))
            })
        };
        let label = match &named.label {
            Some(name) => Some(given(name, "label")?),
            None => table.find(&LABELS),
        };
        let by_name = match &named.node_id {
            Some(name) => Some(given(name, "node_id")?),
            None => table.find(&IDS),
        };
        let by_place = table.is_text() && by_name.is_none();
        let id = match (by_name, table.columns()) {
            (Some(column), _) => column,
            (None, [first, ..]) if by_place => first.clone(),
            _ => table.required(&IDS)?,
        };
        let id = id_column(&*table, id)?;
        let label = label.filter(|label| named.label.is_some() || label.place != id.place);
        let numbers = [CellType::Integer, CellType::Float, CellType::Double, CellType::Text, CellType::Empty];
        let label = label.map(|column| table.of_kind(column, &numbers, "integers, float, double or text"));
        let label = label.transpose()?;
        let split = table.find(&SPLITS).filter(|split| split.place != id.place);
        let split = split.map(|column| match table.is_text() {
            true => Ok(TableColumn { kind: CellType::Text, ..column }),
            false => table.of_kind(column, &[CellType::Text], "text"),
        });
        let split = split.transpose()?;
        let read: Vec<&TableColumn> = [&id].into_iter().chain(&label).chain(&split).collect();
        let others = [&IDS[..], &LABELS, &SPLITS].concat();
        let features = FeatureColumns::of_nodes(&*table, &read, &others)?;
        Ok(NodeTable { table, id, by_place, features, label, split })
    }

    /// The table of a node type, which may lack the columns of the options.
    pub(super) fn new_of_type(
        table: Box<dyn SourceTable>,
        named: &TableColumns,
    ) -> Result<NodeTable, GraphError> {
        let there = |name: &Option<String>| name.clone().filter(|name| table.find(&[name]).is_some());
        let named = TableColumns { node_id: there(&named.node_id), label: there(&named.label) };
        NodeTable::new(table, &named)
    }

    /// The kind of the ids.
    pub(super) fn ids(&self) -> Ids {
        ids_of(&self.id)
    }

    /// Reads the ids as this kind.
    pub(super) fn take_ids(&mut self, ids: Ids) -> Result<(), GraphError> {
        take_ids(&*self.table, &mut self.id, ids, AS_SOURCES)
    }

    /// Reports the columns that are read by position or type, and those that are not read.
    pub(super) fn say_columns(&self, note: &dyn Fn(&str)) {
        let place = self.table.path().display();
        if self.by_place {
            note(&format!(
                "{place}: the first column, {}, has the ids of the nodes: no column is called {}",
                shown(&self.id.name),
                IDS.join(", ")
            ));
        }
        if let Some(features) = self.features.as_ref().filter(|_| self.table.is_text()) {
            note(&format!("{place}: features of the nodes are {}", features.listed()));
        }
        let features = self.features.iter().flat_map(|features| features.columns());
        let read = features.chain([&self.id]).chain(&self.label).chain(&self.split);
        unread_parts::say(note, self.table.path(), &self.table.others(&read.collect::<Vec<_>>()));
    }

    /// Maps each id to its node: row k is node k. `called`: the name of the table, for messages.
    pub(super) fn numbering(&self, called: &str) -> Result<Numbering, GraphError> {
        let mut rows = self.table.read(&[&self.id]);
        let mut numbers = Vec::new();
        let mut names = Survey::new(Ids::Name);
        loop {
            let first_row = rows.row();
            let Some(cells) = rows.cells(CHUNK)? else { break };
            let ids = IdCells { table: &*self.table, column: &self.id, first_row, cells: &cells[0] };
            for at in 0..ids.len() {
                match ids.get(at)? {
                    IdCell::Number(id) => numbers.push(id),
                    IdCell::Name(id) => {
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
        let numbering = match self.ids() {
            Ids::Name => names.finish(),
            Ids::Number if numbers.iter().copied().eq(0..self.table.rows().cast_signed()) => {
                let nodes = self.table.rows();
                Numbering::Dense(NodeRange::new(nodes, format!("{called} has {nodes} rows")))
            }
            Ids::Number => Numbering::of_numbers(numbers).map_err(|DuplicateId { second, id, .. }| {
                self.table.wrong_cell(&self.id, second, format!("{id} is the id of an earlier node"))
            })?,
        };
        Ok(numbering.said_by(called.to_owned()))
    }

    pub(super) fn rows(&self) -> u64 {
        self.table.rows()
    }

    /// Values of a row of features; `None` without features.
    pub(super) fn feature_width(&self) -> Option<u64> {
        self.features.as_ref().map(FeatureColumns::width)
    }

    /// The stored type of the features, unless they become float8.
    pub(super) fn feature_element(&self) -> Option<ElementType> {
        self.features.as_ref().map(FeatureColumns::element)
    }

    pub(super) fn has_label(&self) -> bool {
        self.label.is_some()
    }

    pub(super) fn has_split(&self) -> bool {
        self.split.is_some()
    }

    /// Writes the features. Returns their type; a note if there are none.
    pub(super) fn write_features(&self, place: &dyn ArrayTarget) -> Result<Option<ElementType>, GraphError> {
        self.features.as_ref().map(|features| features.write(&*self.table, place)).transpose()
    }

    /// A note that the table has no features.
    pub(super) fn no_features(&self) -> String {
        FeatureColumns::missing(&*self.table)
    }

    /// Writes the labels. With `regression`, they are float32 targets. Returns the names of the classes, if labels are text.
    pub(super) fn write_labels(
        &self,
        place: &dyn ArrayTarget,
        regression: bool,
    ) -> Result<Option<Vec<String>>, GraphError> {
        match &self.label {
            Some(column) if regression => labels::write_targets(&*self.table, column, place)?,
            Some(column) if column.kind == CellType::Text => {
                return labels::write_names(&*self.table, column, place).map(Some);
            }
            Some(column) => labels::write_classes(&*self.table, column, place)?,
            None => place.note(&no_labels(self.table.path(), &LABELS)),
        }
        Ok(None)
    }

    pub(super) fn splits(&self) -> Result<[Vec<i64>; 3], GraphError> {
        let mut splits = [Vec::new(), Vec::new(), Vec::new()];
        let Some(column) = &self.split else { return Ok(splits) };
        let mut rows = self.table.read(&[column]);
        loop {
            let first = rows.row();
            let cells = rows.cells(CHUNK)?;
            let Some([Cells::Text(cells)]) = cells.as_deref() else { return Ok(splits) };
            for (row, cell) in (first..).zip(cells.iter()) {
                let split = match cell {
                    None | Some(b"" | b"none") => continue,
                    Some(b"train") => 0,
                    Some(b"valid" | b"val" | b"validation") => 1,
                    Some(b"test") => 2,
                    Some(other) => {
                        let problem = format!(
                            "invalid split '{}': expected train, valid, test, none or null",
                            shown(other)
                        );
                        return Err(self.table.wrong_cell(column, row, problem));
                    }
                };
                splits[split].push(row.cast_signed());
            }
        }
    }
}
