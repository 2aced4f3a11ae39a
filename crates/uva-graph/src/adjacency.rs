//! Edges turned into compressed sparse columns, with the changes that importers offer on the way.
//!
//! Everything is held in memory: 16 bytes an edge for the pairs, 8 for the lists, 16 a node.

use rayon::prelude::*;

use crate::import::SelfLoops;

/// Lists that one task sorts.
const NODES_PER_TASK: usize = 4096;

/// What to change about the edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Give every edge its other direction.
    pub(crate) symmetrise: bool,
    /// Keep one of edges with equal ends.
    pub(crate) deduplicate: bool,
    pub(crate) self_loops: SelfLoops,
}

impl Changes {
    /// Whether the lists stay as they are.
    pub(crate) fn is_none(self) -> bool {
        !self.symmetrise && !self.deduplicate && self.self_loops == SelfLoops::Keep
    }
}

/// The lists of all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lists {
    /// `nodes + 1` entries.
    pub(crate) indptr: Vec<i64>,
    pub(crate) indices: Vec<i64>,
    /// Which of the given edges each entry was; only where nothing was changed.
    pub(crate) edge_order: Option<Vec<u64>>,
}

/// Sorts edges by destination (a counting sort, so that edges of one destination keep their order), and applies
/// `changes`. After `symmetrise` or `deduplicate` each list ascends. `edges` are (source, destination) pairs of ids below
/// `nodes`; `order_wanted` asks for [`Lists::edge_order`].
pub(crate) fn lists(nodes: usize, mut edges: Vec<(i64, i64)>, changes: Changes, order_wanted: bool) -> Lists {
    if changes.symmetrise {
        let given = edges.len();
        edges.reserve(given);
        // A self-loop is its own other direction.
        for edge in 0..given {
            let (source, destination) = edges[edge];
            if source != destination {
                edges.push((destination, source));
            }
        }
    }
    if changes.self_loops != SelfLoops::Keep {
        edges.retain(|(source, destination)| source != destination);
    }
    if changes.self_loops == SelfLoops::Add {
        edges.extend((0..nodes as i64).map(|node| (node, node)));
    }

    let mut indptr = vec![0_i64; nodes + 1];
    for &(_, destination) in &edges {
        indptr[destination as usize + 1] += 1;
    }
    for node in 0..nodes {
        indptr[node + 1] += indptr[node];
    }
    let mut next = indptr.clone();
    let mut indices = vec![0_i64; edges.len()];
    let mut edge_order = (order_wanted && changes.is_none()).then(|| vec![0_u64; edges.len()]);
    for (edge, &(source, destination)) in edges.iter().enumerate() {
        let place = &mut next[destination as usize];
        indices[*place as usize] = source;
        if let Some(order) = &mut edge_order {
            order[*place as usize] = edge as u64;
        }
        *place += 1;
    }
    drop((edges, next));

    if changes.symmetrise || changes.deduplicate {
        for_each_list(&indptr, &mut indices, <[i64]>::sort_unstable);
    }
    if changes.deduplicate {
        deduplicate(&mut indptr, &mut indices);
    }
    Lists { indptr, indices, edge_order }
}

/// Calls `work` on every list, in parallel.
fn for_each_list(indptr: &[i64], indices: &mut [i64], work: impl Fn(&mut [i64]) + Sync) {
    let mut tasks = Vec::new();
    let mut rest = indices;
    for ends in indptr.windows(NODES_PER_TASK + 1).step_by(NODES_PER_TASK).chain(last_windows(indptr)) {
        let (lists, after) = rest.split_at_mut((ends[ends.len() - 1] - ends[0]) as usize);
        rest = after;
        tasks.push((ends, lists));
    }
    tasks.into_par_iter().for_each(|(ends, mut lists)| {
        for pair in ends.windows(2) {
            let (list, after) = lists.split_at_mut((pair[1] - pair[0]) as usize);
            lists = after;
            work(list);
        }
    });
}

/// The window that [`for_each_list`]'s full ones leave over.
fn last_windows(indptr: &[i64]) -> impl Iterator<Item = &[i64]> {
    let nodes = indptr.len() - 1;
    let done = nodes / NODES_PER_TASK * NODES_PER_TASK;
    (done < nodes).then(|| &indptr[done..]).into_iter()
}

