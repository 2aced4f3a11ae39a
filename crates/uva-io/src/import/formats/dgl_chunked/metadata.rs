//! The `metadata.json` of a chunked graph.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use uva_files::quote::{self, listed, shown};
use uva_graph::GraphError;
use uva_mem::files::{read_regular, without_byte_order_mark};

use crate::import::formats::graphbolt::metadata::leads_out;

/// The size limit: tens of thousands of chunks.
const MOST_JSON: u64 = 16 << 20;

/// The file. Other keys are ignored.
#[derive(Debug, Deserialize)]
struct Metadata {
    graph_name: Option<String>,
    node_type: Vec<String>,
    num_nodes_per_chunk: Vec<Vec<u64>>,
    edge_type: Vec<String>,
    num_edges_per_chunk: Option<Vec<Vec<u64>>>,
    edges: BTreeMap<String, ChunksMetadata>,
    #[serde(default)]
    node_data: BTreeMap<String, BTreeMap<String, ChunksMetadata>>,
    #[serde(default)]
    edge_data: BTreeMap<String, BTreeMap<String, ChunksMetadata>>,
}

#[derive(Debug, Deserialize)]
struct ChunksMetadata {
    format: FormatMetadata,
    data: Vec<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct FormatMetadata {
    name: String,
    delimiter: Option<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct MetadataProblem(String);

/// The format of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkFormat {
    /// Text without a header, its columns separated by this character.
    Text(u8),
    Numpy,
    Parquet,
}

/// The files of an array, in order; at least one.
#[derive(Debug)]
pub(super) struct Chunks {
    pub(super) format: ChunkFormat,
    pub(super) files: Vec<PathBuf>,
}

/// A node type.
#[derive(Debug)]
pub(super) struct ChunkedType {
    pub(super) name: String,
    pub(super) nodes: u64,
    pub(super) data: BTreeMap<String, Chunks>,
}

/// A relation.
#[derive(Debug)]
pub(super) struct ChunkedRelation {
    pub(super) names: [String; 3],
    /// The places of the types at its ends.
    pub(super) ends: [usize; 2],
    /// The number of edges, if the file has it.
    pub(super) stated: Option<u64>,
    pub(super) edges: Chunks,
    pub(super) data: BTreeMap<String, Chunks>,
}

/// A chunked graph, whose files lie in the directory of its description.
#[derive(Debug)]
pub(super) struct ChunkedGraph {
    pub(super) file: PathBuf,
    pub(super) name: Option<String>,
    pub(super) types: Vec<ChunkedType>,
    pub(super) relations: Vec<ChunkedRelation>,
}

impl ChunkedGraph {
    pub(super) fn read(source: &Path) -> Result<ChunkedGraph, GraphError> {
        let (directory, file) = if source.is_dir() {
            (source.to_owned(), source.join("metadata.json"))
        } else {
            let parent = source.parent().filter(|parent| !parent.as_os_str().is_empty());
            (parent.unwrap_or(Path::new(".")).to_owned(), source.to_owned())
        };
        let text = read_regular(&file, MOST_JSON).map_err(GraphError::io(&file, "open"))?;
        let metadata: Metadata = serde_json::from_slice(without_byte_order_mark(&text))
            .map_err(|error| wrong(&file, quote::message(&error.to_string())))?;
        let Metadata { graph_name, node_type, edge_type, mut edges, mut node_data, mut edge_data, .. } =
            metadata;
        let counts = sums(&file, "num_nodes_per_chunk", &metadata.num_nodes_per_chunk, node_type.len())?;
        let stated = match &metadata.num_edges_per_chunk {
            Some(numbers) => {
                let counts = sums(&file, "num_edges_per_chunk", numbers, edge_type.len())?;
                counts.into_iter().map(Some).collect()
            }
            None => vec![None; edge_type.len()],
        };
        let resolve = |what: &str, chunks| chunks_of((&directory, &file), what, chunks);
        let resolve_all = |owner: &str, data: Option<BTreeMap<String, ChunksMetadata>>| {
            let data = data.unwrap_or_default().into_iter();
            data.map(|(key, chunks)| Ok((key.clone(), resolve(&format!("{key} of {owner}"), chunks)?)))
                .collect::<Result<_, GraphError>>()
        };
        let mut types: Vec<ChunkedType> = Vec::with_capacity(node_type.len());
        for (name, nodes) in node_type.into_iter().zip(counts) {
            if types.iter().any(|of| of.name == name) {
                return Err(wrong(&file, format!("node_type has {} twice", shown(&name))));
            }
            let data = resolve_all(&name, node_data.remove(&name))?;
            types.push(ChunkedType { name, nodes, data });
        }
        let mut relations: Vec<ChunkedRelation> = Vec::with_capacity(edge_type.len());
        for (text, stated) in edge_type.into_iter().zip(stated) {
            let refused = |problem: &str| wrong(&file, format!("edge_type '{}' {problem}", shown(&text)));
            let parts: Vec<String> = text.split(':').map(str::to_owned).collect();
            let names = <[String; 3]>::try_from(parts)
                .map_err(|_| refused("has to be SOURCE:RELATION:DESTINATION"))?;
            let end = |name: &String| {
                let found = types.iter().position(|of| of.name == *name);
                let known = || listed(types.iter().map(|of| &of.name));
                found.ok_or_else(|| refused(&format!("has an end that is not a node_type: {}", known())))
            };
            let ends = [end(&names[0])?, end(&names[2])?];
            let chunks = edges.remove(&text).ok_or_else(|| {
                refused("occurs twice, or has no entry in edges: add it, or remove it from edge_type")
            })?;
            let edges = resolve(&format!("edges of {text}"), chunks)?;
            let data = resolve_all(&text, edge_data.remove(&text))?;
            relations.push(ChunkedRelation { names, ends, stated, edges, data });
        }
        let left = node_data.into_keys().map(|name| ("node_data", name));
        let mut left = left.chain(edges.into_keys().map(|name| ("edges", name)));
        if let Some((key, name)) = left.next().or_else(|| Some(("edge_data", edge_data.into_keys().next()?)))
        {
            let message = format!("{key} has {}, which node_type and edge_type do not have", shown(&name));
            return Err(wrong(&file, message));
        }
        match types.is_empty() || relations.is_empty() {
            true => Err(wrong(&file, "it has no node_type or no edge_type: both are needed")),
            false => Ok(ChunkedGraph { file, name: graph_name, types, relations }),
        }
    }

