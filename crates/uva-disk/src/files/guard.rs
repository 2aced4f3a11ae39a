//! Detection of changed or replaced files.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{fstat, stat};
use uva_mem::FileState;

use crate::error::DiskError;
use crate::files::open_file::OpenFile;
use crate::files::progress::text;

/// A record of a file's length, times and inode.
///
/// Length and times are those of the open file. The inode is also compared with that of the path: a different inode
/// means that the dataset was replaced.
pub(crate) struct Guard {
    file: Arc<File>,
    path: PathBuf,
    expected: FileState,
}

impl Guard {
    /// Records the current state of the file.
    pub fn new(file: &OpenFile) -> Result<Self, DiskError> {
        let opened = fstat(&*file.file)
            .map_err(|error| DiskError::Open { file: file.path.clone(), reason: text(error) })?;
        let expected = FileState::of_stat(&opened);
        Ok(Self { file: Arc::clone(&file.file), path: file.path.clone(), expected })
    }

    /// Sets the expected state of the file to this earlier one.
    ///
    /// # Errors
    /// If it has changed since.
    pub fn expect(&mut self, state: FileState) -> Result<(), DiskError> {
        self.expected = state;
        self.check()
    }

    /// Checks that the file is unchanged.
    pub fn check(&self) -> Result<(), DiskError> {
        let changed = |what: String| Err(DiskError::Changed { file: self.path.clone(), what });
        let now = match fstat(&*self.file) {
            Ok(now) => FileState::of_stat(&now),
            Err(error) => return changed(text(error)),
        };
        // The path is checked first, since removing or replacing the file also changes the status of the open file.
        match stat(&self.path) {
            Ok(named) if self.expected.is_of_file(&FileState::of_stat(&named)) => {}
            Ok(_) => return changed("another file has taken its place".to_owned()),
            Err(error) => return changed(format!("it is no longer there ({})", text(error))),
        }
        self.expected.change(&now).map_or(Ok(()), changed)
    }
}
