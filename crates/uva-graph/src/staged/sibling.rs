//! Directories being written, beside their final names.
//!
//! A directory is ours if its name has exactly this form and it holds the marker, a file of mode 0600 that its writer
//! keeps locked. The kernel releases the lock when its holder ends. So neither a reused process number nor another
//! namespace's can mislead, and no other user can take it. Nothing else is ever removed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, flock, unlinkat};
use rustix::io::Errno;
use uva_mem::files::{is_word, open_lock_file, random_word};

/// The marker's name.
pub(super) const MARKER: &str = ".uvatrain-partial";

/// A directory that this process is writing.
#[derive(Debug)]
pub(super) struct Sibling {
    path: PathBuf,
    /// Locked for as long as this lives.
    _marker: File,
}

impl Sibling {
    /// Creates one for a directory with the final name `name` in `parent`.
    pub(super) fn create(parent: &Path, name: &OsStr) -> io::Result<Sibling> {
        loop {
            let mut partial = prefix(name);
            partial.push(format!("{:016x}", random_word()?));
            let path = parent.join(partial);
            fs::create_dir(&path)?;
            // Between the creation and the lock of the marker, another process may have taken it for abandoned: then
            // retry.
            match mark(&path) {
                Ok(Some(marker)) => return Ok(Sibling { path, _marker: marker }),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    // By name: a descriptor for listing may not be available.
                    let _ = fs::remove_file(path.join(MARKER));
                    let _ = fs::remove_dir(&path);
                    return Err(error);
                }
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Puts a locked marker into the directory; `None` if another process holds it.
pub(super) fn mark(directory: &Path) -> io::Result<Option<File>> {
    let marker = open_lock_file(&directory.join(MARKER), true)?;
    // On a file system without locks it stays unlocked: there, no directory is ever taken for abandoned.
    if flock(&marker, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Ok(None);
    }
    // A process that held the lock for a moment may have removed the directory.
    Ok((marker.metadata()?.nlink() > 0).then_some(marker))
}

/// Removes the marker from a directory that has its final name.
pub(super) fn unmark(directory: &File) {
    // A marker that stays is harmless: it marks nothing without a sibling's name.
    let _ = unlinkat(directory, MARKER, AtFlags::empty());
}

/// Removes siblings of `name` that no living process writes. A failure is no error: they are harmless.
pub(super) fn remove_abandoned(parent: &Path, name: &OsStr) {
    let prefix = prefix(name);
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let word = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
        let named_so = word.and_then(|word| std::str::from_utf8(word).ok()).is_some_and(is_word);
        let path = entry.path();
        // The entry itself: a symbolic link is never ours.
        let is_own = || {
            entry.metadata().is_ok_and(|metadata| {
                metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw()
            })
        };
        if named_so && is_own() && is_abandoned(&path).is_some() {
            let _ = remove(&path);
        }
    }
}

/// The lock on the directory's marker, if there is a marker and no process holds it.
fn is_abandoned(path: &Path) -> Option<File> {
    let marker = open_lock_file(&path.join(MARKER), false).ok()?;
    flock(&marker, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(marker)
}

/// Removes a sibling with all its content, the marker last. So the next run continues an interrupted removal.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)?.flatten().filter(|entry| entry.file_name() != MARKER) {
        // An entry that cannot be removed here shows up again below.
        let _ = match entry.file_type() {
            Ok(kind) if kind.is_dir() => fs::remove_dir_all(entry.path()),
            _ => fs::remove_file(entry.path()),
        };
    }
    fs::remove_dir_all(path)
}

/// The name prefix of a directory's siblings.
pub(super) fn prefix(name: &OsStr) -> OsString {
    // A name has at most 255 bytes.
    let mut prefix = if name.len() <= 200 { name.to_owned() } else { OsString::from("long-name") };
    prefix.push(".partial-");
    prefix
}
