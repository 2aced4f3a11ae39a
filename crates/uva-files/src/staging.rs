//! A directory that appears atomically.
//!
//! Files are written into a sibling, `OUT.partial-<16 hex digits>`. [`StagedDirectory::commit`] flushes it and renames
//! it to `OUT`; dropping it removes it. The sibling of a killed process is removed by the next process with the same
//! `OUT`.
//!
//! | file | what it is for |
//! |---|---|
//! | `sibling` | a sibling's name, the marker that identifies it and its state, removal of abandoned siblings |
//! | `kind` | kinds of directories that may be replaced |
//! | `replacement` | replacement of a directory, and its removal |
//! | `temporary_directory` | directories without a final name |

mod kind;
mod replacement;
mod sibling;
mod temporary_directory;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{RenameFlags, renameat_with};
use uva_mem::files::{OwnDirectory, open_directory, open_regular};

pub use self::kind::DirectoryKind;
use self::sibling::Sibling;
pub use self::temporary_directory::TemporaryDirectory;
use crate::FileError;

/// Siblings that this process is writing, for [`remove_unfinished`].
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory that is renamed to its final name when complete.
#[derive(Debug)]
pub struct StagedDirectory {
    out: PathBuf,
    sibling: Sibling,
    /// Missing parents of `out` that were created, outermost first.
    created_parents: Vec<PathBuf>,
    committed: bool,
    kind: &'static DirectoryKind,
    /// Whether a directory of the same kind at `out` is replaced.
    replaces: bool,
}

impl StagedDirectory {
    /// Creates the sibling of `out` and its missing parents. Abandoned siblings of earlier runs are removed: replaced
    /// directories of this kind, and unfinished directories.
    ///
    /// # Errors
    /// If `out` exists, even as an empty directory, or the sibling cannot be created.
    pub fn new(out: &Path, kind: &'static DirectoryKind) -> Result<StagedDirectory, FileError> {
        let Some(name) = out.file_name() else {
            return Err(FileError::out(format!("{} names no directory to create", out.display())));
        };
        refuse_existing(out)?;
        StagedDirectory::beside(out, name, kind, false)
    }

    /// Like [`new`](Self::new), but [`commit`](Self::commit) replaces a directory of this kind at `out`. Until then,
    /// the old directory stays complete.
    ///
    /// # Errors
    /// If `out` exists and is not a complete directory of this kind, or has files that the kind does not allow, since
    /// no other file is ever removed. If the sibling cannot be created.
    pub fn replacing(out: &Path, kind: &'static DirectoryKind) -> Result<StagedDirectory, FileError> {
        let Some(name) = out.file_name() else {
            return Err(FileError::out(format!("{} names no directory to create", out.display())));
        };
        replacement::refuse_other(out, kind)?;
        StagedDirectory::beside(out, name, kind, true)
    }

    fn beside(
        out: &Path,
        name: &OsStr,
        kind: &'static DirectoryKind,
        replaces: bool,
    ) -> Result<StagedDirectory, FileError> {
        let parent = match out.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let created_parents = create_parents(parent)?;
        sibling::remove_abandoned(parent, name, Some(kind));
        // Locked before it is created, so that `remove_unfinished` misses none.
        let mut unfinished = unfinished();
        let sibling = Sibling::create(parent, name, 0o777).map_err(|error| {
            remove_created(&created_parents);
            FileError::io(out, "create")(error)
        })?;
        unfinished.push(sibling.path().to_owned());
        drop(unfinished);
        Ok(StagedDirectory {
            out: out.to_owned(),
            sibling,
            created_parents,
            committed: false,
            kind,
            replaces,
        })
    }

    /// The directory to write files into.
    pub fn path(&self) -> &Path {
        self.sibling.path()
    }

    /// The final path of the directory.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// Flushes every file to the disk and gives the directory its final name.
    ///
    /// # Errors
    /// If a system call fails, or `out` has been created in the meantime; the sibling is then removed.
    pub fn commit(mut self) -> Result<(), FileError> {
        let partial = self.sibling.path().to_owned();
        flush(&partial)?;
        // By descriptor, so that the marker of this directory is removed even if its name now refers to another.
        let directory = OwnDirectory::open(&partial).map_err(FileError::io(&partial, "flush"))?;
        directory.sync().map_err(FileError::io(&partial, "flush"))?;
        // Locked until the marker and the replaced directory are removed: `remove_unfinished` then sees either an
        // unfinished directory, or a complete one without siblings.
        let mut unfinished = unfinished();
        let replaced = match &self.out {
            out if self.replaces && fs::symlink_metadata(out).is_ok() => {
                Some(replacement::exchange(&partial, out, self.kind)?)
            }
            out => rename_without_replacing(&partial, out).map(|()| None)?,
        };
        self.committed = true;
        unfinished.retain(|path| *path != partial);
        sibling::unmark(&directory);
        if let Some(replaced) = replaced {
            replacement::remove(&replaced, self.kind);
        }
        drop(unfinished);
        let parent = self.out.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        open_directory(parent).and_then(|parent| parent.sync_all()).map_err(FileError::io(parent, "flush"))
    }
}

