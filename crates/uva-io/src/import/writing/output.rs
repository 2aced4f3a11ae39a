//! The output dataset of an import: the steps shared by all formats.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

use serde_json::json;
use uva_files::staging::StagedDirectory;
use uva_graph::csc::{Changes, CscBuilder, SelfLoops};
use uva_graph::npy::{NpyArray, NpyType, NpyWriter, write_array};
use uva_graph::{
    DATASET, EdgeValues, EdgeValuesSpec, ElementType, GraphError, Meta, Progress, Split, names, verify,
};

use crate::import::options::ImportOptions;
use crate::import::reading::features::{FeatureSource, FeatureWriter};
use crate::import::reading::stream::ArrayStream;
use crate::import::reading::values;
use crate::import::request::{ImportEstimate, ImportRequest, ImportWatch};
use crate::import::split::SplitRule;
use uva_files::disk_space::{self, BytesOnDisk};

/// Elements converted at a time.
pub(crate) const CHUNK: usize = 1 << 16;

/// Bytes of an edge in the temporary file.
const EDGE_BYTES: u64 = 8;

/// Additional bytes of an edge with a row of features: its number.
const NUMBER_BYTES: u64 = 8;

/// Rows of the edges' features that are moved at a time.
const ROWS: usize = 1 << 14;

/// The owner of features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeaturesOf {
    Nodes,
    /// Edge features, in the order of the source. Must be written before [`DatasetOutput::lists`].
    Edges,
}

/// The known sizes of the output.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DatasetSizes {
    pub(crate) nodes: Option<u64>,
    /// The number of edges in the source.
    pub(crate) edges: Option<u64>,
    pub(crate) feature_row_bytes: u64,
    pub(crate) label_row_bytes: u64,
    pub(crate) weighted: bool,
    /// Bytes of an edge's features; 0 without features.
    pub(crate) edge_row_bytes: u64,
    /// Time to read the source, if it is large enough to estimate.
    pub(crate) seconds: Option<f64>,
}

impl DatasetSizes {
    fn estimate(&self, options: &ImportOptions, changes: Changes) -> ImportEstimate {
        let nodes = self.nodes.unwrap_or(0);
        let edges = self.edges.map(|edges| {
            let loops = if changes.self_loops == SelfLoops::Add { nodes } else { 0 };
            edges.saturating_mul(if changes.symmetrise { 2 } else { 1 }).saturating_add(loops)
        });
        let known = edges.unwrap_or(0);
        let id_bytes = if nodes > i32::MAX as u64 { 8 } else { 4 };
        let weight_bytes = if self.weighted { 4 } else { 0 };
        let rows = 8 + self.feature_row_bytes.saturating_add(self.label_row_bytes);
        let edge_rows = known.saturating_mul(self.edge_row_bytes);
        let disk = nodes
            .saturating_mul(rows)
            .saturating_add(known.saturating_mul(id_bytes + weight_bytes))
            .saturating_add(edge_rows);
        let number_bytes = if self.edge_row_bytes > 0 { NUMBER_BYTES } else { 0 };
        let records = known.saturating_mul(EDGE_BYTES + id_bytes - 4 + weight_bytes + number_bytes);
        let in_memory = records <= options.memory / 2;
        ImportEstimate {
            nodes: self.nodes,
            edges,
            disk,
            temporary: edge_rows.saturating_add(if in_memory { 0 } else { records }),
            // The number of edges may be known only after they have been read.
            memory: if in_memory && edges.is_some() {
                (2 * records).min(options.memory)
            } else {
                options.memory
            },
            seconds: self.seconds,
        }
    }
}

/// A dataset being written, before its final rename.
pub(crate) struct DatasetOutput<'r> {
    staged: StagedDirectory,
    request: &'r ImportRequest<'r>,
    changes: Changes,
    /// The files with a row for each edge that have been written, in the order of the source.
    of_edges: RefCell<Vec<&'static str>>,
    /// Whether features of nodes have been written as float8.
    float8: Cell<bool>,
    /// The rule of the splits, if it replaces those of the source.
    rule: Cell<Option<SplitRule>>,
}

