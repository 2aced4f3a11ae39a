//! A directory for files that nothing needs once their process has ended.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use super::sibling::{self, Sibling};

/// A private directory `PARENT/NAME.partial-<16 hex digits>`, removed with its content when it is dropped. A killed
/// process leaves it behind, and the next one with the same `PARENT` and `NAME` removes it.
#[derive(Debug)]
pub struct TemporaryDirectory {
    sibling: Sibling,
    /// The process that made it. Its forks have a copy, and leave the directory alone.
    process: u32,
}

impl TemporaryDirectory {
    /// Creates it. Those that killed processes left are removed before.
    ///
    /// A fork that is still alive keeps the lock on the directory of its parent, and with it the directory.
    ///
    /// # Errors
    /// The system's answer.
    pub fn create(parent: &Path, name: &str) -> io::Result<Self> {
        let name = OsStr::new(name);
        sibling::remove_abandoned(parent, name, &|_| true);
        // Others have no access: the data may be confidential, and the parent is often one that all users share.
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
            // A failure has no remedy here: the next process tries again.
            let _ = sibling::remove(self.path());
        }
    }
}
