//! Graphs built from lists, and the sampler as one would write it without caring for speed.
#![allow(dead_code, reason = "each test file uses a part of it")]

use uva_graph::{Csc, Indices, Split};
use uva_sample::philox::{Purpose, StreamKey};
use uva_sample::{
    BatchBounds, BatchKey, BlockRef, Expand, MiniBatch, NeighborSampler, SamplerOptions, batch_of_picks,
};

/// A graph that owns its arrays.
#[derive(Clone, Debug)]
pub struct Graph {
    pub indptr: Vec<i64>,
    pub indices: Ids,
    pub original_ids: Option<Vec<i64>>,
}

/// Neighbour ids in one of the two widths.
#[derive(Clone, Debug)]
pub enum Ids {
    I32(Vec<i32>),
    I64(Vec<i64>),
}

impl Graph {
    /// With 64-bit ids.
    pub fn from_lists(lists: &[Vec<i64>]) -> Self {
        let ends = lists.iter().scan(0, |end, list| {
            *end += list.len() as i64;
            Some(*end)
        });
        Self {
            indptr: std::iter::once(0).chain(ends).collect(),
            indices: Ids::I64(lists.concat()),
            original_ids: None,
        }
    }

    /// The same with 32-bit ids.
    pub fn narrow(mut self) -> Self {
        if let Ids::I64(wide) = self.indices {
            self.indices = Ids::I32(wide.into_iter().map(|id| i32::try_from(id).unwrap()).collect());
        }
        self
    }

    pub fn csc(&self) -> Csc<'_> {
        let indices = match &self.indices {
            Ids::I32(ids) => Indices::I32(ids),
            Ids::I64(ids) => Indices::I64(ids),
        };
        Csc { indptr: &self.indptr, indices, original_ids: self.original_ids.as_deref() }
    }

    pub fn list(&self, node: i64) -> Vec<i64> {
        let csc = self.csc();
        let range = csc.indptr[node as usize]..csc.indptr[node as usize + 1];
        range.map(|position| csc.indices.get(position as usize)).collect()
    }

    pub fn sampler(&self, fanouts: &[i32], replace: bool, seed: u64) -> NeighborSampler<'_> {
        NeighborSampler::new(
            self.csc(),
            SamplerOptions { fanouts: fanouts.to_vec(), replace, seed, ..SamplerOptions::default() },
        )
        .unwrap()
    }

    /// A batch with room for whatever `seeds` seeds can lead to.
    pub fn room(&self, seeds: usize, fanouts: &[i32]) -> MiniBatch {
        self.room_for(seeds, &SamplerOptions { fanouts: fanouts.to_vec(), ..SamplerOptions::default() })
    }

    /// The same for any options.
    pub fn room_for(&self, seeds: usize, options: &SamplerOptions) -> MiniBatch {
        let (nodes, edges) = (self.csc().nodes(), self.csc().edges());
        let bounds = BatchBounds::for_options(options, seeds.max(1), nodes, edges, Some(usize::MAX)).unwrap();
        MiniBatch::with_bounds(&bounds)
    }
}

pub fn key(batch: u32) -> BatchKey {
    BatchKey { split: Split::Train, epoch: 0, batch }
}

/// A batch by the plain method: nodes, and (indptr, indices) for each hop.
pub type Plain = (Vec<i64>, Vec<(Vec<i32>, Vec<i32>)>);

/// What [`NeighborSampler`] must produce, with linear searches only.
pub fn plainly(graph: &Graph, options: &SamplerOptions, key: BatchKey, seeds: &[i64]) -> Plain {
    let mut nodes = seeds.to_vec();
    let mut blocks: Vec<(Vec<i32>, Vec<i32>)> = Vec::new();
    for (layer, &fanout) in options.fanouts.iter().enumerate() {
        let (mut indptr, mut indices) = match (options.expand, blocks.last()) {
            (Expand::New, Some(before)) => before.clone(),
            _ => (vec![0], Vec::new()),
        };
        for destination in nodes.clone().into_iter().skip(indptr.len() - 1) {
            let list = graph.list(destination);
            let original = graph.original_ids.as_ref().map_or(destination, |ids| ids[destination as usize]);
            let mut stream = StreamKey {
                seed: options.seed,
                node: original as u64,
                purpose: Purpose::Neighbors,
                layer: layer as u32,
                batch: batch_of_picks(key.batch, original as u64, options.batch_dependency),
                epoch: key.epoch,
                split: key.split,
            }
            .stream();
            let degree = list.len() as u32;
            let picks: Vec<u32> = if fanout == -1 || degree <= fanout as u32 {
                (0..degree).collect()
            } else if options.replace {
                (0..fanout).map(|_| stream.bounded(degree)).collect()
            } else {
                let mut picks = Vec::new();
                for j in degree - fanout as u32..degree {
                    let drawn = stream.bounded(j + 1);
                    picks.push(if picks.contains(&drawn) { j } else { drawn });
                }
                picks
            };
            for position in picks {
                let neighbor = list[position as usize];
                let local = nodes.iter().position(|&node| node == neighbor).unwrap_or_else(|| {
                    nodes.push(neighbor);
                    nodes.len() - 1
                });
                indices.push(local as i32);
            }
            indptr.push(indices.len() as i32);
        }
        blocks.push((indptr, indices));
    }
    (nodes, blocks)
}

/// The content of a batch in the form of [`plainly`], its counts checked against each other.
pub fn content(batch: &MiniBatch) -> Plain {
    let blocks: Vec<BlockRef<'_>> = batch.blocks().collect();
    assert_eq!(blocks.len(), batch.counts().layer_count);
    let mut destinations = batch.seeds().len();
    for block in &blocks {
        assert_eq!(block.destinations, destinations, "destinations are the sources of the hop before");
        assert_eq!(block.indptr.len(), block.destinations + 1);
        assert_eq!(block.indptr[0], 0);
        assert_eq!(*block.indptr.last().unwrap() as usize, block.indices.len());
        assert!(block.indptr.is_sorted());
        assert!(block.indices.iter().all(|&local| (local as usize) < block.sources));
        destinations = block.sources;
    }
    assert_eq!(batch.nodes().len(), destinations, "the last sources are all nodes");
    (
        batch.nodes().to_vec(),
        blocks.iter().map(|block| (block.indptr.to_vec(), block.indices.to_vec())).collect(),
    )
}