impl<'r> DatasetOutput<'r> {
    /// Reports the estimate, and begins.
    ///
    /// # Errors
    /// If the disk has too little space, or the output exists.
    pub(crate) fn begin(
        request: &'r ImportRequest<'r>,
        sizes: DatasetSizes,
        changes: Changes,
    ) -> Result<DatasetOutput<'r>, GraphError> {
        if sizes.nodes == Some(0) {
            let message = format!("{} has no nodes, and a dataset needs one", request.source.display());
            return Err(GraphError::usage("SRC", message));
        }
        request.options.refuse_types()?;
        let estimate = sizes.estimate(request.options, changes);
        // An existing output is refused before anything is reported.
        let staged = StagedDirectory::new(request.out, &DATASET)?;
        (request.watch.estimate)(&estimate);
        let what = format!(
            "the dataset takes {} and its making {} more for a while: make room, name an OUT on another disk, or give more \
             `memory`, so that less goes through the temporary file",
            BytesOnDisk(estimate.disk),
            BytesOnDisk(estimate.temporary),
        );
        disk_space::check(request.out, estimate.disk.saturating_add(estimate.temporary), what)?;
        Ok(DatasetOutput {
            staged,
            request,
            changes,
            of_edges: RefCell::default(),
            float8: Cell::new(false),
            rule: Cell::new(request.options.split),
        })
    }

    /// The temporary directory.
    pub(crate) fn directory(&self) -> &Path {
        self.staged.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.staged.path().join(name)
    }

    /// The sink of the edges.
    pub(crate) fn lists(&self, nodes: u64, weighted: bool) -> Result<CscBuilder, GraphError> {
        let (directory, memory) = (self.staged.path(), self.request.options.memory);
        match self.of_edges.borrow().is_empty() {
            false => CscBuilder::numbered(directory, nodes, weighted, memory),
            true => CscBuilder::new(directory, nodes, self.changes, weighted, memory),
        }
    }

    /// Writes the lists, and the edges' features and types in their order.
    pub(crate) fn finish_lists(&self, builder: CscBuilder) -> Result<u64, GraphError> {
        let progress = self.request.watch.progress;
        let of_edges = self.of_edges.borrow();
        if of_edges.is_empty() {
            return builder.finish(progress);
        }
        let moved = of_edges.iter().map(|name| UnorderedRows::open(name, self));
        let mut moved = moved.collect::<Result<Vec<_>, _>>()?;
        let edges = builder.finish_numbered(progress, &mut |numbers| {
            moved.iter_mut().try_for_each(|rows| rows.write(numbers))
        })?;
        moved.into_iter().try_for_each(|rows| rows.finish(edges))?;
        Ok(edges)
    }

    /// The path of a file with a row for each edge, in the order of the source, until [`Self::finish_lists`]. Must be
    /// written before [`Self::lists`].
    fn unordered_path(&self, name: &'static str) -> PathBuf {
        self.of_edges.borrow_mut().push(name);
        self.path(&unordered(name))
    }

    /// The sink of the edge types, in the order of the source.
    pub(crate) fn edge_types(&self) -> Result<NpyWriter, GraphError> {
        let EdgeValuesSpec { file, kind, .. } = EdgeValues::Types.spec();
        NpyWriter::create(&self.unordered_path(file), *kind, &[])
    }

    /// The callbacks of the import.
    pub(crate) fn watch(&self) -> &ImportWatch<'_> {
        self.request.watch
    }

    /// Progress within a stage of this many parts.
    pub(crate) fn progress(&self, stage: &'static str, done: u64, total: u64) {
        (self.request.watch.progress)(Progress { stage, done, total });
    }

    /// Reports a conversion of source values, in one line.
    pub(crate) fn note(&self, line: &str) {
        (self.request.watch.note)(line);
    }

    /// Copies a table of features [nodes, columns], in its own type if a dataset supports it, else as float32. `said`
    /// is the type in the metadata.
    pub(crate) fn features(
        &self,
        table: ArrayStream,
        nodes: u64,
        said: Option<ElementType>,
    ) -> Result<ElementType, GraphError> {
        let columns = feature_columns(&table, Some(nodes))?;
        let (source, kind) = (table.as_features(), table.kind());
        let writer = self.feature_writer(FeaturesOf::Nodes, source, kind, columns as usize, said)?;
        self.copy_features(table, writer)
    }

    /// Copies a table of edge features, [edges, columns] or [edges].
    pub(crate) fn edge_features(
        &self,
        table: ArrayStream,
        said: Option<ElementType>,
    ) -> Result<ElementType, GraphError> {
        let columns = edge_feature_columns(&table)?;
        let (source, kind) = (table.as_features(), table.kind());
        let writer = self.feature_writer(FeaturesOf::Edges, source, kind, columns as usize, said)?;
        self.copy_features(table, writer)
    }

    fn copy_features(
        &self,
        mut table: ArrayStream,
        mut writer: FeatureWriter,
    ) -> Result<ElementType, GraphError> {
        let (total, mut told) = (table.len(), 0);
        loop {
            let chunk = table.bytes(CHUNK)?;
            if chunk.is_empty() {
                break;
            }
            writer.write(chunk)?;
            if table.position() - told >= 1 << 22 {
                told = table.position();
                self.progress("features", told, total);
            }
        }
        self.finish_features(writer)
    }

    /// Ends a table of features, and reports the number of changed values.
    ///
    /// # Errors
    /// If these are too many.
    pub(crate) fn finish_features(&self, writer: FeatureWriter) -> Result<ElementType, GraphError> {
        let (element, saturated) = writer.finish()?;
        if let Some(line) = saturated {
            self.note(&line);
        }
        Ok(element)
    }

    /// The sink of rows of `columns` features of type `kind`; reports their conversion.
    pub(crate) fn feature_writer(
        &self,
        of: FeaturesOf,
        source: FeatureSource,
        kind: NpyType,
        columns: usize,
        said: Option<ElementType>,
    ) -> Result<FeatureWriter, GraphError> {
        let (path, float8) = match of {
            FeaturesOf::Nodes => {
                (self.path(names::FEATURES), self.request.options.float8.as_ref().map(|float8| float8.value))
            }
            FeaturesOf::Edges => (self.unordered_path(names::EDGE_FEATURES), None),
        };
        if float8.is_some() {
            self.float8.set(true);
        }
        let writer = FeatureWriter::create(&path, source, (kind, said), columns, float8)?;
        if let Some(line) = writer.conversion() {
            self.note(&line);
        }
        Ok(writer)
    }

    /// One feature per node, always 1: for a source without features.
    pub(crate) fn constant_features(&self, nodes: u64) -> Result<ElementType, GraphError> {
        let mut writer = NpyWriter::create(&self.path(names::FEATURES), NpyType::F32, &[1])?;
        let ones = [1_f32; 1024];
        let mut left = nodes;
        while left > 0 {
            let now = left.min(ones.len() as u64);
            writer.write(&ones[..now as usize])?;
            left -= now;
        }
        writer.finish()?;
        Ok(ElementType::F32)
    }

    /// Copies labels. They are one class per node, [nodes] or [nodes, 1], integers or floats with NaN for none. Or they
    /// are zeros and ones, [nodes, classes]. With the option for regression, they are targets.
    pub(crate) fn labels(
        &self,
        mut labels: ArrayStream,
        nodes: u64,
        classes: Option<u64>,
    ) -> Result<(), GraphError> {
        if self.request.options.is_regression() {
            return self.targets(labels, nodes);
        }
        match label_columns(&labels, nodes)? {
            None => {
                let mut writer = NpyWriter::create(&self.path(names::LABELS), NpyType::I64, &[])?;
                loop {
                    let chunk = next_classes(&mut labels, classes)?;
                    if chunk.is_empty() {
                        return writer.finish().map(drop);
                    }
                    writer.write(&chunk)?;
                }
            }
            Some(columns) if classes.is_some_and(|classes| classes != columns as u64) => {
                let classes = classes.unwrap_or_default();
                Err(labels
                    .wrong_shape(format!("[{nodes}, {classes}], since the source has {classes} classes")))
            }
            Some(columns) => {
                let mut writer = NpyWriter::create(&self.path(names::LABELS), NpyType::U8, &[columns])?;
                let mut rows = MarkedRows::new(columns);
                loop {
                    let chunk = next_marks(&mut labels)?;
                    if chunk.is_empty() {
                        rows.say_one_hot(self.request.watch.note, labels.place());
                        return writer.finish().map(drop);
                    }
                    rows.see(&chunk);
                    writer.write(&chunk)?;
                }
            }
        }
    }

    /// Copies targets of regression as float32, [nodes] or [nodes, columns].
    fn targets(&self, mut targets: ArrayStream, nodes: u64) -> Result<(), GraphError> {
        let columns = match *targets.shape() {
            [rows] if rows as u64 == nodes => Vec::new(),
            [rows, columns] if rows as u64 == nodes && columns > 0 => vec![columns],
            _ => return Err(targets.wrong_shape(format!("[{nodes}] or [{nodes}, columns], targets"))),
        };
        if let Some(line) = narrowed_targets(targets.place(), targets.kind()) {
            self.note(&line);
        }
        let mut writer = NpyWriter::create(&self.path(names::LABELS), NpyType::F32, &columns)?;
        loop {
            let chunk = targets.floats(CHUNK)?;
            if chunk.is_empty() {
                return writer.finish().map(drop);
            }
            let written: Vec<f32> = chunk.iter().map(|&value| value as f32).collect();
            if let Some(at) = written.iter().position(|value| !value.is_finite()) {
                return Err(targets.wrong_entry(chunk.len() - at, chunk[at], NOT_FINITE));
            }
            writer.write(&written)?;
        }
    }

    /// Makes the splits by this rule, unless the options have one.
    pub(crate) fn splits_by(&self, rule: SplitRule) {
        self.rule.set(self.request.options.split.or(Some(rule)));
    }

    /// Writes the splits, which have been checked, unless the options have a rule.
    pub(crate) fn splits<I: AsRef<[i64]>>(&self, splits: &[I; 3]) -> Result<(), GraphError> {
        if let Some(rule) = self.rule.get() {
            let [train, valid, test] = splits.each_ref().map(|ids| ids.as_ref().len());
            if train + valid + test > 0 {
                let rule = rule.describe(self.request.options.seed);
                self.note(&format!(
                    "`split`: the source's splits ({train}, {valid} and {test} nodes) are replaced by {rule}"
                ));
            }
            return Ok(());
        }
        self.write_splits(splits)
    }

    fn write_splits<I: AsRef<[i64]>>(&self, splits: &[I; 3]) -> Result<(), GraphError> {
        for (split, ids) in Split::ALL.into_iter().zip(splits) {
            write_array(&self.path(split.file_name()), NpyType::I64, &[], ids.as_ref())?;
        }
        Ok(())
    }

    /// Writes splits by a rule, from the labels that have been written.
    fn divide(&self, rule: SplitRule) -> Result<(), GraphError> {
        let nodes = NpyArray::open(&self.path(names::INDPTR))?.shape()[0] - 1;
        let labels = self.path(names::LABELS);
        let labels = if labels.exists() { Some(NpyArray::open(&labels)?) } else { None };
        let classes = labels.as_ref().filter(|labels| labels.kind() == NpyType::I64);
        let classes = classes.map(|labels| labels.elements::<i64>(NpyType::I64)).transpose()?;
        let splits = rule.divide(nodes, classes, self.request.options.seed)?;
        if rule != SplitRule::None && self.request.options.split.is_some() {
            let [train, valid, test] = splits.each_ref().map(Vec::len);
            let of = if classes.is_some() { "nodes with a label" } else { "nodes" };
            let rule = rule.describe(self.request.options.seed);
            self.note(&format!("splits by {rule}: {train}, {valid} and {test} {of}"));
        }
        self.write_splits(&splits)
    }

    /// Writes `meta.json`, runs a reader's checks on the whole dataset, and renames it to its final name. The sources
    /// have been checked before, so that messages contain their own names and places; an error found here is a bug.
    pub(crate) fn finish(self, mut meta: Meta) -> Result<(), GraphError> {
        if self.float8.get() {
            meta.feat_dtype = Some(ElementType::E4m3.name().to_owned());
        }
        if let Some(rule) = self.rule.get() {
            self.divide(rule)?;
            meta.other.insert("split".to_owned(), json!(rule.describe(self.request.options.seed)));
        }
        meta.write(self.staged.path())?;
        self.progress("checks", 0, 1);
        verify::directory(self.staged.path())?;
        Ok(self.staged.commit()?)
    }
}

