//! Datasets of a hop set, without a graph.

use std::path::{Path, PathBuf};

use uva_mem::MappedFile;

use super::hop_rows::{HopFiles, Hops};
use super::kind::{Kind, KindWords};
use crate::description::names;
use crate::npy::NpyArray;
use crate::{Labels, Meta, Metagraph, NodeType, Schema, Split, TableSchema};

impl Kind for HopFiles {
    fn schema(&self) -> Schema {
        let rows = self.nodes.values().len();
        let (node_type, here) = (NodeType::ONLY, 0..rows);
        let table = TableSchema { node_type, here, dim: self.dim, element: self.element };
        Schema {
            nodes: vec![rows],
            relations: Vec::new(),
            tables: vec![table; Hops::of(self).count()],
            target: Some(NodeType::ONLY),
            classes: vec![self.classes],
        }
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    fn metagraph(&self) -> &Metagraph {
        &self.metagraph
    }

    fn labels(&self, _node_type: NodeType) -> Labels<'_> {
        self.labels.values()
    }

    /// The nodes of the rows of a split.
    fn split(&self, _node_type: NodeType, split: Split) -> &[i64] {
        &self.nodes.values()[self.splits[split as usize].clone()]
    }

    fn words(&self) -> KindWords {
        KindWords {
            dataset: "hop set",
            node: "row",
            labels: "give labels to the dataset that it was made of, and make it again by `uvatrain propagate`",
            no_training: "the hop set has no training rows",
        }
    }

    fn label_rows(&self, _node_type: NodeType, split: Split) -> Box<dyn Iterator<Item = usize> + '_> {
        Box::new(self.splits[split as usize].clone())
    }

    fn original_ids(&self, _node_type: NodeType) -> Option<&[i64]> {
        Some(self.nodes.values())
    }

    fn row_files(&self) -> Vec<&MappedFile> {
        Hops::of(self).arrays().map(NpyArray::file).collect()
    }

    fn classes_from(&self, path: &Path) -> (&'static str, PathBuf) {
        ("\"classes\"", path.join(names::HOP_SET))
    }

    fn hops(&self) -> Option<Hops<'_>> {
        Some(Hops::of(self))
    }
}
