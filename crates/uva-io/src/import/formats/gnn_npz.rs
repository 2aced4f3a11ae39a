//! The `.npz` files of the gnn-benchmark collection (Shchur et al. 2018; Bojchevski and Günnemann 2018): a graph as one
//! archive of arrays.
//!
//! | arrays | what |
//! |---|---|
//! | `adj_data`, `adj_indices`, `adj_indptr`, `adj_shape` | the adjacency matrix [N, N] in compressed rows: row i, column j is an edge from i to j; a stored 0 is not an edge |
//! | `attr_data`, `attr_indices`, `attr_indptr`, `attr_shape`, or `attr_matrix` | features [N, F], in compressed rows or dense; if absent, every node has one feature, 1 |
//! | `labels`, or `labels_data`, `labels_indices`, `labels_indptr`, `labels_shape` | a class [N], or marks [N, C], dense or in compressed rows; optional |
//!
//! `adj_matrix.data` and similar names are accepted as well. Names of nodes, attributes and classes are not read.

use serde_json::{Map, json};
use uva_graph::npy::{NpyType, write_array};
use uva_graph::{ElementType, GraphError, Meta, names};

use super::planetoid::UNDIRECTED;
use crate::import::importer::{Importer, SourceKind};
use crate::import::reading::features::{FeatureSource, feature_type};
use crate::import::reading::nodes::NodeRange;
use crate::import::reading::stream::{Archive, ArrayStream};
use crate::import::reading::unread_parts;
use crate::import::reading::values::fits_float32;
use crate::import::request::ImportRequest;
use crate::import::split::SplitRule;
use crate::import::writing::output::{
    CHUNK, DatasetOutput, DatasetSizes, FeaturesOf, MarkedRows, feature_columns, label_columns, next_classes,
    next_marks, no_labels,
};

/// More columns than any such matrix has; prevents a wrong shape from requesting a row of terabytes.
const MOST_COLUMNS: i64 = 1 << 24;

/// The row in the table.
pub(crate) const IMPORTER: Importer = Importer {
    name: "gnn-npz",
    help: "A .npz of the gnn-benchmark collection: amazon_computers, coauthor_cs, ...",
    source: SourceKind::File("one .npz file of the gnn-benchmark collection"),
    takes: &[],
    import,
};

/// Imports one archive.
fn import(request: &ImportRequest<'_>) -> Result<(), GraphError> {
    let changes = request.options.changes(UNDIRECTED);
    let archive = Archive::open(request.source)?;
    let mut adjacency = Rows::open(&archive, &["adj", "adj_matrix"])?
        .ok_or_else(|| missing(&archive, "adjacency matrix", "adj_indptr"))?;
    let nodes = adjacency.rows();
    if adjacency.columns != nodes {
        let message = format!("the adjacency matrix has {nodes} rows and {} columns", adjacency.columns);
        return Err(GraphError::usage(archive.path().display().to_string(), message));
    }
    let features = Features::open(&archive, nodes)?;
    let labels = Labels::read(&archive, nodes, request)?;
    let rule = match &labels {
        labels if labels.are_missing() => SplitRule::None,
        Labels::Single(_) => SplitRule::PER_CLASS,
        Labels::Multi { .. } => SplitRule::RANDOM,
    };

    let sizes = DatasetSizes {
        nodes: Some(nodes),
        edges: Some(adjacency.indices.len()),
        feature_row_bytes: features.row_bytes(),
        label_row_bytes: 8,
        ..DatasetSizes::default()
    };
    unread_parts::say(request.watch.note, archive.path(), &archive.unread());
    let output = DatasetOutput::begin(request, sizes, changes)?;
    let mut lists = output.lists(nodes, false)?;
    let mut weights = 0_u64;
    adjacency.each(|source, destination, value| {
        weights += u64::from(value != 0.0 && value != 1.0);
        if value != 0.0 { lists.push(source, destination, 0.0) } else { Ok(()) }
    })?;
    if weights > 0 {
        let place = adjacency.values.place().display();
        output.note(&format!("{place}: {weights} entries are neither 0 nor 1, and weights are not kept"));
    }
    output.finish_lists(lists)?;
    let element = features.write(&output, nodes)?;
    match &labels {
        labels if labels.are_missing() => {}
        Labels::Single(labels) => write_array(&output.path(names::LABELS), NpyType::I64, &[], labels)?,
        Labels::Multi { classes, marks } => {
            write_array(&output.path(names::LABELS), NpyType::U8, &[*classes], marks)?;
        }
    }
    output.splits_by(rule);
    let stem = request.source.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    output.finish(Meta {
        name: request.options.name.clone().or(stem),
        classes: labels.classes(),
        feat_dtype: Some(element.name().to_owned()),
        other: Map::from_iter([("source".to_owned(), json!("gnn-npz"))]),
        ..Meta::default()
    })
}