/// A line about targets whose type float32 does not hold exactly.
pub(crate) fn narrowed_targets(place: &Path, kind: NpyType) -> Option<String> {
    let exact =
        [NpyType::Bool, NpyType::U8, NpyType::I8, NpyType::U16, NpyType::I16, NpyType::F16, NpyType::F32];
    (!exact.contains(&kind)).then(|| format!("{}: targets of {kind} become float32", place.display()))
}

/// Rows of zeros and ones, and whether they mark one class each.
pub(crate) struct MarkedRows {
    columns: usize,
    /// Values of the row so far, and how many of them are 1.
    seen: usize,
    ones: usize,
    /// Whether a row has a 1, and whether one has several.
    any: bool,
    several: bool,
}

impl MarkedRows {
    pub(crate) fn new(columns: usize) -> MarkedRows {
        MarkedRows { columns, seen: 0, ones: 0, any: false, several: false }
    }

    /// Further values, row after row.
    pub(crate) fn see(&mut self, marks: &[u8]) {
        for &mark in marks {
            self.ones += usize::from(mark == 1);
            self.any |= mark == 1;
            self.several |= self.ones > 1;
            self.seen += 1;
            if self.seen == self.columns {
                (self.seen, self.ones) = (0, 0);
            }
        }
    }

    /// Adds a note if no row marks more than one class.
    pub(crate) fn say_one_hot(&self, note: &dyn Fn(&str), place: &Path) {
        if self.any && !self.several {
            note(&format!(
                "{}: no row marks more than one class, and the labels are those of several a node: give the number of the \
                 class instead where a node has one",
                place.display()
            ));
        }
    }
}

