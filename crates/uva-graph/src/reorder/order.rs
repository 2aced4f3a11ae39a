//! The order of the nodes.

use rayon::prelude::*;

use crate::GraphError;

/// Values that one task moves.
const CHUNK: usize = 1 << 16;

/// Numbers below some bound, in 32 bits each if that bound allows.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Compact {
    U32(Vec<u32>),
    U64(Vec<u64>),
}

impl Compact {
    /// `len` zeros, for numbers below `len`.
    fn zeros(len: usize) -> Compact {
        // The largest number is len - 1.
        if len as u64 <= 1 << 32 { Compact::U32(vec![0; len]) } else { Compact::U64(vec![0; len]) }
    }

    fn len(&self) -> usize {
        match self {
            Compact::U32(values) => values.len(),
            Compact::U64(values) => values.len(),
        }
    }

    #[inline]
    fn get(&self, i: usize) -> usize {
        match self {
            Compact::U32(values) => values[i] as usize,
            Compact::U64(values) => values[i] as usize,
        }
    }

    #[inline]
    fn find(&self, i: usize) -> Option<usize> {
        match self {
            Compact::U32(values) => values.get(i).map(|&value| value as usize),
            Compact::U64(values) => values.get(i).map(|&value| value as usize),
        }
    }

    #[inline]
    fn set(&mut self, i: usize, value: usize) {
        match self {
            Compact::U32(values) => values[i] = value as u32,
            Compact::U64(values) => values[i] = value as u64,
        }
    }
}

/// An order of all nodes of a graph: a permutation of `0..len`, checked. Takes 4 bytes per node up to 2³² nodes, 8
/// beyond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOrder {
    nodes: Compact,
    identity: bool,
}

impl NodeOrder {
    /// Every node at the place given by its id.
    #[must_use]
    pub fn identity(nodes: usize) -> NodeOrder {
        let mut order = Compact::zeros(nodes);
        for node in 0..nodes {
            order.set(node, node);
        }
        NodeOrder { nodes: order, identity: true }
    }

    /// The order that starts with the nodes of `first`, followed by all others in ascending order. `nodes` is the
    /// number of nodes in the graph.
    ///
    /// # Errors
    /// If `first` names a node that does not exist, or one twice.
    pub fn from_first(nodes: usize, first: &[i64]) -> Result<NodeOrder, GraphError> {
        let refuse = |message: String| GraphError::usage("the order of nodes", message);
        let mut order = Compact::zeros(nodes);
        let mut taken = vec![0_u64; nodes.div_ceil(64)];
        for (place, &id) in first.iter().enumerate() {
            let node = usize::try_from(id).ok().filter(|&node| node < nodes).ok_or_else(|| {
                refuse(format!("entry {place} is {id}, {}", crate::storage::verify::outside(nodes as u64)))
            })?;
            let bit = 1 << (node % 64);
            if taken[node / 64] & bit != 0 {
                return Err(refuse(format!("entry {place} names node {id} again")));
            }
            taken[node / 64] |= bit;
            order.set(place, node);
        }
        let mut place = first.len();
        for node in 0..nodes {
            if taken[node / 64] & (1 << (node % 64)) == 0 {
                order.set(place, node);
                place += 1;
            }
        }
        // The others ascend, so nothing moved if and only if the first ones are at their own places.
        let identity = first.iter().enumerate().all(|(place, &node)| node == place as i64);
        Ok(NodeOrder { nodes: order, identity })
    }

    /// The number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is not a node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether every node keeps its place.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.identity
    }

    /// The node at `place`.
    ///
    /// # Panics
    /// If `place` is not below [`len`](Self::len).
    #[inline]
    #[must_use]
    pub fn node(&self, place: usize) -> usize {
        self.nodes.get(place)
    }

    /// The nodes, place by place.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = i64> + '_ {
        (0..self.len()).map(|place| self.nodes.get(place) as i64)
    }

    /// The inverse: the place of each node. It takes as many bytes as the order itself.
    #[must_use]
    pub fn places(&self) -> Places {
        let mut places = Compact::zeros(self.len());
        // A scatter: every write goes to another place, so threads would mostly share cache lines and wait on memory.
        for place in 0..self.len() {
            places.set(self.nodes.get(place), place);
        }
        Places(places)
    }
}

