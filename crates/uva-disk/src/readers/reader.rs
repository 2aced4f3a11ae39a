//! The contract of every reader.

use crate::error::DiskError;
use crate::extent::Extent;
use crate::kind::ReaderKind;

/// Reads ranges of files, of several side by side.
pub trait RangeReader: Send {
    /// Which reader it is.
    fn kind(&self) -> ReaderKind;

    /// How it reads, for people: whether past the page cache, and how many reads are under way at most.
    fn how(&self) -> String;

    /// What offsets and lengths of [`Extent`]s are multiples of: a power of two.
    fn alignment(&self) -> usize;

    /// Reads every extent, in any order, and hands the [`needed`](Extent::needed) bytes of each to `deliver`, with the
    /// extent's index, once.
    ///
    /// # Errors
    /// The first read that failed. Nothing is under way any more then, and other extents may have been delivered.
    ///
    /// # Panics
    /// For an extent that is longer than the reader was made for.
    fn read(&mut self, extents: &[Extent], deliver: &mut dyn FnMut(usize, &[u8])) -> Result<(), DiskError>;
}
