//! Why rows could not be read.

use std::path::PathBuf;

use crate::kind::ReaderKind;

/// Why a file could not be opened or read. Every message begins with the file's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// It cannot be opened.
    #[error("{}: cannot open it: {reason}", file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// It is shorter than the table that should be in it.
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
    /// The reader that was asked for does not work here.
    #[error("{}: {reader} cannot read it: {reason}", file.display())]
    Refused {
        /// The file.
        file: PathBuf,
        /// The reader.
        reader: ReaderKind,
        /// Why, and what to do.
        reason: String,
    },
    /// A read failed.
    #[error("{}: cannot read {length} bytes at offset {offset}: {reason}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Where the read begins.
        offset: u64,
        /// Bytes that it asks for.
        length: usize,
        /// What the system said.
        reason: String,
    },
    /// The file is no longer what it was when it was opened.
    #[error(
        "{}: it changed while it was read: {what}. Rows read before and after would not belong together: leave a dataset as \
         it is during a run, and start again",
        file.display()
    )]
    Changed {
        /// The file.
        file: PathBuf,
        /// What is different.
        what: String,
    },
}
