//! Lists that contain their own row exactly once.

use super::checked_lists::{Id, Lists};

/// Owned lists, and the origin of each edge.
pub struct OwnedLists<I> {
    /// The offsets, as many as in the source lists.
    pub offsets: Vec<I>,
    /// The edges of each list that are not its own row, in their order, and then that row.
    pub indices: Vec<I>,
    /// The index of each edge in the source lists; for a list's own row, the last edge to it, or -1.
    pub origin: Vec<I>,
}

/// The lists with row v in list v exactly once, at its end, if there is such a row.
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
