//! Ranges of files.

/// A range of a file that is read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The index of the file among the reader's files.
    pub file: usize,
    /// The offset in the file: a multiple of the reader's [`alignment`](crate::RangeReader::alignment).
    pub offset: u64,
    /// Requested bytes: a multiple of the alignment. May extend beyond the file's end.
    pub length: usize,
    /// The number of required bytes from the start, at least one; the rest only fills the last block.
    pub needed: usize,
}
