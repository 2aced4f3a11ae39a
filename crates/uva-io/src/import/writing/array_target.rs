//! Where arrays of nodes or edges are written: the dataset, or the directory of a node type or relation.

use std::path::{Path, PathBuf};

use uva_graph::npy::NpyType;
use uva_graph::{ElementType, GraphError, Progress};

use super::output::{DatasetOutput, FeaturesOf};
use crate::import::options::Float8;
use crate::import::reading::features::{FeatureSource, FeatureWriter};
use crate::import::request::ImportWatch;

/// A place for arrays, and the callbacks of the import.
pub(crate) trait ArrayTarget {
    /// The path of an array.
    fn path(&self, name: &str) -> PathBuf;

    /// The callbacks.
    fn watch(&self) -> &ImportWatch<'_>;

    /// The sink of rows of `columns` features of type `kind`; reports their conversion.
    fn feature_writer(
        &self,
        source: FeatureSource,
        kind: NpyType,
        columns: usize,
    ) -> Result<FeatureWriter, GraphError>;
}

impl dyn ArrayTarget + '_ {
    /// Reports progress within a stage of this many parts.
    pub(crate) fn progress(&self, stage: &'static str, done: u64, total: u64) {
        (self.watch().progress)(Progress { stage, done, total });
    }

    /// Reports a conversion of source values, in one line.
    pub(crate) fn note(&self, line: &str) {
        (self.watch().note)(line);
    }

    /// Ends a table of features, and reports the number of changed values.
    pub(crate) fn finish_features(&self, writer: FeatureWriter) -> Result<ElementType, GraphError> {
        let (element, saturated) = writer.finish()?;
        if let Some(line) = saturated {
            self.note(&line);
        }
        Ok(element)
    }
}

/// The place of all nodes, or of all edges, of a dataset with one type.
pub(crate) struct DatasetPlace<'o, 'r> {
    pub(crate) output: &'o DatasetOutput<'r>,
    pub(crate) of: FeaturesOf,
}

impl ArrayTarget for DatasetPlace<'_, '_> {
    fn path(&self, name: &str) -> PathBuf {
        self.output.path(name)
    }

    fn watch(&self) -> &ImportWatch<'_> {
        self.output.watch()
    }

    fn feature_writer(
        &self,
        source: FeatureSource,
        kind: NpyType,
        columns: usize,
    ) -> Result<FeatureWriter, GraphError> {
        self.output.feature_writer(self.of, source, kind, columns, None)
    }
}

/// The directory of a node type or relation.
pub(crate) struct TypePlace<'r> {
    pub(crate) directory: &'r Path,
    /// The name of the file of features.
    pub(crate) features: &'r str,
    /// Features as float8.
    pub(crate) float8: Option<Float8>,
    pub(crate) watch: &'r ImportWatch<'r>,
}

impl ArrayTarget for TypePlace<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn watch(&self) -> &ImportWatch<'_> {
        self.watch
    }

    fn feature_writer(
        &self,
        source: FeatureSource,
        kind: NpyType,
        columns: usize,
    ) -> Result<FeatureWriter, GraphError> {
        let path = self.path(self.features);
        let writer = FeatureWriter::create(&path, source, (kind, None), columns, self.float8)?;
        if let Some(line) = writer.conversion() {
            (self.watch.note)(&line);
        }
        Ok(writer)
    }
}
