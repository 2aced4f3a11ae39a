//! The arrays of a source directory.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use uva_graph::csc::Changes;
use uva_graph::npy::{NpyArray, NpyType, write_array};
use uva_graph::typed_meta::{NodeTypeMeta, RelationMeta};
use uva_graph::{ElementType, GraphError, Meta, feature_element, label_columns, verify};

use super::edges::Edges;
use super::elements::{are_targets, floats, integers, marks};
use super::problem::ImportProblem;
use crate::import::options::refuse_changes_of_weighted;
use crate::import::reading::features::{FeatureSource, feature_type};
use crate::import::reading::{unread_parts, values};
use crate::import::request::ImportWatch;
use crate::import::writing::output::{
    CHUNK, DatasetOutput, FeaturesOf, MarkedRows, narrowed_targets, no_labels,
};

/// Where arrays are, by name.
pub(crate) enum ArrayFiles {
    /// `NAME.npy` in the source's directory.
    Directory,
    /// Any file. All of them have to be there.
    Listed(BTreeMap<String, PathBuf>),
}

/// Arrays of a source directory, or of one node type or relation.
pub(crate) struct SourceArrays {
    /// The directory; of listed files, the place for messages.
    pub(super) directory: PathBuf,
    files: ArrayFiles,
    pub(super) meta: Meta,
    /// Names of the files that were opened.
    pub(super) read: RefCell<BTreeSet<String>>,
}

impl SourceArrays {
    pub(super) fn new(directory: &Path) -> Result<SourceArrays, GraphError> {
        let meta = Meta::read(directory)?;
        meta.check_format_1(directory)?;
        Ok(Self::of(directory.to_owned(), ArrayFiles::Directory, meta))
    }

    /// The arrays of a node type, with its entry in `meta.json`.
    pub(crate) fn of_type(directory: PathBuf, files: ArrayFiles, entry: &NodeTypeMeta) -> SourceArrays {
        let (feat_dtype, classes) = (entry.feat_dtype.clone(), entry.classes);
        Self::of(directory, files, Meta { feat_dtype, classes, ..Meta::default() })
    }

    /// The arrays of a relation, with its entry in `meta.json`.
    pub(crate) fn of_relation(directory: PathBuf, files: ArrayFiles, entry: &RelationMeta) -> SourceArrays {
        let edge_feat_dtype = entry.feat_dtype.clone();
        Self::of(directory, files, Meta { edge_feat_dtype, ..Meta::default() })
    }

    /// Listed arrays of a graph of one type. `place` is for messages.
    pub(crate) fn listed(place: PathBuf, files: BTreeMap<String, PathBuf>, meta: Meta) -> SourceArrays {
        Self::of(place, ArrayFiles::Listed(files), meta)
    }

    fn of(directory: PathBuf, files: ArrayFiles, meta: Meta) -> SourceArrays {
        SourceArrays { directory, files, meta, read: RefCell::default() }
    }

