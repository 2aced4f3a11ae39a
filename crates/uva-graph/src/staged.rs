//! A directory that appears whole or not at all.
//!
//! Files are written into a sibling, `OUT.partial-PID`, which [`StagedDirectory::commit`] flushes and renames to `OUT`.
//! Dropping it instead removes it. A process that was killed leaves its sibling behind, whose name says what it is; the
//! next one with the same `OUT` removes it. Which siblings are abandoned is told by a lock on the directory, which the
//! kernel drops with its owner, so that neither a reused process number nor another namespace's can mislead.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, RenameFlags, flock, renameat_with};

use crate::GraphError;

/// Siblings of this process that are being written, for [`remove_unfinished`].
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory on its way to its final name.
#[derive(Debug)]
pub struct StagedDirectory {
    out: PathBuf,
    partial: PathBuf,
    /// Missing parents of `out` that were created, outermost first.
    created_parents: Vec<PathBuf>,
    /// Holds the lock that says somebody is writing.
    lock: File,
    committed: bool,
    /// Whether a dataset that is at `out` makes way.
    replaces: bool,
}

impl StagedDirectory {
    /// Creates the sibling of `out`, and parents of it that are missing. Abandoned siblings of earlier runs are
    /// removed.
    ///
    /// # Errors
    /// Where `out` exists already, even as an empty directory, or the sibling cannot be created.
    pub fn new(out: &Path) -> Result<StagedDirectory, GraphError> {
        let Some(name) = out.file_name() else {
            return Err(GraphError::usage("OUT", format!("{} names no directory to create", out.display())));
        };
        refuse_existing(out)?;
        StagedDirectory::beside(out, name, false)
    }

    /// The same, and a dataset that is at `out` makes way for it in [`commit`](Self::commit): it is there, whole, until
    /// then.
    ///
    /// # Errors
    /// Where `out` is there and is something else than a directory of a dataset's files, which are the only ones that
    /// are ever removed; where the sibling cannot be created.
    pub fn replacing(out: &Path) -> Result<StagedDirectory, GraphError> {
        let Some(name) = out.file_name() else {
            return Err(GraphError::usage("OUT", format!("{} names no directory to create", out.display())));
        };
        refuse_other_than_dataset(out)?;
        StagedDirectory::beside(out, name, true)
    }

    fn beside(out: &Path, name: &OsStr, replaces: bool) -> Result<StagedDirectory, GraphError> {
        let parent = match out.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let created_parents = create_parents(parent)?;
        remove_abandoned(parent, name);

        let prefix = partial_prefix(name);
        let mut attempt = 0;
        let (partial, lock) = loop {
            // One process may write the same OUT twice at once only by mistake; each still gets a name of its own.
            let mut partial = prefix.clone();
            partial.push(std::process::id().to_string());
            if attempt > 0 {
                partial.push(format!("-{attempt}"));
            }
            let partial = parent.join(partial);
            match fs::create_dir(&partial) {
                // Between creating and locking, another process may have taken it for abandoned: then try again.
                Ok(()) => match lock_directory(&partial, true) {
                    Some(lock) => break (partial, lock),
                    None => attempt += 1,
                },
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 100 => attempt += 1,
                Err(error) => {
                    remove_created(&created_parents);
                    return Err(GraphError::io(&partial, "create")(error));
                }
            }
        };
        unfinished().push(partial.clone());
        Ok(StagedDirectory {
            out: out.to_owned(),
            partial,
            created_parents,
            lock,
            committed: false,
            replaces,
        })
    }

    /// Where to write files.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Where they will be found.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// Flushes every file to the disk and gives the directory its final name.
    ///
    /// # Errors
    /// Where the system refuses, or `out` has come into being meanwhile; the sibling is then removed.
    pub fn commit(mut self) -> Result<(), GraphError> {
        for entry in fs::read_dir(&self.partial).map_err(GraphError::io(&self.partial, "read"))? {
            let path = entry.map_err(GraphError::io(&self.partial, "read"))?.path();
            File::open(&path).and_then(|file| file.sync_all()).map_err(GraphError::io(&path, "flush"))?;
        }
        self.lock.sync_all().map_err(GraphError::io(&self.partial, "flush"))?;
        // Held over the rename, so that `remove_unfinished` sees either an unfinished directory or none.
        let mut unfinished = unfinished();
        let replaced = match &self.out {
            out if self.replaces && fs::symlink_metadata(out).is_ok() => Some(exchange(&self.partial, out)?),
            out => rename_without_replacing(&self.partial, out).map(|()| None)?,
        };
        self.committed = true;
        unfinished.retain(|path| *path != self.partial);
        drop(unfinished);
        if let Some(replaced) = replaced {
            // Where it fails, what stays has the name of an abandoned sibling and goes with the next run.
            let _ = fs::remove_dir_all(replaced);
        }
        let parent = self.out.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(GraphError::io(parent, "flush"))
    }
}

