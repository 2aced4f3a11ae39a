//! Kinds of directories, as far as one may replace another.

use std::ffi::OsStr;
use std::path::Path;

/// A kind of directory that a new one may replace. Replacing removes the old one, so it has to be recognised exactly.
#[derive(Debug, Clone, Copy)]
pub struct DirectoryKind {
    /// Its name, with an article, for messages: `a dataset`.
    pub name: &'static str,
    /// Whether such a directory may have a file of this name. Only these are removed.
    pub may_have: fn(&OsStr) -> bool,
    /// Checks that a directory is a complete one, or says why not.
    pub check: fn(&Path) -> Result<(), String>,
}
