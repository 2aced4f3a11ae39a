//! The lock of `OUT.propagating`: one process makes a hop set.
//!
//! Its holder may remove the folder, and the lock file with it. So a lock counts only while its file has its name still:
//! that is checked when the lock is taken, and again before the hop set gets its name.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use uva_graph::GraphError;
use uva_mem::files::{open_directory, open_lock_file};

const LOCK: &str = "lock";

/// The folder beside `out`.
pub fn folder_of(out: &Path) -> PathBuf {
    let mut name = out.file_name().map(OsStr::to_owned).unwrap_or_default();
    name.push(OsString::from(".propagating"));
    out.with_file_name(name)
}

/// The folder, locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct FolderLock {
    folder: PathBuf,
    file: File,
    /// Whether there was no folder before.
    is_new: bool,
}

/// What became of an attempt to take the lock.
enum Attempt {
    Taken(File),
    /// By another process.
    Held,
    /// There is no lock file.
    Missing,
    /// The file that was locked has lost its name meanwhile.
    Replaced,
}

impl FolderLock {
    /// Locks the folder of `out`. One that is there is taken only to `resume`; one that is not is created.
    ///
    /// # Errors
    /// If another process holds the lock, or an earlier one has left the folder and it is not to be resumed; if it is no
    /// folder of this program's.
    pub(crate) fn take(out: &Path, resume: bool) -> Result<FolderLock, GraphError> {
        let folder = folder_of(out);
        loop {
            let is_new = folder.symlink_metadata().is_err();
            if is_new {
                create(&folder)?;
            } else if !is_ours(&folder) {
                let message =
                    format!("{} is no folder of this program's: move it out of the way", folder.display());
                return Err(GraphError::usage("OUT", message));
            }
            let takes = is_new || resume;
            match attempt(&folder, takes)? {
                Attempt::Held => {
                    let message = format!("another process is making it, in {}", folder.display());
                    return Err(GraphError::usage("OUT", message));
                }
                Attempt::Taken(file) if takes => return Ok(FolderLock { folder, file, is_new }),
                Attempt::Taken(_) => return Err(left_over(&folder)),
                Attempt::Missing if !takes && folder.symlink_metadata().is_ok() => {
                    return Err(left_over(&folder));
                }
                // Its holder has just removed the folder.
                Attempt::Missing | Attempt::Replaced => {}
            }
        }
    }

    /// Locks what a finished run has left of the folder. `None` if nothing is left, or another process is at it.
    pub(crate) fn of_left(out: &Path) -> Result<Option<FolderLock>, GraphError> {
        let folder = folder_of(out);
        if folder.symlink_metadata().is_err() || !is_ours(&folder) {
            return Ok(None);
        }
        Ok(match attempt(&folder, false)? {
            Attempt::Taken(file) => Some(FolderLock { folder, file, is_new: false }),
            Attempt::Missing => {
                // Empty: the run was killed as it removed the folder. One that is not empty stays.
                let _ = fs::remove_dir(&folder);
                None
            }
            Attempt::Held | Attempt::Replaced => None,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Refuses unless the lock is held still.
    ///
    /// # Errors
    /// [`GraphError::Io`] if the folder was removed or made anew meanwhile.
    pub(crate) fn check(&self) -> Result<(), GraphError> {
        let path = self.folder.join(LOCK);
        if has_name(&self.file, &path).map_err(GraphError::io(&path, "examine"))? {
            return Ok(());
        }
        let problem = "it was removed or made anew while this process worked in it: begin anew";
        Err(GraphError::io(&self.folder, "finish")(io::Error::other(problem)))
    }

    /// Removes the folder, the lock last: what a killed process leaves is known as this program's.
    ///
    /// # Errors
    /// If the system refuses. What is gone already is none.
    pub(crate) fn remove(self) -> Result<(), GraphError> {
        for entry in fs::read_dir(&self.folder).map_err(GraphError::io(&self.folder, "read"))? {
            let entry = entry.map_err(GraphError::io(&self.folder, "read"))?;
            if entry.file_name() != LOCK {
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let remove = if is_folder { fs::remove_dir_all } else { fs::remove_file };
                removed(&entry.path(), remove(&entry.path()))?;
            }
        }
        let lock = self.folder.join(LOCK);
        removed(&lock, fs::remove_file(&lock))?;
        match fs::remove_dir(&self.folder) {
            // Another process has begun in it between the two steps.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            result => removed(&self.folder, result),
        }
    }

    /// Removes the folder if [`take`](Self::take) has created it.
    pub(crate) fn remove_if_new(self) -> Result<(), GraphError> {
        if self.is_new { self.remove() } else { Ok(()) }
    }
}

fn removed(path: &Path, result: io::Result<()>) -> Result<(), GraphError> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(GraphError::io(path, "remove")(error)),
        _ => Ok(()),
    }
}

fn left_over(folder: &Path) -> GraphError {
    GraphError::usage(
        "OUT",
        format!(
            "an earlier run has left {}: go on with it by --resume, or remove it (rm -r) and begin anew",
            folder.display()
        ),
    )
}

/// Creates the folder and its parents, so that its name survives a power failure.
fn create(folder: &Path) -> Result<(), GraphError> {
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| open_directory(parent)?.sync_all())
        .map_err(GraphError::io(folder, "create"))
}

