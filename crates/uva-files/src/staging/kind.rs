//! Kinds of directories that a new one may replace.

use std::path::Path;

/// A kind of directory that a new one may replace. Replacing removes the old directory, so the kind must be recognised
/// exactly.
#[derive(Debug, Clone, Copy)]
pub struct DirectoryKind {
    /// Its name, with an article, for messages: `a dataset`.
    pub name: &'static str,
    /// Whether such a directory may have a file at this path relative to it. Only these are removed.
    pub may_have: fn(&Path) -> bool,
    /// Whether it may have a directory at this path relative to it. These are removed once they are empty.
    pub may_have_directory: fn(&Path) -> bool,
    /// Checks that a directory is complete; the error is the reason why it is not.
    pub check: fn(&Path) -> Result<(), String>,
}