    pub(super) fn optional(&self, names: &[&str]) -> Result<Option<NpyArray>, GraphError> {
        for name in names {
            let (path, is_listed) = match &self.files {
                ArrayFiles::Directory => (self.directory.join(format!("{name}.npy")), false),
                ArrayFiles::Listed(files) => match files.get(*name) {
                    Some(path) => (path.clone(), true),
                    None => continue,
                },
            };
            match NpyArray::open(&path) {
                Err(GraphError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound && !is_listed => {}
                found => {
                    self.read.borrow_mut().insert(format!("{name}.npy"));
                    return found.map(Some);
                }
            }
        }
        Ok(None)
    }

    /// An optional array of integers [`rows`], whose file would be `name` in a directory.
    pub(super) fn optional_column(&self, name: &str, rows: usize) -> Result<Option<NpyArray>, GraphError> {
        let Some(array) = self.optional(&[name.trim_end_matches(".npy")])? else { return Ok(None) };
        if array.shape() != [rows] {
            return Err(array.wrong_shape(format!("[{rows}]")));
        }
        if !values::is_integer(array.kind()) {
            return Err(array.wrong_type("an integer type"));
        }
        Ok(Some(array))
    }

    /// The arrays that were not opened, by the names of their files in a directory.
    pub(super) fn unread(&self) -> Result<Vec<(String, PathBuf)>, GraphError> {
        let read = self.read.borrow();
        let is_read = |name: &str| read.contains(name);
        match &self.files {
            ArrayFiles::Directory if !self.directory.is_dir() => Ok(Vec::new()),
            ArrayFiles::Directory => {
                let files = unread_parts::files(&self.directory, ".npy", is_read)?;
                Ok(files.into_iter().map(|name| (name.clone(), self.directory.join(name))).collect())
            }
            ArrayFiles::Listed(files) => {
                let files = files.iter().map(|(name, path)| (format!("{name}.npy"), path.clone()));
                Ok(files.filter(|(name, _)| !is_read(name)).collect())
            }
        }
    }

    pub(super) fn required(&self, what: &str, names: &[&str]) -> Result<NpyArray, GraphError> {
        self.optional(names)?.ok_or_else(|| self.missing(what, names))
    }

    pub(super) fn missing(&self, what: &str, names: &[&str]) -> GraphError {
        let names: Vec<String> = names.iter().map(|name| format!("{name}.npy")).collect();
        let message = format!("{} has no {what}: expected {}", self.directory.display(), names.join(", or "));
        GraphError::usage("SRC", message)
    }

    pub(super) fn features(&self) -> Result<FeatureArray, GraphError> {
        let array = self.required("features", &["feat", "x", "features", "node_feat"])?;
        if array.shape().len() != 2 || array.shape()[1] == 0 {
            return Err(array.wrong_shape("[nodes, features]"));
        }
        let said = self.meta.feat_dtype.as_deref().and_then(ElementType::from_name);
        let element = match array.kind() {
            // The claims of meta.json about these must be true.
            NpyType::F32 | NpyType::F16 | NpyType::I8 | NpyType::U8 => {
                feature_element(&self.directory, &self.meta, &array)?
            }
            kind => feature_type(kind, said).0,
        };
        Ok(FeatureArray { array, element })
    }

    /// The labels; a note if there are none. Floats that are not classes are targets of regression, and so are all
    /// labels with `regression`.
    pub(super) fn labels(
        &self,
        nodes: usize,
        regression: bool,
        watch: &ImportWatch<'_>,
    ) -> Result<ImportedLabels, GraphError> {
        let Some(array) = self.optional(&["label", "labels", "y", "node_label"])? else {
            let names = ["label.npy", "labels.npy", "y.npy", "node_label.npy"];
            (watch.note)(&no_labels(&self.directory, &names));
            return Ok(ImportedLabels::Absent);
        };
        let columns = label_columns(&array, nodes)?;
        if regression || are_targets(&array) {
            let values = floats(&array);
            let width = columns.unwrap_or(1);
            if let Some(at) = values.iter().position(|&value| !(value as f32).is_finite()) {
                let (node, column, value) = (at / width, at % width, values[at]);
                return Err(GraphError::invalid(
                    array.path(),
                    ImportProblem::NoTarget { node, column, value },
                ));
            }
            if !regression {
                (watch.note)(&format!(
                    "{}: floats that are not whole are targets of regression",
                    array.path().display()
                ));
            }
            if let Some(line) = narrowed_targets(array.path(), array.kind()) {
                (watch.note)(&line);
            }
            let values = values.into_iter().map(|value| value as f32).collect();
            return Ok(ImportedLabels::Regression { columns, values });
        }
        match columns {
            None | Some(1) => {
                let labels = match array.kind() {
                    NpyType::F16 | NpyType::F32 | NpyType::F64 => {
                        let as_class = |(node, value): (usize, f64)| {
                            values::class(value).ok_or_else(|| {
                                GraphError::invalid(array.path(), ImportProblem::NoClass { node, value })
                            })
                        };
                        floats(&array).into_iter().enumerate().map(as_class).collect::<Result<_, _>>()?
                    }
                    _ => integers(&array)?,
                };
                verify::class_labels(&array, &labels, self.meta.classes)?;
                Ok(ImportedLabels::Single(labels))
            }
            Some(classes) => {
                let marks = marks(&array)?;
                let mut rows = MarkedRows::new(classes);
                rows.see(&marks);
                rows.say_one_hot(watch.note, array.path());
                Ok(ImportedLabels::Multi { classes, marks })
            }
        }
    }

    /// With `by_rule`, the splits are optional, since a rule replaces them.
    pub(super) fn splits(&self, nodes: usize, by_rule: bool) -> Result<[Vec<i64>; 3], GraphError> {
        let [train, valid, test] = self.optional_splits(nodes)?;
        let required = |found: Option<Vec<i64>>, names: &[&str]| match found {
            None if !by_rule => Err(self.missing("split", names)),
            found => Ok(found.unwrap_or_default()),
        };
        Ok([
            required(train, &["train_idx", "train_mask"])?,
            required(valid, &["valid_idx", "val_idx", "valid_mask", "val_mask"])?,
            required(test, &["test_idx", "test_mask"])?,
        ])
    }

    /// The splits that there are.
    pub(crate) fn optional_splits(&self, nodes: usize) -> Result<[Option<Vec<i64>>; 3], GraphError> {
        Ok([
            self.split(nodes, &["train_idx"], &["train_mask"])?,
            self.split(nodes, &["valid_idx", "val_idx"], &["valid_mask", "val_mask"])?,
            self.split(nodes, &["test_idx"], &["test_mask"])?,
        ])
    }

    fn split(&self, nodes: usize, ids: &[&str], masks: &[&str]) -> Result<Option<Vec<i64>>, GraphError> {
        if let Some(array) = self.optional(ids)? {
            if array.shape().len() != 1 {
                return Err(array.wrong_shape("one-dimensional"));
            }
            let ids = integers(&array)?;
            verify::split_ids(&array, &ids, nodes)?;
            return Ok(Some(ids));
        }
        match self.optional(masks)? {
            Some(mask) if mask.shape() == [nodes] => {
                let marks = marks(&mask)?;
                Ok(Some((0..).zip(marks).filter(|(_, mark)| *mark == 1).map(|(node, _)| node).collect()))
            }
            Some(mask) => Err(mask.wrong_shape(format!("[{nodes}], one mark for each row of the features"))),
            None => Ok(None),
        }
    }

    pub(super) fn ids_of_nodes(&self, array: &NpyArray, nodes: usize) -> Result<Vec<i64>, GraphError> {
        if array.shape() != [nodes] {
            return Err(array.wrong_shape(format!("[{nodes}], one id for each row of the features")));
        }
        let ids = integers(array)?;
        verify::original_ids(array, &ids)?;
        Ok(ids)
    }

    pub(super) fn weights(&self, edges: usize, changes: Changes) -> Result<Option<NpyArray>, GraphError> {
        let Some(weights) = self.optional(&["weight", "edge_weight"])? else { return Ok(None) };
        refuse_changes_of_weighted(changes, &weights.path().display().to_string())?;
        if weights.shape() != [edges] {
            return Err(weights.wrong_shape(format!("[{edges}], one weight for each edge")));
        }
        if !matches!(weights.kind(), NpyType::F32 | NpyType::F64) {
            return Err(weights.wrong_type("float32 or float64"));
        }
        Ok(Some(weights))
    }

    pub(super) fn edge_types(
        &self,
        edges: Option<usize>,
        changes: Changes,
    ) -> Result<Option<NpyArray>, GraphError> {
        let Some(array) = self.optional(&["edge_type"])? else { return Ok(None) };
        refuse_changes_of_weighted(changes, &array.path().display().to_string())?;
        match *array.shape() {
            [found] if edges.is_none_or(|edges| edges == found) => Ok(Some(array)),
            _ => {
                let edges = edges.map_or("edges".to_owned(), |edges| edges.to_string());
                Err(array.wrong_shape(format!("[{edges}], one type for each edge")))
            }
        }
    }

    pub(super) fn edge_features(
        &self,
        edges: Option<usize>,
        changes: Changes,
    ) -> Result<Option<FeatureArray>, GraphError> {
        let features = self.edge_features_of(&["edge_feat", "edge_attr", "edge_features"], edges)?;
        if let Some(features) = &features {
            refuse_changes_of_weighted(changes, &features.array.path().display().to_string())?;
        }
        Ok(features)
    }

    /// Edge features under one of these names.
    pub(super) fn edge_features_of(
        &self,
        names: &[&str],
        edges: Option<usize>,
    ) -> Result<Option<FeatureArray>, GraphError> {
        let Some(array) = self.optional(names)? else { return Ok(None) };
        let (rows, columns) = match *array.shape() {
            [rows] => (Some(rows), 1),
            [rows, columns] => (Some(rows), columns),
            _ => (None, 0),
        };
        if columns == 0 || edges.is_some_and(|edges| rows != Some(edges)) {
            let edges = edges.map_or("edges".to_owned(), |edges| edges.to_string());
            return Err(array.wrong_shape(format!("[{edges}, features], one row for each edge")));
        }
        let said = self.meta.edge_feat_dtype.as_deref().and_then(ElementType::from_name);
        let element = feature_type(array.kind(), said).0;
        Ok(Some(FeatureArray { array, element }))
    }

    /// The edges. `counted` is what has an entry for each of the `nodes` destinations, for messages.
    pub(super) fn edges(&self, nodes: usize, counted: &str) -> Result<Edges, GraphError> {
        let vector = |array: NpyArray| {
            if array.shape().len() == 1 { Ok(array) } else { Err(array.wrong_shape("one-dimensional")) }
        };
        if let Some(indptr) = self.optional(&["indptr"])? {
            let indptr = vector(indptr)?;
            let indices = vector(self.required("neighbours", &["indices"])?)?;
            if nodes.checked_add(1) != Some(indptr.shape()[0]) {
                return Err(indptr.wrong_shape(format!("[{nodes} + 1], one entry more than {counted}")));
            }
            let ends = integers(&indptr)?;
            verify::indptr(&indptr, &ends, indices.shape()[0])?;
            return Ok(Edges::Lists { ends, indices });
        }
        if let Some(array) = self.optional(&["edge_index"])? {
            return match *array.shape() {
                [2, _] => Ok(Edges::Rows(array)),
                [_, 2] => Ok(Edges::Pairs(array)),
                _ => Err(array.wrong_shape("[2, edges]: sources, then destinations")),
            };
        }
        let graph = "graph";
        let names = ["indptr", "edge_index", "src"];
        let sources = vector(self.required(graph, &names[2..]).map_err(|error| match error {
            GraphError::Usage { .. } => self.missing(graph, &names),
            error => error,
        })?)?;
        let destinations = vector(self.required("destinations", &["dst"])?)?;
        if destinations.shape() != sources.shape() {
            let edges = sources.shape()[0];
            return Err(destinations.wrong_shape(format!("[{edges}], as long as src.npy")));
        }
        Ok(Edges::Two { sources, destinations })
    }
}

/// The source's features, and their stored type.
pub(super) struct FeatureArray {
    pub(super) array: NpyArray,
    pub(super) element: ElementType,
}

impl FeatureArray {
    pub(super) fn columns(&self) -> usize {
        self.array.shape().get(1).copied().unwrap_or(1)
    }

