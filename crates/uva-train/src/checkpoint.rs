//! Checkpoints: a trainer's tensors as safetensors, and a small JSON state that names them.
//!
//! A folder holds `checkpoint.json` and the file of tensors that it names with its size and checksum,
//! `tensors-<checksum>.safetensors`. Both are written beside and renamed; renaming `checkpoint.json` is what makes a
//! new checkpoint the current one, and only then is the old file of tensors removed. Nothing else in the folder is: a
//! file counts as ours by its exact name, and one of tensors by its marker besides, or because the former
//! `checkpoint.json` named it (`folder.rs`). The new one never has the old one's name unless it has its content, so a crash
//! at any point leaves a pair that belongs together.
//!
//! What the JSON holds besides is the caller's: a fingerprint, an object of whatever a resumed run must have in
//! common with this one, and a state, which it gets back.
//!
//! One run at a time writes to a folder.

use self::folder::{is_tensors, named_tensors, remove_tensors};
use crate::Trainer;
use crate::durable::{self, Failure, Observer, on};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use tch::{Device, Kind, Tensor};
use uva_graph::mix;
use uva_mem::MappedFile;
use uva_mem::files::{is_about_the_name, read_regular};

mod folder;

pub use folder::{Found, FoundContent, look, remove_leftovers};

/// Name of the state in its folder.
const STATE_FILE: &str = "checkpoint.json";
const TENSORS_PREFIX: &str = "tensors-";
const TENSORS_SUFFIX: &str = ".safetensors";
/// What a file of tensors says of itself in its header: who wrote it.
const MARKER: (&str, &str) = ("written_by", "uvatrain");
/// The state is a few kilobytes: options, sums, and what the caller keeps.
const MOST_STATE: u64 = 16 << 20;
/// Counts up when the layout of the two files changes.
const VERSION: u32 = 1;

/// Why a checkpoint could not be written or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The operating system refused something: no space, no permission, a broken disk.
    #[error("checkpoint: cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried, such as `write`.
        doing: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file is not what was written.
    #[error("checkpoint {} cannot be used: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The checkpoint is of another model, other options or another dataset. Nothing has been changed.
    #[error(
        "checkpoint {} is of another run: {differences} (give the options it was made with, or another \
         --checkpoint folder)",
        path.display()
    )]
    Mismatch {
        /// The state file.
        path: PathBuf,
        /// Every field that differs, with both values.
        differences: String,
    },
    /// A parameter or moment is NaN or infinite, so the trainer is not worth keeping. Nothing has been written.
    #[error("not kept: {tensor} holds NaN or infinity (training diverged); the last checkpoint stays")]
    NotFinite {
        /// The tensor's name in the checkpoint.
        tensor: String,
    },
    /// libtorch or serde refused the trainer's tensors or the caller's state.
    #[error("checkpoint: {0}")]
    Refused(String),
}

impl CheckpointError {
    /// Whether what the user gave is to blame (exit code 2), and not the run (exit code 1).
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Mismatch { .. } | Self::Damaged { .. } => true,
            // Something else than a file lies there.
            Self::Io { doing: "read", source, .. } => is_about_the_name(source),
            _ => false,
        }
    }
}

impl From<Failure> for CheckpointError {
    fn from(Failure { doing, path, source }: Failure) -> Self {
        Self::Io { doing, path, source }
    }
}

/// `checkpoint.json`.
#[derive(Debug, Serialize, Deserialize)]
struct StateFile {
    version: u32,
    tensors: TensorsFile,
    trainer: TrainerState,
    fingerprint: Value,
    state: Value,
}

