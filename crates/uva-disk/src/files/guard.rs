//! Whether a file is still the one that was opened.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{fstat, stat};
use uva_mem::FileState;

use crate::error::DiskError;
use crate::files::open_file::OpenFile;
use crate::files::progress::text;

/// Remembers a file's length, times and inode.
///
/// Length and times are those of the open file. The inode is also compared with that of the path: another one there means
/// that the dataset was replaced.
pub(crate) struct Guard {
    file: Arc<File>,
    path: PathBuf,
    expected: FileState,
}

impl Guard {
    /// Remembers the file as it is now.
    pub fn new(file: &OpenFile) -> Result<Self, DiskError> {
        let opened = fstat(&*file.file)
            .map_err(|error| DiskError::Open { file: file.path.clone(), reason: text(error) })?;
        let expected = FileState::of_stat(&opened);
        Ok(Self { file: Arc::clone(&file.file), path: file.path.clone(), expected })
    }

    /// From now on the file is to be as it was in this earlier state.
    ///
    /// # Errors
    /// If it has changed since.
    pub fn expect(&mut self, state: FileState) -> Result<(), DiskError> {
        self.expected = state;
        self.check()
    }

    /// Checks that it is the same.
    pub fn check(&self) -> Result<(), DiskError> {
        let changed = |what: String| Err(DiskError::Changed { file: self.path.clone(), what });
        let now = match fstat(&*self.file) {
            Ok(now) => FileState::of_stat(&now),
            Err(error) => return changed(text(error)),
        };
        // The name first: removing or replacing it changes the status of the open file, too.
        match stat(&self.path) {
            Ok(named) if self.expected.is_of_file(&FileState::of_stat(&named)) => {}
            Ok(_) => return changed("another file has taken its place".to_owned()),
            Err(error) => return changed(format!("it is no longer there ({})", text(error))),
        }
        self.expected.change(&now).map_or(Ok(()), changed)
    }
}
