//! Replacement of a directory by a new one. The old directory is removed, so it must be exactly of the expected kind.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use uva_mem::files::{OwnDirectory, random_word};

use super::kind::DirectoryKind;
use super::sibling;
use crate::FileError;

/// Rejects a directory that is not a complete one of `kind`, or has a file that the kind does not allow. An empty
/// directory is accepted.
pub(super) fn refuse_other(out: &Path, kind: &DirectoryKind) -> Result<(), FileError> {
    let refuse = |what: String| {
        Err(FileError::out(format!(
            "{} is not replaced, because {what}: name another directory",
            out.display()
        )))
    };
    match fs::symlink_metadata(out) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(FileError::io(out, "look for")(error)),
        Ok(metadata) if !metadata.is_dir() => return refuse("it is not a directory".into()),
        Ok(_) => {}
    }
    let mut empty = true;
    if let Some(other) = first_other(out, Path::new(""), kind, &mut empty)? {
        return refuse(format!("{} in it is not a file of {}", other.display(), kind.name));
    }
    // File names alone are not sufficient: numpy users have files called `label.npy` too.
    match (kind.check)(out) {
        Err(error) if !empty => refuse(format!("it does not open as {} ({error})", kind.name)),
        _ => Ok(()),
    }
}

/// The first entry of the directory `relative` in `out` that the kind does not allow, at any depth. Clears `empty` if
/// there is an entry.
fn first_other(
    out: &Path,
    relative: &Path,
    kind: &DirectoryKind,
    empty: &mut bool,
) -> Result<Option<PathBuf>, FileError> {
    let directory = out.join(relative);
    for entry in fs::read_dir(&directory).map_err(FileError::io(&directory, "read"))? {
        let entry = entry.map_err(FileError::io(&directory, "read"))?;
        *empty = false;
        let path = relative.join(entry.file_name());
        match entry.file_type() {
            Ok(found) if found.is_file() && sibling::may_remove(&path, kind) => {}
            Ok(found) if found.is_dir() && (kind.may_have_directory)(&path) => {
                if let Some(other) = first_other(out, &path, kind, empty)? {
                    return Ok(Some(other));
                }
            }
            _ => return Ok(Some(path)),
        }
    }
    Ok(None)
}

/// Renames `from` to `to`, the path of another directory, and returns the new path of that directory.
pub(super) fn exchange(from: &Path, to: &Path, kind: &DirectoryKind) -> Result<PathBuf, FileError> {
    refuse_other(to, kind)?;
    match renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(from.to_owned()),
        // Some file systems do not support this flag: `to` is then briefly missing.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
            let mut aside = sibling::prefix(to.file_name().unwrap_or_default());
            aside.push(format!("{:016x}", random_word().map_err(FileError::io(to, "move aside"))?));
            let aside = to.with_file_name(aside);
            fs::rename(to, &aside).map_err(FileError::io(to, "move aside"))?;
            fs::rename(from, to).map_err(|error| {
                let _ = fs::rename(&aside, to);
                FileError::io(to, "create")(error)
            })?;
            Ok(aside)
        }
        Err(error) => Err(FileError::io(to, "replace")(error.into())),
    }
}

/// Removes the files of the replaced directory, and the directory. If another file was added in the meantime, that file
/// and the directory stay.
pub(super) fn remove(replaced: &Path, kind: &DirectoryKind) {
    // If it is missing or cannot be removed, the directory stays under a name that describes it.
    let Ok(directory) = OwnDirectory::open(replaced) else { return };
    // Marked, so that the next run finishes the removal if this one is killed.
    let marker = sibling::mark(&directory, sibling::REPLACED);
    let _ = sibling::remove_open(&directory, Some(kind));
    drop(marker);
}
