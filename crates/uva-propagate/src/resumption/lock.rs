//! The lock of `OUT.propagating`, which ensures that one process at a time makes a hop set.
//!
//! Its holder may remove the folder, and the lock file with it. So a lock is valid only while its file still has its
//! name: this is checked when the lock is taken, and again before the hop set gets its name.
//!
//! The lock file also marks the folder: a file of this user alone, with a content that no other program writes. A
//! folder without the mark is never changed, except an empty one: a run was killed before it wrote the mark, or after
//! it removed it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use uva_graph::GraphError;
use uva_mem::files::{Mark, OwnDirectory, open_directory};

use super::folder::{self, LOCK};

/// The content of the lock file.
const MARK: &[u8] = b"uvatrain propagate: an unfinished hop set\n";

/// The path of the folder for `out`.
pub fn folder_of(out: &Path) -> PathBuf {
    let mut name = out.file_name().map(OsStr::to_owned).unwrap_or_default();
    name.push(OsString::from(".propagating"));
    out.with_file_name(name)
}

/// The locked folder. Dropping the value releases the lock.
#[derive(Debug)]
pub(crate) struct FolderLock {
    folder: OwnDirectory,
    file: File,
    /// Whether the folder was created.
    is_new: bool,
}

/// The result of an attempt to take the lock.
enum Attempt {
    Taken(File),
    /// Another process holds the lock.
    Held,
    /// The lock file does not exist.
    Missing,
    /// The locked file, or its folder, has lost its name meanwhile.
    Replaced,
}

impl FolderLock {
    /// Locks the folder of `out`. An existing one is taken only to `resume`; a missing one is created.
    ///
    /// # Errors
    /// If another process holds the lock, or an earlier one has left the folder and it is not to be resumed; if it is
    /// not a folder that this program made for this user, or has an entry that runs do not create.
    pub(crate) fn take(out: &Path, resume: bool) -> Result<FolderLock, GraphError> {
        let path = folder_of(out);
        loop {
            let is_new = create(&path)?;
            let folder = match OwnDirectory::open_private(&path) {
                Ok(folder) => folder,
                // The lock's holder has just removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(folder::refused(&path, error)),
            };
            let takes = is_new || resume;
            match attempt(&folder, takes)? {
                Attempt::Held => {
                    let message = format!("another process is making it, in {}", path.display());
                    return Err(GraphError::usage("OUT", message));
                }
                Attempt::Taken(_) if !takes => return Err(left_over(&path)),
                Attempt::Taken(file) => {
                    mark(&folder, &file)?;
                    folder::check(&folder)?;
                    return Ok(FolderLock { folder, file, is_new });
                }
                Attempt::Missing
                    if !takes && folder.is_at(&path).map_err(GraphError::io(&path, "examine"))? =>
                {
                    return Err(left_over(&path));
                }
                // The lock's holder has just removed the folder.
                Attempt::Missing | Attempt::Replaced => {}
            }
        }
    }

    /// Locks the rest of a finished run's folder. `None` if the folder is gone, or another process holds the lock.
    pub(crate) fn of_left(out: &Path) -> Result<Option<FolderLock>, GraphError> {
        let path = folder_of(out);
        // A folder that is not this program's stays: the hop set is complete without it.
        let Ok(folder) = OwnDirectory::open_private(&path) else { return Ok(None) };
        Ok(match attempt(&folder, false)? {
            Attempt::Taken(file) => {
                let is_ours = marked(&folder, &file)? != Mark::Foreign && folder::check(&folder).is_ok();
                is_ours.then_some(FolderLock { folder, file, is_new: false })
            }
            Attempt::Missing => {
                // An empty folder is left by a run that was killed as it removed it. A folder with entries stays.
                let _ = fs::remove_dir(&path);
                None
            }
            Attempt::Held | Attempt::Replaced => None,
        })
    }

    /// The folder, open.
    pub(crate) fn folder(&self) -> &OwnDirectory {
        &self.folder
    }

    /// Refuses unless the lock is still held.
    ///
    /// # Errors
    /// [`GraphError::Io`] if the folder was removed or replaced meanwhile.
    pub(crate) fn check(&self) -> Result<(), GraphError> {
        let path = self.folder.path();
        if holds(&self.folder, &self.file).map_err(GraphError::io(path, "examine"))? {
            return Ok(());
        }
        let problem = "it was removed or replaced while this process worked in it: start again";
        Err(GraphError::io(path, "finish")(io::Error::other(problem)))
    }

    /// Removes the folder with all files that runs create in it.
    ///
    /// # Errors
    /// If the system refuses. A missing entry is not an error, and other entries stay.
    pub(crate) fn remove(self) -> Result<(), GraphError> {
        let path = self.folder.path();
        let is_there = self.folder.is_at(path).map_err(GraphError::io(path, "examine"))?;
        folder::remove(&self.folder)?;
        // Removes only an empty directory, so a new one under the same name is safe as well.
        if is_there { folder::remove_empty(fs::remove_dir(path), path) } else { Ok(()) }
    }

