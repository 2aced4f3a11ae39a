//! Rows in host memory: the place, and the sources that a loop on the CPU can address.

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
    /// The maximum of the source's threads that copy, at least one: for a producer that is ahead of its consumer.
    pub threads: usize,
}

impl<'p> HostPlace<'p> {
    /// Filled by all threads of a source.
    pub fn new(out: &'p mut [u8]) -> Self {
        Self { out, threads: usize::MAX }
    }
}

impl Place for HostPlace<'_> {
    type Error = GatherError;
}

/// How the rows of a list become one.
#[derive(Clone, Copy)]
pub enum Reduction<'p> {
    /// By their weighted sum. It starts at zero, and each row is added, times its weight, by a fused multiply-add.
    Sum {
        /// What each row is multiplied by.
        weights: Weights<'p, f32>,
        /// The weight of id `v`'s row in the sum of list `v`, where it comes last.
        own: Option<&'p [f32]>,
    },
    /// By the largest value of each column, or NaN where there is one ([`Largest`](uva_ops::lists::Largest)).
    Max,
}

/// Host memory for the sums of a batch, and the lists that they are of.
///
/// Lists name positions among the ids of a fill. List `v` takes the rows in its order, each widened to float32, by the
/// [`Reduction`]. So its row is the same, bit for bit, as that of gathered rows.
pub struct SumPlace<'p> {
    /// One row of float32 a list; for an empty list zeros.
    pub out: &'p mut [f32],
    /// Besides, rows of some ids, as the [`SummingSource`](crate::SummingSource) is set up; empty for none. They are
    /// those of the first ids, one a list.
    pub own: &'p mut [u8],
    /// Of maxima, the place among the ids of the row that each is of, as many as `out` has; -1 for an empty list
    /// ([`Largest::write_some_with_places`](uva_ops::lists::Largest::write_some_with_places)). Empty for none.
    pub argmax: &'p mut [i32],
    /// The lists. There are no more of them than ids.
    pub lists: Lists<'p, i32>,
    /// What becomes of a list's rows.
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
    /// Its threads, for what else a batch's sums take; `None` for one, which is the caller's.
    fn pool(&self) -> Option<&rayon::ThreadPool>;

    /// Fills the place with the rows themselves, delivered as the rows beside sums are.
    ///
    /// # Errors
    /// As [`RowSource::submit`].
    fn fill_rows(&mut self, ids: &[i64], place: HostPlace<'_>) -> Result<RowsRead, GatherError>;
}

/// A table whose rows the CPU itself brings, in memory or from disk: it copies them, widens them on the way, or sums them.
pub trait HostTable {
    /// Bytes of a row in the table.
    fn table_row_bytes(&self) -> usize;

    /// Its threads; `None` for one, which is the caller's.
    fn pool(&self) -> Option<&rayon::ThreadPool>;

    /// Copies the rows, widened from `widened` where that is given.
    ///
    /// # Errors
    /// As [`RowSource::submit`].
    fn copy_to(
        &mut self,
        ids: &[i64],
        place: HostPlace<'_>,
        widened: Option<NarrowFloat>,
    ) -> Result<RowsRead, GatherError>;

    /// Sums the rows by the place's lists, and copies those that it asks for besides.
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

// Not of any boxed table: another crate could then make a boxed table of its own a file, and so a table twice.
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

/// A table in either use: its rows as they are, and widened or summed.
pub trait TableSource: HostTable + HostSource {}

impl<S: HostTable + HostSource + ?Sized> TableSource for S {}
