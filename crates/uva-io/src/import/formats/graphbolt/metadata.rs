//! The relevant parts of a GraphBolt dataset's `metadata.yaml`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use uva_files::quote::{self, listed, shown};
use uva_graph::{GraphError, Split};
use uva_mem::files::{read_regular, without_byte_order_mark};

use crate::import::reading::stream::ArrayStream;
use crate::import::reading::unread_parts;

/// The size limit: thousands of times a description of one node type and one edge type. The parsed tree takes many
/// times the file's bytes of memory.
const MOST_YAML: u64 = 4 << 20;

/// The file. Other keys are ignored.
#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    pub(super) dataset_name: Option<String>,
    pub(super) graph: Option<GraphMetadata>,
    graph_topology: Option<IgnoredAny>,
    pub(super) feature_data: Option<Vec<FeatureData>>,
    pub(super) tasks: Option<Vec<TaskMetadata>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GraphMetadata {
    pub(super) nodes: Vec<NodesMetadata>,
    pub(super) edges: Vec<EdgesMetadata>,
    /// Values that GraphBolt samples by, in the order of the edges.
    pub(super) feature_data: Option<Vec<FeatureData>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct NodesMetadata {
    pub(super) r#type: Option<String>,
    pub(super) num: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct EdgesMetadata {
    pub(super) r#type: Option<String>,
    pub(super) format: String,
    pub(super) path: PathBuf,
}

#[derive(Debug, Deserialize)]
pub(super) struct FeatureData {
    pub(super) domain: String,
    pub(super) r#type: Option<String>,
    pub(super) name: String,
    pub(super) format: String,
    pub(super) path: PathBuf,
}

#[derive(Debug, Deserialize)]
pub(super) struct TaskMetadata {
    pub(super) name: Option<String>,
    pub(super) num_classes: Option<u64>,
    train_set: Option<Vec<SeedsMetadata>>,
    validation_set: Option<Vec<SeedsMetadata>>,
    test_set: Option<Vec<SeedsMetadata>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SeedsMetadata {
    pub(super) r#type: Option<String>,
    pub(super) data: Vec<SetData>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SetData {
    pub(super) name: Option<String>,
    pub(super) format: String,
    pub(super) path: PathBuf,
}

impl SeedsMetadata {
    /// The entry with one of these names. Older files don't name seeds and labels, but have them in this order.
    pub(super) fn named(&self, names: &[&str], place: usize) -> Option<&SetData> {
        let is_named = |data: &&SetData| data.name.as_deref().is_some_and(|name| names.contains(&name));
        let unnamed = || self.data.get(place).filter(|data| data.name.is_none());
        self.data.iter().find(is_named).or_else(unnamed)
    }
}

impl TaskMetadata {
    /// The sets, by the splits that they become.
    pub(super) fn sets(&self) -> [(Split, &'static str, &[SeedsMetadata]); 3] {
        fn of(sets: &Option<Vec<SeedsMetadata>>) -> &[SeedsMetadata] {
            sets.as_deref().unwrap_or_default()
        }
        [
            (Split::Train, "train_set", of(&self.train_set)),
            (Split::Valid, "validation_set", of(&self.validation_set)),
            (Split::Test, "test_set", of(&self.test_set)),
        ]
    }
}

/// Names of the seeds in a set.
pub(super) const SEEDS: [&str; 3] = ["seeds", "seed_nodes", "node_ids"];

/// Seeds, and their labels if they have any.
pub(super) type SeedSet = (ArrayStream, Option<ArrayStream>);

#[derive(Debug, thiserror::Error)]
enum MetadataProblem {
    #[error("{0}")]
    Yaml(String),
    #[error("{0}")]
    Content(String),
    #[error("it is a link to a place outside of {}: give its target instead", .0.display())]
    LeadsOut(PathBuf),
}

/// Whether `path`, links followed, lies outside of `directory`. The files are untrusted, and may refer to any file of
/// the user.
pub(crate) fn leads_out(directory: &Path, path: &Path) -> io::Result<bool> {
    Ok(!directory.join(path).canonicalize()?.starts_with(directory.canonicalize()?))
}

/// The file, with its directory.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) directory: PathBuf,
    pub(super) file: PathBuf,
    pub(super) metadata: Metadata,
    /// The entries of `feature_data`, the graph's first, that were opened.
    read: RefCell<BTreeSet<usize>>,
}

impl Described {
    pub(super) fn read(source: &Path) -> Result<Described, GraphError> {
        let (directory, file) = if source.is_dir() {
            (source.to_owned(), source.join("metadata.yaml"))
        } else {
            let parent = source.parent().filter(|parent| !parent.as_os_str().is_empty());
            (parent.unwrap_or(Path::new(".")).to_owned(), source.to_owned())
        };
        let name = file.file_name().unwrap_or_default();
        if leads_out(&directory, Path::new(name)).map_err(GraphError::io(&file, "open"))? {
            return Err(GraphError::invalid(&file, MetadataProblem::LeadsOut(directory)));
        }
        let text = read_regular(&file, MOST_YAML).map_err(GraphError::io(&file, "open"))?;
        let metadata: Metadata =
            serde_saphyr::from_slice(without_byte_order_mark(&text)).map_err(|error| {
                // One line: the parser adds a picture of the place below its message.
                GraphError::invalid(&file, MetadataProblem::Yaml(quote::message(&error.to_string())))
            })?;
        Ok(Described { directory, file, metadata, read: RefCell::default() })
    }

    pub(super) fn wrong(&self, message: impl Into<String>) -> GraphError {
        GraphError::invalid(&self.file, MetadataProblem::Content(message.into()))
    }

    /// Whether nodes or edges have several types.
    pub(super) fn is_typed(&self) -> bool {
        self.metadata.graph.as_ref().is_some_and(|graph| graph.nodes.len() > 1 || graph.edges.len() > 1)
    }

    /// The node types and relations.
    pub(super) fn all_types(&self) -> Result<&GraphMetadata, GraphError> {
        self.metadata.graph.as_ref().ok_or_else(|| {
            self.wrong(match self.metadata.graph_topology {
                Some(_) => {
                    "it is what GraphBolt has made of a dataset, with the graph as a PyTorch file: import the metadata.yaml \
                     that it was made of, one directory up"
                }
                None => "it has no graph",
            })
        })
    }

    /// The numbers of nodes and edges, with one type each.
    pub(super) fn graph(&self) -> Result<(&NodesMetadata, &EdgesMetadata), GraphError> {
        let graph = self.all_types()?;
        let kinds = |kinds: Vec<Option<&str>>| listed(kinds.iter().map(|kind| kind.unwrap_or("(no name)")));
        match (graph.nodes.as_slice(), graph.edges.as_slice()) {
            ([nodes], [edges]) => Ok((nodes, edges)),
            (nodes, edges) => Err(self.wrong(format!(
                "it has nodes of {} types ({}) and edges of {} ({}): a dataset has one of each",
                nodes.len(),
                kinds(nodes.iter().map(|nodes| nodes.r#type.as_deref()).collect()),
                edges.len(),
                kinds(edges.iter().map(|edges| edges.r#type.as_deref()).collect()),
            ))),
        }
    }

    /// The features of nodes, or those of edges, called `name`.
    pub(super) fn feature(&self, domain: &str, names: &[&str]) -> Result<Option<ArrayStream>, GraphError> {
        let found = self
            .feature_data()
            .find(|(_, data)| data.domain == domain && names.contains(&data.name.as_str()));
        found.map(|(at, data)| self.read_feature(at, data)).transpose()
    }

    /// Values that GraphBolt samples by, such as weights.
    fn of_graph(&self) -> &[FeatureData] {
        let graph = self.metadata.graph.as_ref();
        graph.and_then(|graph| graph.feature_data.as_deref()).unwrap_or_default()
    }

    fn feature_data(&self) -> impl Iterator<Item = (usize, &FeatureData)> {
        self.of_graph().iter().chain(self.metadata.feature_data.iter().flatten()).enumerate()
    }

    fn read_feature(&self, at: usize, data: &FeatureData) -> Result<ArrayStream, GraphError> {
        self.read.borrow_mut().insert(at);
        self.array(&data.format, &data.path)
    }

    /// Reports the unread entries of `feature_data` and of the sets of a task.
    pub(super) fn say_left_out(&self, task: &TaskMetadata, note: &dyn Fn(&str)) {
        let read = self.read.borrow();
        let mut left: Vec<String> = (self.feature_data().filter(|(at, _)| !read.contains(at)))
            .map(|(_, data)| format!("feature_data {} of the domain {}", data.name, data.domain))
            .collect();
        for (_, what, sets) in task.sets() {
            let data = sets.iter().flat_map(|set| &set.data).enumerate();
            left.extend(data.filter_map(|(at, data)| match &data.name {
                Some(name) if SEEDS.contains(&name.as_str()) || name == "labels" => None,
                Some(name) => Some(format!("{name} of the {what}")),
                None if at < 2 => None,
                None => Some(format!("entry {at} of the {what}")),
            }));
        }
        unread_parts::say(note, &self.file, &left);
    }

    /// The only table of features: `feat`, or the only one not in `others`.
    pub(super) fn features(&self, others: &[&str]) -> Result<ArrayStream, GraphError> {
        if let Some(features) = self.feature("node", &["feat"])? {
            return Ok(features);
        }
        let all: Vec<(usize, &FeatureData)> = (self.feature_data().skip(self.of_graph().len()))
            .filter(|(_, data)| data.domain == "node" && !others.contains(&data.name.as_str()))
            .collect();
        match all.as_slice() {
            &[(at, data)] => self.read_feature(at, data),
            [] => Err(self.wrong("it has no features of nodes: feature_data with domain node")),
            several => {
                let names = listed(several.iter().map(|(_, data)| &data.name));
                Err(self.wrong(format!(
                    "it has several features of nodes ({names}): call the one that is meant feat"
                )))
            }
        }
    }

    /// The task called `name`, or the only one.
    pub(super) fn task(&self, name: Option<&str>) -> Result<&TaskMetadata, GraphError> {
        let tasks: Vec<&TaskMetadata> = self.metadata.tasks.iter().flatten().collect();
        let names = || listed(tasks.iter().map(|task| task.name.as_deref().unwrap_or("(no name)")));
        match (name, tasks.as_slice()) {
            (_, []) => Err(self.wrong("it has no tasks, so no splits")),
            (None, [task]) => Ok(task),
            (None, _) => {
                let message = format!("{} has the tasks {}: give one of them", self.file.display(), names());
                Err(GraphError::usage("variant", message))
            }
            (Some(name), _) => {
                let found = tasks.iter().find(|task| task.name.as_deref() == Some(name)).copied();
                found.ok_or_else(|| {
                    let message = format!("{} has the tasks {}, and no {name}", self.file.display(), names());
                    GraphError::usage("variant", message)
                })
            }
        }
    }

    /// Seeds and labels of a task's sets: train, validation, test; nothing for a missing set.
    pub(super) fn sets(&self, task: &TaskMetadata) -> Result<[Option<SeedSet>; 3], GraphError> {
        let set = |(_, what, sets): (Split, &str, &[SeedsMetadata])| {
            let set = match sets {
                [] => return Ok(None),
                [set] => set,
                sets => {
                    let names = listed(sets.iter().map(|set| set.r#type.as_deref().unwrap_or("(no name)")));
                    return Err(self.wrong(format!("{what} is of several types: {names}")));
                }
            };
            let open =
                |data: Option<&SetData>| data.map(|data| self.array(&data.format, &data.path)).transpose();
            match open(set.named(&SEEDS, 0))? {
                Some(seeds) => Ok(Some((seeds, open(set.named(&["labels"], 1))?))),
                None => Err(self.wrong(format!("{what} has no seeds"))),
            }
        };
        let [train, valid, test] = task.sets();
        Ok([set(train)?, set(valid)?, set(test)?])
    }

    /// An array that a stream reads.
    pub(super) fn array(&self, format: &str, path: &Path) -> Result<ArrayStream, GraphError> {
        ArrayStream::open(&self.array_file(format, path)?)
    }

    /// The file of an array.
    ///
    /// # Errors
    /// If it has another format than `.npy`, or lies outside of the directory.
    pub(super) fn array_file(&self, format: &str, path: &Path) -> Result<PathBuf, GraphError> {
        match format {
            "numpy" => self.inside(path),
            "torch" => Err(self.wrong(format!(
                "{} is a PyTorch file, which may contain code and is not supported: save it with numpy.save, and set format: numpy",
                shown(path.as_os_str().as_encoded_bytes())
            ))),
            other => Err(self.wrong(format!(
                "{} has the format '{}', numpy is read here",
                shown(path.as_os_str().as_encoded_bytes()),
                shown(other)
            ))),
        }
    }

    /// The path of the file named `path` here.
    ///
    /// # Errors
    /// If it does not exist, or the name leads out of the dataset's directory, directly or through a link.
    pub(super) fn inside(&self, path: &Path) -> Result<PathBuf, GraphError> {
        let named = shown(path.as_os_str().as_encoded_bytes());
        match leads_out(&self.directory, path) {
            Ok(false) => Ok(self.directory.join(path)),
            Ok(true) => Err(self.wrong(format!(
                "the file {named} lies outside of {}: files of a dataset have to be in its directory",
                self.directory.display()
            ))),
            Err(source) => Err(GraphError::Io { path: self.directory.join(named), action: "open", source }),
        }
    }
}
