//! `meta.json`: a dataset's description of itself.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uva_mem::files::{read_regular, replace, without_byte_order_mark};

use crate::GraphError;
use crate::description::part_of::PartOf;
use crate::description::ranges_of::RangesOf;
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
    /// All other keys.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Meta {
    /// Reads `meta.json` of the dataset in `directory`; all defaults if there is none.
    ///
    /// # Errors
    /// If the file exists but cannot be read, is not JSON, or a known key has a value of the wrong type.
    pub fn read(directory: &Path) -> Result<Meta, GraphError> {
        let path = directory.join(FILE_NAME);
        match read_regular(&path, MOST_BYTES) {
            Ok(bytes) => {
                serde_json::from_slice(without_byte_order_mark(&bytes)).map_err(|e| invalid(&path, &e))
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Meta::default()),
            Err(e) => Err(GraphError::io(&path, "read")(e)),
        }
    }

    /// Writes `meta.json` into `directory`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), GraphError> {
        let path = directory.join(FILE_NAME);
        let mut text = serde_json::to_string_pretty(self).map_err(|e| GraphError::invalid(&path, e))?;
        text.push('\n');
        replace(&path, 0o666, text.as_bytes()).map_err(GraphError::io(&path, "write"))
    }
}