/// The fault of a target of regression.
pub(crate) const NOT_FINITE: &str = "not a finite float32, which targets of regression must be";

/// The note about a source without labels.
pub(crate) fn no_labels(source: &std::path::Path, names: &[&str]) -> String {
    format!(
        "{} has no labels (none of {}): the dataset has none, and everything but train and evaluate works",
        source.display(),
        names.join(", ")
    )
}

/// Checks the shape of a table of features; returns the number of columns.
pub(crate) fn feature_columns(table: &ArrayStream, nodes: Option<u64>) -> Result<u64, GraphError> {
    match *table.shape() {
        [rows, columns] if columns > 0 && nodes.is_none_or(|nodes| rows as u64 == nodes) => {
            Ok(columns as u64)
        }
        _ => Err(table.wrong_shape(match nodes {
            Some(nodes) => format!("[{nodes}, features]"),
            None => "[nodes, features]".to_owned(),
        })),
    }
}

/// Checks the shape of a table of the edges' features; returns the number of columns.
pub(crate) fn edge_feature_columns(table: &ArrayStream) -> Result<u64, GraphError> {
    match *table.shape() {
        [_] => Ok(1),
        [_, columns] if columns > 0 => Ok(columns as u64),
        _ => Err(table.wrong_shape("[edges, features], or [edges]")),
    }
}