    pub(super) fn row_bytes(&self) -> u64 {
        (self.columns() * self.element.bytes()) as u64
    }

    pub(super) fn write(&self, of: FeaturesOf, output: &DatasetOutput<'_>) -> Result<(), GraphError> {
        let (kind, columns) = (self.array.kind(), self.columns());
        let source = FeatureSource {
            place: self.array.path().to_owned(),
            data_offset: Some(self.array.header().data_offset as u64),
        };
        let mut writer = output.feature_writer(of, source, kind, columns, Some(self.element))?;
        for chunk in self.array.bytes().chunks(CHUNK * kind.bytes()) {
            writer.write(chunk)?;
        }
        output.finish_features(writer).map(drop)
    }
}

/// Labels, checked.
pub(crate) enum ImportedLabels {
    Single(Vec<i64>),
    Multi {
        classes: usize,
        marks: Vec<u8>,
    },
    /// Rows of `columns`, or one number per node.
    Regression {
        columns: Option<usize>,
        values: Vec<f32>,
    },
    Absent,
}

impl ImportedLabels {
    /// Bytes of a node's label.
    pub(super) fn row_bytes(&self) -> u64 {
        match self {
            ImportedLabels::Single(_) => 8,
            ImportedLabels::Multi { classes, .. } => *classes as u64,
            ImportedLabels::Regression { columns, .. } => 4 * columns.unwrap_or(1) as u64,
            ImportedLabels::Absent => 0,
        }
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), GraphError> {
        match self {
            ImportedLabels::Absent => Ok(()),
            ImportedLabels::Regression { columns, values } => {
                let columns: Vec<usize> = columns.iter().copied().collect();
                write_array(path, NpyType::F32, &columns, values)
            }
            ImportedLabels::Single(labels) => write_array(path, NpyType::I64, &[], labels),
            ImportedLabels::Multi { classes, marks } => write_array(path, NpyType::U8, &[*classes], marks),
        }
    }
}
