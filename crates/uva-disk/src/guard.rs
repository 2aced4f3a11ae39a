//! Whether a file is still the one that was opened.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{Stat, fstat, stat};

use crate::error::DiskError;
use crate::open_file::OpenFile;
use crate::progress::text;

/// Remembers a file's length, modification time and inode.
///
/// Length and time are those of the open file. A change of bytes alters its time before it alters its bytes. So rows that
/// were read before a check that finds nothing are those of the file as it was opened, as exactly as the system's clock
/// of such times ticks. The inode is that of the path: another one there means that the dataset was replaced.
pub(crate) struct Guard {
    file: Arc<File>,
    path: PathBuf,
    opened: Stat,
}

impl Guard {
    /// Remembers the file as it is now.
    pub fn new(file: &OpenFile) -> Result<Self, DiskError> {
        let opened = fstat(&*file.file)
            .map_err(|error| DiskError::Open { file: file.path.clone(), reason: text(error) })?;
        Ok(Self { file: Arc::clone(&file.file), path: file.path.clone(), opened })
    }

    /// Checks that it is the same.
    pub fn check(&self) -> Result<(), DiskError> {
        let changed = |what: String| Err(DiskError::Changed { file: self.path.clone(), what });
        let now = match fstat(&*self.file) {
            Ok(now) => now,
            Err(error) => return changed(text(error)),
        };
        if now.st_size != self.opened.st_size {
            return changed(format!("it had {} bytes and has {}", self.opened.st_size, now.st_size));
        }
        if modified(&now) != modified(&self.opened) {
            return changed("it was written to".to_owned());
        }
        match stat(&self.path) {
            Ok(named) if (named.st_dev, named.st_ino) == (self.opened.st_dev, self.opened.st_ino) => Ok(()),
            Ok(_) => changed("another file has taken its place".to_owned()),
            Err(error) => changed(format!("it is no longer there ({})", text(error))),
        }
    }
}

fn modified(stat: &Stat) -> (i64, i64) {
    (stat.st_mtime, stat.st_mtime_nsec as i64)
}