/// Keeps the first of equal neighbours in each list, which ascends.
fn deduplicate(indptr: &mut [i64], indices: &mut Vec<i64>) {
    let mut kept = 0;
    let mut start = 0;
    for end in indptr.iter_mut().skip(1) {
        let list_start = kept;
        for position in start..*end as usize {
            if kept == list_start || indices[kept - 1] != indices[position] {
                indices[kept] = indices[position];
                kept += 1;
            }
        }
        start = *end as usize;
        *end = kept as i64;
    }
    indices.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNCHANGED: Changes = Changes { symmetrise: false, deduplicate: false, self_loops: SelfLoops::Keep };

    fn edges() -> Vec<(i64, i64)> {
        vec![(3, 0), (1, 0), (3, 0), (2, 2), (0, 1), (4, 2)]
    }

    fn list(lists: &Lists, node: usize) -> &[i64] {
        &lists.indices[lists.indptr[node] as usize..lists.indptr[node + 1] as usize]
    }

    #[test]
    fn unchanged_edges_keep_their_order_in_each_list() {
        let lists = lists(5, edges(), UNCHANGED, true);
        assert_eq!(lists.indptr, [0, 3, 4, 6, 6, 6]);
        assert_eq!(list(&lists, 0), [3, 1, 3]);
        assert_eq!(list(&lists, 2), [2, 4]);
        assert_eq!(lists.edge_order.unwrap(), [0, 1, 2, 4, 3, 5]);
    }

    #[test]
    fn deduplication_sorts_and_keeps_one_of_each() {
        let lists = lists(5, edges(), Changes { deduplicate: true, ..UNCHANGED }, true);
        assert_eq!(list(&lists, 0), [1, 3]);
        assert_eq!(list(&lists, 1), [0]);
        assert_eq!(list(&lists, 2), [2, 4]);
        assert_eq!(lists.indptr, [0, 2, 3, 5, 5, 5]);
        assert_eq!(lists.edge_order, None);
    }

    #[test]
    fn symmetrising_adds_the_other_direction_but_no_second_self_loop() {
        let lists = lists(5, edges(), Changes { symmetrise: true, ..UNCHANGED }, false);
        assert_eq!(list(&lists, 0), [1, 1, 3, 3]);
        assert_eq!(list(&lists, 2), [2, 4]);
        assert_eq!(list(&lists, 3), [0, 0]);
        assert_eq!(list(&lists, 4), [2]);
    }

    #[test]
    fn self_loops_are_kept_removed_or_one_a_node() {
        let without = lists(5, edges(), Changes { self_loops: SelfLoops::Remove, ..UNCHANGED }, false);
        assert_eq!(list(&without, 2), [4]);
        let with = lists(5, edges(), Changes { self_loops: SelfLoops::Add, ..UNCHANGED }, false);
        for node in 0..5 {
            assert_eq!(list(&with, node).iter().filter(|&&id| id == node as i64).count(), 1);
        }
    }

    #[test]
    fn many_lists_are_sorted_across_tasks() {
        let nodes = 2 * NODES_PER_TASK + 17;
        let edges: Vec<(i64, i64)> = (0..nodes as i64)
            .flat_map(|node| (0..4).map(move |i| ((node * 7 + i * 5003) % nodes as i64, node)))
            .collect();
        let lists = lists(nodes, edges, Changes { deduplicate: true, ..UNCHANGED }, false);
        for node in 0..nodes {
            assert!(list(&lists, node).is_sorted_by(|a, b| a < b), "list of {node}");
            assert_eq!(list(&lists, node).len(), 4);
        }
    }

    #[test]
    fn a_graph_without_edges_has_empty_lists() {
        let all = Changes { symmetrise: true, deduplicate: true, self_loops: SelfLoops::Remove };
        assert_eq!(lists(3, Vec::new(), all, false).indptr, [0; 4]);
        assert_eq!(lists(0, Vec::new(), all, false).indptr, [0]);
    }
}
