//! Predictions as a table: a row for each node, with its id, its name and its prediction.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use uva_graph::Dataset;
use uva_graph::npy::NpyRows;
use uva_io::table::{ColumnType, ColumnValues, FileTableWriter, TableFormat};
use uva_launch::training::InferenceNodes;
use uva_mem::files::Replacement;
use uva_model::{TableRow, TaskKind};

use super::rows::PredictedNodes;
use super::source_names::SourceNames;
use super::written::WrittenFile;
use crate::exit;

/// Bytes of predictions in memory at a time.
const PIECE: usize = 8 << 20;

/// A table to write, with the names of nodes and classes.
pub(super) struct PredictionTable {
    path: PathBuf,
    format: TableFormat,
    overwrite: bool,
    rows: PredictedNodes,
    row: TableRow,
    /// The user's id of each node, if it differs from the position in the dataset.
    ids: Option<Vec<i64>>,
    names: Option<SourceNames>,
    /// A name for each output, if the dataset has names of classes.
    classes: Option<Vec<String>>,
}

impl PredictionTable {
    /// # Errors
    /// Bad input: the dataset's names of nodes cannot be read.
    pub(super) fn of(
        (path, format): (&Path, TableFormat),
        row: TableRow,
        (dataset, nodes): (&Dataset, &InferenceNodes),
        overwrite: bool,
    ) -> anyhow::Result<Self> {
        let ids = dataset.original_ids().map(<[i64]>::to_vec);
        let names = SourceNames::of(dataset)?;
        let classes = dataset.meta().class_names.as_ref().and_then(|names| labels(names, row.outputs));
        let rows = PredictedNodes::new(nodes, dataset.nodes_of(dataset.seed_type()));
        Ok(Self { path: path.to_owned(), format, overwrite, rows, row, ids, names, classes })
    }

    /// Writes the table, not yet under its final name. `progress` receives the number of rows done and the total;
    /// `None` stops the writing.
    ///
    /// # Errors
    /// The file cannot be written, or a file with the name exists and may not be replaced.
    pub(super) fn written(
        &self,
        answers: &NpyRows,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> anyhow::Result<Option<WrittenFile>> {
        let failed = |error: std::io::Error| exit::of_output("--output", &self.path, error);
        let mut file = Replacement::of(&self.path, 0o666).map_err(failed)?;
        let mut table = FileTableWriter::new(file.file(), self.format, &self.columns()).map_err(failed)?;
        let piece = (PIECE / self.row.bytes()).clamp(256, 1 << 16);
        let mut done = 0;
        for nodes in self.rows.pieces(piece) {
            if !progress(done, self.rows.count() as u64) {
                return Ok(None);
            }
            let mut bytes = vec![0; nodes.len() * self.row.bytes()];
            answers.read(done, &mut bytes)?;
            table.write(&self.values(&nodes, &bytes)).map_err(failed)?;
            done += nodes.len() as u64;
        }
        table.finish().map_err(failed)?;
        // The predictions that the table was made from are removed once the table has its name.
        file.file().sync_all().map_err(failed)?;
        WrittenFile::new("--output", file, self.overwrite).map(Some)
    }

    fn columns(&self) -> Vec<(String, ColumnType)> {
        let mut columns = vec![("id".to_owned(), ColumnType::Integer)];
        match &self.names {
            Some(SourceNames::Numbers(_)) => columns.push(("name".to_owned(), ColumnType::Integer)),
            Some(SourceNames::Texts(_)) => columns.push(("name".to_owned(), ColumnType::Text)),
            None => {}
        }
        let outputs = 0..self.row.outputs;
        let label = |class: usize| match &self.classes {
            Some(names) => names[class].clone(),
            None => class.to_string(),
        };
        let each = |what: &'static str, kind| {
            outputs.clone().map(move |class| (format!("{what}_{}", label(class)), kind))
        };
        match self.row.kind {
            TaskKind::SingleLabel => {
                let kind = if self.classes.is_some() { ColumnType::Text } else { ColumnType::Integer };
                columns.push(("class".to_owned(), kind));
                columns.extend(each("probability", ColumnType::Real));
            }
            TaskKind::MultiLabel => {
                columns.extend(each("label", ColumnType::Integer));
                columns.extend(each("probability", ColumnType::Real));
            }
            TaskKind::Regression(_) if self.row.outputs == 1 => {
                columns.push(("prediction".to_owned(), ColumnType::Real));
            }
            TaskKind::Regression(_) => {
                columns
                    .extend(outputs.clone().map(|column| (format!("prediction_{column}"), ColumnType::Real)));
            }
        }
        columns
    }

    /// The values of these nodes' rows, whose predictions are `bytes`.
    fn values(&self, nodes: &[i64], bytes: &[u8]) -> Vec<ColumnValues<'_>> {
        let (outputs, class_bytes) = (self.row.outputs, self.row.class_bytes());
        let rows = || bytes.chunks_exact(self.row.bytes());
        let of_nodes = |known: &[i64]| nodes.iter().map(|&node| known[node as usize]).collect();
        let mut values =
            vec![ColumnValues::Integers(self.ids.as_deref().map_or_else(|| nodes.to_vec(), of_nodes))];
        match &self.names {
            Some(SourceNames::Numbers(numbers)) => values.push(ColumnValues::Integers(of_nodes(numbers))),
            Some(SourceNames::Texts(names)) => {
                values
                    .push(ColumnValues::Texts(nodes.iter().map(|&node| names.name(node as usize)).collect()));
            }
            None => {}
        }
        match self.row.kind {
            TaskKind::SingleLabel => {
                let class = |row: &[u8]| row.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes));
                let classes = rows().map(class);
                values.push(match &self.classes {
                    Some(names) => {
                        ColumnValues::Texts(classes.map(|class| &names[class as usize][..]).collect())
                    }
                    None => ColumnValues::Integers(classes.collect()),
                });
            }
            TaskKind::MultiLabel => {
                let labels = |class: usize| rows().map(|row| i64::from(row[class])).collect();
                values.extend((0..outputs).map(|class| ColumnValues::Integers(labels(class))));
            }
            TaskKind::Regression(_) => {}
        }
        let real = |row: &[u8], output: usize| {
            row[class_bytes + 4 * output..].first_chunk().map_or(0.0, |bytes| f32::from_le_bytes(*bytes))
        };
        let reals = |output: usize| rows().map(|row| real(row, output)).collect();
        values.extend((0..outputs).map(|output| ColumnValues::Reals(reals(output))));
        values
    }
}

/// A column name for each output of a model: the class names, and numbers for further outputs. `None` if two names
/// would be the same.
fn labels(names: &[String], outputs: usize) -> Option<Vec<String>> {
    let name = |class: usize| names.get(class).cloned().unwrap_or_else(|| class.to_string());
    let labels: Vec<String> = (0..outputs).map(name).collect();
    (labels.iter().collect::<HashSet<_>>().len() == outputs).then_some(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_without_a_name_of_their_own_have_numbers() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(labels(&names(&["a", "b"]), 3), Some(names(&["a", "b", "2"])));
        assert_eq!(labels(&names(&["a", "a"]), 2), None);
        assert_eq!(labels(&names(&["1", "b"]), 2), Some(names(&["1", "b"])));
    }
}
