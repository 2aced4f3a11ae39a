//! What makes two picks one node of a batch.

use uva_graph::Relation;

use super::draws::Drawing;
use super::list::{Hop, NodeId};
use super::picks::{PickResult, Picks};
use super::sink::BlockRoom;
use crate::{BatchMut, ListReads, SampleError, SamplerOptions, Seeds, TypedView};

/// The nodes of a batch by what identifies them, which gives them their local ids.
pub trait Identity<'g>: Send + Sized {
    /// For options that have been checked against the graph.
    ///
    /// # Errors
    /// If the system lacks memory.
    fn new(graph: &TypedView<'g>, options: &SamplerOptions) -> Result<Self, SampleError>;

    /// Begins a batch without nodes.
    ///
    /// # Errors
    /// Seeds that do not fit.
    fn begin(&mut self, seeds: Seeds<'_>) -> PickResult;

    /// Makes the seeds the first nodes of their type, `of`. They are nodes of the graph, and the first of `nodes`.
    ///
    /// # Errors
    /// Too many seeds.
    fn take_seeds(&mut self, of: usize, seeds: &[i64], nodes: &mut [i64]) -> PickResult;

    /// Draws from a relation's lists of some destinations, and gives the nodes found their local ids. `count` receives the
    /// number of picks of each list, in order, before they are written.
    ///
    /// # Errors
    /// An invalid graph, and a full batch.
    fn draw<I: NodeId, P: Picks<'g>>(
        &mut self,
        drawing: &mut Drawing<'g, P>,
        hop: (Relation, &Hop<'_, I>, usize),
        destinations: Destinations<'_>,
        room: BlockRoom<'_>,
        weights: (&mut [f32], usize),
        count: impl FnMut(usize) -> PickResult,
    ) -> Result<ListReads, SampleError>;

    /// Writes what a batch has in addition to nodes and blocks. The result is its summand of the batch's hash.
    ///
    /// # Errors
    /// Memory that is too short for it.
    fn finish(&self, _seeds: Seeds<'_>, _out: &mut BatchMut<'_, '_>) -> Result<u64, SampleError> {
        Ok(0)
    }

    /// Draws the picks that other ranks request in the hops of a batch, if this rank has no batch.
    ///
    /// # Errors
    /// As [`draw`](Self::draw).
    fn serve<P: Picks<'g>>(&mut self, _drawing: &mut Drawing<'g, P>) -> PickResult {
        Ok(())
    }

    /// Ends an exchange with other ranks after a failure, since the ranks are then at different calls and must not wait
    /// for this one.
    fn give_up(&self, _error: &SampleError) {}
}

/// The destinations of a hop that are drawn for.
pub struct Destinations<'a> {
    /// Their ids.
    pub nodes: &'a [i64],
    /// The local id of the first.
    pub first: usize,
    /// Their type, and that of the neighbours.
    pub destination: usize,
    /// The type of the neighbours.
    pub source: usize,
}
