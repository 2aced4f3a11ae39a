//! Files for a reader outside of this crate.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use uva_mem::FileState;

use crate::error::DiskError;
use crate::files::guard::Guard;
use crate::files::open_file::OpenFiles;
use crate::files::progress::ReadFailure;
use crate::files::seam::Seam;
use crate::shape::TableShape;

/// Files of tables, open for reads past the page cache, and checked for changes like those of this crate's readers.
pub struct WatchedFiles {
    files: OpenFiles,
    guards: Vec<Guard>,
}

impl WatchedFiles {
    /// Opens the files of these tables, at least one.
    ///
    /// # Errors
    /// If a file cannot be opened or is too short.
    pub fn open(tables: &[(&Path, TableShape)]) -> Result<Self, DiskError> {
        let files = OpenFiles::new(tables.iter().map(|(path, _)| *path), true, &Seam::default())?;
        for (file, (_, shape)) in files.iter().zip(tables) {
            file.check_length(shape)?;
        }
        let guards = files.iter().map(Guard::new).collect::<Result<_, _>>()?;
        Ok(Self { files, guards })
    }

    /// Sets the expected states of the files, in the order of the tables: those when the files were checked.
    ///
    /// # Errors
    /// [`DiskError::Changed`] if a file has changed since.
    pub fn since(mut self, states: &[FileState]) -> Result<Self, DiskError> {
        self.guards.iter_mut().zip(states).try_for_each(|(guard, state)| guard.expect(*state))?;
        Ok(self)
    }

    /// Why reads pass through the page cache; `None` if the files are open with `O_DIRECT`.
    #[must_use]
    pub fn cached(&self) -> Option<&str> {
        self.files.cached()
    }

    /// The open files, in the order of the tables.
    pub fn files(&self) -> impl Iterator<Item = &Arc<File>> {
        self.files.iter().map(|file| &file.file)
    }

    /// The paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// Checks that the files are unchanged. Call this after every read, before its bytes are used.
    ///
    /// # Errors
    /// [`DiskError::Changed`] if a file has changed.
    pub fn check(&self) -> Result<(), DiskError> {
        self.guards.iter().try_for_each(Guard::check)
    }

    /// The error of a failed read of the file with this index.
    #[must_use]
    pub fn failed(&self, file: usize, offset: u64, length: usize, reason: String) -> DiskError {
        self.files.failed(ReadFailure { file, offset, length, reason })
    }
}
