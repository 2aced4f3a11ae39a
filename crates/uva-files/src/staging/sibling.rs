//! Directories being written, next to their final names, and temporary directories without a final name.
//!
//! A directory belongs to this program if its name has exactly this form, it belongs to this user, and it contains the
//! marker: a file of mode 0600 with a content that no other program writes, which its writer keeps locked. The kernel
//! releases the lock when its holder ends. So a process number that was reused or belongs to another namespace has no
//! effect, and no other user can take the lock. No other files are ever removed, and no link is followed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use uva_mem::files::{EntryKind, Mark, OwnDirectory, is_word, random_word};

use super::kind::DirectoryKind;

/// The name of the marker.
pub(super) const MARKER: &str = ".uvatrain-partial";
/// The marker's content in a directory being written, which is removed completely.
pub(super) const UNFINISHED: &[u8] = b"uvatrain: an unfinished directory\n";
/// The marker's content in a replaced directory, of which only files of its kind are removed.
pub(super) const REPLACED: &[u8] = b"uvatrain: a replaced dataset\n";

/// A directory that this process is writing.
#[derive(Debug)]
pub(super) struct Sibling {
    path: PathBuf,
    /// The marker, locked for the lifetime of this value.
    _marker: File,
}

impl Sibling {
    /// Creates a sibling for a directory with the final name `name` in `parent`, with `mode` less the process's umask.
    pub(super) fn create(parent: &Path, name: &OsStr, mode: u32) -> io::Result<Sibling> {
        loop {
            let mut partial = prefix(name);
            partial.push(format!("{:016x}", random_word()?));
            let path = parent.join(partial);
            DirBuilder::new().mode(mode).create(&path)?;
            // Between the creation and the lock of the marker, another process may have considered it abandoned and
            // removed it; retry then.
            let marked = OwnDirectory::open(&path).and_then(|directory| mark(&directory, UNFINISHED));
            match marked {
                Ok(Some(marker)) => return Ok(Sibling { path, _marker: marker }),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    // Removes by name, since a descriptor for listing may not be available.
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
pub(super) fn mark(directory: &OwnDirectory, content: &[u8]) -> io::Result<Option<File>> {
    let marker = directory.open_lock_file(MARKER, true)?;
    // On a file system without locks the marker stays unlocked, and no directory is ever considered abandoned.
    if flock(&marker, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Ok(None);
    }
    // A process that briefly held the lock may have removed the directory.
    if !directory.has(MARKER, &marker)? {
        return Ok(None);
    }
    marker.set_len(0)?;
    marker.write_all_at(content, 0)?;
    Ok(Some(marker))
}

/// Removes the marker from a directory that has its final name.
pub(super) fn unmark(directory: &OwnDirectory) {
    // A marker that stays is harmless: it has no effect without a sibling's name.
    let _ = directory.remove_file(MARKER);
}

/// Whether a replaced directory of this kind may have a file at this relative path. Only such files are removed.
pub(super) fn may_remove(path: &Path, kind: &DirectoryKind) -> bool {
    (kind.may_have)(path) || path == Path::new(MARKER)
}

/// Removes siblings of `name` that no living process writes; of a replaced directory only what `kind` allows. Failures are
/// ignored, since siblings are harmless.
pub(super) fn remove_abandoned(parent: &Path, name: &OsStr, kind: Option<&DirectoryKind>) {
    let prefix = prefix(name);
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let word = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
        if word.and_then(|word| std::str::from_utf8(word).ok()).is_some_and(is_word) {
            // Entries of other programs, or in use, stay.
            let _ = remove_if_abandoned(&entry.path(), kind);
        }
    }
}

/// Removes a directory whose marker no process holds. Another process that starts in the meantime finds the marker
/// locked.
fn remove_if_abandoned(path: &Path, kind: Option<&DirectoryKind>) -> io::Result<()> {
    let directory = OwnDirectory::open(path)?;
    let marker = directory.open_lock_file(MARKER, false)?;
    flock(&marker, FlockOperation::NonBlockingLockExclusive)?;
    if directory.read_mark(&marker, UNFINISHED)? != Mark::Foreign {
        return remove_open(&directory, None);
    }
    match directory.read_mark(&marker, REPLACED)? {
        Mark::Written => remove_open(&directory, kind),
        Mark::Empty | Mark::Foreign => Ok(()),
    }
}

/// Removes a sibling with all its content, the marker last. So the next run continues an interrupted removal.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    remove_open(&OwnDirectory::open(path)?, None)
}

/// Removes what a directory of `kind` may have, or without a kind everything, and the directory if it is then empty.
pub(super) fn remove_open(directory: &OwnDirectory, kind: Option<&DirectoryKind>) -> io::Result<()> {
    let others = match kind {
        Some(kind) => remove_of_kind(directory, Path::new(""), kind)?,
        None => {
            for (name, entry) in directory.entries()?.into_iter().filter(|(name, _)| name != MARKER) {
                match entry {
                    EntryKind::Directory => directory.remove_tree(&name)?,
                    EntryKind::File | EntryKind::Other => directory.remove_file(&name)?,
                }
            }
            false
        }
    };
    directory.remove_file(MARKER)?;
    if others {
        return Ok(());
    }
    // Removes an empty directory only, even if the path changed in the meantime.
    fs::remove_dir(directory.path())
}

/// Removes what a directory of `kind` may have in its directory `relative`, which is open as `directory`. Returns whether
/// other entries remain. The marker remains too.
fn remove_of_kind(directory: &OwnDirectory, relative: &Path, kind: &DirectoryKind) -> io::Result<bool> {
    let mut others = false;
    for (name, entry) in directory.entries()?.into_iter().filter(|(name, _)| name != MARKER) {
        let path = relative.join(&name);
        match entry {
            EntryKind::Directory if (kind.may_have_directory)(&path) => {
                match remove_of_kind(&directory.open_in(&name)?, &path, kind)? {
                    true => others = true,
                    false => directory.remove_directory(&name)?,
                }
            }
            EntryKind::File | EntryKind::Other if may_remove(&path, kind) => directory.remove_file(&name)?,
            _ => others = true,
        }
    }
    Ok(others)
}

/// The name prefix of a directory's siblings.
pub(super) fn prefix(name: &OsStr) -> OsString {
    // A name has at most 255 bytes.
    let mut prefix = if name.len() <= 200 { name.to_owned() } else { OsString::from("long-name") };
    prefix.push(".partial-");
    prefix
}
