//! `meta.json`: what a dataset says about itself.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uva_mem::files::{read_regular, replace};

use crate::GraphError;
use crate::quote;

/// The file's name in a dataset.
pub const FILE_NAME: &str = "meta.json";

/// It is for people to read: more than any of them will, licences and tables of class names included. Keys that are not
/// known are kept in memory.
pub(crate) const MOST_BYTES: u64 = 16 << 20;

/// Why a file is no such JSON. The parser's message may quote the file.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotMeta(String);

fn invalid(path: &Path, error: &serde_json::Error) -> GraphError {
    GraphError::invalid(path, NotMeta(quote::message(&error.to_string())))
}

/// The content of `meta.json`. Every key is optional, and so is the file; keys not known here are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// What the dataset is called; the directory's name where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many classes there are; largest label + 1 where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<u64>,
    /// How feature values are stored. Needed for `bf16` only, which `.npy` cannot say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feat_dtype: Option<String>,
    /// The data's licence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Meta {
    /// Reads `meta.json` of the dataset in `directory`; all defaults where there is none.
    ///
    /// # Errors
    /// Where the file is there but cannot be read, is not JSON, or a known key has a value of another kind.
    pub fn read(directory: &Path) -> Result<Meta, GraphError> {
        let path = directory.join(FILE_NAME);
        match read_regular(&path, MOST_BYTES) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| invalid(&path, &e)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Meta::default()),
            Err(e) => Err(GraphError::io(&path, "read")(e)),
        }
    }

    /// Writes `meta.json` into `directory`.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), GraphError> {
        let path = directory.join(FILE_NAME);
        let mut text = serde_json::to_string_pretty(self).map_err(|e| GraphError::invalid(&path, e))?;
        text.push('\n');
        replace(&path, 0o666, text.as_bytes()).map_err(GraphError::io(&path, "write"))
    }
}