    /// Removes the folder if [`take`](Self::take) has created it.
    pub(crate) fn remove_if_new(self) -> Result<(), GraphError> {
        if self.is_new { self.remove() } else { Ok(()) }
    }
}

fn left_over(folder: &Path) -> GraphError {
    GraphError::usage(
        "OUT",
        format!(
            "an earlier run has left {}: continue it with `resume`, or remove it (rm -r) and start again",
            folder.display()
        ),
    )
}

/// Creates the folder, for this user alone, and its parents, so that its name survives a power failure. Returns false
/// if the name exists.
fn create(folder: &Path) -> Result<bool, GraphError> {
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let created = || {
        fs::create_dir_all(parent)?;
        DirBuilder::new().mode(0o700).create(folder)?;
        open_directory(parent)?.sync_all()
    };
    match created() {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(GraphError::io(folder, "create")(error)),
    }
}

/// Tries to lock the folder; with `create`, makes the file if the folder is empty.
fn attempt(folder: &OwnDirectory, create: bool) -> Result<Attempt, GraphError> {
    let path = folder.path().join(LOCK);
    let entries = folder.entries().map_err(GraphError::io(folder.path(), "list"))?;
    if !entries.is_empty() && entries.iter().all(|(name, _)| name != LOCK) {
        return Err(unmarked(folder, "it has no lock file"));
    }
    match folder.open_lock_file(LOCK, create) {
        Ok(file) => locked(file, folder).map_err(GraphError::io(&path, "lock")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Attempt::Missing),
        Err(error) => Err(folder::refused(&path, error)),
    }
}

/// Tries to lock a file that was opened in the folder.
fn locked(file: File, folder: &OwnDirectory) -> io::Result<Attempt> {
    // On a file system without locks, the file is used without one.
    if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Ok(Attempt::Held);
    }
    Ok(if holds(folder, &file)? { Attempt::Taken(file) } else { Attempt::Replaced })
}

/// Whether the lock file and the folder still have their names.
fn holds(folder: &OwnDirectory, file: &File) -> io::Result<bool> {
    Ok(folder.has(LOCK, file)? && folder.is_at(folder.path())?)
}

/// Reads the mark in the lock file, which this process has locked.
fn marked(folder: &OwnDirectory, lock: &File) -> Result<Mark, GraphError> {
    folder.read_mark(lock, MARK).map_err(GraphError::io(&folder.path().join(LOCK), "read"))
}

/// Writes the mark if it is missing.
fn mark(folder: &OwnDirectory, lock: &File) -> Result<(), GraphError> {
    match marked(folder, lock)? {
        Mark::Written => Ok(()),
        Mark::Empty => lock
            .write_all_at(MARK, 0)
            .and_then(|()| lock.sync_all())
            .map_err(GraphError::io(&folder.path().join(LOCK), "write")),
        Mark::Foreign => Err(unmarked(folder, "its lock file was not written by uvatrain")),
    }
}

fn unmarked(folder: &OwnDirectory, why: &str) -> GraphError {
    let path = folder.path().display();
    GraphError::usage(
        "OUT",
        format!("{path} is not an unfinished hop set, because {why}: move it out of the way"),
    )
}

#[cfg(test)]
mod tests {
    use uva_mem::files::open_lock_file;

    use super::*;

    fn own(path: &Path) -> OwnDirectory {
        DirBuilder::new().mode(0o700).create(path).unwrap();
        OwnDirectory::open_private(path).unwrap()
    }

    #[test]
    fn a_lock_on_a_file_that_has_lost_its_name_does_not_count() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("folder");
        let folder = own(&path);
        let opened = open_lock_file(&path.join(LOCK), true).unwrap();
        fs::remove_file(path.join(LOCK)).unwrap();
        assert!(matches!(locked(opened.try_clone().unwrap(), &folder).unwrap(), Attempt::Replaced));
        let newer = open_lock_file(&path.join(LOCK), true).unwrap();
        assert!(matches!(locked(opened, &folder).unwrap(), Attempt::Replaced));
        assert!(matches!(locked(newer.try_clone().unwrap(), &folder).unwrap(), Attempt::Taken(_)));
        fs::rename(&path, temp.path().join("moved")).unwrap();
        own(&path);
        assert!(matches!(locked(newer, &folder).unwrap(), Attempt::Replaced));
    }

    #[test]
    fn a_second_process_is_refused_with_and_without_resume() {
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
        // A file that another process has removed meanwhile is not a reason to fail.
        fs::remove_file(folder_of(&out).join(LOCK)).unwrap();
        new.remove_if_new().unwrap();
        assert!(!folder_of(&out).exists());
    }

    #[test]
    fn a_folder_that_a_killed_run_left_without_its_mark_is_taken() {
        let temp = tempfile::tempdir().unwrap();
        let out = temp.path().join("set");
        own(&folder_of(&out));
        drop(FolderLock::take(&out, true).unwrap());
        fs::write(folder_of(&out).join(LOCK), b"").unwrap();
        drop(FolderLock::take(&out, true).unwrap());
        assert_eq!(fs::read(folder_of(&out).join(LOCK)).unwrap(), MARK);
    }
}
