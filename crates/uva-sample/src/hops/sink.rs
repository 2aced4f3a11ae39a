//! The sink of picks. Its input is positions in the graph's `indices`. Its output is local ids of the block, or, for
//! another rank, the ids themselves.

use super::list::{Hop, List, NodeId};
use crate::batches::local_ids::{LocalIds, RelabelError};
use crate::{BatchKey, Capacity, SampleError};

/// Buffered positions: the ids at those positions, and then their local ids, are looked up in bulk.
pub(crate) struct PendingPositions {
    positions: Vec<usize>,
    ids: Vec<i64>,
}

impl PendingPositions {
    /// Allocates memory for `most` positions.
    pub(crate) fn new(most: usize) -> Self {
        Self { positions: vec![0; most], ids: vec![0; most] }
    }
}

/// Takes the picks of one hop, destination by destination, in the order of picking.
pub struct PickSink<'a> {
    pub(super) waiting: &'a mut PendingPositions,
    /// The number of buffered positions.
    pub(super) used: usize,
    pub(super) to: PickTarget<'a>,
    /// Room for the weights of the picks, and their number. Empty if the kind weighs none.
    pub(super) weights: &'a mut [f32],
    pub(super) weighed: usize,
}

/// The destination of picks.
pub(super) enum PickTarget<'a> {
    /// A block of the current batch.
    Block(BlockTarget<'a>),
    /// The picked nodes themselves, and their positions in the graph's `indices` if requested: for another rank, or for
    /// trees.
    Ids { ids: &'a mut Vec<i64>, edge_ids: Option<&'a mut Vec<i64>> },
}

/// The block that is being sampled.
pub(super) struct BlockTarget<'a> {
    pub local_ids: &'a mut LocalIds,
    pub room: BlockRoom<'a>,
}

/// The room of a block and of the nodes that it finds.
pub struct BlockRoom<'a> {
    /// The first local id of the hop's new nodes.
    pub first: usize,
    /// Room for the new nodes, and their number.
    pub fresh: &'a mut [i64],
    pub found: &'a mut usize,
    /// Room for the block's local ids, and their number.
    pub indices: &'a mut [i32],
    pub edges: &'a mut usize,
    /// Room for the positions themselves; empty if not requested.
    pub edge_ids: &'a mut [i64],
    /// Room for all nodes, for the message when it is full.
    pub nodes_room: usize,
}

impl PickSink<'_> {
    /// Room for `count` consecutive positions, filled by the caller: at most a group's, or one list's picks.
    #[inline]
    pub(crate) fn room<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        count: usize,
    ) -> Result<&mut [usize], SampleError> {
        if self.used + count > self.waiting.positions.len() {
            self.write(hop)?;
        }
        self.used += count;
        Ok(&mut self.waiting.positions[self.used - count..self.used])
    }

    /// Takes one position.
    #[inline]
    pub(crate) fn push<I: NodeId>(&mut self, hop: &Hop<'_, I>, position: usize) -> Result<(), SampleError> {
        self.room(hop, 1)?[0] = position;
        Ok(())
    }

    /// Room for the weights of the next `count` picks, filled by the caller.
    #[inline]
    pub(crate) fn weights(&mut self, count: usize) -> &mut [f32] {
        // A group's picks are counted against this room before any of them is made.
        let weights = &mut self.weights[self.weighed..self.weighed + count];
        self.weighed += count;
        weights
    }

    /// Takes a whole list of any length.
    #[inline]
    pub(crate) fn whole<I: NodeId>(&mut self, hop: &Hop<'_, I>, list: &List) -> Result<(), SampleError> {
        let mut next = list.begin;
        let end = list.begin + list.degree;
        while next < end {
            if self.used == self.waiting.positions.len() {
                self.write(hop)?;
            }
            let piece = (end - next).min(self.waiting.positions.len() - self.used);
            let places = &mut self.waiting.positions[self.used..self.used + piece];
            for (place, position) in places.iter_mut().zip(next..) {
                *place = position;
            }
            self.used += piece;
            next += piece;
        }
        Ok(())
    }

    /// Passes the buffered picks on.
    pub(super) fn write<I: NodeId>(&mut self, hop: &Hop<'_, I>) -> Result<(), SampleError> {
        let positions = &self.waiting.positions[..self.used];
        self.used = 0;
        match &mut self.to {
            PickTarget::Block(block) => {
                let ids = &mut self.waiting.ids[..positions.len()];
                for (&position, id) in positions.iter().zip(ids.iter_mut()) {
                    *id = hop.indices[position].widen();
                }
                let edge_ids = positions.iter().map(|&position| position as i64);
                let nodes_room = block.room.nodes_room;
                block
                    .take(ids, edge_ids)
                    .map_err(|error| error.of_batch(hop.batch, nodes_room, |at| hop.no_node(positions[at])))
            }
            PickTarget::Ids { ids, edge_ids } => {
                let nodes = hop.sources.nodes as u64;
                for &position in positions {
                    let id = hop.indices[position].widen();
                    // Only this code knows the file, for the error. A negative id exceeds any number of nodes.
                    if id.cast_unsigned() >= nodes {
                        return Err(hop.no_node(position));
                    }
                    ids.push(id);
                }
                if let Some(edge_ids) = edge_ids {
                    edge_ids.extend(positions.iter().map(|&position| position as i64));
                }
                Ok(())
            }
        }
    }
}

/// The reason why picks were not taken.
pub(super) enum TakeError {
    /// The pick at that place is not a node.
    NotANode { at: usize },
    /// There are more nodes than capacity.
    NoRoom,
}

impl TakeError {
    /// The error of a batch with this room, if an id that is not a node has that of `no_node`.
    pub fn of_batch(
        self,
        key: BatchKey,
        nodes_room: usize,
        no_node: impl FnOnce(usize) -> SampleError,
    ) -> SampleError {
        match self {
            Self::NotANode { at } => no_node(at),
            Self::NoRoom => SampleError::BatchTooLarge { key, what: Capacity::Nodes, capacity: nodes_room },
        }
    }
}

impl From<RelabelError> for TakeError {
    fn from(error: RelabelError) -> Self {
        match error {
            RelabelError::NotANode { at } => Self::NotANode { at },
            RelabelError::NoRoom => Self::NoRoom,
        }
    }
}

impl BlockTarget<'_> {
    /// Writes the local ids of picked nodes, and their positions in the graph's `indices` if these are requested.
    pub fn take(&mut self, ids: &[i64], edge_ids: impl Iterator<Item = i64>) -> Result<(), TakeError> {
        let Self { local_ids, room } = self;
        room.take(ids.len(), edge_ids, |first, fresh, found, locals| {
            local_ids.relabel(ids, first, fresh, found, locals)
        })
    }
}

impl BlockRoom<'_> {
    /// Writes the edge ids of `picks` picks, if there is room for these, and the local ids that `relabel` writes. It
    /// receives the first local id of new nodes, the room for these and their number, and the room for local
    /// ids.
    #[inline]
    pub(super) fn take(
        &mut self,
        picks: usize,
        edge_ids: impl Iterator<Item = i64>,
        relabel: impl FnOnce(usize, &mut [i64], &mut usize, &mut [i32]) -> Result<(), RelabelError>,
    ) -> Result<(), TakeError> {
        let block = *self.edges..*self.edges + picks;
        if let Some(to) = self.edge_ids.get_mut(block.clone()) {
            to.iter_mut().zip(edge_ids).for_each(|(to, edge_id)| *to = edge_id);
        }
        *self.edges = block.end;
        Ok(relabel(self.first, self.fresh, self.found, &mut self.indices[block])?)
    }
}