/// Waits until the files and directories in `directory`, at any depth, are on the disk.
///
/// # Errors
/// If a system call fails.
pub fn flush(directory: &Path) -> Result<(), FileError> {
    for entry in fs::read_dir(directory).map_err(FileError::io(directory, "read"))? {
        let entry = entry.map_err(FileError::io(directory, "read"))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(FileError::io(&path, "flush"))?;
        if kind.is_dir() {
            flush(&path)?;
        }
        let file = if kind.is_dir() { open_directory(&path) } else { open_regular(&path) };
        file.and_then(|file| file.sync_all()).map_err(FileError::io(&path, "flush"))?;
    }
    Ok(())
}

impl Drop for StagedDirectory {
    fn drop(&mut self) {
        if !self.committed {
            let mut unfinished = unfinished();
            // A failure is ignored, since the next run with the same OUT tries again.
            let _ = sibling::remove(self.sibling.path());
            unfinished.retain(|path| path != self.sibling.path());
            remove_created(&self.created_parents);
        }
    }
}

/// A guard. During its lifetime, no directory is staged or committed.
#[must_use = "a thread that begins meanwhile would leave its directory"]
#[derive(Debug)]
pub struct NoneUnfinished {
    _unfinished: MutexGuard<'static, Vec<PathBuf>>,
}

/// Removes every staged directory that this process has not committed yet. For a signal-handling thread that ends the
/// process while other threads still write. Writers that continue get an error, and new writers wait for the returned
/// guard: keep it until the process ends.
pub fn remove_unfinished() -> NoneUnfinished {
    let mut unfinished = unfinished();
    for path in unfinished.drain(..) {
        // A writer may create or remove files while the tree is being removed, so retry after a failure.
        for _ in 0..1000 {
            if sibling::remove(&path).is_ok() || fs::symlink_metadata(&path).is_err() {
                break;
            }
        }
    }
    NoneUnfinished { _unfinished: unfinished }
}

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    // A list of paths is still valid after a panic.
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks that `out` does not exist.
///
/// # Errors
/// [`FileError::Usage`] if it exists; other errors of the system.
pub fn refuse_existing(out: &Path) -> Result<(), FileError> {
    match fs::symlink_metadata(out) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(FileError::io(out, "look for")(error)),
        Ok(_) => Err(FileError::out(format!(
            "{} exists already: use another directory, or remove it first",
            out.display()
        ))),
    }
}

/// Renames the directory `from` to `to`, which must not exist.
///
/// # Errors
/// As [`refuse_existing`], and if a system call fails.
pub fn rename_without_replacing(from: &Path, to: &Path) -> Result<(), FileError> {
    use rustix::fs::CWD;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::EXIST) => refuse_existing(to),
        // Some file systems do not support this flag: check first then, and accept the race.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
            refuse_existing(to)?;
            fs::rename(from, to).map_err(FileError::io(to, "create"))
        }
        Err(error) => Err(FileError::io(to, "create")(error.into())),
    }
}

/// Creates `parent` and its missing ancestors; returns the created ones.
fn create_parents(parent: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut missing: Vec<&Path> = Vec::new();
    for ancestor in parent.ancestors().take_while(|path| !path.as_os_str().is_empty()) {
        if ancestor.exists() {
            break;
        }
        missing.push(ancestor);
    }
    let mut created = Vec::new();
    for directory in missing.into_iter().rev() {
        match fs::create_dir(directory) {
            Ok(()) => created.push(directory.to_owned()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                remove_created(&created);
                return Err(FileError::io(directory, "create")(error));
            }
        }
    }
    Ok(created)
}

/// Removes created parents that are still empty.
fn remove_created(created: &[PathBuf]) {
    for directory in created.iter().rev() {
        if fs::remove_dir(directory).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