impl Drop for StagedDirectory {
    fn drop(&mut self) {
        if !self.committed {
            let mut unfinished = unfinished();
            // Nothing to be done where it fails: the next run for the same OUT tries again.
            let _ = fs::remove_dir_all(&self.partial);
            unfinished.retain(|path| *path != self.partial);
            remove_created(&self.created_parents);
        }
    }
}

/// Removes every staged directory that this process has not committed yet: for a signal handler thread that is about to
/// end the process while others are still writing. Writers that go on get an error.
pub fn remove_unfinished() {
    for path in unfinished().drain(..) {
        // A writer may create files while the tree is being removed, so one failure is no reason to give up.
        for _ in 0..10 {
            match fs::remove_dir_all(&path) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                _ => break,
            }
        }
    }
}

fn unfinished() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    // A list of paths is as good after a panic as before.
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refuse_existing(out: &Path) -> Result<(), GraphError> {
    match fs::symlink_metadata(out) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(GraphError::io(out, "look for")(error)),
        Ok(_) => Err(GraphError::usage(
            "OUT",
            format!("{} exists already: name another directory, or remove that one first", out.display()),
        )),
    }
}

/// Whether a file of this name may be removed with a dataset.
fn is_of_dataset(name: &OsStr) -> bool {
    let name = Path::new(name);
    name.extension().is_some_and(|extension| extension == "npy")
        || name == Path::new(crate::meta::FILE_NAME)
        || name == Path::new(crate::stamp::FILE_NAME)
        || name == Path::new(crate::files::names::NODE_NAMES)
}

fn refuse_other_than_dataset(out: &Path) -> Result<(), GraphError> {
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
    for entry in fs::read_dir(out).map_err(GraphError::io(out, "read"))? {
        let entry = entry.map_err(GraphError::io(out, "read"))?;
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if !is_file || !is_of_dataset(&entry.file_name()) {
            return refuse(format!("{} in it is no file of a dataset", entry.file_name().display()));
        }
    }
    Ok(())
}

/// Gives `from` the name `to`, which is taken by another directory; where that one is afterwards.
fn exchange(from: &Path, to: &Path) -> Result<PathBuf, GraphError> {
    use rustix::fs::CWD;
    refuse_other_than_dataset(to)?;
    match renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(from.to_owned()),
        // Some file systems know no such flag: then for a moment there is none.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
            let mut aside = from.as_os_str().to_owned();
            aside.push("-0");
            let aside = PathBuf::from(aside);
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

fn partial_prefix(name: &OsStr) -> OsString {
    let mut prefix = name.to_owned();
    prefix.push(".partial-");
    prefix
}

/// Removes siblings that no living process holds. Failing to is no error: they harm nobody.
fn remove_abandoned(parent: &Path, name: &OsStr) {
    let prefix = partial_prefix(name);
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
        let ours = number.is_some_and(|number| {
            !number.is_empty() && number.iter().all(|&c| c.is_ascii_digit() || c == b'-')
        });
        if ours
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Some(_lock) = lock_directory(&entry.path(), false)
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Opens and locks a directory; `None` where another process holds the lock, or the directory is no longer there.
/// On a file system that cannot lock directories, `where_none` says whether to do without.
fn lock_directory(path: &Path, where_none: bool) -> Option<File> {
    let file = File::open(path).ok()?;
    let held = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => true,
        Err(rustix::io::Errno::WOULDBLOCK) => false,
        Err(_) => where_none,
    };
    // Who waited for no lock may still have opened a directory that its holder was just removing.
    (held && path.exists()).then_some(file)
}

fn rename_without_replacing(from: &Path, to: &Path) -> Result<(), GraphError> {
    use rustix::fs::CWD;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::EXIST) => refuse_existing(to),
        // Some file systems know no such flag: then look first, and trust that nobody is quicker.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
            refuse_existing(to)?;
            fs::rename(from, to).map_err(GraphError::io(to, "create"))
        }
        Err(error) => Err(GraphError::io(to, "create")(error.into())),
    }
}

/// Creates `parent` and what is missing above it; returns what was created.
fn create_parents(parent: &Path) -> Result<Vec<PathBuf>, GraphError> {
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
                return Err(GraphError::io(directory, "create")(error));
            }
        }
    }
    Ok(created)
}

/// Removes parents that were created and are still empty.
fn remove_created(created: &[PathBuf]) {
    for directory in created.iter().rev() {
        if fs::remove_dir(directory).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