fn missing(archive: &Archive, what: &str, name: &str) -> GraphError {
    let message = format!("{} has no {what}: no array {name}", archive.path().display());
    GraphError::usage("SRC", message)
}

/// A matrix in compressed rows, with only the row ends in memory.
struct Rows {
    /// The end of each row, 0 first.
    ends: Vec<i64>,
    columns: u64,
    indices: ArrayStream,
    values: ArrayStream,
}

impl Rows {
    /// The matrix under the first existing name of `names`.
    fn open(archive: &Archive, names: &[&str]) -> Result<Option<Rows>, GraphError> {
        for name in names {
            for dot in ["_", "."] {
                let part = |part: &str| format!("{name}{dot}{part}");
                if archive.has(&part("indptr")) {
                    let array = |name: &str| archive.array(&part(name));
                    return Rows::new(array("shape")?, array("indptr")?, array("indices")?, array("data")?)
                        .map(Some);
                }
            }
        }
        Ok(None)
    }

    fn new(
        mut shape: ArrayStream,
        mut indptr: ArrayStream,
        indices: ArrayStream,
        values: ArrayStream,
    ) -> Result<Rows, GraphError> {
        let axes = shape.integers(3)?;
        let &[rows, columns @ 0..=MOST_COLUMNS] = axes.as_slice() else {
            return Err(shape.wrong_entry(
                1,
                format!("{axes:?}"),
                "no [rows, columns] of a matrix read here",
            ));
        };
        for array in [&indptr, &indices, &values] {
            if array.shape().len() != 1 {
                return Err(array.wrong_shape("one-dimensional"));
            }
        }
        if i128::from(indptr.len()) != i128::from(rows) + 1 {
            return Err(indptr.wrong_shape(format!("[{rows} + 1], one entry more than the matrix has rows")));
        }
        if values.len() != indices.len() {
            return Err(values.wrong_shape(format!("[{}], as long as the indices", indices.len())));
        }
        let ends = indptr.all_integers()?;
        let wrong = |at: usize, wanted: String| indptr.wrong_entry(ends.len() - at, ends[at], wanted);
        if ends[0] != 0 {
            return Err(wrong(0, "it has to be 0".to_owned()));
        }
        if let Some(before) = ends.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(wrong(before + 1, format!("less than the {} before it", ends[before])));
        }
        if ends[ends.len() - 1] as u64 != indices.len() {
            return Err(wrong(ends.len() - 1, format!("but there are {} indices", indices.len())));
        }
        Ok(Rows { ends, columns: columns as u64, indices, values })
    }

    fn rows(&self) -> u64 {
        self.ends.len() as u64 - 1
    }

    /// Calls `work` with row, column and value of every stored entry, row after row.
    fn each(
        &mut self,
        mut work: impl FnMut(u64, u64, f64) -> Result<(), GraphError>,
    ) -> Result<(), GraphError> {
        let ids = NodeRange::new(self.columns, format!("the matrix has {} columns", self.columns));
        let (mut row, mut at) = (0, 0);
        loop {
            let columns = self.indices.integers(CHUNK)?;
            if columns.is_empty() {
                return Ok(());
            }
            let row_at = |position: u64| {
                let rows = self.ends.partition_point(|&end| end <= position as i64);
                format!("a column of row {}", rows.saturating_sub(1))
            };
            self.indices.check_ids(&columns, &ids, row_at)?;
            for (column, value) in columns.into_iter().zip(self.values.floats(CHUNK)?) {
                while self.ends[row + 1] <= at {
                    row += 1;
                }
                work(row as u64, column as u64, value)?;
                at += 1;
            }
        }
    }

    /// Calls `work` with every dense row; entries of the same column add up, as in scipy.
    fn each_row(&mut self, mut work: impl FnMut(&[f32]) -> Result<(), GraphError>) -> Result<(), GraphError> {
        let rows = self.rows();
        let mut dense = vec![0_f32; self.columns as usize];
        let mut current = 0;
        self.each(|row, column, value| {
            while current < row {
                work(&dense)?;
                dense.fill(0.0);
                current += 1;
            }
            dense[column as usize] += value as f32;
            Ok(())
        })?;
        while current < rows {
            work(&dense)?;
            dense.fill(0.0);
            current += 1;
        }
        Ok(())
    }
}

enum Features {
    Rows(Rows),
    Dense(ArrayStream),
    None,
}

