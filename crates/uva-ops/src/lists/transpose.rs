//! Lists turned round: for each row, which lists name it.

use super::checked::{Id, Lists};

/// A counting sort of the edges by row. Gives the offsets of the rows' lists, and tells `put` of each edge: its place in
/// them, the list that holds it, and its number. Lists stay in order within a row, so that sums repeat.
///
/// The number of edges has to fit an `I`, as it does where `I` counts them.
pub fn transpose<I: Id>(lists: &Lists<'_, I>, mut put: impl FnMut(usize, usize, usize)) -> Vec<I> {
    // One place further than where they belong, so that filling the lists moves each offset to its own.
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
