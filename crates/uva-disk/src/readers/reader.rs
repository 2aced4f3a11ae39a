//! The contract of every reader.

use crate::error::DiskError;
use crate::extent::Extent;
use crate::kind::ReaderKind;

/// A reader of ranges of several files in parallel.
pub trait RangeReader: Send {
    /// The kind of the reader.
    fn kind(&self) -> ReaderKind;

    /// A description of the reader: whether it bypasses the page cache, and the maximum number of reads in flight.
    fn how(&self) -> String;

    /// The alignment of offsets and lengths of [`Extent`]s: a power of two.
    fn alignment(&self) -> usize;

    /// Reads every extent, in any order, and passes the [`needed`](Extent::needed) bytes of each to `deliver` once,
    /// with the extent's index.
    ///
    /// # Errors
    /// The error of the first failed read. No read is in flight then, and other extents may have been delivered.
    ///
    /// # Panics
    /// If an extent is longer than the reader supports.
    fn read(&mut self, extents: &[Extent], deliver: &mut dyn FnMut(usize, &[u8])) -> Result<(), DiskError>;
}
