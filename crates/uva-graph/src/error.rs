//! Errors, grouped by what a user can do to fix them.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use uva_files::FileError;

/// Why a dataset could not be opened or written. Its display is one line with the file, the place and the value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The system refused to open, read or write a file.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The attempted action, as a verb: `open`, `write`, …
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A file's content is wrong: the file must be rewritten or corrected.
    #[error("{}: {problem}", file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// The fault, with offset and value.
        problem: Problem,
    },
    /// An option or an argument is wrong.
    #[error("{}: {message}", marked(option))]
    Usage {
        /// The option's name with underscores, with its value where that is at fault (`count=blocks`), or the argument.
        option: String,
        /// The fault, and valid alternatives.
        message: String,
    },
    /// The machine lacks a required resource, such as disk space. Nothing has been written.
    #[error("{}: {message}", path.display())]
    Lacking {
        /// The path that requires the resource.
        path: PathBuf,
        /// The required amount, the available amount, and the remedy.
        message: String,
    },
}

impl GraphError {
    /// Whether the input or an option is at fault, not the system: a command then exits with code 2. A missing file
    /// counts as bad input, and so does a name that does not refer to a file.
    pub fn is_bad_input(&self) -> bool {
        match self {
            GraphError::Io { source, .. } => uva_mem::files::is_about_the_name(source),
            GraphError::Invalid { .. } | GraphError::Usage { .. } => true,
            GraphError::Lacking { .. } => false,
        }
    }

    /// The file or directory concerned.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Io { path, .. } | Self::Invalid { file: path, .. } | Self::Lacking { path, .. } => {
                Some(path)
            }
            Self::Usage { .. } => None,
        }
    }

    /// The option or argument to change, with underscores: `feat_dim`.
    #[must_use]
    pub fn field(&self) -> Option<String> {
        match self {
            Self::Usage { option, .. } => {
                let name = option.split([' ', ',', '=']).next().unwrap_or(option);
                Some(name.trim_matches('`').to_owned())
            }
            _ => None,
        }
    }

    /// The error about `action` on `path`, for `map_err`.
    pub fn io<'p>(path: &'p Path, action: &'static str) -> impl FnOnce(io::Error) -> GraphError + use<'p> {
        move |source| GraphError::Io { path: path.to_owned(), action, source }
    }

    /// The error about the content of `file`.
    pub fn invalid(file: &Path, problem: impl std::error::Error + Send + Sync + 'static) -> GraphError {
        GraphError::Invalid { file: file.to_owned(), problem: Problem(Box::new(problem)) }
    }

    /// The error about an option or an argument.
    pub fn usage(option: impl Into<String>, message: impl Into<String>) -> GraphError {
        GraphError::Usage { option: option.into(), message: message.into() }
    }
}

impl From<FileError> for GraphError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Io { path, action, source } => Self::Io { path, action, source },
            FileError::Usage { option, message } => Self::usage(option, message),
            FileError::Lacking { path, message } => Self::Lacking { path, message },
        }
    }
}

/// An option in a message: in backticks, so that a front end can render its spelling.
fn marked(option: &str) -> Cow<'_, str> {
    if is_an_option(option) { format!("`{option}`").into() } else { option.into() }
}

/// Whether this is an option's name, or one with a value. Arguments (`OUT`), files and sentences are not.
fn is_an_option(text: &str) -> bool {
    let name = text.split_once('=').map_or(text, |(name, _)| name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// A fault in a file. The wrapped enums are private to this crate and may change; the text is for human readers.
#[derive(Debug)]
pub struct Problem(Box<dyn std::error::Error + Send + Sync>);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
