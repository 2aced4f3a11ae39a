//! One hop's view of the graph, and the lists of a group of its destinations.

use crate::options::batch_of_picks;
use crate::philox::StreamKey;
use crate::{BatchKey, SampleError, TypeView};

/// One destination in its group.
#[derive(Clone, Copy, Default)]
pub struct List {
    /// Original id: the key of the random words.
    pub(crate) key: u64,
    /// The batch number that keys them: [`batch_of_picks`].
    pub(crate) batch: u32,
    /// The start of the list in the graph's `indices`.
    pub(crate) begin: usize,
    pub(crate) degree: usize,
    /// How many of its entries are picked.
    pub(crate) picks: usize,
}

/// One hop of one batch.
pub struct Hop<'a, I> {
    pub(crate) batch: BatchKey,
    pub(crate) layer: usize,
    /// The maximum number of picks from a list, or, for a kind that draws together, the draws for all lists of the hop.
    /// `usize::MAX` takes every list whole.
    pub(crate) fanout: usize,
    /// Random words of the hop; node and batch are set for each list or neighbour.
    pub(crate) like: StreamKey,
    pub(crate) indptr: &'a [i64],
    pub(crate) indices: &'a [I],
    /// Original ids of the destinations' type.
    pub(crate) original_ids: Option<&'a [i64]>,
    /// The type of the neighbours.
    pub(crate) sources: TypeView<'a>,
    pub(crate) batch_dependency: u32,
}

/// An id in one of the two widths of a file.
pub trait NodeId: bytemuck::Pod {
    fn widen(self) -> i64;
}

impl NodeId for i32 {
    #[inline(always)]
    fn widen(self) -> i64 {
        self.into()
    }
}

impl NodeId for i64 {
    #[inline(always)]
    fn widen(self) -> i64 {
        self
    }
}

impl<I: NodeId> Hop<'_, I> {
    /// Reads the bounds of the lists of a group of nodes, which are in range. No picks are made yet.
    pub(crate) fn find_lists(&self, group: &[i64], lists: &mut [List]) -> Result<(), SampleError> {
        for (&node, list) in group.iter().zip(lists.iter_mut()) {
            let (begin, degree) = self.place_of_list(node as usize)?;
            *list = List { key: node as u64, batch: self.batch.batch, begin, degree, picks: 0 };
        }
        if let Some(original) = self.original_ids {
            for (&node, list) in group.iter().zip(lists.iter_mut()) {
                list.key = original[node as usize] as u64;
            }
        }
        if self.batch_dependency > 1 {
            for list in lists {
                list.batch = self.batch_of(list.key);
            }
        }
        Ok(())
    }

    /// The start and the length of the list of a node, which is in range.
    #[inline]
    pub(crate) fn place_of_list(&self, node: usize) -> Result<(usize, usize), SampleError> {
        let (begin, end) = (self.indptr[node], self.indptr[node + 1]);
        // One comparison each refuses negative numbers too: cast to unsigned, they exceed any length.
        if begin as u64 > end as u64 || end as u64 > self.indices.len() as u64 {
            return Err(SampleError::InvalidList {
                node: node as i64,
                begin,
                end,
                edges: self.indices.len(),
            });
        }
        Ok((begin as usize, (end - begin) as usize))
    }

    /// The batch number that keys the words of the node with this original id.
    #[inline]
    pub(crate) fn batch_of(&self, key: u64) -> u32 {
        batch_of_picks(self.batch.batch, key, self.batch_dependency)
    }

    /// The error for an entry that is not a node.
    #[cold]
    pub(crate) fn no_node(&self, position: usize) -> SampleError {
        SampleError::InvalidNeighbor {
            position,
            neighbor: self.indices[position].widen(),
            nodes: self.sources.nodes,
        }
    }
}
