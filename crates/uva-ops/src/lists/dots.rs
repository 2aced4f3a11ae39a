//! Products of rows for each edge: the gradient of the weights of a sum.

use super::checked_lists::{Id, Lists, ListsError};
use super::sums::SumElement;
use super::tasks::by_edge;
use crate::Vectors;
use rayon::ThreadPool;

/// For each edge and head, the scalar product of the row that it names with row v of `others`, v being its list. `rows`
/// and `others` have `width` elements per row, `heads` parts of equal length; `out` gets `heads` numbers per edge.
///
/// # Errors
/// If sizes do not fit together.
pub fn dots<T: SumElement, I: Id>(
    lists: &Lists<'_, I>,
    (rows, others): (&[T], &[T]),
    (width, heads): (usize, usize),
    out: &mut [T],
    pool: Option<&ThreadPool>,
) -> Result<(), ListsError> {
    if heads == 0 || !width.is_multiple_of(heads) {
        return Err(ListsError::Heads { width, heads });
    }
    let edges = lists.indices().len();
    lists.check_table(rows.len(), lists.rows(), width)?;
    lists.check_table(others.len(), lists.len(), width)?;
    lists.check_table(out.len(), edges, heads)?;
    let (part, vectors) = (width / heads, Vectors::widest());
    by_edge(lists, out, heads, edges * width, pool, |of, out| {
        let mut out = out.iter_mut();
        for v in of {
            for edge in lists.edges(v) {
                let row = &rows[lists.row(edge) * width..][..width];
                let other = &others[v * width..][..width];
                for (head, out) in (0..heads).zip(&mut out) {
                    let columns = head * part..(head + 1) * part;
                    *out = T::dot(vectors, &row[columns.clone()], &other[columns]);
                }
            }
        }
    });
    Ok(())
}
