//! Writing a checkpoint to its folder, and reading it.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uva_mem::MappedFile;
use uva_mem::files::read_regular;

use super::checkpoint_error::CheckpointError;
use super::durable::{self, StepObserver, on};
use super::embedding_files::{self, EmbeddingContent, StoredEmbedding};
use super::folder::{is_tensors, named_files, remove_unnamed};
use super::state_file::{
    MOST_STATE, STATE_FILE, StateFile, StoredFile, TENSORS_PREFIX, TENSORS_SUFFIX, TrainerState, VERSION,
    checksum,
};

/// Writes a checkpoint to the folder `directory`, which is created if missing. `tensors` is a whole safetensors file
/// whose header contains [`MARKER`](super::MARKER), and `embeddings` are the tables of node types without features;
/// `trainer` describes the trainer that both belong to.
/// `observer` is called after each step that changes the folder.
///
/// `fingerprint` is an object, compared field by field before a resume. `state` may be any value.
///
/// # Errors
/// [`CheckpointError::Io`] if a step fails; the previous checkpoint then remains the current one.
pub fn store(
    directory: &Path,
    (tensors, embeddings): (&[u8], &[EmbeddingContent<'_>]),
    trainer: TrainerState,
    fingerprint: &impl Serialize,
    state: &impl Serialize,
    observer: StepObserver<'_>,
) -> Result<(), CheckpointError> {
    let json = |what, value: Result<Value, serde_json::Error>| {
        value.map_err(|error| {
            CheckpointError::Refused(format!("its {what} cannot be written as JSON: {error}"))
        })
    };
    let checksum = format!("{:016x}", checksum(tensors));
    let file = format!("{TENSORS_PREFIX}{checksum}{TENSORS_SUFFIX}");
    let fingerprint = json("fingerprint", serde_json::to_value(fingerprint))?;
    let state = json("state", serde_json::to_value(state))?;
    durable::create_directory(directory)?;
    let former = named_files(directory).unwrap_or_default();
    let embeddings: Result<Vec<_>, _> = embeddings
        .iter()
        .map(|content| embedding_files::write(directory, content, &former, observer))
        .collect();
    let contents = StateFile {
        version: VERSION,
        tensors: StoredFile { file: file.clone(), bytes: tensors.len() as u64, checksum },
        embeddings: embeddings?,
        trainer,
        fingerprint,
        state,
    };
    let mut text = serde_json::to_vec_pretty(&contents)
        .map_err(|error| CheckpointError::Refused(format!("its state cannot be written as JSON: {error}")))?;
    text.push(b'\n');
    durable::replace(directory, &file, [&[], tensors], observer)?;
    durable::replace(directory, STATE_FILE, [&[], &text], observer)?;
    remove_unnamed(directory, &contents.names(), &former)?;
    observer("removed older tensors");
    Ok(())
}

/// A checkpoint read from its folder, complete and consistent.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    contents: StateFile,
    tensors: MappedFile,
    embeddings: Vec<StoredEmbedding>,
}

/// Reads the current checkpoint of `directory`, or `None` if there is none.
///
/// # Errors
/// [`CheckpointError::Damaged`] if a file differs from its written content, [`CheckpointError::Io`] if a file cannot be
/// read.
pub fn read(directory: &Path) -> Result<Option<Checkpoint>, CheckpointError> {
    let path = directory.join(STATE_FILE);
    let text = match read_regular(&path, MOST_STATE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => on("read", &path, other)?,
    };
    let damaged = |path: &Path, problem: String| CheckpointError::Damaged { path: path.to_owned(), problem };
    let contents: StateFile = serde_json::from_slice(&text)
        .map_err(|error| damaged(&path, format!("it is not a checkpoint's state: {error}")))?;
    if contents.version != VERSION {
        return Err(damaged(
            &path,
            format!("its version is {}, and {VERSION} is read here", contents.version),
        ));
    }
    let file = &contents.tensors.file;
    if !is_tensors(file) {
        return Err(damaged(&path, format!("it names {file:?} as its tensors")));
    }
    let tensors_path = directory.join(file);
    // The file is mapped, so that a sparse file larger than memory uses none.
    let tensors = match MappedFile::open(&tensors_path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damaged(&path, format!("its tensors, {file}, do not exist")));
        }
        other => on("read", &tensors_path, other)?,
    };
    let bytes = tensors.bytes();
    if bytes.len() as u64 != contents.tensors.bytes {
        return Err(damaged(
            &tensors_path,
            format!("it has {} bytes, and {} were written", bytes.len(), contents.tensors.bytes),
        ));
    }
    let found = format!("{:016x}", checksum(bytes));
    if found != contents.tensors.checksum {
        return Err(damaged(
            &tensors_path,
            format!("its checksum is {found}, and {} was written", contents.tensors.checksum),
        ));
    }
    let tables = contents.embeddings.iter();
    let embeddings = tables.map(|files| embedding_files::open(&path, directory, files));
    let embeddings = embeddings.collect::<Result<Vec<_>, _>>()?;
    if let Some(other) = embeddings.iter().find(|table| table.best.is_some() != contents.trainer.best) {
        let problem = format!("its rows of {} of the best epoch do not fit trainer.best", other.name);
        return Err(damaged(&path, problem));
    }
    Ok(Some(Checkpoint { path, contents, tensors, embeddings }))
}

