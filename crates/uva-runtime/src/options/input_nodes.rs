//! The seeds of batches: the type whose splits they are, and nodes given in place of a split.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uva_graph::{Dataset, GraphError, NodeType, Split, TypedDataset, Verify, node_file};

use crate::RuntimeError;
use uva_options::{OptionError, OptionValue, text_values};

/// The name of the option, in messages.
const OPTION: &str = "input_nodes";

/// Nodes whose neighbourhoods are sampled, in place of those of a split. They are in the order of the split's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputNodes {
    /// These ids of the dataset, each once.
    Ids(Vec<i64>),
    /// The nodes at which it is true, in the order of their ids. It has an entry for each node.
    Mask(Vec<bool>),
    /// Every node, in the order of ids.
    All,
    /// A file of ids or of a mask, in a format of [`node_file::read`].
    File(PathBuf),
}

impl From<Vec<i64>> for InputNodes {
    fn from(ids: Vec<i64>) -> Self {
        Self::Ids(ids)
    }
}

impl From<&[i64]> for InputNodes {
    fn from(ids: &[i64]) -> Self {
        Self::Ids(ids.to_vec())
    }
}

impl From<Vec<bool>> for InputNodes {
    fn from(mask: Vec<bool>) -> Self {
        Self::Mask(mask)
    }
}

impl From<&Path> for InputNodes {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

impl InputNodes {
    /// The dataset with these nodes in place of a split's.
    ///
    /// # Errors
    /// [`GraphError::Usage`] for `input_nodes`: no nodes, an id that is not a node or occurs twice, a mask of another
    /// length. For a file, also if it cannot be read, or has neither ids nor a mask.
    pub fn in_place_of(self, split: Split, dataset: Dataset) -> Result<Dataset, GraphError> {
        let nodes = dataset.target().map_or_else(|| dataset.nodes(), |of| dataset.nodes_of(of));
        let (ids, from) = self.ids(nodes)?;
        let refused = |problem: String| match &from {
            Some(path) => GraphError::usage(OPTION, format!("{}: {problem}", path.display())),
            None => GraphError::usage(OPTION, problem),
        };
        if ids.is_empty() {
            return Err(refused("there is no node in it".to_owned()));
        }
        dataset.with_nodes(split, ids, OPTION).map_err(|error| match error {
            GraphError::Usage { message, .. } => refused(message),
            other => other,
        })
    }

    /// The ids, and the file that they come from.
    fn ids(self, nodes: usize) -> Result<(Vec<i64>, Option<PathBuf>), GraphError> {
        match self {
            Self::Ids(ids) => Ok((ids, None)),
            Self::All => Ok(((0..nodes as i64).collect(), None)),
            Self::Mask(mask) if mask.len() != nodes => {
                let problem = format!("the mask has {} entries, the dataset {nodes} nodes", mask.len());
                Err(GraphError::usage(OPTION, problem))
            }
            Self::Mask(mask) => Ok((node_file::positions(mask), None)),
            Self::File(path) => Ok((node_file::read(&path, nodes, OPTION)?, Some(path))),
        }
    }
}

/// A file of nodes that each process of a run reads. Its path is UTF-8 text; front ends reject other paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodesFile {
    path: PathBuf,
    /// The value of [`Dataset::chosen_nodes`] for them.
    pub nodes: String,
}

impl NodesFile {
    /// The dataset with the nodes of this file in place of the training split's, and the file for other processes.
    ///
    /// # Errors
    /// See [`InputNodes::in_place_of`].
    pub fn read(path: &Path, dataset: Dataset) -> Result<(Dataset, Self), GraphError> {
        let path = path.to_owned();
        let dataset = InputNodes::File(path.clone()).in_place_of(Split::Train, dataset)?;
        let nodes = dataset.chosen_nodes().unwrap_or_default();
        // A process that attaches may have changed its directory.
        let path = std::path::absolute(&path).unwrap_or(path);
        Ok((dataset, Self { path, nodes }))
    }

    /// Opens the dataset with these nodes in another process.
    ///
    /// # Errors
    /// [`RuntimeError::Input`] if the file has changed since, or can no longer be read.
    pub fn in_place(&self, dataset: Dataset) -> Result<Dataset, RuntimeError> {
        let (dataset, found) = Self::read(&self.path, dataset)?;
        if found.nodes == self.nodes {
            return Ok(dataset);
        }
        let (now, before) = (&found.nodes, &self.nodes);
        let problem = format!(
            "it has {now} now, and had {before} when the run began: leave it as it is until the run ends"
        );
        Err(RuntimeError::input(problem).in_file(&self.path))
    }
}

impl OptionValue for NodesFile {
    fn of_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn text(&self) -> String {
        self.json().to_string()
    }

    fn json(&self) -> Value {
        json!({ "path": self.path.to_string_lossy(), "nodes": self.nodes })
    }

    fn of_json(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok()
    }
}

/// Opens a dataset of any number of node types to make batches of it, around seeds of the given type or of the one that
/// `meta.json` names.
///
/// # Errors
/// As [`TypedDataset::open_verified`], and [`TypeName::target_in`].
pub fn open_for_batches(
    path: &Path,
    how: Verify,
    target: Option<&TypeName>,
) -> Result<Dataset, RuntimeError> {
    let dataset = TypedDataset::open_verified(path, how)?;
    let target = TypeName::target_in(target, &dataset)?;
    Ok(dataset.for_batches(target)?)
}

/// The name of a node type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName(String);

impl TypeName {
    /// The type whose splits are seeds: the given one, or the one that `meta.json` names.
    ///
    /// # Errors
    /// If the dataset does not have the type, or is not typed, or if none is given and `meta.json` names none.
    pub fn target_in(given: Option<&Self>, dataset: &TypedDataset) -> Result<NodeType, RuntimeError> {
        let metagraph = dataset.metagraph();
        let Some(Self(name)) = given else {
            return dataset.target().ok_or_else(|| {
                let names: Vec<&str> = metagraph.types().map(|of| metagraph.type_name(of)).collect();
                let problem = "\"target\" is missing: it names the node type whose splits are seeds";
                let remedy = format!("give `target`: {}", names.join(", "));
                RuntimeError::input(problem).in_file(&dataset.path().join("meta.json")).with_remedy(remedy)
            });
        };
        let refused = |reason: String| RuntimeError::from(OptionError::new("target", name, reason));
        if !metagraph.is_named() {
            return Err(refused("the dataset has no names of node types".to_owned()));
        }
        metagraph.find_type(name).map_err(|unknown| refused(unknown.to_string()))
    }
}

impl FromStr for TypeName {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_values!(TypeName);
