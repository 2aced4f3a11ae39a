//! The writing half of a loop over rows.

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// A sink that writes rows contiguously to an output.
pub(super) trait RowSink {
    /// Writes the next row.
    ///
    /// # Safety
    /// `from` is a row of the table. The output has space for one more.
    unsafe fn row(&mut self, from: *const u8);

    /// Flushes the held bytes. Until then the output is incomplete.
    ///
    /// # Safety
    /// Every row was a row of the table, and the output had space for it.
    unsafe fn end(self);
}
