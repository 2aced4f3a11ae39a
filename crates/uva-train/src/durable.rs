//! Files that are either there with all their bytes or not there, whatever happens in between.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How the name of every unfinished file begins.
pub(crate) const PARTIAL_PREFIX: &str = "checkpoint-partial-";

/// Told after each step that changes the directory, with the step's name: tests look at what a crash there would
/// leave.
pub(crate) type Observer<'a> = &'a mut dyn FnMut(&'static str);

/// A failed step, with the path it was about.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) doing: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

/// Makes a step's error say what was done to which path.
pub(crate) fn on<T>(doing: &'static str, path: &Path, result: io::Result<T>) -> Result<T, Failure> {
    result.map_err(|source| Failure { doing, path: path.to_owned(), source })
}

/// Makes the folder and what is missing above it, for the user only.
pub(crate) fn create_directory(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Ok(());
    }
    on("create", path, DirBuilder::new().recursive(true).mode(0o700).create(path))?;
    // The new name must survive a power failure as well as what is in it.
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        _ => sync_directory(Path::new(".")),
    }
}

/// Waits until the directory's names are on the disk.
pub(crate) fn sync_directory(path: &Path) -> Result<(), Failure> {
    on("sync", path, File::open(path).and_then(|directory| directory.sync_all()))
}

/// Removes an unfinished file when the write of it fails.
struct Partial<'a>(Option<&'a Path>);

impl Drop for Partial<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

/// Puts `contents` at `directory/name` in one step: written to a file beside it (mode 0600), synced, renamed, and
/// the directory synced. A crash leaves the old file or the new one, and perhaps a partial file, which
/// [`PARTIAL_PREFIX`] tells.
pub(crate) fn replace(
    directory: &Path,
    name: &str,
    contents: &[u8],
    observer: Observer<'_>,
) -> Result<(), Failure> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    // Only distinctness counts, within this process; the process id tells processes apart.
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let partial = directory.join(format!("{PARTIAL_PREFIX}{}-{number}", std::process::id()));
    let target = directory.join(name);
    // A file of this name is of a dead process that had our id.
    let _ = fs::remove_file(&partial);
    let mut file =
        on("create", &partial, OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial))?;
    let mut guard = Partial(Some(&partial));
    observer("created");
    let (first, second) = contents.split_at(contents.len() / 2);
    on("write", &partial, file.write_all(first))?;
    observer("half written");
    on("write", &partial, file.write_all(second))?;
    on("sync", &partial, file.sync_all())?;
    observer("written");
    on("rename", &target, fs::rename(&partial, &target))?;
    guard.0 = None;
    observer("renamed");
    sync_directory(directory)
}
