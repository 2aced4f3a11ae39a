//! Atomic, durable files. Each file exists with all its bytes or not at all, even after a crash.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use uva_mem::files::{Replacement, open_directory, target_of_partial};

/// Callback after each step that changes the directory, with the step's name. Tests inspect the state that a crash at
/// that point would leave.
pub type StepObserver<'a> = &'a mut dyn FnMut(&'static str);

/// A failed step and its path.
#[derive(Debug)]
pub(super) struct StepFailure {
    pub(super) doing: &'static str,
    pub(super) path: PathBuf,
    pub(super) source: io::Error,
}

/// Adds the operation and its path to a step's error.
pub(super) fn on<T>(doing: &'static str, path: &Path, result: io::Result<T>) -> Result<T, StepFailure> {
    result.map_err(|source| StepFailure { doing, path: path.to_owned(), source })
}

/// Creates the folder and its missing parents, accessible to the user only.
pub(super) fn create_directory(path: &Path) -> Result<(), StepFailure> {
    if path.is_dir() {
        return Ok(());
    }
    on("create", path, DirBuilder::new().recursive(true).mode(0o700).create(path))?;
    // The new name must survive a power failure, as must the contents.
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        _ => sync_directory(Path::new(".")),
    }
}

/// Waits until the directory's entries are on the disk.
pub(super) fn sync_directory(path: &Path) -> Result<(), StepFailure> {
    on("sync", path, open_directory(path).and_then(|directory| directory.sync_all()))
}

/// Replaces `directory/name` by a header and the contents after it, atomically: they are written to a new file (mode 0600) and synced,
/// the file is renamed, and the directory is synced. A crash leaves the old file or the new one, and perhaps a file
/// that [`is_partial`] recognises.
pub(super) fn replace(
    directory: &Path,
    name: &str,
    [header, contents]: [&[u8]; 2],
    observer: StepObserver<'_>,
) -> Result<(), StepFailure> {
    let target = directory.join(name);
    let mut replacement = on("create", &target, Replacement::of(&target, 0o600))?;
    observer("created");
    let (first, second) = contents.split_at(contents.len() / 2);
    on("write", &target, replacement.file().write_all(header))?;
    on("write", &target, replacement.file().write_all(first))?;
    observer("half written");
    on("write", &target, replacement.file().write_all(second))?;
    on("sync", &target, replacement.file().sync_all())?;
    observer("written");
    on("rename", &target, replacement.commit())?;
    observer("renamed");
    on("sync", directory, replacement.sync_directory())
}

/// Whether [`replace`] may have left a temporary file of this name, for a target name that satisfies `is_target`.
pub(super) fn is_partial(name: &str, is_target: impl Fn(&str) -> bool) -> bool {
    target_of_partial(OsStr::new(name)).is_some_and(is_target)
}