impl Checkpoint {
    /// The stored fingerprint.
    pub fn fingerprint(&self) -> &Value {
        &self.contents.fingerprint
    }

    /// Compares only the fingerprint, which needs no trainer. A launcher uses this before it starts any process.
    ///
    /// # Errors
    /// [`CheckpointError::Mismatch`] naming every field that differs.
    pub fn check_fingerprint(&self, fingerprint: &Value) -> Result<(), CheckpointError> {
        let mut differences = Vec::new();
        compare("", &self.contents.fingerprint, fingerprint, &mut differences);
        self.differing(&differences)
    }

    /// The stored state.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`] if the state is not an `S`.
    pub fn state<S: DeserializeOwned>(&self) -> Result<S, CheckpointError> {
        S::deserialize(&self.contents.state)
            .map_err(|error| self.damaged(format!("its state cannot be read: {error}")))
    }

    /// Compares a trainer's structure, `model`, and the fingerprint with the stored ones.
    ///
    /// # Errors
    /// [`CheckpointError::Mismatch`] naming every field that differs.
    pub fn check(&self, model: &Value, fingerprint: &Value) -> Result<(), CheckpointError> {
        let mut differences = Vec::new();
        compare("", &self.contents.trainer.model, model, &mut differences);
        compare("", &self.contents.fingerprint, fingerprint, &mut differences);
        self.differing(&differences)
    }

    fn differing(&self, differences: &[String]) -> Result<(), CheckpointError> {
        if differences.is_empty() {
            return Ok(());
        }
        Err(CheckpointError::Mismatch { path: self.path.clone(), differences: differences.join(", ") })
    }

    /// The stored trainer.
    pub fn trainer(&self) -> &TrainerState {
        &self.contents.trainer
    }

    /// The checksum of its tensors, 16 hex digits. Different parameters have different checksums.
    pub fn checksum(&self) -> &str {
        &self.contents.tensors.checksum
    }

    /// The bytes of the safetensors file.
    pub fn tensors(&self) -> &[u8] {
        self.tensors.bytes()
    }

    /// The tables of node types without features.
    pub fn embeddings(&self) -> &[StoredEmbedding] {
        &self.embeddings
    }

    /// An error that rejects this checkpoint for its contents.
    pub fn damaged(&self, problem: String) -> CheckpointError {
        CheckpointError::Damaged { path: self.path.clone(), problem }
    }
}

/// Adds a line for each field in which the two differ.
fn compare(field: &str, stored: &Value, current: &Value, differences: &mut Vec<String>) {
    if let (Value::Object(stored), Value::Object(current)) = (stored, current) {
        let only_here = current.keys().filter(|key| !stored.contains_key(*key));
        for key in stored.keys().chain(only_here) {
            let nested = if field.is_empty() { key.clone() } else { format!("{field}.{key}") };
            let get =
                |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or(Value::Null);
            compare(&nested, &get(stored), &get(current), differences);
        }
    } else if stored != current {
        let field = if field.is_empty() { "fingerprint" } else { field };
        differences.push(format!("{field} is {stored} there and {current} here"));
    }
}
