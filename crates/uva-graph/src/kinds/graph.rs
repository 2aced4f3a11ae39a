//! Datasets of a graph with features and labels of its nodes.

use std::path::{Path, PathBuf};

use uva_mem::MappedFile;

use super::kind::{Kind, KindWords, classes_of_graph};
use crate::description::edge_values::EdgeValues;
use crate::storage::files::Files;
use crate::storage::fingerprint;
use crate::storage::graph_files::GraphFiles;
use crate::{ElementType, FeatureTable, Labels, Meta, NodeType, RelationSchema, Schema, Split, TableSchema};

impl Kind for Files {
    fn schema(&self) -> Schema {
        let [rows, dim] = [0, 1].map(|axis| self.features.shape()[axis]);
        let table = TableSchema { node_type: NodeType::ONLY, here: 0..rows, dim, element: self.element };
        let edges = self.edge_features.as_ref().map(|(array, element)| (array.shape()[1], *element));
        schema_of(&self.graph, table, edges)
    }

    fn meta(&self) -> &Meta {
        &self.graph.meta
    }

    fn fingerprint(&self) -> String {
        fingerprint::of(self)
    }

    fn labels(&self) -> Labels<'_> {
        self.graph.labels.values()
    }

    fn split(&self, split: Split) -> &[i64] {
        self.graph.splits[split as usize].values()
    }

    fn words(&self) -> KindWords {
        KindWords::GRAPH
    }

    fn feature_rows(&self) -> Option<FeatureTable<'_>> {
        let [rows, dim] = [0, 1].map(|axis| self.features.shape()[axis]);
        Some(FeatureTable { bytes: self.features.bytes(), rows, dim, element: self.element })
    }

    fn row_files(&self) -> Vec<&MappedFile> {
        vec![self.features.file()]
    }

    fn classes_from(&self, path: &Path) -> (&'static str, PathBuf) {
        classes_of_graph(&self.graph, path)
    }

    fn graph(&self) -> Option<&GraphFiles> {
        Some(&self.graph)
    }

    fn whole(&self) -> Option<&Files> {
        Some(self)
    }
}

/// The schema of a graph with one table of feature rows and, if given, edge feature rows of this shape.
pub(super) fn schema_of(
    graph: &GraphFiles,
    table: TableSchema,
    edge_features: Option<(usize, ElementType)>,
) -> Schema {
    let csc = graph.csc();
    let relation = RelationSchema {
        source: NodeType::ONLY,
        destination: NodeType::ONLY,
        edges: csc.edges(),
        weights: graph.edge_array(EdgeValues::Weights).is_some(),
        features: edge_features,
    };
    Schema {
        nodes: vec![csc.nodes()],
        relations: vec![relation],
        tables: vec![table],
        target: NodeType::ONLY,
        classes: graph.classes(),
    }
}