/// Tries to lock the folder; `create`: makes the file if it is missing.
fn attempt(folder: &Path, create: bool) -> Result<Attempt, GraphError> {
    let path = folder.join(LOCK);
    match open_lock_file(&path, create) {
        Ok(file) => locked(file, &path).map_err(GraphError::io(&path, "lock")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Attempt::Missing),
        Err(error) => Err(GraphError::io(&path, "open")(error)),
    }
}

/// Tries to lock a file that was opened at `path`.
fn locked(file: File, path: &Path) -> io::Result<Attempt> {
    // A file system without locks does without.
    if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Ok(Attempt::Held);
    }
    Ok(if has_name(&file, path)? { Attempt::Taken(file) } else { Attempt::Replaced })
}

/// Whether `path` leads to this very file.
fn has_name(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match path.symlink_metadata() {
        Ok(found) => Ok((found.dev(), found.ino()) == (ours.dev(), ours.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a run has made the folder: its lock is there, or a run was killed before it made one or after it removed it.
fn is_ours(folder: &Path) -> bool {
    if folder.join(LOCK).is_file() {
        return true;
    }
    match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        // Its holder has just removed it.
        Err(_) => folder.symlink_metadata().is_err(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_on_a_file_that_has_lost_its_name_is_none() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join(LOCK);
        let opened = open_lock_file(&path, true).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(matches!(locked(opened.try_clone().unwrap(), &path).unwrap(), Attempt::Replaced));
        let newer = open_lock_file(&path, true).unwrap();
        assert!(matches!(locked(opened, &path).unwrap(), Attempt::Replaced));
        assert!(matches!(locked(newer, &path).unwrap(), Attempt::Taken(_)));
    }

    #[test]
    fn one_process_has_the_folder_and_a_second_is_told_so_with_and_without_resume() {
        let temp = tempfile::tempdir().unwrap();
        let out = temp.path().join("set");
        let first = FolderLock::take(&out, false).unwrap();
        for resume in [false, true] {
            let message = FolderLock::take(&out, resume).unwrap_err().to_string();
            assert!(message.contains("another process is making it"), "{message}");
        }
        assert!(FolderLock::of_left(&out).unwrap().is_none());
        drop(first);
        let message = FolderLock::take(&out, false).unwrap_err().to_string();
        assert!(message.contains("an earlier run has left"), "{message}");
        FolderLock::take(&out, true).unwrap().remove_if_new().unwrap();
        assert!(folder_of(&out).is_dir());
        FolderLock::of_left(&out).unwrap().unwrap().remove().unwrap();
        let new = FolderLock::take(&out, false).unwrap();
        // What somebody else has removed meanwhile is no reason to fail.
        fs::remove_file(folder_of(&out).join(LOCK)).unwrap();
        new.remove_if_new().unwrap();
        assert!(!folder_of(&out).exists());
    }
}
