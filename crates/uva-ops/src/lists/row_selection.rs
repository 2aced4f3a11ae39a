//! The rows of lists: a slice of elements, or rows of a table selected by id.

use crate::rows::{NarrowFloat, RowAddresses};

/// The rows of lists, by their places.
///
/// # Safety
/// Loops read all values of a row at [`row`](Self::row) without further checks. An implementation keeps that memory
/// readable while it is borrowed.
pub unsafe trait ListedRows: Copy + Sync {
    /// Whether rows are scattered over more memory than fits in caches, so that loops prefetch all of each.
    const SCATTERED: bool;

    /// The type of the values; `None` for that of the sums.
    fn narrow(self) -> Option<NarrowFloat>;

    /// The address of the row at this place. Its values need not be aligned.
    ///
    /// # Safety
    /// The place exists.
    unsafe fn row(self, place: usize) -> *const u8;

    /// Prefetches the row that [`row`](Self::row) returns.
    ///
    /// # Safety
    /// The place exists.
    unsafe fn expect(self, place: usize);
}

/// Contiguous rows.
#[derive(Clone, Copy)]
pub struct Dense<'a, T> {
    pub(super) rows: &'a [T],
    pub(super) width: usize,
}

// SAFETY: a place is that of a row of the slice, by the caller's promise, and the slice is borrowed.
unsafe impl<T: Copy + Sync> ListedRows for Dense<'_, T> {
    const SCATTERED: bool = false;

    fn narrow(self) -> Option<NarrowFloat> {
        None
    }

    #[inline(always)]
    unsafe fn row(self, place: usize) -> *const u8 {
        self.rows.as_ptr().wrapping_add(place * self.width).cast()
    }

    #[inline(always)]
    unsafe fn expect(self, _: usize) {}
}

/// Rows of a table, or of a cache of the table: place `i` is that of row `ids[i]`.
#[derive(Clone, Copy)]
pub struct IndexedRows<'a, S> {
    pub(super) source: S,
    pub(super) ids: &'a [i64],
    pub(super) narrow: Option<NarrowFloat>,
}

impl<'a, S: RowAddresses> IndexedRows<'a, S> {
    /// Rows of the source, whose values are of the type `narrow`, or float32.
    ///
    /// # Safety
    /// Every id is a row of the source.
    pub unsafe fn new(source: S, ids: &'a [i64], narrow: Option<NarrowFloat>) -> Self {
        Self { source, ids, narrow }
    }
}

// SAFETY: by the promise of `new`, every id is a row of the source, which borrows its memory.
unsafe impl<S: RowAddresses + Sync> ListedRows for IndexedRows<'_, S> {
    const SCATTERED: bool = true;

    fn narrow(self) -> Option<NarrowFloat> {
        self.narrow
    }

    #[inline(always)]
    unsafe fn row(self, place: usize) -> *const u8 {
        // SAFETY: by our caller there is such a place, and by the promise of `new` its id is a row.
        unsafe { self.source.row(*self.ids.get_unchecked(place)).0 }
    }

    #[inline(always)]
    unsafe fn expect(self, place: usize) {
        // SAFETY: by our caller.
        self.source.expect(unsafe { *self.ids.get_unchecked(place) });
    }
}
