//! Datasets of a graph with features and labels of its nodes, which have one type or several.

use std::path::{Path, PathBuf};

use uva_mem::MappedFile;

use super::kind::{Kind, KindWords, classes_of_graph};
use crate::description::edge_values::EdgeValues;
use crate::storage::arrays::node_files::NodeFiles;
use crate::storage::files::{Files, RowArray};
use crate::storage::fingerprint;
use crate::storage::graph_files::GraphFiles;
use crate::{
    ElementType, FeatureTable, Labels, Meta, Metagraph, NodeType, Relation, RelationSchema, Schema, Split,
    TableSchema,
};

impl Kind for Files {
    fn schema(&self) -> Schema {
        let tables = self.graph.metagraph.types().zip(&self.tables).filter_map(|(node_type, rows)| {
            let FeatureTable { rows, dim, element, .. } = rows.as_ref()?.table();
            Some(TableSchema { node_type, here: 0..rows, dim, element })
        });
        schema_of(&self.graph, tables.collect(), |relation| {
            let (rows, _) = self.edge_rows(relation)?;
            let FeatureTable { dim, element, .. } = rows.table();
            Some((dim, element))
        })
    }

    fn meta(&self) -> &Meta {
        &self.graph.meta
    }

    fn fingerprint(&self) -> String {
        fingerprint::of(self)
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

    fn feature_rows(&self, node_type: NodeType) -> Option<FeatureTable<'_>> {
        self.tables[node_type.index()].as_ref().map(RowArray::table)
    }

    fn row_files(&self) -> Vec<&MappedFile> {
        self.tables.iter().flatten().map(|rows| rows.array.file()).collect()
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

/// The schema of a graph with these tables of feature rows, and of each relation the width and type of an edge's row.
pub(super) fn schema_of(
    graph: &GraphFiles,
    tables: Vec<TableSchema>,
    edge_features: impl Fn(Relation) -> Option<(usize, ElementType)>,
) -> Schema {
    let metagraph = &graph.metagraph;
    let relations = metagraph.relations().map(|relation| {
        let edges = &graph.relations[relation.index()];
        RelationSchema {
            source: metagraph.source(relation),
            destination: metagraph.destination(relation),
            edges: edges.edges(),
            weights: edges.edge_array(EdgeValues::Weights).is_some(),
            features: edge_features(relation),
        }
    });
    Schema {
        nodes: graph.types.iter().map(|nodes| nodes.count).collect(),
        relations: relations.collect(),
        tables,
        target: graph.target,
        classes: graph.types.iter().map(NodeFiles::classes).collect(),
    }
}
