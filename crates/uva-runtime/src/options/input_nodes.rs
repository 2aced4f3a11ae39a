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
    /// These ids of the dataset. A repeated one is as many seeds.
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
    /// As [`InputSeeds::in_place_of`].
    pub fn in_place_of(self, split: Split, dataset: Dataset) -> Result<Dataset, GraphError> {
        InputSeeds::from(self).in_place_of(split, dataset)
    }

    /// The ids, of this many nodes.
    fn ids(self, nodes: usize) -> Result<Vec<i64>, GraphError> {
        match self {
            Self::Ids(ids) => Ok(ids),
            Self::All => Ok((0..nodes as i64).collect()),
            Self::Mask(mask) if mask.len() != nodes => {
                let problem = format!("the mask has {} entries for {nodes} nodes", mask.len());
                Err(GraphError::usage(OPTION, problem))
            }
            Self::Mask(mask) => Ok(node_file::positions(mask)),
            Self::File(path) => node_file::read(&path, nodes, OPTION),
        }
    }
}

/// Nodes of one type or of several in place of those of a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputSeeds(SeedSource);

/// Where seeds come from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SeedSource {
    /// Nodes of a type, or of the one whose splits are seeds.
    Lists(Vec<(Option<TypeName>, InputNodes)>),
    /// Files as [`NodesFiles`] has them.
    Files(Vec<PathBuf>),
}

impl<N: Into<InputNodes>> From<N> for InputSeeds {
    /// Nodes of the type whose splits are seeds.
    fn from(nodes: N) -> Self {
        Self(SeedSource::Lists(vec![(None, nodes.into())]))
    }
}

impl FromIterator<(TypeName, InputNodes)> for InputSeeds {
    fn from_iter<I: IntoIterator<Item = (TypeName, InputNodes)>>(of_types: I) -> Self {
        Self(SeedSource::Lists(of_types.into_iter().map(|(name, nodes)| (Some(name), nodes)).collect()))
    }
}

impl InputSeeds {
    /// Nodes in these files, each `FILE`, or in a typed graph `TYPE=FILE`. There, a path with `=` begins with `./`.
    #[must_use]
    pub fn in_files(files: &[PathBuf]) -> Self {
        Self(SeedSource::Files(files.to_vec()))
    }

    /// The first node type that they name.
    fn first_type(&self) -> Option<TypeName> {
        match &self.0 {
            SeedSource::Lists(lists) => lists.iter().find_map(|(name, _)| name.clone()),
            SeedSource::Files(files) => files.iter().find_map(|given| of_type(given, true).0),
        }
    }

    /// The dataset with these nodes in place of a split's.
    ///
    /// # Errors
    /// [`GraphError::Usage`] for `input_nodes`: no nodes, an id that is not a node, a mask of another length, a node type
    /// that the dataset does not have or that is named twice. For a file, also if it cannot be read, or has neither ids
    /// nor a mask.
    pub fn in_place_of(self, split: Split, dataset: Dataset) -> Result<Dataset, GraphError> {
        let refused = |problem: String| GraphError::usage(OPTION, problem);
        let lists = match self.0 {
            SeedSource::Lists(lists) => lists,
            SeedSource::Files(files) => {
                let is_named = dataset.metagraph().is_named();
                let of_file = |given: &PathBuf| {
                    let (name, path) = of_type(given, is_named);
                    (name, InputNodes::from(path))
                };
                files.iter().map(of_file).collect()
            }
        };
        let mut of_types: Vec<(NodeType, Vec<i64>)> = Vec::new();
        for (name, nodes) in lists {
            let of = match &name {
                Some(name) => name.find_in(&dataset).map_err(&refused)?,
                None => dataset.target().unwrap_or(NodeType::ONLY),
            };
            let named = dataset.metagraph().is_named().then(|| dataset.metagraph().type_name(of));
            if of_types.iter().any(|(known, _)| *known == of) {
                return Err(refused(match named {
                    Some(name) => format!("nodes of type {name} are given twice: give each type once"),
                    None => {
                        "nodes are given twice, but the dataset has one node type: give them once".to_owned()
                    }
                }));
            }
            let ids = nodes.ids(dataset.nodes_of(of)).map_err(|error| match (error, named) {
                (GraphError::Usage { message, .. }, Some(name)) => refused(format!("{name}: {message}")),
                (other, _) => other,
            })?;
            of_types.push((of, ids));
        }
        if of_types.iter().all(|(_, ids)| ids.is_empty()) {
            return Err(refused("no nodes are given".to_owned()));
        }
        dataset.with_seeds(split, of_types, OPTION)
    }
}

/// Files of nodes that each process of a run reads. Their paths are UTF-8 text; front ends reject other paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodesFiles {
    /// As in [`InputSeeds::in_files`].
    files: Vec<PathBuf>,
    /// The value of [`Dataset::chosen_nodes`] for them.
    pub nodes: String,
}

