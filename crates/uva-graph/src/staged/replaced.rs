//! The dataset that is replaced by a new one. It is removed, so it must be a dataset and nothing else.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use uva_mem::files::{OwnDirectory, random_word};

use super::sibling;
use crate::GraphError;
use crate::files::Files;
use crate::names;

/// The names of all files that a dataset may have. Only files with these names are removed.
fn file_names() -> impl Iterator<Item = &'static str> {
    names::of_a_dataset().chain([sibling::MARKER])
}

pub(super) fn is_of_dataset(name: &OsStr) -> bool {
    file_names().any(|known| name == known)
}

/// Refuses a directory that is not a complete dataset, or holds a file that no dataset has. An empty directory is
/// accepted.
pub(super) fn refuse_other_than_dataset(out: &Path) -> Result<(), GraphError> {
    let refuse = |what: String| {
        Err(GraphError::usage(
            "OUT",
            format!("{} is not replaced, because {what}: name another directory", out.display()),
        ))
    };
    match fs::symlink_metadata(out) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(GraphError::io(out, "look for")(error)),
        Ok(metadata) if !metadata.is_dir() => return refuse("it is no directory".into()),
        Ok(_) => {}
    }
    let mut empty = true;
    for entry in fs::read_dir(out).map_err(GraphError::io(out, "read"))? {
        let entry = entry.map_err(GraphError::io(out, "read"))?;
        empty = false;
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if !is_file || !is_of_dataset(&entry.file_name()) {
            return refuse(format!("{} in it is no file of a dataset", entry.file_name().display()));
        }
    }
    // Names alone do not make a dataset: numpy users have files called `label.npy` too.
    match Files::open(out) {
        Err(error) if !empty => refuse(format!("it does not open as a dataset ({error})")),
        _ => Ok(()),
    }
}

/// Renames `from` to `to`, which is the name of another directory; returns the new path of that one.
pub(super) fn exchange(from: &Path, to: &Path) -> Result<PathBuf, GraphError> {
    refuse_other_than_dataset(to)?;
    match renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(from.to_owned()),
        // Some file systems do not support this flag: then `to` is missing for a moment.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
            let mut aside = sibling::prefix(to.file_name().unwrap_or_default());
            aside.push(format!("{:016x}", random_word().map_err(GraphError::io(to, "move aside"))?));
            let aside = to.with_file_name(aside);
            fs::rename(to, &aside).map_err(GraphError::io(to, "move aside"))?;
            fs::rename(from, to).map_err(|error| {
                let _ = fs::rename(&aside, to);
                GraphError::io(to, "create")(error)
            })?;
            Ok(aside)
        }
        Err(error) => Err(GraphError::io(to, "replace")(error.into())),
    }
}

/// Removes the files of the replaced dataset, and their directory. Any other file stays, with the directory: it was
/// added in the meantime.
pub(super) fn remove(replaced: &Path) {
    // Missing, or not removable: then the directory stays, under a name that says what it was.
    let Ok(directory) = OwnDirectory::open(replaced) else { return };
    // Marked, so that the next run finishes the removal if this one is killed.
    let marker = sibling::mark(&directory, sibling::REPLACED);
    let _ = sibling::remove_open(&directory, &is_of_dataset);
    drop(marker);
}
