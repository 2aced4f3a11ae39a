//! The kinds of readers.

use std::fmt;

/// The method of reading bytes from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderKind {
    /// io_uring with `O_DIRECT`.
    Uring,
    /// `pread` by several threads.
    Pread,
    /// A mapped file.
    Mmap,
}

impl ReaderKind {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::Uring, Self::Pread, Self::Mmap];

    /// The name in options and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uring => "uring",
            Self::Pread => "pread",
            Self::Mmap => "mmap",
        }
    }
}

impl fmt::Display for ReaderKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
