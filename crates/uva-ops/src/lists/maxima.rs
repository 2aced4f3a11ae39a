//! The largest number of each column over the rows of a list, and its gradient.

use super::checked_lists::{Id, Lists, ListsError};
use super::sums::SumElement;
use super::tasks::by_list;
use crate::Vectors;
use rayon::ThreadPool;

crate::vectorized! {
    fn raise<T: SumElement>(largest: &mut [T], row: &[T]) {
        for (largest, &element) in largest.iter_mut().zip(row) {
            *largest = if element > *largest { element } else { *largest };
        }
    }
}

crate::vectorized! {
    fn count_equal<T: SumElement>(counts: &mut [T], row: &[T], largest: &[T]) {
        for ((count, &element), &largest) in counts.iter_mut().zip(row).zip(largest) {
            let one = if element == largest { T::from_f64(1.0) } else { T::from_f64(0.0) };
            *count = *count + one;
        }
    }
}

crate::vectorized! {
    fn add_where_equal<T: SumElement>(sums: &mut [T], row: &[T], largest: &[T], share: &[T]) {
        for (((sum, &element), &largest), &share) in sums.iter_mut().zip(row).zip(largest).zip(share) {
            let own = if element == largest { share } else { T::from_f64(0.0) };
            *sum = *sum + own;
        }
    }
}

/// One row of `width` elements per list: the largest of each column, and zeros for an empty list.
///
/// # Errors
/// If sizes do not fit together.
pub fn maxima<T: SumElement, I: Id>(
    lists: &Lists<'_, I>,
    rows: &[T],
    width: usize,
    out: &mut [T],
    pool: Option<&ThreadPool>,
) -> Result<(), ListsError> {
    lists.check_table(rows.len(), lists.rows(), width)?;
    lists.check_table(out.len(), lists.len(), width)?;
    let vectors = Vectors::widest();
    by_list(out, width, (lists.indices().len() + lists.len()) * width, pool, |first, out| {
        for (v, out) in (first..).zip(out.chunks_exact_mut(width.max(1))) {
            let mut rows = lists.edges(v).map(|edge| &rows[lists.row(edge) * width..][..width]);
            match rows.next() {
                Some(row) => out.copy_from_slice(row),
                None => out.fill(T::from_f64(0.0)),
            }
            rows.for_each(|row| raise(vectors, out, row));
        }
    });
    Ok(())
}

/// The gradient of each maximum, divided equally between the edges whose element it is: one row per list.
///
/// # Errors
/// If sizes do not fit together.
pub fn shares<T: SumElement, I: Id>(
    lists: &Lists<'_, I>,
    (rows, maxima, gradient): (&[T], &[T], &[T]),
    width: usize,
    out: &mut [T],
    pool: Option<&ThreadPool>,
) -> Result<(), ListsError> {
    lists.check_table(rows.len(), lists.rows(), width)?;
    for table in [maxima.len(), gradient.len(), out.len()] {
        lists.check_table(table, lists.len(), width)?;
    }
    let vectors = Vectors::widest();
    by_list(out, width, (lists.indices().len() + lists.len()) * width, pool, |first, out| {
        for (v, out) in (first..).zip(out.chunks_exact_mut(width.max(1))) {
            let of_list = v * width..(v + 1) * width;
            out.fill(T::from_f64(0.0));
            for edge in lists.edges(v) {
                count_equal(
                    vectors,
                    out,
                    &rows[lists.row(edge) * width..][..width],
                    &maxima[of_list.clone()],
                );
            }
            for (out, &gradient) in out.iter_mut().zip(&gradient[of_list]) {
                // The share of an empty list is unused.
                *out = if *out > T::from_f64(0.0) { gradient / *out } else { T::from_f64(0.0) };
            }
        }
    });
    Ok(())
}

/// The gradient of the rows: `picked_by` are the [transposed](super::transpose) lists, whose list u has the lists that
/// contain row u, and `shares` is the result of [`shares`].
///
/// # Errors
/// If sizes do not fit together.
pub fn spread<T: SumElement, I: Id>(
    picked_by: &Lists<'_, I>,
    (rows, maxima, shares): (&[T], &[T], &[T]),
    width: usize,
    out: &mut [T],
    pool: Option<&ThreadPool>,
) -> Result<(), ListsError> {
    picked_by.check_table(maxima.len(), picked_by.rows(), width)?;
    picked_by.check_table(shares.len(), picked_by.rows(), width)?;
    picked_by.check_table(rows.len(), picked_by.len(), width)?;
    picked_by.check_table(out.len(), picked_by.len(), width)?;
    let vectors = Vectors::widest();
    by_list(out, width, (picked_by.indices().len() + picked_by.len()) * width, pool, |first, out| {
        for (u, out) in (first..).zip(out.chunks_exact_mut(width.max(1))) {
            out.fill(T::from_f64(0.0));
            for edge in picked_by.edges(u) {
                let of_list = picked_by.row(edge) * width..(picked_by.row(edge) + 1) * width;
                let row = &rows[u * width..][..width];
                add_where_equal(vectors, out, row, &maxima[of_list.clone()], &shares[of_list]);
            }
        }
    });
    Ok(())
}
