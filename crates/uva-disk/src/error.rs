//! Errors of reading rows.

use std::path::PathBuf;

use crate::kind::ReaderKind;

/// Why a file could not be opened or read. Every message begins with the file's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// The file cannot be opened.
    #[error("{}: cannot open it: {reason}", file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// The system's error.
        reason: String,
    },
    /// The file is shorter than its table.
    #[error(
        "{}: it ends at byte {length}, and the table in it ends at byte {needed}: it is truncated",
        file.display()
    )]
    TooShort {
        /// The file.
        file: PathBuf,
        /// Its length in bytes.
        length: u64,
        /// The length that the table needs.
        needed: u64,
    },
    /// The requested reader is not available.
    #[error("{}: {reader} cannot read it: {reason}", file.display())]
    Refused {
        /// The file.
        file: PathBuf,
        /// The reader.
        reader: ReaderKind,
        /// The reason, and the remedy.
        reason: String,
    },
    /// A read failed.
    #[error("{}: cannot read {length} bytes at offset {offset}: {reason}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The offset of the read.
        offset: u64,
        /// Requested bytes.
        length: usize,
        /// The system's error.
        reason: String,
    },
    /// The file has changed since it was opened.
    #[error(
        "{}: it changed while it was read: {what}. Rows read before and after would not belong together: leave a dataset as \
         it is during a run, and start again",
        file.display()
    )]
    Changed {
        /// The file.
        file: PathBuf,
        /// The difference.
        what: String,
    },
}
