//! The out-neighbours of each node, found from the lists of in-neighbours.

use uva_graph::Csc;

/// For each node the nodes whose lists name it, in the order of original ids. A node occurs as often as it is named.
pub(super) struct OutLists {
    /// The end of each node's list; it begins at the end of the previous list.
    ends: Vec<u64>,
    nodes: Vec<u32>,
}

impl OutLists {
    /// Bytes of the lists of a graph of this size.
    pub fn bytes(nodes: usize, edges: usize) -> u64 {
        (8 * (nodes as u64 + 1)).saturating_add(4 * edges as u64)
    }

    /// Computes the out-lists of a graph. `in_original_order` are its nodes in the order of original ids, or `None` if
    /// that is the order of their ids.
    ///
    /// # Panics
    /// If an entry of a list is not a node. A dataset that was opened has no such entry.
    pub fn new(csc: &Csc<'_>, in_original_order: Option<&[u32]>) -> Self {
        let nodes = csc.nodes();
        // Entry `u + 1` counts the list of `u`, and then holds its start. Filling the list moves this to its end.
        let mut places = vec![0_u64; nodes + 1];
        for entry in 0..csc.edges() {
            places[csc.indices.get(entry) as usize + 1] += 1;
        }
        for node in 0..nodes {
            places[node + 1] += places[node];
        }
        let mut named_by = vec![0_u32; csc.edges()];
        for place in 0..nodes {
            let node = in_original_order.map_or(place, |order| order[place] as usize);
            for entry in csc.indptr[node]..csc.indptr[node + 1] {
                let place = &mut places[csc.indices.get(entry as usize) as usize];
                named_by[*place as usize] = node as u32;
                *place += 1;
            }
        }
        places.pop();
        Self { ends: places, nodes: named_by }
    }

    /// The list of a node.
    pub fn of(&self, node: usize) -> &[u32] {
        let begin = if node == 0 { 0 } else { self.ends[node - 1] };
        &self.nodes[begin as usize..self.ends[node] as usize]
    }
}

#[cfg(test)]
mod tests {
    use uva_graph::Indices;

    use super::*;

    #[test]
    fn a_node_has_those_that_name_it_in_the_order_of_original_ids() {
        // The lists of 0 to 3: [1, 3, 3], [], [3, 2], [1].
        let (indptr, indices) = ([0, 3, 3, 5, 6], [1, 3, 3, 3, 2, 1]);
        let csc = Csc { indptr: &indptr, indices: Indices::I32(&indices), original_ids: None, degrees: None };
        let lists = |order: Option<&[u32]>| {
            let lists = OutLists::new(&csc, order);
            (0..4).map(|node| lists.of(node).to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(lists(None), [vec![], vec![0, 3], vec![2], vec![0, 0, 2]]);
        assert_eq!(lists(Some(&[3, 2, 1, 0])), [vec![], vec![3, 0], vec![2], vec![2, 0, 0]]);
    }
}
