//! `meta.json`: a dataset's description of itself.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uva_mem::files::{read_regular, replace, without_byte_order_mark};

use crate::GraphError;
use crate::description::metagraph::Metagraph;
use crate::description::part_of::PartOf;
use crate::description::ranges_of::RangesOf;
use crate::description::typed_meta::{TypedMeta, TypedMetaProblem};
use uva_files::quote;

/// The file's name in a dataset.
pub const FILE_NAME: &str = "meta.json";

/// Size limit of the file. It is meant for human readers; this leaves space for licences and tables of class names.
/// Unknown keys are kept in memory.
pub(crate) const MOST_BYTES: u64 = 16 << 20;

/// Why a file is not valid JSON of this form. The parser's message may quote the file.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotMeta(String);

fn invalid(path: &Path, error: &serde_json::Error) -> GraphError {
    GraphError::invalid(path, NotMeta(quote::message(&error.to_string())))
}

/// The content of `meta.json`. Every key is optional, and so is the file; unknown keys are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The dataset's name; the directory's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The number of classes; largest label + 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<u64>,
    /// The name of each class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_names: Option<Vec<String>>,
    /// The element type of the features. Only required for `bf16` and `e4m3`, which `.npy` cannot express.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feat_dtype: Option<String>,
    /// The element type of the edges' features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_feat_dtype: Option<String>,
    /// The data's licence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// Which part of a partitioned dataset this is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartOf>,
    /// Role in a partition in ranges, if this is the graph or a part of such a partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranges: Option<RangesOf>,
    /// The node types and relations of a dataset of format 2; `None` in format 1.
    #[serde(flatten, skip_deserializing)]
    pub typed: Option<TypedMeta>,
    /// All other keys.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Meta {
    /// Reads `meta.json` of the dataset in `directory`; all defaults if there is none.
    ///
    /// # Errors
    /// If the file exists but cannot be read, is not JSON, a known key has a value of the wrong type, or the format is
    /// not known.
    pub fn read(directory: &Path) -> Result<Meta, GraphError> {
        let path = directory.join(FILE_NAME);
        match read_regular(&path, MOST_BYTES) {
            Ok(bytes) => Self::parse(without_byte_order_mark(&bytes), &path),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Meta::default()),
            Err(e) => Err(GraphError::io(&path, "read")(e)),
        }
    }

    fn parse(bytes: &[u8], path: &Path) -> Result<Meta, GraphError> {
        // Keys of the other format are parsed by that format alone: in format 1 they belong to the user.
        let mut keys: Map<String, Value> = serde_json::from_slice(bytes).unwrap_or_default();
        let typed = TypedMeta::take_from(&mut keys).map_err(|e| GraphError::invalid(path, e))?;
        let meta = match typed {
            Some(_) => serde_json::from_value(Value::Object(keys)),
            // Messages about the text have the line.
            None => serde_json::from_slice(bytes),
        };
        Ok(Meta { typed, ..meta.map_err(|e| invalid(path, &e))? })
    }

    /// The node types and relations: one of each in format 1.
    pub(crate) fn metagraph(&self) -> Result<Metagraph, TypedMetaProblem> {
        self.typed.as_ref().map_or_else(|| Ok(Metagraph::homogeneous()), TypedMeta::metagraph)
    }

    /// Whether there are several node types or relations.
    #[must_use]
    pub fn has_several_types(&self) -> bool {
        self.typed.as_ref().is_some_and(|typed| typed.nodes.len() > 1 || typed.edges.len() > 1)
    }

    /// Checks that the dataset in `directory` has format 1, for code that reads its files by name.
    ///
    /// # Errors
    /// If these are the metadata of format 2.
    pub fn check_format_1(&self, directory: &Path) -> Result<(), GraphError> {
        match &self.typed {
            None => Ok(()),
            Some(_) => Err(GraphError::invalid(&directory.join(FILE_NAME), TypedMetaProblem::NotYet)),
        }
    }

    /// The metadata for a copy of the dataset in format 1, which has one node type and one relation.
    #[must_use]
    pub(crate) fn in_format_1(&self) -> Meta {
        let mut meta = Meta { typed: None, ..self.clone() };
        if let Some(TypedMeta { nodes, edges, .. }) = &self.typed
            && let ([node_type], [relation]) = (&nodes[..], &edges[..])
        {
            meta.classes = node_type.classes;
            meta.feat_dtype.clone_from(&node_type.feat_dtype);
            meta.edge_feat_dtype.clone_from(&relation.feat_dtype);
        }
        meta
    }

    /// Writes `meta.json` into `directory`.
    ///
    /// # Errors
    /// If the file cannot be written, or a key of the user's own would name another format.
    pub fn write(&self, directory: &Path) -> Result<(), GraphError> {
        if let (None, Some(Value::Number(version))) = (&self.typed, self.other.get("version"))
            && version.as_u64() != Some(1)
        {
            let problem = "the number is that of the format, which is 1 here: write your own version as text";
            return Err(GraphError::usage("version", problem));
        }
        let path = directory.join(FILE_NAME);
        let mut text = serde_json::to_string_pretty(self).map_err(|e| GraphError::invalid(&path, e))?;
        text.push('\n');
        replace(&path, 0o666, text.as_bytes()).map_err(GraphError::io(&path, "write"))
    }
}
