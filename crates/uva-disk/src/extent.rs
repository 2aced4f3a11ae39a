//! Ranges of files.

/// Bytes to be read in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Which of the reader's files, in the order in which it was given them.
    pub file: usize,
    /// Where it begins in the file: a multiple of the reader's [`alignment`](crate::RangeReader::alignment).
    pub offset: u64,
    /// Bytes asked for: a multiple of the alignment. They may reach beyond the file's end.
    pub length: usize,
    /// How many of the first bytes have to be there, at least one; the others only fill up the last block.
    pub needed: usize,
}