    /// Whether there is one node type and one relation.
    pub(super) fn is_homogeneous(&self) -> bool {
        self.types.len() == 1 && self.relations.len() == 1
    }
}

/// The error about the content of `file`.
pub(super) fn wrong(file: &Path, message: impl Into<String>) -> GraphError {
    GraphError::invalid(file, MetadataProblem(message.into()))
}

/// The sum of each list of `key`, of which there have to be `count`.
fn sums(file: &Path, key: &str, lists: &[Vec<u64>], count: usize) -> Result<Vec<u64>, GraphError> {
    if lists.len() != count {
        let message = format!("{key} has {} lists, it needs {count}: one for each type", lists.len());
        return Err(wrong(file, message));
    }
    let sum = |list: &Vec<u64>| list.iter().try_fold(0_u64, |sum, &number| sum.checked_add(number));
    lists.iter().map(|list| sum(list).ok_or_else(|| wrong(file, format!("{key} is too large")))).collect()
}

/// The chunks called `what` in messages.
fn chunks_of(
    (directory, file): (&Path, &Path),
    what: &str,
    ChunksMetadata { format: FormatMetadata { name, delimiter }, data }: ChunksMetadata,
) -> Result<Chunks, GraphError> {
    let what = shown(what);
    let format = match (name.as_str(), delimiter.as_deref().map(str::as_bytes)) {
        ("csv", None) => ChunkFormat::Text(b','),
        ("csv", Some(&[delimiter])) if delimiter.is_ascii() && !b"\r\n\"".contains(&delimiter) => {
            ChunkFormat::Text(delimiter)
        }
        ("csv", Some(_)) => {
            return Err(wrong(file, format!("the delimiter of {what} has to be one ASCII character")));
        }
        ("numpy", _) => ChunkFormat::Numpy,
        ("parquet", _) => ChunkFormat::Parquet,
        (other, _) => {
            let message = format!("{what} has the format '{}': expected csv, numpy or parquet", shown(other));
            return Err(wrong(file, message));
        }
    };
    if data.is_empty() {
        return Err(wrong(file, format!("{what} has no files in data")));
    }
    let mut files = Vec::with_capacity(data.len());
    for path in data {
        let joined = directory.join(&path);
        match leads_out(directory, &path) {
            Ok(false) => files.push(joined),
            Ok(true) => {
                let message = format!(
                    "the file {} lies outside of {}: move the chunks there, and give paths relative to it",
                    shown(path.as_os_str().as_encoded_bytes()),
                    directory.display()
                );
                return Err(wrong(file, message));
            }
            Err(error) if path.is_absolute() && error.kind() == std::io::ErrorKind::NotFound => {
                let message = format!(
                    "the file {} does not exist: if the directory was moved, give paths relative to it",
                    shown(path.as_os_str().as_encoded_bytes())
                );
                return Err(wrong(file, message));
            }
            Err(error) => return Err(GraphError::io(&joined, "open")(error)),
        }
    }
    Ok(Chunks { format, files })
}
