//! The layout of a batch and its scratch in one piece of device memory.

use crate::{BatchBounds, HopShape, SamplerOptions};
use uva_cuda::kernels::sample::{SampleArguments, SampleReport};
use uva_graph::Relation;

use crate::cuda::arena::Arena;

/// The place of a layer's block in device memory, and its size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerPlace {
    pub(crate) shape: HopShape,
    pub(crate) indptr: u64,
    pub(crate) destinations: usize,
    pub(crate) indices: u64,
    pub(crate) edges: usize,
    /// 0 if edge ids are not requested.
    pub(crate) edge_ids: u64,
}

/// Arrays that only some samplers need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extras {
    /// In-degrees of the nodes.
    pub(crate) degrees: bool,
    /// Positions of the lists in the dataset.
    pub(crate) homes: bool,
    /// Sums of the weights of lists.
    pub(crate) weights: bool,
    /// A batch; else only scratch.
    pub(crate) batch: bool,
}

/// The arrays, one after the other.
#[derive(Debug)]
pub(crate) struct ArrayLayout {
    /// Bytes of all arrays.
    pub(crate) bytes: usize,
    /// The arguments that name these arrays, with defaults for the rest.
    pub(crate) arguments: SampleArguments,
    pub(crate) layers: Vec<LayerPlace>,
}

impl ArrayLayout {
    /// The layout for batches within these bounds, which have one layer per fanout, and for launches of at most this
    /// many blocks. The first array is at `address`; the total size does not depend on it.
    pub(crate) fn at(
        address: u64,
        sampler: &SamplerOptions,
        bounds: &BatchBounds,
        blocks: usize,
        extras: Extras,
    ) -> Self {
        // Local ids are 32 bits, so memory beyond them is useless.
        let most = i32::MAX as usize;
        let nodes_room = bounds.nodes().min(most);
        let mut arena = Arena::default();
        let mut take = |count: usize, each: usize| address + arena.take(count, each) as u64;
        let mut take_for_batch = |wanted: bool, count: usize, each: usize| match wanted && extras.batch {
            true => take(count, each),
            false => 0,
        };
        let batch_nodes = take_for_batch(true, nodes_room, 8);
        let node_degrees = take_for_batch(extras.degrees, nodes_room, 4);
        let layers: Vec<LayerPlace> = (bounds.blocks.iter().zip(sampler.fanouts.of_relation(Relation::ONLY)))
            .map(|(layer, fanout)| {
                let (destinations, edges) = (layer.destinations.min(most), layer.edges.min(most));
                LayerPlace {
                    shape: HopShape::of(fanout),
                    indptr: take_for_batch(true, destinations + 1, 4),
                    destinations,
                    indices: take_for_batch(true, edges, 4),
                    edges,
                    edge_ids: take_for_batch(sampler.edge_ids, edges, 8),
                }
            })
            .collect();
        let destinations = layers.iter().map(|layer| layer.destinations).max().unwrap_or(0);
        let edges = layers.iter().map(|layer| layer.edges).max().unwrap_or(0);
        let arguments = SampleArguments {
            batch_nodes,
            nodes_room: nodes_room as u64,
            node_degrees,
            slots: take(edges, 8),
            begins: take(destinations, 8),
            degrees: take(destinations, 4),
            homes: if extras.homes { take(destinations, 8) } else { 0 },
            existing: if extras.weights { take(destinations, 4) } else { 0 },
            heaviest: if extras.weights { take(destinations, 4) } else { 0 },
            totals: take(blocks, 8),
            report: take(1, SampleReport::BYTES),
            ..SampleArguments::default()
        };
        Self { bytes: arena.bytes(), arguments, layers }
    }
}
