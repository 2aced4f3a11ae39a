//! The files of a checkpoint, as `uvatrain train` writes and reads them (docs/reference/checkpoint-format.md). What is
//! in the tensors is for Python to pack and unpack.

use std::path::PathBuf;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uva_launch::training::check_resumable;
use uva_model::checkpoint::{self, CheckpointError, EmbeddingRows, StoredEmbedding, TrainerState};
use uva_runtime::spec::Spelling;

use crate::errors::UvatrainError;

/// The content of `checkpoint.json` without the name of its tensors.
#[derive(Serialize, Deserialize)]
struct Contents {
    trainer: TrainerState,
    fingerprint: Value,
    state: Value,
}

/// Writes the current checkpoint of `directory`, which is created if missing. tensors: a whole safetensors file, marked
/// as written by uvatrain. contents: `trainer`, `fingerprint` and `state`, as JSON.
#[pyfunction]
pub fn _store_checkpoint(py: Python<'_>, directory: PathBuf, tensors: &[u8], contents: &str) -> PyResult<()> {
    let contents =
        serde_json::from_str(contents).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let Contents { trainer, fingerprint, state } = contents;
    py.detach(|| checkpoint::store(&directory, (tensors, &[]), trainer, &fingerprint, &state, &mut |_| {}))
        .map_err(|error| raised(&error))
}

/// A node type with the shape of its table, where the rows begin in its file, and the files of the last rows and of those
/// of the best epoch.
type Table = (String, (usize, usize), usize, PathBuf, Option<PathBuf>);

/// The JSON of a checkpoint, the file of its tensors, and its tables.
type Opened<'py> = (String, Bound<'py, PyBytes>, Vec<Table>);

/// The checkpoint in `directory`, to use its model: `trainer`, `fingerprint` and `state` as JSON, the file of its tensors,
/// and its tables. None: there is no checkpoint. Raises ValueError if it is damaged, or a number of its model is out of
/// range.
#[pyfunction]
pub fn _open_checkpoint(py: Python<'_>, directory: PathBuf) -> PyResult<Option<Opened<'_>>> {
    let read = || -> Result<_, CheckpointError> {
        let Some(found) = checkpoint::read(&directory)? else { return Ok(None) };
        found.model()?;
        let (trainer, state) = (found.trainer(), found.state::<Value>()?);
        let fingerprint = found.fingerprint();
        let text = serde_json::json!({"trainer": trainer, "fingerprint": fingerprint, "state": state});
        let path = |rows: &EmbeddingRows| rows.checked().map(|_| rows.path().to_owned());
        let table = |table: &StoredEmbedding| -> Result<Table, CheckpointError> {
            let (shape, begin) = ((table.rows, table.columns), table.values.begin());
            let best = table.best.as_ref().map(path).transpose()?;
            Ok((table.name.clone(), shape, begin, path(&table.values)?, best))
        };
        let tables = found.embeddings().iter().map(table).collect::<Result<_, _>>()?;
        Ok(Some((text.to_string(), found, tables)))
    };
    let found = py.detach(read).map_err(|error| raised(&error))?;
    Ok(found.map(|(text, found, tables)| (text, PyBytes::new(py, found.tensors()), tables)))
}

/// The current checkpoint of `directory`, to continue training: `trainer` and `state` as JSON, and the file of its tensors.
/// train_batches: the most training batches of an epoch, of all ranks together. None: there is no checkpoint. Raises
/// ValueError with every field that differs, if it is not of this model and this fingerprint, or with the first invalid
/// field.
#[pyfunction]
pub fn _read_checkpoint<'py>(
    py: Python<'py>,
    directory: PathBuf,
    model: &str,
    fingerprint: &str,
    train_batches: u64,
) -> PyResult<Option<(String, Bound<'py, PyBytes>)>> {
    let given = |text| serde_json::from_str(text).map_err(|error| PyValueError::new_err(error.to_string()));
    let (model, fingerprint): (Value, Value) = (given(model)?, given(fingerprint)?);
    let read = || -> Result<_, CheckpointError> {
        let Some(found) = checkpoint::read(&directory)? else { return Ok(None) };
        found.check(&model, &fingerprint)?;
        check_resumable(&found, &found.state()?, train_batches)?;
        let (trainer, state) = (found.trainer(), found.state::<Value>()?);
        Ok(Some((serde_json::json!({"trainer": trainer, "state": state}).to_string(), found)))
    };
    let found = py.detach(read).map_err(|error| raised(&error))?;
    Ok(found.map(|(text, found)| (text, PyBytes::new(py, found.tensors()))))
}

fn raised(error: &CheckpointError) -> PyErr {
    let message = Spelling::Keyword.sentence(&error.to_string());
    match error {
        CheckpointError::Io { .. } => PyOSError::new_err(message),
        error if error.is_usage() => PyValueError::new_err(message),
        _ => UvatrainError::new_err(message),
    }
}