impl Features {
    fn open(archive: &Archive, nodes: u64) -> Result<Features, GraphError> {
        if let Some(rows) = Rows::open(archive, &["attr", "attr_matrix"])? {
            if rows.rows() != nodes || rows.columns == 0 {
                let message = format!(
                    "the attributes are [{}, {}], there are {nodes} nodes",
                    rows.rows(),
                    rows.columns
                );
                return Err(GraphError::usage(archive.path().display().to_string(), message));
            }
            return Ok(Features::Rows(rows));
        }
        let Some(table) = archive.first(&["attr_matrix", "attr"])? else { return Ok(Features::None) };
        feature_columns(&table, Some(nodes))?;
        Ok(Features::Dense(table))
    }

    fn row_bytes(&self) -> u64 {
        match self {
            Features::Rows(rows) => 4 * rows.columns,
            Features::Dense(table) => (table.shape()[1] * feature_type(table.kind(), None).0.bytes()) as u64,
            Features::None => 4,
        }
    }

    fn write(self, output: &DatasetOutput<'_>, nodes: u64) -> Result<ElementType, GraphError> {
        match self {
            Features::Rows(mut rows) => {
                let columns = rows.columns as usize;
                let kind = rows.values.kind();
                if !fits_float32(kind) {
                    output.note(&format!("{}: {kind} becomes float32", rows.values.place().display()));
                }
                let source = FeatureSource { place: rows.values.place().to_owned(), data_offset: None };
                let mut writer =
                    output.feature_writer(FeaturesOf::Nodes, source, NpyType::F32, columns, None)?;
                rows.each_row(|row| writer.write_floats(row))?;
                output.finish_features(writer)
            }
            Features::Dense(table) => output.features(table, nodes, None),
            Features::None => {
                output.note("the archive has no attributes: every node has one feature, 1");
                output.constant_features(nodes)
            }
        }
    }
}

fn say_one_hot(request: &ImportRequest<'_>, labels: &ArrayStream, classes: usize, marks: &[u8]) {
    let mut rows = MarkedRows::new(classes);
    rows.see(marks);
    rows.say_one_hot(request.watch.note, labels.place());
}

enum Labels {
    Single(Vec<i64>),
    Multi { classes: usize, marks: Vec<u8> },
}

impl Labels {
    fn read(archive: &Archive, nodes: u64, request: &ImportRequest<'_>) -> Result<Labels, GraphError> {
        if let Some(mut rows) = Rows::open(archive, &["labels"])? {
            if rows.rows() != nodes || rows.columns == 0 {
                let message =
                    format!("the labels are [{}, {}], there are {nodes} nodes", rows.rows(), rows.columns);
                return Err(GraphError::usage(archive.path().display().to_string(), message));
            }
            let (classes, mut marks) = (rows.columns as usize, Vec::new());
            rows.each_row(|row| {
                if let Some(wrong) = row.iter().find(|&&mark| mark != 0.0 && mark != 1.0) {
                    let message =
                        format!("a mark of node {} is {wrong}, neither 0 nor 1", marks.len() / classes);
                    return Err(GraphError::usage(
                        archive.path().join("labels_data").display().to_string(),
                        message,
                    ));
                }
                marks.extend(row.iter().map(|&mark| mark as u8));
                Ok(())
            })?;
            say_one_hot(request, &rows.values, classes, &marks);
            return Ok(Labels::Multi { classes, marks });
        }
        let Some(mut labels) = archive.first(&["labels"])? else {
            (request.watch.note)(&no_labels(archive.path(), &["labels", "labels_indptr"]));
            return Ok(Labels::Single(vec![-1; nodes as usize]));
        };
        match label_columns(&labels, nodes)? {
            None => {
                let mut all = Vec::new();
                loop {
                    match next_classes(&mut labels, None)? {
                        chunk if chunk.is_empty() => return Ok(Labels::Single(all)),
                        chunk => all.extend(chunk),
                    }
                }
            }
            Some(classes) => {
                let mut marks = Vec::new();
                loop {
                    match next_marks(&mut labels)? {
                        chunk if chunk.is_empty() => {
                            say_one_hot(request, &labels, classes, &marks);
                            return Ok(Labels::Multi { classes, marks });
                        }
                        chunk => marks.extend(chunk),
                    }
                }
            }
        }
    }

    /// Whether there are no labels.
    fn are_missing(&self) -> bool {
        matches!(self, Labels::Single(labels) if labels.iter().all(|&label| label < 0))
    }

    fn classes(&self) -> Option<u64> {
        match self {
            Labels::Single(labels) => {
                let largest = labels.iter().copied().max().unwrap_or(-1);
                u64::try_from(largest + 1).ok().filter(|&classes| classes > 0)
            }
            Labels::Multi { classes, .. } => Some(*classes as u64),
        }
    }
}
