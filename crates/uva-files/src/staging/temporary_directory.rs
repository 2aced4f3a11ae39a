//! A directory for files that are not needed after their process has ended.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use super::sibling::{self, Sibling};

/// A private directory `PARENT/NAME.partial-<16 hex digits>`, removed with its content when it is dropped. A killed
/// process leaves the directory, and the next process with the same `PARENT` and `NAME` removes it.
#[derive(Debug)]
pub struct TemporaryDirectory {
    sibling: Sibling,
    /// The process that created the directory. Forked children have a copy and do not remove it.
    process: u32,
}

impl TemporaryDirectory {
    /// Creates the directory. Directories left by killed processes are removed first.
    ///
    /// A fork that is still alive keeps the lock on its parent's directory, so that the directory is not removed.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn create(parent: &Path, name: &str) -> io::Result<Self> {
        let name = OsStr::new(name);
        sibling::remove_abandoned(parent, name, None);
        // Other users have no access: the data may be confidential, and the parent directory is often shared by all
        // users.
        Ok(Self { sibling: Sibling::create(parent, name, 0o700)?, process: std::process::id() })
    }

    /// The directory to write files into.
    pub fn path(&self) -> &Path {
        self.sibling.path()
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // A failure is ignored, since the next process tries again.
            let _ = sibling::remove(self.path());
        }
    }
}
