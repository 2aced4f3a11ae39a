//! The sink of picks: positions in the graph's `indices` come in, local ids of the block go out.

use super::list::{Hop, List, NodeId};
use crate::local_ids::{LocalIds, RelabelError};
use crate::{Capacity, SampleError};

/// Buffered positions: the ids at those positions, and then their local ids, are looked up in bulk.
pub(crate) struct Waiting {
    positions: Vec<usize>,
    ids: Vec<i64>,
}

impl Waiting {
    /// For this many positions at once.
    pub(crate) fn new(most: usize) -> Self {
        Self { positions: vec![0; most], ids: vec![0; most] }
    }
}

/// Takes the picks of one hop, destination by destination, in the order of picking.
pub struct Sink<'a> {
    pub(super) local_ids: &'a mut LocalIds,
    pub(super) waiting: &'a mut Waiting,
    /// The number of buffered positions.
    pub(super) used: usize,
    /// The first local id of the hop's new nodes.
    pub(super) first: usize,
    /// Room for the new nodes, and their number.
    pub(super) fresh: &'a mut [i64],
    pub(super) found: usize,
    /// Room for the block's local ids, and their number.
    pub(super) indices: &'a mut [i32],
    pub(super) edges: usize,
    /// Room for the positions themselves; empty if not requested.
    pub(super) edge_ids: &'a mut [i64],
    /// Room for the weights of the picks, and their number. Empty if the kind weighs none.
    pub(super) weights: &'a mut [f32],
    pub(super) weighed: usize,
    /// Room for all nodes: for the message when it is full.
    pub(super) nodes_room: usize,
}

impl Sink<'_> {
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

    /// Reads the ids at the buffered positions, and writes their local ids to the block.
    pub(super) fn write<I: NodeId>(&mut self, hop: &Hop<'_, I>) -> Result<(), SampleError> {
        let positions = &self.waiting.positions[..self.used];
        let ids = &mut self.waiting.ids[..positions.len()];
        for (&position, id) in positions.iter().zip(ids.iter_mut()) {
            *id = hop.indices[position].widen();
        }
        let block = self.edges..self.edges + positions.len();
        if let Some(edge_ids) = self.edge_ids.get_mut(block.clone()) {
            for (&position, edge_id) in positions.iter().zip(edge_ids) {
                *edge_id = position as i64;
            }
        }
        self.edges = block.end;
        self.used = 0;
        let locals = &mut self.indices[block];
        match self.local_ids.relabel(ids, self.first, self.fresh, &mut self.found, locals) {
            Ok(()) => Ok(()),
            Err(RelabelError::NotANode { at }) => Err(hop.no_node(positions[at])),
            Err(RelabelError::NoRoom) => {
                let (key, capacity) = (hop.batch, self.nodes_room);
                Err(SampleError::BatchTooLarge { key, what: Capacity::Nodes, capacity })
            }
        }
    }
}
