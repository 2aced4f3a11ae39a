//! Datasets of a graph whose feature rows are divided among ranks.

use std::path::{Path, PathBuf};

use uva_mem::MappedFile;

use super::graph::schema_of;
use super::kind::{Kind, KindWords, classes_of_graph};
use super::own_rows::{DividedFiles, OwnRows};
use crate::storage::graph_files::GraphFiles;
use crate::{Labels, Meta, Metagraph, NodeType, Schema, Split, TableSchema};

impl Kind for DividedFiles {
    fn schema(&self) -> Schema {
        let here = OwnRows::of(self).nodes();
        let table = self.own_table();
        let table = TableSchema {
            node_type: NodeType::ONLY,
            here: here.start as usize..here.end as usize,
            dim: table.dim,
            element: table.element,
        };
        schema_of(&self.graph, vec![table], |_| None)
    }

    fn meta(&self) -> &Meta {
        &self.graph.meta
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn metagraph(&self) -> &Metagraph {
        &self.graph.metagraph
    }

    fn labels(&self, node_type: NodeType) -> Labels<'_> {
        self.graph.types[node_type.index()].labels.values()
    }

    fn split(&self, node_type: NodeType, split: Split) -> &[i64] {
        self.graph.types[node_type.index()].split(split)
    }

    fn words(&self) -> KindWords {
        KindWords::GRAPH
    }

    fn row_files(&self) -> Vec<&MappedFile> {
        vec![self.table.file()]
    }

    fn classes_from(&self, path: &Path) -> (&'static str, PathBuf) {
        classes_of_graph(&self.graph, path)
    }

    fn graph(&self) -> Option<&GraphFiles> {
        Some(&self.graph)
    }

    fn own_rows(&self) -> Option<OwnRows<'_>> {
        Some(OwnRows::of(self))
    }
}
