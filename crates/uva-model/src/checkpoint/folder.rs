//! A folder of checkpoints: its contents, the recognition of this program's files, and the removal of leftovers of a
//! crash. Only this program's files are ever removed.

use std::path::Path;
use std::time::SystemTime;
use std::{fs, io};

use serde_json::Value;
use uva_mem::MappedFile;
use uva_mem::files::{is_word, read_regular};

use super::checkpoint_error::CheckpointError;
use super::durable::{is_partial, on};
use super::embedding_files::{is_embedding, is_whole};
use super::state_file::{MARKER, MOST_STATE, STATE_FILE, StateFile, TENSORS_PREFIX, TENSORS_SUFFIX};

/// The header of a file of tensors has a line for each parameter.
const MOST_HEADER: u64 = 16 << 20;

/// Facts about a checkpoint for a user who is about to replace it.
#[derive(Debug)]
pub struct CheckpointFacts {
    /// The time of the write, if the file system records it.
    pub written: Option<SystemTime>,
    /// Its model and its caller's state; `None` if the file is not a readable state of a checkpoint.
    pub content: Option<FoundContent>,
}

/// The readable part of [`CheckpointFacts`].
#[derive(Debug)]
pub struct FoundContent {
    /// The kind of model, as `--model` has it.
    pub model: String,
    /// The state that the caller stored in it.
    pub state: Value,
}

/// Reads the facts about the checkpoint in `directory`, without its tensors; `None` if there is none.
pub fn look(directory: &Path) -> Option<CheckpointFacts> {
    let path = directory.join(STATE_FILE);
    let written = fs::symlink_metadata(&path).ok()?.modified().ok();
    let content = read_regular(&path, MOST_STATE).ok().and_then(|text| {
        let StateFile { trainer, state, .. } = serde_json::from_slice(&text).ok()?;
        let model = trainer.model.get("model").and_then(Value::as_str).unwrap_or("unknown").to_owned();
        Some(FoundContent { model, state })
    });
    Some(CheckpointFacts { written, content })
}

/// Removes the leftovers of a crashed run in `directory`: temporary files of checkpoints, and this program's files of
/// tensors and tables that no checkpoint names. Returns their number. Must not be called while a run writes there.
///
/// # Errors
/// [`CheckpointError::Io`] if the folder cannot be listed or a file cannot be removed. A missing folder is not an
/// error.
pub fn remove_leftovers(directory: &Path) -> Result<usize, CheckpointError> {
    if !directory.is_dir() {
        return Ok(0);
    }
    let removed = remove_matching(directory, &|name| is_partial(name, is_file_name))?;
    let path = directory.join(STATE_FILE);
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(removed + remove_unnamed(directory, &[], &[])?)
        }
        _ => match named_files(directory) {
            Some(named) => Ok(removed + remove_unnamed(directory, &named, &[])?),
            // An unreadable state may still be repaired by hand, so its files are kept.
            None => Ok(removed),
        },
    }
}

/// Whether a checkpoint may have a file of this name: its state, tensors, or rows of a table.
pub fn is_file_name(name: &str) -> bool {
    name == STATE_FILE || is_tensors(name) || is_embedding(name)
}

/// Whether this is exactly the form of a tensor file's name.
pub(super) fn is_tensors(name: &str) -> bool {
    let checksum = name.strip_prefix(TENSORS_PREFIX).and_then(|name| name.strip_suffix(TENSORS_SUFFIX));
    checksum.is_some_and(is_word)
}

/// The files that the state in `directory` names; `None` if there is no state, or it does not belong to a checkpoint.
pub(super) fn named_files(directory: &Path) -> Option<Vec<String>> {
    let text = read_regular(&directory.join(STATE_FILE), MOST_STATE).ok()?;
    let contents: StateFile = serde_json::from_slice(&text).ok()?;
    is_tensors(&contents.tensors.file).then(|| contents.names())
}

/// Whether the file has the marker of this program.
fn is_marked(path: &Path) -> bool {
    let marked = || -> Option<bool> {
        let file = MappedFile::open(path).ok()?;
        let (length, rest) = file.bytes().split_first_chunk::<8>()?;
        let length = u64::from_le_bytes(*length);
        let header = rest.get(..usize::try_from(length).ok().filter(|_| length <= MOST_HEADER)?)?;
        let header: Value = serde_json::from_slice(header).ok()?;
        Some(header.get("__metadata__")?.get(MARKER.0)? == MARKER.1)
    };
    marked().unwrap_or(false)
}

/// Removes files of tensors and tables that are not `named`: of tensors those that are marked, of tables those that the
/// `former` checkpoint named, or whose content is what their name says.
pub(super) fn remove_unnamed(
    directory: &Path,
    named: &[String],
    former: &[String],
) -> Result<usize, CheckpointError> {
    let has = |names: &[String], name: &str| names.iter().any(|known| known == name);
    remove_matching(directory, &|name| {
        let path = directory.join(name);
        let is_ours = (is_tensors(name) && is_marked(&path))
            || (is_embedding(name) && (has(former, name) || is_whole(&path, name)));
        !has(named, name) && is_ours
    })
}

/// Removes regular files by their names.
fn remove_matching(directory: &Path, matches: &dyn Fn(&str) -> bool) -> Result<usize, CheckpointError> {
    let mut removed = 0;
    for entry in on("list", directory, fs::read_dir(directory))? {
        let entry = on("list", directory, entry)?;
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && entry.file_name().to_str().is_some_and(matches) {
            on("remove", &entry.path(), fs::remove_file(entry.path()))?;
            removed += 1;
        }
    }
    Ok(removed)
}