/// The place of each node: the inverse of a [`NodeOrder`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places(Compact);

impl Places {
    /// The place of `node`.
    ///
    /// # Panics
    /// If `node` is not a node of the order.
    #[inline]
    #[must_use]
    pub fn of(&self, node: i64) -> usize {
        // A negative id becomes larger than any length.
        self.0.get(node as usize)
    }

    /// The place of `node`; `None` if the order has no such node.
    #[inline]
    #[must_use]
    pub fn find(&self, node: i64) -> Option<usize> {
        self.0.find(node as usize)
    }

    /// Writes the place of every node of `nodes`, in parallel.
    ///
    /// # Errors
    /// The first position in `nodes` that holds no node.
    pub(super) fn of_all(&self, nodes: &[i64], out: &mut [i64]) -> Result<(), usize> {
        let chunks = out.par_chunks_mut(CHUNK).zip(nodes.par_chunks(CHUNK)).enumerate();
        let wrong = chunks.find_map_first(|(chunk, (out, nodes))| {
            for (at, (place, &node)) in out.iter_mut().zip(nodes).enumerate() {
                match self.find(node) {
                    Some(found) => *place = found as i64,
                    None => return Some(chunk * CHUNK + at),
                }
            }
            None
        });
        wrong.map_or(Ok(()), Err)
    }
}

/// Writes `value` of the node at every place from `begin` on, in parallel.
pub(super) fn by_place<T: Send>(
    order: &NodeOrder,
    begin: usize,
    out: &mut [T],
    value: impl Fn(usize) -> T + Sync,
) {
    out.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, out)| {
        let begin = begin + chunk * CHUNK;
        for (place, out) in (begin..).zip(out) {
            *out = value(order.node(place));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(nodes: usize, first: &[i64]) -> Vec<i64> {
        NodeOrder::from_first(nodes, first).unwrap().nodes().collect()
    }

    #[test]
    fn the_first_come_first_and_the_others_ascend() {
        assert_eq!(order(6, &[4, 1]), [4, 1, 0, 2, 3, 5]);
        assert_eq!(order(3, &[]), [0, 1, 2]);
        assert_eq!(order(3, &[2, 1, 0]), [2, 1, 0]);
        assert_eq!(order(0, &[]), [0_i64; 0]);
    }

    #[test]
    fn places_undo_the_order() {
        let first: Vec<i64> = (0..500).map(|i| i * 7919 % 1000).collect();
        let order = NodeOrder::from_first(1000, &first).unwrap();
        let places = order.places();
        for place in 0..1000 {
            assert_eq!(places.of(order.node(place) as i64), place);
        }
        let nodes: Vec<i64> = order.nodes().collect();
        let mut all = vec![-1; 1000];
        places.of_all(&nodes, &mut all).unwrap();
        assert!(all.iter().copied().eq(0..1000));
        for wrong in [-1, 1000, i64::MAX] {
            assert_eq!(places.find(wrong), None);
            assert_eq!(places.of_all(&[3, wrong, wrong], &mut [0; 3]), Err(1));
        }
    }

    #[test]
    fn an_order_that_moves_nothing_says_so() {
        assert!(NodeOrder::identity(5).is_identity());
        assert!(NodeOrder::from_first(5, &[0, 1, 2]).unwrap().is_identity());
        assert_eq!(NodeOrder::from_first(5, &[]).unwrap(), NodeOrder::identity(5));
        assert!(!NodeOrder::from_first(5, &[1]).unwrap().is_identity());
        assert!(!NodeOrder::from_first(5, &[0, 2]).unwrap().is_identity());
    }

    #[test]
    fn nodes_that_are_not_there_or_come_twice_are_refused() {
        let refusal = |first: &[i64]| NodeOrder::from_first(4, first).unwrap_err().to_string();
        assert_eq!(refusal(&[1, 4]), "the order of nodes: entry 1 is 4, outside the ids 0 to 3");
        assert_eq!(refusal(&[-1]), "the order of nodes: entry 0 is -1, outside the ids 0 to 3");
        assert_eq!(refusal(&[2, 0, 2]), "the order of nodes: entry 2 names node 2 again");
        assert_eq!(refusal(&[0, 1, 2, 3, 0]), "the order of nodes: entry 4 names node 0 again");
    }
}