impl NodesFiles {
    /// The dataset with the nodes of these files in place of the training split's, and the files for other processes.
    ///
    /// # Errors
    /// See [`InputSeeds::in_place_of`].
    pub fn read(files: &[PathBuf], dataset: Dataset) -> Result<(Dataset, Self), GraphError> {
        let is_named = dataset.metagraph().is_named();
        let dataset = InputSeeds::in_files(files).in_place_of(Split::Train, dataset)?;
        let nodes = dataset.chosen_nodes().unwrap_or_default();
        // A process that attaches may have changed its directory.
        let absolute = |given: &PathBuf| {
            let (name, path) = of_type(given, is_named);
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
            match name {
                Some(name) => PathBuf::from(format!("{name}={}", path.display())),
                None => path,
            }
        };
        Ok((dataset, Self { files: files.iter().map(absolute).collect(), nodes }))
    }

    /// The nodes, to be read.
    pub(crate) fn seeds(&self) -> InputSeeds {
        InputSeeds::in_files(&self.files)
    }

    /// Opens the dataset with these nodes in another process.
    ///
    /// # Errors
    /// [`RuntimeError::Input`] if a file has changed since, or can no longer be read.
    pub fn in_place(&self, dataset: Dataset) -> Result<Dataset, RuntimeError> {
        let is_named = dataset.metagraph().is_named();
        let (dataset, found) = Self::read(&self.files, dataset)?;
        if found.nodes == self.nodes {
            return Ok(dataset);
        }
        let (now, before) = (&found.nodes, &self.nodes);
        Err(match &*self.files {
            [file] => RuntimeError::input(format!(
                "it has {now} now, and had {before} when the run began: leave it as it is until the run ends"
            ))
            .in_file(of_type(file, is_named).1),
            _ => RuntimeError::input(format!(
                "the files of `input_nodes` have {now} now, and had {before} when the run began: leave them as they are until \
                 the run ends"
            )),
        })
    }
}

/// The paths that an argument of `input_nodes` may name: before the dataset is open, the path itself, and that of
/// `TYPE=FILE`.
pub fn paths_of(given: &Path) -> impl Iterator<Item = &Path> {
    let (name, path) = of_type(given, true);
    name.map(|_| path).into_iter().chain([given])
}

/// The node type of `TYPE=FILE`, if there are names of types, and the file.
fn of_type(given: &Path, is_named: bool) -> (Option<TypeName>, &Path) {
    let parts = given.to_str().filter(|_| is_named).and_then(|text| text.split_once('='));
    match parts.filter(|(name, _)| !name.contains(['/', '.'])) {
        Some((name, path)) => (Some(TypeName(name.to_owned())), Path::new(path)),
        None => (None, given),
    }
}

impl OptionValue for NodesFiles {
    fn of_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn text(&self) -> String {
        self.json().to_string()
    }

    fn json(&self) -> Value {
        let files: Vec<_> = self.files.iter().map(|file| file.to_string_lossy()).collect();
        json!({ "files": files, "nodes": self.nodes })
    }

    fn of_json(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok()
    }
}

/// Opens a dataset of any number of node types to make batches of it, around nodes of the target or these `seeds`.
///
/// # Errors
/// As [`TypedDataset::open_verified`], and [`TypeName::target_with`].
pub fn open_for_batches(
    path: &Path,
    how: Verify,
    target: Option<&TypeName>,
    seeds: Option<&InputSeeds>,
) -> Result<Dataset, RuntimeError> {
    let dataset = TypedDataset::open_verified(path, how)?;
    let target = TypeName::target_with(target, seeds, &dataset)?;
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
        let Some(given) = given else {
            return dataset.target().ok_or_else(|| {
                let names: Vec<&str> = metagraph.types().map(|of| metagraph.type_name(of)).collect();
                let problem = "\"target\" is missing: it names the node type whose splits are seeds";
                let remedy = format!("give `target`: {}", names.join(", "));
                RuntimeError::input(problem).in_file(&dataset.path().join("meta.json")).with_remedy(remedy)
            });
        };
        let refused = |reason: String| RuntimeError::from(OptionError::new("target", given, reason));
        given.find_in(dataset).map_err(refused)
    }

    /// As [`target_in`](Self::target_in). If neither the caller nor `meta.json` names a type, it is the first that the
    /// seeds name: seeds by type need no split.
    ///
    /// # Errors
    /// As there, if the seeds name no type either.
    pub fn target_with(
        given: Option<&Self>,
        seeds: Option<&InputSeeds>,
        dataset: &TypedDataset,
    ) -> Result<NodeType, RuntimeError> {
        let of_seeds = seeds.filter(|_| dataset.target().is_none()).and_then(InputSeeds::first_type);
        Self::target_in(given.or(of_seeds.as_ref()), dataset)
    }

    /// The type of this name, or the problem with it.
    fn find_in(&self, dataset: &TypedDataset) -> Result<NodeType, String> {
        let metagraph = dataset.metagraph();
        match metagraph.is_named() {
            true => metagraph.find_type(&self.0).map_err(|unknown| unknown.to_string()),
            false => Err("the dataset has no names of node types".to_owned()),
        }
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
