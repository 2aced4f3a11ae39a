//! Errors of writing, grouped by what a user can do to fix them.

use std::io;
use std::path::{Path, PathBuf};

/// Why a file or directory could not be written. Its display is one line with the path or the argument.
///
/// Exhaustive: the errors of dependent crates wrap each variant.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A file could not be opened, read or written.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The attempted action, as a verb: `open`, `write`, …
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// An argument is wrong.
    #[error("{option}: {message}")]
    Usage {
        /// The argument.
        option: &'static str,
        /// The fault, and valid alternatives.
        message: String,
    },
    /// The machine lacks disk space. Nothing has been written.
    #[error("{}: {message}", path.display())]
    Lacking {
        /// The path that requires the space.
        path: PathBuf,
        /// The required amount, the available amount, and the remedy.
        message: String,
    },
}

impl FileError {
    /// The error about `action` on `path`, for `map_err`.
    pub(crate) fn io<'p>(path: &'p Path, action: &'static str) -> impl FnOnce(io::Error) -> Self + use<'p> {
        move |source| Self::Io { path: path.to_owned(), action, source }
    }

    /// The error about the argument `OUT`.
    pub(crate) fn out(message: String) -> Self {
        Self::Usage { option: "OUT", message }
    }
}
