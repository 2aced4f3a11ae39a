//! The writing half of a loop over rows.

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Writes rows one after another to an output.
pub(super) trait RowSink {
    /// Takes the next row.
    ///
    /// # Safety
    /// `from` is a row of the table. The output has room for one more.
    unsafe fn row(&mut self, from: *const u8);

    /// Flushes the held bytes. Until then the output is incomplete.
    ///
    /// # Safety
    /// Every row was one of the table's, and the output had room for it.
    unsafe fn end(self);
}
