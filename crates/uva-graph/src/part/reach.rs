//! The distance from each node within which a part is complete.

use super::closure::list;
use super::members::Members;
use crate::{Csc, Dataset};

/// For each node, the number of in-hops, up to `hops`, within which all lists are present. 0 means that the node's own
/// list is missing. Only `members`, which include all nodes in their lists, are examined; other nodes have 0.
///
/// A batch around a node is that of the whole graph if it has no more hops than this.
pub(super) fn whole_hops(
    csc: &Csc<'_>,
    members: &Members,
    hops: u8,
    has_list: impl Fn(usize) -> bool,
) -> Vec<u8> {
    let mut whole = vec![0; csc.nodes()];
    for hop in 1..=hops {
        // A value raised in this pass counts as before: it is at least `hop - 1` either way.
        for node in members.nodes().filter(|&node| has_list(node)) {
            if whole[node] + 1 == hop && list(csc, node).all(|neighbour| whole[neighbour] + 1 >= hop) {
                whole[node] = hop;
            }
        }
    }
    whole
}

/// The position of the first of `ids` around which a part of a dataset is not complete for batches of `hops` hops.
/// `None` if there is not such a node, or the dataset is not a part. Takes one byte per node.
///
/// # Panics
/// If an id is not a node, or `hops` exceeds 255.
pub fn first_cut(dataset: &Dataset, ids: &[i64], hops: usize) -> Option<usize> {
    dataset.part()?;
    let csc = dataset.csc();
    let hops = u8::try_from(hops).expect("no more hops than a batch has");
    let has_list = |node: usize| csc.degree(node) >= csc.whole_degree(node);
    let whole = whole_hops(&csc, &Members::of(csc.nodes(), |_| true), hops, has_list);
    ids.iter().position(|&id| whole[id as usize] < hops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Indices;

    #[test]
    fn a_batch_may_have_as_many_hops_as_the_part_is_whole_around_its_seeds() {
        // The path 0 ← 1 ← 2 ← 3 ← 4 and the isolated node 5.
        let (indptr, indices) = ([0, 1, 2, 3, 4, 4, 4], [1, 2, 3, 4]);
        let csc = Csc { indptr: &indptr, indices: Indices::I32(&indices), original_ids: None, degrees: None };
        let members = |last: usize| Members::of(6, move |node| node <= last);
        assert_eq!(whole_hops(&csc, &members(3), 3, |node| node < 3), [3, 2, 1, 0, 0, 0]);
        // Nothing is cut at the end of the whole graph.
        assert_eq!(whole_hops(&csc, &members(5), 2, |_| true), [2; 6]);
    }
}
