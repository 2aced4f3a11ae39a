//! Places in host memory, and the sources that a loop on the CPU can address.

use uva_ops::lists::{Lists, Weights};
use uva_ops::rows::NarrowFloat;

use crate::error::GatherError;
use crate::source::{Place, RowSource, RowsRead};
use crate::stack::SummedValues;

/// Host memory for the rows of a batch.
#[derive(Debug)]
pub struct HostPlace<'p> {
    /// Exactly `ids.len() * row_bytes()` bytes.
    pub out: &'p mut [u8],
    /// The maximum of the source's threads that copy, at least one: fewer for a producer that is ahead of its consumer.
    pub threads: usize,
}

impl<'p> HostPlace<'p> {
    /// Creates a place that is filled by all threads of a source.
    pub fn new(out: &'p mut [u8]) -> Self {
        Self { out, threads: usize::MAX }
    }
}

impl Place for HostPlace<'_> {
    type Error = GatherError;
}

/// The reduction of a list's rows to one row.
#[derive(Clone, Copy)]
pub enum Reduction<'p> {
    /// A weighted sum. It starts at zero, and each row is added, times its weight, by a fused multiply-add.
    Sum {
        /// The weight of each row.
        weights: Weights<'p, f32>,
        /// The weight of id `v`'s row in the sum of list `v`, which comes last; `None` without own rows.
        own: Option<&'p [f32]>,
    },
    /// The largest value of each column, or NaN if there is one ([`Largest`](uva_ops::lists::Largest)).
    Max,
}

/// Host memory for the sums of a batch, and their lists.
///
/// Lists name positions among the ids of a fill. List `v` takes the rows in its order, each widened to float32, by the
/// [`Reduction`]. So its row is the same, bit for bit, as that of gathered rows.
pub struct SumPlace<'p> {
    /// One row of float32 per list; zeros for an empty list.
    pub out: &'p mut [f32],
    /// Rows of the first ids, one per list, in the format set for the [`SummingSource`](crate::SummingSource); empty
    /// for none.
    pub own: &'p mut [u8],
    /// For each maximum in `out`, the place among the ids of its row; -1 for an empty list
    /// ([`Largest::write_some_with_places`](uva_ops::lists::Largest::write_some_with_places)). Empty for none.
    pub argmax: &'p mut [i32],
    /// The lists. There are no more of them than ids.
    pub lists: Lists<'p, i32>,
    /// The reduction of each list.
    pub reduction: Reduction<'p>,
    /// The maximum of the source's threads that work, at least one.
    pub threads: usize,
}

impl Place for SumPlace<'_> {
    type Error = GatherError;
}

/// A source of rows in host memory.
pub trait HostSource: for<'p> RowSource<HostPlace<'p>> {}

impl<S: for<'p> RowSource<HostPlace<'p>> + ?Sized> HostSource for S {}

/// A source of sums in host memory, and of the rows that it sums.
pub trait SumSource: for<'p> RowSource<SumPlace<'p>> {
    /// The pool of threads, for other work on a batch's sums; `None` if only the caller's thread is used.
    fn pool(&self) -> Option<&rayon::ThreadPool>;

    /// Fills the place with the rows themselves, in the format of the rows next to sums.
    ///
    /// # Errors
    /// As [`RowSource::submit`].
    fn fill_rows(&mut self, ids: &[i64], place: HostPlace<'_>) -> Result<RowsRead, GatherError>;
}

/// A table whose rows the CPU itself reads, from memory or disk. It copies, widens or sums them.
pub trait HostTable {
    /// Bytes of a row in the table.
    fn table_row_bytes(&self) -> usize;

    /// The pool of threads; `None` if only the caller's thread is used.
    fn pool(&self) -> Option<&rayon::ThreadPool>;

    /// Copies the rows, widened from `widened` if given.
    ///
    /// # Errors
    /// As [`RowSource::submit`].
    fn copy_to(
        &mut self,
        ids: &[i64],
        place: HostPlace<'_>,
        widened: Option<NarrowFloat>,
    ) -> Result<RowsRead, GatherError>;

    /// Sums the rows by the place's lists, and copies the rows that it requests.
    ///
    /// # Errors
    /// As [`RowSource::submit`]; [`GatherError::Lists`].
    fn sum_to(
        &mut self,
        ids: &[i64],
        place: SumPlace<'_>,
        values: SummedValues,
    ) -> Result<RowsRead, GatherError>;
}

// Not for any boxed table, since another crate could then implement a conflicting trait for its own boxed table.
impl HostTable for Box<dyn TableSource + '_> {
    fn table_row_bytes(&self) -> usize {
        (**self).table_row_bytes()
    }

    fn pool(&self) -> Option<&rayon::ThreadPool> {
        (**self).pool()
    }

    fn copy_to(
        &mut self,
        ids: &[i64],
        place: HostPlace<'_>,
        widened: Option<NarrowFloat>,
    ) -> Result<RowsRead, GatherError> {
        (**self).copy_to(ids, place, widened)
    }

    fn sum_to(
        &mut self,
        ids: &[i64],
        place: SumPlace<'_>,
        values: SummedValues,
    ) -> Result<RowsRead, GatherError> {
        (**self).sum_to(ids, place, values)
    }
}

/// A table with both uses: unchanged rows, and widened or summed rows.
pub trait TableSource: HostTable + HostSource {}

impl<S: HostTable + HostSource + ?Sized> TableSource for S {}
