//! Files for a reader that is not of this crate.

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

/// Files of tables, open for reads past the page cache, and watched as those of this crate's readers are.
pub struct WatchedFiles {
    files: OpenFiles,
    guards: Vec<Guard>,
}

impl WatchedFiles {
    /// Opens the files of these tables, at least one.
    ///
    /// # Errors
    /// A file that cannot be opened or is too short.
    pub fn open(tables: &[(&Path, TableShape)]) -> Result<Self, DiskError> {
        let files = OpenFiles::new(tables.iter().map(|(path, _)| *path), true, &Seam::default())?;
        for (file, (_, shape)) in files.iter().zip(tables) {
            file.check_length(shape)?;
        }
        let guards = files.iter().map(Guard::new).collect::<Result<_, _>>()?;
        Ok(Self { files, guards })
    }

    /// The same, as they were in these earlier states, in the order of the tables: when somebody checked them.
    ///
    /// # Errors
    /// [`DiskError::Changed`] for one that has changed since.
    pub fn since(mut self, states: &[FileState]) -> Result<Self, DiskError> {
        self.guards.iter_mut().zip(states).try_for_each(|(guard, state)| guard.expect(*state))?;
        Ok(self)
    }

    /// Why reads pass through the page cache; `None` where the files are open with `O_DIRECT`.
    #[must_use]
    pub fn cached(&self) -> Option<&str> {
        self.files.cached()
    }

    /// The open files, in the order of the tables.
    pub fn files(&self) -> impl Iterator<Item = &Arc<File>> {
        self.files.iter().map(|file| &file.file)
    }

    /// Where they are.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// Checks that they are what was opened, or expected. To be asked behind every read, before its bytes are used.
    ///
    /// # Errors
    /// [`DiskError::Changed`].
    pub fn check(&self) -> Result<(), DiskError> {
        self.guards.iter().try_for_each(Guard::check)
    }

    /// A read of the file of this number that failed.
    #[must_use]
    pub fn failed(&self, file: usize, offset: u64, length: usize, reason: String) -> DiskError {
        self.files.failed(ReadFailure { file, offset, length, reason })
    }
}
