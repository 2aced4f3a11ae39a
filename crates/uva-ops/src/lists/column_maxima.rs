//! The largest value of each column over the rows of a list, by the loop of the weighted sums.
//!
//! [`maxima`](super::maxima) computes the same of gathered rows that layers train on, and their gradients.

use super::checked_lists::{Id, Lists, ListsError};
use super::row_selection::{IndexedRows, ListedRows};
use super::sums::{WeightedSums, Weights, folded};
use crate::Vectors;
use crate::rows::{CopyMethod, NarrowFloat, RowAddresses, RowKind, copy_rows};

/// Rows that are brought to the processor's cache at a time, if places of maxima are requested.
const AT_ONCE: usize = 16;

/// The place for an empty list, without a row.
const NO_ROW: i32 = -1;

/// The largest value of each column, for some lists, whose sizes have been checked.
///
/// It begins at −∞ and takes the rows in the order of the list: a value that is larger replaces it, and so does NaN,
/// which no number replaces. An empty list gives zeros. So the result is the same bit for bit with all vectors.
pub struct Largest<'a, I, R>(WeightedSums<'a, f32, I, R>);

impl<'a, I: Id, S: RowAddresses + Sync> Largest<'a, I, IndexedRows<'a, S>> {
    /// Creates the maxima of rows with `width` values.
    ///
    /// # Errors
    /// If the rows do not fit the lists.
    ///
    /// # Safety
    /// Each row of the source has `width` values.
    pub unsafe fn of_table(
        rows: IndexedRows<'a, S>,
        width: usize,
        lists: Lists<'a, I>,
    ) -> Result<Self, ListsError> {
        // SAFETY: by our caller.
        unsafe { WeightedSums::of_table(rows, width, lists, Weights::One) }.map(Self)
    }
}

impl<I: Id, R: ListedRows> Largest<'_, I, R> {
    /// Writes the rows of as many lists as `out` has rows, from `first`: for a caller that divides the lists itself.
    ///
    /// # Panics
    /// If there are not as many lists, or `out` is not whole rows.
    pub fn write_some(&self, first: usize, out: &mut [f32], vectors: Vectors) {
        // SAFETY: the loop writes nothing that is uninitialized.
        folded::<true, I, R>(&self.0, first, unsafe { self.0.room(first, out) }, vectors);
    }
}

impl<I: Id, S: RowAddresses + Sync> Largest<'_, I, IndexedRows<'_, S>> {
    /// Like [`write_some`](Self::write_some), and also writes the place of each value's row: the index in the list, -1
    /// for an empty one. Of equal values, and of NaNs, it is the first in the list's order. So of several NaNs the
    /// first is the value here.
    ///
    /// # Panics
    /// If there are not as many lists, or `out` is not whole rows, or `places` has not as many elements.
    pub fn write_some_with_places(
        &self,
        first: usize,
        out: &mut [f32],
        places: &mut [i32],
        vectors: Vectors,
    ) {
        let WeightedSums { rows: picked, width, lists, .. } = &self.0;
        let width = *width;
        let room = out.len().checked_div(width).unwrap_or(0);
        assert_eq!((out.len(), places.len()), (room * width, room * width), "whole rows, and as many places");
        assert!(first + room <= lists.len(), "lists from {first} to {}", first + room);
        if width == 0 {
            return;
        }
        let row_bytes = width * picked.narrow.map_or(size_of::<f32>(), NarrowFloat::bytes);
        let kind = RowKind { row_bytes, widened: picked.narrow };
        let way = CopyMethod { vectors, streamed: false, ahead: AT_ONCE };
        let mut rows = vec![0.0_f32; AT_ONCE * width];
        let mut ids = Vec::with_capacity(AT_ONCE);
        for ((v, out), places) in
            (first..).zip(out.chunks_exact_mut(width)).zip(places.chunks_exact_mut(width))
        {
            out.fill(0.0);
            places.fill(NO_ROW);
            for some in lists.indices()[lists.edges(v)].chunks(AT_ONCE) {
                ids.clear();
                ids.extend(some.iter().map(|index| picked.ids[index.place()]));
                let rows = &mut rows[..some.len() * width];
                let (start, bytes) = (rows.as_mut_ptr().cast::<u8>(), size_of_val(rows));
                // SAFETY: the same memory, borrowed as long, and any bytes are floats. By the promise of `IndexedRows::new`
                // every id is a row of the source, and by that of `of_table` a row has `width` values.
                unsafe {
                    copy_rows(way, picked.source, kind, &ids, std::slice::from_raw_parts_mut(start, bytes));
                }
                for (index, row) in some.iter().zip(rows.chunks_exact(width)) {
                    raise(vectors, out, places, row, index.place() as i32);
                }
            }
        }
    }
}

crate::vectorized! {
    fn raise(largest: &mut [f32], places: &mut [i32], row: &[f32], place: i32) {
        for ((largest, of), &value) in largest.iter_mut().zip(places.iter_mut()).zip(row) {
            // Without a branch, so that it becomes vectors.
            let is_first = *of == NO_ROW;
            let is_larger = (value > *largest) | (value.is_nan() & !largest.is_nan());
            *largest = if is_first | is_larger { value } else { *largest };
            *of = if is_first | is_larger { place } else { *of };
        }
    }
}
