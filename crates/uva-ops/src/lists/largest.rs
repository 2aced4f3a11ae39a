//! The largest value of each column over the rows of a list, by the loop of the weighted sums.
//!
//! [`maxima`](super::maxima) computes the same of gathered rows that layers train on, and their gradients.

use super::checked::{Id, Lists, ListsError};
use super::listed::{ListedRows, Picked};
use super::sums::{WeightedSums, Weights, folded};
use crate::Vectors;
use crate::rows::Source;

/// The largest value of each column, for some lists, whose sizes have been checked.
///
/// It begins at −∞ and takes the rows in the order of the list: a value that is larger replaces it, and so does NaN,
/// which no number replaces. An empty list gives zeros. So the result is the same bit for bit with all vectors.
pub struct Largest<'a, I, R>(WeightedSums<'a, f32, I, R>);

impl<'a, I: Id, S: Source + Sync> Largest<'a, I, Picked<'a, S>> {
    /// `rows` are of `width` values.
    ///
    /// # Errors
    /// If the rows are not those of the lists.
    ///
    /// # Safety
    /// Each row of the source has `width` values.
    pub unsafe fn of_table(
        rows: Picked<'a, S>,
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
