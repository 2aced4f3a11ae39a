//! Lists in which each holds its own row once.

use super::checked_lists::{Id, Lists};

/// Lists of their own, and where each edge comes from.
pub struct OwnedLists<I> {
    /// As long as those that they were made from.
    pub offsets: Vec<I>,
    /// The edges of each list that are not its own row, in their order, and then that row.
    pub indices: Vec<I>,
    /// The number of each edge in the lists before; for a list's own row the last of its edges that named it, or -1.
    pub origin: Vec<I>,
}

/// The lists with row v in list v just once, at its end, as long as there is such a row.
pub fn with_own<I: Id>(lists: &Lists<'_, I>) -> OwnedLists<I> {
    let most = lists.indices().len() + lists.len();
    let (mut indices, mut origin) = (Vec::with_capacity(most), Vec::with_capacity(most));
    let mut offsets = Vec::with_capacity(lists.len() + 1);
    offsets.push(I::of(0));
    let nowhere = I::of(usize::MAX);
    for v in 0..lists.len() {
        let mut own = nowhere;
        for edge in lists.edges(v) {
            if lists.row(edge) == v {
                own = I::of(edge);
            } else {
                indices.push(lists.indices()[edge]);
                origin.push(I::of(edge));
            }
        }
        if v < lists.rows() {
            indices.push(I::of(v));
            origin.push(own);
        }
        offsets.push(I::of(indices.len()));
    }
    OwnedLists { offsets, indices, origin }
}
