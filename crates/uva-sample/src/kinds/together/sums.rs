//! Nodes drawn from the whole graph in proportion to an importance.

use uva_graph::Indices;

use super::draw::importance;
use crate::hops::NodeId;
use crate::{GraphView, InvalidOption, SampleError, SamplerKind};

/// Prefix sums of all nodes' importance, in the order of original ids, so that a draw does not depend on the graph's
/// order. It uses 8 bytes per node, and 8 more if the graph has been reordered.
pub struct Sums {
    ends: Vec<u64>,
    /// The nodes in that order; empty if it is the order of the ids.
    order: Vec<u64>,
}

/// The result of a draw.
#[derive(Clone, Copy)]
pub struct DrawnPlace {
    /// The node's place in the order of original ids.
    pub place: usize,
    /// The offset of the draw after the sum of all previous nodes. It is below the node's importance.
    pub rest: u64,
}

impl Sums {
    /// From the importance of each node, by the graph's ids.
    ///
    /// # Errors
    /// [`InvalidOption::ImportanceTooLarge`] if the sum exceeds 64 bits.
    pub fn new(
        graph: &GraphView<'_>,
        kind: SamplerKind,
        importance: Option<Vec<u64>>,
    ) -> Result<Self, InvalidOption> {
        let nodes = graph.csc.nodes();
        let too_large = || InvalidOption::ImportanceTooLarge { kind, nodes };
        let importance = importance.ok_or_else(too_large)?;
        let mut order = Vec::new();
        if let Some(original) = graph.csc.original_ids {
            order.extend(0..nodes as u64);
            order.sort_unstable_by_key(|&node| (original[node as usize], node));
        }
        let mut ends = match order.is_empty() {
            true => importance,
            false => order.iter().map(|&node| importance[node as usize]).collect(),
        };
        let mut total = 0_u64;
        for end in &mut ends {
            total = total.checked_add(*end).ok_or_else(too_large)?;
            *end = total;
        }
        Ok(Self { ends, order })
    }

    /// The sum of all; `None` if nothing can be drawn.
    #[inline]
    pub fn total(&self) -> Option<u64> {
        self.ends.last().copied().filter(|&total| total > 0)
    }

    /// The position of a number below the sum of all.
    #[inline]
    pub fn place(&self, drawn: u64) -> DrawnPlace {
        let place = self.ends.partition_point(|&end| end <= drawn);
        DrawnPlace { place, rest: drawn - self.before(place) }
    }

    /// The node at a place.
    #[inline]
    pub fn node(&self, place: usize) -> usize {
        self.order.get(place).map_or(place, |&node| node as usize)
    }

    /// The importance of the node at a place.
    #[inline]
    pub fn importance(&self, place: usize) -> u64 {
        self.ends[place] - self.before(place)
    }

    fn before(&self, place: usize) -> u64 {
        place.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}

/// The importance that lists give to their entries, summed over the graph, by the graph's ids; `None` if the importance
/// of a node exceeds 64 bits.
///
/// # Errors
/// An invalid graph.
pub fn by_entries(graph: &GraphView<'_>) -> Result<Option<Vec<u64>>, SampleError> {
    let mut sums = vec![0_u64; graph.csc.nodes()];
    let whole = each_entry(
        graph,
        |_, degree| importance(degree),
        |_, more, neighbor| add(&mut sums[neighbor], more),
    )?;
    Ok(whole.then_some(sums))
}

/// Adds `more`; returns false if the sum exceeds 64 bits.
pub fn add(sum: &mut u64, more: u64) -> bool {
    let added = sum.checked_add(more);
    *sum = added.unwrap_or(*sum);
    added.is_some()
}

/// Visits the entries of all lists until `each` returns false. `each` gets the list's node, the result of `of_list` for
/// that node and the list's length, and the node that the entry names. Returns whether all entries were visited.
///
/// # Errors
/// An invalid graph.
pub fn each_entry<T: Copy>(
    graph: &GraphView<'_>,
    of_list: impl Fn(usize, usize) -> T,
    each: impl FnMut(usize, T, usize) -> bool,
) -> Result<bool, SampleError> {
    match graph.csc.indices {
        Indices::I32(indices) => each_of(graph.csc.indptr, indices, of_list, each),
        Indices::I64(indices) => each_of(graph.csc.indptr, indices, of_list, each),
    }
}

fn each_of<I: NodeId, T: Copy>(
    indptr: &[i64],
    indices: &[I],
    of_list: impl Fn(usize, usize) -> T,
    mut each: impl FnMut(usize, T, usize) -> bool,
) -> Result<bool, SampleError> {
    let nodes = indptr.len().saturating_sub(1);
    let edges = indices.len();
    for (node, ends) in indptr.windows(2).enumerate() {
        let (begin, end) = (ends[0], ends[1]);
        if begin as u64 > end as u64 || end as u64 > edges as u64 {
            return Err(SampleError::InvalidList { node: node as i64, begin, end, edges });
        }
        let of_list = of_list(node, (end - begin) as usize);
        for (position, id) in (begin as usize..).zip(&indices[begin as usize..end as usize]) {
            let neighbor = id.widen();
            // Cast to unsigned, a negative id exceeds any number of nodes.
            if neighbor as u64 >= nodes as u64 {
                return Err(SampleError::InvalidNeighbor { position, neighbor, nodes });
            }
            if !each(node, of_list, neighbor as usize) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