#[derive(Debug, Serialize, Deserialize)]
struct TensorsFile {
    file: String,
    bytes: u64,
    /// [`checksum`] of the file, 16 hex digits.
    checksum: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct TrainerState {
    /// What must be equal for the tensors to fit: options and shapes.
    model: Value,
    adam_steps: u64,
    best: bool,
}

/// Writes a checkpoint of `trainer` to the folder `directory`, which is made if it is missing.
///
/// `fingerprint` is an object; [`Checkpoint::restore`] compares it field by field. The trainer's own options and
/// shapes are compared besides, the number of threads excepted, and need not be in it. `state` is anything.
///
/// # Errors
/// [`CheckpointError::Io`] if a step fails and [`CheckpointError::NotFinite`] if training has diverged; the checkpoint
/// that was there stays the current one.
pub fn write(
    directory: &Path,
    trainer: &Trainer,
    fingerprint: &impl Serialize,
    state: &impl Serialize,
) -> Result<(), CheckpointError> {
    write_observed(directory, trainer, fingerprint, state, &mut |_| {})
}

pub(crate) fn write_observed(
    directory: &Path,
    trainer: &Trainer,
    fingerprint: &impl Serialize,
    state: &impl Serialize,
    observer: Observer<'_>,
) -> Result<(), CheckpointError> {
    let json = |what, value: Result<Value, serde_json::Error>| {
        value.map_err(|error| {
            CheckpointError::Refused(format!("its {what} cannot be written as JSON: {error}"))
        })
    };
    let tensors = pack(trainer)?;
    let checksum = format!("{:016x}", checksum(&tensors));
    let file = format!("{TENSORS_PREFIX}{checksum}{TENSORS_SUFFIX}");
    let contents = StateFile {
        version: VERSION,
        tensors: TensorsFile { file: file.clone(), bytes: tensors.len() as u64, checksum },
        trainer: TrainerState {
            model: model_fingerprint(trainer)?,
            adam_steps: trainer.adam.steps,
            best: trainer.best.is_some(),
        },
        fingerprint: json("fingerprint", serde_json::to_value(fingerprint))?,
        state: json("state", serde_json::to_value(state))?,
    };
    let mut text = serde_json::to_vec_pretty(&contents)
        .map_err(|error| CheckpointError::Refused(format!("its state cannot be written as JSON: {error}")))?;
    text.push(b'\n');
    durable::create_directory(directory)?;
    // Of a version without markers: the state that is about to go knows them.
    let former = named_tensors(directory);
    durable::replace(directory, &file, &tensors, observer)?;
    durable::replace(directory, STATE_FILE, &text, observer)?;
    remove_tensors(directory, Some(&file), former.as_deref())?;
    observer("removed older tensors");
    Ok(())
}

/// A checkpoint as read from its folder, whole and consistent with itself.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    contents: StateFile,
    tensors: MappedFile,
}

/// Reads the current checkpoint of `directory`, or `None` if there is none.
///
/// # Errors
/// [`CheckpointError::Damaged`] if a file is not what was written, [`CheckpointError::Io`] if one cannot be read.
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
    // Mapped, so that a file of holes larger than memory takes none.
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
    Ok(Some(Checkpoint { path, contents, tensors }))
}

impl Checkpoint {
    /// The fingerprint it was written with.
    pub fn fingerprint(&self) -> &Value {
        &self.contents.fingerprint
    }

    /// Compares the fingerprint alone, which needs no trainer: for a launcher, before it starts anything.
    ///
    /// # Errors
    /// [`CheckpointError::Mismatch`] naming every field that differs.
    pub fn check_fingerprint(&self, fingerprint: &Value) -> Result<(), CheckpointError> {
        let mut differences = Vec::new();
        compare("", &self.contents.fingerprint, fingerprint, &mut differences);
        if differences.is_empty() {
            return Ok(());
        }
        Err(CheckpointError::Mismatch { path: self.path.clone(), differences: differences.join(", ") })
    }

    /// The state it was written with.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`] if it is not an `S`.
    pub fn state<S: DeserializeOwned>(&self) -> Result<S, CheckpointError> {
        S::deserialize(&self.contents.state)
            .map_err(|error| self.damaged(format!("its state cannot be read: {error}")))
    }

    /// Puts parameters, optimiser and best parameters into `trainer`, which then goes on as the one that was kept
    /// would have.
    ///
    /// # Errors
    /// [`CheckpointError::Mismatch`] if the fingerprints or the trainers' options and shapes differ,
    /// [`CheckpointError::Damaged`] if a tensor is missing or of another shape. `trainer` is then unchanged.
    pub fn restore(
        &self,
        trainer: &mut Trainer,
        fingerprint: &impl Serialize,
    ) -> Result<(), CheckpointError> {
        let fingerprint =
            serde_json::to_value(fingerprint).map_err(|error| CheckpointError::Refused(error.to_string()))?;
        let mut differences = Vec::new();
        compare("", &self.contents.trainer.model, &model_fingerprint(trainer)?, &mut differences);
        compare("", &self.contents.fingerprint, &fingerprint, &mut differences);
        if !differences.is_empty() {
            let differences = differences.join(", ");
            return Err(CheckpointError::Mismatch { path: self.path.clone(), differences });
        }
        let file = SafeTensors::deserialize(self.tensors.bytes())
            .map_err(|error| self.damaged(format!("its tensors cannot be read: {error}")))?;
        let parameters = trainer.model.parameters();
        let load = |group: &str| -> Result<Vec<Tensor>, CheckpointError> {
            parameters.iter().map(|(name, like)| self.load(&file, &format!("{group}.{name}"), like)).collect()
        };
        let (model, first, second) = (load("model")?, load("adam.first")?, load("adam.second")?);
        let best = if self.contents.trainer.best { Some(load("best")?) } else { None };

        // Everything fits: from here on nothing can be refused.
        let _no_grad = tch::no_grad_guard();
        for ((_, parameter), saved) in parameters.iter().zip(&model) {
            parameter.shallow_clone().f_copy_(saved).map_err(refused)?;
        }
        trainer.adam.first_moments = first;
        trainer.adam.second_moments = second;
        trainer.adam.steps = self.contents.trainer.adam_steps;
        trainer.best = best;
        Ok(())
    }