/// The name of a file with a row for each edge before the rows are in the order of the lists.
fn unordered(name: &str) -> String {
    name.replace(".npy", ".temporary")
}

/// A file with a row for each edge while its rows are moved into the order of the lists.
struct UnorderedRows {
    name: &'static str,
    array: NpyArray,
    row_bytes: usize,
    writer: NpyWriter,
    moved: Vec<u8>,
}

impl UnorderedRows {
    fn open(name: &'static str, output: &DatasetOutput<'_>) -> Result<Self, GraphError> {
        let array = NpyArray::open(&output.path(&unordered(name)))?;
        let row_shape = &array.shape()[1..];
        let row_bytes = row_shape.iter().product::<usize>() * array.kind().bytes();
        let writer = NpyWriter::create(&output.path(name), array.kind(), row_shape)?;
        Ok(Self { name, array, row_bytes, writer, moved: Vec::new() })
    }

    /// Writes the rows of the edges with these numbers in the source.
    fn write(&mut self, numbers: &[u64]) -> Result<(), GraphError> {
        let Self { name, array, row_bytes, writer, moved } = self;
        for numbers in numbers.chunks(ROWS) {
            moved.clear();
            for &number in numbers {
                let at = number as usize * *row_bytes;
                match array.bytes().get(at..at + *row_bytes) {
                    Some(row) => moved.extend_from_slice(row),
                    None => return Err(wrong_number_of_rows(name, array.shape()[0])),
                }
            }
            writer.write_bytes(moved)?;
        }
        Ok(())
    }

