//! Labels out of several files of one dataset: those of the sets, and those of all nodes.

use std::path::PathBuf;

use uva_graph::{GraphError, names};

use crate::import::formats::npy::typed::ImportedLabels;
use crate::import::reading::stream::ArrayStream;
use crate::import::writing::output::{DatasetOutput, MarkedRows, next_classes, next_marks};

/// The source of labels.
pub(super) enum GraphboltLabels {
    /// For all nodes, in a file.
    Table(ArrayStream),
    Collected(Collected),
    Absent,
}

impl GraphboltLabels {
    pub(super) fn row_bytes(&self) -> u64 {
        match self {
            GraphboltLabels::Table(table) => match *table.shape() {
                [_, columns] if columns > 1 => columns as u64,
                _ => 8,
            },
            GraphboltLabels::Collected(Collected { values: Values::Classes(_), .. }) => 8,
            GraphboltLabels::Collected(Collected { values: Values::Marks { columns, .. }, .. }) => {
                *columns as u64
            }
            GraphboltLabels::Absent => 0,
        }
    }

    pub(super) fn write(
        self,
        output: &DatasetOutput<'_>,
        nodes: u64,
        classes: Option<u64>,
    ) -> Result<(), GraphError> {
        match self {
            GraphboltLabels::Table(table) => output.labels(table, nodes, classes),
            GraphboltLabels::Absent => Ok(()),
            GraphboltLabels::Collected(labels) => {
                labels.finish(&|line| output.note(line)).write(&output.path(names::LABELS))
            }
        }
    }
}

/// The labels read so far.
pub(super) struct Collected {
    values: Values,
    /// The file that labels each node: its index in `files` plus 1.
    labelled_by: Vec<u8>,
    files: Vec<PathBuf>,
}

enum Values {
    /// −1 for none.
    Classes(Vec<i64>),
    /// Zeros and ones, `columns` per node.
    Marks { columns: usize, marks: Vec<u8> },
}

impl Collected {
    /// Creates an empty collection with `columns` columns.
    pub(super) fn new(nodes: u64, columns: usize) -> Collected {
        let nodes = nodes as usize;
        let values = match columns {
            1 => Values::Classes(vec![-1; nodes]),
            columns => Values::Marks { columns, marks: vec![0; nodes * columns] },
        };
        Collected { values, labelled_by: vec![0; nodes], files: Vec::new() }
    }

    /// Adds those of a file: entry k is the label of the k-th of `ids`, or of node k.
    ///
    /// # Errors
    /// If the number of columns differs from that of the other files, or a node has a different label in another file.
    pub(super) fn add(
        &mut self,
        mut file: ArrayStream,
        ids: Option<&[i64]>,
        classes: Option<u64>,
    ) -> Result<(), GraphError> {
        let nodes = self.labelled_by.len();
        let rows = ids.map_or(nodes, <[i64]>::len);
        let columns = match *file.shape() {
            [found] | [found, 1] if found == rows => 1,
            [found, columns] if found == rows && columns > 1 => columns,
            _ => return Err(file.wrong_shape(format!("[{rows}], one label for each node"))),
        };
        if let Some(classes) = classes.filter(|&classes| columns > 1 && classes != columns as u64) {
            return Err(
                file.wrong_shape(format!("[{rows}, {classes}], since the task has {classes} classes"))
            );
        }
        self.files.push(file.place().to_owned());
        let number = self.files.len() as u8;
        let node_of = |row: usize| ids.map_or(row, |ids| ids[row] as usize);
        let mut row = 0;
        match &mut self.values {
            Values::Classes(all) if columns == 1 => loop {
                let chunk = next_classes(&mut file, classes)?;
                if chunk.is_empty() {
                    return Ok(());
                }
                for (at, &label) in chunk.iter().enumerate() {
                    let node = node_of(row);
                    row += 1;
                    let by = &mut self.labelled_by[node];
                    // A missing label in one file does not contradict another file.
                    if label < 0 || (*by > 0 && all[node] == label) {
                        continue;
                    }
                    if *by > 0 {
                        let other = self.files[usize::from(*by) - 1].display();
                        let problem = format!("the label of node {node}, which is {} in {other}", all[node]);
                        return Err(file.wrong_entry(chunk.len() - at, label, problem));
                    }
                    (*by, all[node]) = (number, label);
                }
            },
            Values::Marks { columns: wide, marks } if columns == *wide => {
                let mut of_row = Vec::with_capacity(columns);
                loop {
                    let chunk = next_marks(&mut file)?;
                    if chunk.is_empty() {
                        return Ok(());
                    }
                    for (at, &mark) in chunk.iter().enumerate() {
                        of_row.push(mark);
                        if of_row.len() < columns {
                            continue;
                        }
                        let node = node_of(row);
                        row += 1;
                        let (by, kept) =
                            (&mut self.labelled_by[node], &mut marks[node * columns..][..columns]);
                        if of_row.contains(&1) {
                            if *by > 0 && *kept != of_row {
                                let other = self.files[usize::from(*by) - 1].display();
                                let problem = format!("of node {node}, whose classes are others in {other}");
                                return Err(file.wrong_entry(chunk.len() - at, mark, problem));
                            }
                            *by = number;
                            kept.copy_from_slice(&of_row);
                        }
                        of_row.clear();
                    }
                }
            }
            _ => Err(file.wrong_shape("as wide as those of the other sets")),
        }
    }

    /// All of them. A line if no row marks more than one class.
    pub(super) fn finish(self, note: &dyn Fn(&str)) -> ImportedLabels {
        match self.values {
            Values::Classes(labels) => ImportedLabels::Single(labels),
            Values::Marks { columns, marks } => {
                let mut rows = MarkedRows::new(columns);
                rows.see(&marks);
                if let Some(file) = self.files.last() {
                    rows.say_one_hot(note, file);
                }
                ImportedLabels::Multi { classes: columns, marks }
            }
        }
    }
}