    fn load(&self, file: &SafeTensors<'_>, name: &str, like: &Tensor) -> Result<Tensor, CheckpointError> {
        let view = file.tensor(name).map_err(|error| self.damaged(format!("its tensor {name}: {error}")))?;
        let shape: Vec<i64> = view.shape().iter().map(|&size| size as i64).collect();
        let kind = like.f_kind().map_err(refused)?;
        if shape != like.size() || Some(view.dtype()) != dtype(kind) {
            return Err(self.damaged(format!(
                "its tensor {name} is {:?} {shape:?} instead of {kind:?} {:?}",
                view.dtype(),
                like.size()
            )));
        }
        let tensor = Tensor::f_from_data_size(view.data(), &shape, kind).map_err(refused)?;
        tensor.f_to_device(like.device()).map_err(refused)
    }

    fn damaged(&self, problem: String) -> CheckpointError {
        CheckpointError::Damaged { path: self.path.clone(), problem }
    }
}

fn refused(error: impl std::fmt::Display) -> CheckpointError {
    CheckpointError::Refused(error.to_string())
}

fn dtype(kind: Kind) -> Option<Dtype> {
    match kind {
        Kind::Float => Some(Dtype::F32),
        Kind::Double => Some(Dtype::F64),
        _ => None,
    }
}

/// What must be equal for a trainer to go on from a checkpoint. The number of threads and the device may change: the
/// losses then differ in their last bits, as they would between two machines.
fn model_fingerprint(trainer: &Trainer) -> Result<Value, CheckpointError> {
    let mut value = serde_json::to_value(trainer.options()).map_err(refused)?;
    if let Value::Object(fields) = &mut value {
        fields.shift_remove("threads");
        fields.insert("input_dim".to_owned(), trainer.input_dim().into());
        fields.insert("classes".to_owned(), trainer.task().classes.into());
        // Only where it is not as ever, so that checkpoints of before it was there go on.
        if trainer.task().multi_label {
            fields.insert("multi_label".to_owned(), true.into());
        }
    }
    Ok(value)
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

/// All tensors of a trainer as one safetensors file.
fn pack(trainer: &Trainer) -> Result<Vec<u8>, CheckpointError> {
    let parameters = trainer.model.parameters();
    let dtype =
        dtype(trainer.kind()).ok_or_else(|| refused("the model's element type has no place in it"))?;
    let mut packed: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
    for (index, (name, parameter)) in parameters.iter().enumerate() {
        let mut add = |group: &str, tensor: &Tensor| -> Result<(), CheckpointError> {
            let name = format!("{group}.{name}");
            let tensor = tensor.f_detach().and_then(|t| t.f_to_device(Device::Cpu)).map_err(refused)?;
            let tensor = tensor.f_contiguous().map_err(refused)?;
            let finite = tensor.f_isfinite().and_then(|t| t.f_all()).and_then(|t| t.f_int64_value(&[]));
            if finite.map_err(refused)? == 0 {
                return Err(CheckpointError::NotFinite { tensor: name });
            }
            let shape = tensor.size().iter().map(|&size| size as usize).collect();
            let mut bytes = vec![0; tensor.numel() * dtype.bitsize() / 8];
            tensor.f_copy_data_u8(&mut bytes, tensor.numel()).map_err(refused)?;
            packed.push((name, shape, bytes));
            Ok(())
        };
        add("model", parameter)?;
        add("adam.first", &trainer.adam.first_moments[index])?;
        add("adam.second", &trainer.adam.second_moments[index])?;
        if let Some(best) = &trainer.best {
            add("best", &best[index])?;
        }
    }
    let views: Result<Vec<(&str, TensorView<'_>)>, _> = packed
        .iter()
        .map(|(name, shape, bytes)| Ok((name.as_str(), TensorView::new(dtype, shape.clone(), bytes)?)))
        .collect();
    let views = views.map_err(|error: safetensors::SafeTensorError| refused(error))?;
    let marker = HashMap::from([(MARKER.0.to_owned(), MARKER.1.to_owned())]);
    safetensors::serialize(views, Some(marker)).map_err(refused)
}

/// A checksum against damage, not against forgery: the sum of mixed (position, 8 bytes), so that every word counts
/// with its place, and the length.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    let mut sum = 0u64;
    for (position, chunk) in bytes.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = sum.wrapping_add(mix(mix(position as u64) ^ u64::from_le_bytes(word)));
    }
    mix(sum ^ bytes.len() as u64)
}
