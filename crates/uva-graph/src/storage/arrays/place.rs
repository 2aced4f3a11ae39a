//! Where the arrays of a node type or a relation are, and how messages name them.

use std::path::{Path, PathBuf};

use crate::description::metagraph::Metagraph;
use crate::description::{meta, names};
use crate::npy::NpyArray;
use crate::{GraphError, NodeType, Relation};

/// The directory of a node type or a relation, and its entry in `meta.json`. In format 1 the only type and the only
/// relation lie in the dataset's own directory and have no names.
#[derive(Clone, Debug)]
pub(crate) struct ArrayDirectory<'m> {
    /// The directory of the arrays.
    pub(crate) directory: PathBuf,
    /// The directory of the dataset.
    dataset: PathBuf,
    /// The name of the type, or the full name of the relation.
    pub(crate) name: Option<&'m str>,
}

impl<'m> ArrayDirectory<'m> {
    /// The place of everything in a dataset of format 1.
    pub(crate) fn of_dataset(directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        Self { dataset: directory.clone(), directory, name: None }
    }

    /// The place of a node type of the dataset in `dataset`.
    pub(crate) fn of_type(dataset: &Path, metagraph: &'m Metagraph, node_type: NodeType) -> Self {
        Self::of_name(dataset, names::NODE_TYPES, metagraph, metagraph.type_name(node_type))
    }

    /// The place of a relation of the dataset in `dataset`.
    pub(crate) fn of_relation(dataset: &Path, metagraph: &'m Metagraph, relation: Relation) -> Self {
        Self::of_name(dataset, names::RELATIONS, metagraph, metagraph.full_name(relation))
    }

    fn of_name(dataset: &Path, group: &str, metagraph: &Metagraph, name: &'m str) -> Self {
        match metagraph.is_named() {
            true => Self {
                directory: dataset.join(group).join(name),
                dataset: dataset.to_owned(),
                name: Some(name),
            },
            false => Self::of_dataset(dataset),
        }
    }

    /// The array of this name.
    pub(crate) fn open(&self, name: &str) -> Result<NpyArray, GraphError> {
        NpyArray::open(&self.directory.join(name))
    }

    /// The array of this name; `None` if there is not such a file.
    pub(crate) fn optional(&self, name: &str) -> Result<Option<NpyArray>, GraphError> {
        match self.open(name) {
            Ok(array) => Ok(Some(array)),
            Err(GraphError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A key of `meta.json`, for messages: `"classes"`, or `"classes" of paper`.
    pub(crate) fn key(&self, key: &str) -> String {
        match self.name {
            Some(name) => format!("\"{key}\" of {name}"),
            None => format!("\"{key}\""),
        }
    }

    /// A node, for messages that count one for each.
    pub(crate) fn a_node(&self) -> &str {
        self.name.unwrap_or("node of indptr.npy")
    }

    /// The dataset's `meta.json`.
    pub(crate) fn meta_file(&self) -> PathBuf {
        self.dataset.join(meta::FILE_NAME)
    }

    /// The error about this place's keys of `meta.json`.
    pub(crate) fn wrong_meta(&self, problem: impl std::error::Error + Send + Sync + 'static) -> GraphError {
        GraphError::invalid(&self.meta_file(), problem)
    }
}