    /// Ends the file, and removes the one in the order of the source.
    fn finish(self, edges: u64) -> Result<(), GraphError> {
        let rows = self.array.shape()[0];
        if edges != rows as u64 {
            return Err(wrong_number_of_rows(self.name, rows));
        }
        self.writer.finish()?;
        let path = self.array.path();
        std::fs::remove_file(path).map_err(GraphError::io(path, "remove"))
    }
}

fn wrong_number_of_rows(name: &str, rows: usize) -> GraphError {
    let message = match name {
        names::EDGE_FEATURES => {
            format!("its edges have {rows} rows of features, and a row for each is needed")
        }
        _ => format!("{name} has {rows} entries, and one for each edge is needed"),
    };
    GraphError::usage("SRC", message)
}

/// Checks the shape of labels for this many nodes; returns the number of columns if nodes may have several classes.
pub(crate) fn label_columns(labels: &ArrayStream, nodes: u64) -> Result<Option<usize>, GraphError> {
    match *labels.shape() {
        [rows] | [rows, 1] if rows as u64 == nodes => Ok(None),
        [rows, columns] if rows as u64 == nodes && columns > 1 => Ok(Some(columns)),
        _ => Err(labels.wrong_shape(format!("[{nodes}] (one class a node) or [{nodes}, classes] (several)"))),
    }
}

/// The next labels, as classes.
pub(crate) fn next_classes(labels: &mut ArrayStream, classes: Option<u64>) -> Result<Vec<i64>, GraphError> {
    let limit = classes.map_or(i64::from(u32::MAX), |classes| classes as i64);
    let chunk = match labels.kind() {
        NpyType::F16 | NpyType::F32 | NpyType::F64 => {
            let chunk = labels.floats(CHUNK)?;
            let classes: Option<Vec<i64>> = chunk.iter().map(|&value| values::class(value)).collect();
            match classes {
                Some(classes) => classes,
                None => {
                    let at = chunk.iter().position(|&value| values::class(value).is_none()).unwrap_or(0);
                    let what = "neither a class nor NaN (npy, edgelist, graphbolt, csv and parquet take targets of regression, by `regression`)";
                    return Err(labels.wrong_entry(chunk.len() - at, chunk[at], what));
                }
            }
        }
        _ => labels.integers(CHUNK)?,
    };
    match chunk.iter().position(|&label| label < -1 || label >= limit) {
        Some(at) => Err(labels.wrong_entry(
            chunk.len() - at,
            chunk[at],
            format!("a label outside -1 to {} (-1 means none)", limit - 1),
        )),
        None => Ok(chunk),
    }
}

/// The next zeros and ones.
pub(crate) fn next_marks(marks: &mut ArrayStream) -> Result<Vec<u8>, GraphError> {
    let chunk = marks.floats(CHUNK)?;
    match chunk.iter().position(|&mark| mark != 0.0 && mark != 1.0) {
        Some(at) => Err(marks.wrong_entry(chunk.len() - at, chunk[at], "neither 0 nor 1")),
        None => Ok(chunk.into_iter().map(|mark| mark as u8).collect()),
    }
}
