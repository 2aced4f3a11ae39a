//! Lists from ordered edges, and transposed lists: for each row, the lists that contain it.

use super::checked_lists::{Id, Lists, ListsError};

/// The offsets of `count` lists, if `destinations`, the list of each edge, ascends; else `None`.
///
/// # Errors
/// If a list is out of range.
pub fn offsets<I: Id>(destinations: &[I], count: usize) -> Result<Option<Vec<I>>, ListsError> {
    if destinations.windows(2).fold(false, |falls, pair| falls | (pair[0].place() > pair[1].place())) {
        return Ok(None);
    }
    if destinations.last().is_some_and(|last| last.place() >= count) {
        return Err(ListsError::Index(count));
    }
    let mut offsets = Vec::with_capacity(count + 1);
    offsets.push(I::of(0));
    for (edge, destination) in destinations.iter().enumerate() {
        // All lists before this one have ended.
        offsets.resize(offsets.len().max(destination.place() + 1), I::of(edge));
    }
    offsets.resize(count + 1, I::of(destinations.len()));
    Ok(Some(offsets))
}

/// A counting sort of the edges by row. Returns the offsets of the rows' lists, and calls `put` for each edge with its
/// place in them, its list, and its index. Lists stay in order within a row, so that sums repeat.
///
/// The number of edges must fit an `I`, which holds if `I` counts them.
pub fn transpose<I: Id>(lists: &Lists<'_, I>, mut put: impl FnMut(usize, usize, usize)) -> Vec<I> {
    // Shifted by one place, so that filling the lists moves each offset to its own.
    let mut offsets = vec![I::of(0); lists.rows() + 2];
    for index in lists.indices() {
        let count = &mut offsets[index.place() + 2];
        *count = I::of(count.place() + 1);
    }
    for row in 0..lists.rows() {
        offsets[row + 2] = I::of(offsets[row + 2].place() + offsets[row + 1].place());
    }
    for v in 0..lists.len() {
        for edge in lists.edges(v) {
            let next = &mut offsets[lists.row(edge) + 1];
            put(next.place(), v, edge);
            *next = I::of(next.place() + 1);
        }
    }
    offsets.pop();
    offsets
}
