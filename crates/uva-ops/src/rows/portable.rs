//! Rows copied by the standard library, and widened value by value: for any machine, and as the reference for the
//! others.

use super::sink::RowSink;
use super::widening::NarrowFloat;

/// A sink of unchanged rows.
pub(super) struct Copied {
    /// The address of the next row.
    to: *mut u8,
    row_bytes: usize,
}

impl Copied {
    pub fn new(out: &mut [u8], row_bytes: usize) -> Self {
        Self { to: out.as_mut_ptr(), row_bytes }
    }
}

impl RowSink for Copied {
    #[inline(always)]
    unsafe fn row(&mut self, from: *const u8) {
        // SAFETY: `from` is a row of the table, and one more fits into the output, by our caller's promise; the output
        // is exclusively borrowed, so they do not overlap. After the last row `to` is one past the end.
        unsafe {
            std::ptr::copy_nonoverlapping(from, self.to, self.row_bytes);
            self.to = self.to.add(self.row_bytes);
        }
    }

    #[inline(always)]
    unsafe fn end(self) {}
}

/// Rows of narrow values as float32.
pub(super) struct WideningSink {
    /// The address of the next row.
    to: *mut u8,
    values: usize,
    from: NarrowFloat,
}

impl WideningSink {
    pub fn new(out: &mut [u8], values: usize, from: NarrowFloat) -> Self {
        Self { to: out.as_mut_ptr(), values, from }
    }
}

impl RowSink for WideningSink {
    #[inline(always)]
    unsafe fn row(&mut self, from: *const u8) {
        // SAFETY: by our caller's promise, `from` is a row of that many values, and as many float32 fit into the
        // output.
        unsafe {
            widen(self.from, from, self.to, self.values);
            self.to = self.to.add(self.values * NarrowFloat::WIDENED_BYTES);
        }
    }

    #[inline(always)]
    unsafe fn end(self) {}
}

/// Widens `values` values at `from` to `to`, neither of them aligned.
///
/// # Safety
/// `from` can be read and `to` written for `values` values, and they do not overlap.
pub(super) unsafe fn widen(narrow: NarrowFloat, from: *const u8, to: *mut u8, values: usize) {
    for value in 0..values {
        // SAFETY: by our caller's promise.
        unsafe {
            let widened = narrow.widened_at(from.add(value * narrow.bytes()));
            to.add(value * NarrowFloat::WIDENED_BYTES).cast::<u32>().write_unaligned(widened);
        }
    }
}
