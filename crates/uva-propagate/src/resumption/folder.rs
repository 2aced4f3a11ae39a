//! The names in `OUT.propagating`.
//!
//! | name | content |
//! |---|---|
//! | `lock` | held by the process that makes the hop set |
//! | `journal.json` | the options, and every finished part and file with length and hash |
//! | `parts/` | columns of hops, as they were computed |
//! | `set/` | files of the hop set |
//! | `transposed/` | the graph with all edges reversed, for `col` |
//!
//! The user may have put other files there, or another user a link instead of a directory. So no other entry is ever
//! removed, and no link is followed.

use std::ffi::OsStr;
use std::io;

use uva_graph::{GraphError, names};
use uva_mem::files::{EntryKind, OwnDirectory, SCRATCH, target_of_partial};

use super::part;
use crate::hop_sets::description::{self, FEATURES, LABELS, NODE_IDS, ROWS};
use crate::operator::Operator;

pub(crate) const LOCK: &str = "lock";
pub(crate) const JOURNAL: &str = "journal.json";
pub(crate) const PARTS: &str = "parts";
pub(crate) const SET: &str = "set";
pub(crate) const TRANSPOSED: &str = "transposed";
pub(crate) const UNFINISHED_TRANSPOSED: &str = "transposed.partial";

/// Every directory in the folder.
const DIRECTORIES: [&str; 4] = [PARTS, SET, TRANSPOSED, UNFINISHED_TRANSPOSED];

/// Whether a run with any options creates a file of this name in this directory.
fn is_in(directory: &str, name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    match directory {
        PARTS => part::is_name(name),
        SET => is_of_set(name),
        _ => [names::INDPTR, names::INDICES, names::WEIGHTS].contains(&name) || is_scratch(name),
    }
}

fn is_of_set(name: &str) -> bool {
    let is_hop = || {
        let (operator, hop) = name.strip_suffix(".npy")?.rsplit_once('.')?;
        let hop: u32 = hop.parse().ok().filter(|number: &u32| number.to_string() == hop)?;
        Some(hop > 0 && Operator::is_file_stem(operator))
    };
    [NODE_IDS, LABELS, FEATURES, ROWS, description::FILE_NAME].contains(&name) || is_hop().unwrap_or(false)
}

/// Whether the name is that of a temporary file for a sort larger than memory. These have names only on some file
/// systems.
fn is_scratch(name: &str) -> bool {
    target_of_partial(OsStr::new(name)) == Some(SCRATCH)
}

fn is_file(name: &OsStr) -> bool {
    name == LOCK || name == JOURNAL || target_of_partial(name) == Some(JOURNAL)
}

/// Refuses a folder with an entry that runs do not create, before anything in it is removed.
///
/// # Errors
/// [`GraphError::Usage`] that names the entry; otherwise the system's error.
pub(crate) fn check(folder: &OwnDirectory) -> Result<(), GraphError> {
    let foreign = |directory: &OwnDirectory, name: &OsStr, kind: EntryKind| {
        let what = match kind {
            EntryKind::File => "a file",
            EntryKind::Directory => "a directory",
            EntryKind::Other => "a link, or no regular file",
        };
        let path = directory.path().join(name);
        let problem = format!("{} is {what} that no run creates: move it out of the way", path.display());
        Err(GraphError::usage("OUT", problem))
    };
    let list =
        |directory: &OwnDirectory| directory.entries().map_err(GraphError::io(directory.path(), "list"));
    for (name, kind) in list(folder)? {
        let directory = DIRECTORIES.into_iter().find(|directory| name == *directory);
        match (directory, kind) {
            (None, EntryKind::File) if is_file(&name) => {}
            (Some(directory), EntryKind::Directory) => {
                let inner = open_in(folder, directory)?;
                for (name, kind) in list(&inner)? {
                    if kind != EntryKind::File || !is_in(directory, &name) {
                        return foreign(&inner, &name, kind);
                    }
                }
            }
            _ => return foreign(folder, &name, kind),
        }
    }
    Ok(())
}

/// Opens a directory of the folder.
///
/// # Errors
/// [`GraphError::Usage`] for a link or a directory of another user; otherwise the system's error.
pub(crate) fn open_in(folder: &OwnDirectory, name: &str) -> Result<OwnDirectory, GraphError> {
    folder.open_in(name).map_err(|error| refused(&folder.path().join(name), error))
}

/// Opens a directory of the folder, created if it is missing.
///
/// # Errors
/// As [`open_in`].
pub(crate) fn create_in(folder: &OwnDirectory, name: &str) -> Result<OwnDirectory, GraphError> {
    match folder.create_directory(name) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(GraphError::io(&folder.path().join(name), "create")(error))
        }
        _ => open_in(folder, name),
    }
}

/// The error if a file that belongs to this program by its name alone cannot be opened.
pub(crate) fn refused(path: &std::path::Path, error: io::Error) -> GraphError {
    match error.kind() {
        io::ErrorKind::InvalidInput => {
            let problem =
                format!("{}: {error}, so no run created it: move it out of the way", path.display());
            GraphError::usage("OUT", problem)
        }
        _ => GraphError::io(path, "open")(error),
    }
}

/// Removes the files that runs create in the folder, the lock last, so that the rest of a killed process is still
/// marked. Any other entry stays, with its directory.
///
/// # Errors
/// The system's error.
pub(crate) fn remove(folder: &OwnDirectory) -> Result<(), GraphError> {
    for directory in DIRECTORIES {
        match folder.open_in(directory) {
            Ok(inner) => {
                for (name, kind) in inner.entries().map_err(GraphError::io(inner.path(), "list"))? {
                    if kind == EntryKind::File && is_in(directory, &name) {
                        inner
                            .remove_file(&name)
                            .map_err(GraphError::io(&inner.path().join(name), "remove"))?;
                    }
                }
                remove_empty(folder.remove_directory(directory), inner.path())?;
            }
            // Missing, or not a directory of this program, which stays.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {}
            Err(error) => return Err(GraphError::io(&folder.path().join(directory), "open")(error)),
        }
    }
    let entries = folder.entries().map_err(GraphError::io(folder.path(), "list"))?;
    let of_ours = |(name, kind): &(std::ffi::OsString, EntryKind)| *kind == EntryKind::File && is_file(name);
    for (name, _) in entries.iter().filter(|entry| of_ours(entry) && entry.0 != LOCK) {
        folder.remove_file(name).map_err(GraphError::io(&folder.path().join(name), "remove"))?;
    }
    folder.remove_file(LOCK).map_err(GraphError::io(&folder.path().join(LOCK), "remove"))
}

/// A directory with remaining entries is not an error: they are not this program's, or another process has begun there.
pub(crate) fn remove_empty(result: io::Result<()>, path: &std::path::Path) -> Result<(), GraphError> {
    match result {
        Err(error) if !matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound) => {
            Err(GraphError::io(path, "remove")(error))
        }
        _ => Ok(()),
    }
}
