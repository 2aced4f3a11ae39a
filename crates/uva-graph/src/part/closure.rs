//! The nodes of a part.

use super::members::Members;
use crate::Csc;

/// The distance of a node outside of the part.
const FAR: u8 = u8::MAX;

/// The distance of each node from a part's roots, up to a number of in-hops. Takes one byte per node of the whole
/// graph.
#[derive(Debug)]
pub(super) struct Closure {
    hops: u8,
    distance: Vec<u8>,
}

impl Closure {
    /// Computes the nodes within `hops` in-hops of `roots`. The roots and all neighbours must be nodes of `csc`.
    ///
    /// # Panics
    /// If a root or a neighbour is not a node.
    pub(super) fn of(csc: &Csc<'_>, roots: impl Iterator<Item = i64>, hops: u8) -> Closure {
        let mut distance = vec![FAR; csc.nodes()];
        let (mut frontier, mut next) = (Vec::new(), Vec::new());
        for root in roots {
            if std::mem::replace(&mut distance[root as usize], 0) == FAR {
                frontier.push(root as usize);
            }
        }
        for hop in 1..=hops {
            for &node in &frontier {
                for neighbour in list(csc, node) {
                    if distance[neighbour] == FAR {
                        distance[neighbour] = hop;
                        next.push(neighbour);
                    }
                }
            }
            std::mem::swap(&mut frontier, &mut next);
            next.clear();
        }
        Closure { hops, distance }
    }

    /// The nodes of the part.
    pub(super) fn members(&self) -> Members {
        Members::of(self.distance.len(), |node| self.distance[node] != FAR)
    }

    /// Whether the part has the whole list of `node`, rather than an empty one.
    #[inline]
    pub(super) fn has_list(&self, node: usize) -> bool {
        self.distance[node] < self.hops
    }
}

/// The neighbours of `node`.
pub(super) fn list<'c>(csc: &Csc<'c>, node: usize) -> impl Iterator<Item = usize> + use<'c> {
    let indices = csc.indices;
    (csc.indptr[node] as usize..csc.indptr[node + 1] as usize).map(move |edge| indices.get(edge) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Indices;

    /// The path 0 ← 1 ← 2 ← 3 ← 4 and the isolated node 5.
    const INDPTR: [i64; 7] = [0, 1, 2, 3, 4, 4, 4];
    const INDICES: [i32; 4] = [1, 2, 3, 4];

    fn path() -> Csc<'static> {
        Csc { indptr: &INDPTR, indices: Indices::I32(&INDICES), original_ids: None, degrees: None }
    }

    #[test]
    fn a_closure_ends_at_its_last_hop_whose_lists_it_does_not_have() {
        let csc = path();
        let closure = Closure::of(&csc, [0, 5, 0].into_iter(), 2);
        assert!(closure.members().nodes().eq([0, 1, 2, 5]));
        assert_eq!([0, 1, 2, 3, 5].map(|node| closure.has_list(node)), [true, true, false, false, true]);
    }
}
