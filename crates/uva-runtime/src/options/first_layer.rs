//! A hop set whose rows replace the feature table and the first layer's sums, in every process of a run.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uva_graph::Dataset;
use uva_options::OptionValue;
use uva_propagate::HopSet;

use crate::RuntimeError;

/// Such a hop set. Its path is UTF-8 text; front ends reject other paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstLayer {
    path: PathBuf,
    /// Identifies its content ([`HopSet::fingerprint`]).
    pub content: String,
    /// Whether a row has the node's own features before the sum of its neighbours'.
    pub keeps_own_rows: bool,
}

impl FirstLayer {
    /// The dataset with the rows of the hop set at `path`, and the hop set for other processes. Batches then have the
    /// same nodes, blocks and hashes, and these rows.
    ///
    /// # Errors
    /// [`RuntimeError::Input`] for a hop set that is damaged, not for a first layer, or for another dataset.
    pub fn read(path: &Path, dataset: Dataset) -> Result<(Dataset, Self), RuntimeError> {
        let set = HopSet::open(path)?;
        let dataset = set.first_layer_of(path, dataset, false)?;
        // A process that attaches may have changed its directory.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok((dataset, Self { path, content: set.fingerprint(), keeps_own_rows: set.keeps_own_rows() }))
    }

    /// Opens the dataset with these rows in another process.
    ///
    /// # Errors
    /// [`RuntimeError::Input`] if the hop set has changed since, or can no longer be read.
    pub(crate) fn in_place(&self, dataset: Dataset) -> Result<Dataset, RuntimeError> {
        let set = HopSet::open(&self.path)?;
        if set.fingerprint() == self.content {
            return Ok(set.first_layer_of(&self.path, dataset, true)?);
        }
        let problem =
            "it is another hop set now than when the run began: leave it as it is until the run ends";
        Err(RuntimeError::input(problem).in_file(&self.path))
    }
}

impl OptionValue for FirstLayer {
    fn of_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn text(&self) -> String {
        self.json().to_string()
    }

    fn json(&self) -> Value {
        let Self { path, content, keeps_own_rows } = self;
        json!({ "path": path.to_string_lossy(), "content": content, "keeps_own_rows": keeps_own_rows })
    }

    fn of_json(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok()
    }
}
